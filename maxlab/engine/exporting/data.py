"""The weights of an exported model: one file that the program maps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

import numpy as np

from maxlab.compiler import Compiled
from maxlab.compiler.plan import Plan, Slot
from maxlab.digests import blake2b
from maxlab.driver import Tensor
from maxlab.engine.weights import Prepared
from maxlab.toolchain.cffi_abi import ffi

MAGIC = b"maxlabW1"
HEAD = 64
"""Bytes ahead of the first array: the magic, 8 bytes that are zero, 16 of an id."""
ALIGNMENT = 64
_STEP = 16 << 20


class Exportable(Protocol):
    """The parts of a model that an export reads.

    Attributes:
        compiled: Its plan.
        runner: What runs it; ``runner.executable.placed`` has its devices beside the host.
    """

    compiled: Compiled
    runner: Any

    @property
    def prepared(self) -> Prepared:
        """Its weights."""


@dataclass(frozen=True, slots=True)
class Piece:
    """An array in the file.

    Attributes:
        slot: The number of its slot.
        offset: Where it begins.
        nbytes: Its length.
        data: Its bytes.
    """

    slot: int
    offset: int
    nbytes: int
    data: memoryview


@dataclass(frozen=True, slots=True)
class Data:
    """All arrays of a model.

    Attributes:
        pieces: By the numbers of their slots.
        nbytes: The length of the file; 0 where there are none.
        id: 16 bytes that stand for the content.
        keep: What owns the arrays.
    """

    pieces: dict[int, Piece]
    nbytes: int
    id: bytes
    keep: list[object]

    def write(self, file: BinaryIO) -> None:
        """Write the file."""
        file.write(MAGIC + bytes(8) + self.id + bytes(HEAD - 32))
        at = HEAD
        for piece in self.pieces.values():
            file.write(bytes(piece.offset - at))
            file.writelines(_parts(piece.data))
            at = piece.offset + piece.nbytes


def _parts(data: memoryview) -> Iterator[memoryview]:
    for start in range(0, len(data), _STEP):
        yield data[start : start + _STEP]


def data_of(model: Exportable) -> Data:
    """The arrays that the kernels of ``model`` read, or that what they read is packed from.

    Packed operands are not among them: how they lie depends on the processor, so the program packs
    them itself.
    """
    plan, prepared = model.compiled.plan, model.prepared
    keep: list[object] = [prepared]
    again: dict[str, Tensor] | None = None
    pieces: dict[int, Piece] = {}
    offset = HEAD
    digest = blake2b(digest_size=16)
    for slot in _wanted(plan):
        nbytes = slot.nbytes.evaluate({})
        address = prepared.addresses.get(slot.number)
        if slot.data is not None:
            array = np.ascontiguousarray(slot.data)
            keep.append(array)
            data = array.reshape(-1).view(np.uint8).data[:nbytes]
        else:
            if address is None:  # computed when it was loaded, and only packing has read it
                if again is None:
                    assert prepared.again is not None
                    again = dict(prepared.again())
                    keep.append(again)
                address = again[slot.name].address
            data = memoryview(ffi.buffer(ffi.cast("char *", address), nbytes)).cast("B")
        for part in _parts(data):
            digest.update(part)
        pieces[slot.number] = Piece(slot.number, offset, len(data), data)
        offset += -(-len(data) // ALIGNMENT) * ALIGNMENT
    last = next(reversed(pieces.values()), None)
    total = 0 if last is None else last.offset + last.nbytes
    return Data(pieces, total, digest.digest(), keep)


def _wanted(plan: Plan) -> Iterator[Slot]:
    read = {number for step in plan.steps for number in step.pointers}
    packed = {s.packing.source for s in plan.slots if s.packing is not None}
    for slot in plan.slots:
        if slot.kind in ("weight", "constant") and slot.number in read | packed:
            yield slot


__all__ = ["ALIGNMENT", "HEAD", "MAGIC", "Data", "Exportable", "Piece", "data_of"]
