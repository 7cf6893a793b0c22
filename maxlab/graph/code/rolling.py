"""Statements that repeat with the next number, as loops."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from maxlab.graph.code.text import INDENT, WIDTH

LONGEST: Final = 12
"""Statements in one turn of a loop."""
_WEIGHTS: Final = re.compile(r"\bweights?(?:\.\w+(?!\()|\[[^\]]*\])+")
_PREFIX: Final = re.compile(r'\bprefix="[^"{}\\]*"')
_NUMBER: Final = re.compile(r"(?<=\[)\d+(?=\])|(?<=[\".])\d+(?=\.)")


def rolled(lines: Sequence[str], pad: str, new: Callable[[str], str]) -> list[str]:
    """``lines``, statements behind ``pad``, with those that repeat with other weights as loops.

    Args:
        lines: Statements; the same names stand for what goes from turn to turn.
        pad: What they begin with.
        new: Makes a name of the one that is wanted.

    Example:
        >>> lines = [f"x = dense(x, weights.layers[{n}])" for n in range(3)]
        >>> print(*rolled(lines, "", lambda name: name), sep="\\n")
        for i in range(3):
            x = dense(x, weights.layers[i])
    """
    cut = [_parts(line) for line in lines]
    made: list[str] = []
    at = 0
    while at < len(lines):
        found = next(
            (
                (size, turns)
                for size in range(1, LONGEST + 1)
                if (turns := _turns(cut, lines, at, size, pad)) * min(size, 2) > 2
            ),
            None,
        )
        loop = None if found is None else _loop(cut, at, *found, pad, new)
        if found is None or loop is None:
            made.append(lines[at])
            at += 1
        else:
            made += loop
            at += found[0] * found[1]
    return made


Parts = tuple[tuple[str, ...], tuple[int, ...]]


def _parts(line: str) -> Parts:
    """The text of ``line`` around the numbers of weights, and these numbers."""
    spans = [
        (found.start() + number.start(), found.start() + number.end())
        for pattern in (_WEIGHTS, _PREFIX)
        for found in pattern.finditer(line)
        for number in _NUMBER.finditer(found[0])
    ]
    texts, numbers, at = [], [], 0
    for begin, end in sorted(spans):
        texts.append(line[at:begin])
        numbers.append(int(line[begin:end]))
        at = end
    return (*texts, line[at:]), tuple(numbers)


def _turns(cut: Sequence[Parts], lines: Sequence[str], at: int, size: int, pad: str) -> int:
    """How many turns of a loop of ``size`` statements there are from ``at`` on."""
    block = lines[at : at + size]
    if any(not line.startswith(pad) or line[len(pad) :][:1] in ("", " ", ")") for line in block):
        return 0
    if any(line.rstrip().endswith(("(", "[", "{", ":", ",")) for line in block):
        return 0
    turns = 1
    while at + size * (turns + 1) <= len(lines):
        for n in range(size):
            first, other = cut[at + n], cut[at + size * turns + n]
            steps = [b - a for a, b in zip(first[1], other[1], strict=False)]
            if first[0] != other[0] or any(step not in (0, turns) for step in steps):
                return turns if turns > 1 else 0
        turns += 1
    return turns if turns > 1 else 0


def _loop(
    cut: Sequence[Parts], at: int, size: int, turns: int, pad: str, new: Callable[[str], str]
) -> list[str] | None:
    """The loop; None where its turns do not count, or count from different numbers."""
    starts = set()
    for n in range(size):
        (_, first), (_, second) = cut[at + n], cut[at + size + n]
        starts |= {a for a, b in zip(first, second, strict=True) if a != b}
        for turn in range(2, turns):
            _, other = cut[at + size * turn + n]
            moved = [b - a for a, b in zip(first, other, strict=True)]
            if moved != [(b - a) * turn for a, b in zip(first, second, strict=True)]:
                return None
    if len(starts) != 1:
        return None
    (start,) = starts
    counter = new("i")
    bounds = f"{start}, {start + turns}" if start else f"{turns}"
    made = [f"{pad}for {counter} in range({bounds}):"]
    for n in range(size):
        (texts, first), (_, second) = cut[at + n], cut[at + size + n]
        line = texts[0]
        for a, b, text in zip(first, second, texts[1:], strict=True):
            line += (
                str(a) if a == b else counter if line.endswith("[") else f"{{{counter}}}"
            ) + text
        if "{" in line:
            line = line.replace('prefix="', 'prefix=f"')
        made.append(INDENT + line)
    return made if all(len(line) <= WIDTH for line in made) else None


__all__ = ["rolled"]
