"""Statements about the ratio of two times that were each measured a few dozen times.

Times are skewed and have outliers, so they are compared by their medians. Three things are kept
apart: how large the change is (the ratio of medians), how well it is known (an interval for that
ratio), and whether there is one at all (a p-value). Nothing here draws random numbers: the same
samples give the same answer.

*One run on each side.* The interval comes from the distribution of the sample median under
resampling, which is known exactly: it is the ``j``-th smallest sample with the weights of Harrell
and Davis [1]_, whose beta distribution is that of Maritz and Jarrett [2]_. The p-value is that of
Mann and Whitney [3]_. Samples that follow each other are alike, because what disturbs a machine
lasts longer than a run; both use the number of independent samples that would say as much.
What differs between processes is in no samples of one. Where there are kernels that should take the
same time on both sides, how much they differ tells of it, and widens the intervals: see ``Pair``.

*Several runs on both sides.* What differs between two processes, such as where their memory lies,
is the same in all samples of one process. So each run counts once, by its median, and the logs of
these medians are compared as Welch [4]_ does.

.. [1] F. E. Harrell, C. E. Davis, "A new distribution-free quantile estimator", Biometrika 69,
   1982.
.. [2] J. S. Maritz, R. G. Jarrett, "A note on estimating the variance of the sample median",
   Journal of the American Statistical Association 73, 1978.
.. [3] H. B. Mann, D. R. Whitney, "On a test of whether one of two random variables is
   stochastically larger than the other", Annals of Mathematical Statistics 18, 1947.
.. [4] B. L. Welch, "The generalization of 'Student's' problem when several different population
   variances are involved", Biometrika 34, 1947.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, Literal

import numpy as np

Array = np.ndarray[Any, Any]

State = Literal["slower", "faster", "same", "unclear", "few", "new", "gone"]

FEWEST = 5
"""Samples below which one run says nothing of its own noise."""

ENOUGH_RUNS = 8
"""Samples a side with which a change of a few times the noise is shown."""

EXACT_UP_TO = 12
"""Samples a side up to which the p-value is counted instead of approximated."""


BUSY = 1.5
"""The slower quarter of the runs over the fastest one, above which the machine is called busy. Two
processes that spin beside a model of two threads make it 1.5 to 7: then a third of the time and
more is somebody else's, which is more than most changes save. Time that somebody else uses comes
and goes, so that it is seen in the runs themselves; the load that the system tells is a mean of
minutes, and of all its processors."""


@dataclass(frozen=True, slots=True)
class Rules:
    """When a change is called one.

    Attributes:
        confidence: Of the intervals; one minus it is the rate of false alarms that p-values are
            held to.
        least: The smallest change that matters, as a fraction. A smaller one is "same", however
            well it is known.
        margin: Times count as the same when the interval lies within this fraction of no change.
    """

    confidence: float = 0.95
    least: float = 0.01
    margin: float = 0.05


@dataclass(frozen=True, slots=True)
class Estimate:
    """The ratio of two medians, after ÷ before.

    Attributes:
        before_ns: Nanoseconds, the median before.
        after_ns: The median after.
        ratio: ``after_ns / before_ns``; nan when there is nothing to divide.
        low: Where the interval for the ratio begins.
        high: Where it ends.
        p: How likely so clear a difference is when there is none.
    """

    before_ns: float
    after_ns: float
    ratio: float
    low: float
    high: float
    p: float

    @property
    def is_open(self) -> bool:
        """Whether any ratio fits the samples, as with fewer than ``FEWEST`` of them."""
        return self.low <= 0 and self.high == math.inf

    def state(self, rules: Rules, p: float | None = None) -> State:
        """The name of the change: ``"slower"`` or ``"faster"`` when a difference that matters is
        shown, ``"same"`` when a difference that matters is ruled out, ``"few"`` when there are too
        few samples to tell anything, ``"unclear"`` otherwise.

        Args:
            rules: What matters, and what is shown.
            p: The p-value to go by, adjusted for many comparisons; its own by default.
        """
        if not math.isfinite(self.ratio):
            return "unclear"
        if self.is_open:
            return "few"
        value = self.p if p is None else p
        shown = value <= 1 - rules.confidence and not self.low <= 1 <= self.high
        matters = self.ratio >= 1 + rules.least or self.ratio <= 1 / (1 + rules.least)
        if shown and matters:
            return "slower" if self.ratio > 1 else "faster"
        if 1 / (1 + rules.margin) <= self.low and self.high <= 1 + rules.margin:
            return "same"
        return "unclear"

    def widened(self, spread: float, confidence: float) -> Estimate:
        """The estimate when ratios are also known to vary by ``spread`` for other reasons.

        Args:
            spread: The standard deviation of the log of such ratios.
            confidence: Of the interval.
        """
        if spread <= 0 or not 0 < self.ratio < math.inf:
            return self
        more = NormalDist().inv_cdf((1 + confidence) / 2) * spread
        middle = math.log(self.ratio)
        below = math.hypot(middle - math.log(self.low), more) if self.low > 0 else math.inf
        above = math.hypot(math.log(self.high) - middle, more) if self.high < math.inf else math.inf
        return replace(self, low=math.exp(middle - below), high=math.exp(middle + above))


def estimate(before: Sequence[Array], after: Sequence[Array], confidence: float = 0.95) -> Estimate:
    """The ``Estimate`` of the change from ``before`` to ``after``.

    Args:
        before: For each run its samples, ``[samples]`` in ns, in the order in which they were
            taken.
        after: The same.
        confidence: Of the interval.

    Example:
        >>> import numpy as np
        >>> noise = np.random.default_rng(0)
        >>> before = [noise.normal(100, 2, 30)]
        >>> after = [noise.normal(110, 2, 30)]
        >>> found = estimate(before, after)
        >>> bool(found.low > 1.05), bool(found.high < 1.15), found.state(Rules())
        (True, True, 'slower')
    """
    middles = [float(np.median(np.concatenate(list(side)))) for side in (before, after)]
    if len(before) >= 2 and len(after) >= 2:
        return _of_runs(before, after, confidence)
    ratio = middles[1] / middles[0] if middles[0] > 0 else math.nan
    one, other = np.concatenate(list(before)), np.concatenate(list(after))
    if min(len(one), len(other)) < FEWEST or not math.isfinite(ratio) or ratio <= 0:
        return Estimate(middles[0], middles[1], ratio, 0.0, math.inf, 1.0)
    sizes = [sum(independent(run) for run in side) for side in (before, after)]
    low, high = _interval(one, other, sizes[0], sizes[1], confidence)
    p = mann_whitney(one, other, sizes[0], sizes[1])
    return Estimate(middles[0], middles[1], ratio, min(low, ratio), max(high, ratio), p)


def slow_and_fast(walls: Array) -> tuple[float, float]:
    """The least time of the slower quarter of the runs, and the time of the fastest run; the
    machine was busy where the one is over ``BUSY`` times the other.

    Example:
        >>> slow_and_fast(np.array([10.0, 11.0, 12.0, 30.0, 40.0]))
        (30.0, 10.0)
    """
    return float(np.percentile(walls, 75)), float(walls.min())


def median_interval(samples: Array) -> tuple[float, float, float]:
    """The median of ``samples`` and the interval that holds that of what they are drawn from,
    nineteen times in twenty; all samples where there are too few to say more.

    Example:
        >>> import numpy as np
        >>> from maxlab.analysis.runs.noise import median_interval
        >>> median_interval(np.arange(31.0))
        (15.0, 9.0, 21.0)
    """
    ordered = np.sort(samples)
    count = len(ordered)
    tail, rank = 0.0, 0
    for k in range(count // 2):
        tail += math.comb(count, k) / 2**count
        if tail > 0.025:
            break
        rank = k + 1
    low = ordered[max(rank - 1, 0)]
    high = ordered[count - 1 - max(rank - 1, 0)]
    return float(np.median(ordered)), float(low), float(high)


def independent(samples: Array) -> float:
    """How many independent samples say as much of the median as ``samples``, which are in the
    order in which they were taken.

    It is ``n (1 - r) / (1 + r)`` for a correlation of ``r`` between neighbours, as in a process
    that remembers one step. Ranks are correlated, so that outliers count no more than others. A
    negative ``r`` is taken as none: it would promise more than ``n``.
    """
    n = len(samples)
    if n < FEWEST:
        return float(n)
    ranks = np.argsort(np.argsort(samples, kind="stable"), kind="stable").astype(np.float64)
    ranks -= ranks.mean()
    total = float(ranks @ ranks)
    r = float(ranks[1:] @ ranks[:-1]) / total if total else 0.0
    r += 1 / n  # what is expected of independent samples is -1/n
    r = min(max(r, 0.0), 0.95)
    return max(n * (1 - r) / (1 + r), 2.0)


def _interval(
    one: Array, other: Array, n: float, m: float, confidence: float
) -> tuple[float, float]:
    """The interval for the ratio of medians, ``other ÷ one``, of samples that are worth ``n`` and
    ``m`` independent ones."""
    first, second = np.sort(one), np.sort(other)
    weights = np.outer(_median_weights(len(first), n), _median_weights(len(second), m)).ravel()
    ratios = np.divide.outer(second, first).T.ravel()
    order = np.argsort(ratios, kind="stable")
    below = np.cumsum(weights[order])
    tail = (1 - confidence) / 2
    places = np.minimum(np.searchsorted(below, [tail, 1 - tail]), len(order) - 1)
    low, high = ratios[order[places]]
    return float(low), float(high)


def _median_weights(count: int, worth: float) -> Array:
    """How likely each of ``count`` sorted samples is the median of a new draw of ``worth``."""
    return _known_weights(count, round(2 * worth))


@functools.lru_cache(maxsize=1024)
def _known_weights(count: int, doubled: int) -> Array:
    a = (doubled / 2 + 1) / 2
    edges = np.array([beta_below(j / count, a, a) for j in range(count + 1)])
    found: Array = np.diff(edges)
    return found


def _of_runs(before: Sequence[Array], after: Sequence[Array], confidence: float) -> Estimate:
    """The estimate of several runs on each side, each of which counts once."""
    logs = [np.log([max(float(np.median(run)), 1e-9) for run in side]) for side in (before, after)]
    means = [float(side.mean()) for side in logs]
    errors = [float(side.var(ddof=1)) / len(side) for side in logs]
    difference = means[1] - means[0]
    error = math.sqrt(sum(errors))
    before_ns, after_ns = math.exp(means[0]), math.exp(means[1])
    if error == 0.0:  # equal to the nanosecond on both sides
        p = 1.0 if difference == 0 else 0.0
        ratio = math.exp(difference)
        return Estimate(before_ns, after_ns, ratio, ratio, ratio, p)
    freedom = sum(errors) ** 2 / sum(
        e**2 / (len(side) - 1) for e, side in zip(errors, logs, strict=True)
    )
    width = student_quantile((1 + confidence) / 2, freedom) * error
    p = 2 * (1 - student_below(abs(difference) / error, freedom))
    return Estimate(
        before_ns,
        after_ns,
        math.exp(difference),
        math.exp(difference - width),
        math.exp(difference + width),
        p,
    )


def mann_whitney(one: Array, other: Array, n: float | None = None, m: float | None = None) -> float:
    """The p-value, on both sides, of the test of Mann and Whitney that neither of ``one`` and
    ``other`` tends to be larger.

    Args:
        one: ``[samples]``.
        other: ``[samples]``.
        n: How many independent samples ``one`` is worth; all of them by default.
        m: The same of ``other``.

    Example:
        >>> import numpy as np
        >>> round(mann_whitney(np.arange(5), np.arange(5) + 10), 4)  # 2 of 252 orders
        0.0079
    """
    a, b = len(one), len(other)
    n, m = float(a) if n is None else n, float(b) if m is None else m
    both = np.concatenate([one, other])
    values, counts = np.unique(both, return_counts=True)
    # The rank of a value is the middle of the places that its equals take.
    places = np.cumsum(counts) - (counts - 1) / 2
    ranks = places[np.searchsorted(values, one)]
    u = float(ranks.sum()) - a * (a + 1) / 2
    has_ties = len(values) < a + b
    if not has_ties and max(a, b) <= EXACT_UP_TO and n == a and m == b:
        smaller = min(u, a * b - u)
        ways = _orders(a, b)
        return min(2 * float(sum(ways[: int(smaller) + 1])) / math.comb(a + b, a), 1.0)
    total = n + m
    share = u / (a * b)  # the chance that one is larger, ties by halves
    ties = float((counts.astype(np.float64) ** 3 - counts).sum()) / ((a + b) ** 3 - (a + b))
    variance = (total + 1) / (12 * n * m) * (1 - ties)
    if variance <= 0:
        return 1.0
    z = max(abs(share - 0.5) - 0.5 / (n * m), 0.0) / math.sqrt(variance)
    return math.erfc(z / math.sqrt(2))


@functools.lru_cache(maxsize=64)
def _orders(a: int, b: int) -> tuple[int, ...]:
    """In how many orders of ``a`` and ``b`` different samples the statistic is 0, 1, 2, …"""
    table = [[1] + [0] * (a * b) for _ in range(a + 1)]
    for second in range(1, b + 1):
        for first in range(1, a + 1):
            row, left = table[first], table[first - 1]
            # The largest sample is of the first side, and passes `second` others, or it is not.
            table[first] = [
                row[u] + (left[u - second] if u >= second else 0) for u in range(a * b + 1)
            ]
    return tuple(table[a])


def adjusted(ps: Sequence[float]) -> list[float]:
    """The p-values of many comparisons made at once, raised so that of all differences that are
    called shown at a level, at most that fraction is expected to be none [1]_.

    .. [1] Y. Benjamini, Y. Hochberg, "Controlling the false discovery rate", Journal of the Royal
       Statistical Society B 57, 1995.

    Example:
        >>> [round(p, 3) for p in adjusted([0.01, 0.04, 0.03])]
        [0.03, 0.04, 0.04]
    """
    count = len(ps)
    order = sorted(range(count), key=lambda n: ps[n], reverse=True)
    found = [0.0] * count
    least = 1.0
    for rank, n in zip(range(count, 0, -1), order, strict=True):
        least = min(least, ps[n] * count / rank)
        found[n] = least
    return found


# ---------------------------------------------------------------- distributions


def beta_below(x: float, a: float, b: float) -> float:
    """The chance that a variable of the beta distribution (``a``, ``b``) is below ``x``: the
    regularised incomplete beta function, to about 14 digits.

    Example:
        >>> round(beta_below(0.25, 1, 1), 12), round(beta_below(0.5, 7, 7), 12)
        (0.25, 0.5)
    """
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    log = a * math.log(x) + b * math.log1p(-x) - _log_beta(a, b)
    if x < (a + 1) / (a + b + 2):  # where the fraction converges fast
        return math.exp(log) * _fraction(x, a, b) / a
    return 1 - math.exp(log) * _fraction(1 - x, b, a) / b


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def _fraction(x: float, a: float, b: float) -> float:
    """The continued fraction of the incomplete beta function, from the front [1]_.

    .. [1] NIST Digital Library of Mathematical Functions, 8.17.22, evaluated as in 3.10(iii).
    """
    tiny = 1e-300
    c, d = 1.0, 1 / max(1 - (a + b) * x / (a + 1), tiny)
    value = d
    for m in range(1, 500):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 + term * d
            d = 1 / (d if abs(d) > tiny else tiny)
            c = 1 + term / c
            c = c if abs(c) > tiny else tiny
            value *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return value


def student_below(t: float, freedom: float) -> float:
    """The chance that a variable of Student's distribution is below ``t``.

    Example:
        >>> round(student_below(2.776445105, 4), 6)
        0.975
    """
    tail = beta_below(freedom / (freedom + t * t), freedom / 2, 0.5) / 2
    return 1 - tail if t > 0 else tail


def student_quantile(p: float, freedom: float) -> float:
    """The value that a variable of Student's distribution is below with the chance ``p``, at least
    one half.

    Example:
        >>> round(student_quantile(0.975, 4), 4)
        2.7764
    """
    low, high = 0.0, 1.0
    while student_below(high, freedom) < p and high < 1e12:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if student_below(middle, freedom) < p:
            low = middle
        else:
            high = middle
    return (low + high) / 2
