"""Reading the records of a recording into memory, in a form that takes little more than the file.

Recordings come from elsewhere. A record that is not as it should be is passed over; what is kept of
the others is a few arrays of numbers, so that a file cannot be made to fill the memory.
"""

from __future__ import annotations

import contextlib
import io
import json
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from maxlab.diagnostics.monitor import line_format
from maxlab.diagnostics.monitor.line_format import Column

MAX_TABLES = 2000
"""Tables of processes that are kept; the newest. There is one for each time that one changed."""

MAX_COLUMNS = 20_000
"""Counters of a recording, at most."""

MAX_HOLDERS = 4096
"""Pairs of a process and a device that it held tensors on, at most."""

MAX_GPUS = 1000
"""GPUs whose names are kept, and devices of which tensors are counted."""

# What another program's numbers do to one who expects those of a monitor.
_ODD = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError)
_NAN = float("nan")


@dataclass(slots=True)
class Mark:
    """Something that a kernel did, as it stands on the time axis.

    Attributes:
        id: the same for the whole life of a mark that is still growing.
        start_ns: when it began, on the clock of the samples.
        dur_ns: how long it took, by the clock of the kernel; None while it lasts.
        kind: ``"cell"``, ``"run"`` (of a model), ``"load"``, ``"compile"`` (of kernels),
            ``"phase"`` (of readying a model), ``"kernel"``, ``"profile"``, or ``"op"`` (one step of
            a profiled run).
        name: of the model or kernel, or ``"In [3]"`` for a cell.
        count: how many runs in close succession it stands for.
        pid: the number of the kernel's process.
        cell: id of the cell, as its notebook has it; empty for other kinds and older recordings.
        line: first line of the cell; empty likewise.
    """

    id: str
    start_ns: int
    dur_ns: int | None
    kind: str
    name: str
    count: int
    pid: int
    cell: str = ""
    line: str = ""


@dataclass(slots=True)
class Segment:
    """Samples with the same columns.

    Attributes:
        run: of a monitor.
        columns: what was sampled.
        numbers: ``[samples]`` int64, the number of each in its run.
        times_ns: ``[samples]`` int64.
        values: ``[samples x columns]`` float64, sample by sample; NaN where there is no value.
    """

    run: str
    columns: list[Column]
    numbers: array[int] = field(default_factory=lambda: array("q"))
    times_ns: array[int] = field(default_factory=lambda: array("q"))
    values: array[float] = field(default_factory=lambda: array("d"))

    def clear(self) -> None:
        """Let go of the samples."""
        self.numbers, self.times_ns, self.values = array("q"), array("q"), array("d")


@dataclass(slots=True)
class Held:
    """Bytes that the tensors of processes hold, one entry for each time that they changed.

    Attributes:
        devices: names, in the order in which they came.
        times_ns: ``[entries]`` int64.
        pids: ``[entries]`` int64, the process.
        places: ``[entries]`` int64, of the device in ``devices``; -1 when the process has ended.
        live: ``[entries]`` int64, bytes.
    """

    devices: dict[str, int] = field(default_factory=dict)
    times_ns: array[int] = field(default_factory=lambda: array("q"))
    pids: array[int] = field(default_factory=lambda: array("q"))
    places: array[int] = field(default_factory=lambda: array("q"))
    live: array[int] = field(default_factory=lambda: array("q"))

    def __len__(self) -> int:
        """The number of entries."""
        return len(self.times_ns)

    def add(self, time_ns: int, pid: int, place: int, live: int) -> None:
        """Add an entry."""
        self.times_ns.append(time_ns)
        self.pids.append(pid)
        self.places.append(place)
        self.live.append(live)


