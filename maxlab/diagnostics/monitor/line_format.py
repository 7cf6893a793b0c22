"""The format of a recording: lines of JSON, each a list whose first entry says what it is.

======  ==========================================================================================
``h``   head: format, version and what is true of a whole run; every segment begins with one
``c``   the columns of the samples that follow, each a ``Column``
``s``   a sample: its number in the run, its time, and a value (or null) for each column
``p``   problems from this time on: device to text; replaces those before
``g``   processes from this time on that hold GPU memory: device to ``[pid, name, bytes]``
``t``   processes of the user from this time on: ``[pid, kernel's pid, % of all cores, bytes, bytes
        of GPUs, name]`` of each; and the kernels: pid to ``[id, notebook]``
``m``   a mark: id, start, nanoseconds (null while it lasts), kind, name, how many, process
``n``   of the cell that a mark stands for: id of the mark, id of the cell, its first line
``a``   what maxlab's tensors hold at this time: process, and device to ``[live, pooled]`` bytes
``e``   the end of a run, with the reason
======  ==========================================================================================

Times are nanoseconds of ``CLOCK_MONOTONIC``, the clock of ``maxlab.trace``. A reader skips lines of
kinds that it does not know and the torn line that a killed writer leaves; recordings may be joined
end to end. Nothing in a recording is ever run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, BinaryIO, Literal

FORMAT = "maxlab.recording"
VERSION = 1
SUFFIX = ".mlrec"

MARK_KINDS = ("cell", "run", "load", "compile", "phase", "kernel", "profile", "op")
"""Kinds of marks, in the order in which a view stacks them."""

MAX_LINE = 1 << 20
"""Bytes of a record, at most; the longest, the columns of a machine of 1000 cores, has 200,000."""

MAX_INT = 1 << 62
"""Times and counts are smaller: sums and differences of two fit 64 bits."""

MAX_NAME = 200
"""Characters of the name of a mark, at most; what is longer is cut."""

Record = list[Any]


@dataclass(frozen=True, slots=True)
class Column:
    """One counter of a recording.

    Attributes:
        key: its name, unique in a recording, such as ``"nv0.util"``.
        device: what it belongs to: ``"host"``, ``"tree"``, ``"nv0"``, ``"amd0"``…
        quantity: what it measures; columns of one quantity share a chart.
        unit: ``"%"``, ``"B"``, ``"B/s"``, ``"Hz"``, ``"W"`` or ``"°C"``.
        label: what a person calls it, beside the device.
        top: the most that it can be, such as the size of a memory; None when there is no such.
        average: whether a value is the mean of a window that ends at the time of the sample. A
            column that is not holds at that moment.
        window_ns: length of that window; None when it reaches back to the sample before.
    """

    key: str
    device: str
    quantity: str
    unit: str
    label: str
    top: float | None = None
    average: bool = False
    window_ns: int | None = None


def line(*record: Any) -> bytes:
    """``record`` as one line."""
    text = json.dumps(record, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "replace") + b"\n"  # half of a surrogate pair has no bytes


def head(run: str, segment: int, facts: Mapping[str, Any]) -> bytes:
    """The first line of a segment. ``facts`` hold for the whole run."""
    return line(
        "h", {"format": FORMAT, "version": VERSION, "run": run, "segment": segment, **facts}
    )


def columns_line(columns: Sequence[Column]) -> bytes:
    """The line that names ``columns``."""
    return line("c", [asdict(column) for column in columns])


def column_of(fields: Mapping[str, Any]) -> Column:
    """The column that ``columns_line`` wrote; fields of later versions are left out.

    Raises:
        ValueError: A field is missing or of the wrong type.
        OverflowError: A number is larger than any counter.
    """
    known: dict[str, Any] = {}
    for name in ("key", "device", "quantity", "unit", "label"):
        if not isinstance(fields.get(name), str):
            raise ValueError(f"a column without a {name}")
        known[name] = fields[name]
    top, window = fields.get("top"), fields.get("window_ns")
    known["top"] = None
    if isinstance(top, int | float) and abs(top) < float("inf"):  # NaN is not
        known["top"] = float(top)
    known["average"] = fields.get("average") is True
    known["window_ns"] = window if isinstance(window, int) and 0 <= window < MAX_INT else None
    return Column(**known)


Kind = Literal["h", "c", "s", "p", "g", "t", "m", "n", "a", "e"]


def records(file: BinaryIO) -> Iterator[Record]:
    """The whole records in ``file``, in order, from where it stands to its end. What is torn, too
    long or no record is passed over."""
    is_inside = False  # a line that is too long
    while text := file.readline(MAX_LINE):
        is_whole = text.endswith(b"\n")
        if is_whole and not is_inside:
            try:
                record = json.loads(text)
            # Torn by a writer that was killed, and then joined with what follows; or no JSON that
            # a monitor writes.
            except (ValueError, RecursionError):
                record = None
            if isinstance(record, list) and record and isinstance(record[0], str):
                yield record
        is_inside = not is_whole


def without(raw: bytes, kind: Kind) -> bytes:
    """The lines of ``raw`` but for those of one ``kind``."""
    start = f'["{kind}",'.encode()
    if start not in raw:
        return raw
    return b"".join(one for one in raw.splitlines(keepends=True) if not one.startswith(start))


def whole(raw: bytes) -> int:
    """How many bytes of ``raw`` are whole lines."""
    return raw.rfind(b"\n") + 1
