"""The caches of this machine's processor."""

from __future__ import annotations

import functools
from pathlib import Path

USUAL = 32 << 20
"""The bytes that are assumed where the system does not say."""
_PLACE = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def size_of(text: str) -> int:
    """The bytes that a size of a cache says; 0 for what is none.

    Example:
        >>> size_of("32768K"), size_of("?")
        (33554432, 0)
    """
    text = text.strip()
    unit = _UNITS.get(text[-1:].upper())
    digits = text[:-1] if unit else text
    return int(digits) * (unit or 1) if digits.isdecimal() else 0


@functools.cache
def last_bytes() -> int:
    """The bytes of the largest cache of a processor."""
    try:
        texts = [path.read_text(encoding="ascii") for path in _PLACE.glob("index*/size")]
    except (OSError, UnicodeDecodeError):
        texts = []
    return max(map(size_of, texts), default=0) or USUAL


__all__ = ["USUAL", "last_bytes", "size_of"]
