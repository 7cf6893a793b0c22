"""Tokenizers: tokens of texts and images, texts of tokens, and contexts of requests."""

from __future__ import annotations

from maxlab.pipelines.lib.tokenizer.explaining import PromptExplanation, PromptToken
from maxlab.pipelines.lib.tokenizer.running import (
    max_tokens_to_generate,
    run_with_default_executor,
)
from maxlab.pipelines.lib.tokenizer.simple import (
    IdentityPipelineTokenizer,
    PreTrainedPipelineTokenizer,
)
from maxlab.pipelines.lib.tokenizer.speech import SpeechTokenizer
from maxlab.pipelines.lib.tokenizer.streaming import IncrementalDecoder
from maxlab.pipelines.lib.tokenizer.text import TextTokenizer
from maxlab.pipelines.lib.tokenizer.vision import TextAndVisionTokenizer

__all__ = [
    "IdentityPipelineTokenizer",
    "IncrementalDecoder",
    "PreTrainedPipelineTokenizer",
    "PromptExplanation",
    "PromptToken",
    "SpeechTokenizer",
    "TextAndVisionTokenizer",
    "TextTokenizer",
    "max_tokens_to_generate",
    "run_with_default_executor",
]
