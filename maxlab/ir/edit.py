"""Edits: what can happen to a function, each as a plain record with an inverse and JSON.

A record speaks of ids alone, so it says the same of a function, of its copy and of its file. It
holds what there was and what there is: ``invert`` needs nothing else, and applying a record to a
function that has something else is an error (`edit_apply.apply`). Order is explicit: ``before`` is
the id of the op, or the name of the attribute, that comes next; None is the end.

A block is named by the op and the number of the region that it is; ``(None, 0)`` is the function's
own. ``(None, -1)``, ``(None, -2)`` … are regions that no op has yet: they are of this process
only, and what happens in them comes again as part of the op that gets them.

======================================  ===========================================================
`AddOp`, `RemoveOp`                     an op, with its regions and all they have
`MoveOp`                                an op at another place of its block
`AddArgument`, `RemoveArgument`         an argument of a block; of the function's own, an input
`OrderArguments`                        the arguments of a block in another order
`SetOperands`                           what one op reads
`ReplaceUses`                           the operands that are one value become another value
`SetResults`                            what one op gives
`SetAttr`                               one attribute, also one that is added or taken away
`SetName`                               the name of a value, or of the function
`SetType`                               the type of a value
`SetSource`                             the place, the scope and the origins of an op
`SetParameters`                         the symbolic dims that a function defines
`SetNote`                               what people laid beside the function, under one key
======================================  ===========================================================

Example:
    >>> edit = SetName("v3", "", "hidden")
    >>> edit.invert()
    SetName(target='v3', old='hidden', new='')
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from maxlab.errors import Location
from maxlab.ir.types import Type

BlockId = tuple[str | None, int]
"""The op and the number of its region; ``(None, 0)`` for the function's own block."""

OWN: BlockId = (None, 0)
"""The function's own block."""

FUNCTION = ""
"""The target of a `SetName` that names the function."""


@dataclass(frozen=True, slots=True)
class ValueData:
    """A result or an argument."""

    id: str
    type: Type
    name: str = ""


@dataclass(frozen=True, slots=True)
class BlockData:
    """A region with all it has."""

    args: tuple[ValueData, ...]
    ops: tuple[OpData, ...]


@dataclass(frozen=True, slots=True)
class SourceData:
    """Where an op comes from."""

    loc: Location | None
    scope: str
    origins: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OpData:
    """An op with all it has; ``attrs`` are pairs, in their order."""

    id: str
    name: str
    operands: tuple[str, ...]
    results: tuple[ValueData, ...]
    attrs: tuple[tuple[str, Any], ...]
    source: SourceData
    regions: tuple[BlockData, ...] = ()


@dataclass(frozen=True, slots=True)
class AddOp:
    """``op`` is put into ``block``, before the op ``before``."""

    block: BlockId
    before: str | None
    op: OpData

    def invert(self) -> RemoveOp:
        """The removal of the op."""
        return RemoveOp(self.block, self.before, self.op)


@dataclass(frozen=True, slots=True)
class RemoveOp:
    """``op``, which ``before`` follows, is taken out of ``block``."""

    block: BlockId
    before: str | None
    op: OpData

    def invert(self) -> AddOp:
        """The op at the same place, with the same id."""
        return AddOp(self.block, self.before, self.op)


@dataclass(frozen=True, slots=True)
class MoveOp:
    """The op, which ``old`` follows in ``block``, is put before ``new``."""

    block: BlockId
    op: str
    old: str | None
    new: str | None

    def invert(self) -> MoveOp:
        """The op at the place that it had."""
        return MoveOp(self.block, self.op, self.new, self.old)


@dataclass(frozen=True, slots=True)
class AddArgument:
    """``value`` becomes the argument ``index`` of ``block``."""

    block: BlockId
    index: int
    value: ValueData

    def invert(self) -> RemoveArgument:
        """The removal of the argument."""
        return RemoveArgument(self.block, self.index, self.value)


@dataclass(frozen=True, slots=True)
class RemoveArgument:
    """``value`` is the argument ``index`` of ``block`` no more."""

    block: BlockId
    index: int
    value: ValueData

    def invert(self) -> AddArgument:
        """The argument at the same place."""
        return AddArgument(self.block, self.index, self.value)


@dataclass(frozen=True, slots=True)
class OrderArguments:
    """The arguments of ``block``, by their ids, change their order."""

    block: BlockId
    old: tuple[str, ...]
    new: tuple[str, ...]

    def invert(self) -> OrderArguments:
        """The order that they had."""
        return OrderArguments(self.block, self.new, self.old)


