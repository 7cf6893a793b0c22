"""Parts of weights, brought to their devices when a model is loaded.

A part has, for each axis, the ranges of indices that it takes, one behind the other. The whole
array stays where the registry has it: only what a device needs is copied there, and rows that lie
in one piece on the host are used where they are.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TypeAlias

from maxlab.driver import Device, Tensor, copying

Range: TypeAlias = tuple[int, int]
Part: TypeAlias = tuple[tuple[Range, ...], ...]
"""For each axis, the (start, stop) of each run of indices; empty for all of an array."""


def shape_of(part: Part) -> tuple[int, ...]:
    """The sizes of the axes of ``part``.

    Example:
        >>> shape_of((((0, 2), (4, 6)), ((0, 3),)))
        (4, 3)
    """
    return tuple(sum(stop - start for start, stop in ranges) for ranges in part)


def is_whole_rows(part: Part, shape: Sequence[int]) -> bool:
    """Whether ``part`` lies in one piece in an array of ``shape``."""
    if any(len(ranges) != 1 for ranges in part):
        return False
    inner = zip(part[1:], shape[1:], strict=True)
    return all(ranges[0] == (0, size) for ranges, size in inner)


def view_of(tensor: Tensor, part: Part) -> Tensor:
    """``part`` of ``tensor``, which takes one range of each axis, in the same memory."""
    return tensor[tuple(slice(*ranges[0]) for ranges in part)]


def cut(tensor: Tensor, part: Part, device: Device) -> Tensor:
    """A copy of ``part`` of ``tensor`` on ``device``; nothing else of it is copied there."""
    made = Tensor(tensor.dtype, shape_of(part), device)
    for ranges in itertools.product(*(_placed(axis) for axis in part)):
        source = tensor[tuple(slice(*of) for of, _ in ranges)]
        copying.fill(made[tuple(slice(*to) for _, to in ranges)], source)
    return made


def _placed(ranges: Sequence[Range]) -> list[tuple[Range, Range]]:
    """Each of ``ranges``, and the range of the part that it becomes."""
    found: list[tuple[Range, Range]] = []
    at = 0
    for start, stop in ranges:
        found.append(((start, stop), (at, at + stop - start)))
        at += stop - start
    return found


__all__ = ["Part", "cut", "is_whole_rows", "shape_of", "view_of"]
