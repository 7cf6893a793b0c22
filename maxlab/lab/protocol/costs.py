"""The questions of the panels about time: roofline, advice, timeline and runs."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from maxlab.analysis.told import TimelineHead


class NoArgs(TypedDict):
    """A question without arguments."""


# ---------------------------------------------------------------- roofline

Bound = Literal["bandwidth", "compute", "launch", "imbalance"]
"""The bound of a kernel."""


class Bandwidth(TypedDict):
    """A ceiling of a level of memory, in gigabytes per second."""

    name: str
    gbs: float


class Compute(TypedDict):
    """A ceiling of arithmetic, in giga-operations per second."""

    name: str
    gflops: float


class Ceilings(TypedDict):
    """Ceilings that were measured of the machine; empty for a simulated GPU."""

    bandwidth: list[Bandwidth]
    compute: list[Compute]


class RooflinePoint(TypedDict):
    """One kernel against the ceilings."""

    kernel: str
    flops: int
    bytes: int
    ns: int
    gflops: float
    gbs: float
    intensity: float | None
    """Operations per byte; null when no bytes were counted."""
    bound: Bound | None
    """Null without ceilings, as is `fraction`."""
    fraction: float | None
    """How near to its ceiling: 0 to 1."""
    level: str
    """The level of memory that most bytes come from."""
    why: str
    """A sentence that says what holds the kernel back."""


class RooflineAnswer(TypedDict):
    """Each kernel against the measured ceilings of the machine."""

    version: Literal[2]
    device: str
    simulated: bool
    threads: int
    note: str
    measured_at: float | None
    """Seconds of the calendar; null for a simulated GPU."""
    ceilings: Ceilings
    points: list[RooflinePoint]


# ---------------------------------------------------------------- advice

Changes = Literal["nothing", "rounding", "precision"]
"""The effect that an action may have on results."""


class AdviceAction(TypedDict):
    """One thing to change, and what it is expected to save."""

    id: str
    kind: str
    title: str
    why: str
    kernels: list[str]
    nodes: list[str]
    predicted_ns: int | None
    """Nanoseconds that a run saves; negative where it costs. Null where nothing is predicted."""
    predicted_share: float | None
    low_ns: NotRequired[int | None]
    """Where the interval of the prediction begins; not in files of before there was one."""
    high_ns: NotRequired[int | None]
    """Where it ends."""
    how: str
    """Code, or what to change."""
    can_try: bool
    changes: Changes


class AdviceAnswer(TypedDict):
    """Changes that would make the model faster, ranked; or those to try with some nodes."""

    version: Literal[2]
    total_ns: int
    actions: list[AdviceAction]
    withheld: NotRequired[str]
    """Why nothing is predicted, as a clause; empty where something is."""
    chosen: NotRequired[list[str]]
    """The variants that kernels run with which do their work in several ways, a line each."""


class ExperimentsArgs(TypedDict):
    """Asks which changes can be tried with the model, and with these nodes, whatever they are
    predicted to save.
    """

    nodes: NotRequired[list[str]]


class TryArgs(TypedDict):
    """Asks for the saving of the action with this id."""

    id: str


class TryAnswer(TypedDict):
    """The saving of an action, and its other changes."""

    version: Literal[1]
    id: str
    before_ns: int
    after_ns: int
    saved_ns: int
    low_ns: int
    """The interval of the saving."""
    high_ns: int
    clear: bool
    """Whether the interval leaves out 0."""
    predicted_ns: int | None
    """The predicted saving; null where nothing was predicted."""
    predicted_low_ns: NotRequired[int | None]
    """Where the interval of the prediction begins."""
    predicted_high_ns: NotRequired[int | None]
    runs: int
    before_bytes: int
    after_bytes: int
    before_kernels: int
    after_kernels: int
    max_ulp: float | None
    max_abs: float | None
    """Null when an output is NaN in one of the two."""
    relative: NotRequired[float | None]
    """The largest difference as a fraction of the output's largest number."""
    how: str


# ---------------------------------------------------------------- timeline


class TimelineArgs(TypedDict):
    """One of the profile's runs or all, and whether what else was recorded is wanted too."""

    runs: NotRequired[Literal["one", "all"]]
    events: NotRequired[bool]


class ColumnRef(TypedDict):
    """A column in a buffer of the message, little-endian."""

    buffer: int
    dtype: Literal["f8", "f4", "i4", "i2", "u4", "u1"]


Column = ColumnRef | list[float]
"""Numbers in a buffer; in a saved answer the numbers themselves."""


class TimelineColumns(TypedDict):
    """One row a slice, sorted by track, depth and start; those of a track and a depth never
    overlap."""

    start: Column
    """Nanoseconds after `t0`."""
    dur: Column
    """Nanoseconds; 0 is an instant."""
    track: Column
    name: Column
    """Index in `names`."""
    kernel: Column
    """Index in `kernels`, or -1."""
    depth: Column
    """Nesting: 0 is outermost."""
    turns: NotRequired[Column]
    """Launches that a slice stands for: the steps of a loop stand there once, with all turns. The
    first answers had none."""


class TimelineAnswer(TimelineHead):
    """Which kernel ran when, on which thread or stream: a table of slices, by columns."""

    columns: TimelineColumns


# ---------------------------------------------------------------- runs


class RunsArgs(TypedDict):
    """The numbers of the runs to compare; the newest two when both are left out."""

    before: NotRequired[int]
    after: NotRequired[int]


class SweepArgs(TypedDict):
    """The sizes to run at, by dim."""

    sizes: dict[str, list[int]]
