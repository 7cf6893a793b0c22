"""Whether draws have a distribution, by Pearson's chi-square test."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def fits(draws: Array, probabilities: Array) -> bool:
    """Whether ``draws``, numbers of outcomes, were drawn by ``probabilities``.

    Outcomes that are expected less than five times count as one. A true distribution fails once in
    ten thousand cases; with fixed seeds it always does or never.
    """
    times = np.bincount(draws.ravel(), minlength=len(probabilities))
    if times[probabilities == 0].any():
        return False
    wanted = probabilities / probabilities.sum() * times.sum()
    common = wanted >= 5
    expected = np.append(wanted[common], wanted[~common].sum())
    seen = np.append(times[common], times[~common].sum())
    some = expected > 0
    assert some.sum() > 1, "one outcome alone is no distribution to test"
    distance = float(((seen - expected)[some] ** 2 / expected[some]).sum())
    return distance < upper_bound(int(some.sum()) - 1)


def upper_bound(freedom: int) -> float:
    """What chi-square stays below in all but one of ten thousand cases (Wilson and Hilferty)."""
    return float(freedom * (1 - 2 / (9 * freedom) + 3.72 * math.sqrt(2 / (9 * freedom))) ** 3)
