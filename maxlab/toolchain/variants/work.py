"""The work of trials: `Work`, a step of the executor, and `cut`, which keeps it short."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from maxlab.errors import ExecutionError
from maxlab.toolchain.library import Runtime


class Work:
    """Runs a kernel by the thread that calls it, on memory of its own.

    Args:
        runtime: The runtime library.
        address: The kernel's address, such as ``runtime.address("mx_k_gemm")``.
        nbytes: The bytes of each of its buffers; they are filled with small numbers.
    """

    def __init__(self, runtime: Runtime, address: int, nbytes: Sequence[int]) -> None:
        ffi, lib = runtime.ffi, runtime.lib
        self._runtime = runtime
        self._function = ffi.cast("mx_fn", address)
        self._team = runtime.team(1)  # the thread that calls
        self._memory = [self._room(size) for size in nbytes]
        self._pointers = ffi.new("void *[]", self._memory or [ffi.NULL])
        self._errors = ffi.new("i64[6]")
        self._execute = lib.mx_execute

    def _room(self, nbytes: int) -> Any:
        ffi, lib = self._runtime.ffi, self._runtime.lib
        made = lib.mx_alloc(max(nbytes, 64))
        if made == ffi.NULL:
            raise MemoryError(f"{nbytes} bytes for a trial")
        ffi.memmove(made, b"\0\0\0\x3e" * 16, 64)  # 0.125, as a float32
        filled = 64
        while filled < nbytes:
            more = min(filled, nbytes - filled, 1 << 20)
            ffi.memmove(ffi.cast("char *", made) + filled, made, more)
            filled += more
        return ffi.gc(made, lib.mx_free, nbytes)

    def run(self, sizes: Sequence[int], extent: int, scratch: int = 0) -> None:
        """Run items 0 to ``extent`` of the kernel with these ``sizes``.

        Raises:
            ExecutionError: ML651, it gave an error.
        """
        self._run(self._function, self._pointers, sizes, extent, scratch)

    def run_at(self, address: int, begin: int, extent: int) -> None:
        """Run ``extent`` items of another kernel for the same buffers, which begin so many bytes
        further on.

        Raises:
            ExecutionError: ML651, it gave an error.
        """
        ffi = self._runtime.ffi
        moved = ffi.new("void *[]", [ffi.cast("char *", one) + begin for one in self._memory])
        self._run(ffi.cast("mx_fn", address), moved, (), extent, 0)

    def _run(
        self, function: Any, pointers: Any, sizes: Sequence[int], extent: int, scratch: int
    ) -> None:
        ffi = self._runtime.ffi
        steps = ffi.new("mx_step[1]", [(function, 0, 0, extent, extent, 0, 0)])
        numbers = ffi.new("i64[]", list(sizes))
        null = ffi.NULL
        code = self._execute(
            self._team, steps, 1, pointers, numbers, null, 0, null, scratch, null, self._errors
        )
        if code:
            raise ExecutionError(
                "ML651",
                f"a trial of variants could not run: the executor's code is {code}",
                fix="free some memory; until then the guess is used",
            )


def cut(sizes: Sequence[tuple[int, int]], most: int) -> list[int]:
    """The sizes of a trial whose work is their product: each is given with what is enough of it,
    and made smaller, from the last one on, until the product is ``most`` or no size is more than
    enough.

    Example:
        >>> cut([(1000, 100), (1000, 10)], 200_000)
        [1000, 200]
    """
    found = [size for size, _ in sizes]
    for at in reversed(range(len(found))):
        work = math.prod(found)
        if work > most:
            found[at] = max(min(found[at], sizes[at][1]), found[at] * most // work)
    return found


__all__ = ["Work", "cut"]
