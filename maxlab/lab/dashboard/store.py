"""A recording in memory, as views draw it: read once, and handed to each view piece by piece.

A view names what it has by a *cursor*, and gets a *frame*: a small JSON part, and a buffer with the
times (float64 seconds since the first sample) and then the rows (float32, a value for each column;
NaN where there is none). A frame that begins anew carries the columns; samples in it are thinned
out when they are many, and what was between can be asked for by its time.
"""

from __future__ import annotations

import itertools
import json
import secrets
import threading
import time
from array import array
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from maxlab.diagnostics.monitor import launching
from maxlab.diagnostics.monitor.decoder import Decoder
from maxlab.diagnostics.monitor.line_format import Column
from maxlab.diagnostics.monitor.monitor import Monitor
from maxlab.diagnostics.monitor.places import Identity, small
from maxlab.diagnostics.monitor.recording import Mark, Recording
from maxlab.diagnostics.monitor.segments import Tail, last_change_ns, matching
from maxlab.lab.protocol.dashboard import (
    DetailMessage,
    FrameMessage,
    MarkRow,
    MetricColumn,
    MonitorState,
)
from maxlab.lab.protocol.messages import PROTOCOL

MAX_KEPT = 400_000
"""Samples that are kept in memory; with more, the older half goes, as the oldest segments do."""

MAX_MARKS = 20_000
"""Marks that are kept; the newest."""

MAX_ROWS = 6000
"""Rows of a frame that begins anew, at most: three for each pixel of a wide screen."""

MAX_USER_TABLES = 300
"""Tables of who takes what of the host in one frame; of more, every second, third… goes."""

Frame = tuple[FrameMessage, bytes]
Detail = tuple[DetailMessage, bytes]


