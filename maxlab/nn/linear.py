"""The names of ``max.nn.linear``: linear layers, and perceptrons made of them."""

from __future__ import annotations

from maxlab.nn.dense import Linear
from maxlab.nn.gptq import GPTQLinear
from maxlab.nn.linear_given import MLPV1, GPTQLinearV1, LinearV1, QLinearV1
from maxlab.nn.mlp import MLP, DistributedGemmConfig
from maxlab.nn.parallel import ColumnParallelLinear

__all__ = [
    "MLP",
    "MLPV1",
    "ColumnParallelLinear",
    "DistributedGemmConfig",
    "GPTQLinear",
    "GPTQLinearV1",
    "Linear",
    "LinearV1",
    "QLinearV1",
]
