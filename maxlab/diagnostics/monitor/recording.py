"""``Recording``: what a monitor wrote, as arrays."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from maxlab.diagnostics.monitor import _format
from maxlab.diagnostics.monitor._format import Column
from maxlab.errors import ArgumentError, DocumentError


@dataclass(slots=True)
class Mark:
    """Something that a kernel did, as it stands on the time axis.

    Attributes:
        id: the same for the whole life of a mark that is still growing.
        start_ns: when it began, on the clock of the samples.
        dur_ns: how long it took, by the clock of the kernel; None while it lasts.
        kind: ``"cell"``, ``"run"`` (of a model), ``"load"``, ``"compile"``, ``"kernel"`` or
            ``"profile"``.
        name: of the model or kernel, or ``"In [3]"`` for a cell.
        count: how many runs in close succession it stands for.
        pid: the number of the kernel's process.
    """

    id: str
    start_ns: int
    dur_ns: int | None
    kind: str
    name: str
    count: int
    pid: int


@dataclass(slots=True)
class Segment:
    """Samples with the same columns: numbers, times, and rows of values."""

    run: str
    columns: list[Column]
    numbers: list[int] = field(default_factory=list)
    times_ns: list[int] = field(default_factory=list)
    rows: list[list[float | None]] = field(default_factory=list)


@dataclass(slots=True)
class Decoder:
    """Takes records in any pieces, and keeps what they say."""

    heads: dict[str, dict[str, Any]] = field(default_factory=dict)
    segments: list[Segment] = field(default_factory=list)
    marks: dict[str, Mark] = field(default_factory=dict)
    problems: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    processes: list[tuple[int, dict[str, list[list[Any]]]]] = field(default_factory=list)
    held: list[tuple[int, int, dict[str, list[int]]]] = field(default_factory=list)
    ends: list[tuple[int, str]] = field(default_factory=list)
    is_known: bool = True
    _run: str = ""

    def take(self, raw: bytes) -> None:
        """Add the records of ``raw``. One that is not as it should be is passed over."""
        for record in _format.records(raw):
            try:
                self._one(record)
            except (ValueError, TypeError, KeyError, IndexError, AttributeError):
                continue

    def _one(self, record: list[Any]) -> None:
        match record:
            case ["s", int(number), int(time_ns), list(values)]:
                segment = self.segments[-1]
                if len(values) == len(segment.columns):
                    segment.numbers.append(number)
                    segment.times_ns.append(time_ns)
                    segment.rows.append(values)
            case ["h", {"format": _format.FORMAT, "version": int(version), "run": str(run)}]:
                if version > _format.VERSION:
                    self.is_known = False
                self._run = run
                self.heads[run] = record[1]
            case ["c", list(fields)]:
                columns = [_format.column_of(one) for one in fields]
                last = self.segments[-1] if self.segments else None
                # Every segment of the ring names its columns again.
                if last is None or last.run != self._run or last.columns != columns:
                    self.segments.append(Segment(self._run, columns))
            case ["m", str(id), int(start), int() | None as dur, str(kind), str(name), *rest]:
                count, pid = (int(value) for value in rest)
                self.marks[id] = Mark(id, start, dur, kind, name, count, pid)
            case ["a", int(time_ns), int(pid), dict(held)]:
                clean = {str(k): [int(v[0]), int(v[1])] for k, v in held.items()}
                self.held.append((time_ns, pid, clean))
            case ["p", int(time_ns), dict(problems)]:
                clean_problems = {str(k): str(v) for k, v in problems.items()}
                if not self.problems or self.problems[-1][1] != clean_problems:
                    self.problems.append((time_ns, clean_problems))
            case ["g", int(time_ns), dict(processes)]:
                if not self.processes or self.processes[-1][1] != processes:
                    self.processes.append((time_ns, processes))
            case ["e", int(time_ns), str(reason)]:
                self.ends.append((time_ns, reason))


class Recording:
    """Samples of a machine over time, as a monitor took them, and what kernels did meanwhile.

    Attributes:
        columns: what was sampled, of all runs together.
        times_ns: ``[samples]`` int64, when each sample was taken, on the clock of
            ``time.monotonic_ns``; increasing.
        numbers: ``[samples]`` int64, the number of each sample in its run: a gap is a loss.
        marks: what kernels did, by its start.
        problems: what could not be read at the end, and why.
        label: of the newest run, such as ``"simulated"``.
        period_ns: of the newest run.
        names: what GPUs are called.

    Example:
        >>> from maxlab.diagnostics import Recording
        >>> recording = Recording.from_bytes(
        ...     b'["h",{"format":"maxlab.recording","version":1,"run":"1","period_ns":1000}]\\n'
        ...     b'["c",[{"key":"cpu","device":"h","quantity":"cpu","unit":"%","label":"all"}]]\\n'
        ...     b'["s",0,1000,[12.5]]\\n["s",1,2000,[50]]\\n')
        >>> recording["cpu"]
        array([12.5, 50. ])
    """

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        keys: dict[str, Column] = {}
        for segment in decoder.segments:
            keys.update({column.key: column for column in segment.columns})
        self.columns = list(keys.values())
        places = {key: n for n, key in enumerate(keys)}
        count = sum(len(segment.rows) for segment in decoder.segments)
        self.values: npt.NDArray[np.float64] = np.full((count, len(keys)), np.nan)
        self.times_ns: npt.NDArray[np.int64] = np.zeros(count, np.int64)
        self.numbers: npt.NDArray[np.int64] = np.zeros(count, np.int64)
        self.starts: list[int] = []
        at = 0
        run: str | None = None
        for segment in decoder.segments:
            rows = len(segment.rows)
            if not rows:
                continue
            if segment.run != run:
                self.starts.append(at)
                run = segment.run
            part = slice(at, at + rows)
            self.times_ns[part] = segment.times_ns
            self.numbers[part] = segment.numbers
            into = [places[column.key] for column in segment.columns]
            self.values[part, into] = np.array(segment.rows, np.float64)
            at += rows
        newest = next(reversed(decoder.heads.values()), {})
        self.label = str(newest.get("label", ""))
        self.period_ns = int(newest.get("period_ns", 0))
        self.names = {
            str(gpu): str(name)
            for facts in decoder.heads.values()
            for gpu, name in facts.get("names", {}).items()
        }
        self.marks = sorted(decoder.marks.values(), key=lambda mark: mark.start_ns)
        self.problems = dict(decoder.problems[-1][1]) if decoder.problems else {}

    @classmethod
    def from_bytes(cls, raw: bytes) -> Recording:
        """The recording in ``raw``.

        Raises:
            DocumentError: ML830, ``raw`` is not a recording, or one of a later version.
        """
        decoder = Decoder()
        decoder.take(raw)
        if not decoder.heads:
            raise DocumentError(
                "ML830",
                "this is not a recording: it has no line that says so",
                fix="Monitor.save() and the dashboard's menu write recordings, as .mlrec files",
            )
        if not decoder.is_known:
            raise DocumentError(
                "ML830",
                "this recording was written by a later version of maxlab",
                fix="install a newer maxlab to replay it",
            )
        return cls(decoder)

    @classmethod
    def load(cls, path: str | Path) -> Recording:
        """The recording in the file ``path``.

        Raises:
            DocumentError: ML830, the file is not a recording, or one of a later version.
            OSError: It cannot be read.
        """
        return cls.from_bytes(Path(path).read_bytes())

    def __len__(self) -> int:
        """The number of samples."""
        return len(self.times_ns)

    def __getitem__(self, key: str) -> npt.NDArray[np.float64]:
        """``[samples]`` values of the column ``key``; NaN where there is none.

        Raises:
            ArgumentError: ML833 (a ValueError), there is no such column.
        """
        for place, column in enumerate(self.columns):
            if column.key == key:
                found: npt.NDArray[np.float64] = self.values[:, place]
                return found
        raise ArgumentError(
            "ML833",
            f"this recording has no column {key!r}",
            fix=f"its columns are {', '.join(column.key for column in self.columns)}",
        )

    @property
    def duration_s(self) -> float:
        """Seconds from the first sample to the last."""
        return float(self.times_ns[-1] - self.times_ns[0]) / 1e9 if len(self) else 0.0

    @property
    def gpus(self) -> list[str]:
        """Identifiers of the GPUs that were sampled, such as ``nv0``."""
        found = (column.device for column in self.columns)
        return list(dict.fromkeys(d for d in found if d not in ("host", "tree")))

    def to_csv(self, path: str | Path) -> Path:
        """``path``, written: a line of column names with units, then a line for each sample.

        The first column is the time in seconds since the first sample.
        """
        target = Path(path)
        with target.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["time [s]", *(f"{c.key} [{c.unit}]" for c in self.columns)])
            writer.writerows(self._table())
        return target

    def _table(self) -> Iterable[list[str]]:
        for time_ns, row in zip(self.times_ns, self.values, strict=True):
            seconds = (time_ns - self.times_ns[0]) / 1e9
            yield [f"{seconds:.6f}", *("" if np.isnan(v) else f"{v:.10g}" for v in row)]

    def __repr__(self) -> str:
        label = f", {self.label!r}" if self.label else ""
        gpus = f"{len(self.gpus)} GPU{'' if len(self.gpus) == 1 else 's'}"
        return f"Recording({len(self)} samples, {gpus}, {self.duration_s:.0f} s{label})"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        from maxlab import trace

        return trace.mimebundle(self, include, exclude)
