"""Reading safetensors files: a JSON header, checked in full, and data that is mapped into memory,
not copied."""

from __future__ import annotations

import json
import math
import mmap
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import WeightError
from maxlab.graph.build import staged
from maxlab.graph.value import DLPackArray
from maxlab.graph.weight import Weight
from maxlab.graph.weights.base import CPU0, WeightData, below, check, missing, no_attribute, step
from maxlab.ir import DeviceRef, DimLike, Shape

MAX_HEADER_BYTES = 100_000_000  # the limit that the format sets

_DTYPES = {
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
    "F8_E5M2": DType.float8_e5m2,
    "F8_E8M0": DType.float8_e8m0fnu,
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One tensor of a file: where its bytes are and what they mean."""

    dtype: (
        DType | None
    )  # None: a dtype that tensors of the graph cannot have, which ``spelling`` names
    spelling: str
    shape: tuple[int, ...]
    begin: int
    end: int


class SafetensorsFile:
    """An open file: its checked header, and its bytes mapped read-only.

    Args:
        path: The file.

    Raises:
        WeightError: ML632, the file cannot be opened; ML633, it is not a whole, well-formed
            safetensors file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        try:
            with open(self.path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size < 8:
                    raise self._bad(f"it has {size} bytes, less than the 8 of the header's length")
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise WeightError(
                "ML632",
                f"cannot open the weights {self.path}: {error.strerror or error}",
                fix="check the path",
            ) from error
        length = int.from_bytes(self._map[:8], "little")
        if length > MAX_HEADER_BYTES or length > size - 8:
            raise self._bad(f"its header claims {length} bytes, the file has {size - 8} after it")
        self._start = 8 + length
        self.metadata: dict[str, str] = {}
        self.entries = self._parse(self._map[8 : self._start], size - self._start)

    def _bad(self, why: str) -> WeightError:
        return WeightError(
            "ML633",
            f"{self.path} is not a whole safetensors file: {why}",
            fix="download or save it again",
        )

    def _parse(self, header: bytes, nbytes: int) -> dict[str, Entry]:
        def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
            found = dict(pairs)
            if len(found) != len(pairs):
                raise self._bad("its header has a name twice")
            return found

        try:
            read = json.loads(header.decode("utf-8"), object_pairs_hook=unique)
        except (ValueError, RecursionError) as error:
            if isinstance(error, WeightError):
                raise
            raise self._bad("its header is not JSON") from error
        if not isinstance(read, dict):
            raise self._bad("its header is not a JSON object")
        metadata = read.pop("__metadata__", {})
        if isinstance(metadata, dict):
            self.metadata = {str(k): str(v) for k, v in metadata.items()}
        entries = {name: self._entry(name, value) for name, value in read.items()}
        # The format leaves no byte out and uses none twice.
        at = 0
        for name, entry in sorted(entries.items(), key=lambda item: (item[1].begin, item[1].end)):
            if entry.begin != at:
                what = "overlaps another" if entry.begin < at else "leaves a gap before it"
                raise self._bad(f"the tensor {name!r} {what}")
            at = entry.end
        if at != nbytes:
            raise self._bad(f"its tensors take {at} bytes, the file has {nbytes} for them")
        return entries

    def _entry(self, name: str, value: Any) -> Entry:
        if not isinstance(value, dict):
            raise self._bad(f"the entry of {name!r} is not an object")
        fields: list[Any] = [value.get(k) for k in ("dtype", "shape", "data_offsets")]
        spelling, shape, offsets = fields
        if not isinstance(spelling, str) or not _sizes(shape) or not _sizes(offsets, 2):
            raise self._bad(f"the entry of {name!r} lacks a dtype, shape or data_offsets")
        begin, end = offsets
        dtype = _DTYPES.get(spelling)
        if end < begin:
            raise self._bad(f"the tensor {name!r} ends before it begins")
        if dtype is not None and math.prod(shape) * dtype.size_in_bytes != end - begin:
            raise self._bad(
                f"the tensor {name!r} is {spelling} {shape} and has {end - begin} bytes"
            )
        return Entry(dtype, spelling, tuple(shape), begin, end)

    def read(self, name: str) -> np.ndarray[Any, Any]:
        """The tensor ``name``, read-only and not copied unless its bytes are misaligned.

        Raises:
            WeightError: ML634, a dtype that tensors of the graph cannot have.
        """
        entry = self.entries[name]
        if entry.dtype is None:
            raise WeightError(
                "ML634",
                f"the weight {name!r} of {self.path} has the dtype {entry.spelling}, which no "
                "tensor of a graph can have",
                fix="convert it before saving the file",
            )
        dtype = entry.dtype.ml_numpy
        if entry.begin == entry.end:
            array = np.empty(entry.shape, dtype)
        else:
            count = (entry.end - entry.begin) // dtype.itemsize
            array = np.frombuffer(self._map, dtype, count, self._start + entry.begin)
            array = array.reshape(entry.shape)
            if (self._start + entry.begin) % dtype.itemsize:
                array = array.copy()  # C code may not read misaligned elements
        array.flags.writeable = False
        return array


def _sizes(value: Any, count: int | None = None) -> bool:
    return (
        isinstance(value, list)
        and (count is None or len(value) == count)
        and all(type(n) is int and 0 <= n < 2**63 for n in value)
    )


class SafetensorWeights:
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

    def __init__(
        self,
        filepaths: Sequence[os.PathLike[str]],
        *,
        tensors: Set[str] | None = None,
        tensors_to_file_idx: Mapping[str, int] | None = None,
        prefix: str = "",
        allocated: dict[str, DLPackArray] | None = None,
        _st_weight_map: dict[str, np.ndarray[Any, Any]] | None = None,
        _st_file_handles: dict[str, SafetensorsFile] | None = None,
    ) -> None:
        self._filepaths = [os.fspath(path) for path in filepaths]
        self._prefix = prefix
        self._allocated: dict[str, DLPackArray] = {} if allocated is None else allocated
        self._read = {} if _st_weight_map is None else _st_weight_map
        self._files = {} if _st_file_handles is None else _st_file_handles
        index = self._index() if tensors_to_file_idx is None else tensors_to_file_idx
        self._where: Mapping[str, int] = index
        if tensors is not None and len(tensors) != len(index):
            self._where = {name: i for name, i in index.items() if name in tensors}

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
            file = self._files[path] = SafetensorsFile(path)
        return file

    def _at(self, name: str) -> SafetensorWeights:
        made = object.__new__(SafetensorWeights)
        made.__dict__.update(self.__dict__)
        made._prefix = name
        return made

    @property
    def name(self) -> str:
        """The name or prefix, built from attributes and indices: ``"layers.0"``."""
        return self._prefix

    def __getattr__(self, attr: str) -> SafetensorWeights:
        if attr.startswith("__") or "_where" not in self.__dict__:
            raise no_attribute(type(self), attr)
        return self._at(step(self._prefix, attr))

    def __getitem__(self, idx: int | str) -> SafetensorWeights:
        return self._at(step(self._prefix, idx))

    def items(self) -> Iterator[tuple[str, SafetensorWeights]]:
        """``(name, accessor)`` of each weight below this prefix; the name is relative to the
        prefix."""
        for relative, full in below(self._prefix, self._where):
            yield relative, self._at(full)

    def exists(self) -> bool:
        """Whether there is a weight of exactly this name."""
        return self._prefix in self._where

    def _array(self) -> np.ndarray[Any, Any]:
        array = self._read.get(self._prefix)
        if array is None:
            if not self.exists():
                raise missing(self._prefix, self._where)
            array = self._file(self._where[self._prefix]).read(self._prefix)
            self._read[self._prefix] = array
        return array

    @staged
    def data(self) -> WeightData:
        """The data of the weight of this name, mapped and read-only.

        Raises:
            MissingWeightError: ML630 (a KeyError and AttributeError), there is none.
            WeightError: ML634, a dtype that tensors of the graph cannot have.
        """
        return WeightData.from_numpy(self._array(), self._prefix)

    @staged
    def allocate(
        self,
        dtype: DType | None = None,
        shape: Iterable[DimLike] | None = None,
        quantization_encoding: Any = None,
        device: DeviceRef = CPU0,
    ) -> Weight:
        """A ``Weight`` of this name, whose data ``allocated_weights`` has from now on.

        Args:
            dtype: The dtype that the data must have; whatever it has when it is left out.
            shape: The shape that the data must have; whatever it has when it is left out.
            quantization_encoding: None; quantised weights cannot be used in this version.
            device: The device where the weight lives.

        Raises:
            MissingWeightError: ML630, there is no weight of this name.
            WeightError: ML631, the dtype or shape differs; ML634, a dtype that tensors cannot have.
            GraphError: ML381, a quantization encoding.
        """
        array = self._array()
        found, dims = DType.from_numpy(array.dtype), Shape(array.shape)
        check(self._prefix, found, dims, dtype, shape)
        weight = Weight(self._prefix, found, dims, device, quantization_encoding)
        self._allocated[self._prefix] = array
        return weight

    @staged
    def allocate_as_bytes(self, dtype: DType | None = None) -> Weight:
        """A ``Weight`` of this name that holds the bytes of the data as ``uint8``.

        The last dim is multiplied by the bytes of an element; a scalar counts as ``[1]``: float32
        ``[512, 256]`` becomes uint8 ``[512, 1024]``.

        Args:
            dtype: The dtype that the data must have; whatever it has when it is left out.

        Raises:
            MissingWeightError: ML630, there is no weight of this name.
            WeightError: ML631, the dtype differs.
        """
        array = self._array()
        found, dims = DType.from_numpy(array.dtype), Shape(array.shape)
        check(self._prefix, found, dims, dtype, None)
        raw = array.reshape(array.shape or (1,)).view(np.uint8)
        weight = Weight(self._prefix, DType.uint8, raw.shape)
        weight.original_dtype_and_shape = (found, dims)
        self._allocated[self._prefix] = raw
        return weight

    @property
    def allocated_weights(self) -> dict[str, DLPackArray]:
        """The data of the weights that were allocated from this checkpoint, by name: a registry for
        the engine."""
        return self._allocated

    @property
    def dtype(self) -> DType:
        """The dtype of the weight of this name.

        Raises:
            MissingWeightError: ML630, there is none.
        """
        return DType.from_numpy(self._array().dtype)

    @property
    def shape(self) -> Shape:
        """The shape of the weight of this name.

        Raises:
            MissingWeightError: ML630, there is none.
        """
        return Shape(self._array().shape)

    def __repr__(self) -> str:
        return f"SafetensorWeights({self._prefix!r}, {len(self._filepaths)} files)"
