"""The common part of the accessors of all file formats: names by attribute and index, data,
allocation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from maxlab.driver.mapped import FileMemory
from maxlab.dtype import DType
from maxlab.graph.quantization import QuantizationEncoding
from maxlab.graph.staged import placed
from maxlab.graph.value import DLPackArray
from maxlab.graph.weight import Weight
from maxlab.graph.weights.base import (
    CPU0,
    WeightData,
    below,
    check,
    check_encoding,
    missing,
    no_attribute,
    step,
)
from maxlab.ir import DeviceRef, DimLike, Shape
from maxlab.opset.core import Array


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts of a weight that are known before its data is read."""

    dtype: DType
    shape: Shape
    encoding: QuantizationEncoding | None = None
    logical: Shape | None = None
    """The shape before quantisation; None when the data is not quantised."""


_UNSET = frozenset({"_allocated", "_prefix", "_read", "_table"})


class FileWeights:
    """The weights of files, found by attribute and index; what the formats have in common.

    A subclass sets ``_table``, what each name stands for, and says how a name is read. Every
    accessor that comes from another one shares the table, the arrays that were read, and the
    record of what was allocated.
    """

    # Not a dict each: a large checkpoint has hundreds of thousands of names, each an accessor.
    __slots__ = ("__weakref__", "_allocated", "_prefix", "_read", "_table")
    _table: Mapping[str, Any]

    def __init__(
        self,
        prefix: str,
        allocated: dict[str, DLPackArray] | None,
        read: dict[str, Array] | None = None,
    ) -> None:
        self._prefix = prefix
        self._allocated: dict[str, DLPackArray] = {} if allocated is None else allocated
        self._read: dict[str, Array] = {} if read is None else read

    # ------------------------------------------------------------ what a format says
    def _open(self, name: str) -> Array:
        """The data of a name of the table."""
        raise NotImplementedError

    def _known(self, name: str) -> Facts:
        """The facts of a name of the table that was not read yet."""
        raise NotImplementedError

    def _memory(self, name: str) -> FileMemory | None:
        """The file that has the data of a name of the table; None when another reader holds it."""
        raise NotImplementedError

    # ------------------------------------------------------------ names
    def _at(self, name: str) -> Self:
        made = object.__new__(type(self))
        self._share(made)
        made._prefix = name
        return made

    def _share(self, other: Self) -> None:
        """Has ``other`` stand for the same files; a subclass adds what it has."""
        other._table = self._table
        other._allocated = self._allocated
        other._read = self._read
        if type(self).__dictoffset__:  # a class that is not of maxlab has attributes of its own
            other.__dict__.update(self.__dict__)

    @property
    def name(self) -> str:
        """The name or prefix, built from attributes and indices: ``"layers.0"``."""
        return self._prefix

    def __getattr__(self, attr: str) -> Self:
        # Python asks for names of its own, and for what is set later.
        if attr.startswith("__") or attr in _UNSET:
            raise no_attribute(type(self), attr)
        asked = getattr(type(self), attr, None)
        if isinstance(asked, property) and asked.fget is not None:
            # It raised, and Python took its AttributeError for a missing attribute: say it again.
            return asked.fget(self)  # type: ignore[no-any-return]
        return self._at(step(self._prefix, attr))

    def __getitem__(self, idx: int | str) -> Self:
        return self._at(step(self._prefix, idx))

    def items(self) -> Iterator[tuple[str, Self]]:
        """``(name, accessor)`` of each weight below this prefix; the name is relative to the
        prefix."""
        for relative, full in below(self._prefix, self._table):
            yield relative, self._at(full)

    def exists(self) -> bool:
        """Whether there is a weight of exactly this name."""
        return self._prefix in self._table

    # ------------------------------------------------------------ data
    def _facts(self) -> Facts:
        if not self.exists():
            raise missing(self._prefix, self._table)
        return self._known(self._prefix)

    def _array(self) -> Array:
        array = self._read.get(self._prefix)
        if array is None:
            if not self.exists():
                raise missing(self._prefix, self._table)
            array = self._read[self._prefix] = self._open(self._prefix)
        else:
            memory = self._memory(self._prefix) if self.exists() else None
            if memory is not None:
                memory.require_whole()
        return array

    @placed
    def data(self) -> WeightData:
        """The data of the weight of this name, read-only, and mapped rather than copied wherever
        the file holds it in order.

        Raises:
            MissingWeightError: ML630 (a KeyError and AttributeError), there is none.
            WeightError: ML634, a type that tensors of the graph cannot have.
            WeightFileError: ML639 or ML641, the file has changed since it was opened.
        """
        facts = self._facts()
        return WeightData(self._array(), self._prefix, facts.dtype, facts.shape, facts.encoding)

    @placed
    def allocate(
        self,
        dtype: DType | None = None,
        shape: Iterable[DimLike] | None = None,
        quantization_encoding: QuantizationEncoding | None = None,
        device: DeviceRef = CPU0,
    ) -> Weight:
        """A ``Weight`` of this name, whose data ``allocated_weights`` has from now on.

        Args:
            dtype: The dtype that the data must have; whatever it has when it is left out. Quantised
                data is ``uint8``.
            shape: The shape that the data must have; whatever it has when it is left out. For
                quantised data, that of its bytes or that of the numbers they stand for.
            quantization_encoding: The encoding that the data must have; whatever it has when it is
                left out.
            device: The device where the weight lives.

        Raises:
            MissingWeightError: ML630, there is no weight of this name.
            WeightError: ML631, the dtype or shape differs; ML634, a type that tensors cannot have;
                ML746, the encoding differs.
        """
        facts = self._facts()
        check_encoding(self._prefix, facts.dtype, facts.encoding, quantization_encoding)
        wanted = None if shape is None else Shape(shape)
        if facts.logical is None or wanted != facts.logical:
            check(self._prefix, facts.dtype, facts.shape, dtype, wanted)
        else:
            check(self._prefix, facts.dtype, facts.shape, dtype, None)
        array = self._array()
        weight = Weight(self._prefix, facts.dtype, facts.shape, device, facts.encoding)
        if facts.logical is not None:
            weight.original_dtype_and_shape = (DType.float32, facts.logical)
        self._allocated[self._prefix] = array
        return weight

    @placed
    def allocate_as_bytes(self, dtype: DType | None = None) -> Weight:
        """A ``Weight`` of this name that holds the bytes of the data as ``uint8``.

        The last dim is multiplied by the bytes of an element; a scalar counts as ``[1]``: float32
        ``[512, 256]`` becomes uint8 ``[512, 1024]``.

        Args:
            dtype: The dtype that the data must have; whatever it has when it is left out.

        Raises:
            MissingWeightError: ML630, there is no weight of this name.
            WeightError: ML631, the dtype differs; ML634, a type that tensors cannot have.
        """
        facts = self._facts()
        check(self._prefix, facts.dtype, facts.shape, dtype, None)
        array = self._array()
        raw = array.reshape(array.shape or (1,)).view(np.uint8)
        weight = Weight(self._prefix, DType.uint8, raw.shape)
        weight.original_dtype_and_shape = (facts.dtype, facts.shape)
        self._allocated[self._prefix] = raw
        return weight

    @property
    def allocated_weights(self) -> dict[str, DLPackArray]:
        """The data of the weights that were allocated from this checkpoint, by name: a registry for
        the engine."""
        return self._allocated

    @property
    @placed
    def dtype(self) -> DType:
        """The dtype of the weight of this name; ``uint8`` when it is quantised. Reads no data.

        Raises:
            MissingWeightError: ML630, there is none.
            WeightError: ML634, a type that tensors cannot have.
        """
        return self._facts().dtype

    @property
    @placed
    def shape(self) -> Shape:
        """The shape of the weight of this name; that of its bytes when it is quantised. Reads no
        data.

        Raises:
            MissingWeightError: ML630, there is none.
            WeightError: ML634, a type that tensors cannot have.
        """
        return self._facts().shape

    @property
    @placed
    def quantization_encoding(self) -> QuantizationEncoding | None:
        """The encoding of the weight of this name, or None when it is not quantised.

        Raises:
            MissingWeightError: ML630, there is none.
            WeightError: ML634, a type that tensors cannot have.
        """
        return self._facts().encoding

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._prefix!r}, {len(self._table)} weights)"
