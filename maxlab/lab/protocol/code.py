"""The questions of a graph and the cell that built it: ``write`` and ``written``."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

Way = Literal["rewrite", "parameter", "override"]
"""How an edit comes into a cell: the line that made an operation is rewritten; the function that
has it gets a parameter; or lines behind the graph change it."""


class WriteArgs(TypedDict):
    """The way in which the edits are to be written."""

    way: Way


class NotWritten(TypedDict):
    """Why the edits of a graph are not written to a cell."""

    code: str
    says: str
    fix: str
    ways: list[Way]
    """The ways to do it instead."""


class WriteAnswer(TypedDict):
    """Another text of a cell, in which the graph is as it was edited; with `refused`, there is
    none."""

    version: Literal[1]
    cell: str
    """The id of the cell."""
    title: str
    """The cell as people know it, such as `cell [7]`."""
    before: str
    """The text that the kernel ran: only a cell that has it may be changed."""
    after: str
    says: list[str]
    """Sentences that say what the new text does."""
    checked: bool
    """Whether the new text was run in a copy, and built the graph as it is."""
    unchecked: str
    """Why it was not run."""
    refused: NotRequired[NotWritten]


class WrittenArgs(TypedDict):
    """The text that a cell has now."""

    cell: str
    text: str


class WrittenAnswer(TypedDict):
    """Says what comes after the text was written."""

    version: Literal[1]
    says: str


__all__ = ["NotWritten", "Way", "WriteAnswer", "WriteArgs", "WrittenAnswer", "WrittenArgs"]
