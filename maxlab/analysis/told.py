"""The plain JSON of comparisons and timelines, declared.

These answers of panels are made on this side of the notebook's: comparisons, sweeps and saved runs
are drawn from documents that carry them. ``maxlab.lab.protocol`` takes them in; the front end's
types and readers are generated from there and from here.
"""

from __future__ import annotations

from typing import Literal, TypedDict

# ---------------------------------------------------------------- timeline


class TimelineTrack(TypedDict):
    """A thread or a stream; tracks of one process stand together."""

    name: str
    kind: Literal["thread", "stream", "transfer", "compile", "python"]
    process: str


class TimelineHead(TypedDict):
    """All of a timeline but its columns."""

    version: Literal[1]
    unit: Literal["ns"]
    name: str
    device: str
    """Where the times come from."""
    simulated: bool
    runs: int
    run: int
    """Which of the profile's runs is shown; -1 for several."""
    t0: int
    """The `time.monotonic_ns` that `start` counts from."""
    tracks: list[TimelineTrack]
    names: list[str]
    colors: dict[str, str]
    """CSS colours that the user's spans were given, by name."""
    kernels: list[str]
    n: int


# ---------------------------------------------------------------- runs

RunState = Literal["slower", "faster", "same", "unclear", "few", "new", "gone"]
"""The change of a time. `unclear`: no difference can be shown, and none ruled out."""


class RunEstimate(TypedDict):
    """A ratio of times, after ÷ before, with the interval that it is known to lie in.

    Numbers that are not known are null.
    """

    before: float
    after: float
    ratio: float | None
    low: float | None
    high: float | None
    p: float | None
    state: RunState


class RunRow(RunEstimate):
    """A kernel of one run against that of the other."""

    name: str
    kind: str
    kernels: str
    """`k4`, or `k3+k4 → k3` where the compiler cut otherwise."""
    nodes: list[str]
    """Ids of operations of the graph that is drawn."""
    code: Literal["same", "changed", ""]
    regrouped: bool
    bytes: list[float | None]


class RunSide(TypedDict):
    """One side of a comparison: a run, or several of one program."""

    label: str
    name: str
    device: str
    threads: int
    dims: dict[str, int]
    options: str
    created: str
    machine: dict[str, str]
    processes: int
    runs: int
    wall: float
    """Nanoseconds of one run."""


class RememberedSide(RunSide):
    """A run that the kernel remembers."""

    number: int


class RunPair(TypedDict):
    """One side against another; `before` and `side` are indices of `sides`."""

    before: int
    side: int
    wall: RunEstimate
    total: RunEstimate
    notes: list[str]
    rows: list[RunRow]
    more: int
    """Rows that were left out."""


class DiffAnswer(TypedDict):
    """The answer of a comparison (``maxlab.diff``) to the panel of runs."""

    version: Literal[1]
    kind: Literal["diff"]
    confidence: float
    sides: list[RunSide]
    pairs: list[RunPair]


class HistoryAnswer(TypedDict):
    """The runs of a graph that the process remembers, and two of them compared."""

    version: Literal[1]
    kind: Literal["history"]
    confidence: float
    dims: dict[str, int]
    """Sizes of the symbolic dims of the newest run."""
    sides: list[RememberedSide]
    pairs: list[RunPair]


class SweepTimes(TypedDict):
    """Times at each point in nanoseconds: the median and the quartiles."""

    ns: list[float]
    low: list[float]
    high: list[float]
    growth: dict[str, list[float | None]]
    """For each dim the powers of it that time, operations and bytes grow as."""


class SweepKernel(SweepTimes):
    """One kernel at each point."""

    id: str
    name: str
    kind: str
    nodes: list[str]


class SweepAnswer(TypedDict):
    """One model at many sizes (``maxlab.sweep``)."""

    version: Literal[1]
    kind: Literal["sweep"]
    dims: list[str]
    points: list[dict[str, int]]
    wall: SweepTimes
    kernels: list[SweepKernel]


RunsAnswer = HistoryAnswer | DiffAnswer | SweepAnswer
"""The answer that the panel of runs shows."""
