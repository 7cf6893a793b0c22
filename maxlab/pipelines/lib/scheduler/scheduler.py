"""The scheduler of text generation: it takes requests, runs batches, and hands out answers."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from maxlab.interfaces import (
    GenerationStatus,
    MAXPullQueue,
    MAXPushQueue,
    RequestID,
    Scheduler,
    SchedulerResult,
    TextGenerationInputs,
    TextGenerationOutput,
    drain_queue,
)
from maxlab.pipelines.lib.scheduler.answering import Answering
from maxlab.pipelines.lib.scheduler.forming import Batch, Former
from maxlab.pipelines.lib.scheduler.limits import Limits
from maxlab.pipelines.lib.scheduler.pacing import Pace
from maxlab.pipelines.lib.scheduler.pipeline import ScheduledPipeline
from maxlab.pipelines.lib.scheduler.queues import Queues
from maxlab.pipelines.lib.scheduler.records import Happened, RequestStep, StepRecord

_LOG = logging.getLogger(__name__)
_numbers = count(1)
Results = dict[RequestID, SchedulerResult[TextGenerationOutput]]


@dataclass(frozen=True)
class Step:
    """The results of a step of a scheduler.

    Attributes:
        record: What was done.
        results: The outputs of requests; without an output for those that were cancelled or failed.
        errors: The reasons of those that failed.
        start_ns: When it began, by ``time.monotonic_ns``.
    """

    record: StepRecord
    results: Results = field(default_factory=dict)
    errors: dict[RequestID, Exception] = field(default_factory=dict)
    start_ns: int = 0


class TextGenerationScheduler(Answering, Scheduler):
    """Runs requests through a pipeline of text in batches that change from step to step.

    Requests join the batch as soon as there is room, and leave it when they are done. A step
    computes prompts, or the next tokens of all requests whose prompt is computed, or with
    ``enable_in_flight_batching`` both. Long prompts are computed in parts of
    ``prefill_chunk_size`` tokens. Where pages run out, the request that arrived last gives its own
    to the others, and is computed anew; answers do not depend on it.

    Each step adds one event of the kind ``"schedule"`` to the event stream (`StepRecord`). Between
    two steps the scheduler can be paused; `step` then takes single ones.

    Requests can be added and cancelled from any thread; steps are taken by one at a time, also
    where several schedulers have one pipeline.

    Args:
        pipeline: A `TextGenerationPipeline`, or another `ScheduledPipeline`.
        limits: How large batches may be; by the pipeline's configuration where it is None.
        request_queue: Contexts of new requests, which `run_iteration` takes.
        response_queue: Takes the results of each iteration, a dict by request.
        cancel_queue: Ids, or lists of ids, of requests that are to end.

    Example:
        >>> scheduler = TextGenerationScheduler(pipeline)  # doctest: +SKIP
        >>> scheduler.submit(context)  # doctest: +SKIP
        >>> scheduler.step().record.input_tokens  # doctest: +SKIP
        5
    """

    def __init__(
        self,
        pipeline: ScheduledPipeline[Any],
        limits: Limits | None = None,
        *,
        request_queue: MAXPullQueue[Any] | None = None,
        response_queue: MAXPushQueue[Results] | None = None,
        cancel_queue: MAXPullQueue[Any] | None = None,
    ) -> None:
        self.pipeline = pipeline
        self.limits = Limits.of(pipeline.pipeline_config) if limits is None else limits
        self._requests, self._responses, self._cancels = request_queue, response_queue, cancel_queue
        self._queues = Queues()
        self._former = Former(pipeline, self.limits, self._queues)
        self._arrived: deque[Any] = deque()
        self._called_off: deque[RequestID] = deque()
        self._lock = getattr(pipeline, "lock", None) or threading.RLock()
        self.name = f"scheduler {next(_numbers)}"
        """Tells its steps from those of the other schedulers of the process."""
        self._number = 0
        self._arrived_ns: dict[RequestID, int] = {}
        super().__init__()
        self.preemptions = 0
        """How often a request gave its pages to others."""

    # ------------------------------------------------------------ requests
    def submit(self, context: Any) -> None:
        """Adds a request, for the next step to take.

        Args:
            context: The state of the request.

        Raises:
            InputError: ML139, ML160 (a ValueError), the pipeline cannot answer it as it asks.
            UnsupportedError: ML995 (a NotImplementedError), no pipeline of text can.
        """
        self.pipeline.require_accepted(context)
        self._add(context)

    def _add(self, context: Any) -> None:
        """Lets a request arrive, for the next step to take."""
        self._arrived_ns.setdefault(context.request_id, time.monotonic_ns())
        self._arrived.append(context)

    def cancel(self, request_id: RequestID) -> None:
        """Ends a request at the beginning of the next step, and gives its pages back.

        A request that is not there, or done already, is passed over.

        Args:
            request_id: The request.
        """
        self._called_off.append(request_id)

    @property
    def has_work(self) -> bool:
        """Whether a step has something to do."""
        return bool(self._arrived or self._called_off or len(self._queues))

    # ------------------------------------------------------------ steps
    @property
    def is_paused(self) -> bool:
        """Whether `run_iteration` does nothing."""
        return not self._goes_on.is_set()

    def pause(self) -> None:
        """Lets `run_iteration` do nothing and `answer` wait, until `resume`."""
        self._goes_on.clear()

    def resume(self) -> None:
        """Lets `run_iteration` take steps again."""
        self._goes_on.set()

    def run_iteration(self) -> None:
        """Takes new and cancelled requests from their queues, takes a step, and puts its results
        into the queue of responses; nothing while it is paused.

        A request that cannot be answered is logged, and its result has no output.

        Raises:
            queue.Full: The queue of responses has no room.
        """
        if self.is_paused:
            return
        results: Results = {}
        for context in [] if self._requests is None else drain_queue(self._requests):
            try:
                self.submit(context)
            except Exception as error:
                _LOG.warning("the request %s is refused: %s", context.request_id, error)
                results[context.request_id] = SchedulerResult.cancelled()
        for given in [] if self._cancels is None else drain_queue(self._cancels):
            for request_id in given if isinstance(given, (list, tuple)) else [given]:
                self.cancel(request_id)
        if self.has_work:
            done = self.step()
            for request_id, reason in done.errors.items():
                _LOG.warning("the request %s ended with an error: %s", request_id, reason)
            results |= done.results
        if results and self._responses is not None:
            self._responses.put_nowait(results)

    def step(self) -> Step:
        """Forms one batch and runs it, also while the scheduler is paused.

        Nothing is raised for a request that fails: it is told among the errors of the step.
        """
        with self._lock, self.pipeline.adapters_kept():
            started = time.monotonic_ns()
            happened, results = Happened(), Results()
            self._take_new()
            errors: dict[RequestID, Exception] = {}
            self._call_off(happened, results)
            batch = self._former.form(happened)
            errors |= batch.errors
            formed = time.monotonic_ns()
            before = [
                (one, one.start_idx, one.active_length, one.needs_ce) for one in batch.contexts
            ]
            outputs, error = self._execute(batch)
            executed = time.monotonic_ns()
            if error is not None:
                errors |= dict.fromkeys((one.request_id for one in batch.contexts), error)
            rows = tuple(self._row(batch, outputs, executed, *one) for one in before)
            self._hand_back(batch, outputs, errors, results)
            if self._former.pace is not None and error is None:
                took = (time.monotonic_ns() - started) / 1e9
                self._learn(self._former.pace, rows, took / batch.num_steps)
            happened.failed += map(str, errors)
            self._number += 1
            self.preemptions += len(happened.preempted)
            manager = self._former.manager
            record = StepRecord(
                number=self._number,
                batch_type=batch.kind.value if rows else "",
                num_steps=batch.num_steps if rows else 0,
                requests=rows,
                waiting=tuple(str(one.request_id) for one in self._queues.waiting),
                active=tuple(map(str, self._queues.active)),
                preempted=tuple(happened.preempted),
                cancelled=tuple(happened.cancelled),
                failed=tuple(happened.failed),
                pages=0 if manager is None else manager.total_num_pages,
                free_pages=0 if manager is None else manager.num_free_blocks,
                forming_s=(formed - started) / 1e9,
                executing_s=(executed - formed) / 1e9,
                shared_pages=0 if manager is None else manager.num_shared_blocks,
                scheduler=self.name,
            )
            done = Step(record, results, errors, started)
            record.tell(started)  # before anybody sees the results
            self._collect(done)
        return done

    def _learn(self, pace: Pace, rows: Sequence[RequestStep], seconds: float) -> None:
        """Tell ``pace`` of a step: of the replica that had most to do, as all are computed at
        once."""
        replicas = {row.replica for row in rows}
        if not replicas:
            return
        most = max(replicas, key=lambda n: sum(row.computed for row in rows if row.replica == n))
        own = [row for row in rows if row.replica == most]
        parts = [(row.start, row.computed) for row in own if row.prompt]
        pace.add(len(own) - len(parts), parts, seconds)

    def _take_new(self) -> None:
        """Puts the requests that have arrived among those that wait."""
        while self._arrived:
            context = self._arrived.popleft()
            if context.request_id not in self._queues:
                self._queues.add(context)
            else:
                _LOG.warning("the request %s is there already", context.request_id)

    def _call_off(self, happened: Happened, results: Results) -> None:
        """Ends the requests that were cancelled."""
        asked = set()
        while self._called_off:
            asked.add(self._called_off.popleft())
        if not asked:
            return
        for context in [one for one in self._queues if one.request_id in asked]:
            context.status = GenerationStatus.CANCELLED
            self._forget(context)
            happened.cancelled.append(str(context.request_id))
            results[context.request_id] = SchedulerResult.cancelled()

    def _end(self, request_ids: Sequence[RequestID]) -> None:
        with self._lock:
            for request_id in request_ids:
                self.cancel(request_id)
            self._take_new()
            self._call_off(Happened(), {})

    def _execute(
        self, batch: Batch
    ) -> tuple[dict[RequestID, TextGenerationOutput], Exception | None]:
        """The outputs of a batch, and what the pipeline raised."""
        if not batch.contexts:
            return {}, None
        inputs = TextGenerationInputs(
            batch.replicas,
            batch.num_steps,
            input_tokens=sum(one.active_length for one in batch.contexts),
            batch_type=batch.kind,
        )
        try:
            return self.pipeline.execute(inputs), None
        except Exception as error:
            _LOG.exception("a batch of %d requests failed", len(batch))
            return {}, error

    def _row(
        self,
        batch: Batch,
        outputs: dict[RequestID, TextGenerationOutput],
        ended_ns: int,
        context: Any,
        start: int,
        computed: int,
        is_prompt: bool,
    ) -> RequestStep:
        request_id, manager = context.request_id, self._former.manager
        output = outputs.get(request_id)
        return RequestStep(
            request=str(request_id),
            replica=self._queues.replica_of.get(request_id, 0),
            start=start,
            computed=computed,
            cached=batch.found.get(request_id, 0),
            prompt=is_prompt,
            generated=0 if output is None else len(output.tokens),
            status=str(context.status),
            pages=0 if manager is None else len(manager.get_req_blocks(request_id)),
            age_s=(ended_ns - self._arrived_ns.get(request_id, ended_ns)) / 1e9,
        )

    def _hand_back(
        self,
        batch: Batch,
        outputs: dict[RequestID, TextGenerationOutput],
        errors: dict[RequestID, Exception],
        results: Results,
    ) -> None:
        """Puts the requests of a batch into their next queue; those that are over give their pages
        back."""
        if batch.errors:
            for context in [one for one in self._queues if one.request_id in batch.errors]:
                self._forget(context)
                results[context.request_id] = SchedulerResult.cancelled()
        for context in batch.contexts:
            request_id = context.request_id
            if request_id in errors:
                self._forget(context)
                results[request_id] = SchedulerResult.cancelled()
                continue
            output = outputs[request_id]
            if output.tokens or output.is_done:
                results[request_id] = SchedulerResult.create(output)
            if context.status.is_done:
                self._forget(context)
            elif context.needs_ce:
                self._queues.wait(context)
            else:
                self._queues.go_on(context)

    def _forget(self, context: Any) -> None:
        """Gives back all that a request has."""
        manager = self._former.manager
        if manager is None or manager.contains(context.request_id):
            self.pipeline.release(context.request_id)
        else:
            self.pipeline.forget(context.request_id)
        self._queues.remove(context)
        self._arrived_ns.pop(context.request_id, None)


__all__ = ["Results", "Step", "TextGenerationScheduler"]
