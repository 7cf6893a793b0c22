"""Modules: weights with names, layers made of layers, and the layers of everyday models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from maxlab.errors import MissingNameError, missing
from maxlab.graph import ops as functional
from maxlab.nn import (
    comm,
    conv,
    conv_transpose,
    embedding,
    float8_config,
    hooks,
    layer,
    linear,
    norm,
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
from maxlab.nn.clamp import clamp
from maxlab.nn.conv import Conv1D, Conv1DV1, Conv2d, Conv2dV1, Conv3D, Conv3DV1
from maxlab.nn.conv_transpose import ConvTranspose1d, WeightNormConvTranspose1d
from maxlab.nn.embedding import Embedding, EmbeddingV1, EmbeddingV2, VocabParallelEmbedding
from maxlab.nn.hooks import PrintHook
from maxlab.nn.linear import (
    MLP,
    MLPV1,
    ColumnParallelLinear,
    GPTQLinear,
    GPTQLinearV1,
    Linear,
    LinearV1,
    QLinearV1,
)
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

if TYPE_CHECKING:  # imported when they are first asked for
    from maxlab.nn import attention, moe, rotary_embedding

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
    "ColumnParallelLinear",
    "GPTQLinear",
    "Embedding",
    "VocabParallelEmbedding",
    "LayerNorm",
    "RMSNorm",
    "GroupNorm",
    "ConstantLayerNorm",
    "Conv1D",
    "Conv2d",
    "Conv3D",
    "ConvTranspose1d",
    "WeightNormConvTranspose1d",
    "clamp",
    "PrintHook",
    "add_layer_hook",
    "clear_hooks",
    "layer_hooks",
    "recursive_named_layers",
    "Conv1DV1",
    "Conv2dV1",
    "Conv3DV1",
    "EmbeddingV1",
    "EmbeddingV2",
    "GPTQLinearV1",
    "LayerNormV1",
    "LinearV1",
    "MLPV1",
    "QLinearV1",
    "RMSNormV1",
    "attention",
    "comm",
    "conv",
    "conv_transpose",
    "embedding",
    "float8_config",
    "hooks",
    "layer",
    "linear",
    "moe",
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
_CONVOLUTIONS = {"Conv1d": "Conv1D", "Conv3d": "Conv3D"}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """The package of this name; raises the error for a layer that is not there, with the layer
        to use instead."""
        if name == "attention":
            import maxlab.nn.attention as found

            return found
        if name == "moe":
            import maxlab.nn.moe as found

            return found
        if name == "rotary_embedding":
            import maxlab.nn.rotary_embedding as found

            return found
        other = _CONVOLUTIONS.get(name)
        if other is not None:
            raise MissingNameError(
                "ML972",
                f"there is no layer nn.{name}, as nn.{other} takes other arguments than PyTorch's",
                fix=f"write nn.{other}(…, dtype, permute=True), whose arguments begin with the "
                "window; permute=True takes the inputs and the weights of PyTorch",
            )
        from maxlab.nn.rotary_embedding import __all__ as turning

        turned = {each: f"nn.rotary_embedding.{each}" for each in turning}
        raise missing("nn", name, __all__, _INSTEAD | turned)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
