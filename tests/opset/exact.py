"""What the ops of the table say of integers and casts, in Python integers and fractions.

Neither NumPy nor a C compiler computes anything here, so that a fault which the references and the
generated code share is found too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from maxlab.dtype import DType

Array = np.ndarray[Any, Any]
Number = int | float

INTEGERS = (
    DType.int8, DType.uint8, DType.int16, DType.uint16, DType.int32, DType.uint32, DType.int64,
    DType.uint64,
)  # fmt: skip
FLOATS = (DType.float16, DType.bfloat16, DType.float32, DType.float64)
_BITS = {  # of the exponent, and of the fraction behind the point
    DType.float16: (5, 10),
    DType.bfloat16: (8, 7),
    DType.float32: (8, 23),
    DType.float64: (11, 52),
}


# ---------------------------------------------------------------- numbers of a dtype
def wrap(number: int, dtype: DType) -> int:
    """``number`` modulo 2 to the bits of ``dtype``, in two's complement."""
    bits = dtype.size_in_bits
    low = number & ((1 << bits) - 1)
    return low - (1 << bits) if dtype.is_signed_integral() and low >> (bits - 1) else low


def edges(dtype: DType) -> list[int]:
    """Numbers of ``dtype`` at which something wraps, rounds or changes its sign."""
    wanted = [0, 1, -1, 2, -2, 3, 7, -7, 100, -100]
    for bits in (7, 8, 15, 16, 24, 31, 32, 53, 63, 64):
        wanted += [2**bits, 2**bits - 1, 2**bits + 1, -(2**bits), -(2**bits) - 1, 1 - 2**bits]
    least, most = int(dtype.lowest), int(dtype.largest)
    wanted += [least, least + 1, most, most - 1, most // 3 * 2]
    return sorted({n for n in wanted if least <= n <= most})


def float_bits(value: Fraction, negative: bool, dtype: DType) -> int:
    """The bits of the float next to ``value``, halves to even; beyond the largest, infinity."""
    exponents, digits = _BITS[dtype]
    bias = (1 << (exponents - 1)) - 1
    size = abs(value)
    bits = 0
    if size:
        power = size.numerator.bit_length() - size.denominator.bit_length()
        power -= size < Fraction(2) ** power
        power = max(power, 1 - bias)
        scaled = size / Fraction(2) ** (power - digits)
        whole, rest = divmod(scaled.numerator, scaled.denominator)
        twice = 2 * rest - scaled.denominator
        whole += twice > 0 or (twice == 0 and whole & 1)
        bits = whole + ((power + bias - 1) << digits)
        bits = min(bits, ((1 << exponents) - 1) << digits)
    return bits | (negative << (exponents + digits))


def float_of(bits: int, dtype: DType) -> float:
    """The number that ``bits`` are in ``dtype``."""
    exponents, digits = _BITS[dtype]
    sign = -1 if bits >> (exponents + digits) else 1
    power, part = (bits >> digits) & ((1 << exponents) - 1), bits & ((1 << digits) - 1)
    if power == (1 << exponents) - 1:
        return math.nan if part else sign * math.inf
    whole = part + (1 << digits if power else 0)
    return math.copysign(
        math.ldexp(whole, max(power, 1) - (1 << (exponents - 1)) + 1 - digits), sign
    )


def packed(bits: Iterable[int], dtype: DType) -> Array:
    """Floats from their bits."""
    kind = np.dtype(f"u{dtype.size_in_bytes}")
    return np.array(list(bits), kind).view(dtype.ml_numpy)


def float_edges(dtype: DType) -> list[int]:
    """The bits of floats at which a cast rounds, overflows or leaves the integers."""
    exponents, digits = _BITS[dtype]
    top = 1 << (exponents + digits)
    infinite = ((1 << exponents) - 1) << digits
    found = {
        0,
        1,
        2,
        (1 << digits) - 1,
        1 << digits,
        infinite,
        infinite - 1,
        infinite | (1 << (digits - 1)),
    }
    halves = [Fraction(n, 2) for n in (1, 2, 3, 5, 255, 257)] + [Fraction(65504), Fraction(65520)]
    powers = [
        Fraction(2) ** n
        for n in (7, 8, 15, 16, 31, 32, 53, 63, 64, 127, -14, -24, -25, -126, -133, -149)
    ]
    for value in halves + powers:
        at = float_bits(value, False, dtype)
        found |= {n for n in (at - 1, at, at + 1) if 0 <= n <= infinite}
    # Halfway between two narrower floats, and a last digit above and below it.
    for narrow in (DType.float16, DType.bfloat16, DType.float32):
        for value in (Fraction(1), Fraction(3), Fraction(2) ** -14, Fraction(2) ** -126):
            step = Fraction(2) ** (-_BITS[narrow][1] - 1)
            for odd in (1, 3):
                at = float_bits(value * (1 + odd * step), False, dtype)
                found |= {n for n in (at - 1, at, at + 1) if 0 <= n <= infinite}
    return sorted(found | {bits | top for bits in found})


# ---------------------------------------------------------------- casts
def cast_to_integer(value: float, dtype: DType) -> int:
    """A float cut to an integer: what leaves int32, or int64 for uint32 and 64 bits, is the least
    number of that, of which a narrower integer takes the low bits."""
    wide = 64 if dtype in (DType.int64, DType.uint64, DType.uint32) else 32
    least = -(1 << (wide - 1))
    if math.isnan(value) or math.isinf(value):
        return wrap(least, dtype)
    cut = math.trunc(value)
    most = 2**64 if dtype is DType.uint64 else -least
    return wrap(cut if least <= cut < most else least, dtype)


def cast(bits_or_number: int, source: DType, target: DType) -> int:
    """The number, or for floats the bits, of one element cast to ``target``."""
    if source in _BITS:
        value = float_of(bits_or_number, source)
        if target is DType.bool:
            return int(value != 0)
        if target not in _BITS:
            return cast_to_integer(value, target)
        if not math.isfinite(value):
            exponents, digits = _BITS[target]
            quiet = 1 << (digits - 1) if math.isnan(value) else 0
            sign = int(math.copysign(1, value) < 0) << (exponents + digits)
            return (((1 << exponents) - 1) << digits) | quiet | sign
        return float_bits(Fraction(value), math.copysign(1, value) < 0, target)
    if target is DType.bool:
        return int(bits_or_number != 0)
    if target in _BITS:
        return float_bits(Fraction(bits_or_number), bits_or_number < 0, target)
    return wrap(bits_or_number, target)


# ---------------------------------------------------------------- elementwise
def _power(x: int, y: int) -> int:
    return 0 if y < 0 else pow(x, y, 1 << 64)


UNARY: dict[str, Callable[[int], int]] = {
    "abs": abs,
    "negate": lambda x: -x,
    "floor": lambda x: x,
    "trunc": lambda x: x,
    "round": lambda x: x,
    "relu": lambda x: max(x, 0),
}
BINARY: dict[str, Callable[[int, int], int]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "floordiv": lambda x, y: x // y if y else 0,
    "mod": lambda x, y: x % y if y else 0,
    "pow": _power,
    "max": max,
    "min": min,
}
COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "equal": lambda x, y: x == y,
    "not_equal": lambda x, y: x != y,
    "greater": lambda x, y: x > y,
    "greater_equal": lambda x, y: x >= y,
}


