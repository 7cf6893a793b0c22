"""The dims of tensors."""

from __future__ import annotations

from maxlab.ir import POC, AlgebraicDim, Dim, DimLike, StaticDim, SymbolicDim

__all__ = ["POC", "AlgebraicDim", "Dim", "DimLike", "StaticDim", "SymbolicDim"]
