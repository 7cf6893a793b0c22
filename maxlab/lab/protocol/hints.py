"""Hints beside the lines of an editor that made operations, see ``maxlab.lab.hints``.

The page opens a channel and names the version that it speaks. The kernel answers with all hints,
and after each cell with those of the cells and files whose hints are others now.
"""

from __future__ import annotations

from typing import Literal, TypedDict

from maxlab.lab.protocol.messages import ProtocolVersion


class HintsOpen(TypedDict):
    """The first message of a channel."""

    protocol: ProtocolVersion


class HintValue(TypedDict):
    """A value that a line made."""

    name: str
    """The variable that the line gives it to; empty where it gives it to none."""
    types: list[str]
    """Its dtype and shape, such as `float32[batch, 10]`; several where turns of a loop differ, the
    first four of them."""


class HintTime(TypedDict):
    """The time that the operations of a line take in a run of the model."""

    least_ns: float
    most_ns: float
    """Of the turns of the line; both the same where there is one."""
    share: float
    """The part of the time of all kernels that all turns take, from 0 to 1."""
    is_split: bool
    """Whether part of it is an estimate: a kernel computes operations of other lines too."""


class HintOp(TypedDict):
    """An operation that a line made."""

    id: str
    op: str
    type: str
    ns: float | None
    """Nanoseconds of a run; null where nothing was timed."""
    kernel: str
    """Id of the kernel that computes it; empty where none is known."""
    kernel_name: str


class HintCall(TypedDict):
    """The operations that one run of a cell made in one graph by a line."""

    cell: str
    """Id of the cell that ran; the line may be in a function that another cell or file holds."""
    run: int
    """The number of that run, as the notebook shows it; 0 where it is not known."""
    graph: str
    """Id of the graph or model among those that live in the kernel."""
    title: str
    """The name that the graph was built with."""
    values: list[HintValue]
    turns: int
    """How often the line was run for this graph."""
    time: HintTime | None
    ops: list[HintOp]
    """The first few."""
    count: int
    """Number of all of them."""


class HintMark(TypedDict):
    """An error at a line."""

    kind: Literal["nan", "inf", "failed"]
    """NaN or an infinity began here, or an operation failed."""
    code: str
    """The code of the error, such as `ML201`; empty where there is none."""
    says: str
    fix: str
    """The change that mends it; empty where that is not known."""
    run: int
    """The number of the run in which it happened."""


class LineHints(TypedDict):
    """The hints of a line of a cell or file. Lines count from 1."""

    line: int
    first: int
    last: int
    """The statement that the line is of."""
    text: str
    """Of the lines from `first` to `last`."""
    calls: list[HintCall]
    """Those of the line's own cell first, then by the number of their run."""
    marks: list[HintMark]


class SourceHints(TypedDict):
    """The hints of a cell or of a file that the kernel imported."""

    cell: str
    """Id of the cell; empty for a file."""
    path: str
    """Absolute path of the file; empty for a cell."""
    length: int
    crc: int
    """Of the text that ran, with plain line ends: its length in UTF-8 and its CRC-32."""
    lines: list[LineHints]
    """In order; empty where there are no hints any more."""


class HintsMessage(TypedDict):
    """The hints of cells and files that are others now."""

    type: Literal["hints"]
    protocol: ProtocolVersion
    revision: int
    """Grows by one with each message of a channel, from 0, which has all hints."""
    sources: list[SourceHints]
