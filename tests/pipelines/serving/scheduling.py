"""Requests to a scheduler, and the steps that it takes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from maxlab.pipelines.core import TextContext
from maxlab.pipelines.lib.scheduler import Limits, Step, StepRecord, TextGenerationScheduler
from tests.pipelines.serving.running import TEXTS, Pipe, context

COUNT = 9
"""Tokens of each answer."""


def limits(pipeline: Pipe, **changes: Any) -> Limits:
    fixed = {"longest_beside": None, **changes}  # no time decides what a batch has
    return dataclasses.replace(Limits.of(pipeline.pipeline_config), **fixed)


def contexts(pipeline: Pipe, **given: Any) -> list[TextContext]:
    return [context(pipeline, text, **{"max_new_tokens": COUNT, **given}) for text in TEXTS]


def answered(scheduler: TextGenerationScheduler, requests: list[TextContext]) -> list[list[int]]:
    return [one.tokens for one in scheduler.answer(requests)]


def steps_of(scheduler: TextGenerationScheduler, most: int = 400) -> Iterator[Step]:
    """Steps until there is nothing to do."""
    while scheduler.has_work:
        most -= 1
        assert most, "it does not end"
        yield scheduler.step()


def records(scheduler: TextGenerationScheduler, requests: list[TextContext]) -> list[StepRecord]:
    for one in requests:
        scheduler.submit(one)
    return [step.record for step in steps_of(scheduler)]
