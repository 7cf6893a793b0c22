"""A program for compute-sanitizer: one launch or more of every kind of kernel, on small inputs.

``python -m scripts.gpu_checks.sanitized`` runs all of them; results are compared, so that the
kernels are known to have done their work. ``--planted stray`` and ``--planted race`` run a kernel
that is wrong: a tool that does not see it is not looking.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from benchmarks.gpu import data
from benchmarks.gpu.attention import attention_graph
from benchmarks.gpu.launching import Array, load, up
from benchmarks.gpu.launching import down as to_host
from benchmarks.gpu.minilm import TINY_CONFIG, network
from benchmarks.gpu.products import Forced, force, product_model
from benchmarks.tutorial import minilm_graph
from maxlab import driver
from maxlab.compiler.gpu_templates import product_templates
from maxlab.driver import Accelerator
from maxlab.driver.backend import DeviceSource
from maxlab.dtype import DType
from maxlab.errors import ExecutionError
from maxlab.graph import DeviceRef, Graph, TensorType, TensorValue, ops

F32, BF16 = DType.float32, DType.bfloat16
PLANTED = {
    "stray": DeviceSource(
        "planted_stray",
        """extern "C" __global__ void planted_stray(f32 *x) {
  x[64 + threadIdx.x] = 1.0f; /* there are 64 */
}
""",
    ),
    "race": DeviceSource(
        "planted_race",
        """extern "C" __global__ void planted_race(f32 *x) {
  __shared__ f32 tile[64];
  tile[threadIdx.x] = x[threadIdx.x];
  x[threadIdx.x] = tile[63 - threadIdx.x]; /* no barrier in between */
}
""",
    ),
}
Check = Callable[[Accelerator], None]


def main() -> int:
    """0 if all results are right."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--planted", choices=list(PLANTED))
    parser.add_argument("--few", action="store_true", help="every tenth, to try the program")
    options = parser.parse_args()
    device = driver.Accelerator()
    try:
        if options.planted:
            plant(device, PLANTED[options.planted])
            return 0
        chosen = list(checks())[:: 10 if options.few else 1]
        for name, check in chosen:
            print(name, flush=True)
            check(device)
    except ExecutionError as error:  # the checking simulator's report
        print(error)
        return 1
    print(f"{len(chosen)} programs")
    return 0


def plant(device: Accelerator, source: DeviceSource) -> None:
    """Run a kernel that is wrong on 64 floats."""
    context = device.context

    def run() -> None:
        address = context.allocate(256)
        context.fill(context.default_queue, address, 0, 256)
        (loaded,) = context.load([source])
        threads = 32 if source is PLANTED["stray"] else 64
        context.launch(
            context.default_queue, loaded.function, (1, 1, 1), (threads, 1, 1), 0, [address]
        )
        context.default_queue.synchronize()

    context.call(run)


# ---------------------------------------------------------------- the kernels
def checks() -> Iterator[tuple[str, Check]]:
    """Every program and its name."""
    for dtype in (F32, BF16):
        for shape in ((3, 33), (2, 1500)):
            for name, function, reference in ROWS:
                title = f"{name} {dtype.name} {shape}"
                yield title, partial(rows, dtype, shape, function, reference)
        for number, template in enumerate(product_templates(dtype, False)):
            m = 37 if template.depth else template.rows
            for parts in (1, 3) if template.depth else (1,):
                title = f"{template.config} {dtype.name} {parts}"
                yield title, partial(product, dtype, (m, 150, 71), number, parts)
    for sizes in ((1, 2, 3, 32), (1, 2, 16, 64), (2, 2, 70, 32), (1, 1, 70, 128)):
        for dtype, causal in itertools.product((F32, BF16), (False, True)):
            title = f"attention {dtype.name} {sizes} {causal=}"
            yield title, partial(attention, dtype, sizes, causal)
    yield "an index and a copy", moved
    yield "MiniLM, one layer", model


def _norm(x: Array) -> Array:
    return np.asarray((x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5))


def _softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


