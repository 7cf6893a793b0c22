"""The custom ops that ``functional.custom`` knows."""

from __future__ import annotations

from typing import Final

from maxlab.graph import KernelLibrary

library: Final = KernelLibrary()
"""The kernel library of tensors: load paths or sources into it, as into one of a graph."""

__all__ = ["library"]
