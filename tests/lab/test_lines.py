"""Which lines of a text became others."""

from __future__ import annotations

import random

import pytest

from maxlab.lab.lines import Lines, differences


def applied(before: list[str], parts: list[Lines]) -> list[str]:
    made = list(before)
    for part in reversed(parts):
        made[part.start : part.start + part.removed] = part.lines
    return made


@pytest.mark.parametrize("seed", range(200))
def test_they_make_the_one_text_of_the_other(seed: int) -> None:
    rng = random.Random(seed)
    words = [f"n{n}" for n in range(rng.choice((2, 6, 40)))]
    before = [rng.choice(words) for _ in range(rng.randint(0, 40))]
    now = list(before)
    for _ in range(rng.randint(0, 5)):
        place = rng.randint(0, len(now))
        match rng.randint(0, 3):
            case 0:
                now.insert(place, rng.choice(words))
            case 1:
                del now[place : place + 3]
            case 2:
                now[place:place] = now[place + 2 : place + 6]
            case _:
                rng.shuffle(now)
    parts = differences(before, now)
    assert applied(before, parts) == now
    ends = [part.start + part.removed for part in parts]
    assert all(end <= part.start for end, part in zip(ends, parts[1:], strict=False))
    assert not (before == now and parts)


def test_what_is_far_apart_is_told_apart() -> None:
    before = [f"line {n}" for n in range(2000)]
    now = [*before[:3], "new", *before[3:900], "changed", *before[901:1990], *before[1991:]]
    assert differences(before, now) == [
        Lines(3, 0, ["new"]),
        Lines(900, 1, ["changed"]),
        Lines(1990, 1, []),
    ]


def test_what_stands_twice_is_found_too() -> None:
    before = ["{", "}", "{", "a", "}", "{", "}"]
    assert differences(before, ["{", "}", "{", "b", "}", "{", "}"]) == [Lines(3, 1, ["b"])]
