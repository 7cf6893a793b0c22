"""A weight file that is looked into: its tensors, their numbers along two axes, and statistics.

Nothing of the file is mapped or kept: the description is read when it is opened, and numbers when
they are asked for, so that a file of any size opens at once and one that is cut off ends nothing.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, EncodingError, WeightError
from maxlab.graph.quantization import QuantizationEncoding
from maxlab.graph.weights.base import WeightData
from maxlab.graph.weights.gguf_file import GGUFFile, GGUFTensor
from maxlab.graph.weights.mapped import UnmappedFile
from maxlab.graph.weights.safetensors import SafetensorsFile
from maxlab.ir import Shape
from maxlab.lab.protocol.checks import ValueHistogram
from maxlab.lab.protocol.files import MetadataRow, Span, TensorFacts, TensorRow, TensorSlice

Array = np.ndarray[Any, Any]

MOST_SIDE = 256
"""Rows and columns of a slice, at most: where there are more, every so manyth is taken."""
MOST_SEEN = 1 << 22
"""Numbers that statistics read, at most."""
STRETCHES = 256
"""Parts that are read of a tensor with more numbers than that."""
BARS = 48
"""Bars of a histogram."""
_GAP = 4096
"""Bytes that are rather read than left out."""
_AT_ONCE = 1 << 23
"""Bytes that are read at once, about."""
_LONG = 2000
"""Characters of a value of the metadata."""
_FEW = 6
"""Elements of an array of the metadata that are shown."""
_MOST_ROWS = 5000
"""Entries of the metadata."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor of a file: what it is called, what it is, and where it lies."""

    name: str
    spelling: str
    shape: tuple[int, ...]
    begin: int
    nbytes: int
    dtype: DType | None
    """The dtype of its numbers; None when they are blocks, or of a type that is not read."""
    encoding: QuantizationEncoding | None
    """How its blocks are decoded."""

    @property
    def count(self) -> int:
        """How many numbers it has."""
        return math.prod(self.shape)

    @property
    def why_not(self) -> str:
        """Why its numbers cannot be shown; empty when they can."""
        known = self.dtype is not None or self.encoding is not None
        return "" if known else f"values of the type {self.spelling} cannot be decoded"

    @property
    def unit(self) -> tuple[int, int]:
        """How many numbers are decoded together, and from how many bytes."""
        if self.encoding is not None:
            return self.encoding.elements_per_block, self.encoding.block_size
        return 1, self.dtype.size_in_bytes if self.dtype is not None else 1

    def decode(self, raw: Array) -> Array:
        """The float64 numbers of ``raw``, bytes in rows of a unit each."""
        with np.errstate(all="ignore"):
            if self.encoding is not None:
                blocks = WeightData(raw, self.name, DType.uint8, Shape(raw.shape), self.encoding)
                return np.asarray(blocks.astype(DType.float32).data, np.float64)
            assert self.dtype is not None
            numbers = np.ascontiguousarray(raw).view(self.dtype.ml_numpy)
            if numbers.dtype.isbuiltin != 1:
                numbers = numbers.astype(np.float32)
            return numbers.astype(np.float64)


