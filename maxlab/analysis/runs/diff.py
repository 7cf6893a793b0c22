"""``diff``: what changed between runs, with what can be said of it and no more."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from maxlab.analysis.runs.nodes import match_nodes
from maxlab.analysis.runs.noise import Estimate, Rules, State
from maxlab.analysis.runs.pairs import Change, Pair, Side, percent
from maxlab.analysis.runs.saved import SUFFIX, SavedRun, load_run, record
from maxlab.analysis.runs.shown import Recorded
from maxlab.analysis.told import DiffAnswer, RunEstimate, RunPair, RunRow, RunSide
from maxlab.engine.profile import Profile
from maxlab.engine.times import time_text
from maxlab.errors import ArgumentError, ArgumentTypeError
from maxlab.tabular import Field, aligned, first_rows

Given = Profile | SavedRun | str | Path
"""A run, or where one was saved; a folder is all runs in it."""

MOST_ROWS = 400
"""Kernels that a view is given of a comparison, those that changed most; it counts the others."""

WORDS: Mapping[State, str] = {
    "slower": "slower",
    "faster": "faster",
    "same": "same",
    "unclear": "no difference shown",
    "few": "too few runs to tell",
    "new": "new",
    "gone": "gone",
}


class Diff(Recorded):
    """Changes between two or more runs. ``diff`` makes it.

    In a notebook it is drawn as the graph of the newest side, painted by what became slower and
    faster, above a table of kernels.

    Attributes:
        pairs: The first side against each of the others.
        rules: When a change is called one.
    """

    def __init__(self, sides: Sequence[Side], rules: Rules) -> None:
        self.sides = tuple(sides)
        self.rules = rules
        self.name = sides[-1].first.name
        documents = [side.first.document for side in sides]
        self._to_last = [match_nodes(document, documents[-1]) for document in documents[:-1]]
        self.pairs = [
            Pair(
                sides[0],
                side,
                self._to_last[0]
                if n == len(sides) - 1
                else match_nodes(documents[0], documents[n]),
                rules,
            )
            for n, side in enumerate(sides)
            if n
        ]
        last = documents[-1]
        answers = {**last.get("answers", {}), "runs": self.data()}
        self.document = {**last, "answers": answers, "panel": "runs"}

    # ------------------------------------------------------------ readings of the last pair
    @property
    def changes(self) -> list[Change]:
        """The kernels of the first side against those of the last, in the order of the last."""
        return self.pairs[-1].changes

    @property
    def wall(self) -> Estimate:
        """The time of a whole run, of the last side against the first."""
        return self.pairs[-1].wall

    @property
    def regressions(self) -> list[Change]:
        """The kernels of the last side that are shown to be slower, the costliest first."""
        return self.pairs[-1].regressions

    # ------------------------------------------------------------ showing
    def _heads(self) -> Sequence[str]:
        return (
            "side", "kernels before", "kernels after", "name", "verdict", "before [ns]",
            "after [ns]", "ratio", "low", "high", "p", "code",
        )  # fmt: skip

    def _records(self) -> Iterator[Sequence[Field]]:
        for side, pair in zip(self.sides[1:], self.pairs, strict=True):
            for c in pair.changes:
                e = c.estimate
                yield (
                    side.label, " ".join(c.before), " ".join(c.after), c.name, c.state,
                    e.before_ns, e.after_ns, e.ratio, e.low, e.high, c.p, c.code,
                )  # fmt: skip

    def table(self, rows: int | None = 20) -> str:
        """The comparison as text: the whole run, what to know, and the kernels that changed most;
        a block for each side after the first.

        Args:
            rows: How many kernels to list of each; None lists all.
        """
        return "\n\n".join(_text(pair, rows) for pair in self.pairs)

    def data(self) -> DiffAnswer:
        """The comparison as plain JSON, as the panel of runs reads it."""
        return {
            "version": 1,
            "kind": "diff",
            "confidence": self.rules.confidence,
            "sides": [side_data(side.runs, side.label) for side in self.sides],
            "pairs": [
                pair_data(pair, 0, n, {} if n == len(self.pairs) else self._to_last[n])
                for n, pair in enumerate(self.pairs, 1)
            ],
        }

    def __repr__(self) -> str:
        sides = " → ".join(side.label for side in self.sides)
        pair = self.pairs[-1]
        told = "" if pair.wall.is_open else f"{percent(pair.wall.ratio)}, "
        return f"Diff({sides}: {told}{WORDS[pair.wall_state]})"


def diff(
    *runs: Given | Sequence[Given],
    confidence: float = 0.95,
    least: float = 0.01,
    margin: float = 0.05,
) -> Diff:
    """The ``Diff`` of two or more runs: the first against each of the others, kernel by kernel.

    Kernels are matched by the ops that they compute, and ops by what they do, so graphs and
    compilers may differ. A difference is called one only when it is shown: the interval of the
    ratio excludes no change, and the p-value, adjusted for all kernels at once, is small.

    Args:
        *runs: Each a profile, a saved run, a path of one, a folder of them, or a list of such,
            which are then runs of the same program: save several of each, because what differs
            between processes shows in no single one.
        confidence: Of intervals and p-values.
        least: The smallest change that matters, as a fraction of the time.
        margin: Times are the same when their ratio is known to be within this of one.

    Raises:
        ArgumentError: ML846, fewer than two runs, an empty folder, or a fraction out of range;
            ML847, runs of one side are of different programs.
        ArgumentTypeError: ML844, something else than a run.
        DocumentError: A file that is no saved run.

    Example:
        >>> import numpy as np
        >>> from maxlab import engine
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType
        >>> with Graph("double", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        ...     graph.output(graph.inputs[0].tensor * 2)
        >>> model = engine.InferenceSession().load(graph)
        >>> small = model.profile(np.ones(100, np.float32))
        >>> large = model.profile(np.ones(10_000_000, np.float32))
        >>> found = diff(small, large)
        >>> [(c.before, c.after, c.state) for c in found.changes]
        [(('k0',), ('k0',), 'slower')]
        >>> found.pairs[0].notes[0]
        'the sizes differ: n = 100 before, n = 10000000 after'
    """
    if len(runs) < 2:
        raise ArgumentError(
            "ML846",
            f"a comparison needs two runs or more, got {len(runs)}",
            fix="diff(before, after)",
        )
    if not 0.5 <= confidence < 1 or not 0 <= least < 1 or not 0 < margin < 1:
        raise ArgumentError(
            "ML846",
            "confidence must be from 0.5 to below 1, least and margin fractions below 1, got "
            f"{confidence}, {least} and {margin}",
            fix="5% is 0.05",
        )
    rules = Rules(confidence, least, margin)
    return Diff(_named([_side(given) for given in runs]), rules)


def _side(given: Given | Sequence[Given]) -> Side:
    if isinstance(given, (Profile, SavedRun)):
        run = record(given)
        return Side(run.label, (run,))
    if isinstance(given, (str, Path)):
        path = Path(given)
        if not path.is_dir():
            run = load_run(path)
            return Side(run.label, (run,))
        found = sorted(path.glob(f"*{SUFFIX}"))
        if not found:
            raise ArgumentError(
                "ML846",
                f"the folder {path.name!r} has no saved run",
                fix=f"save runs there: profile.save('{path.name}/1{SUFFIX}')",
            )
        return Side(path.name or str(path), tuple(load_run(one) for one in found))
    if isinstance(given, Sequence) and given:
        sides = [_side(one) for one in given]
        return Side(sides[0].label, tuple(run for side in sides for run in side.runs))
    raise ArgumentTypeError(
        "ML844",
        f"a run is what model.profile returned, or a saved one, got {type(given).__name__}",
        fix="diff takes profiles, SavedRuns, paths of .mlprof files, and lists of these",
    )


def _named(sides: Sequence[Side]) -> list[Side]:
    """The sides with labels that tell them apart."""
    labels = [side.label for side in sides]
    if len(set(labels)) == len(labels):
        return list(sides)
    if len(sides) == 2:
        return [Side("before", sides[0].runs), Side("after", sides[1].runs)]
    return [Side(f"{side.label} {n}", side.runs) for n, side in enumerate(sides, 1)]


# ---------------------------------------------------------------- text


def ordered(changes: Sequence[Change]) -> list[Change]:
    """Changes, those first that are shown, then new and lost work, then the rest; each by how much
    time it is about."""
    rank = {"slower": 0, "faster": 0, "new": 1, "gone": 1, "unclear": 2, "few": 2, "same": 2}
    return sorted(changes, key=lambda c: (rank[c.state], -abs(c.delta_ns)))


def kernels_text(change: Change) -> str:
    """The kernels of a change: ``k4``, or ``k3+k4 → k3`` where they are others now."""
    sides = ["+".join(_clipped(ids)) for ids in (change.before, change.after)]
    if not change.before:
        return f"→ {sides[1]}"
    if not change.after:
        return f"{sides[0]} →"
    return sides[1] if sides[0] == sides[1] else f"{sides[0]} → {sides[1]}"


def interval_text(found: Estimate) -> str:
    """The interval of a ratio as changes: ``[+1.2%, +3.4%]``."""
    if not math.isfinite(found.ratio):
        return ""
    high = percent(found.high) if math.isfinite(found.high) else "…"
    return f"[{percent(found.low) if found.low > 0 else '…'}, {high}]"


def _clipped(ids: Sequence[str]) -> list[str]:
    return list(ids) if len(ids) <= 3 else [*ids[:2], f"{len(ids) - 2} more"]


def _text(pair: Pair, rows: int | None) -> str:
    lines = [f"{pair.before.label} → {pair.after.label}: {pair.after.first.name}"]
    heads = [("one run", pair.wall, pair.wall_state), ("its kernels", pair.total, pair.total_state)]
    for words, found, state in heads:
        lines.append(
            f"  {words:<11}  {time_text(found.before_ns)} → {time_text(found.after_ns)}  "
            + ("" if found.is_open else f"{percent(found.ratio)} {interval_text(found)}  ")
            + WORDS[state]
        )
    lines += [f"  note: {note}" for note in pair.notes]
    changes = ordered(pair.changes)
    shown = first_rows(changes, rows)
    cells: list[tuple[str, ...]] = [
        ("kernel", "name", "before", "after", "change", "interval", "Δ", "")
    ]
    cells += [_cells(change) for change in shown]
    lines += ["", *aligned(cells, right=range(2, 7))]
    left = changes[len(shown) :]
    if left:
        delta = sum(c.delta_ns for c in left)
        lines.append(f"… {len(left)} more, {_signed(delta)} together")
    return "\n".join(lines)


def _cells(change: Change) -> tuple[str, ...]:
    found = change.estimate
    name = change.name if len(change.name) <= 36 else change.name[:35] + "…"
    word = WORDS[change.state]
    is_told = bool(change.before and change.after) and not found.is_open
    if change.regrouped:
        word += ", other kernels"
    elif change.code == "changed":
        word += ", other code"
    return (
        kernels_text(change),
        name,
        time_text(found.before_ns) if change.before else "",
        time_text(found.after_ns) if change.after else "",
        percent(found.ratio) if is_told else "",
        interval_text(found) if is_told else "",
        _signed(change.delta_ns),
        word,
    )


def _signed(ns: float) -> str:
    return f"{'-' if ns < 0 else '+'}{time_text(abs(ns))}"


# ---------------------------------------------------------------- JSON


def side_data(runs: Sequence[SavedRun], label: str) -> RunSide:
    """A side as plain JSON."""
    run = runs[0]
    return {
        "label": label,
        "name": run.name,
        "device": run.device,
        "threads": run.threads,
        "dims": run.dims,
        "options": run.options,
        "created": run.created,
        "machine": run.machine,
        "processes": len(runs),
        "runs": sum(one.runs for one in runs),
        "wall": round(run.wall_ns, 1),
    }


def pair_data(pair: Pair, before: int, side: int, to_shown: Mapping[str, str]) -> RunPair:
    """A pair as plain JSON.

    Args:
        pair: The pair.
        before: The index of its earlier side.
        side: The index of its later side.
        to_shown: For ops of its later side, their ids in the graph that is drawn; empty when that
            side is the one that is drawn.
    """
    changes = ordered(pair.changes)
    return {
        "before": before,
        "side": side,
        "wall": _estimate_data(pair.wall, pair.wall_state),
        "total": _estimate_data(pair.total, pair.total_state),
        "notes": pair.notes,
        "rows": [_row(change, to_shown) for change in changes[:MOST_ROWS]],
        "more": max(len(changes) - MOST_ROWS, 0),
    }


def _row(change: Change, to_shown: Mapping[str, str]) -> RunRow:
    nodes = change.nodes_after
    if to_shown:
        nodes = tuple(to_shown[node] for node in nodes if node in to_shown)
    return {
        "name": change.name,
        "kind": change.kind,
        "kernels": kernels_text(change),
        "nodes": list(nodes),
        "code": change.code,
        "regrouped": change.regrouped,
        "bytes": list(change.nbytes),
        **_estimate_data(change.estimate, change.state, change.p),
    }


def _estimate_data(found: Estimate, state: State, p: float | None = None) -> RunEstimate:
    return {
        "before": round(found.before_ns, 1),
        "after": round(found.after_ns, 1),
        "ratio": _number(found.ratio),
        "low": _number(found.low),
        "high": _number(found.high),
        "p": _number(found.p if p is None else p),
        "state": state,
    }


def _number(value: float) -> float | None:
    """A number as JSON can hold it, with as many digits as it deserves."""
    return float(f"{value:.5g}") if math.isfinite(value) else None
