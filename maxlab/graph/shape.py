"""The shapes of tensors."""

from __future__ import annotations

from maxlab.ir import Shape

__all__ = ["Shape"]