@dataclass(frozen=True, slots=True)
class SetOperands:
    """The op reads the values ``new`` instead of ``old``."""

    op: str
    old: tuple[str, ...]
    new: tuple[str, ...]

    def invert(self) -> SetOperands:
        """The operands that it had."""
        return SetOperands(self.op, self.new, self.old)


@dataclass(frozen=True, slots=True)
class ReplaceUses:
    """The operands at ``places``, an op and a number each, are ``new`` instead of ``old``."""

    old: str
    new: str
    places: tuple[tuple[str, int], ...]

    def invert(self) -> ReplaceUses:
        """The same operands read what they did."""
        return ReplaceUses(self.new, self.old, self.places)


@dataclass(frozen=True, slots=True)
class SetResults:
    """The op gives ``new`` instead of ``old``."""

    op: str
    old: tuple[ValueData, ...]
    new: tuple[ValueData, ...]

    def invert(self) -> SetResults:
        """The results that it had."""
        return SetResults(self.op, self.new, self.old)


@dataclass(frozen=True, slots=True)
class SetAttr:
    """The attribute ``key`` is ``new`` instead of ``old``; one of both is ``ABSENT`` where it is
    added or taken away, and ``before`` is the attribute behind it then."""

    op: str
    key: str
    old: Any
    new: Any
    before: str | None = None

    def invert(self) -> SetAttr:
        """The attribute as it was."""
        return SetAttr(self.op, self.key, self.new, self.old, self.before)


@dataclass(frozen=True, slots=True)
class SetName:
    """The value ``target``, or the function (`FUNCTION`), is called ``new`` instead of ``old``."""

    target: str
    old: str
    new: str

    def invert(self) -> SetName:
        """The name that it had."""
        return SetName(self.target, self.new, self.old)


@dataclass(frozen=True, slots=True)
class SetType:
    """The value is a ``new`` instead of an ``old``."""

    value: str
    old: Type
    new: Type

    def invert(self) -> SetType:
        """The type that it had."""
        return SetType(self.value, self.new, self.old)


@dataclass(frozen=True, slots=True)
class SetSource:
    """The op comes from ``new`` instead of ``old``."""

    op: str
    old: SourceData
    new: SourceData

    def invert(self) -> SetSource:
        """Where it came from before."""
        return SetSource(self.op, self.new, self.old)


@dataclass(frozen=True, slots=True)
class SetParameters:
    """The function defines the symbolic dims ``new`` instead of ``old``."""

    old: tuple[str, ...]
    new: tuple[str, ...]

    def invert(self) -> SetParameters:
        """The dims that it defined."""
        return SetParameters(self.new, self.old)


@dataclass(frozen=True, slots=True)
class SetNote:
    """The note ``key`` of ``table`` is ``new`` instead of ``old``, each a text; one of both is None
    where it is added or taken away, and ``before`` is the key behind it then."""

    table: str
    key: str
    old: str | None
    new: str | None
    before: str | None = None

    def invert(self) -> SetNote:
        """The note as it was, where it was."""
        return SetNote(self.table, self.key, self.new, self.old, self.before)


Edit = (
    AddOp
    | RemoveOp
    | MoveOp
    | AddArgument
    | RemoveArgument
    | OrderArguments
    | SetOperands
    | ReplaceUses
    | SetResults
    | SetAttr
    | SetName
    | SetType
    | SetSource
    | SetParameters
    | SetNote
)
"""One of the records."""


def inverse(edits: Iterable[Edit]) -> list[Edit]:
    """Edits that undo ``edits``: their inverses, the last one first.

    Example:
        >>> inverse([SetName("v1", "", "x"), SetName("v1", "x", "y")])[0]
        SetName(target='v1', old='y', new='x')
    """
    return [edit.invert() for edit in reversed(list(edits))]


__all__ = [
    "FUNCTION",
    "OWN",
    "AddArgument",
    "AddOp",
    "BlockData",
    "BlockId",
    "Edit",
    "MoveOp",
    "OpData",
    "OrderArguments",
    "RemoveArgument",
    "RemoveOp",
    "ReplaceUses",
    "SetAttr",
    "SetName",
    "SetNote",
    "SetOperands",
    "SetParameters",
    "SetResults",
    "SetSource",
    "SetType",
    "SourceData",
    "ValueData",
    "inverse",
]
