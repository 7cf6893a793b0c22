"""The ops of a graph as a view lists them: what branches and loops run stands among the others.

In: a function, whose ops ``mo.cond`` and ``mo.while`` have regions. Out: one flat list, in which
the ops of each region are in a scope of their own, and read what its arguments stand for:

- what was captured is the value outside;
- a carried value of a loop is the loop's own result: in the first turn what the loop begins with,
  after that what its body gave. So its way back is drawn from the body to the op ``while``, which
  stands before the body; ``gives`` says what comes back.
- what the branches give is what the op ``cond`` reads, which stands behind them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from maxlab.ir import Block, Function, Op, Value
from maxlab.lab import protocol
from maxlab.opset import Role, is_output, role_of

PARTS: Mapping[Role | None, tuple[str, str]] = {
    "branch": ("then", "else"),
    "loop": ("predicate", "body"),
}
"""The names of the regions of an op of a role."""

_OWNER = re.compile(r"\b(n\w+):(\w+)")


class Shown(NamedTuple):
    """An op of the list.

    Attributes:
        op: The op.
        scope: Its scope, with those of the regions around it.
        operands: What it reads, outside of regions where it was captured.
        gives: What each of its regions gives.
    """

    op: Op
    scope: str
    operands: Sequence[Value]
    gives: Sequence[Sequence[Value]] = ()


@dataclass(slots=True)
class Listed:
    """All ops of a function.

    Attributes:
        ops: The ops but for outputs: a loop before its regions, a branch behind them.
        modules: The class of each module by its scope.
        functions: The names of the user's functions that regions were made of, by scope.
    """

    ops: list[Shown] = field(default_factory=list)
    modules: dict[str, str] = field(default_factory=dict)
    functions: dict[str, str] = field(default_factory=dict)


def listed(function: Function, modules: Mapping[str, str]) -> Listed:
    """The ops of ``function``; ``modules`` has the class of each module by its scope."""
    made = _Lister(modules)
    made.block(function.block)
    return made.found


def operations_of(document: protocol.GraphDocument) -> list[protocol.Node]:
    """The nodes of ``document`` that count as operations: all but weights and constants, as
    ``opset.operations`` counts those of a function."""
    data = {v["id"] for v in document["values"] if v["kind"] in ("weight", "constant")}
    return [n for n in document["nodes"] if not n["results"] or not data.issuperset(n["results"])]


def label_of_scope(path: str) -> str:
    """The label of the last part of ``path``: ``while n38`` for ``encoder.n38:while``; empty if it
    is no op with regions.
    """
    found = _OWNER.fullmatch(path.rpartition(".")[2])
    return f"{found[2]} {found[1]}" if found else ""


def readable(path: str) -> str:
    """``path`` for a heading: ``while n38.body``.

    Example:
        >>> readable("encoder.n38:while.body")
        'encoder.while n38.body'
    """
    return _OWNER.sub(r"\2 \1", path)


def unnumbered(path: str) -> str:
    """``path`` without the ids of ops, which differ between equal scopes."""
    return _OWNER.sub(r"\2", path)


class _Lister:
    def __init__(self, modules: Mapping[str, str]) -> None:
        self._modules = modules
        self._meant: dict[Value, Value] = {}
        self.found = Listed(modules=dict(modules))

    def block(self, block: Block, region: str = "", begun: Sequence[str] = ()) -> None:
        """List ``block``, whose scope is ``region`` and stands for the scope ``begun`` of ops."""
        for op in block.ops:
            if not is_output(op):
                self._op(op, self._scope(op, region, begun))

    def _scope(self, op: Op, region: str, begun: Sequence[str]) -> str:
        """The scope of ``op``: inside of ``region`` what goes on behind ``begun``."""
        if not region:
            return op.scope
        parts = op.scope.split(".") if op.scope else []
        inner = _behind(parts, begun)
        outer = parts[: len(parts) - len(inner)]
        for n in range(len(inner)):
            kind = self._modules.get(".".join([*outer, *inner[: n + 1]]))
            if kind is not None:
                self.found.modules[".".join([region, *inner[: n + 1]])] = kind
        return ".".join([region, *inner])

    def _op(self, op: Op, scope: str) -> None:
        role = role_of(op)
        names = PARTS.get(role)
        if names is None or not op.regions:
            operands = [self._of(v) for v in op.operands] if self._meant else op.operands
            self.found.ops.append(Shown(op, scope, operands))
            return
        owner = f"{op.id}:{op.name.removeprefix('mo.')}"
        owner = f"{scope}.{owner}" if scope else owner
        if role == "loop":
            carried = op.attrs["carried"]
            begins = [self._of(v) for v in op.operands[:carried]]
            given = [*op.results[:carried], *(self._of(v) for v in op.operands[carried:])]
        else:
            begins = [self._of(op.operands[0])]
            given = [self._of(v) for v in op.operands[1:]]
        place = len(self.found.ops)
        gives = []
        for name, region in zip(names, op.regions, strict=True):
            self._meant.update(zip(region.args, given, strict=True))
            self._region(op, region, f"{owner}.{name}", name)
            gives.append([self._of(v) for v in region.ops[-1].operands])
        shown = Shown(op, owner, begins, gives)
        self.found.ops.insert(place if role == "loop" else len(self.found.ops), shown)

    def _region(self, op: Op, region: Block, scope: str, name: str) -> None:
        begun = op.scope.split(".") if op.scope else []
        function = _common(region, begun)
        if function and ".".join([*begun, *function]) not in self._modules:
            # The one function that the region was made of: the region stands for it.
            begun = [*begun, *function]
            if function[0] != name:
                self.found.functions[scope] = function[0]
        self.block(region, scope, begun)

    def _of(self, value: Value) -> Value:
        return self._meant.get(value, value)


def _behind(parts: Sequence[str], begun: Sequence[str]) -> list[str]:
    """``parts`` without what it has in common with ``begun`` at the start."""
    n = 0
    while n < min(len(parts), len(begun)) and parts[n] == begun[n]:
        n += 1
    return list(parts[n:])


def _common(region: Block, begun: Sequence[str]) -> list[str]:
    """The first scope inside of ``begun``, with its number, that all ops of ``region`` are in."""
    scopes = [_behind(op.scope.split("."), begun) for op in region.ops if not is_output(op)]
    if not scopes or not all(scopes) or not scopes[0][0]:
        return []
    width = 2 if len(scopes[0]) > 1 and scopes[0][1].isdigit() else 1
    first = scopes[0][:width]
    return first if all(parts[:width] == first for parts in scopes) else []


__all__ = ["PARTS", "Listed", "Shown", "label_of_scope", "listed", "readable", "unnumbered"]
