"""The scheduler: batches that change, prompts in parts, preemption, cancelling, and its records."""

from __future__ import annotations

import queue
import random
import threading
from typing import Any

import pytest

from maxlab import progress, trace
from maxlab.errors import CancelledError, ExecutionError, InputError
from maxlab.interfaces import (
    BatchType,
    GenerationStatus,
    RequestID,
    SchedulerResult,
    TextGenerationOutput,
)
from maxlab.pipelines.core import TextContext
from maxlab.pipelines.lib.scheduler import Step, StepRecord, TextGenerationScheduler
from tests.pipelines.serving.running import TEXTS, Pipe, context, written
from tests.pipelines.serving.scheduling import COUNT, answered, contexts, limits, records, steps_of

WAYS: dict[str, dict[str, Any]] = {
    "as configured": {},
    "prompts in parts": {"prompt_tokens": 50},
    "prompts in parts of one page": {"prompt_tokens": 128, "steps": 1},
    "whole prompts": {"prompt_tokens": 50, "splits_prompts": False},
    "prompts beside next tokens": {"mixes": True, "prompt_tokens": 60},
    "two at a time": {"batch_size": 2, "prompts": 2, "active": 2},
    "one prompt at a time": {"prompts": 1},
    "turns": {"batch_size": 2, "prompts": 2, "active": 5, "steps": 2},
    "few tokens together": {"context_tokens": 300},
}


@pytest.mark.parametrize("way", WAYS)
def test_answers_do_not_depend_on_how_batches_are_formed(
    pipeline: Pipe, alone: list[list[int]], way: str
) -> None:
    scheduler = TextGenerationScheduler(pipeline, limits(pipeline, **WAYS[way]))
    assert answered(scheduler, contexts(pipeline)) == alone
    assert not scheduler.has_work
    assert scheduler.preemptions == 0


def test_batches_keep_to_their_limits(pipeline: Pipe) -> None:
    requests = contexts(pipeline)
    lengths = {str(one.request_id): one.active_length for one in requests}
    parts = records(TextGenerationScheduler(pipeline, limits(pipeline, prompt_tokens=50)), requests)
    prompts = [one for one in parts if one.batch_type == "CE"]
    assert all(one.input_tokens == 50 for one in prompts[:-1])
    assert sum(one.input_tokens for one in prompts) == sum(lengths.values())
    assert all(one.num_steps == 1 for one in prompts)
    assert all(not row.prompt for one in parts if one.batch_type == "TG" for row in one.requests)
    assert {one.num_steps for one in parts if one.batch_type == "TG"} == {4}
    mixed = records(
        TextGenerationScheduler(pipeline, limits(pipeline, mixes=True, prompt_tokens=60)),
        contexts(pipeline),
    )
    assert any(len({row.prompt for row in one.requests}) == 2 for one in mixed)
    assert max(one.input_tokens for one in mixed) == 60
    few = records(
        TextGenerationScheduler(pipeline, limits(pipeline, context_tokens=300)), contexts(pipeline)
    )
    for one in few:
        total = sum(row.start + row.computed for row in one.requests)
        assert total <= 300 or len(one.requests) == 1
    small = records(
        TextGenerationScheduler(pipeline, limits(pipeline, batch_size=2, active=5, steps=1)),
        contexts(pipeline),
    )
    assert max(len(one.requests) for one in small) == 2
    assert max(len(one.active) for one in small) == 5


def test_a_request_ends_at_any_time(pipeline: Pipe, alone: list[list[int]]) -> None:
    (manager,) = pipeline.kv_managers
    before = manager.num_free_blocks
    for after in range(9):  # waiting, in the middle of its prompt, and in its answer
        scheduler = TextGenerationScheduler(
            pipeline, limits(pipeline, prompt_tokens=60, steps=1, mixes=after % 2 == 0)
        )
        requests = contexts(pipeline)
        for one in requests:
            scheduler.submit(one)
        for _ in range(after):
            scheduler.step()
        scheduler.cancel(requests[0].request_id)
        scheduler.cancel(RequestID("nobody"))
        done = scheduler.step()
        assert done.results[requests[0].request_id] == SchedulerResult.cancelled()
        assert done.record.cancelled == (str(requests[0].request_id),)
        assert requests[0].status is GenerationStatus.CANCELLED
        assert not manager.contains(requests[0].request_id)
        for _ in steps_of(scheduler):
            pass
        assert [list(one.generated_tokens) for one in requests[1:]] == alone[1:]
        assert manager.num_free_blocks == before


