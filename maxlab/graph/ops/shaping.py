"""Ops that give the same elements another shape, order or name, or repeat them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, ArgumentTypeError, ShapeError
from maxlab.graph.build import add as add_op
from maxlab.graph.build import as_int, builder, cast, is_array, literal, staged, tensor
from maxlab.graph.ops.dims import along
from maxlab.graph.ops.dynamic import bind_dim, to_device
from maxlab.graph.value import TensorValue, TensorValueLike
from maxlab.ir import Dim, DimLike, FilterLayout, Poly, Shape, StaticDim, from_poly
from maxlab.opset.dynamic import out_dim_of
from maxlab.opset.facts import Family
from maxlab.opset.rules import axis_of, require_integral

FAMILY: Final[Family] = "view"
"""Of the functions here that are no rows of the op table themselves."""


def dims_of(what: str, shape: Any) -> Shape:
    """``shape`` as a list of dims.

    Raises:
        ArgumentTypeError: ML336, not an iterable of dims.
    """
    if hasattr(shape, "_ir") or isinstance(shape, (str, bytes)) or not isinstance(shape, Iterable):
        raise ArgumentTypeError(
            "ML336",
            f"{what}: the shape must be a sequence of ints, names and dims, got "
            f"{type(shape).__name__}",
            fix="write a tuple, such as (batch, -1)",
        )
    return Shape(shape)


def text_of(shape: Sequence[Dim]) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"


# ---------------------------------------------------------------- shape
@staged
def reshape(x: TensorValueLike, shape: Iterable[DimLike] | DimLike) -> TensorValue:
    """The elements of ``x`` in row-major order, in the shape ``shape``.

    Args:
        x: A tensor of any shape.
        shape: Ints, names and dims whose product is provably the number of elements of ``x``. One
            of them may be -1: it is what the others leave. A single one may stand alone.

    Raises:
        ShapeError: ML202, the numbers of elements are not provably equal; ML213, more than one -1,
            or a -1 that the other dims do not determine.
        ArgumentTypeError: ML336, ``shape`` is not a sequence of dims.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> with Graph("g", input_types=[TensorType(DType.float32, ["a", "b", 4])]) as graph:
        ...     ops.reshape(graph.inputs[0], ("a", -1)).shape
        [Dim('a'), Dim('b') * Dim(4)]
    """
    value = tensor(x, "reshape: the operand")
    wanted = dims_of("reshape", [shape] if isinstance(shape, (int, Dim)) else shape)
    return add_op("reshape", [value], shape=_solve(value.shape, wanted))


def _solve(old: Shape, new: Shape) -> Shape:
    """``new`` with its -1 replaced by the dim that makes the numbers of elements equal."""
    unknown = [i for i, dim in enumerate(new) if dim == -1]
    for dim in new:
        if isinstance(dim, StaticDim) and dim.dim < -1:
            raise ShapeError(
                "ML213", f"reshape: the size {dim} is negative", fix="use -1 or a size"
            )
    if not unknown:
        return new
    if len(unknown) > 1:
        raise ShapeError(
            "ML213", f"reshape: {text_of(new)} has more than one -1", fix="give all sizes but one"
        )
    total = old.num_elements.poly
    rest = Shape(dim for dim in new if dim != -1).num_elements.poly
    quotient = total.floordiv(rest) if rest.terms else Poly.constant(0)
    if not rest.terms or quotient * rest != total:
        why = (
            "any size fits"
            if not rest.terms
            else f"{from_poly(total)} // {from_poly(rest)} leaves a rest"
        )
        raise ShapeError(
            "ML213",
            f"reshape: the -1 of {text_of(new)} is not determined by {text_of(old)}: {why}",
            fix="write the size, or rebind the operand so that the division is exact",
        )
    return Shape(from_poly(quotient) if i == unknown[0] else dim for i, dim in enumerate(new))


@staged
def flatten(x: TensorValueLike, start_dim: int = 0, end_dim: int = -1) -> TensorValue:
    """``x`` with the dims ``start_dim`` to ``end_dim``, inclusive, merged into one.

    Args:
        x: A tensor of rank 1 or more.
        start_dim: The first dim to merge; negative from the end.
        end_dim: The last dim to merge; negative from the end.

    Raises:
        AxisError: ML303, a dim is out of range.
        ArgumentError: ML306, ``start_dim`` comes after ``end_dim``.
    """
    return add_op(
        "flatten", [tensor(x, "flatten: the operand")], start_dim=start_dim, end_dim=end_dim
    )


@along
@staged
def squeeze(x: TensorValueLike, axis: int | Sequence[int] | None = None) -> TensorValue:
    """``x`` without the dim ``axis``, which has the size 1, or without several such dims.

    Args:
        x: A tensor of rank 1 or more.
        axis: The dim to remove, or several; negative from the end. None removes all whose size is
            known to be 1.

    Raises:
        ShapeError: ML204, the dim is not statically 1.
        AxisError: ML303, ``axis`` is out of range.
    """
    value = tensor(x, "squeeze: the operand")
    if axis is None:
        return reshape(value, [dim for dim in value.shape if dim != 1])
    if isinstance(axis, (tuple, list)):
        for place in sorted((axis_of(one, value.rank, "squeeze") for one in axis), reverse=True):
            value = add_op("squeeze", [value], axis=place)
        return value
    return add_op("squeeze", [value], axis=axis)


@along
@staged
def unsqueeze(x: TensorValueLike, axis: int) -> TensorValue:
    """``x`` with a new dim of size 1 at ``axis``.

    Args:
        x: A tensor of any rank.
        axis: Where the new dim stands in the result; -1 is the end.

    Raises:
        AxisError: ML303, ``axis`` is out of range.
    """
    return add_op("unsqueeze", [tensor(x, "unsqueeze: the operand")], axis=axis)


@staged
def permute(x: TensorValueLike, dims: Sequence[int]) -> TensorValue:
    """``x`` with its dims in the order ``dims``: dim ``i`` of the result is dim ``dims[i]`` of
    ``x``.

    Args:
        x: A tensor of any rank.
        dims: Every axis once; negative from the end.

    Raises:
        ArgumentError: ML307, an axis is missing or named twice.
        AxisError: ML303, an axis is out of range.
    """
    return add_op("permute", [tensor(x, "permute: the operand")], dims=tuple(dims))


@staged
def transpose(
    x: TensorValueLike, axis_1: int | Sequence[int] | None = None, axis_2: int | None = None
) -> TensorValue:
    """``x`` with two dims swapped; or, as NumPy writes it, with its dims in another order.

    Args:
        x: A tensor of rank 1 or more.
        axis_1: One dim; negative from the end. A list of all dims is their new order; None turns
            the order round.
        axis_2: The other dim.

    Raises:
        AxisError: ML303 (an IndexError), a dim is out of range.
    """
    value = tensor(x, "transpose: the operand")
    if axis_2 is None and not isinstance(axis_1, int):
        return permute(value, list(reversed(range(value.rank))) if axis_1 is None else axis_1)
    return add_op("transpose", [value], axis_1=axis_1, axis_2=axis_2)


@staged
def broadcast_to(
    x: TensorValueLike,
    shape: TensorValue | Iterable[DimLike],
    out_dims: Iterable[DimLike] | None = None,
) -> TensorValue:
    """``x`` repeated to ``shape``: dims are aligned at the end, and each is equal or 1 in ``x``.

    Args:
        x: A tensor of any rank up to that of ``shape``.
        shape: Ints, names and dims, or an integer tensor of rank 1.
        out_dims: The dims that a ``shape`` given by a tensor has. New names are defined by it,
            everything else is asserted when the model runs.

    Raises:
        ShapeError: ML205, ``x`` does not broadcast to ``shape`` or ``out_dims``.
        ArgumentError: ML337, ``shape`` is a tensor and ``out_dims`` is missing, or it does not have
            one number for each of them; ML728, a dim of ``out_dims`` is negative.
        ArgumentTypeError: ML337, ``out_dims`` is given for a shape that is no tensor; ML336, not a
            sequence of dims.
        DTypeError: ML109, ``shape`` is a tensor that is not of integers.
    """
    if hasattr(shape, "_ir") or hasattr(shape, "__tensorvalue__"):
        if out_dims is None:
            raise ArgumentError(
                "ML337",
                "broadcast_to: the dims of a shape that is a tensor are not known",
                fix="pass the dims themselves, such as x.shape, or give out_dims",
            )
        dims = [out_dim_of(dim) for dim in dims_of("broadcast_to", out_dims)]
        return _broadcast_to_computed(tensor(x, "broadcast_to: the operand"), tensor(shape), dims)
    if out_dims is not None:
        raise ArgumentTypeError(
            "ML337",
            "broadcast_to: out_dims is only for a shape that is a tensor",
            fix="leave it out",
        )
    value = tensor(x, "broadcast_to: the operand")
    return add_op("broadcast_to", [value], shape=dims_of("broadcast_to", shape))


@staged
def rebind(
    x: TensorValueLike,
    shape: Iterable[DimLike],
    message: str = "",
    layout: FilterLayout | None = None,
) -> TensorValue:
    """``x`` with its dims named or asserted anew; nothing is computed.

    A name that is new is defined by it. Everything else is a condition that is tested once per
    call, before the model computes.

    Args:
        x: A tensor of any rank.
        shape: As many ints, names and dims as ``x`` has.
        message: What the error of a failed condition begins with.
        layout: The order of the dims of a convolution filter, kept in the type.

    Raises:
        ShapeError: ML206, another rank, or a static dim that can never be equal.
        ArgumentTypeError: ML336, not a sequence of dims.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> x, y = TensorType(DType.float32, ["n"]), TensorType(DType.float32, ["m"])
        >>> with Graph("g", input_types=[x, y]) as graph:
        ...     a, b = graph.inputs
        ...     graph.output(a + ops.rebind(b, a.tensor.shape, "as many rows"))
    """
    value = tensor(x, "rebind: the operand")
    if layout is not None and not isinstance(layout, FilterLayout):
        raise ArgumentTypeError(
            "ML338",
            f"rebind: {layout!r} is not a FilterLayout",
            fix="pass a member of FilterLayout",
        )
    return add_op(
        "rebind", [value], shape=dims_of("rebind", shape), message=str(message), layout=layout
    )


# ---------------------------------------------------------------- repeat
@staged
def tile(x: TensorValueLike, repeats: Iterable[DimLike]) -> TensorValue:
    """``x`` repeated as a whole along each dim, ``repeats[i]`` times along dim ``i``.

    Args:
        x: A tensor of any rank.
        repeats: One positive int, name or dim for each dim of ``x``.

    Raises:
        ArgumentError: ML308, another number of repeats, or one that is not positive.
    """
    value = tensor(x, "tile: the operand")
    return add_op("tile", [value], repeats=tuple(dims_of("tile", repeats)))


@along
@staged
def repeat_interleave(
    x: TensorValueLike,
    repeats: int | Sequence[int] | TensorValue,
    axis: int | None = None,
    out_dim: DimLike | None = None,
) -> TensorValue:
    """``x`` with each element repeated ``repeats`` times in place, along ``axis``.

    Args:
        x: A tensor of any rank.
        repeats: A positive int, or integers with one number, 0 or more, for each element along
            ``axis``, or one for all: a tensor, sequence or array.
        axis: The dim to repeat along; None flattens ``x`` first.
        out_dim: The dim of the result along ``axis``; needed when ``repeats`` is a tensor that only
            a run can tell. A new name is defined by the sum of such repeats, everything else is
            asserted when the model runs.

    Raises:
        ArgumentError: ML339, ``repeats`` is not positive, or is computed and ``out_dim`` missing;
            ML728, ``out_dim`` is negative.
        ShapeError: ML205, ``repeats`` has neither rank 0 nor the size of ``x`` along ``axis``.
        DTypeError: ML109, ``repeats`` are not integers.
        AxisError: ML303, ``axis`` is out of range.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> with Graph("g", input_types=[TensorType(DType.float32, [2, 2])]) as graph:
        ...     ops.repeat_interleave(graph.inputs[0], 2, axis=0).shape
        [Dim(4), Dim(2)]
    """
    value = tensor(x, "repeat_interleave: the operand")
    if isinstance(repeats, (list, tuple)) or is_array(repeats):
        repeats = literal(repeats, DType.int64, value.device)
    if hasattr(repeats, "_ir") or hasattr(repeats, "__tensorvalue__"):
        return _repeated(value, tensor(repeats), axis, out_dim)
    count = as_int("repeat_interleave", repeats, "repeats")
    if count <= 0:
        raise ArgumentError(
            "ML339",
            f"repeat_interleave: repeats must be positive, got {count}",
            fix="pass 1 or more",
        )
    if axis is None:
        value = add_op("reshape", [value], shape=Shape([value.shape.num_elements]))
        axis = 0
    axis = axis_of(axis, value.rank, "repeat_interleave")
    shape = value.shape
    value = add_op("unsqueeze", [value], axis=axis + 1)
    wide = [*shape[: axis + 1], Dim(count), *shape[axis + 1 :]]
    value = add_op("broadcast_to", [value], shape=Shape(wide))
    size = shape[axis] * count
    value = add_op("reshape", [value], shape=Shape([*shape[:axis], size, *shape[axis + 1 :]]))
    if out_dim is None or Dim(out_dim) == size:
        return value
    named = Shape([*shape[:axis], Dim(out_dim), *shape[axis + 1 :]])
    return add_op("rebind", [value], shape=named, message="repeat_interleave: out_dim", layout=None)


def _constant_repeats(repeats: TensorValue) -> np.ndarray[Any, Any]:
    """The numbers of ``repeats``, a constant.

    Raises:
        ArgumentError: ML339, it is no constant, or has a negative number.
    """
    counts = builder(what="ops.repeat_interleave").known_data(repeats)
    if counts is None:
        raise ArgumentError(
            "ML339",
            "repeat_interleave: only a run can tell how many elements there will be",
            fix='name the dim of the result: out_dim="repeated"',
        )
    if counts.size and counts.min() < 0:
        raise ArgumentError(
            "ML339",
            f"repeat_interleave: a repeat is negative: {counts.min()}",
            fix="pass 0 or more for each element",
        )
    return counts


def _repeated(
    x: TensorValue, repeats: TensorValue, axis: int | None, out_dim: DimLike | None
) -> TensorValue:
    """``x`` with its elements along ``axis`` repeated as often as a tensor says."""
    require_integral("repeat_interleave: the repeats", repeats.type)
    known = _constant_repeats(repeats) if out_dim is None else None
    if axis is None:
        x = add_op("reshape", [x], shape=Shape([x.shape.num_elements]))
        axis = 0
    axis = axis_of(axis, x.rank, "repeat_interleave")
    size = x.shape[axis]
    counts = to_device(cast(repeats, DType.int64), x.device)
    if counts.rank > 1 or (counts.rank and counts.shape[0] not in (Dim(1), size)):
        raise ShapeError(
            "ML205",
            f"repeat_interleave: repeats of the shape [{', '.join(map(str, repeats.shape))}] for "
            f"axis {axis} of size {size}",
            fix="pass one number for each element, or one for all",
        )
    if out_dim is not None:
        dim = out_dim_of(out_dim)
    else:
        assert known is not None
        dim = size * int(known.sum()) if known.size == 1 else Dim(int(known.sum()))
    counts = add_op("broadcast_to", [counts], shape=Shape([size]))
    total = add_op("reduce.sum", [counts], axis=0)
    if size != 0:  # no repeats have no least one
        least = add_op("reduce.min", [counts], axis=0)
        zero = literal(0, DType.int64, x.device)
        total = add_op("where", [add_op("greater", [zero, least]), least, total])
    total = add_op("reshape", [total], shape=Shape([]))
    ends = add_op("cumsum", [counts], axis=0, exclusive=False, reverse=False)
    total = bind_dim(total, dim, "repeat_interleave", "the least of the repeats is negative")
    index = add_op("repeat.index", [ends, total], out_dim=dim)
    return add_op("gather", [x, index], axis=axis)


def _broadcast_to_computed(x: TensorValue, shape: TensorValue, dims: list[Dim]) -> TensorValue:
    """``x`` broadcast to ``dims``, each of which has the size that ``shape`` has for it."""
    require_integral("broadcast_to: the shape", shape.type)
    if shape.rank != 1 or shape.shape[0] != len(dims):
        raise ArgumentError(
            "ML337",
            f"broadcast_to: out_dims has {len(dims)} dims, the shape is a tensor "
            f"[{', '.join(map(str, shape.shape))}]",
            fix="pass a tensor of rank 1 with a number for each of out_dims",
        )
    sizes = cast(shape, DType.int64)
    for axis, dim in enumerate(dims):
        one = add_op("slice", [sizes], starts=(Dim(axis),), steps=(1,), shape=Shape([1]))
        bind_dim(add_op("reshape", [one], shape=Shape([])), dim, "broadcast_to")
    return add_op("broadcast_to", [x], shape=Shape(dims))
