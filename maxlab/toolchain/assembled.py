"""Kernels that are assembled from the parts of others, for the time until their own code is there.

Of thousands of different kernels of one loop most are made of the same few parts: a sum, a product,
a tanh. A `Recipe` says which; each part is a kernel by itself, compiled once for all, and
``kernels/c/parts/assembled.c`` takes elements through the parts. `assembled` gives kernels that can
be called at once, and that have the results of their own code, bit by bit, because a recipe is
never cut where a compiler could round otherwise (`maxlab.compiler.recipes`).

Lists stay as long as the process, since nobody knows when the last run of a kernel has begun; where
there are no more, kernels begin as quick code.
"""

from __future__ import annotations

import sys
import threading
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from maxlab.toolchain import loader
from maxlab.toolchain.cffi_abi import ffi
from maxlab.toolchain.compiler import Compiler
from maxlab.toolchain.prelude import kernels_dir
from maxlab.toolchain.sources import KernelSource, LoadedKernel

LISTS = 1 << 14
"""The most kernels that a process assembles."""
TILE, PLACES, POINTERS = 256, 8, 16
"""Of `assembled.c`: elements that go through all parts at once, places for what parts give to
others, and pointers of a part."""
_APART = 16  # bytes from one function to the next
_KINDS = {"constant": 0, "pointer": 1, "place": 2}


class Pointer(NamedTuple):
    """A pointer of a part.

    Attributes:
        kind: What it points at: a constant, what a pointer of the kernel points at, or a place.
        number: Which pointer, or which place.
        nbytes: The bytes of an element.
        data: The bytes of a constant.
    """

    kind: Literal["constant", "pointer", "place"]
    number: int
    nbytes: int
    data: bytes = b""


class Part(NamedTuple):
    """A part of a kernel: a kernel by itself, and its pointers."""

    source: KernelSource
    pointers: tuple[Pointer, ...]


Recipe = tuple[Part, ...]
"""The parts of a kernel, in their order."""
Find = Callable[[str], Recipe | None]
"""The type of functions that give the recipe of a kernel by its name, if it has one."""


class _Library:
    """The functions of one process.

    Attributes:
        used: How many have a list.
    """

    def __init__(self, kernel: LoadedKernel) -> None:
        found = loader.symbol_address(kernel.handle, "mx_assembled_lists", kernel.path)
        self.kernel = kernel
        self.first = loader.symbol_address(kernel.handle, "mx_assembled_first", kernel.path)
        self.lists = ffi.cast("uintptr_t *", found)
        self.used = 0
        self.kept: list[Any] = []
        self.constants: dict[bytes, int] = {}

    def constant(self, data: bytes) -> int:
        """The address of ``data``."""
        found = self.constants.get(data)
        if found is None:
            held = array("Q", data.ljust(8, b"\0"))
            self.kept.append(held)
            found = self.constants[data] = held.buffer_info()[0]
        return found

    def add(self, recipe: Recipe, addresses: Mapping[KernelSource, int]) -> int:
        """The address of a function for ``recipe``, whose parts are at ``addresses``."""
        words = [len(recipe)]
        for source, pointers in recipe:
            words += (addresses[source], len(pointers))
            for kind, number, nbytes, data in pointers:
                value = self.constant(data) if kind == "constant" else number
                words += (_KINDS[kind], value, nbytes)
        held = array("q", words)
        self.kept.append(held)
        number = self.used
        self.lists[number] = held.buffer_info()[0]
        self.used += 1
        return self.first + number * _APART


_lock = threading.Lock()
_library: _Library | None = None


def can_assemble(compiler: Compiler) -> bool:
    """Whether kernels of ``compiler`` can be: the functions are instructions of one machine, and
    named as Linux names them."""
    return sys.platform == "linux" and compiler.machine == "x86_64"


def assembled(
    recipes: Sequence[Recipe],
    compiled: Callable[[Sequence[KernelSource]], Sequence[LoadedKernel]],
) -> tuple[list[int], LoadedKernel]:
    """The addresses of functions for ``recipes``, of as many as there are functions left, and the
    library that has them.

    Args:
        recipes: Of each kernel.
        compiled: Compiles kernels.
    """
    global _library
    parts = list(dict.fromkeys(part.source for recipe in recipes for part in recipe))
    loaded = compiled(parts)
    addresses = {source: kernel.address for source, kernel in zip(parts, loaded, strict=True)}
    with _lock:
        if _library is None:
            (kernel,) = compiled([source()])
            _library = _Library(kernel)
        left = recipes[: LISTS - _library.used]
        return [_library.add(recipe, addresses) for recipe in left], _library.kernel


def source() -> KernelSource:
    """The kernel that takes elements through parts."""
    text = (kernels_dir() / "c" / "parts" / "assembled.c").read_text(encoding="utf-8")
    first, _, rest = text.partition("\n")
    text = f"{first}\n#define MX_LISTS {LISTS}\n#define MX_TEXT(x) MX_TEXT_OF(x)\n"
    text += f"#define MX_TEXT_OF(x) #x\n{rest}"
    return KernelSource("mx_assembled_first", text)


__all__ = ["Find", "Part", "Pointer", "Recipe", "assembled", "can_assemble", "source"]
