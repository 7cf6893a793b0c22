"""Ranges for NVIDIA's tools: what Nsight Systems draws a name over.

The library of them comes with a toolkit (``libnvToolsExt``) or with the wheel ``nvidia-nvtx``
(``libnvtx3interop``). Without it, and without a tool that listens, a range costs nothing and is not
seen.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from maxlab.toolchain.nvlib import NvLibrary, library_paths, open_library

FUNCTIONS: Mapping[str, str] = {
    "nvtxRangePushA": "int(*)(const char *)",
    "nvtxRangePop": "int(*)(void)",
}


def _candidates() -> list[str]:
    wheel = library_paths("nvtx3interop", (1,))
    return [*library_paths("nvToolsExt", (1,)), *wheel, "libnvtx3interop.so"]


@functools.cache
def library() -> NvLibrary | None:
    """The library of ranges; None where there is none."""
    return open_library(_candidates(), FUNCTIONS)


@contextmanager
def ranges(name: str) -> Iterator[None]:
    """Let a range last as long as the ``with`` block, on the thread that runs it.

    Args:
        name: What tools call it.

    Example:
        >>> with ranges("load"):
        ...     pass
    """
    push(name)
    try:
        yield
    finally:
        pop()


def push(name: str) -> None:
    """Begin a range on this thread."""
    found: Any = library()
    if found is not None:
        found.nvtxRangePushA(name.encode())


def pop() -> None:
    """End the newest range of this thread."""
    found: Any = library()
    if found is not None:
        found.nvtxRangePop()


__all__ = ["library", "pop", "push", "ranges"]
