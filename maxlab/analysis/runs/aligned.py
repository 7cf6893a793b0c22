"""Which entry of one sequence is which of another, in order: what ``diff`` does with lines.

Equal ends are cut off first. What is between is aligned with as few changes as possible while these
are few (Myers), which takes time for what differs and not for how long the sequences are. Where
they are many, entries that stand once in each sequence hold it together, as in a patience diff; and
where there are no such either, equal ones are paired as they come.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Sequence

MOST_CHANGES = 300
"""Changes above which a sequence is taken apart: looking for the fewest takes their square."""

Pairs = list[tuple[int, int]]


def aligned(left: Sequence[Hashable], right: Sequence[Hashable]) -> Pairs:
    """Pairs of places of equal entries, rising in both sequences.

    Example:
        >>> aligned("abcabba", "cabab")
        [(2, 0), (3, 1), (4, 2), (6, 3)]
        >>> len(aligned("x" * 50_000, "x" * 49_999))
        49999
    """
    number: dict[Hashable, int] = {}
    one = [number.setdefault(entry, len(number)) for entry in left]
    other = [number.setdefault(entry, len(number)) for entry in right]
    pairs: Pairs = []
    # Stretches that are still to be aligned, the first on top.
    waiting = [(0, len(one), 0, len(other), True)]
    while waiting:
        a, a_end, b, b_end, is_whole = waiting.pop()
        while a < a_end and b < b_end and one[a] == other[b]:
            pairs.append((a, b))
            a, b = a + 1, b + 1
        while a < a_end and b < b_end and one[a_end - 1] == other[b_end - 1]:
            a_end, b_end = a_end - 1, b_end - 1
            pairs.append((a_end, b_end))
        if a == a_end or b == b_end:
            continue
        mine, theirs = one[a:a_end], other[b:b_end]
        found = _shortest(mine, theirs)
        if found is not None:
            pairs += [(a + n, b + m) for n, m in found]
            continue
        anchors = _anchors(mine, theirs) if is_whole else []
        if not anchors:
            pairs += [(a + n, b + m) for n, m in _as_they_come(mine, theirs)]
            continue
        stretches = []
        for n, m in [*anchors, (len(mine), len(theirs))]:
            stretches.append((a, a_end - len(mine) + n, b, b_end - len(theirs) + m, False))
            a, b = a_end - len(mine) + n, b_end - len(theirs) + m
        waiting += reversed(stretches)
    return sorted(pairs)


def rising(places: Sequence[int]) -> list[bool]:
    """Which of ``places`` are in a longest rising sequence; those below zero never are.

    Example:
        >>> rising([0, 4, 1, -1, 2])
        [True, False, True, False, True]
    """
    last = -1
    for place in places:
        if place >= 0:
            if place < last:
                break
            last = place
    else:
        return [place >= 0 for place in places]
    # Ends of the rising sequences found so far, the lowest for each length, and how each goes on.
    ends: list[int] = []
    lowest: list[int] = []
    back = [-1] * len(places)
    for n, place in enumerate(places):
        if place >= 0:
            length = bisect_left(lowest, place)
            back[n] = ends[length - 1] if length else -1
            ends[length : length + 1] = [n]
            lowest[length : length + 1] = [place]
    found = [False] * len(places)
    at = ends[-1]
    while at >= 0:
        found[at] = True
        at = back[at]
    return found


def _anchors(left: Sequence[int], right: Sequence[int]) -> Pairs:
    """Entries that stand once in each, as many as keep their order."""
    counts, others = Counter(left), Counter(right)
    place = {entry: m for m, entry in enumerate(right) if others[entry] == 1}
    places = [place.get(entry, -1) if counts[entry] == 1 else -1 for entry in left]
    return [(n, places[n]) for n, stays in enumerate(rising(places)) if stays]


def _as_they_come(left: Sequence[int], right: Sequence[int]) -> Pairs:
    """A longest rising sequence of the pairs of the first of each kind with the first."""
    waiting: dict[int, list[int]] = {}
    for m in range(len(right) - 1, -1, -1):
        waiting.setdefault(right[m], []).append(m)
    places = [found.pop() if (found := waiting.get(entry)) else -1 for entry in left]
    return [(n, places[n]) for n, stays in enumerate(rising(places)) if stays]


def _shortest(left: Sequence[int], right: Sequence[int]) -> Pairs | None:
    """The pairs that leave the fewest entries over, by the algorithm of Myers; None when more than
    ``MOST_CHANGES`` are."""
    end = len(left) - len(right)
    # How far each diagonal reaches with so many changes: the diagonal is the place in ``left``
    # less that in ``right``.
    reach = {1: 0}
    steps: list[dict[int, int]] = []
    for changes in range(MOST_CHANGES + 1):
        steps.append(dict(reach))
        for k in range(-changes, changes + 1, 2):
            is_down = k == -changes or (k != changes and reach[k - 1] < reach[k + 1])
            n = reach[k + 1] if is_down else reach[k - 1] + 1
            m = n - k
            while n < len(left) and m < len(right) and left[n] == right[m]:
                n, m = n + 1, m + 1
            reach[k] = n
            if k == end and n >= len(left) and m >= len(right):
                return _walked(steps, len(left), len(right))
    return None


def _walked(steps: Sequence[dict[int, int]], n: int, m: int) -> Pairs:
    """The pairs on the way to the end that ``steps`` found."""
    pairs: Pairs = []
    for changes in range(len(steps) - 1, -1, -1):
        reach = steps[changes]
        k = n - m
        is_down = k == -changes or (k != changes and reach[k - 1] < reach[k + 1])
        before = k + 1 if is_down else k - 1
        start = reach[before] if changes else 0
        floor = start if is_down or not changes else start + 1
        while n > max(floor, 0) and m > 0:
            n, m = n - 1, m - 1
            pairs.append((n, m))
        n, m = start, start - before
    return pairs[::-1]
