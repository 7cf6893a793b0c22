"""The older import path of ``maxlab.nn.layer``: the same objects, with ``LayerV2`` for
``Module``."""

from __future__ import annotations

from maxlab.nn.layer import (
    Layer,
    LayerList,
    LayerV2,
    Module,
    Shardable,
    add_layer_hook,
    clear_hooks,
    recursive_named_layers,
)

__all__ = [
    "Layer",
    "LayerList",
    "LayerV2",
    "Module",
    "Shardable",
    "add_layer_hook",
    "clear_hooks",
    "recursive_named_layers",
]
