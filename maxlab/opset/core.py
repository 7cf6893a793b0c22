"""The op table: everything that is known of an operation, declared in one place.

A declaration says what an op takes, what type its results have, what NumPy computes for it, how it
is lowered, what it costs, and on which samples it is tested. The graph builder, the verifier, the
constant folder, the code generators, ``compare()``, the docs and the test matrix read this table;
none of them knows an op by name.

Lowering kinds:

``map``        one scalar expression per element of the result; operands broadcast
``view``       no arithmetic: the index of a result element tells which operand element it is
``reduce``     one axis is folded with an associative operator
``contract``   a product of matrices
``gather``     an element is read at an index that is itself data
``concat``     operands laid side by side along one axis
``pad``        an operand surrounded by a constant
``iota``       values computed from the index alone
``transfer``   the operand's elements on another device
``constant``   data in the graph; ``external`` data comes from the weights registry
``kernel``     kernels of its own, for each target; see ``opset.kernel``
``composite``  written with other ops; the compiler expands it
``host``       a function of Python, called between kernels
``program``    other ops, run once, several times or not at all; see ``opset.control``
``chain``      the beginning of an order of effects; see ``opset.effects``
``output``     ends a graph
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal, Required, TypedDict, Unpack

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import GraphError
from maxlab.ir import ChainType, Dim, Function, HostCall, Op, Poly, Shape, TensorType, Type, Value
from maxlab.ir.poly import ONE
from maxlab.ir.types import Typed
from maxlab.opset.attributes import Schema
from maxlab.opset.builder import Ops
from maxlab.opset.checks import Check as Check  # noqa: PLC0414 - a part of the table
from maxlab.opset.facts import FAMILIES, Chapter, Family, Foreign, Role, ScalarText
from maxlab.opset.faults import Fault
from maxlab.opset.identities import Identity
from maxlab.opset.kernel import Site
from maxlab.opset.places import PLACE

Array = np.ndarray[Any, Any]
Attrs = Mapping[str, Any]
Kind = Literal[
    "map",
    "view",
    "reduce",
    "contract",
    "gather",
    "concat",
    "pad",
    "iota",
    "transfer",
    "constant",
    "external",
    "kernel",
    "composite",
    "host",
    "program",
    "chain",
    "output",
]


@dataclass(frozen=True, slots=True)
class Sample:
    """Operands on which an op is tested: arrays, and the attributes beside them.

    ``arrays`` are NumPy arrays (of ml_dtypes types for bf16 and fp8). ``shapes`` may name some of
    their dims, so that the sample also runs with symbolic sizes: one sequence of dims per array.
    """

    arrays: tuple[Array, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    shapes: tuple[tuple[int | str, ...], ...] | None = None
    label: str = ""


@dataclass(frozen=True, slots=True)
class Cost:
    """The arithmetic of one op: ``flops`` as a polynomial of the dims. A function such as ``exp``
    counts as the arithmetic that evaluates it, see ``OpDef.weight``."""

    flops: Poly


@dataclass(frozen=True, slots=True)
class Call:
    """One evaluation of a reference: attributes, and result shapes and dtypes with all dims
    known; and the op, where its regions matter."""

    attrs: Attrs
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[DType, ...]
    env: Mapping[str, int]
    op: Op | None = None

    def size(self, dim: Dim | int | Poly) -> int:
        """The size of ``dim`` in this evaluation."""
        if isinstance(dim, Poly):
            return dim.evaluate(self.env)
        return dim if isinstance(dim, int) else dim.evaluate(self.env)


Infer = Callable[[Sequence[TensorType], Attrs], Sequence[Type]]
Reference = Callable[..., Any]
ViewIndex = Callable[["ViewCall", tuple[Poly, ...]], tuple[Poly, ...]]
Decompose = Callable[[Ops[Value], Op], Value | Sequence[Value]]
Checks = Callable[[Sequence[TensorType], Sequence[Type], Attrs], Sequence[Check]]
CostOf = Callable[[Sequence[TensorType], Sequence[Type], Attrs], Cost]
Effect = Literal["", "chain", "make", "read", "write", "print", "sync"]


@dataclass(frozen=True, slots=True)
class ViewCall:
    """Everything that a view needs to map an index of its result to an index of its operand."""

    attrs: Attrs
    source: tuple[Poly, ...]
    target: tuple[Poly, ...]


@dataclass(frozen=True, slots=True)
class OpDef:
    """One row of the op table."""

    name: str
    kind: Kind
    chapter: Chapter
    """the chapter of its page in the docs"""
    summary: str
    family: Family
    """the family by which views colour it; that of its chapter, unless the row says another one"""
    infer: Infer
    reference: Reference
    role: Role = "compute"
    """what it is for those that read a graph, see ``opset.facts``"""
    attrs: Schema = field(default_factory=dict)
    """its attributes, by name"""
    identities: tuple[Identity, ...] = ()
    """when it gives an operand as it is"""
    foreign: Foreign = field(default_factory=Foreign)
    """its names in other libraries"""
    label: Callable[[Attrs], str] | None = None
    """what a reader calls the op, where its attributes say so"""
    shown: Callable[[Attrs], Mapping[str, Any]] | None = None
    """what a reader asks of its attributes, where that is not all of them"""
    scalar: Callable[[Attrs], str] | None = None
    """the scalar operator, where the attributes choose among those of ``scalar_text``"""
    scalar_text: Mapping[str, ScalarText] = field(default_factory=dict)
    """how each language spells its scalar operators, by their names"""
    inverse: str = ""
    """for ``x op y`` that is ``x * g(y)`` up to rounding: the scalar operator ``g``"""
    merges: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """for ``f(x) op g(x)`` that is ``h(x)`` up to rounding: the scalar ``h``, by ``(f, g)`` in the
    order of the alphabet"""
    position: Callable[[Attrs, tuple[Poly, ...]], Poly] | None = None
    """for an op of the kind ``iota`` without operands: its element at an index"""
    view: ViewIndex | None = None
    axes: Callable[[Attrs, int], Sequence[int]] | None = None
    """for a view that reorders axes: the operand's axis behind each axis of the result, of which
    there are as many as the number given"""
    reduce: str | None = None
    decompose: Decompose | None = None
    kernel: Callable[[Site], None] | None = None
    """writes the kernels of an op of the kind ``kernel``"""
    finishes: Callable[[Op], bool] | None = None
    """for an op with kernels, whether maps of its result can follow part by part, see
    ``Site.finish``"""
    channels_last: Callable[[Ops[Value], Op, Value], Value] | None = None
    """for an op whose first operand is an image, and whose attribute ``channels_first`` says where
    its channels are: adds the op for this image with its channels last, where they were first, and
    gives the result, whose channels are last too"""
    joined: str = ""
    """for an op whose first operand is an image, the op that reads two images in its place, the
    channels of the second behind those of the first"""
    checks: Checks | None = None
    cost: CostOf | None = None
    samples: Callable[[], Sequence[Sample]] | None = None
    weight: int = 1
    """flops of one scalar evaluation, for maps without a ``cost`` of their own"""
    commutative: bool = False
    ulps: int = 0
    """representable numbers between the correctly rounded result and what a kernel may compute, in
    float32 and float64, for functions that are not exact"""
    terms: Callable[[Sequence[Array], Attrs], int] | None = None
    """for an op of the kind ``kernel`` that rounds, and whose result is a sum of products of its
    operands: how many terms an element of the result has. Without it, such an op is exact."""
    magnitude: Callable[[Sequence[Array], Attrs], Array] | None = None
    """for an op with ``terms``: the sum of the sizes of the terms of each element, where that is
    not what the op makes of the sizes of its operands"""
    same_order: bool = False
    """whether this view has the elements of its operand in the same order"""
    takes_float8: bool = False
    """whether an op of the kind ``kernel`` or ``map`` takes floats of 8 bits, as those do that only
    choose and move elements"""
    effect: Effect = ""
    """what the op does to the world: ``make``, ``read`` or ``write`` a buffer, its first operand,
    ``print``, or ``sync`` the devices of its operands; ops with an effect are neither dropped,
    merged, folded nor moved over each other, and take and make a chain of each device"""
    changed: Callable[[Attrs], tuple[int, ...]] | None = None
    """for an op that writes: the numbers of the operands that are buffers it changes, where that is
    not the first one alone"""
    asserts: bool = False
    """whether the op says something of its operands, and so stays when nobody reads its result"""
    fault: Callable[[Op], Fault] | None = None
    """what the error says of a number that a kernel refused; without it, an index that is out of
    range"""
    host: Callable[[Op], HostCall] | None = None
    """makes the function of an op of the kind ``host`` that has none among its attributes"""

    def scalar_name(self, attrs: Attrs) -> str:
        """The scalar operator of a map op with these attributes."""
        return self.scalar(attrs) if self.scalar is not None else self.name.removeprefix("mo.")


class Facts(TypedDict, total=False):
    """The facts of ``OpDef`` that ``define`` takes by keyword, of the same types."""

    family: Family
    infer: Required[Infer]
    reference: Required[Reference]
    role: Role
    attrs: Schema
    identities: tuple[Identity, ...]
    foreign: Foreign
    label: Callable[[Attrs], str] | None
    shown: Callable[[Attrs], Mapping[str, Any]] | None
    scalar: Callable[[Attrs], str] | None
    scalar_text: Mapping[str, ScalarText]
    inverse: str
    merges: Mapping[tuple[str, str], str]
    position: Callable[[Attrs, tuple[Poly, ...]], Poly] | None
    view: ViewIndex | None
    axes: Callable[[Attrs, int], Sequence[int]] | None
    reduce: str | None
    decompose: Decompose | None
    kernel: Callable[[Site], None] | None
    finishes: Callable[[Op], bool] | None
    channels_last: Callable[[Ops[Value], Op, Value], Value] | None
    joined: str
    checks: Checks | None
    cost: CostOf | None
    samples: Callable[[], Sequence[Sample]] | None
    weight: int
    commutative: bool
    ulps: int
    terms: Callable[[Sequence[Array], Attrs], int] | None
    magnitude: Callable[[Sequence[Array], Attrs], Array] | None
    same_order: bool
    takes_float8: bool
    effect: Effect
    changed: Callable[[Attrs], tuple[int, ...]] | None
    asserts: bool
    fault: Callable[[Op], Fault] | None
    host: Callable[[Op], HostCall] | None


class Table(MutableMapping[str, OpDef]):
    """The rows of all ops by their names, in the order of ``PLACES``. The module that declares a
    row is imported when the row is first asked for, that of all when they are gone through."""

    def __init__(self) -> None:
        self._rows: dict[str, OpDef] = {}

    def __getitem__(self, name: str) -> OpDef:
        row = self._rows.get(name)
        return row if row is not None else self._declared(name)

    def get(self, name: str, default: None = None) -> OpDef | None:  # type: ignore[override]
        """The row ``name``; None where there is none."""
        row = self._rows.get(name)
        return self._declared(name) if row is None and name in PLACE else row

    def __contains__(self, name: object) -> bool:
        return name in PLACE or name in self._rows

    def __iter__(self) -> Iterator[str]:
        for name in PLACE:
            self[name]
        return iter((*PLACE, *(name for name in self._rows if name not in PLACE)))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __setitem__(self, name: str, row: OpDef) -> None:
        self._rows[name] = row

    def __delitem__(self, name: str) -> None:
        del self._rows[name]

    def put(self, row: OpDef) -> None:
        """Add a row.

        Raises:
            ValueError: The name is taken.
        """
        if row.name in self._rows:
            raise ValueError(f"{row.name} is declared twice")
        self._rows[row.name] = row

    def _declared(self, name: str) -> OpDef:
        place = PLACE.get(name)
        if place is None:
            raise KeyError(name)
        import_module(f"maxlab.opset.{place}")
        return self._rows[name]


OPSET = Table()
_SCALARS: dict[str, OpDef] = {}


def define(name: str, kind: Kind, chapter: Chapter, summary: str, **facts: Unpack[Facts]) -> OpDef:
    """The new row ``mo.<name>`` of the table.

    Raises:
        ValueError: The name is taken.
    """
    facts.setdefault("family", FAMILIES[chapter])
    row = OpDef(f"mo.{name}", kind, chapter, summary, **facts)
    OPSET.put(row)
    for scalar in row.scalar_text:
        _SCALARS[scalar] = row
    return row


def scalar_text(name: str) -> ScalarText:
    """How each language spells the scalar operator ``name``.

    Raises:
        GraphError: ML301, no row has this scalar operator.
    """
    try:
        return _scalar(name).scalar_text[name]
    except KeyError:
        raise GraphError(
            "ML301", f"there is no scalar operator {name!r}", fix="the ops are listed in docs/ops"
        ) from None


def scalar_weight(name: str) -> int:
    """The flops of one evaluation of the scalar operator ``name``, as its row declares them.

    Raises:
        KeyError: No row has this scalar operator.
    """
    return _scalar(name).weight


def _scalar(name: str) -> OpDef:
    """The row that has the scalar operator ``name``."""
    row = _SCALARS.get(name)
    if row is None:
        list(OPSET)  # another module may declare it
        row = _SCALARS[name]
    return row


def lookup(name: str) -> OpDef:
    """The row of the op ``name``.

    Raises:
        GraphError: ML301, there is no such op.
    """
    row = OPSET.get(name)
    if row is None:
        raise GraphError("ML301", f"there is no op {name!r}", fix="the ops are listed in docs/ops")
    return row


def changed_operands(op: Op) -> tuple[int, ...]:
    """The numbers of the operands of ``op`` that are buffers it changes in place."""
    row = OPSET.get(op.name)
    if row is None or row.effect != "write":
        return ()
    return (0,) if row.changed is None else row.changed(op.attrs)


# ---------------------------------------------------------------- evaluation


def concrete(shape: Shape | Sequence[Dim], env: Mapping[str, int]) -> tuple[int, ...]:
    """The sizes of ``shape`` when names have the sizes in ``env``."""
    return tuple(dim.evaluate(env) for dim in shape)


def evaluate(op: Op, arrays: Sequence[Array], env: Mapping[str, int]) -> list[Array]:
    """NumPy's results for ``op`` on ``arrays``: the oracle of folding, ``compare()`` and tests.

    Overflow and invalid operations are silent, as they are in generated code.
    """
    row = lookup(op.name)
    types = [r.tensor_type for r in op.results if isinstance(r.type, Typed)]
    call = Call(
        op.attrs,
        tuple(concrete(t.shape, env) for t in types),
        tuple(t.dtype for t in types),
        env,
        op,
    )
    with np.errstate(all="ignore"):
        made = row.reference(call, *arrays)
        outputs = list(made) if isinstance(made, (list, tuple)) else [made]
        return [
            np.asarray(array).astype(dtype.ml_numpy, copy=False).reshape(shape)
            for array, dtype, shape in zip(outputs, call.dtypes, call.shapes, strict=True)
        ]


def fault_of(op: Op) -> Fault:
    """The error for a number that a kernel of ``op`` refused."""
    row = lookup(op.name)
    return row.fault(op) if row.fault is not None else Fault(op.name.removeprefix("mo."))


def flops_of(op: Op) -> Poly:
    """The arithmetic of ``op`` as a polynomial of the dims; 0 for views and data."""
    row = lookup(op.name)
    if row.cost is not None:
        operands: list[Any] = [v.type for v in op.operands if not isinstance(v.type, ChainType)]
        results = [r.type for r in op.results]
        return row.cost(operands, results, op.attrs).flops
    if row.kind == "map" and row.weight:
        return elements(op.results[0].tensor_type) * Poly.constant(row.weight)
    if row.kind == "reduce":
        return elements(op.operands[0].tensor_type)
    return Poly.constant(0)


def elements(type: Any) -> Poly:
    """The number of elements of a tensor type."""
    total = ONE
    for dim in type.shape:
        total = total * dim.poly
    return total


def checks_of(function: Function) -> list[tuple[Op, Check]]:
    """All conditions on dims that the ops of ``function`` state, in order."""
    found: list[tuple[Op, Check]] = []
    for op in function.ops:
        row = OPSET.get(op.name)
        if row is not None and row.checks is not None:
            types: list[Any] = [v.type for v in op.operands if not isinstance(v.type, ChainType)]
            results = [r.type for r in op.results]
            found.extend((op, check) for check in row.checks(types, results, op.attrs))
    return found