@dataclass(slots=True)
class _Held:
    """Bytes that the tensors of one process hold on a device, and since when."""

    times_ns: array[int] = field(default_factory=lambda: array("q"))
    live: array[int] = field(default_factory=lambda: array("q"))

    def add(self, time_ns: int, live: int) -> None:
        """From ``time_ns`` on, ``live`` bytes."""
        self.times_ns.append(time_ns)
        self.live.append(live)


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
            self._take_over(source)

    def _begin(self) -> None:
        """Forget everything."""
        # Cursors of an earlier store, or of another process, must not fit by chance.
        self._generation = secrets.token_hex(4)
        self._decoder = Decoder()
        self._columns: list[Column] = []
        self._places: dict[str, int] = {}
        self._base_ns: int | None = None
        self._times = np.zeros(0, np.int64)
        self._rows = np.zeros((0, 0), np.float32)
        self._count = 0
        self._breaks: list[int] = []
        self._run = ""
        self._marks: dict[str, tuple[int, Mark]] = {}
        self._serial = 0
        self._held: dict[tuple[str, int], _Held] = {}
        self._held_seen = 0
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
            for path in matching(self._monitor.folder, "marks"):
                who = path.stem.rpartition("-")[0]
                if who not in self._kernels:
                    self._kernels[who] = Tail(self._monitor.folder, who)
            for who, tail in self._kernels.items():
                self._decoder.take(tail.read())
                self._end_of_kernel(who)
            self._absorb()

    def _end_of_kernel(self, who: str) -> None:
        """A kernel that was killed could not say that its marks and its tensors ended."""
        process = Identity.parse(who.removeprefix("marks-"))
        if process is None or process.is_alive():
            return
        last_ns = self._last_word_ns(who)
        for mark in self._decoder.marks.values():
            if mark.pid == process.pid and mark.dur_ns is None:
                mark.dur_ns = max(last_ns - mark.start_ns, 0)
        for (_, owner), held in self._held.items():
            if owner == process.pid and held.live and held.live[-1]:
                self._decoder.held.add(last_ns, owner, -1, 0)
                break

    def _last_word_ns(self, who: str) -> int:
        assert self._monitor is not None, "only a monitor's kernels end"
        now_ns, today_ns = time.monotonic_ns(), time.time_ns()
        found = map(last_change_ns, matching(self._monitor.folder, who))
        return now_ns - max(today_ns - (max(found, default=0) or today_ns), 0)

    def _absorb(self) -> None:
        """Turn what the decoder has taken in into rows and marks, and take it off the decoder."""
        decoder = self._decoder
        self._add_columns(list(decoder.columns.values()))
        self._add_held()
        first = self._count
        for segment in decoder.segments:
            if not segment.times_ns:
                continue
            if segment.run != self._run:
                self._run = segment.run
                self._breaks.append(self._count)
            times = np.asarray(segment.times_ns)
            values = np.asarray(segment.values).reshape(len(times), len(segment.columns))
            self._add_rows(times, values, [self._places[one.key] for one in segment.columns])
            segment.clear()
        self._add_tensors(first)
        self._absorb_marks()
        self._trim()

    def _take_over(self, recording: Recording) -> None:
        """Show a recording that is complete, which keeps what it has."""
        self._add_columns(recording.columns)
        self._add_held()
        self._breaks = list(recording.starts)
        places = [self._places[column.key] for column in recording.columns]
        self._add_rows(recording.times_ns, recording.values, places)
        self._add_tensors(0)
        self._absorb_marks()

    def _absorb_marks(self) -> None:
        marks = self._decoder.marks
        for id, mark in itertools.islice(marks.items(), max(len(marks) - MAX_MARKS, 0), None):
            known = self._marks.get(id)
            if known is None or known[1] != mark:
                self._serial += 1
                copy = Mark(**{name: getattr(mark, name) for name in Mark.__slots__})
                self._marks[id] = (self._serial, copy)

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
        for id in list(self._marks)[: max(len(self._marks) - MAX_MARKS, 0)]:
            del self._marks[id]
            self._decoder.forget(id)

    def _add_columns(self, columns: list[Column]) -> None:
        new = []
        for column in columns:
            if column.key in self._places:
                self._columns[self._places[column.key]] = column
            else:
                new.append(column)
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
        self, times_ns: npt.NDArray[np.int64], values: npt.NDArray[np.float64], into: list[int]
    ) -> None:
        first, count = self._count, len(times_ns)
        if not count:
            return
        if (more := first + count - len(self._times)) > 0:
            # Twice as much while it grows; just enough for a recording that is complete.
            more = max(more, len(self._times)) if self._monitor is not None else more
            self._times = np.concatenate([self._times, np.zeros(more, np.int64)])
            empty = np.full((more, self._rows.shape[1]), np.nan, np.float32)
            self._rows = np.concatenate([self._rows, empty]) if len(self._rows) else empty
        if self._base_ns is None:
            self._base_ns = int(times_ns[0])
        part = slice(first, first + count)
        self._times[part] = times_ns
        with np.errstate(over="ignore"):  # what is too large for a chart is shown as infinite
            self._rows[part, into] = values
        self._count += count

    # ------------------------------------------------------------ tensors
    def _add_held(self) -> None:
        """Take in what the decoder has learnt of tensors since the last time."""
        seen, held = self._held_seen, self._decoder.held
        self._held_seen = len(held)
        devices = list(held.devices)
        self._add_columns([_tensors_column(device) for device in devices])
        for time_ns, pid, place, live in zip(
            held.times_ns[seen:], held.pids[seen:], held.places[seen:], held.live[seen:],
            strict=True,
        ):  # fmt: skip
            if place >= 0:
                self._held.setdefault((devices[place], pid), _Held()).add(time_ns, live)
                continue
            for (_, owner), one in self._held.items():  # the kernel has ended
                if owner == pid:
                    one.add(time_ns, 0)

    def _add_tensors(self, first: int) -> None:
        """Fill the columns of tensors from the row ``first`` on: of each device what all kernels
        held of it, the most since the sample before."""
        if first == self._count:
            return
        times = self._times[first : self._count]
        before = self._times[max(first - 1, 0) : max(first - 1, 0) + 1]
        edges = np.concatenate([before, times])
        totals: dict[str, npt.NDArray[np.float64]] = {}
        for (device, _), held in self._held.items():
            stamps = np.maximum.accumulate(np.asarray(held.times_ns))
            ends = np.searchsorted(stamps, edges, "right")
            # Of each pair, from what was held at the sample before; the 0 gives the last pair an
            # end, and stands for what was held before anything was.
            live = np.append(np.asarray(held.live), 0).astype(np.float64)
            pairs = np.stack([np.maximum(ends[:-1] - 1, 0), ends[1:]], axis=1).reshape(-1)
            most = np.where(ends[1:] > 0, np.maximum.reduceat(live, pairs)[::2], 0)
            totals[device] = totals[device] + most if device in totals else most
        for device, total in totals.items():
            self._rows[first : self._count, self._places[f"tensors.{device}"]] = total

    # ------------------------------------------------------------ frames
    def frame(self, cursor: str = "") -> Frame:
        """The data that a view lacks which has seen all up to ``cursor``."""
        with self._lock:
            generation, _, rest = cursor.partition(":")
            row_text, _, rest = rest.partition(":")
            serial_text, _, rest = rest.partition(":")
            table_text, _, user_text = rest.partition(":")
            known = small(row_text)
            is_known = generation == self._generation and known is not None
            row = min(known, self._count) if is_known and known is not None else 0
            serial = (small(serial_text) or 0) if is_known else 0
            table = (small(table_text) or 0) if is_known else 0
            user = (small(user_text) or 0) if is_known else 0
            tables, tables_gone = self._decoder.processes, self._decoder.tables_gone
            newest = tables_gone + len(tables)
            users, users_gone = self._decoder.users, self._decoder.users_gone
            user_tables = users[max((user or 0) - users_gone, 0) :]
            # A page that begins anew needs no more of them than it could point at.
            user_tables = (
                user_tables[:: -(-len(user_tables) // MAX_USER_TABLES) or 1][:-1]
                + (user_tables[-1:])
            )
            times, rows = self._times[row : self._count], self._rows[row : self._count]
            is_thin = len(times) > MAX_ROWS
            if is_thin:
                times, rows = thinned(times, rows, MAX_ROWS)
            body: FrameMessage = {
                "type": "frame",
                "protocol": PROTOCOL,
                "count": len(times),
                "width": rows.shape[1],
                "reset": not is_known,
                "cursor": (
                    f"{self._generation}:{self._count}:{self._serial}:{newest}"
                    f":{users_gone + len(users)}"
                ),
                "breaks": [self._second(b) for b in self._breaks if row <= b < self._count],
                "marks": [
                    self._mark(mark) for number, mark in self._marks.values() if number > serial
                ],
                "problems": self._decoder.problems,
                "processes": [
                    ((time_ns - (self._base_ns or 0)) / 1e9, json.loads(held))
                    for time_ns, held in tables[max(table - tables_gone, 0) :]
                ],
                "users": [
                    ((time_ns - (self._base_ns or 0)) / 1e9, *json.loads(text))
                    for time_ns, text in user_tables
                ],
                "state": self._state(),
                "thin": is_thin,
            }
            if not is_known:
                body["columns"] = [_told(column) for column in self._columns]
            return body, self._packed(times, rows)

    def detail(self, start_s: float, end_s: float) -> Detail:
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
            body: DetailMessage = {
                "type": "detail",
                "protocol": PROTOCOL,
                "count": len(times),
                "width": rows.shape[1],
                "generation": self._generation,
                "start": start_s,
                "end": end_s,
            }
            return body, self._packed(times, rows)

    def _packed(self, times: npt.NDArray[np.int64], rows: npt.NDArray[np.float32]) -> bytes:
        seconds = (times - (self._base_ns or 0)) / 1e9
        return seconds.astype("<f8").tobytes() + np.ascontiguousarray(rows, "<f4").tobytes()

    def _second(self, row: int) -> float:
        return float(self._times[row] - (self._base_ns or 0)) / 1e9

    def _mark(self, mark: Mark) -> MarkRow:
        start = (mark.start_ns - (self._base_ns or 0)) / 1e9
        took = None if mark.dur_ns is None else mark.dur_ns / 1e9
        return (
            mark.id, round(start, 6), took, mark.kind, mark.name, mark.count, mark.pid,
            mark.cell, mark.line,
        )  # fmt: skip

    def _state(self) -> MonitorState:
        facts, end = self._decoder.facts, self._decoder.end
        base_ns = self._base_ns or 0
        running = None if self._monitor is None else launching.running(self._monitor.folder)
        now_ns = time.monotonic_ns()
        last_ns = int(self._times[self._count - 1]) if self._count else base_ns
        ended = end[1] if end and end[0] >= last_ns else ""
        wall_ns = facts.get("wall_ns", 0) + base_ns - facts.get("mono_ns", 0)
        return {
            "running": running is not None,
            "replay": self._monitor is None,
            "title": self._title,
            "label": facts.get("label", ""),
            "period": ((running and running.period_ns) or facts.get("period_ns", 0)) / 1e9,
            "names": self._decoder.names,
            "ended": "" if running else ended,
            # Milliseconds of the calendar at second 0, for clocks on the axis.
            "epoch": wall_ns / 1e6 if facts.get("wall_ns") else 0,
            "now": ((now_ns if running else last_ns) - base_ns) / 1e9,
            "recorded": self._count > 0,
        }

    # ------------------------------------------------------------ for pictures and text
    def snapshot(
        self,
    ) -> tuple[list[Column], npt.NDArray[np.int64], npt.NDArray[np.float32], MonitorState]:
        """Columns, ``[samples]`` times, ``[samples, columns]`` values, and the state."""
        with self._lock:
            part = slice(0, self._count)
            state = self._state()
            return list(self._columns), self._times[part].copy(), self._rows[part].copy(), state

    @property
    def samples(self) -> int:
        """The number of samples that were read."""
        return self._count


def _told(column: Column) -> MetricColumn:
    return {
        "key": column.key,
        "device": column.device,
        "quantity": column.quantity,
        "unit": column.unit,
        "label": column.label,
        "top": column.top,
        "average": column.average,
        "window_ns": column.window_ns,
    }


def _tensors_column(device: str) -> Column:
    is_host = device == "host"
    return Column(
        f"tensors.{device}",
        device,
        "host_memory" if is_host else "memory",
        "B",
        "maxlab tensors" if is_host else f"maxlab tensors, {device}",
    )


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
