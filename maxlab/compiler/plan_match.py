"""Which step, buffer and operation of one plan is which of another.

Steps are matched by what they compute, in three rounds. What has the same kernel on the same named
buffers is matched in order; what is left between two matched steps by how alike it is; and what was
the same but stood elsewhere at the end, as *moved*. Buffers follow from what they hold: inputs,
outputs and weights by number or name, constants by value, the others by the matched steps that
write or read them. Operations follow from the steps that compute them.
"""

from __future__ import annotations

import difflib
import itertools
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from maxlab.compiler.op_facts import OpFacts
from maxlab.compiler.plan_parts import Slot, Step
from maxlab.compiler.plan_text import formula_text, launch_of, touched_slots
from maxlab.compiler.plan_whole import Whole
from maxlab.compiler.printed import Printed

T = TypeVar("T", bound=Hashable)

MOST_PAIRS = 100_000
"""Steps of one plan times steps of the other, between two matched ones, that are all compared with
each other; of more, those of one name are matched first, and the rest is compared between these."""


class OneToOne(Generic[T]):
    """Things of one plan and the same things of another; none has two partners."""

    def __init__(self) -> None:
        self.there: dict[T, T] = {}
        self.back: dict[T, T] = {}

    def add(self, one: T, other: T) -> None:
        """Remember a pair, unless one of both has a partner."""
        if one not in self.there and other not in self.back:
            self.there[one] = other
            self.back[other] = one

    def add_all(self, ones: Sequence[T], others: Sequence[T]) -> None:
        """Remember pairs of two lists of one length; lists of different lengths tell nothing."""
        if len(ones) == len(others):
            for one, other in zip(ones, others, strict=True):
                self.add(one, other)


@dataclass(slots=True)
class Matching:
    """The parts of one plan that match parts of the other, by numbers and ids.

    Attributes:
        steps: Numbers of steps.
        moved: The steps of the first plan that run at another place of the order.
        slots: Numbers of buffers.
        ops: Ids of operations.
    """

    steps: OneToOne[int] = field(default_factory=OneToOne)
    moved: set[int] = field(default_factory=set)
    slots: OneToOne[int] = field(default_factory=OneToOne)
    ops: OneToOne[str] = field(default_factory=OneToOne)


def matched(one: Whole, other: Whole) -> Matching:
    """The parts of the plan ``one`` that match parts of ``other``."""
    found = Matching()
    _match_steps(one, other, found)
    _match_slots(one, other, found)
    _match_ops(one, other, found)
    return found


# ---------------------------------------------------------------- steps
def plain_text(printed: Printed | None) -> str:
    """The text of a kernel without its name, which is a hash of the text."""
    return "" if printed is None else printed.text.replace(printed.symbol, "kernel")


def computed(step: Step, slots: Sequence[Slot]) -> tuple[Hashable, ...]:
    """A key of the computation of ``step``: equal for steps that do the same on buffers of the same
    names.
    """
    return (
        step.kind, step.name, step.callee, step.ops, str(step.device), str(step.parallel),
        plain_text(step.printed), formula_text(launch_of(step)), tuple(map(str, step.sizes)),
        tuple(names_of(step, slots)),
    )  # fmt: skip


def names_of(step: Step, slots: Sequence[Slot]) -> Iterator[Hashable]:
    """Which inputs, outputs, weights and constants ``step`` points to."""
    for number in step.pointers:
        slot = slots[number]
        if slot.packing is not None:
            slot = slots[slot.packing.source]
        yield _name(slot) if slot.kind != "arena" else ""


def _name(slot: Slot) -> Hashable:
    return slot.kind, slot.index, slot.name


def _match_steps(one: Whole, other: Whole, found: Matching) -> None:
    a = [computed(step, one.slots) for step in one.steps]
    b = [computed(step, other.slots) for step in other.steps]
    ends = [(-1, -1), *_aligned(a, b), (len(a), len(b))]
    same = _likeness(one, other)
    for (i, j), (k, l) in itertools.pairwise(ends):  # noqa: E741
        if i >= 0:
            found.steps.add(i, j)
        for x, y in _between(range(i + 1, k), range(j + 1, l), (one, other), same):
            found.steps.add(x, y)
    left: dict[Hashable, list[int]] = {}
    for y, key in enumerate(b):
        if y not in found.steps.back:
            left.setdefault(key, []).append(y)
    for x, key in enumerate(a):
        if x not in found.steps.there and left.get(key):
            found.steps.add(x, left[key].pop(0))
            found.moved.add(x)


