"""The table of ATen operations that become maxlab operations, and what an entry may ask about the
place where it is used.

An entry is a function that adds ops to the graph that is being built and returns what they make.
One that raises leaves the graph as it was, and torch runs the operation instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from maxlab.dtype import DType
from maxlab.graph import DeviceRef, TensorType, TensorValue, ops
from maxlab.ir import Dim, Shape, StaticDim

if TYPE_CHECKING:
    import torch.fx

Handler = Callable[..., Any]
H = TypeVar("H", bound=Handler)

TABLE: dict[str, Handler] = {}
"""From the name of an overload, ``"add.Tensor"``, to what builds it."""

DTYPES: dict[torch.dtype, DType] = {
    torch.bool: DType.bool,
    torch.int8: DType.int8,
    torch.uint8: DType.uint8,
    torch.int16: DType.int16,
    torch.int32: DType.int32,
    torch.int64: DType.int64,
    torch.float16: DType.float16,
    torch.bfloat16: DType.bfloat16,
    torch.float32: DType.float32,
    torch.float64: DType.float64,
}

HOST = DeviceRef.CPU()


class NotImported(Exception):  # noqa: N818 - a reason, which is not the user's mistake
    """Why an operation has to be run by torch."""


def aten(*names: str) -> Callable[[H], H]:
    """Decorator that enters a function in the table, for every overload in ``names``."""

    def enter(handler: H) -> H:
        for name in names:
            assert name not in TABLE, name
            TABLE[name] = handler
        return handler

    return enter


class Site:
    """One use of an ATen operation.

    Attributes:
        node: The node of the exported graph.
        types: The types of its results in order; None for a result that is no tensor.
    """

    def __init__(self, node: torch.fx.Node, types: Sequence[TensorType | None]) -> None:
        self.node = node
        self.types = list(types)

    @property
    def type(self) -> TensorType:
        """The type of the first result."""
        found = self.types[0] if self.types else None
        if found is None:
            raise NotImported("its result is no tensor")
        return found

    @property
    def dtype(self) -> DType:
        """The dtype of the first result."""
        return self.type.dtype

    @property
    def shape(self) -> Shape:
        """The shape of the first result."""
        return Shape(self.type.shape)

    def value(self, x: Any, dtype: DType | None = None) -> TensorValue:
        """``x``, a tensor or a number, as a tensor of ``dtype``, by default that of the result.

        Raises:
            NotImported: ``x`` is a size that only a run can tell.
        """
        wanted = dtype or self.dtype
        if isinstance(x, TensorValue):
            return x if x.dtype is wanted else ops.cast(x, wanted)
        if isinstance(x, Dim) and not isinstance(x, StaticDim):
            return ops.cast(ops.reshape(ops.shape_to_tensor([x]), []), wanted)
        if isinstance(x, (bool, int, float, StaticDim)):
            number = int(x) if isinstance(x, StaticDim) else x
            if wanted.is_integral() and isinstance(number, float):
                number = int(number)
            return ops.constant(number, wanted, HOST)
        raise NotImported(f"an operand is {x!r}")

    def common(self) -> DType:
        """The dtype in which torch computes with the first two operands."""
        values = [a.meta["val"] if isinstance(a, torch.fx.Node) else a for a in self.node.args[:2]]
        values = [int(v) if isinstance(v, torch.SymInt) else v for v in values]
        found = DTYPES.get(torch.result_type(*values))
        if found is None:
            raise NotImported(f"its operands have the dtype {torch.result_type(*values)}")
        return found

    def only_first(self) -> None:
        """Raises if a result other than the first is used.

        Raises:
            NotImported: Another one is.
        """
        for user in self.node.users:
            if user.op == "output" or user.args[1:] != (0,):
                raise NotImported("more than its first result is used")


def tensor(x: Any) -> TensorValue:
    """``x``, which is a tensor.

    Raises:
        NotImported: It is something else.
    """
    if not isinstance(x, TensorValue):
        raise NotImported(f"an operand is {x!r}, not a tensor")
    return x


def axis_of(axis: int, rank: int) -> int:
    """``axis`` from the start; of a tensor of rank 0, which torch takes for ``[1]``, 0."""
    return axis % rank if rank else 0


def axes_of(axes: Any, rank: int) -> list[int]:
    """``axes`` from the start, sorted; all of them for None and for an empty list."""
    if axes is None or (isinstance(axes, (list, tuple)) and not axes):
        return list(range(rank))
    if isinstance(axes, int):
        axes = [axes]
    return sorted({axis_of(a, rank) for a in axes})
