"""The questions ``runs``, what changed between runs, and ``sweep``, how costs grow with sizes.

``runs`` lists the runs of the graph that this process remembers, and compares two.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from maxlab.analysis.runs.diff import pair_data, side_data
from maxlab.analysis.runs.history import HISTORY, Kept, compare
from maxlab.analysis.runs.noise import Rules
from maxlab.analysis.runs.sweep import sweep
from maxlab.analysis.told import HistoryAnswer, RunsAnswer, SweepAnswer
from maxlab.engine import Model
from maxlab.engine.profile import Profile
from maxlab.errors import ArgumentError
from maxlab.lab.protocol.costs import RunsArgs, SweepArgs
from maxlab.lab.protocol.questions import RUNS, SWEEP
from maxlab.lab.questions.asking import Answer, Shown, model_of, profile_of, question, saved

SWEEP_RUNS = 6
"""Timed executions of each size when a view sweeps."""

MOST_SWEEP_S = 30.0
"""Seconds above which a sweep is left to a cell, where it can be interrupted."""

MOST_SAVED_KERNELS = 120
"""Kernels above which a comparison is not saved with a graph."""


@question(RUNS)
def answer(shown: Shown, args: RunsArgs) -> Answer[RunsAnswer]:
    """The runs of the graph that is shown, and what changed between two of them.

    Raises:
        ArgumentError: ML806, there is no profile, or no run of that number any more.
    """
    profile = profile_of(shown)
    kept = HISTORY.remember(profile)
    numbers = [one.number for one in kept]
    chosen: list[int] = numbers[-2:]
    if "before" in args or "after" in args:
        chosen = [args.get("before", 0), args.get("after", 0)]
    for number in chosen:
        if number not in numbers:
            raise ArgumentError(
                "ML806",
                f"the run {number} is not remembered",
                fix=f"the newest {len(kept)} runs of the graph are",
            )
    return Answer(_data(profile, kept, [numbers.index(number) for number in chosen]))


@saved(RUNS)
def to_save(profile: Profile) -> RunsAnswer | None:
    """The newest run against the one before; None for large models, and while there is one."""
    kept = HISTORY.remember(profile)
    if len(kept) < 2 or len(profile.kernels) > MOST_SAVED_KERNELS:
        return None
    return _data(profile, kept[-2:], [0, 1])


@question(SWEEP)
def swept(shown: Shown, args: SweepArgs) -> Answer[SweepAnswer]:
    """The cost of the model at other sizes, with made-up inputs.

    Raises:
        ArgumentError: ML848, the sizes cannot be swept, or take too long for a view to wait.
    """
    model = model_of(shown)
    sizes = args["sizes"]
    _check_time(model, sizes)
    return Answer(sweep(model, sizes, runs=SWEEP_RUNS).data())


def _data(profile: Profile, kept: Sequence[Kept], chosen: Sequence[int]) -> HistoryAnswer:
    data: HistoryAnswer = {
        "version": 1,
        "kind": "history",
        "confidence": Rules().confidence,
        "dims": dict(profile.dims),
        "sides": [{**side_data((one.run,), one.run.label), "number": one.number} for one in kept],
        "pairs": [],
    }
    if len(chosen) == 2:
        before, after = chosen
        pair = compare(kept[before], kept[after])
        data["pairs"] = [pair_data(pair, before, after, {})]
    return data


def _check_time(model: Model, sizes: Mapping[str, Sequence[int]]) -> None:
    """Refuse a sweep that would take long, as far as the newest profile tells."""
    last = model.last_profile
    if last is None:
        return
    total = float(SWEEP_RUNS * 2 + 6)  # timed, not timed, and before the rounds
    for name, values in sizes.items():
        known = last.dims.get(name, 0)
        numbers = [v for v in values if math.isfinite(v)]
        total *= sum(numbers) / known if known else len(numbers)
    seconds = total * last.wall_ns / 1e9
    if seconds > MOST_SWEEP_S:
        arguments = ", ".join(f"{name}={list(values)}" for name, values in sizes.items())
        raise ArgumentError(
            "ML848",
            f"this would take about {seconds:.0f} s, too long for a view to wait",
            fix=f"give fewer or smaller sizes, or run maxlab.sweep(model, {arguments}) in a cell",
        )
