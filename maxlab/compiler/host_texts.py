"""Kernels of the CPU that are printed when they are needed: what they are printed from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from maxlab.compiler.codegen.c import print_rows, strip_of
from maxlab.compiler.codegen.columns import print_columns
from maxlab.compiler.codegen.streams import print_streams, streams
from maxlab.compiler.conventions import AROUND, BLOCK
from maxlab.compiler.loops import Kernel, walk
from maxlab.compiler.printed import Printed
from maxlab.opset import scalar_weight


@dataclass(frozen=True, slots=True)
class StripsText:
    """A map, row or column kernel that goes through long rows in strips, behind each of which it
    asks whether to go on.

    Attributes:
        kernel: Its loops.
        kept: Rows of numbers that it keeps.
    """

    kernel: Kernel
    kept: int

    def printed(self) -> Printed:
        """The text."""
        weight = weight_of(self.kernel)
        if self.kernel.kind == "col":
            return print_columns(self.kernel, strip_of(weight * BLOCK))
        return print_rows(self.kernel, self.kept, strip_of(weight))


@dataclass(frozen=True, slots=True)
class StreamsText:
    """A map kernel that writes around the caches; see `codegen.streams`.

    Attributes:
        kernel: Its loops.
        ids: The ids of its ops, which the loops call by their numbers.
    """

    kernel: Kernel
    ids: tuple[str, ...]

    def printed(self) -> Printed:
        """The text."""
        return print_streams(self.kernel).named(self.ids)


OtherText = StreamsText


def others_of(kernel: Kernel, ids: Sequence[str]) -> dict[str, Printed | OtherText]:
    """The other texts of a generated ``kernel``, whose ops have these ``ids``, by the names of the
    variants that run them."""
    return {AROUND: StreamsText(kernel, tuple(ids))} if streams(kernel) else {}


def weight_of(kernel: Kernel) -> int:
    """Scalar operations for each element of the inner axis."""
    total = 1
    for node in walk(list(kernel.expressions())):
        if node.varies:
            total += scalar_weight(node.data) if node.kind == "op" else 1
    return total


__all__ = ["OtherText", "StreamsText", "StripsText", "others_of", "weight_of"]
