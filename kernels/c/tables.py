"""Finds the tables of the prelude: `python kernels/c/tables.py [name ...]` prints them as C.

A function is cut into sixteen pieces, as many as a register holds numbers of: a processor with
`vpermps` takes the coefficients of each element's piece from registers, and one short polynomial
does for all pieces. A table is a list of rows of sixteen numbers each: the middles m of the pieces,
the function f(m) there, and the coefficients of p, lowest power first, where
f(a) = f(m) + (a - m) p(a - m). The piece that begins at 0 has its middle there. A function that is
nearly a can be told as a + a p(a - m) near 0, which is rounded less; f(m) is not needed then.

The sum is rounded where f(m) counts, so f(m) should be a float: a middle is one of the floats
nearby for which it nearly is.
"""

from __future__ import annotations

import math
import sys
import textwrap
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.polynomial import Polynomial, chebyshev

Array = np.ndarray
PIECES = 16
erf = np.vectorize(math.erf, otypes=[np.float64])
erfc = np.vectorize(math.erfc, otypes=[np.float64])


class Piece(NamedTuple):
    """Numbers from `low` to `high`, and whether the function is told as a + a p there."""

    low: float
    high: float
    near: bool


class Table(NamedTuple):
    """A function, its pieces in the order of their numbers, and how many coefficients each has."""

    function: Callable[[Array], Array]
    pieces: list[Piece]
    terms: int


def even(scale: float, near: int) -> list[Piece]:
    """Pieces around the multiples of 1 / scale, of which the first `near` are near 0."""
    return [Piece(max(k - 0.5, 0.0) / scale, (k + 0.5) / scale, k < near) for k in range(PIECES)]


def growing(scale: float) -> list[Piece]:
    """Four pieces for each octave of 1 + scale a from 1 to 16. The last two bits of its exponent
    and the two bits behind them number them: the piece of 1 has the number 12."""
    ends = [(2.0**e * (1 + q / 4) - 1) / scale for e in range(5) for q in range(4)]
    made = [Piece(ends[k], ends[k + 1], False) for k in range(PIECES)]
    return made[4:] + made[:4]


def left_of_normal(a: Array) -> Array:
    """a times the part of the normal distribution that lies left of -a, times e^(a^2 / 2)."""
    made: Array = 0.5 * a * erfc(a / math.sqrt(2)) * np.exp(a * a / 2)
    return made


def tanh_sigmoid(a: Array) -> Array:
    """tanh(a) sigmoid(a) for a of 0 and more; for -a it is -e^-a times that."""
    made: Array = -np.expm1(-a) / (1 + np.exp(-2 * a))
    return made


def sigmoid(a: Array) -> Array:
    """The sigmoid of a of 0 and more; for -a it is e^-a times that."""
    made: Array = 1 / (1 + np.exp(-a))
    return made


TABLES: dict[str, Table] = {
    "erf": Table(erf, even(3.9, 4), 6),
    "normal": Table(left_of_normal, growing(1.0), 6),
    "sigmoid": Table(sigmoid, growing(0.8), 5),
    "tanh_sigmoid": Table(tanh_sigmoid, growing(0.8), 7),
}


def middle(table: Table, piece: Piece) -> float:
    """The middle of a piece, as a float; away from 0 a float near it where the function is nearly
    one."""
    half = (piece.high - piece.low) / 2
    at = float(np.float32(piece.low + half))
    if piece.low == 0 or piece.near:
        return 0.0 if piece.low == 0 else at
    near: Array = np.array([at])
    off: Array = near
    for reach in (1e-3, 1e-2, 0.1, 0.9):
        near = at + half * reach * np.linspace(-1, 1, 4001)
        near = near.astype(np.float32).astype(np.float64)
        value: Array = table.function(near)
        off = np.abs(value - value.astype(np.float32))
        if off.min() < 2.0**-31 * value.min():
            break
    return float(near[int(np.argmin(off))])


def coefficients(table: Table, piece: Piece, points: int = 400, rounds: int = 60) -> list[float]:
    """The column of a piece: its middle, the function there, and the coefficients."""
    m = middle(table, piece)
    half, t = (piece.high - piece.low) / 2, np.cos(np.pi * (np.arange(points) + 0.5) / points)
    a = piece.low + half + half * t
    value, first = table.function(a), 0.0
    target, weight = value / a - 1, a / value
    if not piece.near:
        first = float(np.float32(table.function(np.array([m]))[0]))
        target, weight = (value - first) / (a - m), np.abs(a - m) / value
    basis = chebyshev.chebvander(t, table.terms - 1)
    emphasis, best, least = np.ones(points), np.zeros(table.terms), np.inf
    for _ in range(rounds):
        scale = np.sqrt(emphasis) * weight
        found = np.linalg.lstsq(basis * scale[:, None], target * scale, rcond=None)[0]
        error = np.abs(basis @ found - target) * weight
        if error.max() < least:
            best, least = found, float(error.max())
        emphasis *= (error / error.max() + 1e-3) ** 0.7
        emphasis /= emphasis.sum()
    line = Polynomial([(m - piece.low - half) / half, 1 / half])  # t of a - m
    p = Polynomial(chebyshev.cheb2poly(best))(line).coef
    return [m, first, *(float(c) for c in p)]


def rows(name: str) -> list[list[float]]:
    """The rows of a table, of sixteen numbers each."""
    table = TABLES[name]
    made = [coefficients(table, piece) for piece in table.pieces]
    return [[one[r] for one in made] for r in range(table.terms + 2)]


def errors(name: str, numbers: list[list[float]]) -> list[float]:
    """The largest relative error in each piece, when nothing is rounded but the numbers."""
    table, made = TABLES[name], []
    for k, piece in enumerate(table.pieces):
        a = np.linspace(piece.low, piece.high, 1003)[1:-1]
        m, first, *p = (row[k] for row in numbers)
        by = Polynomial(p)(a - m)
        got = a + a * by if piece.near else first + (a - m) * by
        made.append(float(np.abs(got / table.function(a) - 1).max()))
    return made


def printed(row: list[float]) -> str:
    """A row as C, of lines that are not too long."""
    texts = [f"{np.float32(c):.9g}" for c in row]
    texts = [f"{c if set(c) & set('.e') else c + '.0'}f" for c in texts]
    return textwrap.fill(", ".join(texts), 116).replace("\n", "\n   ")


def main() -> None:
    for name in sys.argv[1:] or TABLES:
        numbers = [[float(np.float32(c)) for c in row] for row in rows(name)]
        worst = max(errors(name, numbers)) * 2**24
        sys.stdout.write(f"largest error {worst:.3f} * 2^-24\n")
        shape = f"[{len(numbers)}][16] __attribute__((unused))"
        sys.stdout.write(f"static const f32 mx_{name}_table{shape} = {{\n")
        sys.stdout.writelines(f"  {{{printed(row)}}},\n" for row in numbers)
        sys.stdout.write("};\n")


if __name__ == "__main__":
    main()
