"""Predictions that advice may promise: their intervals, and when there is none.

A prediction is wrong for two reasons, and its interval holds both:

* *the runs varied*. The saving is computed once for each timed run, from that run's times; the
  median of so many lies, nineteen times in twenty, in an interval of their order statistics.
* *the model is a model*. ``OFF`` says how far predictions of the kind were from what was saved when
  they were tried, on models with something planted (``benchmarks/advice.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from maxlab.analysis.advice.kernel import Kernel
from maxlab.analysis.runs.noise import BUSY, FEWEST, median_interval, slow_and_fast
from maxlab.engine.times import plural, time_text

if TYPE_CHECKING:
    from maxlab.engine.profile import Profile

Array = np.ndarray[Any, Any]
Basis = Literal["measured", "estimated"]
"""Whether all times were measured, because kernels would be gone or take what others do; or what
kernels take after the change is an estimate."""
Times = Callable[[Kernel], Array]
"""The nanoseconds of a kernel: a number, or one for each run."""
Saving = Callable[[Times], Array]
"""Computes the time saved from the nanoseconds that each kernel takes."""

OFF: dict[Basis, tuple[float, float]] = {"measured": (0.8, 1.25), "estimated": (0.5, 2.0)}
"""Least and largest ratio of the saving to its prediction: 0.91 to 1.11 where the time was
measured, 0.49 to 1.85 where it was estimated, both rounded outwards.
"""
OF_THE_REST = 0.1
"""How far the estimate of what is left may be off, as a fraction of it: small savings are the
difference of two estimates. Whole models took 0.91 to 1.08 of what was estimated."""


@dataclass(frozen=True, slots=True)
class Priced:
    """A prediction.

    Attributes:
        ns: Nanoseconds that are saved.
        low: The least that is expected.
        high: The most.
        rank_ns: What the fastest run of each kernel says, which hardly depends on what else the
            machine does.
    """

    ns: float
    low: float
    high: float
    rank_ns: float


def priced(saving: Saving, basis: Basis, about: list[Kernel], whole_ns: float) -> Priced:
    """The prediction that ``saving`` makes for a change to the kernels ``about`` of a model of
    ``whole_ns``.
    """
    ns = float(saving(lambda kernel: np.asarray(kernel.ns)))
    fastest = float(saving(lambda kernel: np.asarray(float(kernel.time.ns_min))))
    samples = np.atleast_1d(saving(lambda kernel: kernel.samples))
    _, low, high = median_interval(samples)
    before = sum(kernel.ns for kernel in about)
    least, most = sorted(factor * ns for factor in OFF[basis])
    if basis == "estimated":
        rest = OF_THE_REST * max(before - ns, 0.0)
        least, most = min(least, ns - rest), max(most, ns + rest)
    below = float(np.hypot(max(ns - low, 0.0), ns - least))
    above = float(np.hypot(max(high - ns, 0.0), most - ns))
    # What is cheaper saves no more than it took; what is gone may also leave the caches to others.
    ceiling = before if basis == "estimated" else whole_ns
    return Priced(ns, ns - below, max(min(ns + above, ceiling), ns), fastest)


def why_withheld(profile: Profile) -> str:
    """Why nothing can be predicted from ``profile``, as a clause; empty where it can."""
    walls = np.asarray(profile.wall_samples_ns, np.float64)
    if len(walls) < FEWEST:
        return (
            f"{plural(len(walls), 'run')} cannot tell how much runs differ; "
            f"profile with runs={FEWEST} or more"
        )
    slow, fast = slow_and_fast(walls)
    if slow <= BUSY * fast:
        return ""
    return (
        f"the machine was too busy to tell (the fastest run took {time_text(fast)}, but a quarter "
        f"of the runs {time_text(slow)} or more, over {BUSY:g} times as long); "
        "profile again when less is running"
    )
