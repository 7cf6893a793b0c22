"""Speculative decoding: a small model proposes tokens, and a large one checks all at once."""

from __future__ import annotations

from maxlab.pipelines.lib.speculative_decoding.metrics import SpeculativeDecodingMetrics
from maxlab.pipelines.lib.speculative_decoding.pipeline import (
    SpeculativeDecodingTextGenerationPipeline,
)

__all__ = ["SpeculativeDecodingMetrics", "SpeculativeDecodingTextGenerationPipeline"]
