"""Modules: weights with names, layers made of layers, and the layers of everyday models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from maxlab.errors import MissingNameError, missing
from maxlab.graph import ops as functional
from maxlab.nn import (
    attention,
    comm,
    embedding,
    float8_config,
    layer,
    linear,
    norm,
    rotary_embedding,
    sequential,
)
from maxlab.nn.activations import (
    GELU,
    Dropout,
    Flatten,
    Identity,
    ReLU,
    Sigmoid,
    SiLU,
    Softmax,
    Tanh,
)
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

ModuleList = LayerList

__all__ = [
    "Dropout",
    "Flatten",
    "GELU",
    "Identity",
    "ModuleList",
    "ReLU",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Tanh",
    "functional",
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
    "attention",
    "comm",
    "embedding",
    "float8_config",
    "layer",
    "linear",
    "norm",
    "rotary_embedding",
    "sequential",
]

_TORCH = "run the module of PyTorch: maxlab.torch.load(module, x)"
_INSTEAD = {
    "Parameter": "maxlab.graph.Weight(name, dtype, shape) as an attribute of a Module",
    "ModuleDict": "a dict as an attribute of a Module: its layers are found",
    "LogSoftmax": "in the layer's forward: ops.log_softmax(x)",
    "LeakyReLU": "in the layer's forward: ops.leaky_relu(x)",
    "ELU": "in the layer's forward: ops.elu(x)",
    "Softplus": "in the layer's forward: ops.softplus(x)",
    "MultiheadAttention": "in the layer's forward: ops.scaled_dot_product_attention",
    "CrossEntropyLoss": "graphs compute no gradients; for its value: ops.log_softmax",
    "MSELoss": "graphs compute no gradients; for its value: ops.mse_loss",
    "L1Loss": "graphs compute no gradients; for its value: ops.l1_loss",
    **{f"BatchNorm{n}d": "with weights of your own: ops.batch_norm" for n in (1, 2, 3)},
    **dict.fromkeys(("MaxPool2d", "MaxPool1d"), "in the layer's forward: ops.max_pool2d"),
    **dict.fromkeys(("AvgPool2d", "AvgPool1d"), "in the layer's forward: ops.avg_pool2d"),
    **dict.fromkeys(
        ("Transformer", "TransformerEncoder", "TransformerEncoderLayer", "LSTM", "GRU", "RNN"),
        _TORCH,
    ),
}
_INSTEAD |= {name: f"nn.rotary_embedding.{name}" for name in rotary_embedding.__all__}
_CONVOLUTIONS = {"Conv1d": "conv2d", "Conv2d": "conv2d", "Conv3d": "conv3d"}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Raises the error for a layer that is not there, with the layer to use instead."""
        op = _CONVOLUTIONS.get(name)
        if op is not None:
            raise MissingNameError(
                "ML972",
                f"there is no layer nn.{name} in this version, in PyTorch's order of arguments or "
                "another",
                fix=f"in the layer's forward: ops.{op}(x, weight), with images [n, height, width, "
                "channels] and filters [height, width, in, out], or the layouts of PyTorch: "
                "input_layout=ConvInputLayout.NCHW, filter_layout=FilterLayout.FCRS",
            )
        raise missing("nn", name, __all__, _INSTEAD)
