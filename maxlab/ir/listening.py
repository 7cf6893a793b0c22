"""Listeners of a function: the changes that they are told, and their words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from maxlab.errors import Location
from maxlab.ir.types import Type

Attr = Any
"""The type of attributes: bool, int, float, str, None, DType, Dim, Shape, Type, DeviceRef,
Constant, HostCall, Call, or a tuple of these.
"""


class _Absent:
    """The value of an attribute that an op has not."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = _Absent()

Source = tuple[Location | None, str, tuple[str, ...]]
"""Where an op comes from: its place, its scope and its origins."""

Op_contra = TypeVar("Op_contra", contravariant=True)
Block_contra = TypeVar("Block_contra", contravariant=True)
Value_contra = TypeVar("Value_contra", contravariant=True)


class Listener(Protocol[Op_contra, Block_contra, Value_contra]):
    """Is told of the changes of a function: each method just before the change, so that an
    interrupted change is known.
    """

    def settle(self) -> None:
        """Something else than an op added to the function's own block comes next."""

    def op_added(self, op: Op_contra, block: Block_contra, before: Op_contra | None) -> None:
        """``op`` is to stand in ``block``, before ``before`` or at the end."""

    def op_removed(self, op: Op_contra, block: Block_contra, before: Op_contra | None) -> None:
        """``op``, which ``before`` follows in ``block``, is to leave it."""

    def op_moved(
        self,
        op: Op_contra,
        block: Block_contra,
        old: Op_contra | None,
        new: Op_contra | None,
    ) -> None:
        """``op``, which ``old`` follows in ``block``, is to stand before ``new`` there."""

    def operands_set(self, op: Op_contra, new: Sequence[Value_contra]) -> None:
        """``op`` is to read ``new``."""

    def uses_replaced(
        self, old: Value_contra, new: Value_contra, places: Sequence[tuple[Op_contra, int]]
    ) -> None:
        """The operands at ``places``, an op and a number each, which are ``old``, are to be
        ``new``."""

    def attr_set(self, op: Op_contra, key: str, new: Attr, before: str | None) -> None:
        """The attribute ``key`` is to be ``new``, or to go if that is `ABSENT`. If it comes or
        goes, ``before`` is the one behind it."""

    def value_named(self, value: Value_contra, new: str) -> None:
        """``value`` is to be called ``new``."""

    def type_set(self, value: Value_contra, new: Type) -> None:
        """``value`` is to have the type ``new``."""

    def source_set(self, op: Op_contra, new: Source) -> None:
        """``op`` is to come from ``new``."""

    def results_set(self, op: Op_contra, new: Sequence[Value_contra]) -> None:
        """``op`` is to have the results ``new``."""

    def argument_added(self, value: Value_contra, block: Block_contra, index: int) -> None:
        """``value`` is to be the argument ``index`` of ``block``."""

    def argument_removed(self, value: Value_contra, block: Block_contra, index: int) -> None:
        """``value``, the argument ``index`` of ``block``, is to go."""

    def arguments_ordered(self, block: Block_contra, new: Sequence[Value_contra]) -> None:
        """The arguments of ``block`` are to be in the order of ``new``."""

    def renamed(self, new: str) -> None:
        """The function is to be called ``new``."""

    def parameters_set(self, new: Sequence[str]) -> None:
        """The function is to define the symbolic dims ``new``."""

    def note_set(
        self, table: str, key: str, old: str | None, new: str | None, before: str | None
    ) -> None:
        """The note ``key`` of ``table``, which is ``old``, is to be ``new``, or to go if that is
        None. If it comes or goes, ``before`` is the key behind it."""

    def rule(self, name: str, node: str) -> None:
        """Names the rule ``name`` of a pass, applied to the op ``node``, as the cause of the
        changes that follow; an empty name ends it.
        """


__all__ = ["ABSENT", "Attr", "Listener", "Source"]
