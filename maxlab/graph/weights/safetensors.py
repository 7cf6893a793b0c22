"""Reading safetensors files: a JSON header, checked in full, and data that is mapped into memory,
not copied."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping, Sequence, Set
from typing import Any, Self, TypeAlias

from maxlab.driver.mapped import FileMemory
from maxlab.dtype import DType
from maxlab.errors import WeightError
from maxlab.graph.staged import placed
from maxlab.graph.value import DLPackArray
from maxlab.graph.weights.accessor import Facts, FileWeights
from maxlab.graph.weights.mapped import MAX_RANK, MappedFile, WeightBytes, addressable
from maxlab.ir import Shape
from maxlab.opset.core import Array

MAX_HEADER_BYTES = 100_000_000  # the limit that the format sets

DTYPES = {
    "BOOL": DType.bool,
    "U8": DType.uint8,
    "I8": DType.int8,
    "U16": DType.uint16,
    "I16": DType.int16,
    "U32": DType.uint32,
    "I32": DType.int32,
    "U64": DType.uint64,
    "I64": DType.int64,
    "F16": DType.float16,
    "BF16": DType.bfloat16,
    "F32": DType.float32,
    "F64": DType.float64,
    "F8_E4M3": DType.float8_e4m3fn,
    "F8_E4M3FNUZ": DType.float8_e4m3fnuz,
    "F8_E5M2": DType.float8_e5m2,
    "F8_E5M2FNUZ": DType.float8_e5m2fnuz,
    "F8_E8M0": DType.float8_e8m0fnu,
}


Entry: TypeAlias = tuple[str, tuple[int, ...], int, int]
"""One tensor of a file: its dtype as the file spells it, its shape, and where its bytes begin and
end. A plain tuple: Python's collector of garbage looks at other objects again and again, and a
checkpoint has up to hundreds of thousands of these."""


class SafetensorsFile:
    """An open file: its checked header, and its bytes, read-only.

    Args:
        path: The file.
        private: Read the file into memory of its own, where it is mapped otherwise.
        opened: The open file, when somebody has opened it in another way.

    Raises:
        WeightError: ML632, the file cannot be opened; ML633, it is not a whole, well-formed
            safetensors file.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        private: bool = False,
        *,
        opened: WeightBytes | None = None,
    ) -> None:
        self._file = file = opened or MappedFile(path, "safetensors", private)
        self.path = file.path
        if file.size < 8:
            raise file.bad(f"it has {file.size} bytes, less than the 8 of the header's length")
        length = int.from_bytes(file.take(0, 8), "little")
        left = file.size - 8
        if length > MAX_HEADER_BYTES or length > left:
            raise file.bad(f"its header claims {length} bytes, the file has {left} after it")
        self._start = 8 + length
        self.metadata: dict[str, str] = {}
        self.entries = self._parse(file.take(8, self._start), file.size - self._start)
        file.require_whole()

    def _parse(self, header: bytes, nbytes: int) -> dict[str, Entry]:
        try:
            read = json.loads(header.decode("utf-8"), object_pairs_hook=self._object)
        except (ValueError, RecursionError) as error:
            if isinstance(error, WeightError):
                raise
            raise self._file.bad("its header is not JSON") from error
        if not isinstance(read, dict):
            raise self._file.bad("its header is not a JSON object")
        metadata = read.pop("__metadata__", {})
        if isinstance(metadata, dict):
            self.metadata = {str(k): str(v) for k, v in metadata.items()}
        for name, value in read.items():
            self._check(name, value)
        entries: dict[str, Entry] = read
        # The format leaves no byte out and uses none twice.
        at = 0
        for name, (_, _, begin, end) in sorted(entries.items(), key=lambda item: item[1][2:]):
            if begin != at:
                what = "overlaps another" if begin < at else "leaves a gap before it"
                raise self._file.bad(f"the tensor {name!r} {what}")
            at = end
        if at != nbytes:
            raise self._file.bad(f"its tensors take {at} bytes, the file has {nbytes} for them")
        return entries

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any] | Entry:
        """An object of the header: an entry where it is one, so that nothing larger is kept."""
        found = dict(pairs)
        if len(found) != len(pairs):
            raise self._file.bad("its header has a name twice")
        fields: list[Any] = [found.get(key) for key in ("dtype", "shape", "data_offsets")]
        spelling, shape, offsets = fields
        if isinstance(spelling, str) and _sizes(shape) and _sizes(offsets, 2):
            return (sys.intern(spelling), tuple(shape), *offsets)
        return found

    def _check(self, name: str, value: Any) -> None:
        """Raises unless ``value`` is the entry of a tensor that can be.

        Raises:
            WeightError: ML633.
        """
        if not isinstance(value, tuple):
            lacks = f"the entry of {name!r} lacks a dtype, shape or data_offsets"
            isnt = f"the entry of {name!r} is not an object"
            raise self._file.bad(lacks if isinstance(value, dict) else isnt)
        spelling, shape, begin, end = value
        dtype = DTYPES.get(spelling)
        if not addressable(shape, dtype.size_in_bytes if dtype else 1):
            raise self._file.bad(f"the tensor {name!r} has a shape that no memory can hold")
        if end < begin:
            raise self._file.bad(f"the tensor {name!r} ends before it begins")
        if dtype is not None and math.prod(shape) * dtype.size_in_bytes != end - begin:
            raise self._file.bad(
                f"the tensor {name!r} is {spelling} {list(shape)} and has {end - begin} bytes"
            )

    def dtype(self, name: str) -> DType:
        """The dtype of the tensor ``name``.

        Raises:
            WeightError: ML634, a dtype that tensors of the graph cannot have.
        """
        spelling = self.entries[name][0]
        dtype = DTYPES.get(spelling)
        if dtype is None:
            raise WeightError(
                "ML634",
                f"the weight {name!r} of {self.path} has the dtype {spelling}, which no "
                "tensor of a graph can have",
                fix="convert it before saving the file",
            )
        return dtype

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of the tensor ``name``."""
        return self.entries[name][1]

    def read(self, name: str) -> Array:
        """The tensor ``name``, read-only and not copied unless its bytes are misaligned.

        Raises:
            WeightError: ML634, a dtype that tensors of the graph cannot have.
            WeightFileError: ML639 or ML641, the file has changed since it was opened.
        """
        _, shape, begin, _ = self.entries[name]
        return self._file.view(name, self._start + begin, self.dtype(name), shape)

    def place(self, name: str) -> tuple[int, int]:
        """Where in the file the bytes of the tensor ``name`` begin, and where they end."""
        _, _, begin, end = self.entries[name]
        return self._start + begin, self._start + end

    @property
    def memory(self) -> FileMemory | None:
        """Its bytes; None for a file that is not in memory."""
        return self._file.map if isinstance(self._file, MappedFile) else None


def _sizes(value: Any, count: int | None = None) -> bool:
    return (
        isinstance(value, list)
        and (len(value) <= MAX_RANK if count is None else len(value) == count)
        and all(type(n) is int and 0 <= n < 2**63 for n in value)
    )


class SafetensorWeights(FileWeights):
    """The weights of safetensors files, found by attribute and index.

    Opening reads the headers alone; a tensor is mapped, not copied, when its data is asked for.

    Args:
        filepaths: The files of one checkpoint.
        tensors: The names to show; all of them when it is left out.
        tensors_to_file_idx: Which of ``filepaths`` has each name; read from the files when it is
            left out.
        prefix: The name that this accessor stands for.
        allocated: Where allocated weights are recorded; shared by all accessors that come from one
            another.
        private: Read the files into memory of their own, where they are mapped otherwise.
        _st_weight_map: Tensors that were read before.
        _st_file_handles: Files that were opened before.

    Raises:
        WeightError: ML632, a file cannot be opened; ML633, a file is damaged; ML635, a name stands
            in two files.

    Example:
        >>> from pathlib import Path
        >>> from maxlab.graph.weights import SafetensorWeights
        >>> weights = SafetensorWeights([Path("model.safetensors")])  # doctest: +SKIP
        >>> wq = weights.layers[0].attention.wq.allocate()  # doctest: +SKIP
    """

    __slots__ = ("_filepaths", "_files", "_private")

    @placed
    def __init__(
        self,
        filepaths: Sequence[os.PathLike[str]],
        *,
        tensors: Set[str] | None = None,
        tensors_to_file_idx: Mapping[str, int] | None = None,
        prefix: str = "",
        allocated: dict[str, DLPackArray] | None = None,
        private: bool = False,
        _st_weight_map: dict[str, Array] | None = None,
        _st_file_handles: dict[str, SafetensorsFile] | None = None,
    ) -> None:
        super().__init__(prefix, allocated, _st_weight_map)
        if isinstance(filepaths, (str, bytes, os.PathLike)):
            raise WeightError(
                "ML636",
                f"expected a list of weight files, got the path {os.fspath(filepaths)!r}",
                fix=f"write [Path({os.fspath(filepaths)!r})]",
            )
        self._filepaths = [os.fspath(path) for path in filepaths]
        self._private = private
        self._files = {} if _st_file_handles is None else _st_file_handles
        index = self._index() if tensors_to_file_idx is None else tensors_to_file_idx
        self._table: Mapping[str, int] = index
        if tensors is not None:
            self._table = {name: i for name, i in index.items() if name in tensors}

    def _index(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for number in range(len(self._filepaths)):
            for name in self._file(number).entries:
                if name in found:
                    raise WeightError(
                        "ML635",
                        f"the weight {name!r} stands in {self._filepaths[found[name]]} and in "
                        f"{self._filepaths[number]}",
                        fix="give the files of one checkpoint",
                    )
                found[name] = number
        return found

    def _file(self, number: int) -> SafetensorsFile:
        path = self._filepaths[number]
        file = self._files.get(path)
        if file is None:
            file = self._files[path] = SafetensorsFile(path, self._private)
        return file

    def _holder(self, name: str) -> SafetensorsFile:
        number = self._table[name]
        file = self._file(number) if 0 <= number < len(self._filepaths) else None
        if file is None or name not in file.entries:
            where = "no file" if file is None else file.path
            raise WeightError(
                "ML749",
                f"the index puts the weight {name!r} into {where}, which does not have it",
                fix="download the index and all of its files again",
            )
        return file

    def _share(self, other: Self) -> None:
        super()._share(other)
        other._filepaths = self._filepaths
        other._files = self._files
        other._private = self._private

    def _open(self, name: str) -> Array:
        return self._holder(name).read(name)

    def _memory(self, name: str) -> FileMemory | None:
        return self._holder(name).memory

    def _known(self, name: str) -> Facts:
        read = self._read.get(name)
        if read is not None:
            return Facts(DType.from_numpy(read.dtype), Shape(read.shape))
        file = self._holder(name)
        return Facts(file.dtype(name), Shape(file.shape(name)))

    def __repr__(self) -> str:
        return f"SafetensorWeights({self._prefix!r}, {len(self._filepaths)} files)"
