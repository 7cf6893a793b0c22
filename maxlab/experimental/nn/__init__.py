"""Modules of eager tensors: parameters under names, with a computation, called at once or compiled.

``module``      ``Module`` and ``module_dataclass``
``compiling``   a module as one compiled graph
``linear``, ``embedding``, ``norm``, ``sequential``   the layers
``states``      the values of parameters, checked; modules as text

Layers over graphs, with attention, caches and parallel devices, are in ``maxlab.nn``.
"""

from __future__ import annotations

from maxlab.experimental.nn.compiling import CompiledModule
from maxlab.experimental.nn.embedding import Embedding
from maxlab.experimental.nn.linear import Linear
from maxlab.experimental.nn.module import Module, module_dataclass
from maxlab.experimental.nn.norm import LayerNorm
from maxlab.experimental.nn.sequential import Sequential

__all__ = [
    "CompiledModule",
    "Embedding",
    "LayerNorm",
    "Linear",
    "Module",
    "Sequential",
    "module_dataclass",
]
