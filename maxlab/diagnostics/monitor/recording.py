"""``Recording``: what a monitor wrote, as arrays."""

from __future__ import annotations

import contextlib
import csv
import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from maxlab import files
from maxlab.diagnostics.monitor import line_format
from maxlab.diagnostics.monitor.decoder import Decoder, Mark
from maxlab.errors import ArgumentError, DocumentError

__all__ = ["Decoder", "Mark", "ProcessUse", "Recording"]

# Bytes of a file within which a recording says that it is one.
_HEAD_WITHIN = 4 << 20

# The table of all columns and samples has gaps where not all columns were sampled at all times. A
# value takes 8 bytes here and 4 in a view, and 2 in a file at least; so a table without gaps always
# stays within 6 times the size of its file.
_BYTES_OF_VALUE = 12
_SPARE_BYTES = 32 << 20
_BYTES_FOR_BYTE = 8


@dataclass(frozen=True, slots=True)
class ProcessUse:
    """The use that a process made of the machine at one time.

    Attributes:
        pid: its number.
        name: of its program.
        cpu_percent: its share of all cores over the two seconds before; None when it had just been
            seen first.
        rss_bytes: what it has in memory, shared pages included.
        gpu_bytes: what it holds of the memory of GPUs.
        kernel: id of the Jupyter kernel that it is, or was started by; empty for others.
        notebook: name of that kernel's notebook; empty when Jupyter does not say.
        is_session: whether it belongs to the session that was recorded.
    """

    pid: int
    name: str
    cpu_percent: float | None
    rss_bytes: int
    gpu_bytes: int
    kernel: str
    notebook: str
    is_session: bool


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
        self.columns = list(decoder.columns.values())
        self.label = str(decoder.facts.get("label", ""))
        self.period_ns = int(decoder.facts.get("period_ns", 0))
        self.names = dict(decoder.names)
        self.problems = dict(decoder.problems)
        self.marks = sorted(decoder.marks.values(), key=lambda mark: mark.start_ns)
        self.starts: list[int] = []
        places = {key: n for n, key in enumerate(decoder.columns)}
        count = sum(len(segment.times_ns) for segment in decoder.segments)
        self.values: npt.NDArray[np.float64] = np.full((count, len(places)), np.nan)
        self.times_ns: npt.NDArray[np.int64] = np.zeros(count, np.int64)
        self.numbers: npt.NDArray[np.int64] = np.zeros(count, np.int64)
        at = 0
        run: str | None = None
        for segment in decoder.segments:
            rows = len(segment.times_ns)
            if not rows:
                continue
            if segment.run != run:
                self.starts.append(at)
                run = segment.run
            part = slice(at, at + rows)
            self.times_ns[part] = segment.times_ns
            self.numbers[part] = segment.numbers
            into = [places[column.key] for column in segment.columns]
            self.values[part, into] = np.asarray(segment.values).reshape(rows, len(into))
            segment.clear()  # each sample is held once
            at += rows

    @classmethod
    def from_bytes(cls, raw: bytes) -> Recording:
        """The recording in ``raw``.

        Raises:
            DocumentError: ML830, ``raw`` is not a recording, or one of a later version; ML834, it
                would take more memory than its size allows for.
        """
        return cls.read_from(io.BytesIO(raw), len(raw), "this")

    @classmethod
    def load(cls, path: str | Path) -> Recording:
        """The recording in the file ``path``, which takes 64 MB and 20 times the file's size of
        memory at most.

        Raises:
            DocumentError: ML830, the file is not a recording, or one of a later version; ML834, it
                would take more memory than its size allows for, or than there is.
            FileError: ML001 or ML002 (an OSError), it is no regular file, or cannot be read.
        """
        with files.open_regular(path, "the recording") as file:
            try:
                size = file.seek(0, io.SEEK_END)
                file.seek(0)
                return cls.read_from(file, size, str(path))
            except OSError as error:
                raise files.unreadable(path, "the recording", error) from error

    @classmethod
    def read_from(cls, file: BinaryIO, size: int, name: str) -> Recording:
        """The recording in ``file``, which has ``size`` bytes and is called ``name`` in messages.

        Raises:
            DocumentError: As `load`.
        """
        try:
            if not _has_head(file):
                raise DocumentError(
                    "ML830",
                    f"{name} is not a recording: it has no line that says so",
                    fix="Monitor.save() and the dashboard's menu write recordings, as .mlrec files",
                )
            decoder = Decoder()
            decoder.take_from(file)
            if not decoder.is_known:
                raise DocumentError(
                    "ML830",
                    f"{name} is a recording that was written by a later version of maxlab",
                    fix="install a newer maxlab to replay it",
                )
            _require_bounded(decoder, size, name)
            return cls(decoder)
        except MemoryError as error:
            raise _too_much(name, "there is not enough memory for it") from error

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

    def processes(self, time_ns: int | None = None) -> list[ProcessUse]:
        """The use that each process of the user makes of the machine, those of the session first;
        empty when it is not known, as in recordings of older versions.

        Args:
            time_ns: When, on the clock of ``times_ns``; at the end when it is left out.
        """
        found: bytes | None = None
        for then_ns, text in self._decoder.users:
            if time_ns is not None and then_ns > time_ns:
                break
            found = text
        if found is None:
            return []
        rows, kernels = json.loads(found)
        uses = []
        for pid, whose, share, rss, held, name in rows:
            kernel, notebook = kernels.get(str(whose), ("", ""))
            uses.append(ProcessUse(pid, name, share, rss, held, kernel, notebook, whose != 0))
        return uses

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

        Raises:
            FileError: ML001 or ML003 (an OSError), ``path`` is no regular file, or cannot be
                written; it is as it was before.
        """
        with files.replacing(path, "the table") as raw, _as_text(raw) as file:
            writer = csv.writer(file)
            writer.writerow(["time [s]", *(f"{c.key} [{c.unit}]" for c in self.columns)])
            writer.writerows(self._table())
        return Path(path)

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


def _has_head(file: BinaryIO) -> bool:
    """Whether ``file`` says near its beginning that it is a recording; it stands there again then.
    A file of any size that is something else is told by this without reading all of it."""
    beginning = io.BytesIO(file.read(_HEAD_WITHIN))
    file.seek(0)
    for record in line_format.records(beginning):
        match record:
            case ["h", {"format": line_format.FORMAT, "version": int(), "run": str()}]:
                return True
    return False


def _require_bounded(decoder: Decoder, size: int, name: str) -> None:
    """Raises unless what ``decoder`` took from ``size`` bytes fits the memory that is allowed.

    Raises:
        DocumentError: ML834, it does not.
    """
    if decoder.excess:
        raise _too_much(name, f"it has {decoder.excess}")
    samples = sum(len(segment.times_ns) for segment in decoder.segments)
    columns = len(decoder.columns) + len(decoder.held.devices)
    needed = samples * columns * _BYTES_OF_VALUE
    allowed = _SPARE_BYTES + _BYTES_FOR_BYTE * size
    if needed > allowed:
        raise _too_much(
            name,
            f"its {size} bytes are of {samples} samples and {columns} columns, most of them empty: "
            f"a table of {needed} bytes, at most {allowed} are made",
        )


def _too_much(name: str, why: str) -> DocumentError:
    return DocumentError(
        "ML834",
        f"{name} is a recording that would take too much memory",
        why=[why],
        fix="record again with one set of GPUs, or for a shorter time; a file of unknown origin "
        "may have been made to do harm",
    )


@contextlib.contextmanager
def _as_text(raw: BinaryIO) -> Iterator[io.TextIOWrapper]:
    """A text file that writes to ``raw``, and leaves it open."""
    file = io.TextIOWrapper(raw, encoding="utf-8", errors="replace", newline="")
    yield file
    file.detach()  # writes what it holds back
