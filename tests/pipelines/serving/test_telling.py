"""Log probabilities of prompts and answers, against those of transformers."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch not installed")

from maxlab.interfaces import TextGenerationOutput
from maxlab.pipelines.architectures import llama as architecture
from maxlab.pipelines.core import TextContext
from maxlab.pipelines.lib.config import PipelineConfig
from maxlab.pipelines.lib.registry import PipelineRegistry
from maxlab.pipelines.lib.scheduler import Limits, TextGenerationScheduler
from tests.pipelines.serving.running import TEXTS, request

COUNT = 5
Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def pipeline(registry: PipelineRegistry, llama: Path) -> Any:
    """A pipeline that tells prompts, and finds prefixes."""
    registry.register(architecture.ARCHITECTURES[0])
    settings: dict[str, Any] = {"max_batch_size": 8, "max_length": 300, "max_num_steps": 3}
    _, found = registry.retrieve(
        PipelineConfig(
            model_path=str(llama), enable_echo=True, enable_prefix_caching=True, **settings
        )
    )
    return found


@pytest.fixture(scope="module")
def model(llama: Path) -> Any:
    import transformers

    return transformers.AutoModelForCausalLM.from_pretrained(llama)


def wanted(model: Any, tokens: list[int]) -> Array:
    """The log probabilities behind each of ``tokens``, float64 [tokens, words]."""
    import torch

    with torch.no_grad():
        logits = model(torch.tensor([tokens])).logits[0].double()
    found: Array = torch.log_softmax(logits, -1).numpy()
    return found


def asked(pipeline: Any, top: list[int], echo: list[bool]) -> list[TextContext]:
    return [
        asyncio.run(
            pipeline.tokenizer.new_context(
                request(text, max_new_tokens=COUNT, logprobs=one, echo=tells)
            )
        )
        for text, one, tells in zip(TEXTS, top, echo, strict=True)
    ]


def compare(model: Any, context: TextContext, answer: TextGenerationOutput, top: int) -> None:
    """Raises unless what is told of an answer is what transformers says of its tokens."""
    tokens = [int(token) for token in context.all_tokens]
    rows = wanted(model, tokens)
    assert answer.log_probabilities is not None
    assert len(answer.log_probabilities) == len(answer.tokens) == COUNT
    told = [one for part in answer.log_probabilities for one in part.token_log_probabilities]
    tops = [one for part in answer.log_probabilities for one in part.top_log_probabilities]
    first = 1 if context.log_probabilities_echo else len(context.prompt_tokens)
    places = range(first, len(tokens))
    assert len(told) == len(tops) == len(places)
    for place, value, most in zip(places, told, tops, strict=True):
        row = rows[place - 1]
        assert value == pytest.approx(row[tokens[place]], abs=1e-3)
        best = set(np.argsort(-row)[:top].tolist()) | {tokens[place]}
        assert set(most) == best
        assert list(most.values()) == pytest.approx([row[one] for one in most], abs=1e-3)


@pytest.mark.parametrize("part", [60, 8192], ids=["in parts", "whole"])
def test_prompts_and_answers_are_told(pipeline: Any, model: Any, part: int) -> None:
    top, echo = [3, 2, 0, 1, 40], [True, False, True, True, True]
    limits = dataclasses.replace(Limits.of(pipeline.pipeline_config), prompt_tokens=part)
    for _ in range(2):  # the second time, prefixes of the prompts are in the cache
        contexts = asked(pipeline, top, echo)
        answers = TextGenerationScheduler(pipeline, limits).answer(contexts)
        for context, answer, count in zip(contexts, answers, top, strict=True):
            if count:
                compare(model, context, answer, count)
            else:
                assert answer.log_probabilities is None


def test_more_tokens_than_there_are_cannot_be_told(pipeline: Any) -> None:
    (context, *_) = asked(pipeline, [510, 0, 0, 0, 0], [False] * 5)
    with pytest.raises(ValueError, match=r"509 of the vocabulary.*510"):
        TextGenerationScheduler(pipeline).submit(context)


def test_what_is_told_does_not_change_what_is_drawn(pipeline: Any) -> None:
    quiet = TextGenerationScheduler(pipeline).answer(asked(pipeline, [0] * 5, [False] * 5))
    told = TextGenerationScheduler(pipeline).answer(asked(pipeline, [1] * 5, [True] * 5))
    assert [one.tokens for one in told] == [one.tokens for one in quiet]


def test_a_sampler_of_variable_logits_draws_the_same(
    pipeline: Any, registry: PipelineRegistry, llama: Path
) -> None:
    settings: dict[str, Any] = {"max_batch_size": 8, "max_length": 300, "max_num_steps": 3}
    _, other = registry.retrieve(
        PipelineConfig(model_path=str(llama), enable_variable_logits=True, **settings)
    )
    both: list[Any] = [pipeline, other]
    found = [
        [
            one.tokens
            for one in TextGenerationScheduler(each).answer(asked(each, [0] * 5, [False] * 5))
        ]
        for each in both
    ]
    assert found[0] == found[1]
