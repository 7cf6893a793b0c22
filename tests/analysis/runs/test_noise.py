"""What is said of noisy times: known values, and how often it is wrong."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from maxlab.analysis.runs.noise import (
    Estimate,
    Rules,
    adjusted,
    beta_below,
    estimate,
    independent,
    mann_whitney,
    student_below,
    student_quantile,
)

RULES = Rules()


def test_beta_of_whole_numbers_is_a_sum_of_binomials() -> None:
    for a in (1, 2, 5, 11):
        for b in (1, 3, 8):
            for x in (0.01, 0.3, 0.5, 0.77, 0.999):
                n = a + b - 1
                exact = sum(
                    Fraction(math.comb(n, j)) * Fraction(x) ** j * (1 - Fraction(x)) ** (n - j)
                    for j in range(a, n + 1)
                )
                assert beta_below(x, a, b) == pytest.approx(float(exact), rel=1e-12)


def test_beta_is_symmetric_and_ends_where_it_should() -> None:
    for a, b, x in ((10.5, 10.5, 0.4), (0.5, 3.0, 0.2), (150.0, 4.5, 0.97)):
        assert beta_below(x, a, b) == pytest.approx(1 - beta_below(1 - x, b, a), abs=1e-13)
    assert (beta_below(0, 3, 4), beta_below(1, 3, 4)) == (0, 1)


@pytest.mark.parametrize(
    ("p", "freedom", "value"),
    # Tables of Student's distribution.
    [(0.975, 1, 12.7062), (0.975, 2, 4.3027), (0.975, 10, 2.2281), (0.995, 5, 4.0321)],
)
def test_student_quantiles_are_those_of_the_tables(p: float, freedom: int, value: float) -> None:
    assert student_quantile(p, freedom) == pytest.approx(value, abs=5e-5)
    assert student_below(value, freedom) == pytest.approx(p, abs=1e-5)
    assert student_below(-value, freedom) == pytest.approx(1 - p, abs=1e-5)


def test_mann_whitney_counts_all_orders() -> None:
    def u_of(chosen: tuple[int, ...]) -> int:
        return sum(1 for one in chosen for other in range(9) if other not in chosen and other < one)

    every = [u_of(chosen) for chosen in combinations(range(9), 4)]
    for chosen in ((0, 1, 2, 3), (0, 3, 5, 8), (4, 5, 6, 8), (1, 2, 4, 7)):
        u = u_of(chosen)
        smaller = min(u, 20 - u)
        exact = min(2 * sum(found <= smaller for found in every) / len(every), 1.0)
        others = [n for n in range(9) if n not in chosen]
        assert mann_whitney(np.array(chosen), np.array(others)) == pytest.approx(exact)


def test_mann_whitney_of_many_is_near_the_count() -> None:
    noise = np.random.default_rng(3)
    one, other = noise.normal(0, 1, 12), noise.normal(0.9, 1, 12)
    exact = mann_whitney(one, other)
    nearly = mann_whitney(one, other, 12.0 - 1e-9, 12.0)  # the approximation
    assert nearly == pytest.approx(exact, rel=0.3)


def test_equal_samples_are_no_difference() -> None:
    same = np.full(20, 100.0)
    assert mann_whitney(same, same) == 1.0
    found = estimate([same], [same])
    assert (found.ratio, found.low, found.high) == (1, 1, 1)
    assert found.state(RULES) == "same"


def test_correlation_lowers_what_samples_are_worth() -> None:
    noise = np.random.default_rng(0)
    free = noise.normal(size=200)
    bound = np.empty(200)
    bound[0] = 0
    for n in range(1, 200):
        bound[n] = 0.8 * bound[n - 1] + noise.normal()
    assert independent(free) > 130
    assert independent(bound) < 50
    assert independent(np.arange(3.0)) == 3


def test_p_values_are_raised_by_how_many_there_are() -> None:
    assert adjusted([]) == []
    assert adjusted([0.02]) == [0.02]
    found = adjusted([0.001, 0.5, 0.02, 0.9])
    assert found == pytest.approx([0.004, 2 / 3, 0.04, 0.9])
    assert all(raised >= p for raised, p in zip(found, [0.001, 0.5, 0.02, 0.9], strict=True))


def _sampled(noise: np.random.Generator, count: int, correlation: float) -> np.ndarray:
    """Times about 1 ms with 5 % of noise, each like the one before."""
    steps = noise.normal(size=count)
    for n in range(1, count):
        steps[n] = correlation * steps[n - 1] + math.sqrt(1 - correlation**2) * steps[n]
    return 1e6 * np.exp(0.05 * steps)


@pytest.mark.parametrize("correlation", [0.0, 0.5])
def test_false_alarms_are_as_rare_as_promised(correlation: float) -> None:
    noise = np.random.default_rng(1)
    trials, alarms, covered = 400, 0, 0
    for _ in range(trials):
        found = estimate([_sampled(noise, 20, correlation)], [_sampled(noise, 20, correlation)])
        alarms += found.state(RULES) in ("slower", "faster")
        covered += found.low <= 1 <= found.high
    # Binomial: with one in twenty, more than 38 of 400 come about once in ten thousand times.
    assert alarms <= 38
    assert covered >= trials - 38


def test_false_alarms_of_several_processes_are_rare_too() -> None:
    """Processes differ by 3 %, which no single one can know of."""
    noise = np.random.default_rng(2)
    alone, several = 0, 0
    for _ in range(200):
        sides = [
            [_sampled(noise, 20, 0) * np.exp(0.03 * noise.normal()) / 2 for _ in range(4)]
            for _ in range(2)
        ]
        several += estimate(sides[0], sides[1]).state(RULES) in ("slower", "faster")
        alone += estimate(sides[0][:1], sides[1][:1]).state(RULES) in ("slower", "faster")
    assert several <= 22  # of 200 at one in twenty, once in ten thousand times
    assert alone > several  # why several are asked for


def test_a_real_difference_is_shown() -> None:
    noise = np.random.default_rng(4)
    shown = 0
    for _ in range(50):
        found = estimate([_sampled(noise, 30, 0)], [1.1 * _sampled(noise, 30, 0)])
        shown += found.state(RULES) == "slower"
    assert shown >= 45


def test_few_samples_show_nothing() -> None:
    found = estimate([np.array([1.0, 1.0])], [np.array([9.0, 9.0])])
    assert found.ratio == 9
    assert (found.low, found.high, found.p) == (0, math.inf, 1)
    assert found.state(RULES) == "few"


def test_states_follow_the_rules() -> None:
    def state(ratio: float, low: float, high: float, p: float, **rules: float) -> str:
        return Estimate(100, 100 * ratio, ratio, low, high, p).state(Rules(**rules))

    assert state(1.10, 1.05, 1.15, 0.001) == "slower"
    assert state(0.90, 0.85, 0.95, 0.001) == "faster"
    assert state(1.10, 1.05, 1.15, 0.2) == "unclear"  # after so many comparisons it may be chance
    assert state(1.10, 0.99, 1.15, 0.001) == "unclear"
    assert state(1.005, 1.002, 1.008, 0.001) == "same"  # known, and too small to matter
    assert state(1.005, 1.002, 1.008, 0.001, least=0.001) == "slower"
    assert state(1.00, 0.97, 1.03, 0.9) == "same"
    assert state(1.00, 0.90, 1.10, 0.9) == "unclear"
    assert state(math.nan, 0, math.inf, 1) == "unclear"


def test_no_time_before_has_no_ratio() -> None:
    found = estimate([np.zeros(10)], [np.full(10, 5.0)])
    assert math.isnan(found.ratio)
    assert found.state(RULES) == "unclear"
