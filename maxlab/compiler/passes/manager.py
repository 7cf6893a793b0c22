"""Runs the passes in order; what each one did is read from a log, when a user looks at it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from maxlab import progress, trace
from maxlab.ir import Function, Rewrite, Rewriting, listen
from maxlab.opset import operations

Pass = Callable[[Rewriting], None]
"""A pass: it changes the function of what it is called with, by its methods."""

Passes = Sequence[tuple[str, Pass]]


class Replay:
    """The passes once more, on a copy of what they were run on, with a log.

    Passes do the same to equal functions, so nothing of what they do is kept when a graph is
    compiled: who asks what a rule did waits for a second run of the passes, once.

    Args:
        copy: Makes the function as it was before the first pass.
        passes: The passes.
    """

    def __init__(self, copy: Callable[[], Function], passes: Passes) -> None:
        self._copy = copy
        self._passes = passes
        self._found: list[list[Rewrite]] | None = None

    def rewrites(self, number: int) -> list[Rewrite]:
        """The rewrites of the pass ``number``."""
        if self._found is None:
            function = self._copy()
            self._found = [rewrites_of(function, apply) for _, apply in self._passes]
        return self._found[number]


@dataclass(slots=True)
class PassRecord:
    """The record of one pass: op counts before and after, its time, how many rules it applied, and
    each of them, found when it is asked for.
    """

    name: str
    before: int
    after: int
    elapsed_ns: int
    count: int
    _number: int = field(repr=False)
    _replay: Replay = field(repr=False)

    @property
    def rewrites(self) -> list[Rewrite]:
        """Each rule that was applied, to which op, and what took its place."""
        return self._replay.rewrites(self._number)

    def diff(self) -> str:
        """The rewrites, a line each."""
        lines = [f"{self.name}: {self.before} → {self.after} op{'s' * (self.after != 1)}"]
        lines += [
            f"  {r.rule}: {r.node}" + (f" → {', '.join(r.into)}" if r.into else " removed")
            for r in self.rewrites
        ]
        return "\n".join(lines)


def applied(function: Function, apply: Pass) -> int:
    """How many rules the pass applied; it has changed ``function``."""
    with Rewriting(function) as rewriting:
        apply(rewriting)
    return rewriting.count


def rewrites_of(function: Function, apply: Pass) -> list[Rewrite]:
    """The rewrites of the pass that has changed ``function``."""
    log = listen(function)
    mark = log.mark()
    applied(function, apply)
    return log.rewrites(mark)


def run(function: Function, passes: Passes) -> list[tuple[int, int, int, int]]:
    """Change ``function`` by ``passes``, in order; of each, the number of ops before and after, the
    nanoseconds that it took, and the number of rules that it applied."""
    facts: list[tuple[int, int, int, int]] = []
    ops = operations(function)
    for number, (name, apply) in enumerate(passes):
        progress.step("passes", number, len(passes), name)
        start, before = time.perf_counter_ns(), ops
        count = applied(function, apply)
        elapsed = time.perf_counter_ns() - start
        if count:  # a pass that applied no rule changed nothing
            ops = operations(function)
        facts.append((before, ops, elapsed, count))
        trace.emit("pass", name, graph=function.name, rewrites=count, ns=elapsed)
    return facts


def recorded(function: Function, passes: Passes, copy: Callable[[], Function]) -> list[PassRecord]:
    """The records of ``passes``, which have changed ``function``; ``copy`` makes the function once
    more as it was, for whoever reads ``rewrites``."""
    replay = Replay(copy, passes)
    facts = run(function, passes)
    return [
        PassRecord(name, *fact, number, replay)
        for number, ((name, _), fact) in enumerate(zip(passes, facts, strict=True))
    ]
