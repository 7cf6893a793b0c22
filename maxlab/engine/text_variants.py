"""The variants of generated kernels: a text of its own each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from maxlab.compiler import Compiled
from maxlab.compiler.conventions import AROUND
from maxlab.compiler.plan import Launch, Step
from maxlab.toolchain import runtime
from maxlab.toolchain.caches import last_bytes
from maxlab.toolchain.flags import Flags
from maxlab.toolchain.sources import KernelSource
from maxlab.toolchain.units import compile_units
from maxlab.toolchain.variants import Case, Family, Trial, Variant, choose, rounded
from maxlab.toolchain.variants.work import Work

FLOAT = 4
_WINDOW = 1 << 19
"""Elements of a turn of a trial: about half a millisecond."""


class Maps(Family):
    """A map kernel of float32: a case is its elements, and how many arrays of them there are, the
    result among them.

    The variants write through the caches, or around them. They are measured where no cache can hold
    all of the arrays: who reads the result of a smaller kernel might find it there. The bits are
    the same.

    Args:
        step: The kernel.
        compiled: What it is of. It is not kept: choices live as long as the process.
    """

    name = "maps"
    axes = ("elements", "arrays")
    through = Variant("through the caches")
    around = Variant(AROUND)

    def __init__(self, step: Step, compiled: Compiled) -> None:
        assert step.printed is not None
        accuracy = compiled.options.accuracy
        self.member = step.printed.symbol + ("" if accuracy == "default" else f" {accuracy}")
        self._address = compiled.kernels[step.number].address
        self._other = step.other(AROUND)
        self._flags = Flags(accuracy=accuracy)

    def variants(self, case: Case) -> Sequence[Variant]:
        elements, arrays = case
        is_large = elements * arrays * FLOAT >= last_bytes()
        return [self.through, self.around] if is_large else [self.through]

    def shape_class(self, case: Case) -> Case:
        elements, arrays = case
        return rounded(elements), arrays

    def trial(self, case: Case) -> Trial:
        arrays = case[1]
        source = KernelSource(self._other.symbol, self._other.text)
        (other,) = compile_units([source], flags=self._flags)
        addresses = {self.through.name: self._address, self.around.name: other.address}
        # One window behind the other, so that none is in a cache when it is its turn again.
        count = -(-2 * last_bytes() // (FLOAT * _WINDOW * arrays))
        library = runtime()
        work = Work(library, 0, [count * _WINDOW * FLOAT] * arrays)
        turn = 0

        def run(variant: Variant) -> None:
            nonlocal turn
            work.run_at(addresses[variant.name], turn % count * _WINDOW * FLOAT, _WINDOW)
            turn += 1

        return Trial(run, f"{_WINDOW} of {count * _WINDOW} elements of {arrays} arrays")


def with_text(launch: Launch, step: Step, compiled: Compiled) -> Launch:
    """``launch`` with the text that ``step`` runs, among those that it has, where there are
    several for so many elements."""
    if AROUND not in step.others:
        return launch
    choice = choose(Maps(step, compiled), (launch.extent, len(step.pointers)))
    return replace(launch, choice=choice, variant=choice.variant)


__all__ = ["Maps", "with_text"]
