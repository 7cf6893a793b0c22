"""How many tokens of prompts fit beside next tokens, from the time that steps have taken."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from statistics import median

LEAST, UNIT = 16, 4
"""The fewest tokens of prompts beside next tokens, and what their number is a multiple of: each
number of tokens is another size that the model is bound to."""
STEPS, NEAR, MIXED = 64, 9, 32
"""Steps of next tokens that are remembered; those with about as many requests that say how long one
takes; and steps with tokens of prompts beside them that say what these cost."""
SLOW = 1.1
"""How many times its expected time a step may have taken that says what tokens of prompts cost."""
ENOUGH = 4
"""Steps of both kinds without which nothing is said."""


class Pace:
    """Chooses how many tokens of a prompt are computed beside next tokens.

    A step of next tokens alone takes some time; with the tokens of a prompt it takes longer, and so
    all requests wait longer for their next token. The more of a prompt one step takes, the fewer
    steps delay its first token. How long both take depends on the model and the machine, so it is
    measured while requests are answered: steps of next tokens give their own time, and what steps
    with tokens of prompts took beyond it gives the cost of a token, one part for itself and one for
    each token before it, by least squares.

    Args:
        times: How many times as long as a step of next tokens alone a step should take.

    Example:
        >>> pace = Pace(3.0)
        >>> for _ in range(4):
        ...     pace.add(8, (), 0.02)  # next tokens of 8 requests
        >>> for _ in range(4):
        ...     pace.add(8, [(0, 32)], 0.052)  # the first 32 tokens of a prompt beside them
        >>> pace.tokens(8, 0)
        40
    """

    def __init__(self, times: float) -> None:
        self._times = times
        self._alone: deque[tuple[int, float]] = deque(maxlen=STEPS)
        self._mixed: deque[tuple[float, float, float]] = deque(maxlen=MIXED)

    def add(self, requests: int, parts: Sequence[tuple[int, int]], seconds: float) -> None:
        """Learns from a step.

        Args:
            requests: The number of requests that got their next token.
            parts: Of each prompt, the number of its tokens that were cached before, and of those
                that were computed.
            seconds: How long the step took.
        """
        if not requests:
            return
        if not parts:
            self._alone.appendleft((requests, seconds))
            return
        before = self._step_of(requests)
        if before is not None:
            own = float(sum(count for _, count in parts))
            seen = float(sum(count * (start + count / 2) for start, count in parts))
            self._mixed.append((own, seen, max(seconds - before, 0.0)))

    def tokens(self, requests: int, start: int) -> int | None:
        """The number of tokens of a prompt that fit beside the next tokens of so many requests;
        None as long as too little is known.

        Args:
            requests: The number of requests that get their next token.
            start: The number of tokens of the prompt that are cached.
        """
        before = self._step_of(requests)
        if before is None or len(self._mixed) < ENOUGH:
            return None
        each, seen = self._costs()
        room = (self._times - 1) * before
        # count * each + count * (start + count / 2) * seen = room
        linear = each + start * seen
        root = math.sqrt(linear * linear + 2 * seen * room)
        if linear + root <= 0:
            return None
        return max(round(2 * room / (linear + root) / UNIT) * UNIT, LEAST)

    def _step_of(self, requests: int) -> float | None:
        """Seconds of a step of next tokens alone: of the latest with about as many requests."""
        if len(self._alone) < ENOUGH:
            return None
        near = sorted(self._alone, key=lambda one: abs(one[0] - requests))  # newest first
        return median(seconds for _, seconds in near[:NEAR])

    def _costs(self) -> tuple[float, float]:
        """Seconds for a token of a prompt, and for each token that is before it.

        Steps that took much longer than that says are left out in a second turn: in them the model
        was bound to new sizes, or the machine was busy.
        """
        each, more = _least_squares(self._mixed)
        usual = [one for one in self._mixed if one[2] <= SLOW * (each * one[0] + more * one[1])]
        return _least_squares(usual) if ENOUGH <= len(usual) < len(self._mixed) else (each, more)


def _least_squares(steps: Iterable[tuple[float, float, float]]) -> tuple[float, float]:
    """The factors of the first two numbers whose sums are nearest to the third; none below 0."""
    aa = ab = bb = at = bt = 0.0
    for own, seen, took in steps:
        aa, ab, bb = aa + own * own, ab + own * seen, bb + seen * seen
        at, bt = at + own * took, bt + seen * took
    spread = aa * bb - ab * ab
    if spread > 1e-9 * aa * bb:
        each, more = (at * bb - bt * ab) / spread, (bt * aa - at * ab) / spread
        if each < 0:
            return 0.0, max(bt / bb, 0.0)
        if more >= 0:
            return each, more
    return at / aa, 0.0


__all__ = ["Pace"]
