"""Transformers: which logits of a text are returned."""

from __future__ import annotations

from maxlab.nn.transformer.transformer import ReturnLogits

__all__ = ["ReturnLogits"]
