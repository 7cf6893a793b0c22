"""The pipeline that generates text: tokens for each request of a batch, several steps at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic

import numpy as np
import numpy.typing as npt

from maxlab.driver import CPU, Tensor
from maxlab.graph.weights import WeightsFormat
from maxlab.interfaces import (
    BatchLogitsProcessor,
    GenerationStatus,
    LogProbabilities,
    Pipeline,
    PipelineTokenizer,
    RequestID,
    TextGenerationInputs,
    TextGenerationOutput,
    TextGenerationRequest,
)
from maxlab.nn.kv_cache.manager import KVCacheInputsSequence
from maxlab.nn.transformer import ReturnLogits
from maxlab.pipelines.lib.interfaces import GenerateMixin, ModelInputs, ModelOutputs, PipelineModel
from maxlab.pipelines.lib.model_loading import loaded_model
from maxlab.pipelines.lib.pipeline_variants.accepting import eos_token_ids, too_long
from maxlab.pipelines.lib.pipeline_variants.batch_info import BatchInfo, BatchInfos
from maxlab.pipelines.lib.pipeline_variants.drawing import Drawing, TokenSampler
from maxlab.pipelines.lib.pipeline_variants.echoing import Echoes
from maxlab.pipelines.lib.pipeline_variants.grammars import Bitmask
from maxlab.pipelines.lib.pipeline_variants.stopping import StopTexts
from maxlab.pipelines.lib.pipeline_variants.structured import FollowsSchemas, grammars_of
from maxlab.pipelines.lib.pipeline_variants.text_base import (
    TextGenerationContextType,
    TextPipelineParts,
    next_inputs,
)
from maxlab.pipelines.lib.weights_adapter import WeightsAdapter

if TYPE_CHECKING:
    from maxlab.pipelines.lib.config import PipelineConfig

READ = frozenset(
    {
        "enable_echo",
        "enable_prefix_caching",
        "enable_kvcache_swapping_to_host",
        "host_kvcache_swap_space_gb",
        "max_num_steps",
        "force_download",
        "enable_structured_output",
        "enable_variable_logits",
        "enable_min_tokens",
        "do_penalties",
        "in_dtype",
        "out_dtype",
        "enable_chunked_prefill",
        "enable_in_flight_batching",
        "max_batch_context_length",
        "max_ce_batch_size",
        "max_queue_size_tg",
    }
)
"""Settings that this pipeline, its sampler, its cache and its scheduler read."""


class TextGenerationPipeline(
    TextPipelineParts[TextGenerationContextType],
    FollowsSchemas[TextGenerationContextType],
    GenerateMixin[TextGenerationContextType, TextGenerationRequest],
    Pipeline[TextGenerationInputs[TextGenerationContextType], TextGenerationOutput],
    Generic[TextGenerationContextType],
):
    """Generates the tokens of requests in batches, with a paged cache of keys and values.

    Each execution draws up to ``num_steps`` tokens for every request: fewer where one of them has
    less room, and one where one follows a grammar, has logits processors, or has only a part of its
    prompt computed. Tokens behind the end of an answer are dropped; one that completes a text of
    ``stop`` is the last that is told, and a decoder of the tokenizer's ``stream`` cuts its text
    right before the stop. `generate` of `GenerateMixin` answers whole prompts.

    Args:
        pipeline_config: The configuration, resolved.
        pipeline_model: The class of the model.
        eos_token_id: A token that ends a sequence. It and those of the model's configuration end
            the answers of contexts that name none.
        weight_adapters: Functions that convert the weights of a format of files.
        tokenizer: The tokenizer, which makes contexts of requests.

    Raises:
        InputError: ML182 (a ValueError), the configuration names no encoding; ML140, structured
            output is asked for, and the tokenizer has no delegate that it can be made with.
        UnsupportedError: ML127 (a NotImplementedError), the configuration asks for something that
            this pipeline does not do.
        WeightError: The files of weights cannot be read, or do not fit the model.
    """

    def __init__(
        self,
        pipeline_config: PipelineConfig,
        pipeline_model: type[PipelineModel[TextGenerationContextType]],
        eos_token_id: int,
        weight_adapters: Mapping[WeightsFormat, WeightsAdapter],
        tokenizer: PipelineTokenizer[
            TextGenerationContextType, npt.NDArray[np.integer[Any]], TextGenerationRequest
        ],
    ) -> None:
        pipeline_config.refuse_unread(read=self._read_settings() | pipeline_model.read_settings)
        config = pipeline_config.model_config.huggingface_config
        self._eos_token_ids = {eos_token_id} | eos_token_ids(config)
        self._grammars = grammars_of(pipeline_config, tokenizer, self._eos_token_ids)
        model = loaded_model(
            pipeline_config,
            pipeline_model,
            weight_adapters,
            _return_logits(pipeline_config),
        )
        super().__init__(pipeline_config, tokenizer, model)
        self._sampler = TokenSampler(
            self._pipeline_model.session,
            pipeline_config.sampling_config,
            self._pipeline_model.devices[0],
        )
        self._stops = StopTexts(tokenizer)
        self._echoes = Echoes()
        self._infos = BatchInfos(self)
        self.batch_processors: list[BatchLogitsProcessor] = []
        """Functions that change the logits of every batch in place, in this order."""

    # ------------------------------------------------------------ parts
    def _read_settings(self) -> frozenset[str]:
        """The settings that are read for this pipeline, beside those that its model reads."""
        return READ

    @property
    def kv_managers(self) -> list[Any]:
        """The manager of the model's cache of keys and values, in a list; [] without a cache."""
        manager = getattr(self._pipeline_model, "kv_manager", None)
        return [] if manager is None else [manager]

    # ------------------------------------------------------------ before the first step
    def calculate_num_steps(self, num_steps: int, context: TextGenerationContextType) -> int:
        """The number of steps that a request has room for: at most ``num_steps``, 1 or more.

        Args:
            num_steps: The number of steps that is wanted.
            context: The state of the request.

        Raises:
            InputError: ML160 (a ValueError), the request has ``max_seq_len`` tokens already.
        """
        longest = self._pipeline_model.max_seq_len
        room = context.compute_num_available_steps(longest)
        if room < 1:
            raise too_long(context, longest)
        return min(num_steps, room)

    def steps_for(self, batch: Sequence[TextGenerationContextType], num_steps: int) -> int:
        """The number of steps that a batch can take: that of the request with the least room.

        Args:
            batch: The states of the requests.
            num_steps: The number of steps that is wanted.

        Raises:
            InputError: ML160 (a ValueError), a request has ``max_seq_len`` tokens already.
        """
        return min((self._steps_of(one, num_steps) for one in batch), default=num_steps)

    def _steps_of(self, context: TextGenerationContextType, num_steps: int) -> int:
        """The steps for a request; 1 where the token that is drawn decides what comes after it."""
        found = self.calculate_num_steps(num_steps, context)
        decides = (
            context.json_schema is not None
            or context.sampling_params.logits_processors
            or context.active_idx < context.end_idx
        )
        return 1 if decides else found

    def prepare_batch(
        self, batches: list[dict[RequestID, TextGenerationContextType]], num_steps: int
    ) -> tuple[ModelInputs, int, Bitmask | None, list[TextGenerationContextType]]:
        """The inputs of the first step for a batch, with what all steps of it need.

        Requests that are new to the cache are claimed for the replica that they are given for, and
        pages are reserved for all steps.

        Args:
            batches: For each replica, the states of its requests.
            num_steps: The number of steps that is wanted.

        Returns:
            The inputs; the number of steps that all requests have room for; the mask of the tokens
            that may follow, or None without a schema; and the states, those of the first replica
            first.

        Raises:
            InputError: ML139 (a ValueError), a request asks for a feature that is off; ML160, it
                has no room for a token.
            InsufficientBlocksError: ML620, ML647 (a RuntimeError), there are too few pages.
        """
        flat = [context for batch in batches for context in self._side_by_side(batch)]
        for context in flat:
            if not context.eos_token_ids:
                context.eos_token_ids.update(self._eos_token_ids)
            self._require_computable(context)
        bitmask = self.initialize_bitmask(flat)
        for index, context in enumerate(flat):
            if bitmask is not None:
                self.update_for_structured_output(context, bitmask, index)
        steps = 1 if self.batch_processors else self.steps_for(flat, num_steps)
        cache: KVCacheInputsSequence | None = None
        for manager in self.kv_managers:
            for replica, batch in enumerate(batches):
                for context in batch.values():
                    if not manager.contains(context.request_id):
                        manager.claim(context.request_id, replica)
                    manager.alloc(context, steps)
            cache = KVCacheInputsSequence(manager.get_runtime_inputs(flat, steps))
        self._infos.add(
            BatchInfo(
                [context.start_idx for context in flat],
                [context.active_length for context in flat],
                steps,
            )
        )
        inputs = self._pipeline_model.prepare_initial_token_inputs(
            context_batch=flat, kv_cache_inputs=cache
        )
        return inputs, steps, bitmask, flat

    # ------------------------------------------------------------ steps
    def execute(
        self, inputs: TextGenerationInputs[TextGenerationContextType]
    ) -> dict[RequestID, TextGenerationOutput]:
        """The tokens that each request of a batch gets next, by request.

        Tokens are read from the device once, after the last step. A batch without requests has no
        outputs.

        Args:
            inputs: The batch.

        Raises:
            InputError, InsufficientBlocksError: As by `prepare_batch`; the contexts have no new
                tokens then.
        """
        if not any(inputs.batches):
            return {}
        with self.adapters_kept():
            return self._execute(inputs)

    def _execute(
        self, inputs: TextGenerationInputs[TextGenerationContextType]
    ) -> dict[RequestID, TextGenerationOutput]:
        """The tokens that each request of a batch gets next, by request."""
        model_inputs, num_steps, bitmask, batch = self.prepare_batch(
            inputs.batches, inputs.num_steps
        )
        told: list[list[LogProbabilities | None]] = []
        drawing = Drawing(self._sampler, batch, num_steps, bitmask, self.batch_processors)
        for step in range(num_steps):
            outputs = self._pipeline_model.execute(model_inputs)
            new_tokens = drawing.draw(outputs)
            if inputs.enable_log_probs:
                told.append(self._log_probabilities(step, batch, model_inputs, outputs, new_tokens))
            if step + 1 < num_steps:
                model_inputs = next_inputs(
                    self._pipeline_model, self.kv_managers, new_tokens, model_inputs
                )
        found = self.update_context_and_prepare_responses(
            drawing.tokens(), told, batch, num_steps, inputs.enable_log_probs
        )
        for manager in self.kv_managers:
            manager.step(batch)
        return found

    def _log_probabilities(
        self,
        step: int,
        batch: Sequence[TextGenerationContextType],
        inputs: ModelInputs,
        outputs: ModelOutputs,
        new_tokens: Tensor,
    ) -> list[LogProbabilities | None]:
        """The log probabilities of a step's tokens, and of prompts for those who ask for them."""
        echo = [step == 0 and self._echoes.wants(context) for context in batch]
        tokens = new_tokens.to(CPU()).to_numpy().copy()
        for index, context in enumerate(batch):
            if context.active_idx < context.end_idx:  # what follows is in the prompt
                tokens[index] = context.all_tokens[context.active_idx]
        found = self._pipeline_model.compute_log_probabilities(
            self._pipeline_model.session,
            inputs,
            outputs,
            Tensor.from_numpy(tokens),
            [context.log_probabilities for context in batch],
            echo,
        )
        return self._echoes.joined(batch, found) if any(echo) else found

    def update_context_and_prepare_responses(
        self,
        generated_tokens_host: npt.NDArray[np.int32],
        batch_log_probabilities: list[list[LogProbabilities | None]],
        flat_batch: list[TextGenerationContextType],
        num_steps: int,
        enable_log_probs: bool,
    ) -> dict[RequestID, TextGenerationOutput]:
        """Gives drawn tokens to their requests; the outputs of these, by request.

        Tokens behind the one that ends an answer are dropped.

        Args:
            generated_tokens_host: The tokens, of shape [requests, steps].
            batch_log_probabilities: For each step, what is told with the token of each request.
            flat_batch: The states of the requests.
            num_steps: The number of steps.
            enable_log_probs: Whether log probabilities are told.
        """
        found: dict[RequestID, TextGenerationOutput] = {}
        longest = self._pipeline_model.max_seq_len
        for index, context in enumerate(flat_batch):
            for step in range(num_steps):
                if context.status.is_done:
                    break
                token = int(generated_tokens_host[index, step])
                told = batch_log_probabilities[step][index] if enable_log_probs else None
                self._stops.update(context, token, told)
                if not context.status.is_done and context.end_idx >= longest:
                    _end(context)
            found[context.request_id] = context.to_generation_output()
        return found

    def release(self, request_id: RequestID) -> None:
        """Gives back the pages of a request, which is over, and what else is kept for it.

        Args:
            request_id: The request.

        Raises:
            InputError: ML621 (a ValueError), the request has no place in the cache.
        """
        self.forget(request_id)
        for manager in self.kv_managers:
            manager.release(request_id)

    def forget(self, request_id: RequestID) -> None:
        """Forgets what is kept for a request beside its pages.

        Args:
            request_id: The request.
        """
        self._stops.forget(request_id)
        self._forget_adapter(request_id)
        self._echoes.forget(request_id)
        if self._grammars is not None:
            self._grammars.forget(request_id)


def _return_logits(config: PipelineConfig) -> ReturnLogits:
    """The logits that the model has to return."""
    if config.enable_echo:
        return ReturnLogits.ALL
    variable = config.sampling_config.enable_variable_logits
    return ReturnLogits.VARIABLE if variable else ReturnLogits.LAST_TOKEN


def _end(context: Any) -> None:
    """Ends a request that has as many tokens as the model takes."""
    context.status = GenerationStatus.MAXIMUM_LENGTH


__all__ = ["READ", "BatchInfo", "TextGenerationPipeline"]