def _normalised(x: TensorValue) -> TensorValue:
    centred = x - ops.mean(x)
    return centred * ops.rsqrt(ops.mean(centred * centred) + 1e-5)


Rows = tuple[str, Callable[[TensorValue], TensorValue], Callable[[Array], Array]]
ROWS: tuple[Rows, ...] = (
    ("flat", lambda x: x * x + x, lambda x: np.asarray(x * x + x)),
    ("softmax", ops.softmax, _softmax),
    ("norm", _normalised, _norm),
    ("sum of rows", ops.sum, lambda x: np.asarray(x.sum(-1, keepdims=True))),
    ("max of columns", lambda x: ops.max(x, axis=0), lambda x: np.asarray(x.max(0, keepdims=True))),
)  # fmt: skip


def rows(
    dtype: DType,
    shape: tuple[int, int],
    function: Callable[[TensorValue], TensorValue],
    reference: Callable[[Array], Array],
    device: Accelerator,
) -> None:
    """An elementwise kernel, a fold of rows by warps or by a block, or a fold of columns."""
    with Graph("rows", input_types=[TensorType(dtype, shape, DeviceRef.GPU())]) as graph:
        graph.output(function(graph.inputs[0].tensor))
    x = data.normal(1, shape, dtype)
    (got,) = load(device, graph)(up(device, x))
    data.check(to_host(got), reference(x.astype(np.float64)), dtype, "rows")


def product(
    dtype: DType, shape: tuple[int, int, int], number: int, parts: int, device: Accelerator
) -> None:
    """One template, with so many blocks to a tile."""
    model = product_model(device, dtype, shape)
    force(model, Forced(number, product_templates(dtype, False)[number], parts, shape))
    a, b = data.normal(1, shape[:2], dtype), data.normal(2, shape[1:], dtype)
    (got,) = model(up(device, a), up(device, b))
    data.check(to_host(got), a.astype(np.float64) @ b.astype(np.float64), dtype, "product")


def attention(
    dtype: DType, shape: tuple[int, int, int, int], causal: bool, device: Accelerator
) -> None:
    """One template of attention: decode, short or full, in float32 or on tensor cores."""
    q, k, v = (data.normal(n, shape, dtype) for n in range(3))
    model = load(device, attention_graph(dtype, shape, causal))
    (got,) = model(*(up(device, x) for x in (q, k, v)))
    scores = q.astype(np.float64) @ k.astype(np.float64).swapaxes(-1, -2) * shape[-1] ** -0.5
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
    data.check(to_host(got), _softmax(scores) @ v.astype(np.float64), dtype, "attention")


def moved(device: Accelerator) -> None:
    """Rows by index, beside what was there: kernels whose addresses come from memory."""
    types = [
        TensorType(F32, (7, 13), DeviceRef.GPU()),
        TensorType(DType.int64, (5,), DeviceRef.GPU()),
    ]
    with Graph("moved", input_types=types) as graph:
        x, at = (value.tensor for value in graph.inputs)
        taken = ops.gather(x, at, axis=0)
        graph.output(ops.concat([ops.transpose(x, 0, 1), ops.transpose(taken, 0, 1)], axis=1))
    table, places = data.normal(1, (7, 13), F32), np.array([6, 0, -1, 3, 3])
    (got,) = load(device, graph)(up(device, table), up(device, places))
    np.testing.assert_array_equal(to_host(got), np.concatenate([table.T, table[places].T], 1))


def model(device: Accelerator) -> None:
    """A whole model."""
    names = network(TINY_CONFIG)
    loaded = load(device, minilm_graph(names), names["minilm"].state_dict())
    tokens = np.random.default_rng(0).integers(0, 50, (3, 9))
    mask = np.ones_like(tokens)
    mask[1, 4:] = 0
    (got,) = loaded(up(device, tokens), up(device, mask))
    lengths = np.linalg.norm(to_host(got).astype(np.float64), axis=-1)
    np.testing.assert_allclose(lengths, 1.0, atol=1e-5)


if __name__ == "__main__":
    sys.exit(main())