def test_threads_ask_and_cancel_at_random(pipeline: Pipe, alone: list[list[int]]) -> None:
    """Eight threads with sixteen prompts each; those that are not cancelled have their answers."""
    scheduler = TextGenerationScheduler(pipeline, limits(pipeline, mixes=True))
    asked: list[tuple[int, TextContext]] = []
    prepared = [[context(pipeline, TEXTS[n % 5], max_new_tokens=COUNT) for n in range(16)]
                for _ in range(8)]  # fmt: skip
    called_off: set[RequestID] = set()

    def ask(seed: int) -> None:
        rng = random.Random(seed)
        for number, one in enumerate(prepared[seed]):
            asked.append((number % 5, one))
            scheduler.submit(one)
            if rng.random() < 0.25:
                called_off.add(one.request_id)
                scheduler.cancel(one.request_id)

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    results: dict[RequestID, list[int]] = {}
    ended: set[RequestID] = set()
    while any(thread.is_alive() for thread in threads) or scheduler.has_work:
        for request_id, result in scheduler.step().results.items():
            if result.result is not None:
                results.setdefault(request_id, []).extend(result.result.tokens)
            if result.is_done:
                ended.add(request_id)
    assert len(ended) == len(asked) == 128
    kept = [(number, one) for number, one in asked if one.request_id not in called_off]
    assert 64 < len(kept) < 128
    assert all(results[one.request_id] == alone[number] for number, one in kept)


def test_a_cancelled_work_cancels_its_requests(pipeline: Pipe) -> None:
    work = progress.Work("answers")
    scheduler = TextGenerationScheduler(pipeline)
    taken = scheduler.step

    def step() -> Step:
        found = taken()
        if found.record.number == 2:
            work.cancel()
        return found

    scheduler.step = step  # type: ignore[method-assign]
    with pytest.raises(CancelledError), progress.working(work):
        scheduler.answer(contexts(pipeline))
    assert not scheduler.has_work


def failing(
    pipeline: Pipe,
    monkeypatch: pytest.MonkeyPatch,
    at: int,
    error: BaseException = ZeroDivisionError("broken"),  # noqa: B008 - never changed
) -> None:
    execute, count = pipeline.execute, [0]

    def broken(inputs: Any) -> dict[RequestID, TextGenerationOutput]:
        count[0] += 1
        if count[0] == at:
            raise error
        return execute(inputs)

    monkeypatch.setattr(pipeline, "execute", broken)