@dataclass(slots=True)
class Decoder:
    """Takes records in any pieces, and keeps what they say.

    Attributes:
        is_recording: whether there was a head.
        is_known: whether all of it is of a version that is known.
        excess: what there was too much of, in words; empty when all was taken.
        facts: of the newest run: ``label``, ``period_ns``, ``mono_ns`` and ``wall_ns``.
        names: of GPUs.
        columns: of all segments together, by their keys.
        segments: the samples.
        marks: by their ids, in the order in which they began to be written.
        problems: at the end.
        processes: times, and tables of processes as JSON.
        tables_gone: tables that were let go of.
        users: times, and as JSON who took what of the host: the rows of a ``t`` line, and the
            kernels.
        users_gone: those of them that were let go of.
        held: what tensors hold.
        end: of the last run that ended: when, and why.
    """

    is_recording: bool = False
    is_known: bool = True
    excess: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    columns: dict[str, Column] = field(default_factory=dict)
    segments: list[Segment] = field(default_factory=list)
    marks: dict[str, Mark] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    processes: list[tuple[int, bytes]] = field(default_factory=list)
    tables_gone: int = 0
    users: list[tuple[int, bytes]] = field(default_factory=list)
    users_gone: int = 0
    held: Held = field(default_factory=Held)
    end: tuple[int, str] | None = None
    _run: str = ""
    _holders: set[tuple[int, int]] = field(default_factory=set)
    _notes: dict[str, tuple[str, str]] = field(default_factory=dict)

    def take(self, raw: bytes) -> None:
        """Add the records of ``raw``. One that is not as it should be is passed over."""
        self.take_from(io.BytesIO(raw))

    def take_from(self, file: BinaryIO) -> None:
        """Add the records of ``file``, from where it stands to its end; see `take`."""
        for record in line_format.records(file):
            with contextlib.suppress(*_ODD):
                self._one(record)

    def _one(self, record: list[Any]) -> None:
        match record:
            case ["s", int(number), int(time_ns), list(values)]:
                self._sample(_small(number), _small(time_ns), values)
            case ["h", {"format": line_format.FORMAT, "version": int(version), "run": str(run)}]:
                self._head(record[1], version, run)
            case ["c", list(fields)]:
                self._begin([line_format.column_of(one) for one in fields])
            case ["m", str(id), int(start), int() | None as dur, str(kind), str(name), *rest]:
                count, pid = (_small(int(value)) for value in rest)
                took = None if dur is None else _small(dur)
                if took is None or took >= 0:
                    note = self._notes.get(id, ("", ""))
                    self.marks[id] = Mark(id, _small(start), took, kind, name, count, pid, *note)
            case ["n", str(id), str(cell), str(text)] if id in self.marks:
                cut = (cell[: line_format.MAX_NAME], text[: line_format.MAX_NAME])
                self._notes[id] = cut
                self.marks[id].cell, self.marks[id].line = cut
            case ["a", int(time_ns), int(pid), dict(held)]:
                self._holds(_small(time_ns), _small(pid), held)
            case ["p", int(), dict(problems)]:
                self.problems = {str(k): str(v) for k, v in problems.items()}
            case ["g", int(time_ns), dict(processes)]:
                self._table(_small(time_ns), processes)
            case ["t", int(time_ns), list(rows), dict(kernels)]:
                self._take_users(_small(time_ns), rows, kernels)
            case ["e", int(time_ns), str(reason)]:
                self.end = (_small(time_ns), reason)

    def forget(self, mark: str) -> None:
        """Let go of the mark with this id."""
        self.marks.pop(mark, None)
        self._notes.pop(mark, None)

    def _head(self, facts: Mapping[str, Any], version: int, run: str) -> None:
        self.is_recording = True
        self.is_known = self.is_known and version <= line_format.VERSION
        self._run = run
        label = facts.get("label")
        self.facts = {"label": label if isinstance(label, str) else ""}
        for name in ("period_ns", "mono_ns", "wall_ns"):
            value = facts.get(name)
            is_time = isinstance(value, int) and 0 <= value < line_format.MAX_INT
            self.facts[name] = value if is_time else 0
        names = facts.get("names")
        for gpu, name in names.items() if isinstance(names, dict) else ():
            if gpu in self.names or len(self.names) < MAX_GPUS:
                self.names[gpu] = str(name)

    def _begin(self, columns: list[Column]) -> None:
        # Equal columns are one object: each segment of the ring names them all again.
        known = self.columns
        columns = [one if known.get(one.key) != one else known[one.key] for one in columns]
        if len({column.key for column in columns}) < len(columns):
            raise ValueError("a column that is there twice")
        if len(known.keys() | {column.key for column in columns}) > MAX_COLUMNS:
            self.excess = f"more than {MAX_COLUMNS} columns"
            return
        known.update((column.key, column) for column in columns)
        last = self.segments[-1] if self.segments else None
        if last is not None and last.run == self._run and last.columns == columns:
            return
        new = Segment(self._run, columns)
        if last is not None and not last.times_ns:
            self.segments[-1] = new
        else:
            self.segments.append(new)

    def _sample(self, number: int, time_ns: int, values: list[Any]) -> None:
        segment = self.segments[-1]
        if len(values) != len(segment.columns):
            return
        row = array("d", [_NAN if value is None else value for value in values])
        segment.numbers.append(number)
        segment.times_ns.append(time_ns)
        segment.values.extend(row)

    def _table(self, time_ns: int, processes: Mapping[str, Any]) -> None:
        clean = {
            str(gpu): [[_small(int(pid)), str(name), _small(int(size))] for pid, name, size in held]
            for gpu, held in processes.items()
        }
        text = json.dumps(clean, separators=(",", ":")).encode()
        if self.processes and self.processes[-1][1] == text:
            return
        self.processes.append((time_ns, text))
        if (more := len(self.processes) - MAX_TABLES) > 0:
            del self.processes[:more]
            self.tables_gone += more

    def _take_users(self, time_ns: int, rows: list[Any], kernels: Mapping[str, Any]) -> None:
        clean = [
            [_small(int(pid)), _small(int(whose)), _share(share), _small(int(rss)),
             _small(int(held)), str(name)]
            for pid, whose, share, rss, held, name in rows
        ]  # fmt: skip
        told = {str(_small(int(pid))): [str(id), str(book)] for pid, (id, book) in kernels.items()}
        text = json.dumps([clean, told], separators=(",", ":")).encode()
        if self.users and self.users[-1][1] == text:
            return
        self.users.append((time_ns, text))
        if (more := len(self.users) - MAX_TABLES) > 0:
            del self.users[:more]
            self.users_gone += more

    def _holds(self, time_ns: int, pid: int, held: Mapping[str, Any]) -> None:
        entries = [(str(device), _small(int(both[0]))) for device, both in held.items()]
        for device, live in entries:
            places = self.held.devices
            if device not in places and len(places) >= MAX_GPUS:
                self.excess = f"tensors on more than {MAX_GPUS} devices"
                return
            place = places.setdefault(device, len(places))
            if (place, pid) not in self._holders and len(self._holders) >= MAX_HOLDERS:
                self.excess = f"tensors of more than {MAX_HOLDERS} processes"
                return
            self._holders.add((place, pid))
            self.held.add(time_ns, pid, place, live)
        if not entries:
            self.held.add(time_ns, pid, -1, 0)


def _share(value: Any) -> float | None:
    """``value`` as a share of something, in percent; None when it is not known.

    Raises:
        ValueError: It is no share.
    """
    if value is None:
        return None
    share = float(value)
    if not 0.0 <= share <= 100.0:  # NaN is not
        raise ValueError("no share")
    return share


def _small(value: int) -> int:
    """``value``, when no sum or difference with another leaves 64 bits.

    Raises:
        OverflowError: It is larger.
    """
    if not -line_format.MAX_INT < value < line_format.MAX_INT:
        raise OverflowError("a number that no counter has")
    return value
