"""The questions of the panels about what the compiler made, where it lies, and if it is right."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from maxlab.lab.protocol.document import LineSpan

# ---------------------------------------------------------------- memory


class MemoryArgs(TypedDict):
    """The sizes to plan for; left out, those of the profile or of the last run."""

    dims: NotRequired[dict[str, int]]


class MemorySlot(TypedDict):
    """One stretch of memory and the steps between which something keeps it."""

    id: str
    kind: str
    bytes: int
    offset: int | None
    """Place in the arena; null for memory outside of it."""
    first: int
    """Indexes of steps, inclusive."""
    last: int
    node: str | None
    value: str
    name: str
    holder: str
    """The holder of the memory, in words; empty when nobody says."""


class MemoryAnswer(TypedDict):
    """Where the values of a model lie, and when."""

    version: Literal[2]
    steps: list[str]
    """The kernel of each step."""
    slots: list[MemorySlot]
    """All of the arena; of a saved answer only the largest outside of it."""
    arena: int
    peak: int
    peak_step: int
    fragmentation: float
    """Part of the arena that nothing uses when most is used."""
    weights: int
    """Bytes outside of the arena, by what they hold."""
    packed: int
    inputs: int
    outputs: int
    dims: dict[str, int]


# ---------------------------------------------------------------- passes


class PassesArgs(TypedDict):
    """The number of a stage; left out, the list of all."""

    stage: NotRequired[int]


class StageCounts(TypedDict):
    """One stage of the compiler, and how many operations it brought into each state."""

    name: str
    before: int
    after: int
    ms: float | None
    added: int
    kept: int
    rewritten: int
    folded: int
    removed: int
    fused: int


class StagesAnswer(TypedDict):
    """The stages of the compiler."""

    version: Literal[2]
    kind: Literal["stages"]
    stages: list[StageCounts]


class NodeFate(TypedDict):
    """The fate of an operation of the user's graph."""

    state: Literal["kept", "rewritten", "folded", "removed", "fused"]
    kernel: str | None
    """The kernel that computes it, once there are kernels."""
    rule: str
    changed: bool
    """This stage did it; false when an earlier one did."""


class StageRewrite(TypedDict):
    """One change of a stage."""

    rule: str
    """The name of the rule."""
    node: str
    """The user's operation; empty for one that the compiler had made."""
    op: str
    into: list[str]
    """Operations, or kernels, that took its place; none when it was removed."""
    text: str
    """The rule in a sentence; may be empty."""


class StageAnswer(TypedDict):
    """One stage. Operations that nothing has been said about yet are left out of `nodes`."""

    version: Literal[2]
    kind: Literal["stage"]
    stage: int
    name: str
    nodes: dict[str, NodeFate]
    rewrites: list[StageRewrite]


PassesAnswer = StagesAnswer | StageAnswer
"""The stages of the compiler, or one of them."""


# ---------------------------------------------------------------- compile


class CompilePhase(TypedDict):
    """One phase of a compilation."""

    name: str
    ns: int
    text: str
    """The work that is done in it; may be empty."""


class CompileUnit(TypedDict):
    """A unit that was handed to the C or CUDA compiler at once, or found compiled already."""

    kernels: list[str]
    """All kernels that it is the code of."""
    name: str
    symbol: str
    hit: bool
    why: str
    """Where it came from, or why it was compiled."""
    ms: float
    lines: int | None
    """Of its text; null for a part of the runtime library."""
    library: int | None
    """The number of the compiled library that it is in; units with the same one were compiled
    together."""


class CompileAnswer(TypedDict):
    """The cost of compiling a model."""

    version: Literal[1]
    options: str
    """The options that it was compiled with, in words."""
    phases: list[CompilePhase]
    units: list[CompileUnit]
    chosen: NotRequired[list[str]]
    """The variants that kernels run with which do their work in several ways, a line each."""


# ---------------------------------------------------------------- why


class WhyArgs(TypedDict):
    """Two operations."""

    a: str
    b: str


class WhyAnswer(TypedDict):
    """Whether two operations share a kernel, and by which rule of the schedule."""

    version: Literal[2]
    a: str
    b: str
    together: bool
    kernel_a: str | None
    """Null for what no kernel computes."""
    kernel_b: str | None
    rule: str
    reason: str
    attempt: str
    """Python that would change it; may be empty."""


# ---------------------------------------------------------------- source


class KernelArgs(TypedDict):
    """A kernel."""

    kernel: str


class EditArgs(TypedDict):
    """A kernel and another text for it."""

    kernel: str
    source: str


class TextAnswer(TypedDict):
    """The text of a kernel as the model runs it now."""

    version: Literal[1]
    kernel: str
    source: str
    lines: list[LineSpan]
    edited: bool


