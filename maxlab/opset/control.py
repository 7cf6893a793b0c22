"""Ops that run other ops: ``cond`` and ``while``, whose bodies are regions.

A region is a block that reads nothing but its own arguments, and ends with ``mo.output``. The last
operands of the op are what the arguments of all its regions stand for; what the user's function
captured is passed in like everything else, so that no analysis needs to look inside to know what is
read.

``mo.cond``   operands ``(flag, *captured)``; the regions are what runs when the flag is true, and
              otherwise. Both give the op's results.
``mo.while``  operands ``(*carried, *captured)``, of which the attribute ``carried`` counts the
              first; the predicate gives a flag, the body the carried values of the next turn, which
              are the op's results when the flag is false.

``mo.call``   one call of a subgraph; compiled functions alone have it (``compiler.outlining``).
              What it runs is no region but a function, the ``body`` of its attribute ``call``.

Chains come last among operands, arguments and results. A region that has an effect takes and gives
them like values; the body of a loop takes those that its predicate gave.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from maxlab.dtype import DType
from maxlab.errors import ExecutionError, GraphError
from maxlab.ir import Block, ChainType, Op, TensorType, Type, Value
from maxlab.ir.core import TERMINATOR
from maxlab.opset.attributes import INT, TYPES, Attribute
from maxlab.opset.core import Array, Attrs, Call, Cost, define, evaluate, lookup

COND = "mo.cond"
WHILE = "mo.while"
CALL = "mo.call"
MAX_TURNS = 10_000
"""Turns after which the NumPy reference of a loop gives up: it takes some microseconds an op."""
GAVE_UP = "ML757"


def is_flag(type: Type) -> bool:
    """Whether ``type`` is one bool on the host, which says where to go on."""
    return (
        isinstance(type, TensorType)
        and type.dtype is DType.bool
        and not type.rank
        and not type.device.is_gpu()
    )


def _nothing(operands: Sequence[Any], results: Sequence[Type], attrs: Attrs) -> Cost:
    from maxlab.ir import Poly

    return Cost(Poly.constant(0))  # what it costs is what its regions cost


# ---------------------------------------------------------------- reference
T = TypeVar("T")
Evaluate = Callable[[Op, Sequence[T]], Sequence[T]]
"""The results of an op on its operands; chains are no operands."""


def run_block(block: Block, given: Sequence[T], evaluate: Evaluate[T]) -> list[T]:
    """The results of a region whose arguments with data are ``given``, its ops evaluated in order.
    Nothing is printed.
    """
    known: dict[Value, T] = {}
    data = iter(given)
    for arg in block.args:
        if not isinstance(arg.type, ChainType):
            known[arg] = next(data)
    for op in block.ops:
        operands = [known[v] for v in op.operands if not isinstance(v.type, ChainType)]
        if op.ends_block:
            return operands
        if lookup(op.name).effect not in ("print", "chain"):
            results = [v for v in op.results if not isinstance(v.type, ChainType)]
            known.update(zip(results, evaluate(op, operands), strict=False))
    raise AssertionError("a region ends with an output")


def run_regions(
    op: Op, operands: Sequence[T], evaluate: Evaluate[T], is_true: Callable[[T], bool]
) -> list[T]:
    """The results of an op with regions on ``operands``.

    Raises:
        ExecutionError: ML757, it is a loop of more than ``MAX_TURNS`` turns.
    """
    if op.name == CALL:
        return run_block(op.attrs["call"].body.block, operands, evaluate)
    if op.name == COND:
        flag, *captured = operands
        return run_block(op.regions[0 if is_true(flag) else 1], captured, evaluate)
    predicate, body = op.regions
    carried = op.attrs["carried"]
    values, rest = list(operands[:carried]), operands[carried:]
    for _ in range(MAX_TURNS):
        if not is_true(run_block(predicate, (*values, *rest), evaluate)[0]):
            return values
        values = run_block(body, (*values, *rest), evaluate)
    raise ExecutionError(
        GAVE_UP,
        f"while_loop: the NumPy reference gave up after {MAX_TURNS} turns",
        at=op.loc,
        fix="check it on inputs for which the loop ends sooner",
    )


def _reference(call: Call, *operands: Array) -> list[Array]:
    assert call.op is not None
    return run_regions(call.op, operands, lambda op, arrays: evaluate(op, arrays, call.env), bool)


# ---------------------------------------------------------------- rows
define(
    "cond",
    "program",
    "control",
    "The results of one of two regions, which a bool chooses; the other does not run.",
    attrs={"types": TYPES},
    role="branch",
    shown=lambda attrs: {},  # its types are those of its results
    infer=lambda types, attrs: list(attrs["types"]),
    reference=_reference,
    cost=_nothing,
)
define(
    "while",
    "program",
    "control",
    "Values that a region computes anew for as long as another region gives true.",
    attrs={"carried": INT},
    role="loop",
    foreign={"aten": ("while_loop",), "onnx": ("Loop",)},
    infer=lambda types, attrs: list(types[: attrs["carried"]]),
    reference=_reference,
    cost=_nothing,
)
define(
    "call",
    "program",
    "control",
    "The results of a subgraph that is called more than once, compiled once for all calls.",
    attrs={"call": Attribute("call")},
    role="call",
    infer=lambda types, attrs: [v.type for v in attrs["call"].body.output.operands],
    reference=_reference,
    cost=_nothing,
)


# ---------------------------------------------------------------- verification
def _plain(types: Sequence[Type]) -> list[Type]:
    return [t for t in types if not isinstance(t, ChainType)]


def verify_regions(op: Op) -> None:
    """Raises unless the regions of ``op`` take what its last operands are, read no other values,
    and give what they must.

    Raises:
        GraphError: ML358, one does not.
    """
    if op.name not in (COND, WHILE):
        if op.regions:
            raise GraphError("ML358", f"{op.name} {op.id} takes no regions", at=op.loc)
        return
    types = [v.type for v in op.operands]
    given = types[1:] if op.name == COND else types
    chains: list[Type] = [t for t in types if isinstance(t, ChainType)]
    wanted = _expected(op, chains)
    if len(op.regions) != 2:
        raise _wrong(op, f"{len(op.regions)} regions, expected 2")
    for number, region in enumerate(op.regions):
        found = [v.type for v in region.args]
        if found != given:
            raise _wrong(op, f"region {number} takes {_text(found)}, expected {_text(given)}")
        if not region.ops or not region.ops[-1].ends_block:
            raise _wrong(op, f"region {number} does not end with {TERMINATOR}")
        made: list[Type] = [v.type for v in region.ops[-1].operands]
        if made != wanted[number]:
            text = _text(wanted[number])
            raise _wrong(op, f"region {number} gives {_text(made)}, expected {text}")
        for inner in region.ops:
            for value in inner.operands:
                if _block_of(value) is not region:
                    raise _wrong(op, f"region {number} reads %{value.id}, which is none of its own")
            verify_regions(inner)


def _expected(op: Op, chains: Sequence[Type]) -> list[list[Type]]:
    """The types that the regions of ``op`` must give."""
    types = [v.type for v in op.operands]
    if op.name == COND:
        if not types or not is_flag(types[0]):
            raise _wrong(op, "the flag is not one bool on the host")
        results = [*op.attrs["types"], *chains]
        return [results, results]
    carried = op.attrs["carried"]
    if not isinstance(carried, int) or not 0 < carried <= len(_plain(types)):
        raise _wrong(op, f"carried = {carried!r}")
    values = list(types[:carried])
    if any(isinstance(t, ChainType) for t in values):
        raise _wrong(op, "a carried value is a chain")
    flag: list[Type] = [TensorType(DType.bool, [])]
    return [[*flag, *chains], [*values, *chains]]


def _block_of(value: Value) -> Block | None:
    return value.owner.block if isinstance(value.owner, Op) else value.owner


def _text(types: Sequence[Type]) -> str:
    return f"({', '.join(map(str, types))})"


def _wrong(op: Op, what: str) -> GraphError:
    return GraphError("ML358", f"{op.name} {op.id}: {what}", at=op.loc)


__all__ = [
    "CALL",
    "COND",
    "WHILE",
    "is_flag",
    "run_block",
    "run_regions",
    "verify_regions",
]
