"""Defaults of a new tensor: its dtype and its device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from maxlab.driver import CPU, Accelerator, Device, accelerator_count
from maxlab.driver.device import device_named
from maxlab.dtype import DType
from maxlab.graph.operands import as_dtype

T = TypeVar("T")

_DTYPE: ContextVar[DType | None] = ContextVar("maxlab_default_dtype", default=None)
_DEVICE: ContextVar[Device | None] = ContextVar("maxlab_default_device", default=None)


def defaults(dtype: DType | None = None, device: Device | None = None) -> tuple[DType, Device]:
    """The dtype and the device of a new tensor that is asked for with these.

    Without a device it is that of `default_device`, else the first accelerator, else the CPU.
    Without a dtype it is that of `default_dtype`, else float32 on the CPU and bfloat16 on an
    accelerator.

    Raises:
        ArgumentTypeError: ML399, ``dtype`` is no dtype; ML421, ``device`` is no device.

    Example:
        >>> from maxlab.driver import CPU
        >>> from maxlab.experimental import tensor
        >>> tensor.defaults(device=CPU())
        (DType.float32, Device(type=cpu,id=0))
    """
    if device is not None:
        place = device_named(device)
    else:
        chosen = _DEVICE.get()
        place = chosen if chosen is not None else _first()
    if dtype is not None:
        return as_dtype("a tensor", dtype), place
    known = _DTYPE.get()
    if known is None:
        known = DType.float32 if place.is_host else DType.bfloat16
    return known, place


def _first() -> Device:
    return Accelerator() if accelerator_count() else CPU()


@contextmanager
def contextvar_context(var: ContextVar[T], value: T) -> Iterator[T]:
    """A context in which ``var`` has ``value``; afterwards it has what it had before.

    Example:
        >>> from contextvars import ContextVar
        >>> from maxlab.experimental import tensor
        >>> depth = ContextVar("depth", default=0)
        >>> with tensor.contextvar_context(depth, 2):
        ...     depth.get()
        2
        >>> depth.get()
        0
    """
    token = var.set(value)
    try:
        yield value
    finally:
        var.reset(token)


def default_device(device: Device) -> AbstractContextManager[Any]:
    """A context in which new tensors are on ``device``, where nothing else is said.

    Raises:
        ArgumentTypeError: ML421, ``device`` is no device.

    Example:
        >>> from maxlab.driver import CPU
        >>> from maxlab.experimental import tensor
        >>> with tensor.default_device(CPU()):
        ...     tensor.Tensor.ones((2, 3)).device
        Device(type=cpu,id=0)
    """
    return contextvar_context(_DEVICE, device_named(device))


def default_dtype(dtype: DType) -> AbstractContextManager[Any]:
    """A context in which new tensors have ``dtype``, where nothing else is said.

    Raises:
        ArgumentTypeError: ML399, ``dtype`` is no dtype.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.experimental import tensor
        >>> with tensor.default_dtype(DType.int32):
        ...     tensor.Tensor.ones((2,))
        Tensor([1, 1], dtype=int32, shape=(2,), device=cpu:0)
    """
    return contextvar_context(_DTYPE, as_dtype("the default dtype", dtype))


__all__ = ["contextvar_context", "default_device", "default_dtype", "defaults"]