class EditError(TypedDict):
    """An error that the C or CUDA compiler finds in a text."""

    line: int | None
    """From 1; null when it names none."""
    column: int | None
    text: str


class EditCheck(TypedDict):
    """An edited kernel beside the references."""

    ok: bool
    max_ulp: int
    max_abs: float | None
    tolerance: str
    message: str


class EditAnswer(TypedDict):
    """The outcome of a kernel with another text, see ``maxlab.analysis.edit``."""

    version: Literal[2]
    kernel: str
    kernels: list[str]
    """All kernels that have its text, which are edited with it."""
    state: Literal["compile_error", "crashed", "wrong", "measured"]
    errors: list[EditError]
    log: str
    check: EditCheck | None
    before_ns: float | None
    after_ns: float | None
    before_iqr: float | None
    after_iqr: float | None
    runs: int
    device: str
    can_keep: bool


class KernelMessage(TypedDict):
    """A sentence that says what was done to a kernel."""

    version: Literal[1]
    kernel: str
    message: str


# ---------------------------------------------------------------- check


class CompareArgs(TypedDict):
    """`newest` runs nothing and tells of what was compared before."""

    all: NotRequired[bool]
    newest: NotRequired[bool]


class Differences(TypedDict):
    """How far a result is off its reference; null where nothing could be compared."""

    max_ulp: int | None
    max_abs: float | None
    max_rel: float | None
    nan: int | None
    inf: int | None
    nan_wanted: int | None
    inf_wanted: int | None
    wrong: int | None
    size: int | None
    excess: NotRequired[float | None]
    """The largest difference over what rounding may do: above 1 is wrong; null where it has no
    bound."""


class CheckedNode(Differences):
    """One operation beside its reference."""

    id: str
    op: str
    kernel: str
    ok: bool
    by: Literal["value", "kernel"]
    """`value` when its own result was compared, and not only those of its kernel."""
    message: str


class CheckedOutput(Differences):
    """One output beside its reference."""

    ok: bool


class ComparisonAnswer(TypedDict):
    """Whether the model is right."""

    version: Literal[2]
    kind: Literal["comparison"]
    ok: bool
    message: str
    first: str | None
    """The first operation that is wrong, and its kernel."""
    kernel: str | None
    can_repro: bool
    nodes: list[CheckedNode]
    """The worst first."""
    outputs: list[CheckedOutput]


class NoComparisonAnswer(TypedDict):
    """The answer when there was no comparison before."""

    version: Literal[2]
    kind: Literal["none"]


CompareAnswer = ComparisonAnswer | NoComparisonAnswer
"""Whether the model is right, if it is known."""


class NanArgs(TypedDict):
    """Whether infinities count; they do when it is left out."""

    infinities: NotRequired[bool]


class NanTrip(TypedDict):
    """The first operation that makes NaN or an infinity."""

    kind: Literal["NaN", "inf"]
    node: str
    """Its id; the name of an input or a weight that had it from the start."""
    op: str
    kernel: str | None
    sure: bool
    """It was seen to make it; otherwise one of the kernel's operations did."""
    count: int
    at: list[int]
    operands: dict[str, str]
    """For each value that it read, the element there."""
    is_given: bool
    """It came with the inputs or weights; `node` is then a name."""


class NanAnswer(TypedDict):
    """The operation that makes NaN."""

    version: Literal[2]
    message: str
    trip: NanTrip | None


class ReproAnswer(TypedDict):
    """The script that shows a wrong kernel, and the files beside it."""

    version: Literal[1]
    path: str
    files: list[str]


class ValueArgs(TypedDict):
    """A node whose result to read."""

    node: str


class ValueHistogram(TypedDict):
    """How many elements lie between neighbouring edges, of which there is one more."""

    counts: list[int]
    edges: list[float]


class ValueImage(TypedDict):
    """A picture whose rows lie behind each other in a buffer; NaN where an element is no number."""

    buffer: int
    dtype: Literal["f4"]
    rows: int
    columns: int
    low: float
    """The finite extremes."""
    high: float


class ValueAnswer(TypedDict):
    """The values that flow along one edge; numbers are null where there is none."""

    version: Literal[1]
    node: str
    op: str
    kernel: str | None
    how: str
    text: str
    """How it was come by, in a sentence."""
    dtype: str
    shape: list[int]
    size: int
    nan: int
    inf: int
    zero: int
    min: float | None
    max: float | None
    mean: float | None
    std: float | None
    histogram: ValueHistogram | None
    image: ValueImage | None
    corner: list[list[str]]
    """The first elements."""
