"""Which values live in memory, and which groups are computed inside of the one that reads them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from maxlab.compiler.axes import MAX_OPS
from maxlab.compiler.groups import Group
from maxlab.compiler.limits import Limits
from maxlab.compiler.reasons import Reason
from maxlab.ir import Op, Value
from maxlab.ir.poly import ONE, Poly
from maxlab.opset import OPSET, is_cast

TAKERS = ("map", "row", "col", "concat", "copy")
"""Kinds of groups that compute what they read, if it is a map that nobody else reads."""


class Grouped(Protocol):
    """The groups of a function before any of them is inlined, as ``Schedule`` has them."""

    @property
    def groups(self) -> Sequence[Group]: ...
    @property
    def group_of(self) -> Mapping[Value, Group]: ...
    @property
    def effects(self) -> Mapping[Op, Group]: ...
    @property
    def addressed(self) -> Collection[Value]: ...
    @property
    def laid_out(self) -> Collection[Value]: ...
    @property
    def limits(self) -> Limits: ...
    def bases(self, value: Value) -> Iterable[Value]: ...


class Inliner:
    """Finds what is stored, and inlines the rest.

    Attributes:
        into: The group that each inlined group went into.
        why: For values that are stored although a group could compute them, the rule.
    """

    def __init__(self, schedule: Grouped) -> None:
        self.schedule = schedule
        self.into: dict[Group, Group] = {}
        self._taken: dict[Group, list[Group]] = {}  # the groups that went into a group
        self.why: dict[Value, Reason] = {}

    def stored(self) -> set[Value]:
        """The values that some group writes for another one, as an output, or because the options
        keep them.
        """
        schedule = self.schedule
        found = set(schedule.laid_out)
        found |= {v for v in schedule.limits.kept if v in schedule.group_of}
        for group in schedule.groups:
            if group in self.into:
                continue
            for op in group.ops:
                for value in op.results:
                    if any(reader is not group for reader in self._readers(value)):
                        found.add(value)
        # An inlined group's own reads count for the group it went into.
        for group in self.into:
            for op in group.ops:
                for operand in op.operands:
                    for base in schedule.bases(operand):
                        if schedule.group_of[base] not in self.into:
                            found.add(base)
        return found

    def inline(self, stored: set[Value]) -> None:
        """Inline what can be, of groups whose results are ``stored``."""
        sizes: dict[Group, int] = {}  # the ops that were inlined into a group
        for group in self.schedule.groups:
            if not group.ops:
                continue
            kept = [v for op in group.ops for v in op.results if v in stored]
            reader, why = self._reader(group, kept)
            if reader is not None:
                size = sizes.get(group, 0) + len(group.ops)
                if size + sizes.get(reader, 0) + len(reader.ops) > MAX_OPS:
                    why = Reason("size")
                else:
                    sizes[reader] = sizes.get(reader, 0) + size
                    self.into[group] = reader
                    self._taken.setdefault(reader, []).append(group)
                    continue
            self.why.update(dict.fromkeys(kept, why))

    def groups_in(self, group: Group) -> list[Group]:
        """The inlined groups whose values ``group`` computes for itself."""
        found = list(self._taken.get(group, ()))
        for inner in found:  # which may have taken others in, before it went into this one
            found.extend(self._taken.get(inner, ()))
        return found

    def ops_of(self, group: Group) -> list[Op]:
        """The ops that the kernel of ``group`` computes: its own and those inlined there."""
        found = list(group.ops)
        for other in self.groups_in(group):
            found.extend(other.ops)
        return found

    def ops_for(self, group: Group, operand: Value) -> list[Op]:
        """Of the ops inlined into ``group``, those that ``operand`` is computed from."""
        inlined = set(self.groups_in(group))
        found: dict[Op, None] = {}
        waiting = [operand]
        while waiting:
            value = waiting.pop()
            maker = self.schedule.group_of.get(value)
            if maker is None:
                if value.op is not None and OPSET[value.op.name].kind == "view":
                    waiting.append(value.op.operands[0])
            elif maker in inlined and value.op is not None and value.op not in found:
                found[value.op] = None
                waiting.extend(value.op.operands)
        return list(found)

    def _reader(self, group: Group, kept: list[Value]) -> tuple[Group | None, Reason]:
        """The group that may compute ``group``, or the rule by which there is none."""
        schedule = self.schedule
        if group.kind != "map":
            return None, Reason("not a map", {"kind": group.kind})
        if len(kept) != 1:
            return None, Reason("several values", {"count": len(kept)})
        (value,) = kept
        if value in schedule.addressed:
            return None, Reason("gathered")
        if value in schedule.limits.kept:
            return None, Reason("kept")
        outside = [reader for reader in self._readers(value) if reader is not group]
        if None in outside:
            return None, Reason("output")
        if len(outside) != 1 or outside[0] is None:
            readers = len(set(outside))
            rule = "read twice" if readers == 1 else "two readers"
            return None, Reason(rule, {"count": len(outside) if readers == 1 else readers})
        reader = outside[0]
        if reader.device != group.device:  # each device computes in its own memory
            return None, Reason("product reads memory", {"kind": "transfer"})
        if reader.kind not in TAKERS:
            return None, Reason("product reads memory", {"kind": reader.kind})
        for user in self._reading(value):
            rule = schedule.limits.parted(user, value.op)
            if rule:
                return None, Reason(rule)
        times = _expansion(group, reader)
        if times:
            return None, Reason("expansion", {"times": times})
        return reader, Reason("inlined")

    def _readers(self, value: Value) -> Iterator[Group | None]:
        """Every group that reads ``value``, through views; None for an output."""
        group_of = self.schedule.group_of
        for op in self._reading(value):
            if OPSET[op.name].kind == "output":
                yield None
            else:
                effects = self.schedule.effects
                yield group_of.get(op.results[0]) if op.results else effects.get(op)

    def _reading(self, value: Value) -> Iterator[Op]:
        """The ops that read ``value`` through views; a view that is laid out is one."""
        stack = [value]
        while stack:
            for user in stack.pop().uses:
                if OPSET[user.name].kind == "view" and user.result not in self.schedule.laid_out:
                    stack.append(user.result)
                else:
                    yield user


def _expansion(group: Group, reader: Group) -> str:
    """How many times ``reader`` would compute each element of ``group``; empty if not more than
    once.
    """
    if reader.kind == "concat" or all(OPSET[op.name].kind == "gather" for op in group.ops):
        return ""  # reading through an index costs no more than reading what was read so
    if all(map(is_cast, group.ops)):
        return ""  # nor does reading what is to be cast, which may even be smaller
    size, domain = _product(group.domain), _product(reader.domain)
    if size == domain:
        return ""
    # a slice reads fewer elements than there are: inlining computes less, not more
    gap = size - domain
    if all(c >= 0 for _, c in gap.terms):
        return ""
    more = Counter(p for p in reader.domain if p != ONE)
    more.subtract(p for p in group.domain if p != ONE)
    if all(count >= 0 for count in more.values()):
        return str(_product(more.elements()))
    return f"{domain} / {size}" if size.is_constant else f"({domain}) / ({size})"


def _product(sizes: Iterable[Poly]) -> Poly:
    total = ONE
    for size in sizes:
        total = total * size
    return total
