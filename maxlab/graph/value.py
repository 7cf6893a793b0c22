"""Values of a graph as users hold them: ``Value``, ``TensorValue`` and ``BufferValue``."""

from __future__ import annotations

from typing import Any

from maxlab.ir import BufferType, TensorType, Type, Value as IrValue


class Value:
    """A value inside a graph (written next)."""

    __slots__ = ("_value",)
    _value: IrValue

    def _ir(self) -> IrValue:
        return self._value

    @property
    def type(self) -> Type:
        """The type."""
        return self._ir().type


class TensorValue(Value):
    """A tensor inside a graph."""

    __slots__ = ()


class BufferValue(Value):
    """A buffer inside a graph."""

    __slots__ = ()


def wrap(value: IrValue) -> Any:
    """The ``Value`` of the class that fits the type of ``value``."""
    cls = TensorValue if isinstance(value.type, TensorType) else BufferValue if isinstance(value.type, BufferType) else Value
    made = object.__new__(cls)
    made._value = value
    return made
