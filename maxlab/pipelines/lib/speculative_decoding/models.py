"""The draft model and its target: their inputs, the tokens of one, and the checks of the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from maxlab.driver import CPU, Tensor
from maxlab.errors import ExecutionError, InputError
from maxlab.graph.weights import WeightsFormat
from maxlab.interfaces import PipelineTokenizer, RequestID, TextGenerationRequest
from maxlab.nn.kv_cache.manager import KVCacheInputsSequence
from maxlab.nn.transformer import ReturnLogits
from maxlab.pipelines.core import TextContext
from maxlab.pipelines.lib.interfaces import (
    KVCacheMixin,
    ModelInputs,
    ModelOutputs,
    PipelineModel,
)
from maxlab.pipelines.lib.model_loading import loaded_model
from maxlab.pipelines.lib.pipeline_variants.accepting import too_long
from maxlab.pipelines.lib.pipeline_variants.text_base import TextPipelineParts, next_inputs
from maxlab.pipelines.lib.speculative_decoding.ahead import Ahead
from maxlab.pipelines.lib.speculative_decoding.draft_model import loaded_draft
from maxlab.pipelines.lib.speculative_decoding.samplers import Rules, Samplers, on
from maxlab.pipelines.lib.weights_adapter import WeightsAdapter

if TYPE_CHECKING:
    from transformers import AutoConfig

    from maxlab.nn.kv_cache import PagedKVCacheManager
    from maxlab.pipelines.lib.config import PipelineConfig


class DraftAndTarget(TextPipelineParts[TextContext]):
    """A draft model that proposes tokens, and the target that checks them.

    Args:
        pipeline_config: The configuration, resolved, with a draft model.
        pipeline_model: The class of the target.
        weight_adapters: Functions that convert the weights of the target's format of files.
        tokenizer: The tokenizer of both models.

    Raises:
        InputError: As by `SpeculativeDecodingTextGenerationPipeline`.
        WeightError: The files of weights cannot be read, or do not fit a model.
    """

    def __init__(
        self,
        pipeline_config: PipelineConfig,
        pipeline_model: type[PipelineModel[TextContext]],
        weight_adapters: Mapping[WeightsFormat, WeightsAdapter],
        tokenizer: PipelineTokenizer[
            TextContext, npt.NDArray[np.integer[Any]], TextGenerationRequest
        ],
    ) -> None:
        self._draft_model = loaded_draft(pipeline_config)
        self._target_model = loaded_model(
            pipeline_config, pipeline_model, weight_adapters, ReturnLogits.VARIABLE
        )
        super().__init__(pipeline_config, tokenizer, self._target_model)
        for model in (self._target_model, self._draft_model):
            if not isinstance(model, KVCacheMixin):
                raise InputError(
                    "ML869",
                    "speculative decoding needs models with a cache of keys and values ≠ "
                    f"{type(model).__name__} without one given",
                    fix="put KVCacheMixin among the bases of the model",
                )
        self._samplers = Samplers(
            pipeline_config.sampling_config, self._target_model, self._draft_model
        )
        self._drafted: dict[RequestID, int] = {}  # tokens in the draft model's cache
        # The inputs of the target, and its logits by text and place, for log probabilities.
        self._checked: tuple[ModelInputs, npt.NDArray[np.float32]] | None = None

    @property
    def kv_managers(self) -> list[PagedKVCacheManager]:
        """The managers of the caches of keys and values: of the target, then of the draft model."""
        return [_manager(self._target_model), _manager(self._draft_model)]

    def calculate_num_steps(
        self,
        model: PipelineModel[TextContext],
        huggingface_config: AutoConfig,
        num_steps: int,
        context: TextContext,
        is_draft: bool = False,
    ) -> int:
        """The number of tokens that a model has room for behind a text: at most ``num_steps``.

        Args:
            model: The draft model or the target.
            huggingface_config: The configuration of its checkpoint.
            num_steps: The number of tokens that is wanted.
            context: The state of the request.
            is_draft: Whether it is the draft model, for which 0 is a number too: it proposes
                nothing then.

        Raises:
            InputError: ML160 (a ValueError), the text has as many tokens as the target takes.
        """
        longest = model.calculate_max_seq_len(model.pipeline_config, huggingface_config)
        room = context.compute_num_available_steps(longest)
        if room < 1 and not is_draft:
            raise too_long(context, longest)
        return min(num_steps, room)

    def _room(self, model: Any, num_steps: int, context: TextContext) -> int:
        is_draft = model is self._draft_model
        return self.calculate_num_steps(
            model, model.huggingface_config, num_steps, context, is_draft
        )

    def _of_draft(self, context: TextContext) -> Any:
        """The state of a request as the draft model has it, whose cache may be behind."""
        start = min(self._drafted.get(context.request_id, 0), context.active_idx - 1)
        return Ahead(context, start=start)

    # ------------------------------------------------------------ inputs
    def prepare_batch(
        self,
        model: PipelineModel[TextContext],
        batch: list[TextContext],
        num_steps: int,
        return_n_logits: int,
        is_draft: bool = False,
        draft_inputs: ModelInputs | None = None,
        merged_draft_tokens: Tensor | None = None,
        merged_draft_offsets: Tensor | None = None,
    ) -> tuple[ModelInputs, int]:
        """The inputs of a model for a batch, whose pages are reserved, and the number of its steps.

        The draft model gets all tokens that are not in its cache, and takes up to ``num_steps``
        steps. The target gets the tokens of each text with ``return_n_logits - 1`` draft tokens
        behind them, in one step.

        Args:
            model: The draft model or the target.
            batch: The states of the requests.
            num_steps: The number of draft tokens that is wanted; of the target, 1.
            return_n_logits: The number of tokens of each text whose logits are returned.
            is_draft: Whether it is the draft model.
            draft_inputs: The inputs by which the draft model made the draft tokens of this batch.
            merged_draft_tokens: The tokens of all texts with their draft tokens, int64 [tokens].
            merged_draft_offsets: Where those of each text begin, uint32 [texts + 1].

        Raises:
            InputError: ML160, a text has no room for a token; ML869, what is passed of the draft is
                not that of this batch (each a ValueError).
            InsufficientBlocksError: ML620, ML647 (a RuntimeError), there are too few pages.
        """
        manager = _manager(model)
        merged = (draft_inputs, merged_draft_tokens, merged_draft_offsets)
        count = 0 if is_draft else return_n_logits - 1
        self._check_merged(batch, merged, count)
        for context in batch:
            if not manager.contains(context.request_id):
                manager.claim(context.request_id, manager.get_or_recommend_replica(context))
            num_steps = min(num_steps, self._room(model, num_steps, context))
        views: list[Any] = []
        for context in batch:
            if is_draft:
                views.append(self._of_draft(context))
                manager.alloc(views[-1], max(num_steps, 1))
                self._drafted[context.request_id] = views[-1].start_idx
            else:
                manager.alloc(context, return_n_logits)
                views.append(Ahead(context, np.zeros(count, np.int64)))
        steps = max(num_steps, 1) if is_draft else 1
        inputs = model.prepare_initial_token_inputs(
            context_batch=views,
            kv_cache_inputs=KVCacheInputsSequence(manager.get_runtime_inputs(views, steps)),
            return_n_logits=return_n_logits,
        )
        if count:
            inputs.update(tokens=merged_draft_tokens, input_row_offsets=merged_draft_offsets)
        return inputs, num_steps if is_draft else steps

    @staticmethod
    def _check_merged(
        batch: Sequence[TextContext], merged: tuple[Any, Any, Any], count: int
    ) -> None:
        """Raises unless draft tokens are passed where there are some, and for this batch."""
        inputs, tokens, offsets = merged
        given = [one is not None for one in merged]
        total = sum(context.active_length + count for context in batch)
        if all(given) if count else not any(given):
            if not count:
                return
            ends = [len(batch) + 1]
            before = getattr(inputs, "input_row_offsets", offsets)
            shapes = [list(one.shape) for one in (before, offsets, tokens)]
            if shapes == [ends, ends, [total]]:
                return
        raise InputError(
            "ML869",
            f"{count} draft tokens for each of {len(batch)} texts expected, {total} tokens in all, "
            "with the inputs of the draft model",
            why=[f"{sum(given)} of the three are passed"] if not all(given) else [],
            fix="pass what generate_draft_tokens returned for this batch, or call execute",
        )

    # ------------------------------------------------------------ draft
    def generate_draft_tokens(
        self, batch: list[TextContext], num_steps: int, model_inputs: ModelInputs
    ) -> tuple[int, Tensor, Tensor, ModelInputs, Tensor]:
        """The tokens that the draft model proposes, one of each text in each of its runs.

        Args:
            batch: The states of the requests.
            num_steps: The number of tokens of each text, 1 or more.
            model_inputs: The inputs of the first run, by `prepare_batch`.

        Returns:
            The number of tokens of each text; the tokens, int64 [texts, steps]; their logits,
            float32 [texts, steps]; the inputs of the last run; and all logits, [steps, texts,
            vocabulary]. Logits are those after penalties, before temperature and top-k.
        """
        device, config = self._samplers.draft_device, self._samplers.config
        rules = Rules.of(config, batch)
        top_k, temperature, top_p, _, _ = rules.tensors(device)
        max_k = on(np.array(-1 if rules.top_k.min() < 1 else rules.top_k.max()), device)
        min_top_p = on(np.array(rules.top_p.min()), device)
        tokens = on(np.zeros((len(batch), 0), np.int64), device)
        logits = on(np.zeros((len(batch), 0), np.float32), device)
        every: Tensor | None = None
        for step in range(num_steps):
            outputs = self._draft_model.execute(model_inputs)
            # Only penalties depend on which tokens were drawn, not on how many.
            drawn = (
                tokens.to(CPU()).to_numpy()
                if config.do_penalties
                else np.zeros((len(batch), step), np.int64)
            )
            views = [Ahead(one, row) for one, row in zip(batch, drawn, strict=True)]
            last = outputs.next_token_logits
            last = outputs.logits if last is None else last
            adjusted = self._samplers.adjusted(device, views, last, np.arange(len(batch)))
            new, tokens, logits = self.sample_draft_logits(
                batch,
                ModelOutputs(logits=adjusted),
                tokens,
                logits,
                top_k,
                max_k,
                temperature,
                top_p,
                min_top_p,
                on(rules.seed + np.uint64(step), device),
            )
            if every is None:
                every = Tensor.zeros((num_steps, *adjusted.shape), adjusted.dtype, device)
            every[step, :, :].inplace_copy_from(adjusted)
            if step + 1 < num_steps:
                model_inputs = next_inputs(
                    self._draft_model, self.kv_managers[1:], new, model_inputs
                )
        assert every is not None, "num_steps is 1 or more"
        return num_steps, tokens, logits, model_inputs, every

    def sample_draft_logits(
        self,
        batch: list[TextContext],
        model_outputs: ModelOutputs,
        prev_tokens: Tensor,
        prev_logits: Tensor,
        top_k: Tensor,
        max_k: Tensor,
        temperature: Tensor,
        top_p: Tensor,
        min_top_p: Tensor,
        seed: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The next draft token of each text, int64 [texts]; and with those before all draft tokens,
        int64 [texts, steps], and their logits, float32 [texts, steps].

        Args:
            batch: The states of the requests, whose ``min_p`` counts.
            model_outputs: The logits to draw from, after penalties, [texts, vocabulary].
            prev_tokens: The draft tokens before, int64 [texts, steps - 1].
            prev_logits: Their logits, float32.
            top_k: How many of the most probable tokens each text is drawn from, [texts]; all below
                1.
            max_k: The most that any text is drawn from, of rank 0; no limit below 1.
            temperature: What the logits of each text are divided by, [texts].
            top_p: The probability that tokens before the last one have less than, [texts].
            min_top_p: The least of these, of rank 0.
            seed: The seed of each text, uint64 [texts].
        """
        device = self._samplers.draft_device
        min_p = np.array([context.sampling_params.min_p for context in batch], np.float64)
        rules = (top_k, temperature, top_p, on(min_p, device), seed, max_k, min_top_p)
        return self._samplers.draw(model_outputs.logits, prev_tokens, prev_logits, *rules)

    # ------------------------------------------------------------ target
    def verify_draft_tokens_with_target_model(
        self,
        draft_inputs: ModelInputs,
        context_batch: list[TextContext],
        num_draft_tokens_generated: int,
        draft_tokens: Tensor,
        draft_logits: Tensor,
        merged_draft_tokens: Tensor,
        merged_draft_offsets: Tensor,
        all_draft_logits: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """How many draft tokens of each text are kept, int64 [texts]; for each step the token that
        follows if the draft token is the first that is not kept, int64 [texts, steps]; and the
        token that follows if all are kept, int64 [texts, 1].

        Args:
            draft_inputs: The inputs of the draft model's last run.
            context_batch: The states of the requests.
            num_draft_tokens_generated: The number of draft tokens of each text.
            draft_tokens: The draft tokens, int64 [texts, steps].
            draft_logits: Their logits, float32 [texts, steps].
            merged_draft_tokens: The tokens of all texts with their draft tokens, int64 [tokens].
            merged_draft_offsets: Where those of each text begin, uint32 [texts + 1].
            all_draft_logits: The logits of the draft, [steps, texts, vocabulary].

        Raises:
            InputError: ML869, what is passed is not of this batch; ML138, the models have different
                numbers of tokens (each a ValueError).
        """
        count = num_draft_tokens_generated
        inputs, _ = self.prepare_batch(
            self._target_model,
            context_batch,
            1,
            count + 1,
            draft_inputs=draft_inputs,
            merged_draft_tokens=merged_draft_tokens,
            merged_draft_offsets=merged_draft_offsets,
        )
        outputs = self._target_model.execute(inputs)
        sizes = outputs.logits.shape[1], all_draft_logits.shape[2]
        if sizes[0] != sizes[1]:
            raise InputError(
                "ML138",
                f"a draft model with {sizes[0]} tokens, as the model has, expected ≠ {sizes[1]} "
                "tokens given",
                fix="take a draft model with the tokenizer of the model",
            )
        rows = rows_of(outputs, len(context_batch), count + 1)
        drawn = draft_tokens.to(CPU()).to_numpy()
        views = [
            Ahead(context, drawn[index, :place])
            for index, context in enumerate(context_batch)
            for place in range(count + 1)
        ]
        samplers = self._samplers
        target = samplers.adjusted(samplers.device, views, outputs.logits, rows)
        if any(context.log_probabilities for context in context_batch):
            logits = outputs.logits.to(CPU()).to_numpy()[rows]
            self._checked = inputs, logits.reshape(len(context_batch), count + 1, -1)
        rules = Rules.of(samplers.config, context_batch)
        return samplers.check(rules, draft_tokens, draft_logits, all_draft_logits, target)


def _manager(model: Any) -> PagedKVCacheManager:
    """The manager of a model's cache."""
    found: PagedKVCacheManager = model.kv_manager
    return found


def rows_of(outputs: ModelOutputs, texts: int, count: int) -> npt.NDArray[np.int64]:
    """The rows of the logits of the last ``count`` tokens of each text, one text after the other.

    Raises:
        ExecutionError: ML178, the model returned too few.
    """
    every = int(outputs.logits.shape[0])
    if outputs.logit_offsets is None:
        ends = np.arange(texts + 1) * count
    else:
        ends = outputs.logit_offsets.to(CPU()).to_numpy().astype(np.int64)
    if ends[-1] != every or (np.diff(ends) < count).any():
        raise ExecutionError(
            "ML178",
            f"the logits of {count} tokens of each of {texts} texts expected ≠ {every} rows given",
            fix="let execute of the model return them, with logit_offsets, for "
            "ReturnLogits.VARIABLE",
        )
    rows: npt.NDArray[np.int64] = (ends[1:, None] - count + np.arange(count)).reshape(-1)
    return rows


__all__ = ["DraftAndTarget", "rows_of"]
