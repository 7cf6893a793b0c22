"""Pipelines of a tiny decoder, and requests to them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from maxlab.interfaces import RequestID, SamplingParams, TextGenerationInputs, TextGenerationRequest
from maxlab.pipelines.core import TextContext
from maxlab.pipelines.lib.config import PipelineConfig
from maxlab.pipelines.lib.pipeline_variants import TextGenerationPipeline
from maxlab.pipelines.lib.registry import PipelineRegistry
from tests.pipelines.tiny.models import DECODER, decoder_folder

Pipe = TextGenerationPipeline[TextContext]
Make = Callable[..., Pipe]
TEXTS = [
    "The quick brown fox jumps over the lazy dog, and doesn't stop. " * 5,
    "a",
    "naïve café déjà vu 你好 世界",
    "1 2 3 42 {} " * 13,
    "user assistant system",
]
"""Prompts of mixed lengths: of the first two pages, of the fourth nearly one."""


def settings(folder: Path, **given: Any) -> dict[str, Any]:
    """The keywords of a configuration for the decoder of ``folder``."""
    base: dict[str, Any] = {"max_batch_size": 8, "max_length": 400, "max_num_steps": 4}
    return {"model_path": str(folder), "custom_architectures": [DECODER], **base, **given}


def made(registry: PipelineRegistry, folder: Path, pages: int | None = None, **given: Any) -> Pipe:
    """A pipeline of the tiny decoder; with a cache of ``pages`` if they are given."""
    folder.mkdir(exist_ok=True)
    decoder_folder(folder, **({} if pages is None else {"pages": pages}))
    _, found = registry.retrieve(PipelineConfig(**settings(folder, **given)))
    assert isinstance(found, TextGenerationPipeline)
    return found


def request(text: str, **given: Any) -> TextGenerationRequest:
    """A request; keywords of `SamplingParams` are for these, the others for the request."""
    params = {"temperature": 0.0, "max_new_tokens": 12}
    own = {one: given.pop(one) for one in list(given) if one in SamplingParams.__annotations__}
    return TextGenerationRequest(
        RequestID(), "tiny", prompt=text, sampling_params=SamplingParams(**{**params, **own}),
        **given,
    )  # fmt: skip


def context(pipeline: Any, text: str, **given: Any) -> TextContext:
    """The state of a request."""
    made: TextContext = asyncio.run(pipeline.tokenizer.new_context(request(text, **given)))
    return made


def written(
    pipeline: Any, *contexts: TextContext, steps: int = 1, replicas: int = 1
) -> list[list[int]]:
    """The tokens that requests get, executed together until all are done."""
    found: dict[RequestID, list[int]] = {one.request_id: [] for one in contexts}
    left = list(contexts)
    while left:
        batches = [{one.request_id: one for one in left}, *({} for _ in range(replicas - 1))]
        for request_id, output in pipeline.execute(TextGenerationInputs(batches, steps)).items():
            found[request_id] += output.tokens
            if output.is_done:
                pipeline.release(request_id)
        left = [one for one in left if not one.is_done]
    return list(found.values())
