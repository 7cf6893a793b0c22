"""Modules: weights with names, layers made of layers, and the layers of everyday models."""

from __future__ import annotations

from maxlab.nn import comm, embedding, layer, linear, norm, sequential
from maxlab.nn.calls import Layer, add_layer_hook, clear_hooks, layer_hooks
from maxlab.nn.embedding import Embedding, EmbeddingV1, EmbeddingV2
from maxlab.nn.linear import MLP, MLPV1, Linear, LinearV1
from maxlab.nn.lists import LayerList, Sequential
from maxlab.nn.module import Module, Shardable, recursive_named_layers
from maxlab.nn.norm import (
    ConstantLayerNorm,
    GroupNorm,
    LayerNorm,
    LayerNormV1,
    RMSNorm,
    RMSNormV1,
)

__all__ = [
    "Module",
    "Layer",
    "LayerList",
    "Sequential",
    "Shardable",
    "Linear",
    "MLP",
    "Embedding",
    "LayerNorm",
    "RMSNorm",
    "GroupNorm",
    "ConstantLayerNorm",
    "add_layer_hook",
    "clear_hooks",
    "layer_hooks",
    "recursive_named_layers",
    "EmbeddingV1",
    "EmbeddingV2",
    "LayerNormV1",
    "LinearV1",
    "MLPV1",
    "RMSNormV1",
    "comm",
    "embedding",
    "layer",
    "linear",
    "norm",
    "sequential",
]
