"""Inputs and outputs of a model: names, shapes and dtypes."""

from __future__ import annotations

from collections.abc import Iterable

from maxlab.dtype import DType
from maxlab.ir.poly import Poly


class TensorSpec:
    """The name, shape and dtype of an input or output of a model."""

    __slots__ = ("_dtype", "_name", "_shape")

    def __init__(self, name: str, shape: list[int | None], dtype: DType) -> None:
        self._name = name
        self._shape = shape
        self._dtype = dtype

    @property
    def name(self) -> str:
        """The name, such as ``input0``."""
        return self._name

    @property
    def shape(self) -> list[int | None]:
        """The sizes; None for a symbolic dim."""
        return list(self._shape)

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self._dtype

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorSpec) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __str__(self) -> str:
        """The name, dtype and shape in short, such as ``input0: float32[?, 8]``."""
        sizes = ", ".join("?" if size is None else str(size) for size in self._shape)
        return f"{self._name}: {self._dtype.name}[{sizes}]"

    def __repr__(self) -> str:
        return f"TensorSpec(name={self._name!r}, shape={self._shape}, dtype={self._dtype.name})"


def spec_of(name: str, shape: Iterable[Poly], dtype: DType) -> TensorSpec:
    """The spec of a value of ``shape`` and ``dtype``."""
    sizes = [size.value if size.is_constant else None for size in shape]
    return TensorSpec(name, sizes, dtype)


__all__ = ["TensorSpec", "spec_of"]
