"""``%%generate``: the text, the probabilities and the costs that it shows, against the answers of
the pipeline itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from math import exp
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tokenizers", reason="tokenizers not installed")
pytest.importorskip("transformers", reason="transformers not installed")

from maxlab.errors import InputTypeError, NotebookError
from maxlab.interfaces import SamplingParamsInput
from maxlab.lab.generating.asking import generating
from maxlab.lab.generating.made import Generation
from maxlab.lab.generating.magic import Words, generate_cell, options_of
from maxlab.markup import visible
from maxlab.pipelines.lib.architectures import registry as current
from maxlab.pipelines.lib.architectures import use_registry
from maxlab.pipelines.lib.registry import PipelineRegistry
from maxlab.pipelines.lib.scheduler import Limits, TextGenerationScheduler
from tests.pipelines.serving.running import Pipe, context, made, written

TEXT = "The quick brown fox jumps over the lazy dog"
GREEDY = SamplingParamsInput(temperature=0.0, max_new_tokens=9)


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipe]:
    before, mine = current(), PipelineRegistry([])
    use_registry(mine)
    yield made(mine, tmp_path_factory.mktemp("decoder"), enable_prefix_caching=True)
    use_registry(before)


def limits_of(pipeline: Pipe) -> Limits:
    """Prompts in parts, and one token a step."""
    return dataclasses.replace(Limits.of(pipeline.pipeline_config), prompt_tokens=16, steps=1)


def complete(answers: Iterator[Generation]) -> Generation:
    *_, last = answers
    return last


def test_text_probabilities_and_costs(pipeline: Pipe) -> None:
    (wanted,) = written(pipeline, context(pipeline, TEXT, max_new_tokens=9))
    scheduler = TextGenerationScheduler(pipeline, limits_of(pipeline))
    counts = []
    for answer in generating(scheduler, TEXT, GREEDY, top=3):
        counts.append(len(answer.tokens))
        assert (answer.status == "") == (counts[-1] < 9 and scheduler.has_work is not False)
    assert counts == list(range(1, len(wanted) + 1))
    assert [token.id for token in answer.tokens] == wanted
    decoded = pipeline.tokenizer.delegate.decode(wanted)  # type: ignore[attr-defined]
    assert answer.text == decoded
    for token in answer.tokens:
        assert token.probability is not None
        assert token.top[0][0] == token.id, "the most probable one was taken"
        assert np.isclose(exp(token.top[0][2]), token.probability)
        assert [row[2] for row in token.top] == sorted((row[2] for row in token.top), reverse=True)
        assert token.step is not None
        assert token.seconds == token.step.seconds
    assert [token.phase for token in answer.tokens] == ["prefill"] + ["decode"] * 8
    prompt = [own for step in answer.steps for own in step.requests if own.prompt]
    assert sum(own.computed for own in prompt) == len(answer.prompt_tokens)
    assert len(prompt) > 1, "the prompt was computed in parts"
    assert answer.prefill_s == sum(s.seconds for s in answer.steps[: len(prompt)])
    assert answer.first_token_s is not None
    assert answer.first_token_s <= answer.prefill_s * 1.5 + 1
    assert answer.tokens_per_second is not None


def test_steps_of_several_tokens_are_shared_among_them(pipeline: Pipe) -> None:
    answer = complete(generating(pipeline, TEXT, GREEDY))
    several = [token for token in answer.tokens if token.own and token.own.generated > 1]
    assert several
    for token in several:
        assert token.step is not None
        assert token.own is not None
        assert token.seconds == token.step.seconds / token.own.generated


def test_a_paused_scheduler_is_stepped_by_others(pipeline: Pipe) -> None:
    """Steps are told before their tokens are taken: each token has its own step all the same."""
    (wanted,) = written(pipeline, context(pipeline, TEXT, max_new_tokens=9))
    scheduler = TextGenerationScheduler(pipeline, limits_of(pipeline))
    scheduler.pause()
    answers = generating(scheduler, TEXT, GREEDY)
    numbers = []
    while scheduler.has_work:
        done = scheduler.step()
        numbers += [done.record.number] * done.record.generated_tokens
    answer = complete(answers)
    assert [token.id for token in answer.tokens] == wanted
    assert [token.step and token.step.number for token in answer.tokens] == numbers


def test_an_answer_that_is_left_is_cancelled(pipeline: Pipe) -> None:
    scheduler = TextGenerationScheduler(pipeline)
    answers = generating(scheduler, TEXT, SamplingParamsInput(temperature=0.0, max_new_tokens=200))
    next(answers)
    answers.close()  # type: ignore[attr-defined]
    assert not scheduler.has_work
    (manager,) = pipeline.kv_managers
    assert manager.num_free_blocks == manager.total_num_pages


def test_the_graph_of_a_token(pipeline: Pipe) -> None:
    answer = complete(generating(pipeline, TEXT, GREEDY, profile=True))
    first, last = answer.profile(0), answer.profile(-1)
    assert first.kernel_ns > 0
    assert first.name == last.name == "looking_back"
    assert max(first.dims.values()) >= len(answer.prompt_tokens) > max(last.dims.values()) - 200
    with pytest.raises(ValueError, match="ML981"):
        answer.profile(len(answer.tokens))
    again = complete(generating(pipeline, TEXT, GREEDY)).profile(0)
    assert again.dims == first.dims, "a step that was not timed is run again"


def test_the_cell(pipeline: Pipe, capsys: pytest.CaptureFixture[str]) -> None:
    space: dict[str, Any] = {"pipe": pipeline}
    line = "pipe --max-new-tokens 4 --temperature 0 --top 2 -o answer"
    answer = generate_cell(line, f"{TEXT}\n", space, Words())
    assert space["answer"] is answer
    assert capsys.readouterr().out == f"{TEXT}{answer.text}\n"
    assert (answer.prompt, len(answer.tokens)) == (TEXT, 4)
    plain = answer._repr_mimebundle_()["text/plain"]
    told = f"[4 tokens behind {len(answer.prompt_tokens)}, maximum length]"
    assert plain == visible(f"{TEXT}{answer.text}\n{told}")
    again = generate_cell(line, TEXT, space, Words())._repr_mimebundle_()["text/plain"]
    assert plain == again, "no times in the text"
    shown = answer._repr_html_()
    assert shown.count('class="mx-rq-token"') == 4
    assert "probability" in shown
    assert "<script" not in generate_cell(line, "<script>x", space, Words())._repr_html_()


def test_what_it_refuses(pipeline: Pipe) -> None:
    for line, code in (("", "ML820"), ("pipe --top-k x", "ML820"), ("pipe 'a", "ML820"),
                       ("pipe -o 7", "ML820"), ("nobody", "ML821")):  # fmt: skip
        with pytest.raises(NotebookError, match=code):
            generate_cell(line, TEXT, {"pipe": pipeline}, Words())
    with pytest.raises(ValueError, match="ML981"):
        options_of("pipe --top-p 7")
    with pytest.raises(InputTypeError, match="ML478"):
        generating(7, TEXT)
