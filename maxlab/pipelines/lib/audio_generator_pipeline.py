"""The pipeline that makes audio of texts."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from maxlab.errors import ExecutionError, InputError, InsufficientBlocksError
from maxlab.graph.weights import WeightsFormat
from maxlab.interfaces import (
    AudioGenerationInputs,
    AudioGenerationMetadata,
    AudioGenerationOutput,
    AudioGenerationRequest,
    Pipeline,
    PipelineTokenizer,
    RequestID,
)
from maxlab.nn.transformer import ReturnLogits
from maxlab.pipelines.core import TTSContext
from maxlab.pipelines.lib.audio_config import AudioGenerationConfig
from maxlab.pipelines.lib.audio_generator_model import AudioGeneratorModel, audio_config
from maxlab.pipelines.lib.interfaces import PipelineModel
from maxlab.pipelines.lib.interfaces.generate import give_way, release_all
from maxlab.pipelines.lib.model_loading import loaded_model
from maxlab.pipelines.lib.pipeline_variants.text_generation import READ
from maxlab.pipelines.lib.tokenizer.running import run_to_end
from maxlab.pipelines.lib.weights_adapter import WeightsAdapter

_READ = READ - {
    "enable_echo",
    "enable_in_flight_batching",
    "max_batch_context_length",
    "max_ce_batch_size",
    "max_queue_size_tg",
}
"""Settings that are read for the model of speech tokens: those of a pipeline of text, without those
of its scheduler, and of what only answers of text tell."""


class AudioGeneratorPipeline(Pipeline[AudioGenerationInputs[TTSContext], AudioGenerationOutput]):
    """Makes audio of texts: each execution gives the next piece of every request of a batch.

    All work is the model's: its ``next_chunk`` makes the pieces, and its ``speech_lm_pipeline``
    the speech tokens that they are decoded from. A model that extends `AudioGeneratorModel` has
    both. `generate` gives whole texts.

    Args:
        pipeline_config: The configuration, an `AudioGenerationConfig`, resolved.
        pipeline_model: The class of the model.
        eos_token_id: A token that ends a sequence.
        weight_adapters: Functions that convert the weights of a format of files.
        tokenizer: The tokenizer, which makes contexts of requests.

    Raises:
        InputError: ML175 (a ValueError), the configuration is none of audio; ML176, it names a
            decoder that the model does not have; ML177, the model is none of audio; ML182, the
            configuration names no encoding.
        UnsupportedError: ML127 (a NotImplementedError), the configuration asks for something that
            the pipeline and its model do not do.
        WeightError: The files of weights cannot be read, or do not fit the model.

    Attributes:
        pipeline_model: The model.
        speech_lm_pipeline: The pipeline of the model of speech tokens.
    """

    def __init__(
        self,
        pipeline_config: AudioGenerationConfig,
        pipeline_model: type[PipelineModel[TTSContext]],
        eos_token_id: int,
        weight_adapters: Mapping[WeightsFormat, WeightsAdapter],
        tokenizer: PipelineTokenizer[Any, Any, Any],
    ) -> None:
        self._pipeline_config = audio_config(pipeline_config)
        self._tokenizer = tokenizer
        inner = getattr(pipeline_model, "speech_lm", pipeline_model)
        pipeline_config.refuse_unread(
            read=_READ | pipeline_model.read_settings | inner.read_settings
        )
        _require(pipeline_model, pipeline_model, "next_chunk", "release")
        model: Any = loaded_model(
            pipeline_config, pipeline_model, weight_adapters, ReturnLogits.ALL
        )
        if isinstance(model, AudioGeneratorModel):
            model.load_speech_lm(eos_token_id, weight_adapters, tokenizer)
        _require(pipeline_model, model, "speech_lm_pipeline")
        self.pipeline_model = model
        self.speech_lm_pipeline = model.speech_lm_pipeline

    @property
    def pipeline_config(self) -> AudioGenerationConfig:
        """The configuration."""
        return self._pipeline_config

    @property
    def tokenizer(self) -> PipelineTokenizer[Any, Any, Any]:
        """The tokenizer, which makes contexts of requests."""
        return self._tokenizer

    @property
    def kv_managers(self) -> list[Any]:
        """The managers of the caches of the model of speech tokens."""
        return list(getattr(self.speech_lm_pipeline, "kv_managers", ()))

    def execute(
        self, inputs: AudioGenerationInputs[TTSContext]
    ) -> dict[RequestID, AudioGenerationOutput]:
        """The next piece of audio of each request, by request; none for a batch without requests.

        Args:
            inputs: The batch.

        Raises:
            InputError, InsufficientBlocksError: As by `AudioGeneratorModel.next_chunk`.
            ExecutionError: ML178 (a ValueError), the model answers a request that it was not
                given, or leaves one out.
        """
        if not inputs.batch:
            return {}
        outputs: dict[RequestID, AudioGenerationOutput] = self.pipeline_model.next_chunk(
            inputs.batch
        )
        if outputs.keys() != inputs.batch.keys():
            raise ExecutionError(
                "ML178",
                f"{type(self.pipeline_model).__name__}: outputs of {len(inputs.batch)} requests "
                f"expected ≠ {len(outputs)}, or other ones, given",
                fix="key the outputs of next_chunk by the ids of the batch's requests",
            )
        return outputs

    def release(self, request_id: RequestID) -> None:
        """Gives back what is kept for a request, which is over or is cancelled.

        Args:
            request_id: The request.

        Raises:
            InputError: ML621 (a ValueError), the request has no place in the cache.
        """
        self.pipeline_model.release(request_id)

    # ------------------------------------------------------------ whole texts
    def generate(
        self, prompts: AudioGenerationRequest | list[AudioGenerationRequest]
    ) -> list[AudioGenerationOutput]:
        """The whole audio of requests, in their order.

        At most ``max_batch_size`` requests run at once; when one ends, the next begins. Where the
        pages of a cache are too few for all of them, the last one gives its own back and goes on
        later. It works in a notebook too, where an event loop is running already.

        Args:
            prompts: A request, or several.

        Raises:
            ValueError: A request cannot be made a context; or two requests have one id.
            InsufficientBlocksError: ML647 (a RuntimeError), a request needs more than all pages.
        """
        return run_to_end(self.generate_async(prompts))

    async def generate_async(
        self, prompts: AudioGenerationRequest | list[AudioGenerationRequest]
    ) -> list[AudioGenerationOutput]:
        """The whole audio of requests, in their order; see `generate`.

        Between two executions others of the event loop run. A call that is cancelled gives back
        all that its requests hold.

        Args:
            prompts: A request, or several.

        Raises:
            ValueError, InsufficientBlocksError: As by `generate`.
        """
        requests = prompts if isinstance(prompts, list) else [prompts]
        contexts = await asyncio.gather(*(self.tokenizer.new_context(one) for one in requests))
        pieces: dict[RequestID, list[AudioGenerationOutput]] = {
            one.request_id: [] for one in contexts
        }
        if len(pieces) < len(contexts):
            raise InputError(
                "ML982",
                f"requests with different ids expected ≠ {len(contexts)} with {len(pieces)} given",
                fix="make each request with an id of its own",
            )
        waiting = deque((one.request_id, one) for one in contexts)
        running: dict[RequestID, TTSContext] = {}
        room = most = self.pipeline_config.max_batch_size or max(len(contexts), 1)
        try:
            while waiting or running:
                while waiting and len(running) < room:
                    request_id, context = waiting.popleft()
                    running[request_id] = context
                try:
                    outputs = self.execute(AudioGenerationInputs(dict(running)))
                except InsufficientBlocksError:
                    if len(running) == 1:
                        raise
                    waiting.appendleft(give_way(self, running))
                    room = len(running)  # until one of them ends
                    outputs = {}
                for request_id, output in outputs.items():
                    pieces[request_id].append(output)
                    if output.is_done:
                        del running[request_id]
                        self.release(request_id)
                        room = most
                await asyncio.sleep(0)  # lets others of the event loop run, and cancels arrive
        except BaseException as error:
            release_all(self, running, error)
            raise
        return [joined(pieces[context.request_id]) for context in contexts]


def _require(kind: type[Any], owner: Any, *names: str) -> None:
    """Raises ML177 unless ``owner``, a model or its class, has the attributes ``names``."""
    if missing := [name for name in names if not hasattr(owner, name)]:
        raise InputError(
            "ML177",
            f"a model of audio expected ≠ {kind.__name__} without {' and '.join(missing)} given",
            fix="extend AudioGeneratorModel, or give the model these attributes",
        )


def joined(pieces: Sequence[AudioGenerationOutput]) -> AudioGenerationOutput:
    """The pieces of a request as one: all samples, with the state after the last piece.

    Args:
        pieces: The outputs of a request in their order, from the first one on.

    Raises:
        InputError: ML194 (a ValueError), there are none, or they have different sample rates.

    Example:
        >>> from maxlab.interfaces import GenerationStatus
        >>> piece = AudioGenerationOutput(
        ...     GenerationStatus.ACTIVE, 1, np.zeros(4, np.float32),
        ...     metadata=AudioGenerationMetadata(sample_rate=8, tokens_generated=1))
        >>> both = joined([piece, piece])
        >>> len(both.audio_data), both.metadata.duration, both.metadata.tokens_generated
        (8, 1.0, 2)
    """
    told = [piece.metadata for piece in pieces]
    rates = {one.sample_rate for one in told if one.sample_rate is not None}
    if not pieces or len(rates) > 1:
        raise InputError(
            "ML194",
            "pieces of one sample rate expected ≠ "
            f"{f'pieces of {sorted(rates)} Hz' if pieces else 'no piece'} given",
            fix="join the outputs of one request",
        )
    samples = np.concatenate([piece.audio_data for piece in pieces])
    rate = next(iter(rates), None)
    last = told[-1]
    return AudioGenerationOutput(
        pieces[-1].final_status,
        sum(piece.steps_executed for piece in pieces),
        samples,
        pieces[-1].buffer_speech_tokens,
        AudioGenerationMetadata(
            sample_rate=rate,
            duration=None if rate is None else len(samples) / rate,
            timestamp=last.timestamp,
            model_name=last.model_name,
            request_id=last.request_id,
            tokens_generated=sum(one.tokens_generated or 0 for one in told),
            processing_time=sum(one.processing_time or 0.0 for one in told),
            echo=last.echo,
        ),
    )


__all__ = ["AudioGeneratorPipeline", "joined"]
