"""View ops: the result's elements are the operand's, found at another index.

``view`` maps an index of the result to an index of the operand with polynomials, so a chain of
views composes into one index expression and costs nothing unless somebody needs the elements laid
out anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from maxlab.errors import ArgumentError, ArgumentTypeError, AxisError, ShapeError
from maxlab.ir import Dim, Poly, Shape, StaticDim, TensorType, Type
from maxlab.ir.poly import ONE, ZERO
from maxlab.opset.attributes import DEVICE, DIMS, INT, INTS, Attribute
from maxlab.opset.core import Array, Attrs, Call, Check, Sample, ViewCall, define, elements
from maxlab.opset.facts import foreign_names
from maxlab.opset.identities import Cancels, Idle
from maxlab.opset.rules import ONE_DIM, axis_of

Index = tuple[Poly, ...]
STILL = (Idle("still_view"),)
"""The identity of a view that changes nothing, such as a reshape to the same shape."""


def _x(*shape: int) -> Array:
    return np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)


def _retype(x: TensorType, shape: Sequence[Any]) -> list[Type]:
    return [TensorType(x.dtype, Shape(shape), x.device)]


# ---------------------------------------------------------------- reshape
def linear(index: Index, shape: Index) -> Poly:
    """The position of ``index`` when the elements of ``shape`` are counted in row-major order."""
    position = ZERO
    for i, size in zip(index, shape, strict=True):
        position = position * size + i
    return position


def unravel(position: Poly, shape: Index) -> Index:
    """The index in ``shape`` of the element at ``position``.

    The outermost dim of more than one element gets the whole quotient: a remainder there would hide
    from whoever reads the index that it grows evenly.
    """
    outermost = next((n for n, size in enumerate(shape) if size not in (ONE, ZERO)), 0)
    found: list[Poly] = []
    for n, size in reversed(list(enumerate(shape))):
        if n == outermost:
            found.append(position)
        elif n < outermost or size in (ONE, ZERO):  # one element, or none
            found.append(ZERO)
        else:
            quotient = position.floordiv(size)
            found.append(position - quotient * size)
            position = quotient
    return tuple(reversed(found))


def regroup(index: Index, target: Index, source: Index) -> Index:
    """The index in ``source`` of the element that stands at ``index`` of ``target``, which has as
    many elements.

    Groups of dims with equal products are matched first, from the left, so that ``[b * s, h]`` from
    ``[b, s, h]`` divides only inside of the first group.
    """
    result: list[Poly] = []
    t = s = 0
    while t < len(target) or s < len(source):
        t_end, s_end = t, s
        t_size, s_size = ONE, ONE
        while True:
            if t_size == s_size and (t_end > t or s_end > s):
                break
            exhausted_t, exhausted_s = t_end == len(target), s_end == len(source)
            if exhausted_t and exhausted_s:
                break
            take_target = not exhausted_t and (
                exhausted_s or t_end == t or (s_end > s and _divides(t_size, s_size))
            )
            if take_target:
                t_size = t_size * target[t_end]
                t_end += 1
            else:
                s_size = s_size * source[s_end]
                s_end += 1
        # trailing ones join the group they touch
        if t_end - t == 1 and s_end - s == 1:
            result.append(index[t])
        else:
            result.extend(unravel(linear(index[t:t_end], target[t:t_end]), source[s:s_end]))
        t, s = t_end, s_end
    return tuple(result)


def _divides(small: Poly, big: Poly) -> bool:
    if not small.terms:
        return False
    quotient = big.floordiv(small)
    return quotient * small == big


def _reshape_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    (x,) = types
    shape = Shape(attrs["shape"])
    if elements(x) != elements(TensorType(x.dtype, shape, x.device)):
        total, wanted = x.shape.num_elements, shape.num_elements
        raise ShapeError(
            "ML202",
            f"reshape: [{', '.join(map(str, x.shape))}] has {total} elements, "
            f"[{', '.join(map(str, shape))}] has {wanted}",
            fix="use -1 for one dim, or rebind the operand if the sizes are always equal",
        )
    return _retype(x, shape)


def _reshape_view(call: ViewCall, index: Index) -> Index:
    return regroup(index, call.target, call.source)


def _reshape_samples() -> list[Sample]:
    return [
        Sample((_x(4, 6),), {"shape": (2, 2, 6)}, label="split"),
        Sample((_x(2, 2, 6),), {"shape": (4, 6)}, label="merge"),
        Sample((_x(4, 6),), {"shape": (3, 8)}, label="mix"),
        Sample((_x(3, 4),), {"shape": (Dim("a") * 4,)}, (("a", 4),), "symbolic"),
        Sample((_x(6, 4),), {"shape": (1, 24, 1)}, label="ones"),
        Sample((_x(1, 1),), {"shape": ()}, label="to rank 0"),
        Sample((np.zeros((0, 3), np.float32),), {"shape": (3, 0)}, label="empty"),
    ]


def _reshape_reference(call: Call, x: Array) -> Array:
    return x.reshape(call.shapes[0])


define(
    "reshape",
    "view",
    "view",
    "The same elements in the same order, in another shape.",
    attrs={"shape": DIMS},
    role="reshape",
    identities=STILL,
    foreign=foreign_names("view", "Reshape"),
    infer=_reshape_infer,
    reference=_reshape_reference,
    view=_reshape_view,
    same_order=True,
    samples=_reshape_samples,
)


def _flatten_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    (x,) = types
    first = axis_of(attrs["start_dim"], x.rank, "flatten")
    last = axis_of(attrs["end_dim"], x.rank, "flatten")
    if first > last:
        raise ArgumentError(
            "ML306",
            f"flatten: start_dim {first} comes after end_dim {last}",
            fix="swap them: the dims from start_dim to end_dim become one",
        )
    merged = Shape(x.shape[first : last + 1]).num_elements
    return _retype(x, [*x.shape[:first], merged, *x.shape[last + 1 :]])


define(
    "flatten",
    "view",
    "view",
    "The dims from start_dim to end_dim, inclusive, merged into one.",
    attrs={"start_dim": INT, "end_dim": INT},
    identities=STILL,
    foreign=foreign_names("flatten", "Flatten"),
    infer=_flatten_infer,
    reference=_reshape_reference,
    view=_reshape_view,
    same_order=True,
    samples=lambda: [
        Sample((_x(2, 3, 4),), {"start_dim": 0, "end_dim": 1}, (("a", "b", 4),)),
        Sample((_x(2, 3, 4),), {"start_dim": -2, "end_dim": -1}),
    ],
)


def _squeeze_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    (x,) = types
    axis = axis_of(attrs["axis"], x.rank, "squeeze")
    if x.shape[axis] != ONE_DIM:
        raise ShapeError(
            "ML204",
            f"squeeze: axis {axis} has the size {x.shape[axis]}, not 1",
            fix="only dims that are statically 1 are removed; rebind the operand if it always is",
        )
    return _retype(x, [*x.shape[:axis], *x.shape[axis + 1 :]])


define(
    "squeeze",
    "view",
    "view",
    "The operand without a dim of size 1.",
    attrs={"axis": INT},
    identities=STILL,
    foreign=foreign_names("squeeze", "Squeeze"),
    infer=_squeeze_infer,
    reference=_reshape_reference,
    view=_reshape_view,
    same_order=True,
    samples=lambda: [
        Sample((_x(3, 1, 2),), {"axis": 1}, (("a", 1, "b"),)),
        Sample((_x(1),), {"axis": -1}),
    ],
)


def _unsqueeze_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    (x,) = types
    axis = axis_of(attrs["axis"], x.rank, "unsqueeze", extra=1)
    return _retype(x, [*x.shape[:axis], 1, *x.shape[axis:]])


define(
    "unsqueeze",
    "view",
    "view",
    "The operand with a new dim of size 1.",
    attrs={"axis": INT},
    identities=STILL,
    foreign=foreign_names("unsqueeze", "Unsqueeze"),
    infer=_unsqueeze_infer,
    reference=_reshape_reference,
    view=_reshape_view,
    same_order=True,
    samples=lambda: [
        Sample((_x(3, 2),), {"axis": -1}, (("a", "b"),)),
        Sample((_x(3),), {"axis": 0}),
    ],
)


# ---------------------------------------------------------------- permute
def _permutation(what: str, dims: Any, rank: int) -> list[int]:
    found = [axis_of(d, rank, what) for d in dims]
    if sorted(found) != list(range(rank)):
        raise ArgumentError(
            "ML307",
            f"{what}: {list(dims)} is not an order of the {rank} axes",
            fix="name every axis once; two are swapped by x.transpose(0, 1)",
        )
    return found


def _permute_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    (x,) = types
    return _retype(x, [x.shape[d] for d in _permutation("permute", attrs["dims"], x.rank)])


def _permute_view(call: ViewCall, index: Index) -> Index:
    rank = len(index)
    found = [ZERO] * rank
    for position, d in enumerate(call.attrs["dims"]):
        found[d % rank] = index[position]
    return tuple(found)


def _permuted_axes(attrs: Attrs, rank: int) -> list[int]:
    return [d % rank for d in attrs["dims"]]


def _in_order(attrs: Attrs) -> bool:
    return list(attrs["dims"]) == list(range(len(attrs["dims"])))


define(
    "permute",
    "view",
    "view",
    "The operand with its dims in another order.",
    attrs={"dims": INTS},
    identities=(Idle("still_view", when=_in_order),),
    axes=_permuted_axes,
    foreign=foreign_names("permute", "Transpose"),
    infer=_permute_infer,
    reference=lambda call, x: np.transpose(x, [d % x.ndim for d in call.attrs["dims"]]),
    view=_permute_view,
    samples=lambda: [
        Sample((_x(2, 3, 4),), {"dims": (2, 0, 1)}, (("a", "b", "c"),)),
        Sample((_x(2, 3),), {"dims": (-1, -2)}),
        Sample((_x(2, 5, 3, 4),), {"dims": (0, 2, 1, 3)}, (("a", "b", 3, 4),)),
    ],
)


def _swap(attrs: Attrs, rank: int) -> list[int]:
    order = list(range(rank))
    a, b = axis_of(attrs["axis_1"], rank, "transpose"), axis_of(attrs["axis_2"], rank, "transpose")
    order[a], order[b] = order[b], order[a]
    return order


def _transpose_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    (x,) = types
    for axis in (attrs["axis_1"], attrs["axis_2"]):
        if not isinstance(axis, int) or not -x.rank <= axis < x.rank:
            raise AxisError(
                "ML303",
                f"transpose: axis {axis} is out of range for rank {x.rank}",
                fix=f"use an axis from {-x.rank} to {x.rank - 1}"
                if x.rank
                else "give it axes first",
            )
    return _retype(x, [x.shape[d] for d in _swap(attrs, x.rank)])


def _transposed_axes(attrs: Attrs, rank: int) -> list[int]:
    axes = list(range(rank))
    a, b = attrs["axis_1"] % rank, attrs["axis_2"] % rank
    axes[a], axes[b] = b, a
    return axes


define(
    "transpose",
    "view",
    "view",
    "The operand with two dims swapped.",
    attrs={"axis_1": INT, "axis_2": INT},
    identities=(Cancels("double_transpose", axes=("axis_1", "axis_2")),),
    axes=_transposed_axes,
    foreign=foreign_names("transpose"),
    infer=_transpose_infer,
    reference=lambda call, x: np.transpose(x, _swap(call.attrs, x.ndim)),
    view=lambda call, index: tuple(index[d] for d in _swap(call.attrs, len(index))),
    samples=lambda: [
        Sample((_x(2, 3, 4),), {"axis_1": 0, "axis_2": -1}, (("a", "b", "c"),)),
        Sample((_x(5, 3),), {"axis_1": 0, "axis_2": 1}),
    ],
)


# ---------------------------------------------------------------- broadcast, tile
def _broadcast_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    (x,) = types
    shape = Shape(attrs["shape"])
    if shape.rank < x.rank:
        raise ShapeError(
            "ML205",
            f"broadcast_to: rank {x.rank} does not fit into rank {shape.rank}",
            fix="give a shape of the same rank or more",
        )
    for dim, wanted in zip(x.shape, shape[shape.rank - x.rank :], strict=True):
        if dim != wanted and dim != ONE_DIM:
            raise ShapeError(
                "ML205",
                f"broadcast_to: [{', '.join(map(str, x.shape))}] does not broadcast to "
                f"[{', '.join(map(str, shape))}]: {dim} is neither 1 nor {wanted}",
                fix="dims must be equal or statically 1; rebind the operand if they always are",
            )
    return _retype(x, shape)


def broadcast_index(index: Index, source: Sequence[Poly]) -> Index:
    """The index of the operand of shape ``source`` that ``index`` of the broadcast result reads."""
    tail = index[len(index) - len(source) :]
    return tuple(ZERO if size == ONE else i for i, size in zip(tail, source, strict=True))


define(
    "broadcast_to",
    "view",
    "view",
    "The operand repeated along dims where its size is 1.",
    attrs={"shape": DIMS},
    identities=STILL,
    foreign=foreign_names("expand", "Expand"),
    infer=_broadcast_infer,
    reference=lambda call, x: np.broadcast_to(x, call.shapes[0]),
    view=lambda call, index: broadcast_index(index, call.source),
    samples=lambda: [
        Sample((_x(3, 1),), {"shape": (2, 3, 4)}),
        Sample((_x(3, 1),), {"shape": ("a", Dim("b"))}, (("a", 1),), "defines"),
        Sample((_x(1),), {"shape": (5,)}),
    ],
)


def _tile_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    (x,) = types
    repeats = [Dim(r) for r in attrs["repeats"]]
    if len(repeats) != x.rank:
        raise ArgumentError(
            "ML308",
            f"tile: {len(repeats)} repeats for rank {x.rank}",
            fix="give one repeat for each dim",
        )
    for repeat in repeats:
        if isinstance(repeat, StaticDim) and repeat.dim <= 0:
            raise ArgumentError(
                "ML308",
                f"tile: a repeat must be positive, got {repeat}",
                fix="pass 1 for axes that are not repeated",
            )
    return _retype(x, [d * r for d, r in zip(x.shape, repeats, strict=True)])


def _modulo(index: Poly, size: Poly) -> Poly:
    return index - index.floordiv(size) * size if size.terms else ZERO


define(
    "tile",
    "view",
    "view",
    "The operand repeated along each dim.",
    attrs={"repeats": DIMS},
    identities=STILL,
    foreign=foreign_names("repeat", "Tile"),
    infer=_tile_infer,
    reference=lambda call, x: np.tile(x, [call.size(Dim(r)) for r in call.attrs["repeats"]]),
    view=lambda call, index: tuple(
        i if Dim(r) == ONE_DIM else (ZERO if s == ONE else _modulo(i, s))
        for i, s, r in zip(index, call.source, call.attrs["repeats"], strict=True)
    ),
    samples=lambda: [
        Sample((_x(2, 3),), {"repeats": (2, 3)}, (("a", "b"),)),
        Sample((_x(2, 1),), {"repeats": (1, 4)}),
    ],
)


# ---------------------------------------------------------------- slice
def _slice_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    """``starts``, ``steps`` and ``shape`` are already resolved to one entry per operand dim."""
    (x,) = types
    return _retype(x, attrs["shape"])


def _slice_view(call: ViewCall, index: Index) -> Index:
    return tuple(
        Dim(start).poly + i * Poly.constant(step)
        for i, start, step in zip(index, call.attrs["starts"], call.attrs["steps"], strict=True)
    )


def _slice_checks(
    operands: Sequence[TensorType], results: Sequence[Type], attrs: Attrs
) -> list[Check]:
    """The first and the last index of each dim stand inside of the operand, unless nothing is
    read."""
    found: list[Check] = []
    for axis, (size, start, step, length) in enumerate(
        zip(operands[0].shape, attrs["starts"], attrs["steps"], attrs["shape"], strict=True)
    ):
        low = Dim(start).poly
        high = low + (Dim(length).poly - ONE) * Poly.constant(step)
        if step < 0:
            low, high = high, low
        text = f"slice_tensor: axis {axis} of size {size} is read out of its bounds"
        for left, relation, right in (
            (ZERO, "<=", low),
            (high, "<", size.poly),
            (ZERO, "<=", Dim(length).poly),
        ):
            gap = right - left
            if gap.is_constant and gap.value >= (1 if relation == "<" else 0):
                continue
            found.append(Check(left, relation, right, text))  # type: ignore[arg-type]
    return found


def _slice_reference(call: Call, x: Array) -> Array:
    grids = [
        call.size(Dim(start)) + step * np.arange(length)
        for start, step, length in zip(
            call.attrs["starts"], call.attrs["steps"], call.shapes[0], strict=True
        )
    ]
    return x[np.ix_(*grids)] if grids else x


define(
    "slice",
    "view",
    "view",
    "The elements at start + i * step of each dim.",
    attrs={"starts": DIMS, "steps": INTS, "shape": DIMS},
    foreign=foreign_names("slice", "Slice"),
    infer=_slice_infer,
    reference=_slice_reference,
    view=_slice_view,
    checks=_slice_checks,
    samples=lambda: [
        Sample((_x(6, 5),), {"starts": (1, 4), "steps": (2, -1), "shape": (2, 5)}),
        Sample(
            (_x(6, 5),),
            {"starts": (1, 0), "steps": (1, 1), "shape": (Dim("a") - 1, 3)},
            (("a", 5),),
        ),
    ],
)


# ---------------------------------------------------------------- rebind, transfer
def _rebind_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    (x,) = types
    shape = Shape(attrs["shape"])
    if shape.rank != x.rank:
        raise ShapeError(
            "ML206",
            f"rebind: rank {x.rank} cannot become rank {shape.rank}",
            fix="rebind never computes; reshape changes the rank",
        )
    for old, new in zip(x.shape, shape, strict=True):
        if isinstance(old, StaticDim) and isinstance(new, StaticDim) and old != new:
            raise ShapeError(
                "ML206",
                f"{attrs.get('message') or 'rebind'}: the size {old} is never {new}",
                fix="a rebind states what is so: give the size that the operand has, or reshape it",
            )
    return [TensorType(x.dtype, shape, x.device, attrs.get("layout"))]


def _rebind_checks(
    operands: Sequence[TensorType], results: Sequence[Type], attrs: Attrs
) -> list[Check]:
    message = attrs.get("message") or "rebind"
    return [
        Check(old.poly, "==", new.poly, f"{message}: {old} must be {new}")
        for old, new in zip(operands[0].shape, Shape(attrs["shape"]), strict=True)
        if old != new
    ]


define(
    "rebind",
    "view",
    "view",
    "The operand with its dims named or asserted anew; nothing is computed.",
    attrs={
        "shape": DIMS,
        "message": Attribute("text", optional=True, default=""),
        "layout": Attribute("layout", optional=True, none=True),
    },
    infer=_rebind_infer,
    reference=lambda call, x: x,
    view=lambda call, index: index,
    checks=_rebind_checks,
    asserts=True,
    same_order=True,
    samples=lambda: [Sample((_x(3, 2),), {"shape": ("m", 2), "message": "rows"}, (("n", 2),))],
)


def _transfer_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    (x,) = types
    if not isinstance(attrs["device"], type(x.device)):
        raise ArgumentTypeError(
            "ML309",
            f"transfer_to: {attrs['device']!r} is not a device",
            fix="pass a DeviceRef, such as DeviceRef.CPU()",
        )
    return [TensorType(x.dtype, x.shape, attrs["device"])]


define(
    "transfer",
    "transfer",
    "device",
    "The operand on another device.",
    attrs={"device": DEVICE},
    role="transfer",
    identities=(Idle("still_view"),),
    infer=_transfer_infer,
    reference=lambda call, x: x,
)
