"""How far an array is from what it should be: `Difference`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from maxlab.analysis.check.rounding import Rounded
from maxlab.dtype import DType

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Difference:
    """How far an array is from its reference.

    Attributes:
        size: Elements that were compared.
        wrong: Elements that differ by more than rounding may do.
        max_ulp: Most representable numbers from an element to its reference. Elements that rounding
            may turn into 0 do not count: next to 0 representable numbers are too dense to mean
            anything.
        max_abs: Largest absolute difference of two numbers.
        max_rel: The same over the reference's magnitude, where that is not 0.
        nan: NaNs in the array.
        inf: Infinities in the array.
        nan_wanted: NaNs in the reference.
        inf_wanted: Infinities in the reference.
        excess: Largest ratio of a difference and what rounding may do; above 1 is wrong.
        at: Index of the element that is furthest off its tolerance, when one is wrong.
        got: That element.
        want: Its reference.
    """

    size: int
    wrong: int
    max_ulp: int
    max_abs: float
    max_rel: float
    nan: int
    inf: int
    nan_wanted: int
    inf_wanted: int
    excess: float
    at: tuple[int, ...] | None = None
    got: float = 0.0
    want: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether nothing differs by more than rounding may do."""
        return self.wrong == 0

    def sentence(self) -> str:
        """A sentence that says how the two differ."""
        if self.ok:
            return f"{self.size} elements agree, to {self.excess:.0%} of what rounding may do"
        place = "[" + ", ".join(map(str, self.at or ())) + "]"
        return (
            f"{self.wrong} of {self.size} elements are wrong; at {place} it is {self.got:.6g} "
            f"instead of {self.want:.6g}"
        )


def of_tolerance(excess: float) -> str:
    """An error as a fraction of what rounding may do, in words.

    Example:
        >>> of_tolerance(0.0), of_tolerance(0.004), of_tolerance(1.14), of_tolerance(22528.0)
        ('exact', '0.4% of tolerance', '114% of tolerance', '2.3e+04 × tolerance')
    """
    if excess == 0:
        return "exact"
    if excess == float("inf"):
        return "beyond any tolerance"
    if excess >= 100:
        return f"{excess:.1e} × tolerance"
    return f"{excess:.0%} of tolerance" if excess >= 0.0095 else f"{excess:.1%} of tolerance"


def ulps_between(a: Array, b: Array) -> Array:
    """How many representable numbers lie from ``a`` to ``b``, element by element, as uint64; -0 and
    0 are one number.

    Example:
        >>> import numpy as np
        >>> one = np.ones(1, np.float32)
        >>> ulps_between(one, np.nextafter(one, 2, dtype=np.float32))
        array([1], dtype=uint64)
    """
    kind = np.dtype(f"u{a.dtype.itemsize}")
    top = np.array(1 << (8 * a.dtype.itemsize - 1), kind)

    def ordered(x: Array) -> Array:
        bits = np.ascontiguousarray(x).reshape(-1).view(kind)
        low = bits & ~top
        return np.asarray(np.where(bits & top, top - low, top + low).astype(np.uint64))

    x, y = ordered(a), ordered(b)
    return np.asarray(np.where(x > y, x - y, y - x).reshape(a.shape))


def difference(got: Array, want: Rounded, dtype: DType) -> Difference:
    """How far ``got`` is from ``want``; both have the shape of the value and ``dtype``."""
    base = want.base
    if not dtype.is_float():
        return _whole_numbers(got, want)
    with np.errstate(all="ignore"):
        x, y = got.astype(np.float64), base.astype(np.float64)
        allowed = want.tolerance(dtype)
        both = np.isfinite(x) & np.isfinite(y)
        apart = np.abs(x - y)
        if allowed is None:
            allowed = np.zeros(y.shape)
        same_edge = (np.isnan(x) & np.isnan(y)) | (x == y)
        # A number where an infinity is wanted, or another way round, may be an overflow that came
        # one step early: that is what an infinite tolerance says.
        ratio = np.where(
            same_edge,
            0.0,
            np.where(
                np.isinf(allowed),
                0.0,
                np.where(both, np.divide(apart, allowed), np.inf),
            ),
        )
        ratio = np.where(np.isnan(ratio), np.inf, ratio)
        wrong = ratio > 1
        relative = np.where(both & (y != 0), apart / np.abs(y), 0.0)
        steps = np.where(
            both & ((np.abs(y) > allowed) | (allowed == 0)),
            ulps_between(got, base.astype(got.dtype)),
            0,
        )
    return Difference(
        size=int(y.size),
        wrong=int(wrong.sum()),
        max_ulp=int(steps.max(initial=0)),
        max_abs=float(apart[both].max(initial=0.0)),
        max_rel=float(relative.max(initial=0.0)),
        nan=int(np.isnan(x).sum()),
        inf=int(np.isinf(x).sum()),
        nan_wanted=int(np.isnan(y).sum()),
        inf_wanted=int(np.isinf(y).sum()),
        excess=float(ratio.max(initial=0.0)),
        **_worst(wrong, ratio, x, y),
    )


def _worst(wrong: Array, ratio: Array, x: Array, y: Array) -> dict[str, Any]:
    if not wrong.any():
        return {}
    at = np.unravel_index(int(np.argmax(ratio)), ratio.shape)
    place = tuple(int(n) for n in at)
    return {"at": place, "got": float(x[place]), "want": float(y[place])}


def _whole_numbers(got: Array, want: Rounded) -> Difference:
    base = want.base
    wrong = np.asarray(got != base)
    if want.samples:
        # The reference rounds before it decides; where the samples disagree anything is right,
        # and for each such place another one may have been decided without the samples' noticing.
        undecided = want.undecided()
        wrong &= ~undecided
        spare = max(4 * int(undecided.sum()), wrong.size // 1000, 2)
        if int(wrong.sum()) <= spare:
            wrong = np.zeros(wrong.shape, bool)
    x, y = got.astype(np.float64), base.astype(np.float64)
    apart = np.abs(x - y)
    relative = np.where(y != 0, apart / np.where(y != 0, np.abs(y), 1), 0.0)
    return Difference(
        size=int(y.size),
        wrong=int(wrong.sum()),
        max_ulp=0,
        max_abs=float(apart.max(initial=0.0)),
        max_rel=float(relative.max(initial=0.0)),
        nan=0,
        inf=0,
        nan_wanted=0,
        inf_wanted=0,
        excess=np.inf if wrong.any() else 0.0,
        **_worst(wrong, np.where(wrong, apart + 1, 0.0), x, y),
    )
