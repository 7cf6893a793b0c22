"""An object of each class that is sent between processes, with no field at its default."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from maxlab import interfaces as i


class Context(msgspec.Struct, tag=True, eq=False):
    """A context as small as one can be."""

    request_id: i.RequestID
    tokens: npt.NDArray[np.integer[Any]]
    log_probabilities: int = 0
    log_probabilities_echo: bool = False
    status: i.GenerationStatus = i.GenerationStatus.ACTIVE

    @property
    def is_done(self) -> bool:
        """Whether the work has ended."""
        return self.status.is_done


def context(name: str, log_probabilities: int = 0, echo: bool = False) -> Context:
    """A context of the request ``name``."""
    return Context(i.RequestID(name), np.arange(5), log_probabilities, echo)


MESSAGES: list[i.TextGenerationRequestMessage] = [
    {"role": "system", "content": "Answer."},
    {"role": "user", "content": [{"type": "text", "text": "What is it?"}, {"type": "image"}]},
]
TOOL: i.TextGenerationRequestTool = {
    "type": "function",
    "function": {"name": "f", "description": None, "parameters": {"type": "object"}},
}
FORMAT: i.TextGenerationResponseFormat = {
    "type": "json_schema",
    "json_schema": {"type": "object", "n": [1, 2.5, None, True]},
}
PARAMS = i.SamplingParams(
    top_k=5,
    top_p=0.9,
    min_p=0.1,
    temperature=0.5,
    frequency_penalty=0.1,
    presence_penalty=-0.2,
    repetition_penalty=1.1,
    max_new_tokens=9,
    min_new_tokens=2,
    ignore_eos=True,
    stop=["\n", "é"],
    stop_token_ids=[3, 4],
    detokenize=False,
    seed=2**64 - 1,
)
METADATA = i.AudioGenerationMetadata(
    sample_rate=24_000,
    duration=0.5,
    chunk_id=0,
    timestamp="now",
    final_chunk=False,
    model_name="tiny",
    request_id=i.RequestID("a"),
    tokens_generated=0,
    processing_time=0.25,
    echo="hi",
)
LOG_PROBABILITIES = i.LogProbabilities([-0.5, -1.0], [{1: -0.5, 7: -2.0}, {3: -1.0}])
TEXT = i.TextGenerationOutput(
    i.RequestID("a"), [1, 2], i.GenerationStatus.END_OF_SEQUENCE, [LOG_PROBABILITIES]
)

# What a message is decoded as, and the object.
SAMPLES: dict[str, tuple[Any, Any]] = {
    "RequestID": (i.RequestID, i.RequestID("a")),
    "Request": (i.Request, i.Request(i.RequestID("a"))),
    "SamplingParams": (i.SamplingParams, PARAMS),
    "SamplingParamsInput": (i.SamplingParamsInput, i.SamplingParamsInput(top_k=3, stop=["x"])),
    "SamplingParamsGenerationConfigDefaults": (
        i.SamplingParamsGenerationConfigDefaults,
        i.SamplingParamsGenerationConfigDefaults(temperature=0.7, do_sample=False),
    ),
    "LogProbabilities": (i.LogProbabilities, LOG_PROBABILITIES),
    "TextGenerationOutput": (i.TextGenerationOutput, TEXT),
    "SchedulerResult": (
        i.SchedulerResult[i.TextGenerationOutput],
        i.SchedulerResult.create(TEXT),
    ),
    "PipelineTask.output_type": (
        i.PipelineTask.TEXT_GENERATION.output_type,
        {i.RequestID("a"): i.SchedulerResult.create(TEXT)},
    ),
    "TextGenerationRequest": (
        i.TextGenerationRequest,
        i.TextGenerationRequest(
            i.RequestID("a"),
            "tiny",
            messages=MESSAGES,
            images=[b"\x00\xff"],
            tools=[TOOL],
            response_format=FORMAT,
            timestamp_ns=1,
            request_path="/v1",
            logprobs=2,
            echo=True,
            stop=["x"],
            chat_template_options={"enable": True},
            sampling_params=PARAMS,
            target_endpoint="tcp://127.0.0.1:5555",
        ),
    ),
    "TextGenerationRequest of tokens": (
        i.TextGenerationRequest,
        i.TextGenerationRequest(i.RequestID("a"), "tiny", prompt=[1, 2], sampling_params=PARAMS),
    ),
    "TextGenerationInputs": (
        i.TextGenerationInputs[Context],  # type: ignore[type-var]
        i.TextGenerationInputs(
            [{i.RequestID("a"): context("a", 2)}, {i.RequestID("b"): context("b", 0, True)}],
            num_steps=3,
            input_tokens=10,
            batch_type=i.BatchType.CE,
        ),
    ),
    "EmbeddingsGenerationOutput": (
        i.EmbeddingsGenerationOutput,
        i.EmbeddingsGenerationOutput(np.array([[0.5, -0.0, np.inf]], np.float32)),
    ),
    "AudioGenerationMetadata": (i.AudioGenerationMetadata, METADATA),
    "AudioGenerationOutput": (
        i.AudioGenerationOutput,
        i.AudioGenerationOutput(
            i.GenerationStatus.MAXIMUM_LENGTH,
            3,
            np.linspace(-1, 1, 9, dtype=np.float32),
            np.arange(4),
            METADATA,
        ),
    ),
    "AudioGenerationRequest": (
        i.AudioGenerationRequest,
        i.AudioGenerationRequest(
            i.RequestID("a"),
            "tiny",
            input="hello",
            audio_prompt_tokens=[1],
            audio_prompt_transcription="hi",
            sampling_params=PARAMS,
            _assistant_message_override="so",
            prompt=[3],
            streaming=False,
            buffer_speech_tokens=np.arange(3, dtype=np.int32),
        ),
    ),
    "AudioGenerationInputs": (
        i.AudioGenerationInputs[Context],
        i.AudioGenerationInputs({i.RequestID("a"): context("a")}),
    ),
    "ImageMetadata": (
        i.ImageMetadata,
        i.ImageMetadata(
            start_idx=2,
            end_idx=6,
            pixel_values=np.ones((2, 3), np.float16),
            image_hash=2**64 - 1,
        ),
    ),
    "LoRARequest": (i.LoRARequest, i.LoRARequest(i.LoRAOperation.LOAD, "a", "/adapters/a")),
    "LoRAResponse": (i.LoRAResponse, i.LoRAResponse(i.LoRAStatus.SUCCESS, ["a", "b"])),
}
