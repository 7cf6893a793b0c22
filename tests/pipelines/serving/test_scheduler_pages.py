"""The scheduler where pages are few or shared: preemption, prefixes, and replicas."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import pytest

from maxlab import trace
from maxlab.driver import CPU
from maxlab.dtype import DType
from maxlab.errors import InsufficientBlocksError
from maxlab.interfaces import (
    RequestID,
    TextGenerationOutput,
)
from maxlab.nn.kv_cache import KVCacheParams, PagedKVCacheManager
from maxlab.pipelines.core import TextContext
from maxlab.pipelines.lib.scheduler import Limits, StepRecord, TextGenerationScheduler
from tests.pipelines.serving.running import Make, Pipe, context, request, written
from tests.pipelines.serving.scheduling import answered, contexts, limits, records, steps_of


@pytest.fixture(scope="module")
def tiny_pool(make: Make) -> Pipe:
    """A pipeline with three pages of 128 tokens."""
    return make(pages=3)


@pytest.mark.parametrize("changes", [{}, {"mixes": True, "prompt_tokens": 70}], ids=["", "mixed"])
def test_pages_that_run_out_are_given_to_the_older_requests(
    pipeline: Pipe, tiny_pool: Pipe, changes: dict[str, Any]
) -> None:
    """Probe: preemption that is never reached, or a pool that is silently enlarged."""
    texts = [f"The quick brown {number} " * 9 for number in range(4)]

    def asked(where: Pipe) -> list[TextContext]:
        return [context(where, one, max_new_tokens=150, ignore_eos=True) for one in texts]

    wanted = answered(TextGenerationScheduler(pipeline), asked(pipeline))
    scheduler = TextGenerationScheduler(tiny_pool, limits(tiny_pool, **changes))
    requests = asked(tiny_pool)
    for one in requests:
        scheduler.submit(one)
    taken = list(steps_of(scheduler, 3000))
    found: dict[RequestID, list[int]] = {one.request_id: [] for one in requests}
    for step in taken:
        assert not step.errors
        for request_id, result in step.results.items():
            assert result.result is not None
            found[request_id] += result.result.tokens
    assert list(found.values()) == wanted
    preempted = [one for step in taken for one in step.record.preempted]
    assert scheduler.preemptions == len(preempted) > 0
    assert str(requests[0].request_id) not in preempted, "the oldest one keeps its pages"
    (manager,) = tiny_pool.kv_managers
    assert {step.record.pages for step in taken} == {3}
    assert min(step.record.free_pages for step in taken) == 0
    assert manager.num_free_blocks == manager.total_num_pages == 3


@pytest.mark.parametrize(("prompt", "first"), [(390, 1), (300, 2)], ids=["prompt", "answer"])
def test_a_request_for_more_than_all_pages_fails_alone(
    tiny_pool: Pipe, prompt: int, first: int
) -> None:
    """At once, or where its answer comes to the end of the pool."""
    (manager,) = tiny_pool.kv_managers
    wanted = written(tiny_pool, context(tiny_pool, "a", max_new_tokens=99))[0]
    scheduler = TextGenerationScheduler(tiny_pool)
    long = TextContext(max_length=400, tokens=np.full(prompt, 9), ignore_eos=True)
    short = context(tiny_pool, "a", max_new_tokens=99)
    for one in (long, short):
        scheduler.submit(one)
    errors: dict[RequestID, Exception] = {}
    for step in steps_of(scheduler):
        errors |= step.errors
        assert step.record.number >= first or not errors
    assert list(errors) == [long.request_id]
    assert isinstance(errors[long.request_id], InsufficientBlocksError)
    assert len(long.generated_tokens) == (0 if first == 1 else 3 * 128 + 1 - prompt)
    assert wanted == list(short.generated_tokens)
    assert manager.num_free_blocks == 3


@pytest.fixture(scope="module")
def sharing(make: Make) -> Pipe:
    """A pipeline with five pages, which prefixes share."""
    return make(pages=5, enable_prefix_caching=True, max_batch_size=3)


def test_a_prefix_of_others_is_not_computed_again(sharing: Pipe, alone: list[list[int]]) -> None:
    pipeline = sharing
    first, *_ = records(TextGenerationScheduler(pipeline), contexts(pipeline)[:1])
    second, *_ = records(TextGenerationScheduler(pipeline), contexts(pipeline)[:1])
    length = first.requests[0].computed
    assert length > 128
    assert (first.requests[0].cached, second.requests[0].cached) == (0, 128)
    assert second.requests[0].computed == length - 128
    assert answered(TextGenerationScheduler(pipeline), contexts(pipeline)) == alone


def test_a_preempted_request_finds_its_own_prefix(sharing: Pipe) -> None:
    pipeline = sharing

    def asked() -> list[TextContext]:
        return [
            context(pipeline, f"{number} quick brown " * 12, max_new_tokens=180, ignore_eos=True)
            for number in range(3)
        ]

    wanted = [written(pipeline, one)[0] for one in asked()]
    pipeline.kv_managers[0].reset_prefix_cache()
    scheduler = TextGenerationScheduler(pipeline)
    trace.recorder().clear()
    assert answered(scheduler, asked()) == wanted
    told = [StepRecord.of(event.data) for event in trace.recorder().events("schedule")]
    preempted = {one for record in told for one in record.preempted}
    assert scheduler.preemptions > 0
    again = [
        row
        for record in told[1:]
        for row in record.requests
        if row.prompt and row.request in preempted and row.cached
    ]
    assert again, "some of its tokens were not computed anew"
    assert all(row.start == row.cached for row in again)


class Counting:
    """A pipeline of two replicas whose answers count up; its cache is a real one."""

    def __init__(self) -> None:
        params = KVCacheParams(
            DType.float32, 2, 4, page_size=128, n_devices=2, data_parallel_degree=2
        )
        devices = [CPU(0), CPU(1)]
        self.manager = PagedKVCacheManager(params, 2, 512, 1, devices)
        self.kv_managers = [self.manager]
        self.pipeline_config: Any = None
        self.tokenizer: Any = None
        self.lora_manager: Any = None
        self.batches: list[list[int]] = []

    def require_accepted(self, context: TextContext) -> None:
        pass

    def require_adapter(self, context: TextContext) -> None:
        pass

    def adapters_kept(self) -> AbstractContextManager[None]:
        return nullcontext()

    def fits_together(self, batch: Sequence[TextContext]) -> bool:
        return True

    def jump_ahead(self, context: TextContext) -> None:
        pass

    def steps_for(self, batch: Sequence[TextContext], num_steps: int) -> int:
        return num_steps

    def execute(self, inputs: Any) -> dict[RequestID, TextGenerationOutput]:
        self.batches.append([len(batch) for batch in inputs.batches])
        for replica, batch in enumerate(inputs.batches):
            for request_id, one in batch.items():
                assert self.manager.get_replica(request_id) == replica
                one.update(int(one.all_tokens[-1]) + 1)
        return {one: value.to_generation_output() for one, value in inputs.batch.items()}

    def release(self, request_id: RequestID) -> None:
        self.manager.release(request_id)

    def forget(self, request_id: RequestID) -> None:
        pass


def test_replicas_have_requests_of_their_own() -> None:
    pipeline = Counting()
    shape = Limits(2, 2, 2, 1, 1000, splits_prompts=True, mixes=False)
    scheduler = TextGenerationScheduler(pipeline, shape)
    requests = [TextContext(max_length=4, tokens=np.array([10 * n, 0])) for n in range(7)]
    assert answered(scheduler, requests) == [[1, 2]] * 7
    assert pipeline.batches[0] == [2, 2]
    assert max(map(max, pipeline.batches)) == 2
    assert pipeline.manager.num_free_blocks == pipeline.manager.total_num_pages


def test_whole_answers_without_a_scheduler_share_few_pages(pipeline: Pipe, tiny_pool: Pipe) -> None:
    def asked() -> list[Any]:
        given = {"max_new_tokens": 70, "ignore_eos": True}
        return [request(f"The quick brown {number} " * 9, **given) for number in range(4)]

    wanted = [one.tokens for one in pipeline.generate(asked())]
    assert [one.tokens for one in tiny_pool.generate(asked())] == wanted
    (manager,) = tiny_pool.kv_managers
    assert manager.num_free_blocks == 3
    with pytest.raises(InsufficientBlocksError, match="ML647"):
        tiny_pool.generate([request("a"), request("a", max_new_tokens=390, ignore_eos=True)])
    assert manager.num_free_blocks == 3
