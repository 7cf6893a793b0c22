"""The table that a timeline is: slices on tracks, sorted so that what is in view is found by
bisection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

Array = np.ndarray[Any, Any]

TrackKind = Literal["python", "compile", "thread", "stream", "transfer"]
TRACK_KINDS: tuple[TrackKind, ...] = get_args(TrackKind)
"""The kinds of tracks, in the order in which they are drawn."""


@dataclass(frozen=True, slots=True)
class Track:
    """One row of the picture.

    Attributes:
        name: ``"thread 0"``, ``"stream of gpu:0"``.
        kind: What its slices are: spans of Python, of the compiler, or kernels of a thread or a
            stream, or copies.
        process: What it belongs to; tracks of a process stand together.
    """

    name: str
    kind: TrackKind
    process: str


class Columns(NamedTuple):
    """The columns of the slices, by their names in JSON."""

    start: Array
    dur: Array
    track: Array
    name: Array
    kernel: Array
    depth: Array
    turns: Array


COLUMN_DTYPES = ("i8", "i8", "i4", "i4", "i4", "i4", "i4")
"""Of each of the ``Columns``."""


@dataclass(frozen=True, slots=True)
class Built:
    """The result of a ``Builder``; ``columns.start`` is relative to ``t0_ns``."""

    t0_ns: int
    tracks: tuple[Track, ...]
    names: tuple[str, ...]
    columns: Columns


class Builder:
    """Collects slices, and sorts them when all are there."""

    def __init__(self) -> None:
        self._tracks: dict[Track, int] = {}
        self._names: dict[str, int] = {}
        self._parts: list[Columns] = []

    def track(self, name: str, kind: TrackKind, process: str) -> int:
        """The index of the track with these properties; the same for the same ones."""
        return self._tracks.setdefault(Track(name, kind, process), len(self._tracks))

    def add_kernels(
        self,
        track: int,
        begin: Array,
        end: Array,
        kernel: Array,
        names: Sequence[str],
        first: int = 0,
        turns: Array | None = None,
    ) -> None:
        """Add launches of kernels, none of which overlaps another of its track.

        Args:
            track: An index that ``track`` gave.
            begin: [slices], nanoseconds.
            end: [slices], nanoseconds.
            kernel: [slices], numbers of kernels.
            names: The name of each kernel.
            first: Where these kernels begin in the list of those of all models.
            turns: [slices], how many launches each stands for; one if left out.
        """
        known = np.array([self._name(name) for name in names], np.int32)
        depth = np.zeros(len(begin), np.int32)
        self._add(track, begin, end, known[kernel], kernel + first, depth, turns)

    def add_spans(self, track: int, spans: Sequence[tuple[int, int, str]]) -> None:
        """Add spans (begin, end, name), which lie inside of each other or overlap."""
        ordered = sorted(spans, key=lambda span: (span[0], -span[1]))
        names = np.array([self._name(name) for _, _, name in ordered], np.int32)
        begin = np.array([span[0] for span in ordered], np.int64)
        end = np.array([span[1] for span in ordered], np.int64)
        depth = np.array(depths(begin.tolist(), end.tolist()), np.int32)
        self._add(track, begin, end, names, np.full(len(ordered), -1), depth)

    def finish(self) -> Built:
        """The sorted table, and its tracks in the order in which they are drawn."""
        ordered = sorted(
            self._tracks, key=lambda track: (TRACK_KINDS.index(track.kind), self._tracks[track])
        )
        place = np.empty(len(ordered), np.int64)
        for position, track in enumerate(ordered):
            place[self._tracks[track]] = position
        parts = self._parts or [Columns(*(np.empty(0, kind) for kind in COLUMN_DTYPES))]
        start, dur, tracks, names, kernel, depth, turns = (
            np.concatenate([part[n] for part in parts]) for n in range(len(Columns._fields))
        )
        if self._parts:
            tracks = place[tracks.astype(np.int64)]
        t0 = int(start.min()) if len(start) else 0
        depth = _apart(start, start + dur, tracks, depth)
        order = np.lexsort((start, depth, tracks))
        made = (start - t0, dur, tracks, names, kernel, depth, turns)
        columns = Columns(
            *(
                np.ascontiguousarray(column[order], kind)
                for column, kind in zip(made, COLUMN_DTYPES, strict=True)
            )
        )
        return Built(t0, tuple(ordered), tuple(self._names), columns)

    def _name(self, name: str) -> int:
        return self._names.setdefault(name, len(self._names))

    def _add(
        self,
        track: int,
        begin: Array,
        end: Array,
        name: Array,
        kernel: Array,
        depth: Array,
        turns: Array | None = None,
    ) -> None:
        if len(begin):
            here = np.full(len(begin), track)
            times = np.ones(len(begin), np.int64) if turns is None else turns
            self._parts.append(Columns(begin, end - begin, here, name, kernel, depth, times))


def _apart(start: Array, end: Array, tracks: Array, depth: Array) -> Array:
    """``depth``, changed on tracks where slices of the same depth overlap: models of the same name
    may have run at the same time."""
    order = np.lexsort((start, depth, tracks))
    same = (np.diff(tracks[order]) == 0) & (np.diff(depth[order]) == 0)
    clash = same & (start[order][1:] < end[order][:-1])
    for track in np.unique(tracks[order][1:][clash]):
        here = np.flatnonzero(tracks == track)
        here = here[np.lexsort((-end[here], start[here]))]
        depth = depth.copy()
        depth[here] = depths(start[here].tolist(), end[here].tolist())
    return depth


def depths(begin: Sequence[int], end: Sequence[int]) -> list[int]:
    """How many slices each slice is inside of, the slices sorted by begin, longer ones first.

    Slices that overlap without lying inside of each other are treated as nested: no two of the same
    depth overlap.

    Example:
        >>> depths([0, 1, 2, 5, 12], [10, 4, 3, 14, 13])
        [0, 1, 2, 1, 2]
    """
    found = []
    open_until: list[int] = []
    for first, last in zip(begin, end, strict=True):
        while open_until and open_until[-1] <= first:
            open_until.pop()
        found.append(len(open_until))
        open_until.append(last)
    return found
