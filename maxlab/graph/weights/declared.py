"""Weights that are declared by a graph and have no data yet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from maxlab.dtype import DType
from maxlab.errors import WeightError
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
from maxlab.ir import DeviceRef, DimLike


class DeclaredWeights:
    """Names for new weights; ``allocate`` declares one, and the registry gives the data when the
    model is loaded."""

    def __init__(self, prefix: str = "", _declared: dict[str, Weight] | None = None) -> None:
        self._prefix = prefix
        self._declared: dict[str, Weight] = {} if _declared is None else _declared

    @property
    def name(self) -> str:
        """The name or prefix."""
        return self._prefix

    def __getattr__(self, attr: str) -> DeclaredWeights:
        if attr.startswith("_"):
            raise no_attribute(type(self), attr)
        return self[attr]

    def __getitem__(self, idx: int | str) -> DeclaredWeights:
        return DeclaredWeights(step(self._prefix, idx), self._declared)

    def items(self) -> Iterator[tuple[str, DeclaredWeights]]:
        """``(name, accessor)`` of each weight declared below this prefix; the name is relative to
        it."""
        for relative, full in below(self._prefix, list(self._declared)):
            yield relative, DeclaredWeights(full, self._declared)

    def exists(self) -> bool:
        """Whether a weight of exactly this name was declared."""
        return self._prefix in self._declared

    @placed
    def data(self) -> WeightData:
        """Never anything: declared weights have no data.

        Raises:
            MissingWeightError: ML630 (a KeyError), always.
        """
        error = missing(self._prefix, ())
        error.fix = "a graph's own weights get their data when the model is loaded"
        raise error

    @placed
    def allocate(
        self,
        dtype: DType | None = None,
        shape: Iterable[DimLike] | None = None,
        quantization_encoding: QuantizationEncoding | None = None,
        device: DeviceRef = CPU0,
    ) -> Weight:
        """The ``Weight`` of this name; the same one each time.

        Args:
            dtype: Its element type; needed the first time.
            shape: Its dims; needed the first time.
            quantization_encoding: The encoding of its data; when it is left out, none the first
                time and the declared one from then on.
            device: The device where the weight lives.

        Raises:
            WeightError: ML631, the dtype or shape is missing, or is not the declared one; ML746,
                the encoding is not the declared one.
        """
        known, wanted = self._declared.get(self._prefix), quantization_encoding
        if known is not None:
            check(known.name, known.dtype, known.shape, dtype, shape)
            check_encoding(known.name, known.dtype, known.quantization_encoding, wanted)
            return known
        if dtype is None or shape is None:
            raise WeightError(
                "ML631",
                f"the weight {self._prefix!r} has no data to take a dtype and shape from",
                fix="allocate(dtype, shape)",
            )
        made = Weight(self._prefix, dtype, shape, device, quantization_encoding)
        self._declared[self._prefix] = made
        return made

    @property
    def allocated_weights(self) -> dict[str, DLPackArray]:
        """Empty: declared weights have no data."""
        return {}

    def __repr__(self) -> str:
        return f"DeclaredWeights({self._prefix!r})"
