"""Ops that lay tensors side by side, cut them into pieces, or surround them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from maxlab.dtype import check_scalar
from maxlab.errors import ArgumentError, ArgumentTypeError, ShapeError
from maxlab.graph.build import add as add_op
from maxlab.graph.build import as_int, is_number, is_weak, literal, staged, tensor
from maxlab.graph.ops.dims import along
from maxlab.graph.ops.shaping import dims_of, text_of
from maxlab.graph.value import TensorValue, TensorValueLike
from maxlab.ir import Dim, DimLike, Poly, Shape, StaticDim, from_poly
from maxlab.opset.data import pad_types
from maxlab.opset.facts import Family
from maxlab.opset.rules import axis_of, same_dtype

FAMILY: Final[Family] = "view"
"""Of the functions here that are no rows of the op table themselves."""


# ---------------------------------------------------------------- join
def _tensors(what: str, values: Iterable[TensorValueLike]) -> list[TensorValue]:
    """``values`` as tensors; arrays and numbers take the dtype of the first tensor."""
    if hasattr(values, "_ir") or not isinstance(values, Iterable):
        raise ArgumentTypeError(
            "ML340",
            f"{what}: expected a list of tensors, got {type(values).__name__}",
            fix="pass [x, y]",
        )
    found = list(values)
    if not found:
        raise ArgumentError(
            "ML311", f"{what}: there is nothing to join", fix="give one or more tensors"
        )
    strong = [
        None if is_weak(v) else tensor(v, f"{what}: operand {i}") for i, v in enumerate(found)
    ]
    first = next((v for v in strong if v is not None), None)
    if first is None:
        raise ArgumentTypeError(
            "ML318",
            f"{what}: no operand is a tensor of the graph",
            fix="make one with ops.constant, or compute it with NumPy",
        )
    return [
        literal(weak, first.dtype, first.device) if value is None else value
        for weak, value in zip(found, strong, strict=True)
    ]


@along
@staged
def concat(original_vals: Iterable[TensorValueLike], axis: int = 0) -> TensorValue:
    """The tensors side by side along ``axis``, whose dims are added.

    Args:
        original_vals: One or more tensors of one dtype and rank, with equal dims but for ``axis``.
        axis: The dim to join along; negative from the end.

    Raises:
        ArgumentError: ML311, there is no tensor.
        DTypeError: ML110, the dtypes differ.
        ShapeError: ML210, the ranks or the other dims differ.
        AxisError: ML303, ``axis`` is out of range.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> with Graph("g", input_types=[TensorType(DType.float32, ["n", 3])]) as graph:
        ...     x = graph.inputs[0]
        ...     ops.concat([x, x]).shape
        [Dim('n') * Dim(2), Dim(3)]
    """
    return add_op("concat", _tensors("concat", original_vals), axis=axis)


@along
@staged
def unbind(x: TensorValueLike, axis: int = 0) -> list[TensorValue]:
    """The parts of ``x`` along ``axis``, each without it, as PyTorch's ``unbind``.

    Raises:
        AxisError: ML303, ``axis`` is out of range.
        ArgumentTypeError: ML302, the size of ``axis`` is not known.
    """
    value = tensor(x, "unbind: the operand")
    axis = axis_of(axis, value.rank, "unbind")
    size = as_int("unbind", value.shape[axis], "the size of the axis")
    return [add_op("squeeze", [part], axis=axis) for part in split(value, [1] * size, axis)]


@along
@staged
def stack(values: Iterable[TensorValueLike], axis: int = 0) -> TensorValue:
    """The tensors side by side along a new dim at ``axis``, as long as there are tensors.

    Args:
        values: One or more tensors of one dtype and shape.
        axis: Where the new dim stands in the result; -1 is the end.

    Raises:
        ArgumentError: ML311, there is no tensor.
        DTypeError: ML110, the dtypes differ.
        ShapeError: ML210, the shapes differ.
        AxisError: ML303, ``axis`` is out of range.
    """
    parts = _tensors("stack", values)
    axis = axis_of(axis, parts[0].rank, "stack", extra=1)
    same_dtype("stack", [part.type for part in parts])
    for number, part in enumerate(parts):
        if part.shape != parts[0].shape:
            raise ShapeError(
                "ML210",
                f"stack: operand {number} has the shape {part.shape}, operand 0 has "
                f"{parts[0].shape}",
                fix="give all operands the same shape",
            )
    return add_op("concat", [add_op("unsqueeze", [p], axis=axis) for p in parts], axis=axis)


# ---------------------------------------------------------------- cut
def cut(x: TensorValue, axis: int, start: Dim, size: Dim) -> TensorValue:
    """The elements ``start`` to ``start + size`` of one dim."""
    shape = Shape(size if i == axis else d for i, d in enumerate(x.shape))
    starts = tuple(start if i == axis else Dim(0) for i in range(x.rank))
    return add_op("slice", [x], starts=starts, steps=(1,) * x.rank, shape=shape)


@along
@staged
def split(x: TensorValueLike, split_sizes: Sequence[DimLike], axis: int = 0) -> list[TensorValue]:
    """Consecutive pieces of ``x`` along ``axis``, one for each size.

    Args:
        x: A tensor of rank 1 or more.
        split_sizes: Sizes that provably add up to the dim ``axis``.
        axis: The dim to split; negative from the end.

    Raises:
        ArgumentError: ML341, the sizes do not add up, or one is negative.
        AxisError: ML303, ``axis`` is out of range.
    """
    value = tensor(x, "split: the operand")
    axis = axis_of(axis, value.rank, "split")
    if isinstance(split_sizes, int):
        raise ArgumentTypeError(
            "ML342",
            f"split: {split_sizes} could be the size of each part, as in PyTorch, or their number, "
            "as in NumPy",
            fix=f"x.split({split_sizes}, dim={axis}) makes parts of that size, "
            f"ops.chunk(x, {split_sizes}, {axis}) that many parts",
        )
    sizes = dims_of("split", split_sizes)
    for size in sizes:
        if isinstance(size, StaticDim) and size.dim < 0:
            raise ArgumentError(
                "ML341",
                f"split: the size {size} is negative",
                fix="give sizes of 0 or more that add up to the axis",
            )
    total = from_poly(sum((size.poly for size in sizes), Poly.constant(0)))
    if total != value.shape[axis]:
        raise ArgumentError(
            "ML341",
            f"split: the sizes {text_of(sizes)} add up to {total}, axis {axis} has the size "
            f"{value.shape[axis]}",
            fix="give sizes whose sum is the size of the axis",
        )
    pieces: list[TensorValue] = []
    start = Dim(0)
    for size in sizes:
        pieces.append(cut(value, axis, start, size))
        start = start + size
    return pieces


@along
@staged
def chunk(x: TensorValueLike, chunks: int, axis: int = 0) -> list[TensorValue]:
    """``chunks`` consecutive pieces of ``x`` of equal size along ``axis``.

    Args:
        x: A tensor of rank 1 or more.
        chunks: A number that provably divides the dim ``axis``.
        axis: The dim to split; negative from the end.

    Raises:
        ArgumentError: ML342, ``chunks`` is not positive or does not divide the dim.
        AxisError: ML303, ``axis`` is out of range.
    """
    value = tensor(x, "chunk: the operand")
    count = as_int("chunk", chunks, "chunks")
    axis = axis_of(axis, value.rank, "chunk")
    size = value.shape[axis]
    if count <= 0 or size // count * count != size:
        raise ArgumentError(
            "ML342",
            f"chunk: axis {axis} of size {size} cannot be cut into {count} equal chunks",
            fix="use ops.split for pieces of different sizes",
        )
    part = size // count
    return [cut(value, axis, part * i, part) for i in range(count)]


@staged
def pad(
    input: TensorValueLike,
    paddings: Iterable[int | Dim | Sequence[int]] | int,
    mode: str = "constant",
    value: TensorValueLike = 0,
) -> TensorValue:
    """``input`` surrounded by ``value``.

    Args:
        input: A tensor of any rank.
        paddings: How many elements stand before and after each dim: ``[before 0, after 0, before 1,
            …]``, none negative. NumPy's are taken too: a pair for each dim, or one number for all.
        mode: ``"constant"``; there is no other.
        value: A number that the dtype of ``input`` can hold, or a rank-0 tensor of that dtype.

    Raises:
        ArgumentError: ML312, another number of paddings, or a negative one; ML343, another mode.
        DTypeError: ML102, the dtype cannot hold ``value``; ML110, a tensor of another dtype.
        ShapeError: ML214, ``value`` is a tensor of another rank.
    """
    x = tensor(input, "pad: the input")
    if mode != "constant":
        raise ArgumentError(
            "ML343",
            f"pad: the mode must be 'constant', got {mode!r}",
            fix="build it with ops.concat",
        )
    if isinstance(paddings, int):
        paddings = [paddings] * (2 * x.rank)
    flat = [one for p in paddings for one in (p if isinstance(p, (tuple, list)) else (p,))]
    amounts = tuple(p if isinstance(p, Dim) else Dim(as_int("pad", p, "a padding")) for p in flat)
    if is_number(value):
        scalar = check_scalar(value, x.dtype)
        plain = tuple(a.dim if isinstance(a, StaticDim) else a for a in amounts)
        return add_op("pad", [x], paddings=plain, value=scalar)
    filler = (
        literal(value, x.dtype, x.device) if is_weak(value) else tensor(value, "pad: the value")
    )
    if filler.rank:
        raise ShapeError(
            "ML214",
            f"pad: the value must have rank 0, got rank {filler.rank}",
            fix="pass a number, or a tensor of rank 0",
        )
    same_dtype("pad", [x.type, filler.type])
    # states the demands on the paddings
    pad_types([x.type], {"paddings": amounts, "value": 0})
    return _pad_with(x, amounts, filler)


def _pad_with(x: TensorValue, amounts: Sequence[Dim], filler: TensorValue) -> TensorValue:
    """``x`` between copies of a tensor of rank 0, one dim after the other."""
    for axis in range(x.rank):
        parts: list[TensorValue] = []
        for size in amounts[2 * axis : 2 * axis + 2]:
            shape = Shape(size if i == axis else d for i, d in enumerate(x.shape))
            parts.append(add_op("broadcast_to", [filler], shape=shape))
        x = add_op("concat", [parts[0], x, parts[1]], axis=axis)
    return x