def test_a_batch_that_fails_ends_its_requests_alone(
    pipeline: Pipe, alone: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(pipeline, monkeypatch, 2)
    scheduler = TextGenerationScheduler(pipeline, limits(pipeline, batch_size=3, active=3))
    requests = contexts(pipeline)
    for one in requests:
        scheduler.submit(one)
    errors: dict[RequestID, Exception] = {}
    for step in steps_of(scheduler):
        errors |= step.errors
        assert set(step.record.failed) == set(map(str, step.errors))
    assert list(errors) == [one.request_id for one in requests[:3]]
    assert {type(one) for one in errors.values()} == {ZeroDivisionError}
    assert [list(one.generated_tokens) for one in requests[3:]] == alone[3:]


def test_an_interrupt_gives_all_pages_back(
    pipeline: Pipe, alone: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(pipeline, monkeypatch, 3, KeyboardInterrupt())
    scheduler = TextGenerationScheduler(pipeline)
    with pytest.raises(KeyboardInterrupt):
        scheduler.answer(contexts(pipeline))
    (manager,) = pipeline.kv_managers
    assert manager.num_free_blocks == manager.total_num_pages
    assert not scheduler.has_work
    assert answered(scheduler, contexts(pipeline)) == alone


def test_a_request_that_fails_is_told_as_an_error(
    pipeline: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(pipeline, monkeypatch, 1)
    with pytest.raises(RuntimeError, match=r"broken.*ML141") as caught:
        TextGenerationScheduler(pipeline).answer(contexts(pipeline))
    assert isinstance(caught.value, ExecutionError)
    assert TextGenerationScheduler(pipeline).answer([]) == []


def test_what_cannot_be_answered_is_refused_at_once(pipeline: Pipe) -> None:
    scheduler = TextGenerationScheduler(pipeline)
    one = context(pipeline, "a")
    with pytest.raises(InputError, match="one id"):
        scheduler.answer([one, one])
    with pytest.raises(InputError, match="ML139"):
        scheduler.submit(context(pipeline, "a", logprobs=1, echo=True))
    assert not scheduler.has_work


def test_queues_bring_requests_and_take_results(pipeline: Pipe, alone: list[list[int]]) -> None:
    asked: queue.Queue[Any] = queue.Queue()
    ended: queue.Queue[Any] = queue.Queue()
    given: queue.Queue[Any] = queue.Queue()
    scheduler = TextGenerationScheduler(
        pipeline, request_queue=asked, response_queue=given, cancel_queue=ended
    )
    requests = contexts(pipeline)
    refused = context(pipeline, "a", logprobs=1, echo=True)
    for one in [*requests, refused]:
        asked.put(one)
    ended.put([requests[2].request_id])
    tokens: dict[RequestID, list[int]] = {}
    scheduler.pause()
    scheduler.run_iteration()
    assert asked.qsize() == 6
    scheduler.resume()
    scheduler.run_iteration()
    while scheduler.has_work:
        scheduler.run_iteration()
    while not given.empty():
        for request_id, result in given.get().items():
            got = [] if result.result is None else result.result.tokens
            tokens.setdefault(request_id, []).extend(got)
    assert tokens.pop(requests[2].request_id) == tokens.pop(refused.request_id) == []
    assert [tokens[one.request_id] for one in requests if one is not requests[2]] == [
        *alone[:2], *alone[3:],
    ]  # fmt: skip


def test_each_step_is_an_event(pipeline: Pipe) -> None:
    scheduler = TextGenerationScheduler(pipeline, limits(pipeline, steps=1))
    trace.recorder().clear()
    told: list[StepRecord] = records(scheduler, contexts(pipeline))
    events = trace.recorder().events("schedule")
    assert [StepRecord.of(event.data) for event in events] == told
    assert [event.name for event in events] == [f"step {n + 1}" for n in range(len(told))]
    assert all(event.dur_ns > 0 for event in events)
    first, last = told[0], told[-1]
    assert first.batch_type == BatchType.CE
    assert first.generated_tokens == len(TEXTS)
    assert last.generated_tokens == len(TEXTS)
    assert {row.status for row in last.requests} == {"maximum_length"}
    assert last.free_pages == last.pages
    assert sum(one.generated_tokens for one in told) == COUNT * len(TEXTS)


def test_steps_are_taken_one_by_one_while_it_is_paused(pipeline: Pipe) -> None:
    scheduler = TextGenerationScheduler(pipeline)
    scheduler.pause()
    one = context(pipeline, "a")
    scheduler.submit(one)
    for _ in range(3):
        scheduler.run_iteration()
    assert one.is_initial_prompt
    assert scheduler.is_paused
    scheduler.step()
    assert len(one.generated_tokens) == 1
    scheduler.resume()
    while scheduler.has_work:
        scheduler.run_iteration()
    assert one.is_done


def test_schemas_and_seeds_go_through_the_scheduler(pipeline: Pipe) -> None:
    pytest.importorskip("llguidance")
    form = {"type": "json_schema", "json_schema": {"const": "given beforehand, and long"}}

    def asked() -> list[TextContext]:
        return [
            context(pipeline, "a", response_format=form, max_new_tokens=60),
            *contexts(pipeline, temperature=8.0, seed=3),
        ]

    wanted = [written(pipeline, one)[0] for one in asked()]
    scheduler = TextGenerationScheduler(pipeline, limits(pipeline, mixes=True, prompt_tokens=40))
    assert answered(scheduler, asked()) == wanted


def test_threads_wait_for_whole_answers(pipeline: Pipe, alone: list[list[int]]) -> None:
    """A step that one thread takes may end the request of another one; a pause holds all."""
    scheduler = TextGenerationScheduler(pipeline)
    scheduler.pause()
    found: dict[int, list[list[int]]] = {}
    prepared = [contexts(pipeline) for _ in range(4)]

    def ask(number: int) -> None:
        found[number] = answered(scheduler, prepared[number])

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    while len(scheduler._arrived) < 20:
        threading.Event().wait(0.01)
    first = scheduler.step()
    assert len(first.record.requests) == 8
    assert first.record.number == 1
    assert not found
    scheduler.resume()
    for thread in threads:
        thread.join()
    assert found == dict.fromkeys(range(4), alone)
