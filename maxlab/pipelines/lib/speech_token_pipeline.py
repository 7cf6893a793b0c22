"""The pipeline that makes speech tokens, which a decoder of audio turns into sound."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from maxlab.driver import CPU, Tensor
from maxlab.errors import InputError, UnsupportedError
from maxlab.graph.weights import WeightsFormat
from maxlab.interfaces import (
    LogProbabilities,
    PipelineTokenizer,
    RequestID,
    TextGenerationInputs,
    TextGenerationOutput,
    fields,
)
from maxlab.pipelines.core import TTSContext
from maxlab.pipelines.lib.interfaces import PipelineModel
from maxlab.pipelines.lib.pipeline_variants.accepting import tokens_left
from maxlab.pipelines.lib.pipeline_variants.drawing import Drawing
from maxlab.pipelines.lib.pipeline_variants.text_base import next_inputs
from maxlab.pipelines.lib.pipeline_variants.text_generation import READ, TextGenerationPipeline
from maxlab.pipelines.lib.weights_adapter import WeightsAdapter

if TYPE_CHECKING:
    from maxlab.pipelines.lib.config import PipelineConfig

_BUDGET = fields.integer(0)


class SpeechTokenGenerationPipeline(TextGenerationPipeline[TTSContext]):
    """Generates the speech tokens of requests in batches, as many for each request as are asked.

    It is a pipeline of text whose tokens stand for sound. Two things differ: `next_speech_token`
    takes a number of tokens for each request of the batch, and steps end early once every request
    has its tokens or has ended. The audio of a request may go on after its tokens have ended, so
    `TTSContext.status`, not `TTSContext.is_done`, says whether more tokens come.

    Args:
        pipeline_config: The configuration, resolved.
        pipeline_model: The class of the model that makes the tokens.
        eos_token_id: A token that ends a sequence, beside those of the model's configuration.
        weight_adapters: Functions that convert the weights of a format of files.
        tokenizer: The tokenizer, which makes contexts of requests.
        read_elsewhere: Settings of the configuration that the owner of this pipeline reads.

    Raises:
        UnsupportedError: ML127 (a NotImplementedError), the configuration has a draft model, or
            asks for something else that the pipeline does not do.
        InputError, WeightError: As by `TextGenerationPipeline`.
    """

    def __init__(
        self,
        pipeline_config: PipelineConfig,
        pipeline_model: type[PipelineModel[TTSContext]],
        eos_token_id: int,
        weight_adapters: Mapping[WeightsFormat, WeightsAdapter],
        tokenizer: PipelineTokenizer[TTSContext, npt.NDArray[np.integer[Any]], Any],
        *,
        read_elsewhere: Collection[str] = (),
    ) -> None:
        if pipeline_config.draft_model_config is not None:
            raise UnsupportedError(
                "ML127",
                "the configuration has a draft model, and speech tokens are made without one",
                fix="leave draft_model_path out",
            )
        self._read_elsewhere = frozenset(read_elsewhere)
        super().__init__(pipeline_config, pipeline_model, eos_token_id, weight_adapters, tokenizer)

    def _read_settings(self) -> frozenset[str]:
        return READ | self._read_elsewhere

    @property
    def speech_lm(self) -> PipelineModel[TTSContext]:
        """The model that makes the tokens."""
        return self._pipeline_model

    def execute(
        self, inputs: TextGenerationInputs[TTSContext]
    ) -> dict[RequestID, TextGenerationOutput]:
        """The tokens that each request of a batch gets next, by request.

        Args:
            inputs: The batch.

        Raises:
            InputError, InsufficientBlocksError: As by `prepare_batch`; the contexts have no new
                tokens then.
        """
        if not any(inputs.batches):
            return {}
        budgets = dict.fromkeys(inputs.batch, inputs.num_steps)
        return self._speak(inputs.batches, inputs.num_steps, budgets, inputs.enable_log_probs)

    def next_speech_token(
        self,
        batch: dict[RequestID, TTSContext],
        num_steps: int,
        tokens_to_generate: dict[RequestID, int],
    ) -> dict[RequestID, TextGenerationOutput]:
        """The next speech tokens of each request, at most ``tokens_to_generate`` of it.

        Steps that no request has a use for are not taken: those beyond the largest number of
        tokens that is asked, or that a request can still get, and those after the last request has
        ended. A request that has ended
        before, or of which no token is asked, is not computed; its output has no tokens. The
        tokens of a request do not depend on the others of its batch, nor on the numbers of steps.

        Args:
            batch: The states of the requests.
            num_steps: The most steps to take; none is taken for 0.
            tokens_to_generate: For each request, the most tokens that it takes.

        Raises:
            InputTypeError, InputError: ``num_steps`` or a number of tokens is no int, or negative;
                ML193 (a ValueError), a request of the batch has no number of tokens.
            InputError, InsufficientBlocksError: As by `prepare_batch`; the contexts have no new
                tokens then.
        """
        _BUDGET("num_steps", num_steps)
        if missing := [one for one in batch if one not in tokens_to_generate]:
            raise InputError(
                "ML193",
                f"tokens_to_generate: a number for each of {len(batch)} requests expected ≠ none "
                f"for {missing[0].value!r} given",
                fix="give the most tokens that each request of the batch is to get",
            )
        for request_id in batch:
            _BUDGET(f"tokens_to_generate[{request_id.value!r}]", tokens_to_generate[request_id])
        if not batch or num_steps == 0:
            return {}
        speaking = {
            request_id: context
            for request_id, context in batch.items()
            if tokens_to_generate[request_id] and not context.status.is_done
        }
        told = any(context.log_probabilities for context in speaking.values())
        found = self._speak([speaking], num_steps, tokens_to_generate, told) if speaking else {}
        return {
            request_id: found[request_id] if request_id in found else context.to_generation_output()
            for request_id, context in batch.items()
        }

    def _speak(
        self,
        batches: list[dict[RequestID, TTSContext]],
        num_steps: int,
        budgets: Mapping[RequestID, int],
        enable_log_probs: bool,
    ) -> dict[RequestID, TextGenerationOutput]:
        """The outputs of a batch of which each request takes as many tokens as ``budgets`` says."""
        useful = {
            one: max(min(budgets[one], tokens_left(context)), 1)
            for contexts in batches
            for one, context in contexts.items()
        }
        model_inputs, num_steps, bitmask, batch = self.prepare_batch(
            batches, min(num_steps, max(useful.values()))
        )
        most = [min(useful[context.request_id], num_steps) for context in batch]
        told: list[list[LogProbabilities | None]] = []
        drawing = Drawing(self._sampler, batch, num_steps, bitmask, self.batch_processors)
        ended = np.zeros(len(batch), bool)
        for step in range(1, num_steps + 1):
            outputs = self._pipeline_model.execute(model_inputs)
            new_tokens = drawing.draw(outputs)
            if enable_log_probs:
                told.append(
                    self._log_probabilities(step - 1, batch, model_inputs, outputs, new_tokens)
                )
            if step == num_steps:
                break
            ended |= _ended(batch, most, step, new_tokens)
            if ended.all():
                self._infos.shorten(step)
                break
            model_inputs = next_inputs(
                self._pipeline_model, self.kv_managers, new_tokens, model_inputs
            )
        drawn = drawing.tokens()
        found: dict[RequestID, TextGenerationOutput] = {}
        for row, context in enumerate(batch):
            own = [[of_step[row]] for of_step in told]
            found |= self.update_context_and_prepare_responses(
                drawn[row : row + 1], own, [context], min(most[row], step), enable_log_probs
            )
        for manager in self.kv_managers:
            manager.step(batch)
        return found


def _ended(
    batch: Sequence[TTSContext], most: Sequence[int], step: int, new_tokens: Tensor
) -> npt.NDArray[np.bool_]:
    """Whether each request has all its tokens after ``step`` steps, or ends with its new token."""
    tokens = new_tokens.to(CPU()).to_numpy().tolist()
    return np.array(
        [
            step >= limit or context.ends_generation(token, len(context.generated_tokens) + step)
            for context, limit, token in zip(batch, most, tokens, strict=True)
        ]
    )


__all__ = ["SpeechTokenGenerationPipeline"]
