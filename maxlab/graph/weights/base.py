"""The common part of all sources of weights: names by attribute and index, and the data of one
weight.
"""

from __future__ import annotations

import difflib
import heapq
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np

from maxlab.driver.mapped import require_whole
from maxlab.dtype import DType
from maxlab.errors import MissingWeightError, WeightError
from maxlab.graph.operands import as_dtype
from maxlab.graph.quantization import QuantizationEncoding
from maxlab.graph.value import DLPackArray
from maxlab.graph.weight import Weight
from maxlab.ir import DeviceRef, DimLike, Shape
from maxlab.opset.casting import convert
from maxlab.opset.core import Call
from maxlab.opset.quantized import dequantize_reference

_Self = TypeVar("_Self", bound="Weights")
CPU0 = DeviceRef.CPU()
_LONG = 300
"""Characters that a name of a message has at most."""
_AT_ONCE = 1 << 20
"""Quantised numbers that are decoded together."""


@dataclass(eq=False)
class WeightData:
    """The data of one weight: an array and what is known of it.

    ``data`` is a NumPy array, of a type of ``ml_dtypes`` for ``bfloat16`` and 8-bit floats. Data of
    a file is mapped and read-only.

    Example:
        >>> import numpy as np
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph.weights import WeightData
        >>> data = WeightData.from_numpy(np.ones((2, 3), np.float32), "w")
        >>> data.astype(DType.bfloat16).dtype
        DType.bfloat16
    """

    data: DLPackArray
    name: str
    dtype: DType
    shape: Shape
    quantization_encoding: QuantizationEncoding | None = None

    @classmethod
    def from_numpy(cls, arr: np.ndarray[Any, Any], name: str) -> WeightData:
        """The data ``arr``, which is not copied, under ``name``.

        Raises:
            DTypeError: ML103, not numbers.
        """
        return cls(arr, name, DType.from_numpy(arr.dtype), Shape(arr.shape))

    def astype(self, dtype: DType) -> WeightData:
        """The data converted to ``dtype``, by the rules of ``ops.cast``; itself when it has that
        dtype. Quantised data becomes the numbers that its blocks stand for.

        Raises:
            ArgumentTypeError: ML399, ``dtype`` is not a ``DType``.
            EncodingError: ML736, the data is quantised in ``GPTQ``, which takes more than one
                weight to decode.
            WeightFileError: ML639 or ML641, the file of the data has changed since it was opened.
        """
        dtype = as_dtype("astype", dtype)
        if self.dtype is dtype:
            return self
        array = source = _array(self.data)
        with np.errstate(all="ignore"):
            if self.quantization_encoding is not None:
                array = _numbers(array, self.quantization_encoding)
            elif self.dtype.is_float() and self.dtype.size_in_bits <= 8:
                array = array.astype(np.float32)  # exact, and ml_dtypes lacks some direct casts
            made = convert(array, dtype)
        require_whole([source.ctypes.data])
        return WeightData(made, self.name, dtype, Shape(made.shape))

    def __dlpack__(self, **kwargs: Any) -> Any:
        """The DLPack capsule of the data.

        Raises:
            BufferError: DLPack has no such dtype, or the data is read-only and a copy was refused.
            WeightFileError: ML639 or ML641, the file of the data has changed since it was opened.
        """
        array = _array(self.data)
        require_whole([array.ctypes.data])
        if array.dtype.isbuiltin == 1:
            return array.__dlpack__(**kwargs)
        from maxlab.driver import Tensor  # knows the dtypes that NumPy does not

        bits = array.view(f"u{array.dtype.itemsize}")
        return Tensor.from_numpy(bits).view(self.dtype).__dlpack__(**kwargs)

    def __dlpack_device__(self) -> Any:
        """The device of the data, as DLPack numbers it."""
        return self.data.__dlpack_device__()

    def __repr__(self) -> str:
        return f"WeightData({self.name!r}, dtype={self.dtype}, shape={list(self.shape)!r})"