def _aligned(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    """The pairs of equal things that stand in one order, in that order."""
    first, last = 0, min(len(a), len(b))
    while first < last and a[first] == b[first]:
        first += 1
    end = 0
    while end < last - first and a[-1 - end] == b[-1 - end]:
        end += 1
    pairs = [(n, n) for n in range(first)]
    inner = a[first : len(a) - end], b[first : len(b) - end]
    if all(inner):
        blocks = difflib.SequenceMatcher(None, *inner, autojunk=False).get_matching_blocks()
        for i, j, size in blocks:
            pairs += [(first + i + n, first + j + n) for n in range(size)]
    return pairs + [(len(a) - end + n, len(b) - end + n) for n in range(end)]


def _likeness(one: Whole, other: Whole) -> Callable[[int, int], float]:
    """How alike two steps are, above 0 where they may be one step that was changed."""
    facts: tuple[dict[int, tuple[Counter[str], set[str], set[Hashable]]], ...] = ({}, {})

    def of(side: int, number: int) -> tuple[Counter[str], set[str], set[Hashable]]:
        known = facts[side].get(number)
        if known is None:
            plan = (one, other)[side]
            step = plan.steps[number]
            names = {name for name in names_of(step, plan.slots) if name != ""}
            known = facts[side][number] = Counter(step.ops), set(step.nodes), names
        return known

    def same(x: int, y: int) -> float:
        (ops, nodes, names), (their_ops, their_nodes, their_names) = of(0, x), of(1, y)
        a, b = one.steps[x], other.steps[y]
        if a.device != b.device:
            return 0.0
        shared = (ops & their_ops).total() * 2 / max(ops.total() + their_ops.total(), 1)
        score = 4 * shared + (a.kind == b.kind) / 2
        if score:
            score += _shared(nodes, their_nodes) + _shared(names, their_names)
        return score

    return same


def _shared(one: set[str] | set[Hashable], other: set[str] | set[Hashable]) -> float:
    return 2 * len(one & other) / max(len(one) + len(other), 1)


def _between(
    a: range, b: range, plans: tuple[Whole, Whole], same: Callable[[int, int], float]
) -> Iterator[tuple[int, int]]:
    """Pairs of the steps ``a`` of one plan and ``b`` of the other, in one order."""
    if len(a) * len(b) <= MOST_PAIRS:
        yield from _alike(a, b, same)
        return
    named = [
        [(plan.steps[n].kind, plan.steps[n].name) for n in r]
        for plan, r in zip(plans, (a, b), strict=True)
    ]
    first = a.start - 1, b.start - 1
    for i, j in (*((a[i], b[j]) for i, j in _aligned(*named)), (a.stop, b.stop)):
        gap = range(first[0] + 1, i), range(first[1] + 1, j)
        if len(gap[0]) * len(gap[1]) <= MOST_PAIRS:
            yield from _alike(*gap, same)
        if i < a.stop and j < b.stop:
            yield i, j
        first = i, j


def _alike(a: range, b: range, same: Callable[[int, int], float]) -> list[tuple[int, int]]:
    """Pairs of ``a`` and ``b`` in one order, that are together the most alike."""
    if not a or not b:
        return []
    best = [[0.0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, x in enumerate(a):
        row, above = best[i + 1], best[i]
        for j, y in enumerate(b):
            score = same(x, y)
            row[j + 1] = max(above[j + 1], row[j], above[j] + score if score else 0.0)
    pairs: list[tuple[int, int]] = []
    i, j = len(a), len(b)
    while i and j:
        score = same(a[i - 1], b[j - 1])
        if score and best[i][j] == best[i - 1][j - 1] + score:
            i, j = i - 1, j - 1
            pairs.append((a[i], b[j]))
        elif best[i][j] == best[i - 1][j]:
            i -= 1
        else:
            j -= 1
    return pairs[::-1]


# ---------------------------------------------------------------- buffers
def _match_slots(one: Whole, other: Whole, found: Matching) -> None:
    theirs: dict[Hashable, list[int]] = {}
    for key, number in _keyed(other):
        theirs.setdefault(key, []).append(number)
    for key, number in _keyed(one):
        if theirs.get(key):
            found.slots.add(number, theirs[key].pop(0))
    pairs = sorted(found.steps.there.items())
    for x, y in pairs:
        a, b = one.steps[x], other.steps[y]
        _pair_slots(one, other, touched_slots(a)[0], touched_slots(b)[0], found)
    for x, y in pairs:
        a, b = one.steps[x], other.steps[y]
        _pair_slots(one, other, a.pointers, b.pointers, found)
        _pair_slots(one, other, a.keeps, b.keeps, found)
    unmatched: dict[Hashable, list[int]] = {}
    for slot in other.slots:
        if slot.number not in found.slots.back and slot.kind == "arena" and slot.value:
            unmatched.setdefault(_held_value(slot), []).append(slot.number)
    for slot in one.slots:  # of steps that have no partner, or another number of results
        if slot.number not in found.slots.there and unmatched.get(_held_value(slot)):
            found.slots.add(slot.number, unmatched[_held_value(slot)].pop(0))
    for n, slot in enumerate(one.slots):  # what was packed is what it was packed from
        if slot.packing is not None and slot.packing.source in found.slots.there:
            source = found.slots.there[slot.packing.source]
            packed = [s.number for s in other.slots if s.packing and s.packing.source == source]
            for number in packed:
                found.slots.add(n, number)


def _held_value(slot: Slot) -> Hashable:
    """The value of the graph that ``slot`` holds, as it lies in memory."""
    return slot.kind, slot.value, slot.dtype, slot.shape, slot.device


def _keyed(plan: Whole) -> Iterator[tuple[Hashable, int]]:
    for n, slot in enumerate(plan.slots):
        if slot.kind in ("input", "output", "weight"):
            yield _name(slot), n
        elif slot.data is not None:
            yield (slot.dtype, slot.data.shape, slot.data.tobytes()), n


def _pair_slots(
    one: Whole, other: Whole, a: Sequence[int], b: Sequence[int], found: Matching
) -> None:
    if len(a) != len(b):
        return
    for x, y in zip(a, b, strict=True):
        if one.slots[x].kind == other.slots[y].kind:
            if one.slots[x].kind in ("input", "output", "weight"):
                continue  # these have names
            found.slots.add(x, y)


# ---------------------------------------------------------------- operations
def _match_ops(one: Whole, other: Whole, found: Matching) -> None:
    for x, y in sorted(found.steps.there.items()):
        a, b = one.steps[x], other.steps[y]
        found.ops.add_all(a.nodes, b.nodes)
        for p, q in zip(texts_of(a), texts_of(b), strict=False):
            found.ops.add_all([id for *_, id in p.lines], [id for *_, id in q.lines])
            found.ops.add_all(p.checked, q.checked)
        if a.renamed is not None and b.renamed is not None:
            found.ops.add_all([*a.renamed], [*b.renamed])
            for ids, others in zip(a.renamed.values(), b.renamed.values(), strict=False):
                found.ops.add_all(ids, others)
        if a.guard is not None and b.guard is not None:
            found.ops.add_all(
                _ids(a.guard.differences.values()), _ids(b.guard.differences.values())
            )
            found.ops.add_all(
                _ids(op for op, _ in a.guard.checks), _ids(op for op, _ in b.guard.checks)
            )
    mine = {id: op for id, op in _ops_of(one).items() if id not in found.ops.there}
    theirs = {id: op for id, op in _ops_of(other).items() if id not in found.ops.back}
    a_ids, b_ids = [*mine], [*theirs]
    said = [[(op.name, op.at, op.fault) for op in table.values()] for table in (mine, theirs)]
    for i, j in _aligned(*said):
        found.ops.add(a_ids[i], b_ids[j])
    for id in a_ids:  # what has no other partner may still be called the same
        if id in theirs:
            found.ops.add(id, id)


def texts_of(step: Step) -> list[Printed]:
    """The kernels of ``step``: of a GPU all that it may choose."""
    if step.gpu is not None:
        return [step.gpu.printed(n) for n in range(len(step.gpu))]
    found = (step.printed, step.in_strips(), *map(step.other, step.others))
    return [printed for printed in found if printed is not None]


def _ids(ops: Iterable[OpFacts]) -> list[str]:
    return [op.id for op in ops]


def _ops_of(plan: Whole) -> Mapping[str, OpFacts]:
    """All operations that the facts of ``plan`` name, in their order."""
    known = dict(plan.facts.ops)
    for stage in plan.facts.sizes.stages:
        named = [op for *_, op in stage.definitions]
        named += [op for op, _ in stage.guard.checks]
        named += [*stage.guard.differences.values(), *stage.counts.values()]
        for op in (*named, *(bound.op for bound in stage.binds)):
            known.setdefault(op.id, op)
    return known


__all__ = ["Matching", "OneToOne", "computed", "matched", "plain_text", "texts_of"]
