"""Parts of one plan in the numbers of another, so that what still differs is no numbering."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import TypeVar

from maxlab.compiler.facts import Conditions, Facts, SizeFacts
from maxlab.compiler.guards import Guard
from maxlab.compiler.op_facts import OpFacts
from maxlab.compiler.plan_match import Matching
from maxlab.compiler.plan_parts import Binds, Exchange, GpuKernels, Slot, Step
from maxlab.compiler.plan_whole import Whole
from maxlab.compiler.printed import Printed
from maxlab.ir.poly import Poly

P = TypeVar("P", bound=Printed)


class Renumbering:
    """Says what the parts of the plan ``other`` would be in the numbers of ``one``.

    Args:
        one: The plan whose numbers are taken.
        other: The plan whose parts are given.
        matching: What of one is what of the other.
    """

    def __init__(self, one: Whole, other: Whole, matching: Matching) -> None:
        self._matching = matching
        self._ends = {len(other.steps): len(one.steps)}

    # ------------------------------------------------------------ numbers
    def step_number(self, number: int) -> int:
        """The number of a step; below 0 where the other plan has none."""
        found = self._matching.steps.back.get(number, self._ends.get(number))
        return -1 - number if found is None else found

    def steps(self, numbers: range) -> range:
        """The numbers of steps that follow each other."""
        if not numbers:
            return range(self.step_number(numbers.start), self.step_number(numbers.start))
        return range(self.step_number(numbers.start), self.step_number(numbers[-1]) + 1)

    def slot_number(self, number: int) -> int:
        """The number of a buffer; below 0 where the other plan has none."""
        return self._matching.slots.back.get(number, -1 - number)

    def slot_numbers(self, numbers: Iterable[int]) -> list[int]:
        """The numbers of buffers."""
        return [self.slot_number(number) for number in numbers]

    def id(self, id: str) -> str:
        """The id of an operation."""
        found = self._matching.ops.back.get(id)
        if found is not None:
            return found
        return f"other {id}" if id in self._matching.ops.there else id

    def ids(self, ids: Iterable[str]) -> tuple[str, ...]:
        """The ids of operations."""
        return tuple(map(self.id, ids))

    # ------------------------------------------------------------ steps
    def step(self, step: Step, like: Step) -> Step:
        """``step``, which is ``like`` in the other plan."""
        first = like.number

        def behind(inside: range) -> range:
            """Steps that are counted from the step itself."""
            named = self.steps(range(inside.start + step.number, inside.stop + step.number))
            return range(named.start - first, named.stop - first) if inside else inside

        made = dataclasses.replace(
            step,
            number=first,
            group=like.group,
            pointers=self.slot_numbers(step.pointers),
            keeps=tuple(self.slot_numbers(step.keeps)),
            held={self.slot_number(n): size for n, size in step.held.items()},
            nodes=self.ids(step.nodes),
            printed=None if step.printed is None else self.printed(step.printed),
            gpu=None if step.gpu is None else self._gpu(step.gpu),
            guard=None if step.guard is None else self.guard(step.guard),
        )
        if step.jump:
            made.jump = self.step_number(step.number + step.jump) - first
        if step.binds is not None:
            made.binds = Binds(self.slot_number(step.binds.slot), self.id(step.binds.op))
        if step.renamed is not None:
            made.renamed = {self.id(id): self.ids(ids) for id, ids in step.renamed.items()}
        if step.exchange is not None:
            moves = tuple(
                (self.slot_number(a), self.slot_number(b)) for a, b in step.exchange.moves
            )
            inside, settling = step.exchange.steps, step.exchange.settling
            made.exchange = Exchange(moves, behind(inside), behind(settling))
        return made

    def printed(self, printed: P) -> P:
        """A kernel whose lines are of operations by their ids."""
        lines = [(first, last, self.id(op)) for first, last, op in printed.lines]
        return dataclasses.replace(printed, lines=lines, checked=[*self.ids(printed.checked)])

    def _gpu(self, gpu: GpuKernels) -> GpuKernels:
        texts = [self.printed(gpu.printed(n)) for n in range(len(gpu))]
        return GpuKernels(texts, gpu.launch, gpu.library)

    # ------------------------------------------------------------ the rest
    def slot(self, slot: Slot, like: Slot) -> Slot:
        """``slot``, which is ``like`` in the other plan."""
        packing = slot.packing
        if packing is not None:
            packing = dataclasses.replace(packing, source=self.slot_number(packing.source))
        return dataclasses.replace(slot, number=like.number, value=like.value, packing=packing)

    def op(self, op: OpFacts) -> OpFacts:
        """An operation."""
        return dataclasses.replace(op, id=self.id(op.id))

    def guard(self, guard: Guard) -> Guard:
        """Conditions on sizes."""
        return Guard(
            [(self.op(op), check) for op, check in guard.checks],
            self._by_size(guard.differences),
        )

    def _by_size(self, sizes: Mapping[Poly, OpFacts]) -> dict[Poly, OpFacts]:
        return {size: self.op(op) for size, op in sizes.items()}

    def facts(self, facts: Facts) -> Facts:
        """The facts of the plan's graph, renumbered."""
        sizes = facts.sizes
        stages = [
            Conditions(
                [(name, size, self.op(op)) for name, size, op in stage.definitions],
                self.guard(stage.guard),
                self._by_size(stage.counts),
                [dataclasses.replace(bound, op=self.op(bound.op)) for bound in stage.binds],
            )
            for stage in sizes.stages
        ]
        return dataclasses.replace(
            facts,
            sizes=SizeFacts(sizes.names, sizes.checks, sizes.solved, stages),
            ops={self.id(id): self.op(op) for id, op in facts.ops.items()},
        )


__all__ = ["Renumbering"]
