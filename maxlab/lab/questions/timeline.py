"""The question ``timeline``: which kernel ran when, on which thread or stream.

The answer is a table of slices, by columns. A slice of a thread is the time it was busy with a
kernel; what is missing to the next one it waited for other threads. A saved answer has one run, no
events, and lists of integers as columns.
"""

from __future__ import annotations

from typing import Literal

from maxlab.analysis.timeline import Timeline, timeline
from maxlab.engine.profile import Profile
from maxlab.lab.protocol.costs import Column, TimelineAnswer, TimelineArgs, TimelineColumns
from maxlab.lab.protocol.questions import TIMELINE
from maxlab.lab.questions.asking import Answer, Shown, profile_of, question, saved

MOST_SAVED_SLICES = 2000
"""Slices above which a timeline is not saved; there must be a kernel to ask for it."""

_SENT: dict[str, Literal["f8", "i4", "i2"]] = {
    "start": "f8", "dur": "f8", "track": "i2", "name": "i4", "kernel": "i4", "depth": "i2",
    "turns": "i4",
}  # fmt: skip


@question(TIMELINE)
def answer(shown: Shown, args: TimelineArgs) -> Answer[TimelineAnswer]:
    """The timeline of the newest profile of what is shown.

    Raises:
        ArgumentError: ML806, there is no profile.
    """
    profile = profile_of(shown)
    made = timeline(profile, runs=args.get("runs", "one"), events=args.get("events", False))
    columns = made.columns()
    refs: dict[str, Column] = {
        name: {"buffer": n, "dtype": _SENT[name]} for n, name in enumerate(columns)
    }
    buffers = [column.astype(f"<{_SENT[name]}").tobytes() for name, column in columns.items()]
    return Answer(_told(made, refs), buffers)


@saved(TIMELINE)
def to_save(profile: Profile) -> TimelineAnswer | None:
    """One run, without events; None where that is too much to save."""
    threads = max(profile.stamps.threads.shape[1], 1)
    if threads * len(profile.kernels) > MOST_SAVED_SLICES:
        return None
    made = timeline(profile)
    return _told(made, {name: column.tolist() for name, column in made.columns().items()})


def _told(made: Timeline, columns: dict[str, Column]) -> TimelineAnswer:
    table: TimelineColumns = {
        "start": columns["start"],
        "dur": columns["dur"],
        "track": columns["track"],
        "name": columns["name"],
        "kernel": columns["kernel"],
        "depth": columns["depth"],
        "turns": columns["turns"],
    }
    return {**made.head(), "columns": table}
