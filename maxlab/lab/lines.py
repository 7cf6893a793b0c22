"""Which lines of a text became others: as little as tells it, in time that hardly grows faster than
the text."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple


class Lines(NamedTuple):
    """Lines that stand in the place of others.

    Attributes:
        start: The first line of the text before that is another, from 0.
        removed: How many lines of it are gone.
        lines: What stands there now.
    """

    start: int
    removed: int
    lines: list[str]


def differences(before: Sequence[str], now: Sequence[str]) -> list[Lines]:
    """The changes that make ``now`` of ``before``, from the first line to the last; places are
    those of ``before``.

    Lines that stand once in both are taken for the same, as many as keep their order. Almost all
    lines of a document are such: each has an id.

    Example:
        >>> for one in differences("a b c d e".split(), "a x c d".split()):
        ...     print(*one)
        1 1 ['x']
        4 1 []
    """
    made: list[Lines] = []
    at, to = 0, 0
    for there, here in (*_anchors(before, now), (len(before), len(now))):
        start, new = at, to
        while start < there and new < here and before[start] == now[new]:
            start, new = start + 1, new + 1
        end, last = there, here
        while end > start and last > new and before[end - 1] == now[last - 1]:
            end, last = end - 1, last - 1
        if end > start or last > new:
            made.append(Lines(start, end - start, list(now[new:last])))
        at, to = there, here
    return made


def _anchors(before: Sequence[str], now: Sequence[str]) -> list[tuple[int, int]]:
    """The places of lines that stand once in both and in the same order, as many as there are."""
    most = min(len(before), len(now))
    start = 0
    while start < most and before[start] == now[start]:
        start += 1
    tail = 0
    while tail < most - start and before[-1 - tail] == now[-1 - tail]:
        tail += 1
    end = len(before) - tail
    old = Counter(before[start:end])
    new = Counter(now[start : len(now) - tail])
    places = {
        line: place
        for place, line in enumerate(now[start : len(now) - tail], start)
        if new[line] == 1 and old[line] == 1
    }
    # The longest run of places that grow: of each length, the one that ends first.
    ends: list[int] = []
    runs: list[tuple[int, int, int]] = []  # of each line: its places, and the one before it
    newest: list[int] = []
    for place in range(start, end):
        there = places.get(before[place])
        if there is None:
            continue
        length = bisect_left(ends, there)
        runs.append((place, there, newest[length - 1] if length else -1))
        ends[length : length + 1] = [there]
        newest[length : length + 1] = [len(runs) - 1]
    found = []
    one = newest[-1] if newest else -1
    while one >= 0:
        found.append(runs[one][:2])
        one = runs[one][2]
    return found[::-1]


__all__ = ["Lines", "differences"]