class WeightFile:
    """An open weight file.

    Args:
        path: A ``.safetensors`` or ``.gguf`` file.

    Raises:
        ArgumentError: ML892, it is called otherwise.
        WeightError: ML632, it cannot be opened; ML633, it is not a whole, well-formed file; ML637,
            a variant of GGUF that is not read.

    Example:
        >>> import tempfile, numpy as np
        >>> from safetensors.numpy import save_file
        >>> path = tempfile.mkdtemp() + "/small.safetensors"
        >>> save_file({"w": np.arange(6, dtype=np.float32).reshape(2, 3)}, path)
        >>> file = WeightFile(path)
        >>> file.tensors[0].shape, file.facts(0)["high"]
        ((2, 3), 5.0)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        suffix = os.path.splitext(os.fspath(path))[1].lower()
        self.format: Literal["safetensors", "GGUF"]
        self.metadata: list[MetadataRow]
        if suffix == ".safetensors":
            self.format = "safetensors"
            self._bytes = UnmappedFile(path, self.format)
            safe = SafetensorsFile(path, opened=self._bytes)
            self.tensors = [_of_safetensors(safe, name) for name in safe.entries]
            self.metadata = [
                (_cut(key), _cut(value)) for key, value in [*safe.metadata.items()][:_MOST_ROWS]
            ]
        elif suffix == ".gguf":
            self.format = "GGUF"
            self._bytes = UnmappedFile(path, self.format)
            file = GGUFFile(path, opened=self._bytes)
            self.tensors = [_of_gguf(tensor) for tensor in file.tensors.values()]
            self.metadata = [
                (_cut(key), _brief(file, key)) for key in [*file.metadata][:_MOST_ROWS]
            ]
        else:
            raise ArgumentError(
                "ML892",
                f"{os.path.basename(os.fspath(path))!r} is not called like a weight file",
                fix="name a file that ends in .safetensors or .gguf",
            )
        self.tensors.sort(key=lambda one: one.begin)
        self._bytes.let_go()

    @property
    def nbytes(self) -> int:
        """The bytes of the file."""
        return self._bytes.size

    def rows(self) -> list[TensorRow]:
        """The tensors, in the order of the file."""
        return [
            (t.name, t.spelling, list(t.shape), t.begin, t.nbytes, t.why_not) for t in self.tensors
        ]

    def close(self) -> None:
        """Close the file."""
        self._bytes.close()

    # ------------------------------------------------------------ numbers
    def slice(
        self,
        tensor: int,
        rows: int,
        columns: int,
        at: list[int],
        window: tuple[int, int, int, int] | None = None,
    ) -> tuple[TensorSlice, bytes]:
        """Numbers of a tensor along two axes, row after row as float64.

        Args:
            tensor: Its place in ``tensors``.
            rows: The axis that goes down; -1 for a single row.
            columns: The axis that goes right; -1 for a single column.
            at: The place on each axis; those of the two axes do not count.
            window: First row, first column, and how many of each; the whole when left out. Where
                that is more than 256 of either, every so manyth is taken.

        Raises:
            ArgumentError: ML892, there is no such tensor, axis or place.
            EncodingError: ML634, its values cannot be decoded.
            WeightFileError: ML639 or ML641, the file has changed since it was opened.
        """
        one = self._tensor(tensor)
        rank = len(one.shape)
        for axis in (rows, columns):
            _require(-1 <= axis < rank, f"the axis {axis} of {one.name!r}, which has {rank}")
        _require(rows != columns or rows == -1, "two different axes")
        _require(len(at) == rank, f"{len(at)} places on the {rank} axes of {one.name!r}")
        sizes = [one.shape[axis] if axis >= 0 else 1 for axis in (rows, columns)]
        top, left, height, width = window or (0, 0, *sizes)
        spans: list[Span] = []
        for axis, size, start, many in (
            (rows, sizes[0], top, height),
            (columns, sizes[1], left, width),
        ):
            _require(
                start >= 0 and many >= 0 and start + many <= size,
                f"{many} places from {start} on of an axis of {size}",
            )
            step = max(1, -(-many // MOST_SIDE))
            spans.append({"axis": axis, "start": start, "step": step, "count": -(-many // step)})
        base = 0
        strides = [math.prod(one.shape[axis + 1 :]) for axis in range(rank)]
        for axis, place in enumerate(at):
            if axis not in (rows, columns):
                _require(
                    0 <= place < one.shape[axis],
                    f"the place {place} on an axis of {one.shape[axis]}",
                )
                base += place * strides[axis]
        down, right = (
            (np.arange(span["count"]) * span["step"] + span["start"])
            * (strides[span["axis"]] if span["axis"] >= 0 else 0)
            for span in spans
        )
        numbers = self._gather(one, (base + down[:, None] + right[None, :]).astype(np.int64))
        finite = numbers[np.isfinite(numbers)]
        body: TensorSlice = {
            "rows": spans[0],
            "columns": spans[1],
            "low": float(finite.min()) if finite.size else None,
            "high": float(finite.max()) if finite.size else None,
        }
        return body, numbers.astype("<f8").tobytes()

    def facts(self, tensor: int) -> TensorFacts:
        """Statistics of a tensor's numbers; of a large one's, those of stretches of it.

        Args:
            tensor: Its place in ``tensors``.

        Raises:
            ArgumentError: ML892, there is no such tensor.
            EncodingError: ML634, its values cannot be decoded.
            WeightFileError: ML639 or ML641, the file has changed since it was opened.
        """
        one = self._tensor(tensor)
        parts = [self._stretch(one, begin, end) for begin, end in _stretches(one)]
        numbers = np.concatenate(parts) if parts else np.zeros(0)
        finite = numbers[np.isfinite(numbers)]
        histogram: ValueHistogram | None = None
        mean = deviation = low = high = None
        if finite.size:
            low, high = float(finite.min()), float(finite.max())
            with np.errstate(all="ignore"):
                mean, deviation = _finite(finite.mean()), _finite(finite.std())
                # Halved, as the distance of the greatest and the least number may be none.
                place = (finite / 2 - low / 2) / (high / 2 - low / 2) * BARS if high > low else 0
            counts = np.bincount(
                np.minimum(np.broadcast_to(place, finite.shape).astype(np.int64), BARS - 1),
                minlength=BARS,
            )
            parts_of = np.arange(BARS + 1) / BARS
            edges = low * (1 - parts_of) + high * parts_of
            histogram = {"edges": edges.tolist(), "counts": counts.tolist()}
        nans = int(np.isnan(numbers).sum())
        return {
            "count": one.count,
            "seen": len(numbers),
            "low": low,
            "high": high,
            "mean": mean,
            "deviation": deviation,
            "zeros": int((numbers == 0).sum()),
            "nans": nans,
            "infinities": len(numbers) - len(finite) - nans,
            "histogram": histogram,
        }

    def _tensor(self, number: int) -> Tensor:
        _require(0 <= number < len(self.tensors), f"the tensor {number} of {len(self.tensors)}")
        one = self.tensors[number]
        if one.why_not:
            raise EncodingError(
                "ML634", f"{one.name!r}: {one.why_not}", fix="its place and size are what is known"
            )
        return one

    def _stretch(self, one: Tensor, begin: int, end: int) -> Array:
        """The numbers from ``begin`` to ``end``, which are multiples of a unit's."""
        numbers, nbytes = one.unit
        found = self._bytes.read(
            one.begin + begin // numbers * nbytes, one.begin + end // numbers * nbytes
        )
        self._bytes.require_whole()
        return one.decode(np.frombuffer(found, np.uint8).reshape(-1, nbytes)).reshape(-1)

    def _gather(self, one: Tensor, places: Array) -> Array:
        """The numbers at ``places``, in the same shape."""
        numbers, nbytes = one.unit
        units, back = np.unique(places.reshape(-1) // numbers, return_inverse=True)
        if not units.size:
            return np.zeros(places.shape)
        starts = units * nbytes
        cuts = np.flatnonzero(np.diff(starts) > nbytes + _GAP) + 1
        raw = np.empty((len(units), nbytes), np.uint8)
        for run in np.split(np.arange(len(units)), cuts):
            for first, last in _portions(starts, int(run[0]), int(run[-1]) + 1):
                begin = int(starts[first])
                found = self._bytes.read(
                    one.begin + begin, one.begin + int(starts[last - 1]) + nbytes
                )
                offsets = (starts[first:last] - begin)[:, None] + np.arange(nbytes)
                raw[first:last] = np.frombuffer(found, np.uint8)[offsets]
        self._bytes.require_whole()
        decoded = one.decode(raw).reshape(len(units), numbers)
        made: Array = decoded[back.reshape(-1), places.reshape(-1) % numbers].reshape(places.shape)
        return made


def _portions(starts: Array, first: int, last: int) -> Iterator[tuple[int, int]]:
    """Ranges of units that lie within so many bytes, from ``first`` to ``last``."""
    while first < last:
        end = int(np.searchsorted(starts[first:last], starts[first] + _AT_ONCE)) + first
        yield first, max(end, first + 1)
        first = max(end, first + 1)


def _stretches(one: Tensor) -> list[tuple[int, int]]:
    """Which numbers of a tensor statistics read: all, or parts that are spread evenly."""
    count = one.count
    if count <= MOST_SEEN:
        return [(0, count)] if count else []
    numbers = one.unit[0]
    each = MOST_SEEN // STRETCHES // numbers * numbers
    last = (count - each) // numbers
    return [
        (begin, begin + each)
        for begin in (round(n * last / (STRETCHES - 1)) * numbers for n in range(STRETCHES))
    ]


def _finite(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None


def _require(holds: bool, asked: str) -> None:
    if not holds:
        raise ArgumentError(
            "ML892", f"there is no such thing to show: {asked}", fix="open the file again"
        )


# ---------------------------------------------------------------- formats


def _of_safetensors(file: SafetensorsFile, name: str) -> Tensor:
    begin, end = file.place(name)
    try:
        dtype = file.dtype(name)
    except WeightError:  # ML634: its place is known all the same
        dtype = None
    shape = file.shape(name)
    return Tensor(name, file.entries[name][0], shape, begin, end - begin, dtype, None)


def _of_gguf(tensor: GGUFTensor) -> Tensor:
    try:
        encoding = tensor.encoding
    except WeightError:
        encoding = None
    return Tensor(
        tensor.name,
        tensor.spelling,
        tensor.logical,
        tensor.begin,
        tensor.nbytes,
        tensor.kind.dtype if tensor.kind is not None else None,
        QuantizationEncoding[encoding] if encoding is not None else None,
    )


def _brief(file: GGUFFile, key: str) -> str:
    """A value of the metadata in few words; that it cannot be read, when it cannot."""
    try:
        value, count = file.metadata.brief(key, _FEW)
    except WeightError as error:
        return error.what.rpartition(": ")[2]
    if count is None:
        return _cut(str(value))
    shown = ", ".join(_cut(str(one), 60) for one in value)
    return f"[{shown}{', …' if shown and count > len(value) else ''}] ({count})"


def _cut(text: str, most: int = _LONG) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


__all__ = ["Tensor", "WeightFile"]