def _numbers(blocks: np.ndarray[Any, Any], encoding: QuantizationEncoding) -> np.ndarray[Any, Any]:
    """The float32 numbers of ``[..., bytes of blocks]``."""
    size, each = encoding.block_size, encoding.elements_per_block
    decode = dequantize_reference
    rows = blocks.reshape(-1, size)
    made = np.empty((len(rows), each), np.float32)
    step = _AT_ONCE // each
    for at in range(0, len(rows), step):  # decoding takes far more memory than its result
        part = rows[at : at + step]
        call = Call({"encoding": str(encoding.value)}, ((len(part), each),), (DType.float32,), {})
        made[at : at + step] = decode(call, part)
    return made.reshape(*blocks.shape[:-1], blocks.shape[-1] // size * each)


def _array(data: Any) -> np.ndarray[Any, Any]:
    return data if isinstance(data, np.ndarray) else np.from_dlpack(data)


@runtime_checkable
class Weights(Protocol):
    """Weights found by name: ``weights.layers[0].attention.wq`` is the one named
    ``layers.0.attention.wq``.

    An accessor stands for a name or for a prefix of names; which one is known when it is asked for
    data.
    """

    @property
    def name(self) -> str:
        """The name or prefix, built from attributes and indices: ``"layers.0"``."""
        ...

    def items(self: _Self) -> Iterator[tuple[str, _Self]]:
        """``(name, accessor)`` of each weight below this prefix; the name is relative to the
        prefix."""
        ...

    def __getattr__(self: _Self, attr: str) -> _Self: ...

    def __getitem__(self: _Self, idx: int | str) -> _Self: ...

    def exists(self) -> bool:
        """Whether there is a weight of exactly this name."""
        ...

    def data(self) -> WeightData:
        """The data of the weight of this name.

        Raises:
            MissingWeightError: ML630 (a KeyError), there is none.
        """
        ...

    def allocate(
        self,
        dtype: DType | None = None,
        shape: Iterable[DimLike] | None = None,
        quantization_encoding: QuantizationEncoding | None = None,
        device: DeviceRef = CPU0,
    ) -> Weight:
        """A ``Weight`` of this name.

        Args:
            dtype: The dtype that the data must have; whatever it has when it is left out.
            shape: The shape that the data must have; whatever it has when it is left out.
            quantization_encoding: The encoding that the data must have; whatever it has when it is
                left out.
            device: The device where the weight lives.

        Raises:
            MissingWeightError: ML630, there is no weight of this name.
            WeightError: ML631, the dtype or shape differs; ML746, the encoding differs.
        """
        ...

    @property
    def allocated_weights(self) -> dict[str, DLPackArray]:
        """The data of the weights that were allocated, by name."""
        ...


def step(prefix: str, part: int | str) -> str:
    """The name ``part`` below ``prefix``."""
    return f"{prefix}.{part}" if prefix else str(part)


def below(prefix: str, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """``(relative, full)`` for each of ``names`` that stands below ``prefix``, in order."""
    start = f"{prefix}." if prefix else ""
    for name in names:
        if name.startswith(start):
            yield name[len(start) :], name


def no_attribute(cls: type, attr: str) -> AttributeError:
    """The error of a name that Python asks objects for, which is no weight."""
    return AttributeError(f"{cls.__name__!r} object has no attribute {attr!r}")


def missing(name: str, known: Iterable[str]) -> MissingWeightError:
    """The error of a name that no weight has, with the names that come near."""
    names = list(known)
    near = near_names(name, names, 3)
    under = list(itertools.islice((full for _, full in below(name, names)), 1))
    fix = None
    if under:
        fix = f"{name!r} is a prefix; go on to a weight such as {under[0]!r}"
    elif near:
        fix = "did you mean " + " or ".join(repr(n) for n in near) + "?"
    shown = name if len(name) < _LONG else f"{name[:_LONG]}…"
    return MissingWeightError("ML630", f"there is no weight named {shown!r}", fix=fix)


def near_names(name: str, known: Iterable[str], count: int) -> list[str]:
    """The names that come nearest to ``name``, at most ``count``, the nearest first."""
    # Comparing is slow: names that begin and end alike are compared, in a large checkpoint.
    short = [other for other in known if len(other) < _LONG]
    alike = heapq.nlargest(200, short, key=lambda other: _common(name[:_LONG], other))
    return difflib.get_close_matches(name[:_LONG], alike, count)


def _common(one: str, other: str) -> int:
    """How many characters two names begin and end with alike."""
    ends = zip(reversed(one), reversed(other), strict=False)
    return sum(
        sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
        for pairs in (zip(one, other, strict=False), ends)
    )


def check(
    name: str,
    dtype: DType,
    shape: Shape,
    wanted_dtype: DType | None,
    wanted_shape: Iterable[DimLike] | None,
) -> None:
    """Raises unless a weight has the dtype and shape that ``allocate`` asks for.

    Raises:
        WeightError: ML631.
    """
    if wanted_dtype is not None and wanted_dtype is not dtype:
        raise WeightError(
            "ML631",
            f"the weight {name!r} has the dtype {dtype.name}, expected {wanted_dtype.name}",
            fix=f"convert it: weights.data().astype(DType.{wanted_dtype.name}), or leave dtype out",
        )
    if wanted_shape is not None and Shape(wanted_shape) != shape:
        wanted = ", ".join(map(str, Shape(wanted_shape)))
        raise WeightError(
            "ML631",
            f"the weight {name!r} has the shape [{', '.join(map(str, shape))}], "
            f"expected [{wanted}]",
            fix="correct the model's configuration, or leave shape out",
        )


def check_encoding(
    name: str,
    dtype: DType,
    encoding: QuantizationEncoding | None,
    wanted: QuantizationEncoding | None,
) -> None:
    """Raises unless a weight has the encoding that ``allocate`` asks for.

    Raises:
        WeightError: ML746.
    """
    if wanted is not None and wanted is not encoding:
        raise WeightError(
            "ML746",
            f"the weight {name!r} is {encoding or f'{dtype.name}, not quantised'}, "
            f"expected {wanted}",
            fix="leave quantization_encoding out to take what the weight has",
        )
