"""Two sides put together, kernel by kernel."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import Any, Literal

import numpy as np

from maxlab.analysis.runs.facts import DECIDING, TELLING
from maxlab.analysis.runs.matching import Match, match_kernels
from maxlab.analysis.runs.noise import (
    BUSY,
    FEWEST,
    Estimate,
    Rules,
    State,
    adjusted,
    estimate,
    slow_and_fast,
)
from maxlab.analysis.runs.saved import SavedRun
from maxlab.engine.times import KernelTime, plural, time_text
from maxlab.errors import ArgumentError

Array = np.ndarray[Any, Any]

FEWEST_CONTROLS = 3
"""Kernels with unchanged code below which they say nothing of the machine."""

MACHINE_MOVED = 0.02
"""How far kernels with unchanged code must have moved, as a fraction, before it is mentioned."""


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison: one run, or several of the same program.

    Attributes:
        label: What to call it.
        runs: The runs; their kernels are the same.
    """

    label: str
    runs: tuple[SavedRun, ...]

    def __post_init__(self) -> None:
        first = self.runs[0]
        wanted = [(k.id, k.name, k.nodes) for k in first.kernels]
        for run in self.runs[1:]:
            if [(k.id, k.name, k.nodes) for k in run.kernels] != wanted or run.dims != first.dims:
                raise ArgumentError(
                    "ML847",
                    f"{run.label!r} and {first.label!r} are runs of different programs, or of "
                    "different sizes",
                    fix="runs of one side repeat each other; give others as sides of their own",
                )

    @property
    def first(self) -> SavedRun:
        """The run that stands for all where their graph is meant."""
        return self.runs[0]

    @property
    def walls(self) -> list[Array]:
        """For each run, ``[runs]`` nanoseconds of the executions without timing."""
        return [run.wall_samples_ns for run in self.runs]

    @property
    def sums(self) -> list[Array]:
        """For each run, ``[runs]`` nanoseconds of all kernels together."""
        return [run.kernel_sum_samples_ns for run in self.runs]

    def of(self, kernels: Sequence[int]) -> list[Array]:
        """For each run, ``[runs]`` nanoseconds of some kernels together."""
        return [run.kernel_samples_ns[:, list(kernels)].sum(axis=1) for run in self.runs]


@dataclass(frozen=True, slots=True)
class Change:
    """The change in the time of a kernel, or of several that do the same work together.

    Attributes:
        name: What it computes.
        kind: The kind of kernel.
        before: Ids of its kernels before; none for new work.
        after: Their ids after; none for work that is gone.
        nodes_before: Ids of the ops that they compute, in the graph before.
        nodes_after: The same after.
        estimate: The ratio of times, with its interval.
        p: The p-value, adjusted for as many comparisons as there are kernels.
        state: What to call it: ``"slower"``, ``"faster"``, ``"same"``, ``"unclear"`` where no
            difference can be shown and none ruled out, ``"few"`` where there are too few
            executions to tell, ``"new"`` or ``"gone"``.
        code: Whether the generated text is the ``"same"`` or has ``"changed"``; ``""`` when
            that is not known.
        regrouped: Whether the compiler cut the same ops into other kernels.
        flops: Arithmetic before and after.
        nbytes: Bytes before and after.
    """

    name: str
    kind: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    nodes_before: tuple[str, ...]
    nodes_after: tuple[str, ...]
    estimate: Estimate
    p: float
    state: State
    code: Literal["same", "changed", ""]
    regrouped: bool
    flops: tuple[int, int]
    nbytes: tuple[int, int]

    @property
    def delta_ns(self) -> float:
        """Nanoseconds that a run takes longer because of it; below zero where it takes less."""
        return self.estimate.after_ns - self.estimate.before_ns


