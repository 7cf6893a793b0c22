"""The names of ``max.nn.layer``: modules, lists of layers and hooks."""

from __future__ import annotations

from maxlab.nn.calls import Layer, add_layer_hook, clear_hooks, layer_hooks, remove_layer_hook
from maxlab.nn.lists import LayerList
from maxlab.nn.module import Module, Shardable, recursive_named_layers

LayerV2 = Module
"""The name of ``Module`` in earlier versions."""

__all__ = [
    "Layer",
    "LayerList",
    "LayerV2",
    "Module",
    "Shardable",
    "add_layer_hook",
    "clear_hooks",
    "layer_hooks",
    "recursive_named_layers",
    "remove_layer_hook",
]
