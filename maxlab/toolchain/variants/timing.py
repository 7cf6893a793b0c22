"""Times variants on a trial: in turns, for a bounded time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from maxlab.toolchain.variants.family import Trial, Variant

BUDGET_NS = 80_000_000
"""The processor time after which no other turn begins: a trial takes one or two milliseconds."""
ROUNDS = 25
"""The most turns of a variant that are timed."""
HOPELESS = {2: 1.5, 4: 1.25, 8: 1.1}
"""A variant that takes so many times as long as the fastest one after so many turns is not timed
again. On a busy machine a few turns may be slow for no fault of their own."""
GAIN = 0.03
"""The least part of the guess's time that another variant must save to be chosen: below it, what
was measured may be noise, and a change costs something too."""

Clock = Callable[[], int]

clock: Clock = time.thread_time_ns
"""Nanoseconds of processor time of this thread: other programs hardly change them."""


def measured(
    variants: Sequence[Variant], trial: Trial, stopped: Callable[[], bool] = lambda: False
) -> dict[str, int]:
    """The nanoseconds of each variant's fastest turn; empty when the time did not suffice for one
    turn of each, or ``stopped`` said to end."""
    now = clock
    begin = now()
    best: dict[str, int] = {}
    for one in variants:  # once for the caches and the pages
        if stopped() or now() - begin > BUDGET_NS:
            return {}
        trial.run(one)
    left = list(variants)
    for turn in range(ROUNDS):
        # Forwards and backwards, so that what slows down meanwhile slows down all of them.
        for one in left if turn % 2 == 0 else reversed(left):
            if stopped() or now() - begin > BUDGET_NS:
                return best if len(best) == len(variants) else {}
            start = now()
            trial.run(one)
            took = max(now() - start, 1)
            best[one.name] = min(best.get(one.name, took), took)
        times = HOPELESS.get(turn + 1)
        if times is not None:
            most = times * min(best.values())
            left = [one for one in left if best[one.name] < most or one is variants[0]]
        if len(left) == 1:
            break
    return best


def fastest(variants: Sequence[Variant], times: dict[str, int]) -> Variant:
    """The variant to take, given its ``times``: the first one, the guess, unless another is faster
    by `GAIN`."""
    guess = variants[0]
    if not times:
        return guess
    found = min(variants, key=lambda one: times[one.name])
    return found if times[found.name] <= (1 - GAIN) * times[guess.name] else guess


__all__ = ["BUDGET_NS", "GAIN", "ROUNDS", "fastest", "measured"]
