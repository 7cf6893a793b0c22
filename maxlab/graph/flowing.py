"""Types that follow an edit: what reads a value that changed is typed again, down to the outputs.

`flow` asks the op table for the result types of each op that reads something new, in the order of
the graph, and goes into regions of loops and branches. An op that cannot take what it would read
raises, and the transaction that the edit stands in takes everything back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from maxlab.errors import GraphError, MaxlabError
from maxlab.ir import Block, ChainType, Dim, Function, Op, Shape, Type, Value
from maxlab.ir.dims import from_poly
from maxlab.ir.poly import Poly
from maxlab.ir.types import Typed
from maxlab.opset import role_of
from maxlab.opset.control import verify_regions
from maxlab.opset.dynamic import definitions
from maxlab.opset.verify import infer_types


def flow(function: Function, values: Iterable[Value] = (), ops: Iterable[Op] = ()) -> None:
    """Gives every value that depends on ``values`` or is made by ``ops`` the type that it has now.

    Raises:
        MaxlabError: What the type rule of the first op says that does not fit; it names the op.
        GraphError: ML315, a dim of a result has no size any more.
    """
    dirty = set(values)
    _flow(function.block, dirty, set(ops))
    _require_sizes(function)


def _flow(block: Block, dirty: set[Value], ops: Collection[Op]) -> None:
    for op in block.ops:
        if op.ends_block or not (op in ops or any(v in dirty for v in op.operands)):
            continue
        if op.regions:
            _flow_inside(op, dirty, ops)
        types = _types_of(op)
        for value, type in zip(op.results, types, strict=True):
            if value.type != type:
                value.retype(type)
                dirty.add(value)
        if op.regions:
            verify_regions(op)


def _types_of(op: Op) -> Sequence[Type]:
    try:
        types = infer_types(op)
    except GraphError as error:
        cause = error.__cause__
        found = cause if isinstance(cause, MaxlabError) else error
        name = op.name.removeprefix("mo.")
        raise type(found)(
            found.code,
            found.what,
            at=found.at,
            why=[*found.why, f"{name} {op.id} reads what is changed; the graph stays as it was"],
            fix=found.fix,
        ) from error
    if len(types) != len(op.results):
        raise GraphError(
            "ML315",
            f"{op.name.removeprefix('mo.')} {op.id} would have {len(types)} results, it has "
            f"{len(op.results)}",
            at=op.loc,
            fix="add another operation, and connect its results",
        )
    return types


def _flow_inside(op: Op, dirty: set[Value], ops: Collection[Op]) -> None:
    """The same in the regions of ``op``, whose arguments stand for its last operands."""
    for region in op.regions:
        given = op.operands[len(op.operands) - len(region.args) :]
        for argument, operand in zip(region.args, given, strict=True):
            if argument.type != operand.type:
                argument.retype(operand.type)
                dirty.add(argument)
        _flow(region, dirty, ops)
    if role_of(op) == "branch":  # what a branch gives is written down, and no operand
        made = [v.type for v in op.regions[0].ops[-1].operands]
        types = tuple(t for t in made if not isinstance(t, ChainType))
        if types != tuple(op.attrs["types"]):
            op.set_attr("types", types)


def _require_sizes(function: Function) -> None:
    """Raises unless every dim of a result has a size: that of an input, or one an op computes.

    Regions may define dims of their own, and are left to the compiler.
    """
    for op, value, missing in without_size(function, lambda op: op.results):
        raise GraphError(
            "ML315",
            f"the dim {missing!r} of %{value.id}, which {op.id} ({op.name.removeprefix('mo.')}) "
            "makes, would have no size: no input has it",
            at=op.loc,
            fix="name the dim in the type of an input, or remove the operation first",
        )


def without_size(
    function: Function, values: Callable[[Op], Iterable[Value]]
) -> Iterator[tuple[Op, Value, str]]:
    """Dims to which neither an input nor an op of ``function`` gives a size.

    Args:
        function: Its own ops are looked at, not those of regions.
        values: The values of an op whose types are looked at.

    Returns:
        The op, the value, and the name of the dim, of one dim in each size.
    """
    known = function.parameters.keys() | definitions(function).keys()
    for op in function.ops:
        for value in values(op):
            for poly in value.type.sizes if isinstance(value.type, Typed) else ():
                missing = next((name for name in poly.symbols() if name not in known), None)
                if missing is not None:
                    yield op, value, missing


def substituted(value: Any, sizes: Mapping[str, Poly]) -> Any:
    """``value``, a type or an attribute, with the dims that ``sizes`` has for those it names.

    Example:
        >>> from maxlab.ir import TensorType
        >>> from maxlab.dtype import DType
        >>> substituted(TensorType(DType.float32, ["n", 4]), {"n": Poly.constant(8)})
        TensorType(dtype=DType.float32, shape=[Dim(8), Dim(4)], device=cpu:0)
    """
    if isinstance(value, Dim):
        named = any(name in sizes for name in value.poly.symbols())
        return from_poly(value.poly.substitute(sizes)) if named else value
    if isinstance(value, Typed):
        shape = substituted(value.shape, sizes)
        return value if shape is value.shape else value.with_shape(shape)
    if isinstance(value, (Shape, tuple, list)):
        made = [substituted(item, sizes) for item in value]
        if all(new is old for new, old in zip(made, value, strict=True)):
            return value
        return Shape(made) if isinstance(value, Shape) else type(value)(made)
    return value


__all__ = ["flow", "substituted"]
