"""A recording in memory, as views draw it: read once, and handed to each view piece by piece.

A view names what it has by a *cursor*, and gets a *frame*: a small JSON part, and a buffer with the
times (float64 seconds since the first sample) and then the rows (float32, a value for each column;
NaN where there is none). A frame that begins anew carries the columns; samples in it are thinned
out when they are many, and what was between can be asked for by its time.
"""

from __future__ import annotations

import secrets
import threading
import time
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from maxlab.diagnostics.monitor import _launch
from maxlab.diagnostics.monitor._format import SUFFIX, Column
from maxlab.diagnostics.monitor._place import Identity
from maxlab.diagnostics.monitor._segments import Tail
from maxlab.diagnostics.monitor.monitor import Monitor
from maxlab.diagnostics.monitor.recording import Decoder, Mark, Recording

FRAME_VERSION = 1

MAX_KEPT = 400_000
"""Samples that are kept in memory; with more, the older half goes, as the oldest segments do."""

MAX_MARKS = 20_000
"""Marks that are kept; the newest."""

MAX_TABLES = 2000
"""Tables of processes that are kept; the newest. There is one for each time that one changed."""

MAX_ROWS = 6000
"""Rows of a frame that begins anew, at most: three for each pixel of a wide screen."""

Frame = tuple[dict[str, Any], bytes]


@dataclass(slots=True)
class _Held:
    """Bytes that the tensors of one process hold on a device, and since when."""

    times_ns: list[int] = field(default_factory=list)
    live: list[int] = field(default_factory=list)


