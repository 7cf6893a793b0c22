"""Python's garbage collector, paused while something is made that is not garbage, or where a
collection would hang.

The collector looks at all objects of a process again and again while many are made. A compilation
makes hundreds of thousands that stay, in processes, such as notebooks, that have millions: a third
and more of its time went there. What it leaves unused is collected afterwards.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_pauses = 0
_was_on = False


@contextmanager
def paused() -> Iterator[None]:
    """Pause the collector in the block; several threads may, and it goes on when the last is done.

    Nothing happens where it is off already. Objects that no cycle holds are freed as always.

    Example:
        >>> import gc
        >>> from maxlab.collector import paused
        >>> with paused():
        ...     gc.isenabled()
        False
        >>> gc.isenabled()
        True
    """
    global _pauses, _was_on
    with _lock:
        if not _pauses:
            _was_on = gc.isenabled()
            gc.disable()
        _pauses += 1
    try:
        yield
    finally:
        with _lock:
            _pauses -= 1
            if not _pauses and _was_on:
                gc.enable()


@contextmanager
def importing() -> Iterator[None]:
    """Pause the collector in the block, which makes modules, and count what is new among what is
    old afterwards: all that an import makes stays, and the collector would look at it three times.
    It still finds cycles there when it looks at all objects.

    Example:
        >>> from maxlab.collector import importing
        >>> with importing():
        ...     import maxlab.driver
    """
    with paused():
        yield
        # Both together move what is young to what is old. Somebody who keeps objects from the
        # collector for good would find them given back to it.
        if not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()
