"""Dims that give a shape when they are called, as PyTorch writes ``x.size()``."""

from __future__ import annotations

from functools import cache
from typing import Any

from maxlab.ir.dims import Dim, SymbolicDim


@cache
def _callable(kind: Any) -> Any:
    """The class of dims of the class ``kind`` that give the shape when they are called."""

    def call(self: Any, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    return type(kind.__name__, (kind,), {"__slots__": ("shape",), "__call__": call})


def sizes_of(total: Dim, shape: Any) -> Any:
    """``total``, the number of elements of a tensor of ``shape``, which only a run knows: a dim, as
    NumPy's ``x.size`` is a number; ``x.size()`` is the shape, as PyTorch's."""
    kind: Any = type(total)
    made = object.__new__(_callable(kind))
    made._poly = total.poly
    if isinstance(total, SymbolicDim):
        made.name = total.name
    made.shape = shape
    return made


__all__ = ["sizes_of"]
