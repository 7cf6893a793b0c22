"""Pipelines by what they make of a batch of requests."""

from __future__ import annotations

from maxlab.pipelines.lib.pipeline_variants.batch_info import BatchInfo
from maxlab.pipelines.lib.pipeline_variants.text_generation import TextGenerationPipeline

__all__ = ["BatchInfo", "TextGenerationPipeline"]
