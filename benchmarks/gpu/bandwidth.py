"""Kernels that move memory: copies set the ceiling, elementwise and row kernels are held to it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks.gpu import data, peers
from benchmarks.gpu.case import Bench, Goal
from benchmarks.gpu.launching import Array, Launches, down, load, up
from benchmarks.gpu.timing import Contender
from maxlab.driver import Tensor
from maxlab.driver.backend import DeviceSource, Queue
from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, TensorType, TensorValue, ops

COPY = "measured copy"
"""The name of the ceiling: the best rate that a copy reached, bytes read and written."""
SHARE = 0.85
F32, BF16 = DType.float32, DType.bfloat16
EPSILON = 1e-5
_THREADS, _EACH = 256, 4
COPY_KERNEL = DeviceSource(
    "bench_copy",
    f"""struct __align__(16) quad {{ u32 x, y, z, w; }};
extern "C" __global__ void __launch_bounds__({_THREADS}) bench_copy(const u32 *x, u32 *y, i64 n) {{
  const quad *from = reinterpret_cast<const quad *>(x);
  quad *to = reinterpret_cast<quad *>(y);
  const i64 first = blockIdx.x * (i64){_THREADS * _EACH} + threadIdx.x;
  quad kept[{_EACH}];
#pragma unroll
  for (int i = 0; i < {_EACH}; i++)
    if (first + i * {_THREADS} < n) kept[i] = from[first + i * {_THREADS}];
#pragma unroll
  for (int i = 0; i < {_EACH}; i++)
    if (first + i * {_THREADS} < n) to[first + i * {_THREADS}] = kept[i];
}}
""",
)
"""Sixteen bytes an access and four of them on their way before the first is used."""


def run(bench: Bench) -> None:
    """Copies, then everything that is measured against them."""
    bench.guarded("copy", "copy", lambda: copies(bench))
    for case in cases(tiny=bench.tiny):
        bench.guarded(case.group, case.title, partial(measure, bench, case))


def copies(bench: Bench) -> None:
    """The copy kernel beside the driver's own copy; the faster one is the ceiling."""
    context = bench.context
    nbytes = 1 << (16 if bench.tiny else 29)
    source = data.normal(0, (nbytes // 4,), F32)
    x, y = up(bench.device, source), Tensor.zeros([nbytes // 4], F32, bench.device)
    (loaded,) = context.call(lambda: context.load([COPY_KERNEL]))
    quads = nbytes // 16
    grid = (-(-quads // (_THREADS * _EACH)), 1, 1)

    def kernel(queue: Queue) -> None:
        words = [x.address, y.address, quads]
        context.launch(queue, loaded.function, grid, (_THREADS, 1, 1), 0, words)

    def driver(queue: Queue) -> None:
        context.copy(queue, y.address, x.address, nbytes)

    contenders = [Contender("copy kernel", [kernel]), Contender("cuMemcpy", [driver])]
    for contender in contenders:
        context.call(lambda: context.fill(context.default_queue, y.address, 0xFF, nbytes))
        bench.timer.once(contender.sets[0])
        if not np.array_equal(down(y), source):
            raise data.WrongResultError(f"{contender.name} does not copy")
    if peers.torch_on_a_gpu() is not None:
        a = peers.up(source)
        b = a.clone()
        contenders.append(peers.contender(context, [lambda: b.copy_(a)]))
    rows = bench.compare(
        "copy", f"{nbytes >> 20} MiB", contenders, work=2 * nbytes, unit="GB/s", own="copy kernel"
    )
    bench.ceilings[COPY] = max(row.rate for row in rows if row.rate is not None)


@dataclass(frozen=True)
class Case:
    """A kernel of one input of [rows, width] and some operands, in maxlab, torch and NumPy."""

    group: str
    name: str
    dtype: DType
    rows: int
    width: int
    operands: tuple[tuple[int, ...], ...]
    graph: Callable[[Sequence[TensorValue]], TensorValue]
    torch: Callable[[Any, Sequence[Any]], Any]
    numpy: Callable[[Sequence[Array]], Array]

    @property
    def title(self) -> str:
        """The case in a table."""
        return f"{self.name} {self.dtype.name} {self.rows}x{self.width}"

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Of all inputs."""
        return ((self.rows, self.width), *self.operands)

    @property
    def nbytes(self) -> int:
        """Every input read once and the result written once."""
        elements = sum(math.prod(shape) for shape in self.shapes) + self.rows * self.width
        return elements * self.dtype.size_in_bytes


def cases(*, tiny: bool) -> list[Case]:
    """All of them: 64 Mi elements each, which is four times the largest cache and more."""
    total = 1 << (12 if tiny else 26)
    widths = (64, 200) if tiny else (128, 1024, 4096, 16384)
    middle = widths[1] if tiny else 4096
    found = []
    for dtype in (F32, BF16):
        whole = (total // middle, middle)
        found.append(_add(dtype, *whole))
        found.append(_gelu(dtype, *whole))
    norms = (_softmax, _layer_norm, _rms_norm)
    found += [make(F32, total // width, width) for width in widths for make in norms]
    found += [make(BF16, total // middle, middle) for make in norms]
    return found


def measure(bench: Bench, case: Case) -> None:
    """One case beside torch, as a share of the measured copy."""
    place = DeviceRef.GPU()
    types = [TensorType(case.dtype, shape, place) for shape in case.shapes]
    with Graph(case.name, input_types=types) as graph:
        graph.output(case.graph([value.tensor for value in graph.inputs]))
    model = load(bench.device, graph)
    arrays = [data.normal(n, shape, case.dtype) for n, shape in enumerate(case.shapes)]
    launches = Launches(model, [up(bench.device, array) for array in arrays])
    (got,) = launches.results()

    def reference(places: Array) -> Array:
        parts = [a[places] if a.shape == (case.rows, case.width) else a for a in arrays]
        return case.numpy([part.astype(np.float64) for part in parts])

    errors = {"maxlab": data.check_rows(got, reference, case.dtype, case.title)}
    contenders = [Contender("maxlab", [launches], note=f"kernels: {len(launches)}")]
    torch = peers.torch_on_a_gpu()

    def add_torch() -> None:
        work = partial(case.torch, torch, [peers.up(array) for array in arrays])
        theirs = peers.down(work())
        errors["torch"] = data.check_rows(theirs, reference, case.dtype, f"torch {case.title}")
        contenders.append(peers.contender(bench.context, [work]))

    if torch is not None:
        bench.guarded(case.group, case.title, add_torch, "torch")
    bench.compare(
        case.group, case.title, contenders, work=case.nbytes, unit="GB/s", errors=errors,
        goals=[("maxlab", Goal(COPY, SHARE))],
    )  # fmt: skip


# ---------------------------------------------------------------- the kernels
def _add(dtype: DType, rows: int, width: int) -> Case:
    return Case(
        "elementwise", "add", dtype, rows, width, ((rows, width),),
        lambda v: v[0] + v[1],
        lambda torch, v: v[0] + v[1],
        lambda v: v[0] + v[1],
    )  # fmt: skip


def _gelu(dtype: DType, rows: int, width: int) -> Case:
    return Case(
        "elementwise", "gelu(x*s+b)", dtype, rows, width, ((width,), (width,)),
        lambda v: ops.gelu(v[0] * v[1] + v[2]),
        lambda torch, v: torch.nn.functional.gelu(torch.addcmul(v[2], v[0], v[1])),
        lambda v: data.gelu(v[0] * v[1] + v[2]),
    )  # fmt: skip


def _softmax(dtype: DType, rows: int, width: int) -> Case:
    return Case(
        "row", "softmax", dtype, rows, width, (),
        lambda v: ops.softmax(v[0]),
        lambda torch, v: torch.softmax(v[0], -1),
        lambda v: _numpy_softmax(v[0]),
    )  # fmt: skip


def _layer_norm(dtype: DType, rows: int, width: int) -> Case:
    return Case(
        "row", "layer_norm", dtype, rows, width, ((width,), (width,)),
        lambda v: ops.layer_norm(v[0], v[1], v[2], EPSILON),
        lambda torch, v: torch.nn.functional.layer_norm(v[0], (width,), v[1], v[2], EPSILON),
        lambda v: (v[0] - v[0].mean(-1, keepdims=True))
        / np.sqrt(v[0].var(-1, keepdims=True) + EPSILON) * v[1] + v[2],
    )  # fmt: skip


def _rms_norm(dtype: DType, rows: int, width: int) -> Case:
    return Case(
        "row", "rms_norm", dtype, rows, width, ((width,),),
        lambda v: v[0] * ops.rsqrt(ops.mean(v[0] * v[0]) + EPSILON) * v[1],
        lambda torch, v: torch.nn.functional.rms_norm(v[0], (width,), v[1], EPSILON),
        lambda v: v[0] / np.sqrt((v[0] * v[0]).mean(-1, keepdims=True) + EPSILON) * v[1],
    )  # fmt: skip


def _numpy_softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))
