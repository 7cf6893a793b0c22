"""The cost of reading JSON of unknown origin, found without reading it: its depth, and the memory
of the objects that it would become.

A few kilobytes that are packed well unpack to millions of empty lists, each of which takes forty
times the memory of its text. Only punctuation outside of texts makes objects, so it is counted,
in steps, with functions that look at many bytes at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

# Bytes of memory in CPython 3.11 to 3.14, rounded up to what its allocator gives.
_CONTAINER = 80
"""A list or an object that is empty."""
_FIRST_FIELDS, _FIELD = 120, 32
"""The table of an object that is not empty, and what a field adds to it."""
_FIRST_ITEMS, _ITEM = 40, 10
_TEXT, _NUMBER = 64, 32
"""A text beside its characters; a number that is none of the small ones, which are there once."""

_STEP = 1 << 16
_MOST_KEYS = 10_000
_LARGE = re.compile(rb"-\d|[-+.\deE]{3,}")
_DEPTHS = np.zeros(256, np.int32)
_DEPTHS[[ord("["), ord("{")]] = 1
_DEPTHS[[ord("]"), ord("}")]] = -1


@dataclass(slots=True)
class Costs:
    """The cost of reading JSON.

    Attributes:
        depth: How many lists and objects are inside of each other at most.
        nbytes: Bytes of memory, with those of the text itself; seldom more than twice as many as
            it turns out to be, and never much fewer.
    """

    depth: int
    nbytes: int


def costs_of(raw: bytes) -> Costs:
    """The cost of reading the JSON ``raw``; that of broken JSON, up to where it is broken.

    Example:
        >>> costs_of(b'{"a": [1, 2, "[[["]}').depth
        2
        >>> costs_of(b"[" + b"[]," * 10_000 + b"[]]").nbytes // 10_000
        99
    """
    scan = _Scan()
    for step in _steps(raw):
        scan.add(step)
    # Bytes of a character: in the text that is decoded, and in the texts that are read from it. One
    # wide character makes a text wide, and an escape may stand for one.
    width = 1 if scan.highest < 0xC4 else 2 if scan.highest < 0xF0 else 4
    texts = 4 if b"\\u" in raw else width
    containers = scan.lists + scan.objects
    filled = containers - scan.empty_lists - scan.empty_objects
    value_texts = max(scan.quotes // 2 - scan.fields, 0)
    nbytes = (
        (1 + width + texts) * len(raw)
        + _CONTAINER * containers
        + _FIRST_FIELDS * (scan.objects - scan.empty_objects)
        + _FIELD * scan.fields
        + _FIRST_ITEMS * (scan.lists - scan.empty_lists)
        + _ITEM * (scan.commas + filled)
        + _TEXT * (value_texts + scan.fields - scan.repeated_keys)
        + _NUMBER * scan.numbers
    )
    return Costs(scan.deepest, nbytes)


@dataclass(slots=True)
class _Scan:
    """Counts of what stands outside of texts."""

    lists: int = 0
    empty_lists: int = 0
    objects: int = 0
    empty_objects: int = 0
    fields: int = 0
    repeated_keys: int = 0
    commas: int = 0
    numbers: int = 0
    quotes: int = 0
    highest: int = 0
    deepest: int = 0
    _depth: int = 0
    _inside: bool = False
    _keys: set[bytes] = field(default_factory=set)

    def add(self, step: bytes) -> None:
        """Count ``step``, which begins where the one before it ended."""
        # Escaped quotes end no text. Two bytes that no text may have take the place of escapes, so
        # that texts that differ still do.
        plain = step.replace(b"\\\\", b"\0\0").replace(b'\\"', b"\0\1")
        pieces = plain.split(b'"')
        first = int(self._inside)
        outside = b'"'.join(pieces[first::2])
        self.lists += outside.count(b"[")
        self.empty_lists += outside.count(b"[]")
        self.objects += outside.count(b"{")
        self.empty_objects += outside.count(b"{}")
        self.fields += outside.count(b":")
        self.commas += outside.count(b",")
        self.numbers += len(_LARGE.findall(outside))
        self.quotes += len(pieces) - 1
        self.highest = max(self.highest, max(step))  # noqa: PLW3301 - of many bytes
        self._count_keys(pieces, 1 - first)
        depths = np.cumsum(_DEPTHS[np.frombuffer(outside, np.uint8)])
        if len(depths):
            self.deepest = max(self.deepest, self._depth + int(depths.max()))
            self._depth += int(depths[-1])
        self._inside ^= len(pieces) % 2 == 0

    def _count_keys(self, pieces: list[bytes], first: int) -> None:
        """Count the keys that were there before, which take no memory of their own.

        ``pieces[first]`` is a text, and so is each other piece after it.
        """
        keys = [
            text
            for text, behind in zip(pieces[first::2], pieces[first + 1 :: 2], strict=False)
            if behind[:1] == b":"
        ]
        if len(self._keys) < _MOST_KEYS:
            new = set(keys) - self._keys
            self._keys |= new
            self.repeated_keys += len(keys) - len(new)
        else:
            self.repeated_keys += sum(key in self._keys for key in keys)


def _steps(raw: bytes) -> Iterator[bytes]:
    """``raw`` in steps, none of which ends between a backslash and what it escapes."""
    start = 0
    while start < len(raw):
        step = raw[start : start + _STEP]
        if (len(step) - len(step.rstrip(b"\\"))) % 2 and len(step) > 1:
            step = step[:-1]
        start += len(step)
        yield step


__all__ = ["Costs", "costs_of"]
