"""Functions on a GPU: the same ops with every type and attribute naming it, and their models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from maxlab import engine
from maxlab.compiler import Compiled, compile_function
from maxlab.driver import CPU, Accelerator, Tensor
from maxlab.driver.backend import DeviceSource
from maxlab.graph import Graph
from maxlab.ir import DeviceRef, Function, TensorType, Value
from maxlab.ir.types import BufferType
from tests.compiler.interpret import Array, host

GPU = DeviceRef.GPU()


def on_gpu(function: Function, device: DeviceRef = GPU) -> Function:
    """A copy of ``function`` with everything on ``device``."""
    work = function.clone()
    for value in work.inputs:
        _place(value, device)
    for op in work.ops:
        if "device" in op.attrs:
            op.attrs = {**op.attrs, "device": device}
        if isinstance(op.attrs.get("type"), TensorType):
            op.attrs = {**op.attrs, "type": _placed(op.attrs["type"], device)}
        for value in op.results:
            _place(value, device)
    return work


def _place(value: Value, device: DeviceRef) -> None:
    if isinstance(value.type, (TensorType, BufferType)):
        value.type = _placed(value.type, device)


def _placed(type: Any, device: DeviceRef) -> Any:
    made = TensorType(type.dtype, type.shape, device)
    return made if isinstance(type, TensorType) else BufferType(type.dtype, type.shape, device)


def load_on(
    gpu: Accelerator, function: Function, weights: Mapping[str, Any] | None = None
) -> engine.Model:
    """The model of ``function``, whose types name ``gpu``."""
    graph = Graph(function.name)
    graph.function = function
    return engine.InferenceSession(devices=[gpu]).load(graph, weights_registry=weights)


def run_on(gpu: Accelerator, model: engine.Model, inputs: Sequence[Array]) -> list[Array]:
    """The outputs for ``inputs``, which are uploaded, as arrays of ml_dtypes types."""
    given = [Tensor.from_numpy(np.require(x, requirements="C")).to(gpu) for x in inputs]
    return [host(t.to(CPU())) for t in model.execute(*given)]


def sources_of(compiled: Compiled) -> Iterator[DeviceSource]:
    """All kernels of a compiled function, those too that its sizes do not choose."""
    for step in compiled.plan.steps:
        if step.gpu is not None:
            for variant in range(len(step.gpu)):
                printed = step.gpu.printed(variant)
                yield DeviceSource(printed.symbol, printed.text, printed.headers)


def compiled_on_gpu(function: Function) -> Compiled:
    """``function``, compiled for a GPU; nothing is loaded."""
    return compile_function(on_gpu(function))
