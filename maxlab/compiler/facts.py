"""Facts of the graph that a plan was made from, as plain values.

A plan alone is enough to check the inputs of a model, to find the sizes of all dims, to make the
outputs, and to say what went wrong and on which line of the user's. ``recording`` writes these
facts down when a graph is compiled; nothing here holds an object of the graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from maxlab.compiler.guards import Guard
from maxlab.compiler.op_facts import OpFacts
from maxlab.dtype import DType
from maxlab.errors import Location
from maxlab.ir import DeviceRef
from maxlab.ir.poly import Poly

Part = tuple[tuple[tuple[int, int], ...], ...]
"""For each axis, the (start, stop) of each run of indices; empty for all of an array."""


@dataclass(frozen=True, slots=True)
class InputFacts:
    """An input of the graph.

    Attributes:
        name: What callers call it.
        type: Its type as messages spell it.
        dtype: Of its elements; a handle is a ``uint64``.
        shape: The size of each axis.
        device: Where the model takes it.
        is_buffer: Whether it is memory that the graph may change.
    """

    name: str
    type: str
    dtype: DType
    shape: tuple[Poly, ...]
    device: DeviceRef
    is_buffer: bool = False


@dataclass(frozen=True, slots=True)
class OutputFacts:
    """An output of the graph.

    Attributes:
        dtype: Of its elements.
        shape: The size of each axis.
        device: Where it is made.
        at: The user's line that made it; None where that is not known.
        declared: The sizes that the graph itself states, which passes may have written otherwise.
    """

    dtype: DType
    shape: tuple[Poly, ...]
    device: DeviceRef
    at: Location | None
    declared: tuple[Poly, ...]


@dataclass(frozen=True, slots=True)
class WeightFacts:
    """A weight that the graph declares.

    Attributes:
        label: Its name in the graph; several shards of one weight have labels of their own.
        name: The name under which the registry has the array.
        dtype: Of its elements.
        shape: The sizes that the array must have: of the whole weight, where this is a part.
        part: Which part of the array it is; empty for all of it.
        device: Where the graph takes it.
        at: The user's line that declares it.
    """

    label: str
    name: str
    dtype: DType
    shape: tuple[Poly, ...]
    part: Part
    device: DeviceRef
    at: Location | None


# ---------------------------------------------------------------- sizes
@dataclass(frozen=True, slots=True)
class Bound:
    """A dim whose size a step computes.

    Attributes:
        op: The op that binds it.
        what: What messages call the op that the user wrote.
        dim: The dim: a name, an expression, or a number that is asserted.
        negative: What a negative size would mean; empty where there is nothing to say.
        defines: The name that gets the size; empty where the size is asserted.
    """

    op: OpFacts
    what: str
    dim: Poly
    negative: str
    defines: str


@dataclass(slots=True)
class Conditions:
    """Sizes that are new in a stage of the plan, and the conditions on them.

    Attributes:
        definitions: Dims that are names for other sizes: name, size, and the op that says so.
        guard: What ops state.
        counts: The dims that kernels compute in int64, which must hold them, and an op with each.
        binds: What is bound behind the stage.
    """

    definitions: list[tuple[str, Poly, OpFacts]] = field(default_factory=list)
    guard: Guard = field(default_factory=Guard)
    counts: dict[Poly, OpFacts] = field(default_factory=dict)
    binds: list[Bound] = field(default_factory=list)


@dataclass(slots=True)
class SizeFacts:
    """How the sizes of the inputs give the sizes of all symbols, and what must hold of them.

    Attributes:
        names: Symbols that an axis of an input is: symbol, input, axis.
        checks: Axes of inputs whose size follows from others: input, axis, size.
        solved: Symbols that follow from axes such as ``2 * n + m``: symbol, input, axis, what is
            subtracted from the size, and what that is divided by.
        stages: The conditions of each stage of the plan.
    """

    names: list[tuple[str, int, int]] = field(default_factory=list)
    checks: list[tuple[int, int, Poly]] = field(default_factory=list)
    solved: list[tuple[str, int, int, Poly, int]] = field(default_factory=list)
    stages: list[Conditions] = field(default_factory=lambda: [Conditions()])


# ---------------------------------------------------------------- the whole
@dataclass(frozen=True, slots=True)
class AheadFacts:
    """The part that is computed from weights when the model is loaded, by a plan of its own.

    Attributes:
        names: The names that its outputs have as weights of this plan, in their order.
        sources: The names of the weights that it reads.
        count: How many operations compute them.
        nbytes: The bytes of all of them.
        program: The digests of its graph and options, by which the cache has its plan.
    """

    names: tuple[str, ...]
    sources: tuple[str, ...]
    count: int
    nbytes: int
    program: str


@dataclass(frozen=True, slots=True)
class HandleFacts:
    """Which inputs and outputs are opaque handles.

    Attributes:
        inputs: The type names of the inputs that are handles, by number.
        outputs: The same of the outputs.
        types: What tells each opaque type that a kernel makes or takes from others of its name.
    """

    inputs: Mapping[int, str]
    outputs: Mapping[int, str]
    types: Mapping[str, str]


@dataclass(slots=True)
class Facts:
    """All that a plan knows of its graph.

    Attributes:
        name: Of the graph.
        inputs: In their order.
        outputs: In their order.
        weights: Those that the graph declares, by label.
        written: The numbers of the inputs that the graph stores into.
        apart: Pairs of inputs that cannot be one memory: one op changes the first and takes the
            second.
        sizes: How sizes follow from each other.
        ops: The ops that steps compute, by id.
        ahead: What is computed when the model is loaded, if anything.
        handles: Which inputs and outputs are opaque handles; None where no value is one.
    """

    name: str = ""
    inputs: tuple[InputFacts, ...] = ()
    outputs: tuple[OutputFacts, ...] = ()
    weights: Mapping[str, WeightFacts] = field(default_factory=dict)
    written: tuple[int, ...] = ()
    apart: frozenset[tuple[int, int]] = frozenset()
    sizes: SizeFacts = field(default_factory=SizeFacts)
    ops: Mapping[str, OpFacts] = field(default_factory=dict)
    ahead: AheadFacts | None = None
    handles: HandleFacts | None = None


__all__ = [
    "AheadFacts",
    "Bound",
    "Conditions",
    "Facts",
    "HandleFacts",
    "InputFacts",
    "OutputFacts",
    "Part",
    "SizeFacts",
    "WeightFacts",
]
