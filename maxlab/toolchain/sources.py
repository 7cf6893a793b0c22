"""The kernels that are compiled, and what they become."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

QUICK = "quick"
ASSEMBLED = "assembled"
IMPROVED = "improved"
FIRST = (QUICK, ASSEMBLED)
"""The tiers of what runs until a kernel's own code is there."""


class KernelSource(NamedTuple):
    """A kernel to compile: the symbol ``name`` and the C ``text`` that defines it.

    The text is one external function of type ``mx_fn`` called ``name``, and any static helpers;
    their names must be the kernel's own, for kernels share translation units, unless its first line
    is `ALONE`. The prelude is not part of the text. ``brief`` asks for `Flags.brief`. ``quick``
    lets it begin as quick code, where `Compiler.quick_arguments` change none of its results.
    """

    name: str
    text: str
    brief: bool = False
    quick: bool = False


class LoadedKernel(NamedTuple):
    """A kernel that can be called.

    Attributes:
        name: its symbol.
        address: where its code is, to be put into a step table.
        hit: True if nothing was compiled for it.
        why_miss: None for a hit, else ``"new text"``, ``"flags changed"``,
            ``"compiler changed"``, ``"cpu changed"``, ``"prelude changed"`` or
            ``"corrupt entry rebuilt"``.
        path: the library that holds it.
        ms: milliseconds of compiling (its share of its unit, by length) or of loading.
        handle: the open library, for `maxlab.toolchain.loader.symbol_address`.
        tier: ``"quick"`` of code that is optimised in the background, ``"assembled"`` of parts
            that run while the kernel is compiled in the background, ``"improved"`` of code that has
            taken the place of one of them, else empty.
    """

    name: str
    address: int
    hit: bool
    why_miss: str | None
    path: Path
    ms: float
    handle: Any = None
    tier: str = ""


Better = Callable[[KernelSource, LoadedKernel], object]
"""The type of functions that are told of better code for a kernel, in another thread."""

__all__ = ["ASSEMBLED", "FIRST", "IMPROVED", "QUICK", "Better", "KernelSource", "LoadedKernel"]
