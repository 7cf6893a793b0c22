"""Finds the coefficients of the prelude's polynomials: `python kernels/c/fits.py [name ...]`.

Each function is approximated by a polynomial whose largest weighted error is as small as
possible: a least-squares fit in Chebyshev polynomials is repeated, and every time the points
with a large error get more weight (Lawson's method), until the error is level over the range.
The weight turns the error of the fitted part into the relative error of the whole function.
The printed error is in units of half the spacing of float32 (2^-24): below about 0.2 it drowns
in the rounding of the evaluation itself.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.polynomial import chebyshev, polynomial

Array = np.ndarray
erf = np.vectorize(math.erf, otypes=[np.float64])
erfc = np.vectorize(math.erfc, otypes=[np.float64])


class Fit(NamedTuple):
    """What to approximate: target(x) by a polynomial of `degree` on [low, high]."""

    target: Callable[[Array], Array]
    weight: Callable[[Array], Array]
    low: float
    high: float
    degree: int


def series(
    first: list[float], function: Callable[[Array], Array], near: float
) -> Callable[[Array], Array]:
    """`function`, but near 0, where it divides 0 by 0, its Taylor series."""

    def target(x: Array) -> Array:
        safe = np.where(np.abs(x) < near, 1.0, x)
        return np.where(np.abs(x) < near, polynomial.polyval(x, first), function(safe))

    return target


def one(x: Array) -> Array:
    return np.ones_like(x)


def log_weight(x: Array) -> Array:
    return np.abs(x**3 / np.where(x == 0, 1, np.log1p(x)))


QUARTER_TURN = (math.pi / 4 * 1.01) ** 2
LOG_2 = math.log(2)
ERF_SLOPE = 2 / math.sqrt(math.pi)


def exp_fit(degree: int, low: float, high: float) -> Fit:
    """e^r = 1 + r + r^2 P(r)."""
    return Fit(
        series(
            [1 / math.factorial(k + 2) for k in range(6)],
            lambda r: (np.expm1(r) - r) / r**2,
            2e-3,
        ),
        lambda r: r**2 / np.exp(r),
        low,
        high,
        degree,
    )


FITS: dict[str, Fit] = {
    "exp": exp_fit(4, -0.2885, 0.4065),
    "exp wide": exp_fit(5, -LOG_2 / 2 * 1.001, LOG_2 / 2 * 1.001),
    "exp of lanes": exp_fit(1, -LOG_2 / 32 * 1.002, LOG_2 / 32 * 1.002),
    # log(1+f) = f - f^2/2 + f^3 P(f)
    "log": Fit(
        series([1 / 3, -1 / 4, 1 / 5, -1 / 6, 1 / 7, -1 / 8, 1 / 9],
               lambda f: (np.log1p(f) - f + f**2 / 2) / f**3, 1e-2),
        log_weight, math.sqrt(0.5) - 1, math.sqrt(2) - 1, 8,
    ),
    # x/2 (1 + erf(x/sqrt 2)) = x (1/2 + x P(x^2)) up to 0.6
    "gelu near": Fit(
        series([1 / math.sqrt(2 * math.pi), -1 / 6 / math.sqrt(2 * math.pi)],
               lambda s: erf(np.sqrt(s / 2)) / 2 / np.sqrt(s), 1e-8),
        lambda s: 2 * np.sqrt(s) / erfc(np.sqrt(s / 2)), 0.0, 0.6**2, 3,
    ),
    # the same up to 5 in one piece: x (1/2 + x P(u)), u = 2/25 x^2 - 1
    "gelu fast": Fit(
        lambda u: erf(np.sqrt((u + 1) * 6.25)) / np.sqrt((u + 1) * 50),
        lambda u: np.sqrt((u + 1) * 12.5), -1.0, 1.0, 12,
    ),
    # log(1+f) = f + f^2 P(f)
    "log wide": Fit(
        series([(-1) ** (k + 1) / (k + 2) for k in range(16)],
               lambda f: (np.log1p(f) - f) / f**2, 2e-2),
        lambda f: np.abs(f**2 / np.where(f == 0, 1, np.log1p(f))),
        math.sqrt(0.5) - 1, math.sqrt(2) - 1, 9,
    ),
    # erf x = x P(x^2) up to 4, in double
    "erf": Fit(
        series([ERF_SLOPE, -ERF_SLOPE / 3], lambda s: erf(np.sqrt(s)) / np.sqrt(s), 1e-8),
        lambda s: np.sqrt(s) / erf(np.sqrt(s)), 0.0, 16.0, 17,
    ),
    # sin t = t + t s P(s), cos t = 1 - s/2 + s^2 P(s), s = t^2
    "sin": Fit(
        series([-1 / 6, 1 / 120, -1 / 5040],
               lambda s: (np.sin(np.sqrt(s)) / np.sqrt(s) - 1) / s, 1e-4),
        lambda s: s, 0.0, QUARTER_TURN, 3,
    ),
    "cos": Fit(
        series([1 / 24, -1 / 720, 1 / 40320, -1 / 3628800],
               lambda s: (np.cos(np.sqrt(s)) - 1 + s / 2) / s**2, 1e-2),
        lambda s: s**2, 0.0, QUARTER_TURN, 2,
    ),
    # asin z = z + z s P(s), atanh z = z + z s P(s), s = z^2
    "acos": Fit(
        series([1 / 6, 3 / 40, 15 / 336],
               lambda s: (np.arcsin(np.sqrt(s)) / np.sqrt(s) - 1) / s, 1e-5),
        lambda s: s, 0.0, 0.251, 5,
    ),
    "atanh": Fit(
        series([1 / 3, 1 / 5], lambda s: (np.arctanh(np.sqrt(s)) / np.sqrt(s) - 1) / s, 1e-5),
        lambda s: s, 0.0, 0.25, 5,
    ),
}  # fmt: skip


def coefficients(fit: Fit, points: int = 6000, rounds: int = 400) -> tuple[Array, float]:
    """The coefficients, lowest power first, and the largest weighted error."""
    t = np.cos(np.pi * (np.arange(points) + 0.5) / points)
    x = (fit.high - fit.low) / 2 * t + (fit.high + fit.low) / 2
    y, weight = fit.target(x), fit.weight(x)
    basis = chebyshev.chebvander(t, fit.degree)
    emphasis, best, least = np.ones(points), np.zeros(fit.degree + 1), np.inf
    for _ in range(rounds):
        scale = np.sqrt(emphasis) * weight
        found = np.linalg.lstsq(basis * scale[:, None], y * scale, rcond=None)[0]
        error = np.abs(basis @ found - y) * weight
        if error.max() < least:
            best, least = found, float(error.max())
        emphasis *= (error / error.max() + 1e-3) ** 0.7
        emphasis /= emphasis.sum()
    line = [-(fit.high + fit.low) / (fit.high - fit.low), 2 / (fit.high - fit.low)]  # t of x
    total: Array = np.zeros(1)
    power: Array = np.ones(1)
    for c in chebyshev.cheb2poly(best):
        total = polynomial.polyadd(total, c * power)
        power = polynomial.polymul(power, line)
    return total, least


def gelu_tail(wide: bool, high: float = 14.85) -> tuple[Array, Array, float]:
    """P, Q and the largest relative error of erfc(a/sqrt 2) = e^(-a^2/2) / (a c + P(a)/Q(a)), where
    c is sqrt(pi/2); from 0.6 on, and c as a float32, unless ``wide``. Every round is a linear
    problem, weighed by the last Q."""
    c = math.sqrt(math.pi / 2)
    c = c if wide else float(np.float32(c))
    low, degrees = (0.0, (4, 5)) if wide else (0.6, (3, 4))
    t = np.cos(np.pi * (np.arange(3000) + 0.5) / 3000)
    a = low + ((t + 1) / 2) ** 2 * (high - low)
    whole = 1 / (erfc(a / math.sqrt(2)) * np.exp(a**2 / 2))
    y, s = whole - c * a, a / high
    top, below = (np.vander(s, n + 1, increasing=True) for n in degrees)
    below, first = below[:, 1:], degrees[0] + 1
    emphasis, q = np.ones(len(a)), np.ones(len(a))
    best, least = np.zeros(sum(degrees) + 1), np.inf
    for _ in range(200):
        scale = np.sqrt(emphasis) / (q * whole)
        basis = np.hstack([top, -y[:, None] * below])
        found = np.linalg.lstsq(basis * scale[:, None], y * scale, rcond=None)[0]
        p, q = top @ found[:first], 1 + below @ found[first:]
        error = np.abs(p / q - y) / whole
        if error.max() < least and (q > 0).all():
            best, least = found, float(error.max())
        emphasis *= (error / error.max() + 1e-3) ** 0.5
        emphasis /= emphasis.sum()
    above, under = (high ** np.arange(n + 1) for n in degrees)
    return best[:first] / above, np.concatenate([[1.0], best[first:]]) / under, least


def main() -> None:
    for name in sys.argv[1:] or [*FITS, "gelu tail", "gelu tail wide"]:
        if name.startswith("gelu tail"):
            p, q, error = gelu_tail(name.endswith("wide"))
            parts = {"P a": p, "Q a": q}
        else:
            found, error = coefficients(FITS[name])
            parts = {"x": found}
        sys.stdout.write(f"{name}: largest error {error * 2**24:.3f} * 2^-24\n")
        for of, numbers in parts.items():
            lines = (
                f"  {of}^{i}: {float(c)!r}, {np.float32(c):.9g}f\n" for i, c in enumerate(numbers)
            )
            sys.stdout.writelines(lines)


if __name__ == "__main__":
    main()
