"""The graph document: the plain JSON snapshot of one graph that every view draws.

The document is produced in Python and travels through messages, saved notebooks and exported pages.
Within a version, fields are only ever added, and those are ``NotRequired``.
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

FORMAT = "maxlab.graph"
VERSION = 1

SPLIT_MODEL = "estimated work: max(flops ÷ 16, bytes) of each operation"
"""By what the time of a kernel is split among the operations that it computes together."""

GRAPH_MIME = "application/vnd.maxlab.graph+json"
"""A snapshot of one graph in a cell's output: a ``Packed`` document."""

STILL_MIME = "application/vnd.maxlab.still+json"
"""Marks an output whose HTML is drawn where its widget has no model any more."""

WIDGET_MIME = "application/vnd.jupyter.widget-view+json"

PACKED_ENCODING = "deflate+base64"

# ---------------------------------------------------------------- document

Dim = int | str
"""One axis of a shape: a number, or the text of a symbolic dimension such as `batch` or `2*seq`."""

Quantity = int | float | str | None
"""A quantity that is known (number), depends on symbolic dims (expression text), or is unknown."""

ValueKind = Literal["tensor", "input", "weight", "constant"]

LineSpan = tuple[int, int, str]
"""First line, last line (1-based, inclusive) of the generated text, and the node they compute."""


class Source(TypedDict):
    """Where in the user's code an operation was written. Lines count from 1, columns from 0."""

    file: str
    line: int
    col: int
    text: str
    end: NotRequired[int]
    """The column behind the expression, when it ends on the same line."""
    function: NotRequired[str | None]
    cell: NotRequired[str]
    """Id of the notebook's cell that `file` names by its number: it stays when the number does
    not."""


class Node(TypedDict):
    """One operation of the user's graph."""

    id: str
    op: str
    name: str
    scope: str
    operands: list[str]
    results: list[str]
    attrs: dict[str, str]
    source: Source | None
    error: str | None
    """Message of the error that this operation raised; null for a sound one."""
    family: NotRequired[str]
    """The family by which views colour it, as `contract` or `elementwise`; what a view does not
    know, and what documents of older versions leave out, is of the family `other`."""
    flops: NotRequired[Quantity]
    """Work of this operation alone, used to split the time of a kernel it shares."""
    bytes: NotRequired[Quantity]
    gives: NotRequired[list[list[str]]]
    """The values that come out of what this operation runs: of a `while` the flag that says whether
    there is another turn, and the values of the next turn, which it makes its results; of a `cond`
    the results of its two branches."""


class Value(TypedDict):
    """One tensor that flows through the graph."""

    id: str
    type: str
    """Ready-made text, such as `f32[batch, seq, 384]`."""
    dtype: str
    shape: list[Dim]
    kind: ValueKind
    name: NotRequired[str | None]
    nbytes: NotRequired[int | None]


class Scope(TypedDict):
    """A module call or function that groups operations; `path` is dot-separated."""

    path: str
    label: str
    type: str
    fingerprint: str
    """Equal for siblings with the same inside; empty when unknown."""


class Kernel(TypedDict):
    """One step of the compiled plan."""

    id: str
    name: str
    kind: str
    nodes: list[str]
    symbol: str
    source: str | None
    """Generated text; null when it is sent on request."""
    lines: list[LineSpan]
    flops: Quantity
    bytes: Quantity
    parallel: Quantity
    device: NotRequired[str]
    """Where it runs, such as ``gpu:0``; the CPU when it is left out."""
    language: NotRequired[Literal["c", "cuda", "python"]]
    """Of the generated text; C when it is left out. Python is not generated: torch runs it."""


class Pass(TypedDict):
    """One pass of the compiler, and its changes."""

    name: str
    before: int
    after: int
    ms: float


class KernelProfile(TypedDict):
    """The time of one kernel."""

    id: str
    ns: float
    """Nanoseconds in one run, all `count` launches together (median over runs)."""
    ns_min: float
    count: int
    """Launches in one run: the turns of a loop, and 0 in a branch that was not taken."""
    flops: float | None
    """Of all launches together, as `bytes`."""
    bytes: float | None
    nodes: list[str]
    ns_iqr: NotRequired[float | None]
    """Nanoseconds between the first and the third quartile."""
    parts: NotRequired[list[float]]
    """How much of `ns` each of `nodes` is said to take, from 0 to 1, by `SPLIT_MODEL`. Left out
    where one operation takes all of it, and by older versions: then all take the same."""


class Profile(TypedDict):
    """Times of all kernels on one set of inputs."""

    device: str
    runs: int
    threads: int
    dims: dict[str, int]
    wall_ns: float
    wall_ns_min: NotRequired[float | None]
    kernels: list[KernelProfile]
    overhead: NotRequired[float | None]
    """How much longer a run takes while kernels are timed, as a fraction."""


