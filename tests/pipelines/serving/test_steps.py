"""What a step of the scheduler does for its requests: counts of tokens and of calls, no times."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest

from maxlab.pipelines.core import TextContext
from maxlab.pipelines.lib.scheduler import Limits, TextGenerationScheduler
from tests.pipelines.serving.running import TEXTS, Pipe, context
from tests.pipelines.serving.scheduling import limits, records

CALLS_OF_A_ROW = 205
"""Calls of functions of maxlab that a step makes for one more request that decodes."""


def decoding(pipeline: Pipe, count: int) -> TextGenerationScheduler:
    """A scheduler with so many requests that wait for their next token."""
    scheduler = TextGenerationScheduler(pipeline, limits(pipeline, steps=1))
    for number in range(count):
        scheduler.submit(context(pipeline, f"{number} a", max_new_tokens=20, ignore_eos=True))
    while any(row.prompt for row in scheduler.step().record.requests):
        pass
    return scheduler


def ended(scheduler: TextGenerationScheduler, requests: list[Any]) -> None:
    for one in requests:
        scheduler.cancel(one)
    scheduler.step()
    assert not scheduler.has_work


def calls_of_a_step(scheduler: TextGenerationScheduler) -> int:
    """The calls of functions of maxlab in a step, after one of the same kind."""
    count = 0

    def counted(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        own = str(frame.f_globals.get("__name__", "")).startswith("maxlab.")
        count += event == "call" and own

    scheduler.step()
    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        done = scheduler.step()
    finally:
        sys.setprofile(before)
    assert all(row.generated == 1 for row in done.record.requests)
    ended(scheduler, list(done.results))
    return count


def test_a_step_does_as_much_for_each_of_its_requests(
    pipeline: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    for cache in pipeline.kv_managers[0]._replicas:
        monkeypatch.setattr(cache.blocks, "_checks", False)  # they count all pages
    two, four, eight = (calls_of_a_step(decoding(pipeline, count)) for count in (2, 4, 8))
    assert eight - four <= 4 * CALLS_OF_A_ROW
    assert eight - four <= 2 * (four - two) + 8, "the work for a request grows with the others"


@pytest.mark.parametrize("beside", [5, 30])
def test_next_tokens_come_in_every_step_beside_a_long_prompt(pipeline: Pipe, beside: int) -> None:
    shape = limits(pipeline, mixes=True, steps=1, tokens_beside=beside)
    long = TEXTS[0]
    (whole, *_) = records(TextGenerationScheduler(pipeline, shape), [context(pipeline, long)])
    assert whole.input_tokens == whole.requests[0].computed > 60
    pipeline.kv_managers[0].reset_prefix_cache()

    scheduler = TextGenerationScheduler(pipeline, shape)
    others = [context(pipeline, one, max_new_tokens=60, ignore_eos=True) for one in "ab"]
    for one in others:
        scheduler.submit(one)
    while any(row.prompt for row in scheduler.step().record.requests):
        pass
    asked: TextContext = context(pipeline, long, max_new_tokens=1)
    scheduler.submit(asked)
    parts = []
    while not asked.is_done:
        record = scheduler.step().record
        parts += [row.computed for row in record.requests if row.prompt]
        assert [row.generated for row in record.requests if not row.prompt] == [1, 1]
    assert sum(parts) == whole.input_tokens
    assert parts[:-1] == [beside] * (len(parts) - 1)
    ended(scheduler, [one.request_id for one in others])


def test_the_limits_of_a_cpu_keep_parts_of_prompts_small(pipeline: Pipe) -> None:
    found = Limits.of(pipeline.pipeline_config)
    assert found.tokens_beside == 32 < found.prompt_tokens
