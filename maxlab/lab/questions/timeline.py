"""The question ``timeline``: which kernel ran when, on which thread or stream.

The answer is a table of slices, by columns:

    {"version": 1, "unit": "ns", "name": "double", "device": "cpu", "simulated": false,
     "runs": 1, "run": 4, "t0": 81265512341107, "n": 2,
     "tracks": [{"name": "runs", "kind": "python", "process": "Python"},
                {"name": "thread 0", "kind": "thread", "process": "double on cpu"}],
     "names": ["double", "mul"], "colors": {}, "kernels": ["k0"],
     "columns": {"start": …, "dur": …, "track": …, "name": …, "kernel": …, "depth": …,
                 "turns": …}}

Rows are sorted by track, depth and start; those of a track and a depth never overlap. ``start``
counts from ``t0``, which is a ``time.monotonic_ns``; ``dur`` 0 is an instant. ``track``, ``name``
and ``kernel`` are indices of the lists, and ``kernel`` -1 is no kernel. A slice of a thread is the
time it was busy with a kernel; what is missing to the next one it waited for other threads.
``colors`` has the CSS colours that the
user's spans were given, by name. ``run`` is which of the profile's runs is shown, -1 for several.

``turns`` is how many launches a slice stands for: the steps of a loop stand there once, one behind
the other, with the time of all turns.

A column is ``{"buffer": 0, "dtype": "f8"}``, which is little-endian; ``f8``, ``i4`` and ``i2``
occur. In a saved answer, which has one run and no events, it is a list of integers.

Arguments: ``runs``, ``"one"`` or ``"all"``, and ``events``, whether what else the process recorded
is wanted too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from maxlab.analysis.timeline import timeline
from maxlab.engine.profile import Profile
from maxlab.errors import ArgumentError
from maxlab.lab.questions import Answer, Shown, profile_of, question, saved

MOST_SAVED_SLICES = 2000
"""Slices above which a timeline is not saved; there must be a kernel to ask for it."""

_SENT = {
    "start": "f8", "dur": "f8", "track": "i2", "name": "i4", "kernel": "i4", "depth": "i2",
    "turns": "i4",
}  # fmt: skip


@question("timeline")
def answer(shown: Shown, args: Mapping[str, Any]) -> Answer:
    """The timeline of the newest profile of what is shown.

    Raises:
        ArgumentError: ML806, there is no profile; ML851, ``runs`` or ``events`` of another kind.
    """
    events = args.get("events", False)
    if not isinstance(events, bool):
        raise ArgumentError(
            "ML851",
            f"timeline: events is true or false, got {events!r}",
            fix="leave it out for kernels only",
        )
    made = timeline(profile_of(shown), runs=args.get("runs", "one"), events=events)
    columns = made.columns()
    refs = {name: {"buffer": n, "dtype": _SENT[name]} for n, name in enumerate(columns)}
    buffers = [column.astype(f"<{_SENT[name]}").tobytes() for name, column in columns.items()]
    return Answer({**made.head(), "columns": refs}, buffers)


@saved("timeline")
def to_save(profile: Profile) -> Mapping[str, Any] | None:
    """One run, without events; None where that is too much to save."""
    threads = max(profile.stamps.threads.shape[1], 1)
    if threads * len(profile.kernels) > MOST_SAVED_SLICES:
        return None
    made = timeline(profile)
    columns = {name: column.tolist() for name, column in made.columns().items()}
    return {**made.head(), "columns": columns}