class Pair:
    """The changes from one side to another.

    Where a side is one process, what differs between processes cannot be told from a change of the
    program. But kernels with the same code and the same sizes should take the same time; how much
    these differ is taken for that noise, and widens all intervals. So what slows everything down
    alike is "unclear" then, and a note says by how much; several runs on each side can show it.

    Attributes:
        before: The one side.
        after: The other.
        rules: When a change is called one.
        changes: One ``Change`` for all work of either side, in the order in which it runs.
        wall: The ratio of the times of whole runs without timing, what a caller waits for.
        total: The ratio of the times of all kernels together.
        controls: The logs of the ratios of kernels that do the same work with the same code on both
            sides; empty when there are fewer than three.
        matched: How many ops of both graphs are the same, and how many each has.
    """

    def __init__(self, before: Side, after: Side, nodes: Mapping[str, str], rules: Rules) -> None:
        self.before = before
        self.after = after
        self.rules = rules
        ops = [sum(not n.get("error") for n in s.first.document["nodes"]) for s in (before, after)]
        self.matched = (len(nodes), ops[0], ops[1])
        matches = match_kernels(before.first.kernels, after.first.kernels, nodes)
        found = [
            estimate(before.of(m.before), after.of(m.after), rules.confidence) for m in matches
        ]
        self.controls = self._controls(matches, found)
        each, shared = self._noise()
        self.wall = self._known(before.walls, after.walls, shared)
        self.total = self._known(before.sums, after.sums, shared)
        self.changes = self._changes(
            matches, [one.widened(each, rules.confidence) for one in found]
        )

    @property
    def wall_state(self) -> State:
        """The name of the change of whole runs."""
        return self.wall.state(self.rules)

    @property
    def total_state(self) -> State:
        """The name of the change of all kernels together."""
        return self.total.state(self.rules)

    @property
    def regressions(self) -> list[Change]:
        """The kernels that are shown to be slower, the one that costs most first."""
        slower = [change for change in self.changes if change.state == "slower"]
        return sorted(slower, key=lambda change: -change.delta_ns)

    def _known(self, before: list[Array], after: list[Array], spread: float) -> Estimate:
        found = estimate(before, after, self.rules.confidence)
        return found.widened(math.hypot(spread, self._busy()), self.rules.confidence)

    def _busy(self) -> float:
        """The noise of the rest of the machine, as the standard deviation of a log. With one run on
        a side, whatever slowed a quarter of its own executions may have slowed all of the other's.
        0 on a quiet machine, and for several runs on both sides, whose own differences tell.
        """
        if min(len(self.before.runs), len(self.after.runs)) > 1:
            return 0.0
        known = [slow_and_fast(w) for side in (self.before, self.after) for w in side.walls]
        most = max((slow / fast for slow, fast in known if fast > 0), default=1.0)
        if most <= BUSY:
            return 0.0
        # So that the interval reaches at least as far as what the machine did by itself.
        return math.log(most) / NormalDist().inv_cdf((1 + self.rules.confidence) / 2)

    def _noise(self) -> tuple[float, float]:
        """The noise between processes, of one kernel and of what all kernels share, as standard
        deviations of logs; zeros when there are several processes on both sides, whose own
        differences tell."""
        if not len(self.controls) or min(len(self.before.runs), len(self.after.runs)) > 1:
            return 0.0, 0.0
        # The median of sizes, scaled to that of a normal distribution: few real changes among the
        # controls do not count.
        each = float(np.median(np.abs(self.controls))) / NormalDist().inv_cdf(0.75)
        return each, abs(float(np.median(self.controls)))

    def _changes(self, matches: Sequence[Match], estimates: Sequence[Estimate]) -> list[Change]:
        both = [n for n, m in enumerate(matches) if m.before and m.after]
        raised = dict(zip(both, adjusted([estimates[n].p for n in both]), strict=True))
        return [
            self._change(match, estimates[n], raised.get(n, 1.0)) for n, match in enumerate(matches)
        ]

    def _change(self, match: Match, found: Estimate, p: float) -> Change:
        ones = [self.before.first.kernels[n] for n in match.before]
        others = [self.after.first.kernels[n] for n in match.after]
        state: State = found.state(self.rules, p)
        if not others:
            state = "gone"
        elif not ones:
            state = "new"
        return Change(
            name=" + ".join(dict.fromkeys(k.name for k in others or ones)),
            kind=" + ".join(dict.fromkeys(k.kind for k in others or ones)),
            before=tuple(k.id for k in ones),
            after=tuple(k.id for k in others),
            nodes_before=_nodes(ones),
            nodes_after=_nodes(others),
            estimate=found,
            p=p,
            state=state,
            code=self._code(match),
            regrouped=bool(ones and others)
            and (len(ones) > 1 or len(others) > 1 or not match.same_nodes),
            flops=(sum(k.flops for k in ones), sum(k.flops for k in others)),
            nbytes=(sum(k.nbytes for k in ones), sum(k.nbytes for k in others)),
        )

    def _code(self, match: Match) -> Literal["same", "changed", ""]:
        if not match.before or not match.after:
            return ""
        texts = [
            [side.first.document["kernels"][n]["source"] for n in chosen]
            for side, chosen in ((self.before, match.before), (self.after, match.after))
        ]
        if None in texts[0] or None in texts[1]:
            return ""
        return "same" if texts[0] == texts[1] else "changed"

    def _controls(self, matches: Sequence[Match], found: Sequence[Estimate]) -> Array:
        logs = []
        kernels, others = self.before.first.kernels, self.after.first.kernels
        for match, one in zip(matches, found, strict=True):
            if len(match.before) == len(match.after) == 1 and self._code(match) == "same":
                first, second = kernels[match.before[0]], others[match.after[0]]
                is_same_work = (first.flops, first.nbytes) == (second.flops, second.nbytes)
                if is_same_work and 0 < one.ratio < math.inf:
                    logs.append(math.log(one.ratio))
        return np.array(logs if len(logs) >= FEWEST_CONTROLS else [])

    @cached_property
    def notes(self) -> list[str]:
        """Notes to read before any number is believed, a sentence each."""
        one, other = self.before.first, self.after.first
        found = [
            f"the machines differ: {words} {_quoted(one.machine, key)} before, "
            f"{_quoted(other.machine, key)} after"
            for key, words in DECIDING.items()
            if one.machine.get(key) != other.machine.get(key)
        ]
        found += [
            f"{words}: {_quoted(one.machine, key)} before, {_quoted(other.machine, key)} after"
            for key, words in TELLING.items()
            if one.machine.get(key) != other.machine.get(key)
        ]
        for words, first, second in (
            ("the devices differ", one.device, other.device),
            ("the numbers of threads differ", one.threads, other.threads),
            ("the sizes differ", _sizes(one), _sizes(other)),
            ("the options of the compiler differ", one.options, other.options),
        ):
            if first != second:
                found.append(f"{words}: {first} before, {second} after")
        matched, *ops = self.matched
        if matched < min(ops):
            found.append(f"{matched} ops are in both graphs, of {ops[0]} before and {ops[1]} after")
        return found + self._doubts()

    def _doubts(self) -> list[str]:
        found = []
        counts = [sum(len(walls) for walls in side.walls) for side in (self.before, self.after)]
        single = len(self.before.runs) == 1 or len(self.after.runs) == 1
        if single and min(counts) < FEWEST:
            found.append(
                f"with {plural(min(counts), 'execution')} no difference can be shown; "
                f"profile with runs={FEWEST} or more"
            )
        elif single:
            known = "only guessed" if len(self.controls) else "not in the intervals"
            found.append(
                "one process on a side: what differs between processes, such as the layout of "
                f"memory, is {known}; save three or more runs of each, in turns"
            )
        for side in (self.before, self.after) if self._busy() else ():
            slow, fast = slow_and_fast(np.concatenate(side.walls))
            if slow > BUSY * fast and min(counts) >= FEWEST:
                found.append(
                    f"the machine was busy during {side.label} (the fastest execution took "
                    f"{time_text(fast)}, but a quarter of them {time_text(slow)} or more), so that "
                    "only a larger change is called one"
                )
        moved = math.exp(float(np.median(self.controls))) if len(self.controls) else 1.0
        if abs(moved - 1) > MACHINE_MOVED:
            found.append(
                f"{len(self.controls)} kernels with the same code and sizes changed by "
                f"{percent(moved)}: that much may be the machine"
            )
        return found


def percent(ratio: float) -> str:
    """A ratio as a change.

    Example:
        >>> percent(1.05), percent(0.5), percent(1.0), percent(float("inf"))
        ('+5.0%', '-50.0%', '+0.0%', '?')
    """
    if not np.isfinite(ratio):
        return "?"
    change = 100 * (ratio - 1)
    return f"{change:+.0f}%" if abs(change) >= 999.5 else f"{change + 0.0:+.1f}%"


def _nodes(kernels: Sequence[KernelTime]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(node for kernel in kernels for node in kernel.nodes))


def _sizes(run: SavedRun) -> str:
    return ", ".join(f"{name} = {size}" for name, size in run.dims.items()) or "none"


def _quoted(machine: Mapping[str, str], key: str) -> str:
    return repr(machine.get(key, "unknown"))
