"""How fast maxlab's own kernels do their arithmetic: products, functions and folds.

They are models like a user's, so that the figures are those of code that is generated and flags
that are used. Operands fit into the second cache, and memory does not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxlab.analysis.machine.ceilings import Rate
from maxlab.compiler.options import Options
from maxlab.dtype import DType
from maxlab.engine import InferenceSession, Model
from maxlab.engine.times import KernelTime
from maxlab.graph import Graph, TensorType, ops
from maxlab.ir import DeviceRef

ROWS, COLUMNS = 32, 1024
RUNS, FUNCTION_RUNS = 12, 40
_SIZES = {"float32": 512, "float64": 160, "bfloat16": 160}
"""The side of the matrices: products of float32 are an order of magnitude faster than others."""


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """The arithmetic of maxlab's kernels, and how long it takes with
    ``accuracy="fast"`` beside that: see ``Ceilings``.

    ``start_ns`` is what a kernel of one element takes: it is over before it begins to compute.
    """

    start_ns: float
    rates: tuple[Rate, ...]
    fast: Mapping[str, float]


def arithmetic(threads: int) -> Arithmetic:
    """The arithmetic of kernels on ``threads`` threads of the CPU.

    Raises:
        ToolchainError: No C compiler, or one that failed.
    """
    strict = functions(Options())
    loose = functions(Options(accuracy="fast"))
    products = list(_products(threads))
    rates = [*products]
    for dtype in ("float32", "float64"):
        kernel = strict[f"exp {dtype}"]
        # The loop of one thread, times the threads: nothing is shared but the barrier at its end.
        gflops = kernel.flops / kernel.ns_min * threads
        rates.append(Rate(f"{_short(dtype)} exp", gflops, "math", dtype))
    fast = {
        name.split()[0]: min(loose[name].ns_min / max(kernel.ns_min, 1), 1.0)
        for name, kernel in strict.items()
        if name.endswith("float32")
    }
    return Arithmetic(_start_ns(), tuple(rates), fast)


def functions(options: Options) -> dict[str, KernelTime]:
    """The times of one loop for each kind of function, on one thread."""
    made = {
        "exp float32": (DType.float32, ops.exp),
        "tanh float32": (DType.float32, ops.tanh),
        "max float32": (DType.float32, lambda x: ops.max(x, axis=-1)),
        "sum float32": (DType.float32, lambda x: ops.sum(x, axis=-1)),
        "div float32": (DType.float32, lambda x: ops.div(1.0, x)),
        "exp float64": (DType.float64, ops.exp),
    }
    types = [TensorType(dtype, [ROWS, COLUMNS], DeviceRef.CPU()) for dtype, _ in made.values()]
    with Graph("ceilings of functions", input_types=types) as graph:
        values = [value.tensor for value in graph.inputs]
        calls = [call for _, call in made.values()]
        graph.output(*(call(x) for call, x in zip(calls, values, strict=True)))
    model = InferenceSession(num_threads=1).load(graph, options=options)
    rng = np.random.default_rng(1)
    inputs = [
        rng.uniform(0.5, 2.0, (ROWS, COLUMNS)).astype(dtype.to_numpy())
        for dtype, _ in made.values()
    ]
    kernels = _profiled(model, inputs, FUNCTION_RUNS)
    found: dict[str, KernelTime] = {}
    for name, node in zip(made, _output_nodes(model), strict=True):
        found[name] = next(k for k in kernels if node in k.nodes)
    return found


def _start_ns() -> float:
    with Graph("start", input_types=[TensorType(DType.float32, [1], DeviceRef.CPU())]) as graph:
        graph.output(graph.inputs[0].tensor + 1.0)
    model = InferenceSession(num_threads=1).load(graph)
    (kernel,) = _profiled(model, [np.ones(1, np.float32)], FUNCTION_RUNS)
    return kernel.ns


def _products(threads: int) -> Iterator[Rate]:
    for dtype in (DType.float32, DType.float64, DType.bfloat16):
        name = dtype.name
        size = _SIZES[name]
        kind = TensorType(dtype, [size, size], DeviceRef.CPU())
        with Graph(f"ceiling of products {name}", input_types=[kind, kind]) as graph:
            x, y = (value.tensor for value in graph.inputs)
            graph.output(ops.matmul(x, y))
        model = InferenceSession(num_threads=threads).load(graph)
        ones = np.ones((size, size), dtype.ml_numpy)
        (kernel,) = (k for k in _profiled(model, [_tensor(ones), _tensor(ones)]) if k.flops)
        yield Rate(f"{_short(name)} product", kernel.flops / kernel.ns_min, "product", name)


def _profiled(model: Model, inputs: list[Any], runs: int = RUNS) -> list[KernelTime]:
    found: list[KernelTime] = model.profile(*inputs, runs=runs, warmup=2).kernels
    return found


def _output_nodes(model: Model) -> list[str]:
    output = model.compiled.source.output
    assert output is not None
    return [value.op.id for value in output.operands if value.op is not None]


def _tensor(array: Any) -> Any:
    from maxlab.driver import Tensor

    return Tensor.from_numpy(array)


def _short(dtype: str) -> str:
    return {"float32": "f32", "float64": "f64", "bfloat16": "bf16", "float16": "f16"}[dtype]
