"""The messages between the view of a graph and the kernel, and the widget's synced traits.

A message names its kind in ``type`` and the version of these declarations in ``protocol``; each
side checks both, with every field, before it does anything. A new kind of message is one more class
here, and its name in the union of its direction.
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from maxlab.lab.protocol.difference import Difference, Marks
from maxlab.lab.protocol.document import LineSpan

ProtocolVersion = Literal[2]
"""Of all messages: another one says that the page and the kernel are of different versions."""

PROTOCOL: ProtocolVersion = 2

Theme = Literal["auto", "light", "dark"]

# ---------------------------------------------------------------- front end to kernel


class NeedBundle(TypedDict):
    """The page has not loaded the code of the view yet. Sent by the loader, once a page; without a
    version, because the loader is stored in notebooks and fits every kernel."""

    type: Literal["need_bundle"]


class NeedDocument(TypedDict):
    """The view was opened and the `doc` trait is null: send the document in parts."""

    type: Literal["need_document"]
    protocol: ProtocolVersion


class NeedSince(TypedDict):
    """The view holds the document of `revision` and missed what followed: send the differences
    since then, or the whole document."""

    type: Literal["need_since"]
    protocol: ProtocolVersion
    revision: int


class ProfileRequest(TypedDict):
    """The user pressed Profile."""

    type: Literal["profile"]
    protocol: ProtocolVersion


class CancelRequest(TypedDict):
    """The user wants an end of what the question `id` asked for; 0 is the profile."""

    type: Literal["cancel"]
    protocol: ProtocolVersion
    id: int


class SourceRequest(TypedDict):
    """The generated text of a kernel is wanted and the document left it out."""

    type: Literal["source"]
    protocol: ProtocolVersion
    kernel: str


class Reveal(TypedDict):
    """The user asked to see a source line in its editor."""

    type: Literal["reveal"]
    protocol: ProtocolVersion
    file: str
    line: int
    col: int
    node: str


class OverlayGiven(TypedDict):
    """The user chose a file with an overlay; `text` is all of it. The document follows, or why
    not."""

    type: Literal["overlay"]
    protocol: ProtocolVersion
    name: str
    """That of the file."""
    text: str


class Ask(TypedDict):
    """A panel asks `what` about the thing that is shown; one `answer` with the same id follows.

    `questions.py` declares the arguments and the answer of each question.
    """

    type: Literal["ask"]
    protocol: ProtocolVersion
    id: int
    what: str
    args: dict[str, object]


ClientMessage = (
    NeedBundle
    | NeedDocument
    | NeedSince
    | ProfileRequest
    | CancelRequest
    | SourceRequest
    | Reveal
    | OverlayGiven
    | Ask
)
"""Front end to kernel."""

# ---------------------------------------------------------------- kernel to front end


class BundleMessage(TypedDict):
    """The code of the view, a JavaScript module, in the first buffer. Read by the loader."""

    type: Literal["bundle"]
    version: str


class DocumentMessage(TypedDict):
    """Part `index` of `count` of the document; the bytes are in the first buffer.

    The parts joined are UTF-8 JSON, compressed with zlib when `encoding` is `deflate`.
    """

    type: Literal["document"]
    protocol: ProtocolVersion
    revision: int
    index: int
    count: int
    encoding: Literal["json", "deflate"]


class DifferenceMessage(TypedDict):
    """The changes that make the document of `revision` from that of `since`."""

    type: Literal["difference"]
    protocol: ProtocolVersion
    since: int
    revision: int
    difference: Difference


class MarksMessage(TypedDict):
    """Changes since the cell that shows the graph ran before. Follows a document."""

    type: Literal["marks"]
    protocol: ProtocolVersion
    marks: Marks


class SourceMessage(TypedDict):
    """The generated text of one kernel."""

    type: Literal["source"]
    protocol: ProtocolVersion
    kernel: str
    source: str
    lines: list[LineSpan]


class Fault(TypedDict):
    """An error: what was wrong, why, and how to mend it."""

    code: str
    """The code of the error, such as `ML862`; empty when it has none."""
    message: str
    why: list[str]
    """The causes, a line each."""
    fix: str
    """The change that mends it; empty when that is not known."""
    where: str
    """The user's file or cell and line; empty when it is of none."""


class ProfileMessage(TypedDict):
    """How the run that the user asked for goes; `fault` says why it failed."""

    type: Literal["profile"]
    protocol: ProtocolVersion
    status: Literal["running", "done", "failed", "cancelled"]
    fault: NotRequired[Fault]


class WorkState(TypedDict):
    """The progress of a work."""

    title: str
    """The name of the work, such as `profile minilm`."""
    phase: str
    """The part of it that is done now, such as `compiling`; empty when that is not known."""
    done: int
    total: int
    """How many there are of what is counted; 0 where nothing is."""
    what: str
    """The one at hand, such as the name of a kernel; may be empty."""
    elapsed_s: float
    status: Literal["running", "cancelling", "over"]


class ProgressMessage(WorkState):
    """How far that is which the question `id` asked for; 0 is the profile. Sent ten times a second
    once it has taken a while, then when it is over, and when a wish to cancel it was heard."""

    type: Literal["progress"]
    protocol: ProtocolVersion
    id: int


class AnswerMessage(TypedDict):
    """The answer to a question. `data` may refer to the buffers of the message by their index."""

    type: Literal["answer"]
    protocol: ProtocolVersion
    id: int
    ok: bool
    data: object
    error: str
    """Why there is no answer, as a sentence; empty when there is one."""
    code: str
    """The code of that error, such as `ML806`; empty when it has none."""


class FailedMessage(TypedDict):
    """Why nothing came of a message: it could not be read, or what it asks for was not done."""

    type: Literal["failed"]
    protocol: ProtocolVersion
    request: str
    """The `type` of the message, as far as it could be read."""
    fault: Fault


ServerMessage = (
    BundleMessage
    | DocumentMessage
    | DifferenceMessage
    | MarksMessage
    | SourceMessage
    | ProfileMessage
    | ProgressMessage
    | AnswerMessage
    | FailedMessage
)
"""Kernel to front end."""


class CellProgress(WorkState):
    """How far that is which a cell does. Sent ten times a second once it has taken a while, and
    when it is over; not to a view but to the page, which knows the cell by the parent message."""

    protocol: ProtocolVersion
    work: int
    """The number that a wish to cancel names."""


class CellCancel(TypedDict):
    """The user wants an end of a cell's work; the first message of a comm."""

    protocol: ProtocolVersion
    work: int


class WidgetTraits(TypedDict):
    """Traits of the widget model, all synced."""

    doc: object
    """The graph document, or null when it is sent in parts."""
    selection: list[str]
    """Ids of the selected nodes."""
    height: int
    """Height of the view in CSS pixels."""
    theme: Theme
    not_live: str
    """Empty while a kernel stands behind the view; otherwise why nobody answers."""
    no_model: str
    """Empty while a model can be run and asked; otherwise why none can, though the kernel answers
    with the document."""
    revision: int
    """Grows whenever the kernel has a newer document."""
    editing: bool
    """Whether the view begins with editing on, as far as there is a kernel."""
