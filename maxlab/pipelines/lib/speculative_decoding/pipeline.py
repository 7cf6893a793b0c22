"""The pipeline that lets a small model propose tokens, which a large one checks all at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np
import numpy.typing as npt

from maxlab.driver import CPU, Tensor
from maxlab.errors import InsufficientBlocksError
from maxlab.graph.weights import WeightsFormat
from maxlab.interfaces import (
    GenerationStatus,
    LogProbabilities,
    Pipeline,
    PipelineTokenizer,
    RequestID,
    TextGenerationInputs,
    TextGenerationOutput,
    TextGenerationRequest,
)
from maxlab.pipelines.core import TextContext
from maxlab.pipelines.lib.interfaces import (
    GenerateMixin,
    PipelineModel,
)
from maxlab.pipelines.lib.pipeline_variants.accepting import eos_token_ids, tokens_left
from maxlab.pipelines.lib.pipeline_variants.batch_info import BatchInfo, BatchInfos
from maxlab.pipelines.lib.pipeline_variants.drawing import Drawing, TokenSampler
from maxlab.pipelines.lib.pipeline_variants.stopping import StopTexts
from maxlab.pipelines.lib.pipeline_variants.text_generation import READ
from maxlab.pipelines.lib.speculative_decoding.metrics import SpeculativeDecodingMetrics
from maxlab.pipelines.lib.speculative_decoding.models import DraftAndTarget, rows_of
from maxlab.pipelines.lib.speculative_decoding.samplers import on
from maxlab.pipelines.lib.speculative_decoding.telling import told_of
from maxlab.pipelines.lib.weights_adapter import WeightsAdapter

if TYPE_CHECKING:
    from maxlab.pipelines.lib.config import PipelineConfig

_CACHE = (
    "enable_prefix_caching",
    "enable_kvcache_swapping_to_host",
    "host_kvcache_swap_space_gb",
    "force_download",
)
_READ = READ | {f"draft_{name}" for name in _CACHE}
"""Settings that this pipeline and its two models read."""
Integers = npt.NDArray[np.integer[Any]]


@final
class SpeculativeDecodingTextGenerationPipeline(
    DraftAndTarget,
    GenerateMixin[TextContext, TextGenerationRequest],
    Pipeline[TextGenerationInputs[TextContext], TextGenerationOutput],
):
    """Generates the tokens of requests with a small draft model, which proposes tokens, and the
    model, the target, which checks all of them in one run.

    A draft token is kept with the probability min(1, p / q), where p is the target's probability of
    it and q the draft's. Behind the kept ones comes a token drawn from what p has above q, or from
    p where all are kept. So tokens have the distribution of the target, whatever the draft model
    is; at temperature 0 they are the tokens of the target alone. Temperature, top-k, top-p, min-p,
    penalties and the least number of tokens act on p and q alike. See Y. Leviathan, M. Kalman,
    Y. Matias, "Fast inference from transformers via speculative decoding" (ICML 2023).

    Each execution gives a request up to ``num_steps + 1`` tokens. The draft model proposes nothing,
    and the target draws one token, where a request has logits processors or a part of its prompt
    left, where texts are as long as either model takes, and where pages run out. Which tokens are
    drawn above temperature 0 depends on the number of draft tokens, which a batch has in common.

    Args:
        pipeline_config: The configuration, resolved, with a draft model.
        pipeline_model: The class of the target.
        eos_token_id: A token that ends a sequence. It and those of the target's configuration end
            the answers of contexts that name none.
        weight_adapters: Functions that convert the weights of the target's format of files.
        tokenizer: The tokenizer of both models.

    Raises:
        InputError: ML868, the configuration names no draft model; ML172, ML174, its architecture
            is not registered or for another task; ML182, an encoding is missing; ML869, a model
            has no cache of keys and values (each a ValueError).
        UnsupportedError: ML127 (a NotImplementedError), the configuration asks for something that
            this pipeline does not do.
        WeightError: The files of weights cannot be read, or do not fit a model.
    """

    def __init__(
        self,
        pipeline_config: PipelineConfig,
        pipeline_model: type[PipelineModel[TextContext]],
        eos_token_id: int,
        weight_adapters: Mapping[WeightsFormat, WeightsAdapter],
        tokenizer: PipelineTokenizer[
            TextContext, npt.NDArray[np.integer[Any]], TextGenerationRequest
        ],
    ) -> None:
        pipeline_config.refuse_unread(read=_READ)
        config = pipeline_config.model_config.huggingface_config
        super().__init__(pipeline_config, pipeline_model, weight_adapters, tokenizer)
        self._eos_token_ids = {eos_token_id} | eos_token_ids(config)
        self._plain: TokenSampler | None = None
        self._metrics = SpeculativeDecodingMetrics()
        self._stops = StopTexts(tokenizer)
        self._infos = BatchInfos(self)

    # ------------------------------------------------------------ parts
    @property
    def metrics(self) -> SpeculativeDecodingMetrics:
        """The counts of draft tokens, and of those that were kept, since the pipeline was made."""
        return self._metrics

    def jump_ahead(self, context: TextContext) -> None:
        """Raises for a request with a JSON schema, which no draft follows.

        Args:
            context: The state of the request.

        Raises:
            InputError: ML139 (a ValueError), the request has a schema.
        """
        if context.json_schema is not None:
            self.require_accepted(context)

    # ------------------------------------------------------------ numbers of tokens
    def steps_for(self, batch: Sequence[TextContext], num_steps: int) -> int:
        """The number of tokens that a batch can take in a step of a scheduler, which reserves pages
        for them; 1 or more.

        Args:
            batch: The states of the requests.
            num_steps: The number of tokens that is wanted.

        Raises:
            InputError: ML160 (a ValueError), a request has as many tokens as the target takes.
        """
        rooms = [self._room(self._target_model, num_steps, context) for context in batch]
        return 1 if any(map(_decides, batch)) else min([num_steps, *rooms])

    def _draft_steps(self, batch: Sequence[TextContext], num_steps: int) -> int:
        """The number of draft tokens for a batch, whose pages are reserved; 0 for none."""
        rooms = [self._room(self._target_model, num_steps + 1, context) - 1 for context in batch]
        if any(map(_decides, batch)):
            return 0
        rooms += [self._room(self._draft_model, num_steps, context) for context in batch]
        # The last token of a text needs no draft.
        count = min(num_steps, max(map(tokens_left, batch)) - 1, *rooms)
        while count > 0 and not self._reserve(batch, count):
            count -= 1
        return max(count, 0)

    def _reserve(self, batch: Sequence[TextContext], count: int) -> bool:
        """Whether there are pages for ``count`` draft tokens of each request, which it then has."""
        target = self.kv_managers[0]
        try:
            if not all(target.maybe_reserve(context, count + 1) for context in batch):
                return False
            if self._reserve_draft(batch, count):
                return True
            # A request without pages of the target is computed anew, by both models.
            for request_id in [one for one in self._drafted if not target.contains(one)]:
                self._forget_draft(request_id)
            return self._reserve_draft(batch, count)
        except InsufficientBlocksError:  # more than all pages
            return False

    def _reserve_draft(self, batch: Sequence[TextContext], count: int) -> bool:
        """Whether the draft model's cache has the pages, which requests then have."""
        draft, views = self.kv_managers[1], [self._of_draft(context) for context in batch]
        found = all(draft.maybe_reserve(view, count) for view in views)
        # A prefix that the cache has need not be computed.
        self._drafted |= {view.request_id: view.start_idx for view in views}
        return found

    # ------------------------------------------------------------ steps
    def execute(
        self, inputs: TextGenerationInputs[TextContext]
    ) -> dict[RequestID, TextGenerationOutput]:
        """The tokens that each request of a batch gets next, by request: those of up to
        ``num_steps`` draft tokens that are kept, and one more.

        Args:
            inputs: The batch. One without requests has no outputs.

        Raises:
            InputError: ML139, a request asks for a feature that is off; ML160, it has no room for a
                token (each a ValueError). The contexts have no new tokens then.
            InsufficientBlocksError: ML620, ML647 (a RuntimeError), the target has too few pages for
                a token of each request.
        """
        if not any(inputs.batches):
            return {}
        self._checked = None
        batch = self._begin(inputs.batches)
        count = self._draft_steps(batch, inputs.num_steps)
        past, active = zip(*((one.start_idx, one.active_length) for one in batch), strict=True)
        self._infos.add(BatchInfo(list(past), list(active), count + 1))
        if count:
            given, count = self.prepare_batch(self._draft_model, batch, count, 1, is_draft=True)
            count, tokens, logits, given, every = self.generate_draft_tokens(batch, count, given)
            found = self.verify_draft_tokens_with_target_model(
                given, batch, count, tokens, logits, *self._merged(batch, tokens), every
            )
            kept, recovered, bonus, drawn = (one.to(CPU()).to_numpy() for one in (*found, tokens))
            self.update_contexts(batch, kept, recovered, bonus, drawn, count)
        else:
            self._take_plain_step(batch)
        target, draft = self.kv_managers
        target.step(batch)
        known = [one for one in batch if one.request_id in self._drafted]
        draft.step([self._of_draft(one) for one in known])
        return self.build_response(batch)

    def _begin(self, batches: Sequence[Mapping[RequestID, TextContext]]) -> list[TextContext]:
        """The requests of all replicas, each with a place in both caches."""
        for batch in batches:
            for context in batch.values():
                if not context.eos_token_ids:
                    context.eos_token_ids.update(self._eos_token_ids)
                self._require_computable(context)
        for replica, batch in enumerate(batches):
            for manager in self.kv_managers:
                for request_id in batch:
                    if not manager.contains(request_id):
                        manager.claim(request_id, replica)
        return [context for batch in batches for context in self._side_by_side(batch)]

    def _merged(self, batch: Sequence[TextContext], draft: Tensor) -> tuple[Tensor, Tensor]:
        """The tokens that the target computes, and where those of each text begin."""
        parts = [context.next_tokens for context in batch]
        tokens = np.concatenate(parts).astype(np.int64)
        ends = np.cumsum([0, *map(len, parts)]).astype(np.uint32)
        device = self._samplers.device
        return self._samplers.merge(on(tokens, device), on(ends, device), draft)

    def _take_plain_step(self, batch: list[TextContext]) -> None:
        """Draws a token of each request by the target alone."""
        inputs, _ = self.prepare_batch(self._target_model, batch, 1, 1)
        if self._plain is None:
            config, session = self.pipeline_config.sampling_config, self._target_model.session
            self._plain = TokenSampler(session, config, self._samplers.device)
        outputs = self._target_model.execute(inputs)
        drawing = Drawing(self._plain, batch, 1, None, [])
        drawing.draw(outputs)
        drawn = drawing.tokens()
        told = None
        if any(context.log_probabilities for context in batch):
            rows = rows_of(outputs, len(batch), 1)
            logits = outputs.logits.to(CPU()).to_numpy()[rows][:, None]
            told = told_of(self._target_model, batch, inputs, logits, drawn)
        self._take(batch, [row.tolist() for row in drawn], told)

    def update_contexts(
        self,
        context_batch: list[TextContext],
        first_rejected_tokens: Integers,
        recovered_tokens: Integers,
        bonus_tokens: Integers,
        draft_tokens: Integers,
        num_draft_tokens_generated: int,
    ) -> None:
        """Gives requests the draft tokens that are kept, and the token behind them.

        Tokens behind the one that ends an answer are dropped. The caches of both models hold the
        kept tokens alone from now on: what they have of others is written over.

        Args:
            context_batch: The states of the requests.
            first_rejected_tokens: How many draft tokens of each request are kept, [requests].
            recovered_tokens: The token that follows if a step's is not kept, [requests, steps].
            bonus_tokens: The token that follows if all are kept, [requests, 1].
            draft_tokens: The draft tokens, [requests, steps].
            num_draft_tokens_generated: The number of draft tokens of each request.
        """
        count = num_draft_tokens_generated
        kept = [int(number) for number in first_rejected_tokens.reshape(-1)]
        given = []
        for index, (context, number) in enumerate(zip(context_batch, kept, strict=True)):
            follows = recovered_tokens[index, number] if number < count else bonus_tokens[index, 0]
            given.append([*draft_tokens[index, :number].tolist(), int(follows)])
            # The last draft token was drawn, and not computed.
            self._drafted[context.request_id] = context.active_idx + min(number, count - 1)
        told = None
        if self._checked is not None:
            (inputs, logits), self._checked = self._checked, None
            padded = np.array([one + [0] * (count + 1 - len(one)) for one in given], np.int64)
            told = told_of(self._target_model, context_batch, inputs, logits, padded)
        used = self._take(context_batch, given, told)
        self._metrics.update(
            count * len(kept), sum(kept), sum(number > count for number in used), kept
        )

    def _take(
        self,
        batch: Sequence[TextContext],
        tokens: Sequence[Sequence[int]],
        told: Sequence[Sequence[LogProbabilities | None]] | None,
    ) -> list[int]:
        """Gives tokens to requests until they are done; the number that each has taken."""
        longest, used = self._target_model.max_seq_len, []
        for index, (context, new) in enumerate(zip(batch, tokens, strict=True)):
            taken = 0
            for place, token in enumerate(new):
                if context.is_done:
                    break
                found = None if told is None else told[index][place]
                self._stops.update(context, token, found)
                taken += 1
                if not context.is_done and context.end_idx >= longest:
                    context.status = GenerationStatus.MAXIMUM_LENGTH
            used.append(taken)
        return used

    def build_response(
        self, context_batch: list[TextContext]
    ) -> dict[RequestID, TextGenerationOutput]:
        """The tokens of requests that were not told yet, by request.

        Args:
            context_batch: The states of the requests.
        """
        return {one.request_id: one.to_generation_output() for one in context_batch}

    # ------------------------------------------------------------ ends
    def release(self, request_id: RequestID) -> None:
        """Gives back the pages of a request in both caches, and what else is kept for it.

        Args:
            request_id: The request.

        Raises:
            InputError: ML621 (a ValueError), the request has no place in the target's cache.
        """
        self.forget(request_id)
        self.kv_managers[0].release(request_id)

    def forget(self, request_id: RequestID) -> None:
        """Forgets what is kept for a request beside its pages in the target's cache.

        Args:
            request_id: The request.
        """
        self._stops.forget(request_id)
        self._forget_adapter(request_id)
        self._forget_draft(request_id)

    def _forget_draft(self, request_id: RequestID) -> None:
        """Gives back the pages of a request in the draft model's cache, if it has a place there."""
        self._drafted.pop(request_id, None)
        draft = self.kv_managers[1]
        if draft.contains(request_id):
            draft.release(request_id)


def _decides(context: TextContext) -> bool:
    """Whether the token that is drawn decides what comes after it, so that one is drawn alone."""
    return bool(context.sampling_params.logits_processors or context.active_idx < context.end_idx)


__all__ = ["SpeculativeDecodingMetrics", "SpeculativeDecodingTextGenerationPipeline"]
