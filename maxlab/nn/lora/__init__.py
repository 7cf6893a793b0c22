"""Layers with adapters of low rank (LoRA), of which each sequence of a batch may use another."""

from __future__ import annotations

from maxlab.nn.lora.adding import TARGETS, add_lora, lora_layers, set_lora_batch_info
from maxlab.nn.lora.attention import AttentionWithRopeAndLoRA
from maxlab.nn.lora.batches import BatchInfo, SupportsLoRA
from maxlab.nn.lora.linear import LinearLoRA

__all__ = [
    "TARGETS",
    "AttentionWithRopeAndLoRA",
    "BatchInfo",
    "LinearLoRA",
    "SupportsLoRA",
    "add_lora",
    "lora_layers",
    "set_lora_batch_info",
]
