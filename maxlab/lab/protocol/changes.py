"""The questions of the editing strip: what can be added, what an item is, a change, and a run."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

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
    """What it is now, or unless something is typed."""
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
    """What its result is, in a sentence."""
    fields: list[ChangeField]
    """What can be typed for it; values that it gets anyhow are not among them."""
    needs: list[str]
    """The fields without which it cannot be added."""
    result: str
    """The types of its results; empty while something is needed."""


class OfferAnswer(TypedDict):
    """The operations that fit, in alphabetic order."""

    version: Literal[1]
    offers: list[OfferedOp]
    on: str
    """What they would read, in words."""


# ---------------------------------------------------------------- what is there


class DetailsArgs(TypedDict):
    """The id of an operation, or of a value that is an input."""

    item: str


class DetailsAnswer(TypedDict):
    """What can be changed of an item by typing."""

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
        "set",
        "remove",
        "duplicate",
        "input",
        "random",
        "outputs",
        "save",
        "undo",
        "redo",
    ]
    """`look` changes nothing and says whether something can be changed; `save` writes a file."""
    name: str
    """The operation that is added; otherwise empty."""
    on: list[str]
    op: str
    operand: int
    fields: dict[str, str]
    """What was typed."""


class WrongField(TypedDict):
    """A text that cannot be read."""

    name: str
    says: str


class ChangeAnswer(TypedDict):
    """What was done; with `wrong`, nothing was."""

    version: Literal[1]
    said: str
    select: list[str]
    """Operations that are new, or that were changed."""
    can_undo: bool
    can_redo: bool
    wrong: list[WrongField]


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


class RunGraphAnswer(TypedDict):
    """A run of the graph."""

    version: Literal[1]
    inputs: list[RanValue]
    outputs: list[RanValue]
    load_ns: int
    """Until the graph was loaded."""
    run_ns: int
    kernels: int
    """How many kernels it has."""
