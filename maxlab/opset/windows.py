"""The common part of ops that slide a window over images: their parameters, the sizes of their
results, and the names of sizes in their kernels.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from maxlab.errors import ArgumentError, DTypeError, ShapeError
from maxlab.ir import Dim, Poly, TensorType, from_poly
from maxlab.ir.poly import ONE
from maxlab.opset.core import Array, Check
from maxlab.opset.kernel import Buffer, Site

_WORD = re.compile(r"[A-Za-z_]\w*")
_UNSIGNED = {"i64": "u64", "u64": "u64"}


def number(value: int) -> Poly:
    """The polynomial that is ``value``."""
    return Poly.constant(value)


def known(poly: Poly) -> int | None:
    """The size, when it does not depend on a symbol."""
    return poly.value if poly.is_constant else None


def product(sizes: Sequence[Poly]) -> Poly:
    """All ``sizes`` multiplied."""
    total = ONE
    for size in sizes:
        total = total * size
    return total


def ceil_div(size: Poly, by: int) -> Poly:
    """``size / by``, rounded up."""
    return (size + number(by - 1)).floordiv(number(by))


def evenly(total: int | None, most: int) -> int:
    """The part of ``total`` that is ``most`` at most, where all parts are about equal."""
    if total is None:
        return most
    return -(-total // -(-total // most)) if total > most else max(total, 1)


def require_counts(what: str, name: str, values: object, count: int, least: int) -> tuple[int, ...]:
    """``values``, which must be ``count`` ints that are ``least`` or more.

    Raises:
        ArgumentError: ML367.
    """
    found = tuple(values) if isinstance(values, (tuple, list)) else (values,)
    good = all(isinstance(v, int) and not isinstance(v, bool) and v >= least for v in found)
    if len(found) != count or not good:
        shown = found[0] if len(found) == 1 else found
        many = "an int" if count == 1 else f"{count} ints"
        raise ArgumentError(
            "ML367",
            f"{what}: {name} must be {many} of at least {least}, got {shown!r}",
            fix="give one for each spatial dim"
            if name != "padding" or count < 4
            else "give the zeros before and after each spatial dim: (top, bottom, left, right)",
        )
    return found


def require_rank(what: str, name: str, type: TensorType, rank: int, layout: str) -> None:
    """Raises unless ``type`` has the rank ``rank``.

    Raises:
        ShapeError: ML368.
    """
    if type.rank != rank:
        raise ShapeError(
            "ML368",
            f"{what}: {name} must have rank {rank}, {layout}, got rank {type.rank}",
            fix="add the dims that are missing, with ops.unsqueeze or ops.reshape",
        )


def require_numbers(what: str, type: TensorType) -> None:
    """Raises unless the elements are numbers.

    Raises:
        DTypeError: ML106.
    """
    if not (type.dtype.is_float() or type.dtype.is_integral()):
        raise DTypeError(
            "ML106",
            f"{what} needs numbers, got {type.dtype.name}",
            fix="cast it: ops.cast(x, DType.int32)",
        )


def require_some(what: str, axis: str, size: Poly, why: str) -> Dim:
    """``size`` as a dim, which must not be known to be 0 or less.

    Raises:
        ShapeError: ML370.
    """
    if size.is_constant and size.value < 1:
        raise ShapeError(
            "ML370",
            f"{what}: the result would have the {axis} {size.value}: {why}",
            fix="pad more, or make the window, its dilation or the padding to be cut smaller",
        )
    return from_poly(size)


def size_checks(what: str, operands: Sequence[TensorType], shape: Sequence[Dim]) -> list[Check]:
    """The conditions that dims which are not dims of an operand are 1 or more."""
    own = {dim for type in operands for dim in type.shape}
    return [
        Check(ONE, "<=", dim.poly, f"{what}: the size {dim} of the result must be 1 or more")
        for dim in shape
        if not dim.poly.is_constant and dim not in own
    ]


def declared(at: Site, sizes: Mapping[str, Poly | int], text: str) -> str:
    """The declarations of those ``sizes`` that ``text`` has, and of those that these have."""
    words = set(_WORD.findall(text))
    return "\n".join(
        f"const i64 {name} = {at.size(size)};" for name, size in sizes.items() if name in words
    )


def total_type(buffer: Buffer) -> str:
    """The C type in which sums of elements are taken: unsigned for integers, so that they wrap."""
    if buffer.compute in ("f32", "f64"):
        return buffer.compute
    return _UNSIGNED.get(buffer.compute, "u32")


def finished(buffer: Buffer, text: str) -> str:
    """The sum ``text`` as a value of the compute type."""
    return text if buffer.compute in ("f32", "f64") else f"({buffer.compute})({text})"


def wide(x: Array) -> Array:
    """Floats as float64, in which references are computed; integers as they are."""
    return x if x.dtype.kind in "iu" else x.astype("f8")


__all__ = [
    "ceil_div",
    "declared",
    "evenly",
    "finished",
    "known",
    "number",
    "product",
    "require_counts",
    "require_numbers",
    "require_rank",
    "require_some",
    "size_checks",
    "total_type",
    "wide",
]
