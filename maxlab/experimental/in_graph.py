"""Tensors that stand for values of a graph that is being built."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from maxlab.driver import Tensor as Memory
from maxlab.errors import GraphError
from maxlab.experimental.recording import Recorded, in_graph, values_in
from maxlab.graph import BufferValue, TensorValue, ops
from maxlab.ir import user_location


class InGraph(Recorded):
    """The methods of a tensor that stands for a value of the graph that is being built.

    What is done with it is added to that graph, and gives another one.
    """

    __slots__ = ()
    has_elements: ClassVar[bool] = False

    def _read(self) -> Memory:
        raise GraphError(
            "ML854",
            "a tensor that stands for a value of a graph has no elements before the graph runs",
            at=user_location(),
            fix="give graph.output(...) the tensor, load the graph, and look at its outputs",
        )

    @property
    def real(self) -> bool:
        """False: only a run of the graph computes it."""
        return False

    def __tensorvalue__(self) -> TensorValue:
        value: Any = self._slot
        return ops.buffer_load(value) if isinstance(value, BufferValue) else value

    def __repr__(self) -> str:
        return f"Tensor(value={self._slot!r})"

    __str__ = __repr__


def _graph_operator(name: str) -> Callable[..., Any]:
    def method(self: InGraph, *others: Any) -> Any:
        given = [values_in(one) for one in others]
        made = getattr(self.__tensorvalue__(), name)(*given)
        return in_graph(made)

    method.__name__ = name
    return method


_OPERATORS = (
    "add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod divmod matmul rmatmul "
    "and rand or ror xor rxor gt ge lt le neg abs invert eq ne pow rpow round getitem"
)
for _name in _OPERATORS.split():
    setattr(InGraph, f"__{_name}__", _graph_operator(f"__{_name}__"))


__all__ = ["InGraph"]
