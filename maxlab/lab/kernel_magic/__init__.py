"""``%%kernel``: a cell of annotated C and CUDA becomes a kernel library for ``ops.custom``."""

from __future__ import annotations

from maxlab.lab.kernel_magic.magic import define_cell

__all__ = ["define_cell"]
