"""Forms the batches of a scheduler, and reserves their pages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from maxlab.errors import InsufficientBlocksError, MaxlabError
from maxlab.interfaces import BatchType, RequestID
from maxlab.pipelines.lib.scheduler.limits import Limits
from maxlab.pipelines.lib.scheduler.pacing import Pace
from maxlab.pipelines.lib.scheduler.pipeline import ScheduledPipeline
from maxlab.pipelines.lib.scheduler.queues import Queues
from maxlab.pipelines.lib.scheduler.records import Happened

ROOM = 0.95
"""The part of the pages that may have users after a prompt is let in beside other requests. What is
left is for the next tokens of these, which would be preempted otherwise."""


@dataclass
class Batch:
    """The requests of a step.

    Attributes:
        replicas: For each replica, the states of its requests.
        kind: Whether it has tokens of prompts.
        num_steps: The number of steps.
        found: For each request, the number of its tokens that were found in shared pages.
        errors: The requests that cannot be answered, with the reason.
    """

    replicas: list[dict[RequestID, Any]]
    kind: BatchType = BatchType.TG
    num_steps: int = 1
    found: dict[RequestID, int] = field(default_factory=dict)
    errors: dict[RequestID, Exception] = field(default_factory=dict)

    def __len__(self) -> int:
        return sum(map(len, self.replicas))

    @property
    def contexts(self) -> list[Any]:
        """The states of all requests, those of the first replica first."""
        return [context for batch in self.replicas for context in batch.values()]


class Former:
    """Forms batches of the requests in two queues.

    Prompts go before next tokens, while there is room for them. Where the pages are not enough for
    the next tokens, the request that arrived last gives its pages back; its tokens are computed
    anew later, and are the same.

    Args:
        pipeline: The pipeline.
        limits: How large batches may be.
        queues: The requests.

    Attributes:
        pace: What is known of the time of steps; None where limits do not ask for it.
        manager: The pages of the first cache; None without one.
        replicas: The number of replicas.
    """

    def __init__(self, pipeline: ScheduledPipeline[Any], limits: Limits, queues: Queues) -> None:
        self._pipeline, self._limits, self._queues = pipeline, limits, queues
        self.pace = None if limits.longest_beside is None else Pace(limits.longest_beside)
        self.manager: Any = next(iter(pipeline.kv_managers), None)
        self.replicas: int = 1 if self.manager is None else self.manager.num_replicas

    # ------------------------------------------------------------ batches
    def form(self, happened: Happened) -> Batch:
        """The next batch, whose pages are reserved. Its requests stay in their queues, so that an
        interrupt loses none.

        Args:
            happened: Gets the requests that are preempted.
        """
        batch = Batch([{} for _ in range(self.replicas)])
        if self._limits.mixes:
            for replica in range(self.replicas):
                self._add_next_tokens(batch, replica, happened, 1)
        self._add_prompts(batch, happened)
        if batch.kind is BatchType.TG and not self._limits.mixes:
            batch.num_steps = self._limits.steps
            for replica in range(self.replicas):
                self._add_next_tokens(batch, replica, happened, batch.num_steps)
        elif batch.kind is BatchType.TG and self._limits.steps > 1:
            self._lengthen(batch)
        return batch

    def _lengthen(self, batch: Batch) -> None:
        """Lets a batch of next tokens alone take more than one step, where pages are free."""
        steps = self._pipeline.steps_for(batch.contexts, self._limits.steps)
        if steps > 1 and all(self._reserve_now(one, steps) for one in batch.contexts):
            batch.num_steps = steps

    # ------------------------------------------------------------ prompts
    def _add_prompts(self, batch: Batch, happened: Happened) -> None:
        """Adds prompts to each replica's part of the batch, in the order of their arrival."""
        if not self._queues.waiting:
            return
        limits, full = self._limits, [False] * self.replicas
        members = [list(own.values()) for own in batch.replicas]
        first = next(iter(self._queues.waiting))
        budgets = [self._budget(own, first.start_idx) for own in members]
        prompts = [0] * self.replicas
        active = [0] * self.replicas
        for request_id in self._queues.active:
            active[self._queues.replica_of.get(request_id, 0)] += 1
        for context in list(self._queues.waiting):
            replica = self._replica_for(context)
            own = batch.replicas[replica]
            full[replica] |= (
                len(own) >= limits.batch_size
                or prompts[replica] >= limits.prompts
                or active[replica] + prompts[replica] >= limits.active
                or budgets[replica] < 1
                or not self._fits_context(members[replica], context)
            )
            if all(full):
                return
            if full[replica]:
                continue
            if not self._admit(context, replica, own, batch, happened):
                full[replica] |= context.request_id not in batch.errors
                continue
            is_long = limits.splits_prompts and context.active_length > budgets[replica]
            if is_long and not self._split(context, budgets[replica], prompts[replica] == 0):
                full[replica] = True
                continue
            budgets[replica] -= context.active_length
            prompts[replica] += 1
            own[context.request_id] = context
            members[replica].append(context)
            batch.kind = BatchType.CE

    def _budget(self, own: list[Any], start: int) -> int:
        """The tokens of prompts that fit beside the next tokens of a batch, where ``start`` tokens
        of the first prompt are cached."""
        limits = self._limits
        left: int = limits.prompt_tokens - sum(one.active_length for one in own)
        if not own:
            return left
        beside = None if self.pace is None else self.pace.tokens(len(own), start)
        beside = limits.tokens_beside if beside is None else beside
        return left if beside is None else min(left, beside)

    def _replica_for(self, context: Any) -> int:
        if self.manager is None:
            return 0
        found: int = self.manager.get_or_recommend_replica(context)
        return found

    def _fits_context(self, own: list[Any], context: Any) -> bool:
        """Whether a request fits into the tokens of a batch, and its adapter beside those of the
        others; one alone always does."""
        if not own:
            return True
        own.append(context)  # for a moment, so that no list is copied for each request
        try:
            if not self._pipeline.fits_together(own):
                return False
            most = self._limits.context_tokens
            return most is None or sum(one.current_length for one in own) <= most
        finally:
            own.pop()

    def _admit(
        self,
        context: Any,
        replica: int,
        own: dict[RequestID, Any],
        batch: Batch,
        happened: Happened,
    ) -> bool:
        """Reserves the pages of a prompt; False where it has to wait, or cannot be answered."""
        is_new = self.manager is not None and not self.manager.contains(context.request_id)
        try:
            self._pipeline.require_adapter(context)
            self._pipeline.jump_ahead(context)
            if self.manager is None:
                return True
            if is_new:
                self.manager.claim(context.request_id, replica)
                self._queues.replica_of[context.request_id] = replica
            before = context.start_idx
            is_busy = bool(self._queues.active or own)
            used = self.manager.get_pct_used_blocks_after_allocation(context, 1)
            if is_new and is_busy and used > ROOM:
                self._give_back(context)
                return False
            while not self.manager.maybe_reserve(context, 1):
                idle = [one for one in self._queues.holders(replica) if one is not context]
                if is_busy or not idle:  # pages come back when others end
                    if is_new:
                        self._give_back(context)
                    return False
                self.preempt(idle[-1], happened)
            batch.found[context.request_id] = context.start_idx - before
            return True
        except (MaxlabError, InsufficientBlocksError) as error:
            batch.errors[context.request_id] = error
            return False

    def _split(self, context: Any, budget: int, is_first: bool) -> bool:
        """Lets only the first ``budget`` of the next tokens be computed; False where an image must
        not be divided there. The first prompt of a batch does not wait for that: its image is
        computed whole, as it may never fit beside the next tokens of others."""
        start, end = context.start_idx, context.start_idx + budget
        align = getattr(context, "compute_image_aligned_idx", None)
        if align is not None:
            if align(end) <= start and is_first:
                end = next(one for one in range(end, context.end_idx + 1) if align(one) == one)
            end = align(end)
        if end <= start:
            return False
        context.set_token_indices(active_idx=end)
        return True

    # ------------------------------------------------------------ next tokens
    def _add_next_tokens(
        self, batch: Batch, replica: int, happened: Happened, num_steps: int
    ) -> None:
        """Adds the requests of a replica that wait longest for their next token."""
        own, queues = batch.replicas[replica], self._queues
        chosen: list[Any] = []
        for context in queues.active.values():
            if self.replicas > 1 and queues.replica_of.get(context.request_id, 0) != replica:
                continue
            if len(chosen) >= self._limits.batch_size:
                break
            if self._fits_context(chosen, context):
                chosen.append(context)
        steps = self._pipeline.steps_for(chosen, num_steps)
        for context in sorted(chosen, key=queues.arrival):
            if context.request_id not in queues.active:  # it was preempted for an older one
                continue
            steps = self._reserve(context, steps, replica, batch, happened)
            if steps and context.request_id in queues.active:
                own[context.request_id] = context
            steps = max(steps, 1)
        batch.num_steps = min(batch.num_steps, steps)

    def _reserve(
        self, context: Any, steps: int, replica: int, batch: Batch, happened: Happened
    ) -> int:
        """The number of steps that pages of a request are reserved for, at most ``steps``; 0 where
        it was preempted, or cannot be answered."""
        try:
            self._pipeline.require_adapter(context)
            self._pipeline.jump_ahead(context)
            while True:
                if self._reserve_now(context, steps):
                    return steps
                if steps > 1:
                    steps = 1
                    continue
                victim = self._queues.holders(replica)[-1]
                self.preempt(victim, happened)
                if victim is context:
                    return 0
        except (MaxlabError, InsufficientBlocksError) as error:
            batch.errors[context.request_id] = error
            return 0

    def _reserve_now(self, context: Any, steps: int) -> bool:
        """Whether there are the pages of a request for ``steps`` steps, which it then has."""
        if self.manager is None:
            return True
        try:
            return bool(self.manager.maybe_reserve(context, steps))
        except InsufficientBlocksError:  # more than all pages
            if steps == 1:
                raise
            return False

    # ------------------------------------------------------------ giving back
    def preempt(self, context: Any, happened: Happened) -> None:
        """Takes the pages of a request, whose tokens are all computed anew later.

        Args:
            context: The state of the request.
            happened: Gets the request.
        """
        self._give_back(context)
        context.reset()
        self._queues.wait(context)
        happened.preempted.append(str(context.request_id))

    def _give_back(self, context: Any) -> None:
        self.manager.release(context.request_id)
        self._queues.replica_of.pop(context.request_id, None)


__all__ = ["ROOM", "Batch", "Former"]
