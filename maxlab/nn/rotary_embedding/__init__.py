"""Rotary position embeddings, plain and scaled for long contexts."""

from __future__ import annotations

from maxlab.nn.rotary_embedding.configs import rotary_embedding_of
from maxlab.nn.rotary_embedding.dynamic import DynamicRotaryEmbedding
from maxlab.nn.rotary_embedding.plain import RotaryEmbedding
from maxlab.nn.rotary_embedding.scaled import (
    DeepseekYarnRotaryEmbedding,
    Llama3RotaryEmbedding,
    LongRoPERotaryEmbedding,
    YarnRotaryEmbedding,
)
from maxlab.nn.rotary_embedding.scaling import (
    DeepseekYarnRopeScalingParams,
    LinearScalingParams,
    Llama3RopeScalingParams,
    LongRoPEScalingParams,
    YarnScalingParams,
)
from maxlab.nn.rotary_embedding.shown import Frequencies

__all__ = [
    "DeepseekYarnRopeScalingParams",
    "DeepseekYarnRotaryEmbedding",
    "DynamicRotaryEmbedding",
    "Frequencies",
    "LinearScalingParams",
    "Llama3RopeScalingParams",
    "Llama3RotaryEmbedding",
    "LongRoPERotaryEmbedding",
    "LongRoPEScalingParams",
    "RotaryEmbedding",
    "YarnRotaryEmbedding",
    "YarnScalingParams",
    "rotary_embedding_of",
]
