"""Whether what a graph prints is printed: `silent`."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_STATE = threading.local()


@contextmanager
def silent() -> Iterator[None]:
    """Let nothing that this thread runs be printed: a run that is only made to know its sizes."""
    before = getattr(_STATE, "silent", False)
    _STATE.silent = True
    try:
        yield
    finally:
        _STATE.silent = before


def is_silent() -> bool:
    """Whether nothing that this thread runs is printed now."""
    return bool(getattr(_STATE, "silent", False))


__all__ = ["is_silent", "silent"]