class GraphError(TypedDict):
    """Why a graph could not be continued."""

    code: str
    message: str
    fix: str | None
    node: str | None


class Overlay(TypedDict):
    """Numbers of the user's own, by which a view can colour the graph."""

    title: str
    unit: str
    values: dict[str, float]
    """By the id of the node."""
    scopes: dict[str, float]
    """By the path of the scope: of a folded one this is shown instead of what is in it."""
    low: float
    """The number at the lower end of the colours; of those around zero, that of the hue below."""
    high: float
    colors: Literal["sequential", "diverging"]
    combine: Literal["sum", "max"]
    """The number that a folded box shows of the numbers in it."""


class GraphDifference(TypedDict):
    """A place where two graphs differ."""

    kind: Literal["added", "removed", "changed", "moved", "renamed"]
    before: str
    """In the first graph the id of the operation, or of the value that goes in or out; empty where
    there is none."""
    after: str
    """The same in the second graph."""
    name: str
    """The op, or `input` or `output`."""
    scope: str
    what: list[str]
    """The changes, such as `shape: [n, 8] → [n, 16]`."""
    note: NotRequired[bool]
    """It is of what people laid beside the graph, and the ids say what that is about."""


class United(TypedDict):
    """Two graphs in one drawing."""

    document: object
    """The document of the drawing, read by the view that draws it. What only the first graph has is
    called as there, with `~` behind it."""
    lost: list[list[str]]
    """The edges of the first graph alone: a value and what reads it."""
    gained: list[list[str]]
    """The edges of the second graph alone."""


class Beside(TypedDict):
    """Another graph, which is drawn beside this one, and how the two differ. This one is the
    second."""

    before: object
    """The document of the first, read by the view that draws it."""
    labels: list[str]
    """The names of the two."""
    pairs: list[list[str]]
    """Ids of operations that are the same one, in the first graph and in the second."""
    differences: list[GraphDifference]
    """In the order of the graphs."""
    more: int
    """Differences that were left out."""
    united: NotRequired[United]
    """Both in one drawing; left out where that would be too large."""


class Place(TypedDict):
    """Where people put something."""

    key: str
    """An operation or a draft by its id; an input as `in:a0`, an output as `out:v3`, a box as
    `box:encoder.0`."""
    x: float
    """Of its top left corner, from the origin of the box that it is in."""
    y: float
    pinned: bool
    """Whether a new layout leaves it there."""


class Comment(TypedDict):
    """A text on the canvas."""

    id: str
    text: str
    on: str
    """The subject, by the keys of places; empty where it stands at a place of its own."""
    x: float
    y: float


class Draft(TypedDict):
    """An operation that is not whole yet, which the graph does not have."""

    id: str
    name: str
    """Such as `mo.matmul`."""
    reason: str
    """The reason: what is missing or wrong."""
    operands: list[str | None]
    """The ids of values; null for one that is missing."""
    attrs: dict[str, str]


class ConflictPart(TypedDict):
    """One thing of a conflict, in words."""

    what: str
    """Such as `n3 axis`."""
    base: str
    """The value before both sides; empty where there was none."""
    ours: str
    theirs: str


class Conflict(TypedDict):
    """A conflict of a merge: two sides changed one thing in different ways."""

    id: str
    kind: str
    """The cause of the conflict: `changed`, `removed`, `added` or `unfit`."""
    says: str
    on: list[str]
    """The subject, by the keys of places."""
    parts: list[ConflictPart]


class GraphDocument(TypedDict):
    """The plain JSON snapshot of one graph that every view draws."""

    format: Literal["maxlab.graph"]
    version: int
    name: str
    revision: int
    nodes: list[Node]
    values: list[Value]
    inputs: list[str]
    outputs: list[str]
    scopes: list[Scope]
    kernels: list[Kernel]
    passes: list[Pass]
    profile: Profile | None
    error: GraphError | None
    answers: NotRequired[dict[str, object]]
    """Answers to questions of the panels, so that they work without a kernel: what -> data. Each
    is read, and upgraded, by its panel: one that cannot be read leaves the graph to look at."""
    overlays: NotRequired[list[Overlay]]
    """The newest stands last."""
    panel: NotRequired[str]
    """The panel to open when the graph is first shown."""
    beside: NotRequired[Beside]
    """The graph to compare with."""
    places: NotRequired[list[Place]]
    folds: NotRequired[dict[str, bool]]
    """Whether a box is folded, by its key without `box:`; of those that people folded or
    unfolded."""
    comments: NotRequired[list[Comment]]
    drafts: NotRequired[list[Draft]]
    conflicts: NotRequired[list[Conflict]]
    """Conflicts of a merge that are left; the graph is as one side has it."""


class Packed(TypedDict):
    """A document as it is saved: JSON in UTF-8, compressed with zlib, in base64."""

    encoding: Literal["deflate+base64"]
    data: str
