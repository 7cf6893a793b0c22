"""Kernels as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from maxlab.compiler.conventions import THREADS

HEADERS = ("prelude.cuh",)


@dataclass(slots=True)
class Printed:
    """A kernel as text.

    Attributes:
        symbol: ``k_`` and the hash of the text.
        text: The C function.
        symbols: The names whose sizes ``d[0] …`` hold, in order.
        lines: (first line, last line, op id) of the lines that an op became; lines count from 1.
        checked: The ids of the ops whose indices or results are tested, by the number that
            ``ctx->err[2]`` has when one is out of range, or NaN.
    """

    symbol: str
    text: str
    symbols: list[str]
    lines: list[tuple[int, int, str]]
    checked: list[str] = field(default_factory=list)

    def named(self, ids: Sequence[str]) -> Printed:
        """The same with the ids of its ops, which were called by their numbers."""
        lines = [(first, last, ids[int(op)] if op else op) for first, last, op in self.lines]
        checked = [ids[int(op)] if op else op for op in self.checked]
        return Printed(self.symbol, self.text, self.symbols, lines, checked)

    @property
    def logs(self) -> bool:
        """Whether it writes to the log."""
        return "mx_log(" in self.text

    @property
    def reports(self) -> bool:
        """Whether it says anything: to the log, or what it found wrong."""
        return bool(self.checked) or self.logs or "mx_assert(" in self.text


@dataclass(slots=True)
class CudaPrinted(Printed):
    """A kernel as CUDA text.

    Attributes:
        headers: The files of ``kernels/cuda`` that it is read behind.
        width: Elements that one thread takes at a time.
        threads: The threads of a block, at most.
        shared: Bytes of dynamic shared memory, where these do not depend on sizes.
        written: For each pointer, whether the kernel writes to it.
    """

    headers: tuple[str, ...] = HEADERS
    width: int = 1
    threads: int = THREADS
    shared: int = 0
    written: tuple[bool, ...] = ()


__all__ = ["HEADERS", "CudaPrinted", "Printed"]
