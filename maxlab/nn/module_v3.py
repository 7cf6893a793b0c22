"""The modules of ``maxlab.experimental.nn`` under the name that earlier versions have for them."""

from __future__ import annotations

from maxlab.experimental.nn import (
    Embedding,
    LayerNorm,
    Linear,
    Module,
    Sequential,
    module_dataclass,
)

__all__ = ["Embedding", "LayerNorm", "Linear", "Module", "Sequential", "module_dataclass"]
