"""How many tokens of prompts go beside next tokens, by times that the tests make up."""

from __future__ import annotations

import numpy as np
import pytest

from maxlab.pipelines.lib.scheduler import Limits
from maxlab.pipelines.lib.scheduler.limits import LONGEST_BESIDE
from maxlab.pipelines.lib.scheduler.pacing import LEAST, UNIT, Pace
from maxlab.pipelines.lib.scheduler.scheduler import TextGenerationScheduler
from tests.pipelines.serving.running import TEXTS, Pipe, context
from tests.pipelines.serving.scheduling import limits, records

STEP, EACH, SEEN = 0.02, 1.0e-3, 1.0e-6
"""Seconds: of a step of next tokens, of a token of a prompt, and for each token before it."""


def took(start: int, count: int) -> float:
    return STEP + count * EACH + count * (start + count / 2) * SEEN


def taught(pace: Pace, prompts: int = 2, count: int = 32, slow: int = 0) -> Pace:
    """``pace`` after some prompts of 512 tokens beside 8 requests; each step ``slow`` is one of
    those in which something else happened."""
    for _ in range(6):
        pace.add(8, (), STEP)
    for number in range(prompts * 512 // count):
        start = number * count % 512
        pace.add(8, [(start, count)], took(start, count) * (2 if slow and not number % slow else 1))
    return pace


def test_nothing_is_said_before_steps_of_both_kinds() -> None:
    pace = Pace(3.0)
    assert pace.tokens(8, 0) is None
    pace.add(8, [(0, 32)], 0.05)
    pace.add(0, [(0, 512)], 0.6)  # a prompt alone says nothing of what is beside others
    for _ in range(8):
        pace.add(8, (), STEP)
    assert pace.tokens(8, 0) is None
    for _ in range(4):
        pace.add(8, [(0, 32)], took(0, 32))
    assert pace.tokens(8, 0) is not None


@pytest.mark.parametrize("slow", [0, 5])
@pytest.mark.parametrize("times", [2.5, 3.0, 4.0])
def test_steps_become_as_long_as_asked(times: float, slow: int) -> None:
    """Also where each fifth step took twice its time."""
    pace = taught(Pace(times), slow=slow)
    for start in (0, 200, 480, 4000):
        count = pace.tokens(8, start)
        assert count is not None
        unit = took(start, UNIT) - STEP
        if count > LEAST:
            assert abs(took(start, count) - times * STEP) <= (0.51 if not slow else 1.1) * unit
        else:
            assert took(start, count) >= times * STEP - unit


def test_later_parts_of_a_prompt_are_smaller() -> None:
    pace = taught(Pace(3.0))
    counts = [pace.tokens(8, start) for start in range(0, 4096, 64)]
    assert counts == sorted(counts, reverse=True, key=int)  # type: ignore[arg-type]
    assert counts[-1] < counts[0]  # type: ignore[operator]


def test_the_newest_steps_of_as_many_requests_count() -> None:
    pace = taught(Pace(3.0))
    before = pace.tokens(8, 0)
    assert before == 40
    for _ in range(9):
        pace.add(8, (), 2 * STEP)
        pace.add(1, (), STEP / 4)
    after = pace.tokens(8, 0)
    assert after is not None
    assert after > before
    assert pace.tokens(1, 0) == LEAST
    assert pace.tokens(64, 0) == after  # nobody knows more of so many


def test_there_is_a_least_number() -> None:
    pace = taught(Pace(1.1))
    assert pace.tokens(8, 0) == pace.tokens(2, 10_000) == LEAST


def test_costs_are_never_below_nothing() -> None:
    rng = np.random.default_rng(3)
    for _ in range(200):
        pace = Pace(3.0)
        for _ in range(6):
            pace.add(8, (), float(rng.exponential(STEP)))
            pace.add(8, [(int(rng.integers(500)), int(rng.integers(1, 64)))], rng.random() / 20)
        assert min(pace._costs()) >= 0
        found = pace.tokens(8, int(rng.integers(500)))
        assert found is None or found >= LEAST


def test_a_scheduler_takes_as_many_as_its_pace_says(
    pipeline: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, int]] = []

    def tokens(pace: Pace, requests: int, start: int) -> int:
        asked.append((requests, start))
        return 7

    monkeypatch.setattr(Pace, "tokens", tokens)
    shape = limits(pipeline, mixes=True, steps=1, longest_beside=3.0)
    (whole, *_) = records(TextGenerationScheduler(pipeline, shape), [context(pipeline, TEXTS[0])])
    pipeline.kv_managers[0].reset_prefix_cache()
    scheduler = TextGenerationScheduler(pipeline, shape)
    other = context(pipeline, "a", max_new_tokens=60, ignore_eos=True)
    scheduler.submit(other)
    scheduler.step()
    for _ in range(5):
        scheduler.step()
    long = context(pipeline, TEXTS[0])
    scheduler.submit(long)
    parts: list[int] = []
    while not long.tokens.size or not parts or sum(parts) < whole.input_tokens:
        record = scheduler.step().record
        parts += [row.computed for row in record.requests if row.prompt]
    assert parts[:-1] == [7] * (len(parts) - 1)
    assert sum(parts) == whole.input_tokens
    assert asked[: len(parts)] == [(1, 7 * n) for n in range(len(parts))]
    pace = scheduler._former.pace
    assert pace is not None
    assert len(pace._alone) >= 5
    assert len(pace._mixed) == len(parts)
    for request in (other.request_id, long.request_id):
        scheduler.cancel(request)
    scheduler.step()


def test_limits_ask_for_it(pipeline: Pipe) -> None:
    assert Limits.of(pipeline.pipeline_config).longest_beside == LONGEST_BESIDE
    fixed = TextGenerationScheduler(pipeline, limits(pipeline, mixes=True))
    assert fixed._former.pace is None
