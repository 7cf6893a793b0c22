"""The questions of the editing strip: what can be added, what an item is, a change, and a run."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from maxlab.lab.protocol.document import Place

# ---------------------------------------------------------------- what can be added


class OfferArgs(TypedDict):
    """Where something is to be added."""

    way: Literal["add", "insert", "replace"]
    """Reading the values of `on`; on the edge to operand number `operand` of the operation `op`; or
    instead of `op`."""
    on: list[str]
    """Ids of values, or of operations, which stand for their first result."""
    op: str
    operand: int


class ChangeField(TypedDict):
    """Something that is typed."""

    name: str
    kind: Literal["value", "values", "dims", "dtype", "device", "choice", "text", "data", "type"]
    text: str
    """The current value, which holds unless another one is typed."""
    needed: bool
    """Whether nothing may be left out here."""
    choices: list[str]
    hint: str
    """How it is typed."""


class OfferedOp(TypedDict):
    """An operation that takes what is there."""

    name: str
    family: str
    says: str
    """A sentence that says what its result is."""
    fields: list[ChangeField]
    """The fields that can be typed for it; values that it gets anyhow are not among them."""
    needs: list[str]
    """The fields without which it cannot be added."""
    result: str
    """The types of its results; empty while something is needed."""


class OfferAnswer(TypedDict):
    """The operations that fit, in alphabetic order."""

    version: Literal[1]
    offers: list[OfferedOp]
    on: str
    """The operand that they would read, in words."""


class AboutArgs(TypedDict):
    """Something of the palette's list, and where it would be added, as in `OfferArgs`."""

    name: str
    way: Literal["add", "insert", "replace"]
    on: list[str]
    op: str
    operand: int


class AboutParameter(TypedDict):
    """The description of a parameter."""

    name: str
    says: str
    default: str
    """Its default; empty where it must be given."""


class AboutAnswer(TypedDict):
    """The description of something in the palette's list."""

    version: Literal[1]
    says: str
    parameters: list[AboutParameter]
    example: str
    """A program that uses it; empty where there is none."""


class CarryArgs(TypedDict):
    """Something of the palette's list that is dragged over the graph."""

    name: str


# ---------------------------------------------------------------- what fits together


class ReachArgs(TypedDict):
    """One end of an edge: the id of `value`, or, where that is empty, the operand number `operand`
    of the operation `op`."""

    value: str
    op: str
    """The id of the operation; `output` is that of the graph's outputs."""
    operand: int


class ReachEnd(TypedDict):
    """The other end: an operand that could read the value, or a value that the operand could
    read."""

    op: str
    """Its id; `output` for the outputs of the graph."""
    operand: int
    value: str
    state: Literal["fits", "refused", "same", "untried"]
    """`same` is what is read now; `untried` is what nobody had the time to try."""
    says: str
    """The type that there would be, or why it cannot be."""


class ReachAnswer(TypedDict):
    """All that the end could be connected to, and all that it could not, in the order of the
    graph."""

    version: Literal[1]
    ends: list[ReachEnd]


class PortsAnswer(TypedDict):
    """The names of the operands of operations."""

    version: Literal[1]
    names: dict[str, list[str]]
    """By the name of the operation. A name that ends with ` 0` is the first of as many as there
    are."""


# ---------------------------------------------------------------- what is there


class DetailsArgs(TypedDict):
    """The id of an operation, or of a value that is an input."""

    item: str


class DetailsAnswer(TypedDict):
    """The fields of an item that can be changed by typing."""

    version: Literal[1]
    title: str
    fields: list[ChangeField]


# ---------------------------------------------------------------- a change


class ChangeArgs(TypedDict):
    """One step."""

    do: Literal[
        "look",
        "add",
        "insert",
        "replace",
        "connect",
        "splice",
        "set",
        "remove",
        "duplicate",
        "group",
        "dissolve",
        "paste",
        "input",
        "random",
        "outputs",
        "save",
        "undo",
        "redo",
        "place",
        "pin",
        "unpin",
        "align",
        "unplace",
        "fold",
        "comment",
        "set-comment",
        "remove-comment",
        "draft",
        "resolve",
    ]
    """`look` changes nothing and says whether something can be changed; `save` writes a file;
    `connect` lets an operand read the value in `on`, and `splice` puts what makes that value on the
    edge to the operand. What is drawn where is said by `places`: `place`, `pin`, `unpin` and
    `align` are the same step by other words; `unplace` leaves to the layout what `on` names; `fold`
    has `true` or `false` by the keys of boxes in `fields`. A comment has its `text` in `fields`, is
    about `op`, and stands at `places`; to be changed, `on` has its id. `group` makes a subgraph of
    `on`, called the field `name`; `dissolve` puts back the box `op`, or the group that the
    operation in `on` stands in; `paste` adds what the field `text` has, which reads `on`. `draft`
    puts an operation down that is not whole; of a step that was refused with `drafts`, the field of
    that name makes drafts of what it says. `resolve` decides the conflict in `on` by the side in
    the field `take`. What is added
    is drawn at the first of `places`, whatever its key is."""
    name: str
    """The operation that is added; otherwise empty."""
    on: list[str]
    op: str
    operand: int
    fields: dict[str, str]
    """The typed texts."""
    places: NotRequired[list[Place]]


class WrongField(TypedDict):
    """A text that cannot be read."""

    name: str
    says: str


class Refused(TypedDict):
    """Why a step cannot be as it is; it can, when operations become drafts."""

    says: str
    drafts: int
    """How many operations would."""


class ChangeAnswer(TypedDict):
    """The result of a change; with `wrong` or `refused`, nothing was changed."""

    version: Literal[1]
    said: str
    select: list[str]
    """Operations that are new, or that were changed."""
    can_undo: bool
    can_redo: bool
    wrong: list[WrongField]
    refused: NotRequired[Refused]


# ---------------------------------------------------------------- a clip


class ClipArgs(TypedDict):
    """The ids of operations that are copied."""

    on: list[str]


class ClipAnswer(TypedDict):
    """The content for the clipboard: `text` can be pasted into a graph, `listing` is for people to
    read, as `print(graph)` writes it.
    """

    version: Literal[1]
    text: str
    listing: str
    said: str


class PythonAnswer(TypedDict):
    """The Python program that builds the graph, for the clipboard."""

    version: Literal[1]
    text: str
    said: str


# ---------------------------------------------------------------- a run


class RunGraphArgs(TypedDict):
    """The source of each input that is not made up, by the input's name: a variable of the notebook
    or the path of an `.npy` file."""

    inputs: dict[str, str]
    seed: NotRequired[int]
    """Of what is made up."""


class RanValue(TypedDict):
    """An input or an output of a run."""

    name: str
    type: str
    text: str
    """Its numbers, as NumPy prints them; cut in the middle where they are many."""
    source: str
    """Of an input, where it is from."""


class FailedOp(TypedDict):
    """The operation at which a run failed."""

    op: str
    says: str


class RunGraphAnswer(TypedDict):
    """A run of the graph; with `failed`, it gave nothing."""

    version: Literal[1]
    inputs: list[RanValue]
    outputs: list[RanValue]
    load_ns: int
    """Until the graph was loaded."""
    run_ns: int
    kernels: int
    """How many kernels it has."""
    failed: NotRequired[FailedOp]
