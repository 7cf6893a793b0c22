"""The memory of what a loop carries, given to what its body makes of it.

The body of a loop is compiled like a graph, with inputs and outputs of its own. An output may be
the memory of a carried input in three ways:

*moved*     it is that input: nothing is done, and from the next turn on the memory has another name
*in place*  the step that makes it reads the input only where it writes: element for element
*behind*    nothing reads the input any more when the output is written

A step that makes an output so may have to wait for the last one that reads the input: it is put at
the end where nothing hinders that. ``programs`` gives what is left memory of its own, and lets the
memories change their names from turn to turn where a name has another one then.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

from maxlab.compiler.loops import Expr, Kernel, Store, walk
from maxlab.compiler.lower import Lowered
from maxlab.compiler.plan import Plan, Slot, Step
from maxlab.ir import Value
from maxlab.ir.poly import ZERO, Poly
from maxlab.opset.core import elements


# ---------------------------------------------------------------- one kernel
def merged(
    lowered: Lowered, target: int, source: int, *, by_element: bool = False
) -> Lowered | None:
    """The kernel of ``lowered`` where the buffer ``target`` is the memory of ``source``; None where
    it reads an element of that when it may be written over: at another index than it writes, or in
    a later pass.

    Args:
        lowered: The kernel.
        target: A buffer that it writes.
        source: One that it reads.
        by_element: Whether elements of a row are of different threads: what all of them read, none
            may write.
    """
    kernel = lowered.kernel
    if kernel.buffers[source].written or not kernel.buffers[target].written:
        return None
    if kernel.buffers[source].dtype is not kernel.buffers[target].dtype:
        return None
    places = {s.index for s in kernel.stores() if s.buffer == target}
    if len(places) != 1:
        return None
    (place,) = places
    stored = False
    for roots, stores in _in_order(kernel):
        for node in walk(roots):
            if node.kind in ("load", "gather") and node.data[0] in (target, source):
                own = node.kind == "load" and node.data == (source, place)
                if stored or not own or (by_element and not node.varies):
                    return None
        stored |= any(s.buffer == target for s in stores)
    return _renumbered(lowered, target, source)


def _in_order(kernel: Kernel) -> Iterator[tuple[list[Expr], list[Store]]]:
    """The reads of an item of ``kernel``, and the stores that follow them, one after another."""
    for current in kernel.passes:
        roots = [k.value for k in current.keeps] + [f.value for f in current.folds]
        yield [*roots, *(s.value for s in current.stores)], current.stores
        for store in current.after:
            yield [store.value], [store]


def _renumbered(lowered: Lowered, target: int, source: int) -> Lowered:
    """``lowered`` without the buffer ``target``, which is ``source``."""
    kernel = lowered.kernel
    left = [n for n in range(len(kernel.buffers)) if n != target]
    numbers = {old: new for new, old in enumerate(left)} | {target: left.index(source)}
    made: dict[int, Expr] = {}

    def copied(root: Expr) -> Expr:
        for node in walk([root]):
            if node.number in made:
                continue
            data = node.data
            if node.kind in ("load", "gather"):
                data = (numbers[data[0]], data[1])
            args = tuple(made[a.number] for a in node.args)
            new = Expr(node.kind, node.dtype, data, args, node.number, node.varies)
            new.node = node.node
            made[node.number] = new
        return made[root.number]

    def stores(given: Sequence[Store]) -> list[Store]:
        return [
            dataclasses.replace(s, buffer=numbers.get(s.buffer, s.buffer), value=copied(s.value))
            for s in given
        ]

    passes = [
        dataclasses.replace(
            p,
            keeps=[dataclasses.replace(k, value=copied(k.value)) for k in p.keeps],
            folds=[dataclasses.replace(f, value=copied(f.value)) for f in p.folds],
            stores=stores(p.stores),
            after=stores(p.after),
        )
        for p in kernel.passes
    ]
    buffers = [
        dataclasses.replace(
            kernel.buffers[old], value=new, written=kernel.buffers[old].written or old == source
        )
        for new, old in enumerate(left)
    ]
    values = [lowered.values[old] for old in left]
    return Lowered(
        dataclasses.replace(kernel, passes=passes, buffers=buffers),
        values,
        lowered.kept,
        lowered.ids,
    )


def is_nothing(kernel: Kernel) -> bool:
    """Whether ``kernel`` only stores what it has read there."""
    return all(
        s.value.kind == "load" and s.value.data == (s.buffer, s.index) for s in kernel.stores()
    ) and not any(p.folds or p.keeps for p in kernel.passes)


# ---------------------------------------------------------------- one plan
class Reuse:
    """Gives outputs of the plan of a loop's body the memory of what is carried.

    Attributes:
        homes: By the number of an output, that of the carried input whose memory it has.
    """

    def __init__(
        self,
        plan: Plan,
        inputs: Sequence[Value],
        changed: Sequence[int],
        again: Callable[[Step, int, int], Step | None],
    ) -> None:
        """``changed`` has, for each output, which of the ``inputs`` it is in the next turn;
        ``again`` makes a step once more with one pointer being another."""
        self.plan = plan
        self._again = again
        self.changed = changed
        self.homes: dict[int, int] = {}
        self.outputs: dict[int, Slot] = {s.index: s for s in plan.slots if s.kind == "output"}
        self._inputs = {n: _unread(inputs[n]) for n in changed}
        self._inputs |= {s.index: s for s in plan.slots if s.kind == "input" and s.index in changed}
        self._moved: set[int] = set()  # inputs that outputs are as they are
        self._written = {step.number: _written(step) for step in plan.steps}
        self._move()
        for number, own in enumerate(changed):
            others = [n for n in changed if n != own]
            for home in (own, *others):
                if number not in self.homes and home not in self.homes.values():
                    self._give(number, home)

    # ------------------------------------------------------------ what is the same
    def _move(self) -> None:
        """Let outputs that are carried inputs be these."""
        for number, output in self.outputs.items():
            touching = [s for s in self.plan.steps if output.number in s.pointers]
            if len(touching) != 1 or self._is_inside(touching[0].number):
                continue
            (step,) = touching
            for home, given in self._inputs.items():
                if home in self.homes.values() or not _alike(given, output):
                    continue
                if sorted(step.pointers) != sorted((given.number, output.number)):
                    continue
                same = self._in_place(step, output.number, given.number)
                if same is not None and same.loops is not None and is_nothing(same.loops.kernel):
                    self.homes[number] = home
                    self._moved.add(home)
                    self._drop([step])
                    break

    # ------------------------------------------------------------ what is written over
    def _give(self, number: int, home: int) -> None:
        """Let the output ``number`` have the memory of the input ``home``, if that is right."""
        output, given = self.outputs[number], self._inputs[home]
        if not _alike(given, output) or not any(self._touching(output.number)):
            return
        first, last = self._span(output.number)
        readers = [s for s in self._touching(given.number) if s.number >= first]
        if not readers:
            self.homes[number] = home
            return
        makers = self._makers(first)
        if makers is None:
            return
        merging = [s for s in makers if given.number in s.pointers]
        made = [self._in_place(s, output.number, given.number) for s in merging]
        if any(step is None for step in made):
            return
        end = makers[-1].number
        if any(s.number > end for s in readers):
            if last > end or not self._may_wait(makers):
                return
            self._put_last(makers)
        self.homes[number] = home
        idle = []
        for old, new in zip(merging, made, strict=True):
            assert new is not None
            new.number = old.number
            self.plan.steps[old.number] = new
            self._written[old.number] = _written(new)
            if new.loops is not None and is_nothing(new.loops.kernel):
                idle.append(new)
        self._drop(idle)

    def _makers(self, first: int) -> list[Step] | None:
        """The step ``first`` and those behind it that make the parts of one value; None where it is
        of an op that runs others."""
        steps = self.plan.steps
        if self._is_inside(first):
            return None
        found = [steps[first]]
        while found[0].kind == "concat" and found[-1].number + 1 < len(steps):
            following = steps[found[-1].number + 1]
            if following.group != found[0].group:
                break
            found.append(following)
        return found

    def _in_place(self, step: Step, target: int, source: int) -> Step | None:
        """``step`` with the slot ``source`` being ``target``; None where that is wrong."""
        pointers = step.pointers
        if pointers.count(target) != 1 or pointers.count(source) != 1:
            return None
        return self._again(step, pointers.index(target), pointers.index(source))

    def _may_wait(self, makers: Sequence[Step]) -> bool:
        """Whether ``makers`` may run behind all other steps."""
        theirs = {n for s in makers for n in s.pointers}
        made = {n for s in makers for n in self._written[s.number]}
        taken = {self._inputs[n].number for n in self.homes.values() if n not in self._moved}
        if theirs & taken:
            return False  # another output is written there meanwhile
        for step in self.plan.steps[makers[-1].number + 1 :]:
            if made.intersection(step.pointers) or self._written[step.number] & theirs:
                return False
        return True

    # ------------------------------------------------------------ the order of steps
    def _touching(self, slot: int) -> Iterator[Step]:
        return (s for s in self.plan.steps if slot in s.pointers)

    def _span(self, slot: int) -> tuple[int, int]:
        """The first and the last step that has ``slot``; of an op that runs others, all of them."""
        numbers = [s.number for s in self._touching(slot)]
        first, last = min(numbers), max(numbers)
        for program in self.plan.programs:
            if first in program:
                first = program.start
            if last in program:
                last = program.stop - 1
        return first, last

    def _is_inside(self, number: int) -> bool:
        return any(number in program for program in self.plan.programs)

    def _put_last(self, steps: Sequence[Step]) -> None:
        left = [s for s in self.plan.steps if s not in steps]
        self._reorder([*left, *steps])

    def _drop(self, steps: Sequence[Step]) -> None:
        self._reorder([s for s in self.plan.steps if s not in steps])

    def _reorder(self, steps: list[Step]) -> None:
        """Let ``steps`` be those of the plan; those of ops that run others stay together."""
        place = {step.number: n for n, step in enumerate(steps)}
        plan = self.plan
        for ranges in (plan.loops, plan.programs):
            ranges[:] = [range(place[r.start], place[r.start] + len(r)) for r in ranges]
        self._written = {place[n]: w for n, w in self._written.items() if n in place}
        plan.steps[:] = steps
        for number, step in enumerate(steps):
            step.number = number


def _alike(one: Slot, other: Slot) -> bool:
    """Whether two slots hold values of the same size, dtype and order on the same device."""
    same = one.dtype is other.dtype and one.nbytes == other.nbytes and one.device == other.device
    return same and one.order == other.order


def _unread(value: Value) -> Slot:
    """A stand-in for the slot of an input that no step reads: the plan has none."""
    typed = value.tensor_type
    nbytes = elements(typed) * Poly.constant(typed.dtype.size_in_bytes)
    return Slot(-1 - value.index, "input", typed.dtype, nbytes, typed.sizes, device=typed.device)


def _written(step: Step) -> frozenset[int]:
    """The slots that ``step`` may write."""
    if step.kind == "settle":  # how much it copies depends on the number of turns: it says nothing
        return frozenset(step.pointers)
    return frozenset(n for n, (_, written) in step.traffic().items() if written != ZERO)


__all__ = ["Reuse", "is_nothing", "merged"]
