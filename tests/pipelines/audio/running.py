"""Pipelines of a tiny model that speaks, requests to them, and what they must answer."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from maxlab.graph.weights import load_weights
from maxlab.interfaces import (
    AudioGenerationInputs,
    AudioGenerationOutput,
    AudioGenerationRequest,
    PipelineTask,
    RequestID,
    SamplingParams,
    TextGenerationInputs,
)
from maxlab.pipelines.core import TTSContext
from maxlab.pipelines.lib.audio_generator_pipeline import AudioGeneratorPipeline
from maxlab.pipelines.lib.config import AudioGenerationConfig, PipelineConfig
from maxlab.pipelines.lib.registry import PipelineRegistry
from maxlab.pipelines.lib.speech_token_pipeline import SpeechTokenGenerationPipeline

TEXTS = ["The quick brown fox jumps over the lazy dog. " * 7, "a", "naïve café 你好"]
"""Texts of mixed lengths: the first one has more tokens than a page."""
SIZE = 16
"""Samples of a token."""


def settings(folder: Path, **given: Any) -> dict[str, Any]:
    """The keywords of a configuration for the model in ``folder``."""
    return {
        "model_path": str(folder),
        "max_batch_size": 4,
        "max_length": 300,
        "max_num_steps": 4,
        **given,
    }


def audio_config(folder: Path, **given: Any) -> AudioGenerationConfig:
    """A configuration with pieces of 3, 5, 5, … tokens, and one token before each."""
    base: dict[str, Any] = {
        "audio_decoder": "sines",
        "audio_decoder_weights": str(folder / "decoder.safetensors"),
        "chunk_size": [3, 5],
        "buffer": 1,
    }
    return AudioGenerationConfig(**settings(folder, **{**base, **given}))


def audio_pipeline(
    registry: PipelineRegistry, folder: Path, **given: Any
) -> AudioGeneratorPipeline:
    """A pipeline of audio as the registry makes it."""
    config = audio_config(folder, **given)
    _, found = registry.retrieve(config, registry.retrieve_pipeline_task(config))
    assert isinstance(found, AudioGeneratorPipeline)
    return found


def speech_pipeline(
    registry: PipelineRegistry, folder: Path, **given: Any
) -> SpeechTokenGenerationPipeline:
    """A pipeline of speech tokens as the registry makes it."""
    config = PipelineConfig(**settings(folder, **given))
    _, found = registry.retrieve(config, PipelineTask.SPEECH_TOKEN_GENERATION)
    assert isinstance(found, SpeechTokenGenerationPipeline)
    return found


def request(text: str = "a", count: int = 12, **given: Any) -> AudioGenerationRequest:
    """A request for ``count`` tokens at most; keywords of `SamplingParams` are for these."""
    params: dict[str, Any] = {"temperature": 0.0, "max_new_tokens": count}
    own = {one: given.pop(one) for one in list(given) if one in SamplingParams.__annotations__}
    return AudioGenerationRequest(
        RequestID(),
        "tiny",
        input=text,
        sampling_params=SamplingParams(**{**params, **own}),
        **given,
    )


def context(pipeline: Any, text: str = "a", count: int = 12, **given: Any) -> TTSContext:
    """The state of a request."""
    made: TTSContext = asyncio.run(pipeline.tokenizer.new_context(request(text, count, **given)))
    return made


def tokens_of(
    pipeline: SpeechTokenGenerationPipeline, text: str, count: int, **given: Any
) -> list[int]:
    """The tokens of a request that is computed alone, a step at a time."""
    one, found = context(pipeline, text, count, **given), []
    while not one.status.is_done:
        found += pipeline.execute(TextGenerationInputs([{one.request_id: one}], 1))[
            one.request_id
        ].tokens
    pipeline.release(one.request_id)
    return found


def pieces_of(
    pipeline: AudioGeneratorPipeline, *contexts: TTSContext
) -> list[list[AudioGenerationOutput]]:
    """The outputs of each request, executed together until all are done."""
    found: dict[RequestID, list[AudioGenerationOutput]] = {one.request_id: [] for one in contexts}
    while left := [one for one in contexts if not one.is_done]:
        batch = {one.request_id: one for one in left}
        for request_id, output in pipeline.execute(AudioGenerationInputs(batch)).items():
            found[request_id].append(output)
            if output.is_done:
                pipeline.release(request_id)
    return list(found.values())


def sounds(
    folder: Path, tokens: list[int], before: int | None = None, gain: float = 1.0
) -> npt.NDArray[np.float64]:
    """The sound of tokens by its formula: for each token, sines of whole periods whose loudness
    moves from that of the token before it, by default its own, to that of the token."""
    table = np.asarray(load_weights([folder / "decoder.safetensors"]).loudness.data().data)
    found = []
    previous = tokens[0] if before is None and tokens else before
    for token in tokens:
        for sample in range(SIZE):
            part, value = sample / SIZE, 0.0
            for harmonic in range(table.shape[1]):
                loud = (1 - part) * table[previous, harmonic] + part * table[token, harmonic]
                value += float(loud) * np.sin(2 * np.pi * (harmonic + 1) * part)
            found.append(gain * value)
        previous = token
    return np.array(found)
