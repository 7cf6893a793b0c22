"""Messages between the editor of a document and the kernel, see ``maxlab.lab.editors``.

The graph is in the kernel. The page has the text of the document, so that it can be saved, closed
and opened again as any text, and so that nothing is lost when the kernel ends.
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from maxlab.lab.protocol.messages import Fault, ProtocolVersion

# ---------------------------------------------------------------- front end to kernel


class EditorOpen(TypedDict):
    """The first message of a channel: open this document."""

    protocol: ProtocolVersion
    path: str
    """As the server has it; two pages with the same path and text share one graph."""
    text: str
    """Of the document as the page holds it; an empty one is an empty graph."""
    saved: str | None
    """The content of the file; null where it is `text`."""


class EditorReopen(TypedDict):
    """The page has another text now, such as the one of a file that was changed."""

    type: Literal["reopen"]
    protocol: ProtocolVersion
    text: str


class EditorSaved(TypedDict):
    """The file holds the text number `number`."""

    type: Literal["saved"]
    protocol: ProtocolVersion
    number: int


class EditorTrust(TypedDict):
    """The user trusts the custom kernels of the document."""

    type: Literal["trust"]
    protocol: ProtocolVersion


class EditorNeed(TypedDict):
    """The page missed a text: send the whole."""

    type: Literal["need"]
    protocol: ProtocolVersion


class EditorMoved(TypedDict):
    """The file has another path."""

    type: Literal["moved"]
    protocol: ProtocolVersion
    path: str


EditorClientMessage = EditorReopen | EditorSaved | EditorTrust | EditorNeed | EditorMoved
"""Front end to kernel."""

# ---------------------------------------------------------------- kernel to front end


class EditorOpened(TypedDict):
    """The document is open; views of it are asked for by the id of its graph."""

    type: Literal["opened"]
    protocol: ProtocolVersion
    id: str
    """Of the graph among those that live in the kernel."""
    number: int
    raw: str | None
    """The text that was opened, before it was edited; null where that is `given`."""
    given: str
    """The kernel's text of what was opened, before it was edited."""
    text: str
    """The kernel's text now."""


class EditorLines(TypedDict):
    """Lines of a text that are others."""

    start: int
    """The first of them in the text before, from 0."""
    removed: int
    """How many lines of the text before are gone."""
    lines: list[str]
    """The new lines, without their ends."""


class EditorText(TypedDict):
    """The text number `number`: that of `since` with lines replaced. It is sent before a change is
    answered."""

    type: Literal["text"]
    protocol: ProtocolVersion
    since: int
    number: int
    parts: list[EditorLines]
    """The parts that differ, from the first line to the last; no two parts have a line in common.
    """


class EditorTrusted(TypedDict):
    """Whether the custom kernels of the document are compiled."""

    type: Literal["trusted"]
    protocol: ProtocolVersion
    trusted: bool
    kernels: list[str]
    """The names of the operations that have such kernels; none is needed where there are none."""
    sources: list[str]
    """The texts of these kernels, each once."""


class GoalPart(TypedDict):
    """One thing that a goal asks for."""

    says: str
    met: bool


class EditorGoal(TypedDict):
    """How far the graph is from the goal of its document. It is checked beside the edits, so it may
    be of an earlier text."""

    type: Literal["goal"]
    protocol: ProtocolVersion
    number: int
    """Of the text that is looked at."""
    state: Literal["checking", "met", "unmet"]
    parts: list[GoalPart]
    """Empty while it is checked."""


class EditorFailed(TypedDict):
    """The failure of a request, or of writing the document."""

    type: Literal["failed"]
    protocol: ProtocolVersion
    fault: Fault


EditorServerMessage = EditorOpened | EditorText | EditorTrusted | EditorGoal | EditorFailed
"""Kernel to front end."""

# ---------------------------------------------------------------- what a document teaches


class LessonText(TypedDict):
    """The lesson in the text of a document, which a page reads without a kernel."""

    title: str
    says: NotRequired[str]
    text: NotRequired[str]
    hints: NotRequired[list[str]]


class TemplateEntry(TypedDict):
    """A document that is shipped with maxlab, in the list of the server."""

    name: str
    """Of its file, without the ending."""
    title: str
    says: str
    lesson: bool
    """Whether it asks for something."""


class TemplateList(TypedDict):
    """All of them, in the order of the gallery."""

    templates: list[TemplateEntry]


class TemplateText(TypedDict):
    """The text of one."""

    text: str
