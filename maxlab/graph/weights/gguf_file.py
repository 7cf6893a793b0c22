"""Parsing GGUF files: metadata, which is decoded when it is asked for, and where each tensor lies.

A file is a header (magic, version, two counts), the metadata (keys with typed values), the
descriptions of the tensors, and their data. Dims are written with the fastest one first, so a shape
is read backwards. The data of quantised tensors are blocks of bytes along the last dim.
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import WeightError
from maxlab.graph.weights.mapped import MappedFile, WeightBytes, addressable, overlap
from maxlab.opset.core import Array

MAX_STRINGS = 1 << 24
"""The most strings that the arrays of one file may hold: walking over more would take minutes."""
MAX_DEPTH = 8
"""The most arrays inside of one another."""


class Kind(NamedTuple):
    """A type of tensor data: its name, the numbers in a block and the bytes of a block."""

    name: str
    numbers: int
    nbytes: int
    dtype: DType | None = None
    """The dtype that the data is read as; None for blocks."""


KINDS = {
    0: Kind("F32", 1, 4, DType.float32),
    1: Kind("F16", 1, 2, DType.float16),
    2: Kind("Q4_0", 32, 18),
    3: Kind("Q4_1", 32, 20),
    6: Kind("Q5_0", 32, 22),
    7: Kind("Q5_1", 32, 24),
    8: Kind("Q8_0", 32, 34),
    10: Kind("Q2_K", 256, 84),
    11: Kind("Q3_K", 256, 110),
    12: Kind("Q4_K", 256, 144),
    13: Kind("Q5_K", 256, 176),
    14: Kind("Q6_K", 256, 210),
    15: Kind("Q8_K", 256, 292),
    16: Kind("IQ2_XXS", 256, 66),
    17: Kind("IQ2_XS", 256, 74),
    18: Kind("IQ3_XXS", 256, 98),
    19: Kind("IQ1_S", 256, 50),
    20: Kind("IQ4_NL", 32, 18),
    21: Kind("IQ3_S", 256, 110),
    22: Kind("IQ2_S", 256, 82),
    23: Kind("IQ4_XS", 256, 136),
    24: Kind("I8", 1, 1, DType.int8),
    25: Kind("I16", 1, 2, DType.int16),
    26: Kind("I32", 1, 4, DType.int32),
    27: Kind("I64", 1, 8, DType.int64),
    28: Kind("F64", 1, 8, DType.float64),
    29: Kind("IQ1_M", 256, 56),
    30: Kind("BF16", 1, 2, DType.bfloat16),
    34: Kind("TQ1_0", 256, 54),
    35: Kind("TQ2_0", 256, 66),
    39: Kind("MXFP4", 32, 17),
}
"""The types of tensor data by their numbers in a file, those without a use in files left out."""

ENCODINGS = frozenset({"Q4_0", "Q4_K", "Q5_K", "Q6_K"})
"""The block types that are members of ``QuantizationEncoding`` under the same name."""

_NUMBERS: dict[int, np.dtype[Any]] = {
    0: np.dtype("<u1"),
    1: np.dtype("<i1"),
    2: np.dtype("<u2"),
    3: np.dtype("<i2"),
    4: np.dtype("<u4"),
    5: np.dtype("<i4"),
    6: np.dtype("<f4"),
    7: np.dtype("?"),
    10: np.dtype("<u8"),
    11: np.dtype("<i8"),
    12: np.dtype("<f8"),
}
_STRING, _ARRAY = 8, 9
_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")


@dataclass(frozen=True, slots=True, eq=False)
class GGUFTensor:
    """One tensor of a file: its type, its shape and where its bytes are."""

    path: str
    name: str
    number: int
    kind: Kind | None
    """Its type; None for one that this version does not know, whose ``number`` says which."""
    logical: tuple[int, ...]
    """The shape of the numbers, slowest dim first."""
    source: GGUFFile | Array
    """The file, or the bytes when another reader has found them."""
    begin: int = 0

    @property
    def spelling(self) -> str:
        """The name of its type."""
        return self.kind.name if self.kind else f"type {self.number}"

    @property
    def encoding(self) -> str | None:
        """The name of its ``QuantizationEncoding``, or None for plain numbers.

        Raises:
            WeightError: ML634, a type that tensors of the graph cannot have.
        """
        if self.kind is None or (self.kind.dtype is None and self.kind.name not in ENCODINGS):
            raise WeightError(
                "ML634",
                f"the weight {self.name!r} of {self.path} has the type {self.spelling}, which no "
                "tensor of a graph can have",
                fix="quantise the model to one of " + ", ".join(sorted(ENCODINGS)),
            )
        return None if self.kind.dtype else self.kind.name

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array: that of the blocks' bytes for a quantised tensor."""
        if self.kind is None or self.kind.dtype is not None:
            return self.logical
        *rest, last = self.logical
        return (*rest, last // self.kind.numbers * self.kind.nbytes)

    @property
    def nbytes(self) -> int:
        """The bytes it takes; 0 when its type is not known."""
        if self.kind is None:
            return 0
        return math.prod(self.logical) // self.kind.numbers * self.kind.nbytes

    @property
    def dtype(self) -> DType:
        """The dtype that it is read as: ``uint8`` for blocks."""
        return (self.kind and self.kind.dtype) or DType.uint8

    def read(self) -> Array:
        """Its data, read-only: numbers, or the bytes of the blocks."""
        if isinstance(self.source, GGUFFile):
            return self.source.mapped.view(self.name, self.begin, self.dtype, self.shape)
        array = np.ascontiguousarray(self.source).reshape(-1).view(np.uint8)
        array = array.view(self.dtype.ml_numpy).reshape(self.shape)
        array.flags.writeable = False
        return array


class GGUFFile:
    """An open GGUF file: its metadata and its tensors.

    Args:
        path: The file, of version 2 or 3, little-endian.
        private: Read it into memory of its own, where it is mapped otherwise.
        opened: The open file, when somebody has opened it in another way.

    Raises:
        WeightError: ML632, it cannot be opened; ML633, it is cut off or damaged; ML637, a version
            or a byte order that is not read.

    Example:
        >>> from maxlab.graph.weights.gguf_file import GGUFFile
        >>> GGUFFile("model.gguf").metadata["general.architecture"]  # doctest: +SKIP
        'llama'
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        private: bool = False,
        *,
        opened: WeightBytes | None = None,
    ) -> None:
        self.mapped = opened or MappedFile(path, "GGUF", private)
        self.path = self.mapped.path
        self._at = 0
        self._strings = 0
        if self._take(4, "magic") != b"GGUF":
            raise self.mapped.bad("it does not begin with GGUF")
        self.version = self._u32("version")
        if self.version not in (2, 3):
            swapped = self.version & 0xFFFF == 0 and self.version
            what = "is big-endian" if swapped else f"has the version {self.version}"
            raise self.mapped.unreadable(
                f"it {what}; little-endian files of versions 2 and 3 are read",
                "convert the model again with a current llama.cpp",
            )
        tensors, pairs = self._u64("count of tensors"), self._u64("count of metadata")
        self._room(pairs, 13, "metadata")
        self._room(tensors, 24, "tensors")
        self.metadata = self._metadata(pairs)
        alignment = self.metadata.get("general.alignment", 32)
        if type(alignment) is not int or alignment <= 0 or alignment & (alignment - 1):
            raise self.mapped.bad("its alignment is not a power of two")
        self._align = alignment
        self.tensors = self._tensors(tensors)
        self.mapped.require_whole()

    # ------------------------------------------------------------ bytes
    def _room(self, count: int, each: int, what: str) -> None:
        if count * each > self.mapped.size - self._at:
            raise self.mapped.bad(f"it claims {count} {what}, and ends before they can")

    def _skip(self, nbytes: int, what: str) -> int:
        at = self._at
        self._room(nbytes, 1, f"bytes of {what}")
        self._at += nbytes
        self.mapped.reach(self._at)
        return at

    def _take(self, nbytes: int, what: str) -> bytes:
        at = self._skip(nbytes, what)
        return bytes(self.mapped.head[at : at + nbytes])

    def _u32(self, what: str) -> int:
        found: int = _U32.unpack_from(self.mapped.head, self._skip(4, what))[0]
        return found

    def _u64(self, what: str) -> int:
        found: int = _U64.unpack_from(self.mapped.head, self._skip(8, what))[0]
        return found

    def text(self, begin: int, end: int) -> str:
        """The text of these bytes.

        Raises:
            WeightError: ML633, it is not UTF-8.
        """
        try:
            return self.mapped.head[begin:end].decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.mapped.bad("a text in it is not UTF-8") from error

    def _name(self, what: str) -> str:
        length = self._u64(what)
        at = self._skip(length, what)
        return self.text(at, at + length)

    # ------------------------------------------------------------ metadata
    def _metadata(self, count: int) -> Metadata:
        found: dict[str, tuple[int, int]] = {}
        for _ in range(count):
            key = self._name("a key")
            if key in found:
                raise self.mapped.bad(f"its metadata has {key!r} twice")
            kind = self._u32("a type of metadata")
            found[key] = (kind, self._at)
            self._pass(kind, 0)
        return Metadata(self, found)

    def _pass(self, kind: int, depth: int) -> None:
        """Walk over a value without making anything of it."""
        number = _NUMBERS.get(kind)
        if number is not None:
            self._skip(number.itemsize, "metadata")
        elif kind == _STRING:
            self._skip(self._u64("a text"), "a text")
        elif kind == _ARRAY and depth >= MAX_DEPTH:
            raise self.mapped.bad(f"its metadata has more than {MAX_DEPTH} arrays in one another")
        elif kind == _ARRAY:
            inner, count = self._u32("a type of metadata"), self._u64("an array")
            number = _NUMBERS.get(inner)
            if number is not None:
                self._skip(count * number.itemsize, "an array")
                return
            self._room(count, 8, "elements")
            self._strings += count
            if self._strings > MAX_STRINGS:
                raise self.mapped.bad(f"its metadata has more than {MAX_STRINGS} texts")
            if inner == _STRING:
                self._pass_strings(count)
                return
            for _ in range(count):
                self._pass(inner, depth + 1)
        else:
            raise self.mapped.bad(f"its metadata has the unknown type {kind}")

    def _pass_strings(self, count: int) -> None:
        at, size, memory, unpack = self._at, self.mapped.size, self.mapped.head, _U64.unpack_from
        have = len(memory)
        for _ in range(count):
            if at + 8 > size:
                break
            if at + 8 > have:
                self.mapped.reach(at + 8)
                have = len(memory)
            at += 8 + unpack(memory, at)[0]
        if at > size or at - self._at < 8 * count:
            raise self.mapped.bad("it ends inside of a text")
        self._at = at
        self.mapped.reach(at)

    # ------------------------------------------------------------ tensors
    def _tensors(self, count: int) -> dict[str, GGUFTensor]:
        described: list[tuple[str, int, tuple[int, ...], int]] = []
        for _ in range(count):
            name = self._name("the name of a tensor")
            rank = self._u32("a rank")
            self._room(rank, 8, "dims")
            if rank > 8:
                raise self.mapped.bad(f"the tensor {name!r} has {rank} dims")
            dims = tuple(self._u64("a dim") for _ in range(rank))
            number, offset = self._u32("a type"), self._u64("an offset")
            described.append((name, number, dims[::-1], offset))
        start = -(-self._at // self._align) * self._align
        tensors: dict[str, GGUFTensor] = {}
        for name, number, shape, offset in described:
            if name in tensors:
                raise self.mapped.bad(f"it has the tensor {name!r} twice")
            tensors[name] = self._tensor(name, number, shape, start, offset)
        shared = overlap({n: (t.begin, t.begin + t.nbytes) for n, t in tensors.items()})
        if shared:
            raise self.mapped.bad(f"the tensors {shared[0]!r} and {shared[1]!r} overlap")
        return tensors

    def _tensor(
        self, name: str, number: int, shape: tuple[int, ...], start: int, offset: int
    ) -> GGUFTensor:
        kind = KINDS.get(number)
        bad = self.mapped.bad
        if not addressable(shape, 8):
            raise bad(f"the tensor {name!r} has a shape that no memory can hold")
        if kind is not None and kind.numbers > 1 and (not shape or shape[-1] % kind.numbers):
            raise bad(
                f"the tensor {name!r} is {kind.name} {list(shape)}, its last dim no multiple of "
                f"{kind.numbers}"
            )
        if offset % self._align:
            raise bad(f"the tensor {name!r} begins at {offset}, no multiple of {self._align}")
        made = GGUFTensor(self.path, name, number, kind, shape, self, start + offset)
        if made.nbytes and made.begin + made.nbytes > self.mapped.size:
            raise bad(f"the tensor {name!r} reaches beyond its end")
        return made


class Metadata(Mapping[str, Any]):
    """The metadata of a file by key. Values are decoded when they are asked for: texts, numbers,
    bools, lists of texts, and arrays of numbers over the file's own memory."""

    def __init__(self, file: GGUFFile, where: dict[str, tuple[int, int]]) -> None:
        self._file = file
        self._where = where

    def __iter__(self) -> Iterator[str]:
        return iter(self._where)

    def __len__(self) -> int:
        return len(self._where)

    def __getitem__(self, key: str) -> Any:
        kind, at = self._where[key]
        value = self._value(kind, at)[0]
        self._file.mapped.require_whole()
        return value

    def brief(self, key: str, most: int) -> tuple[Any, int | None]:
        """The value of ``key``, of an array its first ``most`` elements; and how many elements the
        array has, None for what is no array. Arrays inside of arrays are left out.

        Raises:
            WeightError: ML633, a text in it is not UTF-8.
            WeightFileError: ML639 or ML641, the file has changed since it was opened.
        """
        kind, at = self._where[key]
        if kind != _ARRAY:
            return self[key], None
        memory = self._file.mapped.head
        inner, count = _U32.unpack_from(memory, at)[0], _U64.unpack_from(memory, at + 4)[0]
        at += 12
        values = []
        for _ in range(min(count, most) if inner != _ARRAY else 0):
            value, at = self._value(inner, at)
            values.append(value)
        self._file.mapped.require_whole()
        return values, count

    def _value(self, kind: int, at: int) -> tuple[Any, int]:
        """The value at a place that was walked over before, and where it ends."""
        memory = self._file.mapped.head
        number = _NUMBERS.get(kind)
        if number is not None:
            return np.frombuffer(memory, number, 1, at)[0].item(), at + number.itemsize
        if kind == _STRING:
            begin = at + 8
            end = begin + _U64.unpack_from(memory, at)[0]
            return self._file.text(begin, end), end
        inner, count = _U32.unpack_from(memory, at)[0], _U64.unpack_from(memory, at + 4)[0]
        at += 12
        number = _NUMBERS.get(inner)
        if number is not None:
            if not count:
                return np.empty(0, number), at
            return np.frombuffer(memory, number, count, at), at + count * number.itemsize
        values = []
        for _ in range(count):
            value, at = self._value(inner, at)
            values.append(value)
        return values, at

    def __repr__(self) -> str:
        return f"Metadata({len(self)} keys of {self._file.path})"