# ---------------------------------------------------------------- along an axis
def mean(row: Sequence[int]) -> int:
    """The mean without its fraction."""
    return math.trunc(Fraction(sum(row), len(row)))


FOLDS: dict[str, Callable[[Sequence[int]], int]] = {
    "reduce.sum": sum,
    "reduce.max": max,
    "reduce.min": min,
    "mean": mean,
    "argmax": lambda row: row.index(max(row)),
    "argmin": lambda row: row.index(min(row)),
}


def cumsum(row: Sequence[int], exclusive: bool, reverse: bool) -> list[int]:
    """The running sums of ``row``."""
    order = list(row)[::-1] if reverse else list(row)
    found, total = [], 0
    for number in order:
        if exclusive:
            found.append(total)
        total += number
        if not exclusive:
            found.append(total)
    return found[::-1] if reverse else found


def order_of(row: Sequence[int], ascending: bool) -> list[int]:
    """The indices that sort ``row``; of equal elements the first comes first."""
    return sorted(range(len(row)), key=lambda i: row[i] if ascending else -row[i])


def matmul(x: Sequence[Sequence[int]], y: Sequence[Sequence[int]]) -> list[list[int]]:
    """The product of two matrices of integers."""
    columns = list(zip(*y, strict=True))
    return [[sum(a * b for a, b in zip(r, c, strict=True)) for c in columns] for r in x]


def array(numbers: Any, dtype: DType) -> Array:
    """Nested lists of integers as an array of ``dtype``, each wrapped."""
    if isinstance(numbers, list) and numbers and isinstance(numbers[0], list):
        return np.stack([array(one, dtype) for one in numbers])
    if isinstance(numbers, list):
        return np.array([wrap(n, dtype) for n in numbers], dtype.ml_numpy)
    return np.array(wrap(numbers, dtype), dtype.ml_numpy)


# ---------------------------------------------------------------- NaN and infinities
def first_of(row: Sequence[float], best: Callable[[Sequence[float]], float]) -> int:
    """Where the extreme stands first; a NaN is the extreme, and -0 is 0."""
    for place, number in enumerate(row):
        if math.isnan(number):
            return place
    return row.index(best(row))


def ranked(row: Sequence[float], ascending: bool) -> list[int]:
    """The indices that sort floats: NaN is the largest, and equal elements keep their order."""

    def key(place: int) -> tuple[bool, float]:
        number = row[place]
        return (True, 0.0) if math.isnan(number) else (False, number)

    if ascending:
        return sorted(range(len(row)), key=key)
    return sorted(range(len(row)), key=lambda i: (not key(i)[0], -key(i)[1]))
