"""Counts of the work that was recorded, run and compiled in this process, and its reasons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType

from maxlab.records import dataclass


@dataclass
class Counts:
    """Running numbers of this process.

    Attributes:
        recorded: Operations in traces that are gone.
        runs: Programs that were run.
        compilations: Programs that were compiled, by why.
    """

    recorded: int = 0
    runs: int = 0
    compilations: dict[str, int] = field(default_factory=dict)

    def compiled(self, why: str) -> None:
        """Counts a compilation."""
        self.compilations[why] = self.compilations.get(why, 0) + 1


counts = Counts()


@dataclass(frozen=True, repr=False)
class Stats:
    """The cost of tensors in this process.

    Attributes:
        recorded: Operations that were recorded.
        runs: Programs that reads have run.
        compiled: Programs that were compiled.
        why: How many of them for a new structure, for another size, and for another number.
    """

    recorded: int
    runs: int
    compiled: int
    why: Mapping[str, int]

    def __repr__(self) -> str:
        reasons = ", ".join(f"{count} for {name}" for name, count in sorted(self.why.items()))
        return (
            f"{self.recorded} operations recorded, {self.runs} runs, {self.compiled} compiled"
            + (f": {reasons}" if reasons else "")
        )

    def __sub__(self, earlier: Stats) -> Stats:
        """The cost since ``earlier``."""
        why = {name: count - earlier.why.get(name, 0) for name, count in self.why.items()}
        return Stats(
            self.recorded - earlier.recorded,
            self.runs - earlier.runs,
            self.compiled - earlier.compiled,
            MappingProxyType({name: count for name, count in why.items() if count}),
        )


__all__ = ["Counts", "Stats", "counts"]
