"""Runs the passes in order and remembers what each one did, so that a user can look at it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from maxlab import trace
from maxlab.ir import Function


@dataclass(frozen=True, slots=True)
class Rewrite:
    """One change: ``rule`` turned the op ``node`` into ``into``, or removed it."""

    rule: str
    node: str
    into: tuple[str, ...] = ()


@dataclass(slots=True)
class PassRecord:
    """What one pass did: op counts before and after, its time, and each rewrite."""

    name: str
    before: int
    after: int
    elapsed_ns: int
    rewrites: list[Rewrite] = field(default_factory=list)

    def diff(self) -> str:
        """The rewrites, a line each."""
        lines = [f"{self.name}: {self.before} → {self.after} ops"]
        lines += [
            f"  {r.rule}: {r.node}" + (f" → {', '.join(r.into)}" if r.into else " removed")
            for r in self.rewrites
        ]
        return "\n".join(lines)


Pass = Callable[[Function, list[Rewrite]], None]


def run(function: Function, passes: Sequence[tuple[str, Pass]]) -> list[PassRecord]:
    """The records of ``passes``, which have changed ``function`` in place, in order."""
    records: list[PassRecord] = []
    for name, apply in passes:
        start, before = time.perf_counter_ns(), len(function.ops)
        rewrites: list[Rewrite] = []
        apply(function, rewrites)
        elapsed = time.perf_counter_ns() - start
        records.append(PassRecord(name, before, len(function.ops), elapsed, rewrites))
        trace.emit("pass", name, graph=function.name, rewrites=len(rewrites), ns=elapsed)
    return records
