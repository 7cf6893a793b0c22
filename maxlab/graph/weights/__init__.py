"""Reading the weights of trained models from files, by name."""

from __future__ import annotations

from maxlab.graph.weights.base import WeightData, Weights
from maxlab.graph.weights.gguf import GGUFWeights
from maxlab.graph.weights.load import WeightsFormat, load_weights, weights_format
from maxlab.graph.weights.pytorch import PytorchWeights
from maxlab.graph.weights.safetensors import SafetensorWeights

__all__ = [
    "GGUFWeights",
    "PytorchWeights",
    "SafetensorWeights",
    "WeightData",
    "Weights",
    "WeightsFormat",
    "load_weights",
    "weights_format",
]
