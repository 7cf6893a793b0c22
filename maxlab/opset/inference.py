"""The types of an op's results, remembered: the same op on the same types is inferred once."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any

from maxlab.dtype import DType
from maxlab.errors import ShapeError
from maxlab.ir import BufferType, ChainType, DeviceRef, Dim, TensorType, Type
from maxlab.opset.core import OpDef

MOST = 16384
"""Results that are remembered; then all are forgotten."""

_PLAIN = (bool, int, float, str, type(None), DType, Dim, DeviceRef, Type, enum.Enum)
_known: dict[tuple[Any, ...], tuple[tuple[Type, ...], tuple[list[Dim] | None, ...]]] = {}
"""The types by row, types and attributes; beside each its dims, since a shape is a list that a
user may write into."""


def inferred(row: OpDef, types: Sequence[Any], attrs: Mapping[str, Any]) -> tuple[Type, ...]:
    """The types of the results of ``row`` on operands of ``types``.

    They are remembered by row, types and attributes. Attributes that hold data or functions are
    never kept, and neither is an error: each is raised anew, with its own place.

    Raises:
        MaxlabError: What the row's type rule says.
        ShapeError: ML659, a condition on the sizes that no call can meet.
    """
    key: tuple[Any, ...] | None = (row.name, *types)
    if attrs:
        frozen = _frozen(attrs.values())
        key = None if frozen is None else (row.name, *types, *attrs, frozen)
    if key is None:
        return _new(row, types, attrs)
    known = _known.get(key)
    if known is not None:
        found, shapes = known
        if len(found) == 1:  # most ops, and the quicker way
            shape = shapes[0]
            if shape is None or list.__eq__(found[0].shape, shape):  # type: ignore[attr-defined]
                return found
        elif all(
            shape is None or list.__eq__(type.shape, shape)  # type: ignore[attr-defined]
            for type, shape in zip(found, shapes, strict=True)
        ):
            return found
    found = _new(row, types, attrs)
    if all(map(_is_as_made, types)):
        if len(_known) >= MOST:
            _known.clear()
        _known[key] = found, tuple(_dims_of(t) for t in found)
    return found


def _new(row: OpDef, types: Sequence[Any], attrs: Mapping[str, Any]) -> tuple[Type, ...]:
    """The types by the rule of ``row``. A condition on sizes that are known is decided now, so that
    the error names the line that made the op, and no call has to find it."""
    found = tuple(row.infer(types, attrs))
    if row.checks is not None:
        tensors = [type for type in types if not isinstance(type, ChainType)]
        for check in row.checks(tensors, found, attrs):
            sides = (check.left, check.right)
            if all(side.is_constant for side in sides) and not check.holds({}):
                raise ShapeError(
                    "ML659",
                    f"{check.message}: {check.left} {check.relation} {check.right} does not hold",
                    fix="pass tensors of sizes for which it holds",
                )
    return found


def _dims_of(type: Type) -> list[Dim] | None:
    return list(type.shape) if isinstance(type, (TensorType, BufferType)) else None


def _is_as_made(type: Type) -> bool:
    """Whether nobody has written into the shape of ``type``, which is a list."""
    dims = _dims_of(type)
    return dims is None or type.sizes == tuple(dim.poly for dim in dims)  # type: ignore[attr-defined]


def _frozen(values: Any) -> tuple[Any, ...] | None:
    """``values`` with their classes, since 1, 1.0 and True are equal; None if one is not plain."""
    made: list[Any] = []
    for value in values:
        kind = value.__class__
        if isinstance(value, _PLAIN):
            made.append(kind)
            made.append(value)
        elif isinstance(value, (tuple, list)):
            inner = _frozen(value)
            if inner is None:
                return None
            made.append(kind)
            made.append(inner)
        else:
            return None
    return tuple(made)


__all__ = ["inferred"]
