"""The variants that the kernels of a model run with, and what they were measured to take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from maxlab.engine import Model
from maxlab.engine.program import Program
from maxlab.engine.renewing import chosen
from maxlab.engine.times import time_text
from maxlab.toolchain.variants import Choice, Variant

_ORIGINS = {
    "off": "the guess: choosing variants is off",
    "guess": "a guess: nothing was measured",
    "measured": "measured by this process",
    "kept": "measured before on a machine with this CPU",
}


@dataclass(frozen=True, slots=True)
class ChosenVariant:
    """The variant of kernels that do the same work, about as much of it.

    Attributes:
        kernels: Their ids.
        family: The name of the family: ``"products"``.
        case: The sizes, rounded, in words.
        variant: The variant that they run with.
        origin: Where that comes from, in words.
        times: Nanoseconds of the variants by their names, as measured by one thread; empty when
            nothing was measured.
        trial: The work that they were measured on, in words.
        note: What went wrong on the way, in words; empty for nothing.
    """

    kernels: tuple[str, ...]
    family: str
    case: str
    variant: str
    origin: str
    times: dict[str, int]
    trial: str = ""
    note: str = ""

    @property
    def next_best(self) -> tuple[str, int] | None:
        """The fastest of the other variants, and its nanoseconds; None where none was measured."""
        others = [(ns, name) for name, ns in self.times.items() if name != self.variant]
        return min(others)[::-1] if others else None

    @property
    def words(self) -> str:
        """One line about it.

        Example:
            >>> times = {"packed": 2_130_000, "in place": 990_000}
            >>> one = ChosenVariant(("k0",), "batched-products", "m=1 n=64", "in place",
            ...                     "measured by this process", times, "256 of 1 x 512")
            >>> print(one.words.replace(" timed", "\\n timed"))
            k0: chose in place, 990 µs; next best packed, 2.13 ms (batched-products of m=1 n=64,
             timed on 256 of 1 x 512; measured by this process)
        """
        first, *rest = self.kernels
        who = first + (f" +{len(rest)}" if rest else "")
        best = self.next_best
        told = f"chose {self.variant}"
        about = f"{self.family} of {self.case}"
        if best is not None and self.variant in self.times:
            told += f", {time_text(self.times[self.variant])}; "
            told += f"next best {best[0]}, {time_text(best[1])}"
            about += f", timed on {self.trial}"
        note = f"; {self.note}" if self.note else ""
        return f"{who}: {told} ({about}; {self.origin}{note})"


def chosen_variants(model: Model) -> tuple[ChosenVariant, ...]:
    """The variants of the kernels of ``model``, for all sizes that it ran with and remembers;
    those that are no kernels of several variants, or too small to tell, are left out.

    Example:
        >>> import numpy as np
        >>> from maxlab import engine
        >>> from maxlab.analysis.chosen import chosen_variants
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType
        >>> x, y = (TensorType(DType.float32, size) for size in ([16, 8, 512], [16, 512, 64]))
        >>> model = engine.InferenceSession().load(Graph("product", lambda x, y: x @ y, [x, y]))
        >>> _ = model(np.ones((16, 8, 512), np.float32), np.ones((16, 512, 64), np.float32))
        >>> [one.family for one in chosen_variants(model)]
        ['batched-products']
    """
    rows: dict[tuple[Choice, Variant], dict[str, None]] = {}
    steps = model.plan.steps
    for program in _all(model.runner.programs.values()):
        for number, taken in chosen(program.launches).items():
            rows.setdefault(taken, {})[steps[number].id] = None
    return tuple(
        _told(tuple(kernels), *taken)
        for taken, kernels in rows.items()
        if taken[0].state.origin != "only"
    )


def _all(programs: Iterable[Program]) -> Iterator[Program]:
    for program in list(programs):
        yield program
        yield from _all(program.later.values())


def _told(kernels: tuple[str, ...], choice: Choice, taken: Variant) -> ChosenVariant:
    state = choice.state
    origin = _ORIGINS[state.origin]
    if choice.is_pending:
        origin = "a guess: the variants are being measured"
    elif state.origin in ("measured", "kept") and not state.times:
        origin = "a guess: the time did not suffice to measure all of them"
    words = choice.family.words(choice.case)
    return ChosenVariant(
        kernels, choice.family.name, words, taken.name, origin, state.times, state.trial, state.note
    )


__all__ = ["ChosenVariant", "chosen_variants"]