class Store:
    """All that is known of one recording.

    Args:
        source: a monitor, which is read while it goes on, or a recording that is complete.
        title: of a recording, such as the name of its file.
    """

    def __init__(self, source: Monitor | Recording, title: str = "") -> None:
        self._lock = threading.Lock()
        self._monitor = source if isinstance(source, Monitor) else None
        self._title = title
        self._begin()
        if isinstance(source, Recording):
            self._decoder = source._decoder
            self._absorb()

    def _begin(self) -> None:
        """Forget everything."""
        # Cursors of an earlier store, or of another process, must not fit by chance.
        self._generation = secrets.token_hex(4)
        self._decoder = Decoder()
        self._columns: list[Column] = []
        self._places: dict[str, int] = {}
        self._base_ns: int | None = None
        self._times = np.zeros(256, np.int64)
        self._rows = np.zeros((256, 0), np.float32)
        self._count = 0
        self._breaks: list[int] = []
        self._run = ""
        self._marks: dict[str, tuple[int, Mark]] = {}
        self._serial = 0
        self._held: dict[tuple[str, int], _Held] = {}
        self._held_seen = 0
        self._tables_gone = 0
        self._facts: dict[str, Any] = {}
        self._ended: tuple[int, str] | None = None
        if self._monitor is not None:
            self._samples = Tail(self._monitor.folder, "samples")
            self._kernels: dict[str, Tail] = {}

    # ------------------------------------------------------------ reading
    def read(self) -> None:
        """Take in what was recorded since the last call. Does nothing for a complete recording."""
        if self._monitor is None:
            return
        with self._lock:
            raw = self._samples.read()
            if self._samples.missed:
                self._begin()
                raw = self._samples.read()
            self._decoder.take(raw)
            # After the samples, so that what a kernel did before one of them is known with it.
            for path in self._monitor.folder.glob(f"marks-*{SUFFIX}"):
                who = path.stem.rpartition("-")[0]
                if who not in self._kernels:
                    self._kernels[who] = Tail(self._monitor.folder, who)
            for who, tail in self._kernels.items():
                self._decoder.take(tail.read())
                self._end_of_kernel(who)
            self._absorb()

    def _end_of_kernel(self, who: str) -> None:
        """A kernel that was killed could not say that its marks and its tensors ended."""
        pid, _, start = who.removeprefix("marks-").partition("-")
        if not (pid.isdigit() and start.isdigit()) or Identity(int(pid), int(start)).is_alive():
            return
        last_ns = self._last_word_ns(who)
        for mark in self._decoder.marks.values():
            if mark.pid == int(pid) and mark.dur_ns is None:
                mark.dur_ns = max(last_ns - mark.start_ns, 0)
        for (_, owner), held in self._held.items():
            if owner == int(pid) and held.live and held.live[-1]:
                self._decoder.held.append((last_ns, owner, {}))
                break

    def _last_word_ns(self, who: str) -> int:
        assert self._monitor is not None, "only a monitor's kernels end"
        now_ns = time.monotonic_ns()
        found = [path.stat().st_mtime_ns for path in self._monitor.folder.glob(f"{who}-*{SUFFIX}")]
        return now_ns - max(time.time_ns() - max(found, default=time.time_ns()), 0)

    def _absorb(self) -> None:
        """Turn what the decoder has taken in into rows and marks, and take it off the decoder."""
        decoder = self._decoder
        for segment in decoder.segments:
            self._add_columns(segment.columns)
        for time_ns, pid, by_device in decoder.held[self._held_seen :]:
            self._add_held(time_ns, pid, by_device)
        self._held_seen = len(decoder.held)
        for segment in decoder.segments:
            if not segment.rows:
                continue
            if segment.run != self._run:
                self._run = segment.run
                self._breaks.append(self._count)
            into = [self._places[column.key] for column in segment.columns]
            self._add_rows(segment.times_ns, segment.rows, into)
            if self._monitor is not None:  # a recording keeps its own
                segment.times_ns, segment.rows, segment.numbers = [], [], []
        for id, mark in decoder.marks.items():
            known = self._marks.get(id)
            if known is None or known[1] != mark:
                self._serial += 1
                copy = Mark(**{name: getattr(mark, name) for name in Mark.__slots__})
                self._marks[id] = (self._serial, copy)
        self._trim()
        if decoder.heads:
            self._facts = next(reversed(decoder.heads.values()))
        self._ended = decoder.ends[-1] if decoder.ends else None

    def _trim(self) -> None:
        """Let the oldest go, so that a recording of days stays in bounds."""
        if self._count > MAX_KEPT:
            gone = self._count // 2
            self._times = self._times[gone : self._count].copy()
            self._rows = self._rows[gone : self._count].copy()
            self._count -= gone
            self._breaks = [row - gone for row in self._breaks if row >= gone]
            self._generation = secrets.token_hex(4)
            first_ns = int(self._times[0])
            for held in self._held.values():
                known = max(int(np.searchsorted(held.times_ns, first_ns)) - 1, 0)
                del held.times_ns[:known], held.live[:known]
        if (more := len(self._decoder.processes) - MAX_TABLES) > 0:
            del self._decoder.processes[:more]
            self._tables_gone += more
        for id in list(self._marks)[: max(len(self._marks) - MAX_MARKS, 0)]:
            del self._marks[id]
            self._decoder.marks.pop(id, None)

    def _add_columns(self, columns: list[Column]) -> None:
        new = [column for column in columns if column.key not in self._places]
        for column in columns:
            if column.key in self._places:
                self._columns[self._places[column.key]] = column
        if not new:
            return
        for column in new:
            self._places[column.key] = len(self._columns)
            self._columns.append(column)
        wider = np.full((len(self._times), len(self._columns)), np.nan, np.float32)
        wider[:, : self._rows.shape[1]] = self._rows
        self._rows = wider
        self._generation = secrets.token_hex(4)

    def _add_rows(
        self, times_ns: list[int], rows: list[list[float | None]], into: list[int]
    ) -> None:
        first, count = self._count, len(rows)
        while first + count > len(self._times):
            self._times = np.concatenate([self._times, np.zeros_like(self._times)])
            more = np.full_like(self._rows, np.nan)
            self._rows = np.concatenate([self._rows, more])
        if self._base_ns is None:
            self._base_ns = times_ns[0]
        part = slice(first, first + count)
        self._times[part] = times_ns
        self._rows[part] = np.nan
        self._rows[part, into] = np.array(rows, np.float64)
        self._count += count
        before_ns = int(self._times[first - 1]) if first else times_ns[0]
        for device in {device for device, _ in self._held}:
            place = self._places[f"tensors.{device}"]
            self._rows[part, place] = self._tensors(device, before_ns, self._times[part])

    # ------------------------------------------------------------ tensors
    def _add_held(self, time_ns: int, pid: int, by_device: dict[str, list[int]]) -> None:
        if not by_device:  # the kernel has ended
            for (_, owner), held in self._held.items():
                if owner == pid:
                    held.times_ns.append(time_ns)
                    held.live.append(0)
        for device, (live, _pooled) in by_device.items():
            is_host = device == "host"
            self._add_columns(
                [
                    Column(
                        f"tensors.{device}",
                        device,
                        "host_memory" if is_host else "memory",
                        "B",
                        "maxlab tensors" if is_host else f"maxlab tensors, {device}",
                    )
                ]
            )
            held = self._held.setdefault((device, pid), _Held())
            held.times_ns.append(time_ns)
            held.live.append(live)

    def _tensors(
        self, device: str, before_ns: int, times: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float32]:
        """``[samples]`` bytes on ``device``, of all kernels: the most since the sample before."""
        total = np.zeros(len(times))
        edges = np.concatenate([[before_ns], times])
        for (where, _), held in self._held.items():
            if where != device:
                continue
            stamps, live = np.array(held.times_ns), np.array(held.live, np.float64)
            ends = np.searchsorted(stamps, edges, "right")
            for n in range(len(times)):
                low, high = max(int(ends[n]) - 1, 0), int(ends[n + 1])
                if high:
                    total[n] += live[low:high].max()
        return total.astype(np.float32)

    # ------------------------------------------------------------ frames
    def frame(self, cursor: str = "") -> Frame:
        """What a view does not have yet that has seen all up to ``cursor``."""
        with self._lock:
            generation, _, rest = cursor.partition(":")
            row_text, _, rest = rest.partition(":")
            serial_text, _, table_text = rest.partition(":")
            is_known = generation == self._generation and row_text.isdigit()
            row = min(int(row_text), self._count) if is_known else 0
            serial = int(serial_text) if is_known and serial_text.isdigit() else 0
            table = int(table_text) if is_known and table_text.isdigit() else 0
            tables = self._decoder.processes
            newest = self._tables_gone + len(tables)
            body: dict[str, Any] = {
                "type": "frame",
                "version": FRAME_VERSION,
                "reset": not is_known,
                "cursor": f"{self._generation}:{self._count}:{self._serial}:{newest}",
                "breaks": [self._second(b) for b in self._breaks if row <= b < self._count],
                "marks": [
                    self._mark(mark) for number, mark in self._marks.values() if number > serial
                ],
                "problems": self._decoder.problems[-1][1] if self._decoder.problems else {},
                "processes": [
                    [(time_ns - (self._base_ns or 0)) / 1e9, held]
                    for time_ns, held in tables[max(table - self._tables_gone, 0) :]
                ],
                "state": self._state(),
            }
            if not is_known:
                body["columns"] = [asdict(column) for column in self._columns]
            times, rows = self._times[row : self._count], self._rows[row : self._count]
            is_thin = len(times) > MAX_ROWS
            if is_thin:
                times, rows = thinned(times, rows, MAX_ROWS)
            body["thin"] = is_thin
            return body, self._packed(body, times, rows)

    def detail(self, start_s: float, end_s: float) -> Frame:
        """All samples of a stretch of time, thinned out only when they are too many to draw."""
        with self._lock:
            base_ns = self._base_ns or 0
            stamps = self._times[: self._count]
            # With the neighbours on both sides, so that lines reach the edges.
            low = max(int(np.searchsorted(stamps, base_ns + start_s * 1e9)) - 1, 0)
            high = int(np.searchsorted(stamps, base_ns + end_s * 1e9, "right")) + 1
            times, rows = stamps[low:high], self._rows[low:high]
            if len(times) > MAX_ROWS:
                times, rows = thinned(times, rows, MAX_ROWS)
            body: dict[str, Any] = {
                "type": "detail",
                "version": FRAME_VERSION,
                "generation": self._generation,
                "start": start_s,
                "end": end_s,
            }
            return body, self._packed(body, times, rows)

    def _packed(
        self, body: dict[str, Any], times: npt.NDArray[np.int64], rows: npt.NDArray[np.float32]
    ) -> bytes:
        body["count"] = len(times)
        body["width"] = rows.shape[1]
        seconds = (times - (self._base_ns or 0)) / 1e9
        return seconds.astype("<f8").tobytes() + np.ascontiguousarray(rows, "<f4").tobytes()

    def _second(self, row: int) -> float:
        return float(self._times[row] - (self._base_ns or 0)) / 1e9

    def _mark(self, mark: Mark) -> list[Any]:
        start = (mark.start_ns - (self._base_ns or 0)) / 1e9
        took = None if mark.dur_ns is None else mark.dur_ns / 1e9
        return [mark.id, round(start, 6), took, mark.kind, mark.name, mark.count, mark.pid]

    def _state(self) -> dict[str, Any]:
        facts = self._facts
        base_ns = self._base_ns or 0
        running = None if self._monitor is None else _launch.running(self._monitor.folder)
        now_ns = time.monotonic_ns()
        last_ns = int(self._times[self._count - 1]) if self._count else base_ns
        ended = self._ended[1] if self._ended and self._ended[0] >= last_ns else ""
        wall_ns = facts.get("wall_ns", 0) + base_ns - facts.get("mono_ns", 0)
        return {
            "running": running is not None,
            "replay": self._monitor is None,
            "title": self._title,
            "label": str(facts.get("label", "")),
            "period": (running.period_ns if running else facts.get("period_ns", 0)) / 1e9,
            "names": facts.get("names", {}),
            "ended": "" if running else ended,
            # Milliseconds of the calendar at second 0, for clocks on the axis.
            "epoch": wall_ns / 1e6 if facts.get("wall_ns") else 0,
            "now": ((now_ns if running else last_ns) - base_ns) / 1e9,
            "recorded": self._count > 0,
        }

    # ------------------------------------------------------------ for pictures and text
    def snapshot(
        self,
    ) -> tuple[list[Column], npt.NDArray[np.int64], npt.NDArray[np.float32], dict[str, Any]]:
        """Columns, ``[samples]`` times, ``[samples, columns]`` values, and the state."""
        with self._lock:
            part = slice(0, self._count)
            state = self._state()
            return list(self._columns), self._times[part].copy(), self._rows[part].copy(), state

    @property
    def samples(self) -> int:
        """The number of samples that were read."""
        return self._count


def thinned(
    times: npt.NDArray[np.int64], rows: npt.NDArray[np.float32], most: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """About ``most`` rows that look like ``rows``: of each stretch of equally many, the least and
    the greatest value of each column, at its first and its last time. No peak is lost."""
    size = -(-len(times) * 2 // most)
    whole = len(times) // size * size
    parts = rows[:whole].reshape(-1, size, rows.shape[1])
    low, high = np.fmin.reduce(parts, axis=1), np.fmax.reduce(parts, axis=1)
    starts = times[:whole].reshape(-1, size)
    both_times = np.stack([starts[:, 0], starts[:, -1]], axis=1).reshape(-1)
    both_rows = np.stack([low, high], axis=1).reshape(-1, rows.shape[1])
    return (
        np.concatenate([both_times, times[whole:]]),
        np.concatenate([both_rows, rows[whole:]]),
    )
