"""Puts mistakes into compiled kernels: their text is changed and compiled in the place of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from maxlab import engine
from maxlab.compiler.printed import CudaPrinted
from maxlab.driver import Accelerator, Tensor
from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, TensorType
from maxlab.toolchain import KernelSource, compile_units
from tests.toolchain.small import settings

Array = np.ndarray[Any, Any]
Body = Callable[..., Any]


def model_of(
    body: Body,
    *shapes: Sequence[int | str],
    gpu: Accelerator | None = None,
    dtype: DType = DType.float32,
) -> engine.Model:
    """The model of ``body``, which takes a tensor for each of ``shapes``."""
    place = DeviceRef.GPU() if gpu is not None else DeviceRef.CPU()
    with Graph("planted", input_types=[TensorType(dtype, list(s), place) for s in shapes]) as graph:
        made = body(*(value.tensor for value in graph.inputs))
        graph.output(*(made if isinstance(made, tuple) else (made,)))
    devices = [gpu] if gpu is not None else None
    with settings(plan_cache=False):  # its plan is changed, which others would get
        return engine.InferenceSession(devices=devices).load(graph)


def placed(model: engine.Model, arrays: Sequence[Array]) -> list[Any]:
    """``arrays`` where ``model`` takes them."""
    return model.placed([np.require(a, requirements="C") for a in arrays])


def plant(model: engine.Model, kernel: str, *changes: tuple[str, str]) -> None:
    """Change the text of a kernel: the first of each pair becomes the second, once."""
    step = model.compiled.step(kernel)
    printed = model.printed(step)
    assert printed is not None
    text = printed.text
    for old, new in changes:
        assert text.count(old) >= 1, f"{old!r} is not in\n{text}"
        text = text.replace(old, new, 1)
    symbol = printed.symbol[:-4] + "0bad"
    made = replace(printed, symbol=symbol, text=text.replace(printed.symbol, symbol))
    if step.gpu is not None:
        variant = model.chosen.get(step.number, 0)
        assert isinstance(made, CudaPrinted)
        step.gpu.replace(variant, made)
        model.gpu_kernels.pop((step.number, variant), None)
        model.unbind()
        return
    step.printed = made
    (loaded,) = compile_units([KernelSource(made.symbol, made.text)])
    model.compiled.kernels[step.number] = loaded
    model.unbind()


def tensor(array: Array) -> Tensor:
    """``array`` as a tensor."""
    return Tensor.from_numpy(np.require(array, requirements="C"))
