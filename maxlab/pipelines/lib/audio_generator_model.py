"""Models that speak: a model of speech tokens, and a decoder that makes sound of them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from maxlab.errors import ExecutionError, InputError
from maxlab.graph.weights import WeightsFormat
from maxlab.interfaces import (
    AudioGenerationMetadata,
    AudioGenerationOutput,
    PipelineTokenizer,
    RequestID,
)
from maxlab.pipelines.core import TTSContext
from maxlab.pipelines.lib.audio_config import AudioGenerationConfig
from maxlab.pipelines.lib.audio_decoder import (
    AudioDecoder,
    DecoderWindow,
    Samples,
    SpeechTokens,
    decoded,
    last_tokens,
    loaded_decoder,
    next_window,
)
from maxlab.pipelines.lib.interfaces import ModelInputs, ModelOutputs, PipelineModel
from maxlab.pipelines.lib.speech_token_pipeline import SpeechTokenGenerationPipeline
from maxlab.pipelines.lib.weights_adapter import WeightsAdapter

if TYPE_CHECKING:
    from maxlab.driver import Tensor
    from maxlab.pipelines.lib.config import PipelineConfig


@dataclass
class _Progress:
    """The state of a request beside its context.

    Attributes:
        told: One past the last token that an output counted.
        pieces: The number of pieces of audio.
        block: Tokens that were drawn for the next piece, and are no speech tokens yet.
    """

    told: int
    pieces: int = 0
    block: list[int] = field(default_factory=list)


class AudioGeneratorModel(PipelineModel[TTSContext]):
    """A model that speaks: it asks a model of speech tokens for tokens, and decodes them in pieces.

    A class that extends it names its two parts, and no more unless its decoder differs from
    `AudioDecoder`::

        class Speaking(AudioGeneratorModel):
            speech_lm = MyLanguageModel
            audio_decoders = {"my-decoder": MyDecoder}

    The configuration, an `AudioGenerationConfig`, says which decoder is taken, how many tokens a
    piece has, and which tokens before a piece the decoder gets again.

    Raises:
        InputError: ML175 (a ValueError), the configuration is none of audio; ML176, it names a
            decoder that the model does not have, or parameters that the decoder does not take.
        WeightError: The decoder's weights cannot be read.

    Attributes:
        speech_lm: The class of the model of speech tokens; of the class.
        audio_decoders: Classes of decoders by the name that ``audio_decoder`` gives; of the class.
        audio_decoder: The decoder.
        speech_lm_pipeline: The pipeline of the model of speech tokens, after `load_speech_lm`.
    """

    speech_lm: ClassVar[type[PipelineModel[Any]]]
    audio_decoders: ClassVar[Mapping[str, type[AudioDecoder]]] = {}
    read_settings = frozenset(
        {
            "audio_decoder",
            "audio_decoder_weights",
            "audio_decoder_config",
            "chunk_size",
            "buffer",
            "prepend_prompt_speech_tokens",
        }
    )
    speech_lm_pipeline: SpeechTokenGenerationPipeline

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # The size of the cache is asked of the class of the architecture. Only a model with a
        # cache has these methods, so that they are not defined here.
        for name in ("get_kv_params", "get_num_layers"):
            method = getattr(getattr(cls, "speech_lm", None), name, None)
            if method is not None:
                setattr(cls, name, method)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._audio_config = audio_config(self.pipeline_config)
        self.audio_decoder = loaded_decoder(
            self.audio_decoders, self._audio_config, self.session, self.devices
        )
        self._progress: dict[RequestID, _Progress] = {}

    def load_speech_lm(
        self,
        eos_token_id: int,
        weight_adapters: Mapping[WeightsFormat, WeightsAdapter],
        tokenizer: PipelineTokenizer[Any, Any, Any],
    ) -> None:
        """Compiles and loads the model of speech tokens; `AudioGeneratorPipeline` calls it.

        Args:
            eos_token_id: A token that ends a sequence.
            weight_adapters: Functions that convert the weights of a format of files.
            tokenizer: The tokenizer, which makes contexts of requests.

        Raises:
            UnsupportedError, WeightError: As by `SpeechTokenGenerationPipeline`.
        """
        self.speech_lm_pipeline = SpeechTokenGenerationPipeline(
            self._audio_config,
            self.speech_lm,
            eos_token_id,
            weight_adapters,
            tokenizer,
            read_elsewhere=self.read_settings,
        )

    # ------------------------------------------------------------ pieces
    def next_chunk(
        self, batch: dict[RequestID, TTSContext]
    ) -> dict[RequestID, AudioGenerationOutput]:
        """The next piece of audio of each request of a batch.

        Tokens are made first, as many as ``chunk_size`` says for the piece, or of ``max_num_steps``
        steps without it. Then what is due is decoded in one batch: with ``chunk_size``, the new
        tokens of each request that is streamed; otherwise all tokens of a request, once they have
        ended. A request of which nothing is due has an output without samples.

        After an error nothing is lost: the next call goes on with the tokens that there are.

        Args:
            batch: The states of the requests, which get their tokens and their state.

        Raises:
            InputError, InsufficientBlocksError: As by `next_speech_token`.
            ExecutionError: ML178, the decoder gave other samples than its tokens make, or the
                model of speech tokens goes no further.
        """
        begun = time.perf_counter()
        speaking = {one: context for one, context in batch.items() if not context.is_done}
        for request_id, context in speaking.items():
            self._progress.setdefault(request_id, _Progress(len(context.prompt_tokens)))
        self._make_tokens(speaking)
        windows = {
            request_id: self.window(context)
            for request_id, context in speaking.items()
            if context.status.is_done or self._is_due(context)
        }
        sounds = dict(
            zip(windows, decoded(self.audio_decoder, list(windows.values())), strict=True)
        )
        seconds = time.perf_counter() - begun
        outputs: dict[RequestID, AudioGenerationOutput] = {}
        for request_id, context in batch.items():
            if request_id in windows:
                outputs[request_id] = self._piece(
                    context, windows[request_id], sounds[request_id], seconds
                )
            else:
                outputs[request_id] = AudioGenerationOutput(
                    context.audio_generation_status,
                    self._steps(context),
                    metadata=AudioGenerationMetadata(
                        request_id=request_id, processing_time=seconds
                    ),
                )
        return outputs

    def _steps(self, context: TTSContext) -> int:
        """The number of tokens that were drawn for a request since its output before."""
        progress = self._progress.get(context.request_id)
        if progress is None:  # it had ended when it came
            return 0
        steps, progress.told = context.end_idx - progress.told, context.end_idx
        return steps

    def window(self, context: TTSContext) -> DecoderWindow:
        """The tokens of a request that the decoder gets next.

        Args:
            context: The state of the request.
        """
        config = self._audio_config
        return next_window(context, config.buffer, config.prepend_prompt_speech_tokens)

    def speech_tokens_of(self, context: TTSContext, tokens: SpeechTokens) -> SpeechTokens:
        """The speech tokens, as the decoder counts them, of tokens of the language model.

        They are the same unless a model overrides it, such as one whose vocabulary has words first.

        Args:
            context: The state of the request.
            tokens: The new tokens, shape [tokens].
        """
        del context
        return tokens

    def _piece_size(self, context: TTSContext) -> int:
        """The number of tokens of the piece that a request is at."""
        sizes = self._audio_config.chunk_size
        if sizes is None:
            return max(self._audio_config.max_num_steps, 1)
        return sizes[min(context.block_counter, len(sizes) - 1)]

    def _is_due(self, context: TTSContext) -> bool:
        """Whether the new tokens of a request are decoded before its last one is there."""
        return (
            context.streaming
            and self._audio_config.chunk_size is not None
            and len(context.speech_tokens) > context.decoded_index
        )

    def _make_tokens(self, speaking: Mapping[RequestID, TTSContext]) -> None:
        """Gives each request the speech tokens of its next piece, or those up to its end."""
        going = {
            request_id: context
            for request_id, context in speaking.items()
            if not context.status.is_done
        }
        blocks = {request_id: self._progress[request_id].block for request_id in speaking}
        left = {one: self._piece_size(going[one]) - len(blocks[one]) for one in going}
        while left := {
            one: count for one, count in left.items() if count > 0 and not going[one].status.is_done
        }:
            rows = {request_id: going[request_id] for request_id in left}
            places = {one: (context.start_idx, context.end_idx) for one, context in rows.items()}
            steps = min(max(self._audio_config.max_num_steps, 1), max(left.values()))
            outputs = self.speech_lm_pipeline.next_speech_token(rows, steps, left)
            for request_id, output in outputs.items():
                blocks[request_id] += output.tokens
                left[request_id] -= len(output.tokens)
            if all((one.start_idx, one.end_idx) == places[name] for name, one in rows.items()):
                raise ExecutionError(
                    "ML178",
                    f"{self.speech_lm.__name__} executed a batch of {len(rows)} without a token "
                    "for any request",
                    fix="have execute of the model return logits for each request",
                )
        for request_id, context in speaking.items():
            block = blocks[request_id]
            if block:
                drawn = np.array(block, np.int64)
                context.update_speech_tokens(self.speech_tokens_of(context, drawn))
                block.clear()

    def _piece(
        self,
        context: TTSContext,
        window: DecoderWindow,
        samples: Samples,
        seconds: float,
    ) -> AudioGenerationOutput:
        """The output of a request whose tokens were decoded; its context says so from now on."""
        progress = self._progress[context.request_id]
        number, progress.pieces = progress.pieces, progress.pieces + 1
        context.decoded_index = len(context.speech_tokens)
        context.audio_generation_status = context.status
        return AudioGenerationOutput(
            context.status,
            self._steps(context),
            samples,
            last_tokens(context, self._audio_config.buffer) if context.is_done else None,
            AudioGenerationMetadata(
                sample_rate=self.audio_decoder.sample_rate,
                duration=len(samples) / self.audio_decoder.sample_rate,
                chunk_id=number,
                timestamp=datetime.now(UTC).isoformat(timespec="milliseconds"),
                final_chunk=context.is_done,
                model_name=context.model_name or None,
                request_id=context.request_id,
                tokens_generated=window.new,
                processing_time=seconds,
            ),
        )

    def release(self, request_id: RequestID) -> None:
        """Gives back the pages of a request, which is over, and what else is kept for it.

        Args:
            request_id: The request.

        Raises:
            InputError: ML621 (a ValueError), the request has no place in the cache.
        """
        self._progress.pop(request_id, None)
        self.speech_lm_pipeline.release(request_id)

    # ------------------------------------------------------------ the model of speech tokens
    @classmethod
    def calculate_max_seq_len(cls, pipeline_config: PipelineConfig, huggingface_config: Any) -> int:
        """The largest number of tokens that the model of speech tokens takes.

        Args:
            pipeline_config: The configuration of the pipeline.
            huggingface_config: The configuration of the checkpoint.
        """
        return cls.speech_lm.calculate_max_seq_len(pipeline_config, huggingface_config)

    @classmethod
    def estimate_activation_memory(
        cls, pipeline_config: PipelineConfig, huggingface_config: Any
    ) -> int:
        """The bytes for values between layers of the model of speech tokens.

        Args:
            pipeline_config: The configuration of the pipeline.
            huggingface_config: The configuration of the checkpoint.
        """
        return cls.speech_lm.estimate_activation_memory(pipeline_config, huggingface_config)

    @classmethod
    def infer_optimal_batch_size(cls, *args: Any, **kwargs: Any) -> int:
        """The number of requests of a batch, where the configuration names none."""
        return cls.speech_lm.infer_optimal_batch_size(*args, **kwargs)

    def prepare_initial_token_inputs(
        self,
        context_batch: Sequence[TTSContext],
        kv_cache_inputs: Iterable[Any] | None = None,
        return_n_logits: int = 1,
    ) -> ModelInputs:
        """The inputs of the model of speech tokens for a batch.

        Args:
            context_batch: The states of the requests.
            kv_cache_inputs: The tensors of the cache.
            return_n_logits: The number of tokens of each request whose logits are returned.
        """
        return self.speech_lm_pipeline.speech_lm.prepare_initial_token_inputs(
            context_batch, kv_cache_inputs, return_n_logits
        )

    def prepare_next_token_inputs(
        self, next_tokens: Tensor, prev_model_inputs: ModelInputs
    ) -> ModelInputs:
        """The inputs of the model of speech tokens for the next step of a batch.

        Args:
            next_tokens: The tokens that were drawn, integers of shape [requests].
            prev_model_inputs: The inputs of the step before.
        """
        return self.speech_lm_pipeline.speech_lm.prepare_next_token_inputs(
            next_tokens, prev_model_inputs
        )

    def execute(self, model_inputs: ModelInputs) -> ModelOutputs:
        """The logits of the model of speech tokens for prepared inputs.

        Args:
            model_inputs: The inputs.
        """
        return self.speech_lm_pipeline.speech_lm.execute(model_inputs)


def audio_config(config: PipelineConfig) -> AudioGenerationConfig:
    """``config``, which is one of audio.

    Raises:
        InputError: ML175 (a ValueError), it is not.
    """
    if not isinstance(config, AudioGenerationConfig):
        raise InputError(
            "ML175",
            f"an AudioGenerationConfig expected ≠ a {type(config).__name__} given",
            why=["it names the decoder of audio, and says how long pieces of audio are"],
            fix="make AudioGenerationConfig(audio_decoder=..., model_path=...) of maxlab.pipelines",
        )
    return config


__all__ = ["AudioGeneratorModel", "audio_config"]
