"""Transformers: their blocks, and which logits of a text are returned."""

from __future__ import annotations

from maxlab.nn.transformer.distributed_transformer import (
    DistributedTransformer,
    DistributedTransformerBlock,
)
from maxlab.nn.transformer.logits import ReturnLogits, logits_of
from maxlab.nn.transformer.transformer import Transformer, TransformerBlock

__all__ = [
    "DistributedTransformer",
    "DistributedTransformerBlock",
    "ReturnLogits",
    "Transformer",
    "TransformerBlock",
    "logits_of",
]
