"""The graph of a token: as it was recorded, or run again; and the view that draws it at a click."""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("tokenizers", reason="tokenizers not installed")
pytest.importorskip("transformers", reason="transformers not installed")
pytest.importorskip("ipywidgets", reason="ipywidgets not installed")

from maxlab.analysis.recording import record
from maxlab.errors import ArgumentError, InputError, MaxlabError
from maxlab.interfaces import SamplingParamsInput, TextGenerationRequest
from maxlab.lab.generating.again import Origin
from maxlab.lab.generating.asking import generating
from maxlab.lab.generating.made import Generation
from maxlab.lab.generating.tokens import GeneratedToken
from maxlab.lab.generating.view import GenerationView
from maxlab.lab.protocol import PROTOCOL
from maxlab.pipelines.lib.architectures import registry as current
from maxlab.pipelines.lib.architectures import use_registry
from maxlab.pipelines.lib.registry import PipelineRegistry
from maxlab.pipelines.lib.scheduler import Limits, TextGenerationScheduler
from tests.pipelines.serving.running import TEXTS, Pipe, context, made

TEXT = "The quick brown fox jumps over the lazy dog"
DRAWN = SamplingParamsInput(temperature=300.0, seed=3, max_new_tokens=6)
"""The logits are hundreds apart: at this temperature several tokens are probable."""


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipe]:
    before, mine = current(), PipelineRegistry([])
    use_registry(mine)
    yield made(mine, tmp_path_factory.mktemp("decoder"), enable_prefix_caching=True)
    use_registry(before)


def scheduler_of(pipeline: Pipe, steps: int = 1) -> TextGenerationScheduler:
    """Prompts in parts of 16 tokens."""
    limits = Limits.of(pipeline.pipeline_config)
    return TextGenerationScheduler(
        pipeline, dataclasses.replace(limits, prompt_tokens=16, steps=steps)
    )


def complete(answers: Iterator[Generation]) -> Generation:
    *_, last = answers
    return last


def shown(view: GenerationView) -> tuple[int, Any]:
    """The token that is chosen, and the view of its graph."""
    return view.chosen, view.graph


def sizes(profile: Any) -> tuple[int, ...]:
    """The shapes of the inputs of a run, flattened: of the same step they are the same."""
    return tuple(size for one in profile.inputs for size in one.shape)


def test_what_is_run_again_is_what_was_recorded(pipeline: Pipe) -> None:
    """The run of each token has inputs of the sizes that the recorded one had, and kernels of the
    same graph; nothing is left in the cache, and the answer is as before."""
    recorded = complete(generating(scheduler_of(pipeline), TEXT, DRAWN, profile=True))
    again = complete(generating(scheduler_of(pipeline), TEXT, DRAWN))
    assert [token.id for token in again.tokens] == [token.id for token in recorded.tokens]
    computed = [token.own.computed for token in recorded.tokens if token.own]
    assert computed[0] == len(recorded.prompt_tokens) % 16
    assert computed[1:] == [1] * 5
    assert len(recorded.recordings) == len(recorded.tokens)
    for index in (0, 1, 5):
        first, second = recorded.timed(index), again.timed(index)
        assert (first.is_again, second.is_again, second.found) == (False, True, 0)
        assert sizes(first.profile) == sizes(second.profile)
        assert first.profile.name == second.profile.name == "looking_back"
        assert first.profile.runs == 1, "the other parts of the prompt are not in it"
        assert second.profile.kernel_ns > 0
    (manager,) = pipeline.kv_managers
    assert manager.num_free_blocks == manager.total_num_pages


def test_the_token_comes_out_again(pipeline: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that is run again draws the token that it gave, though not the most probable."""
    answer = complete(generating(scheduler_of(pipeline), TEXT, DRAWN))
    assert any(token.id != token.top[0][0] for token in answer.tokens[:5])
    given: list[int] = []
    execute = type(pipeline).execute

    def heard(self: Any, inputs: Any) -> Any:
        found = execute(self, inputs)
        given.extend(output.tokens[-1] for output in found.values() if output.tokens)
        return found

    monkeypatch.setattr(type(pipeline), "execute", heard)
    for index in range(5):
        given.clear()
        answer.timed(index)
        assert given[-1] == answer.tokens[index].id


def test_a_step_of_several_tokens(pipeline: Pipe) -> None:
    answer = complete(generating(scheduler_of(pipeline, 4), TEXT, DRAWN))
    several = [n for n, token in enumerate(answer.tokens) if token.own and token.own.generated > 1]
    assert several
    for index in several[:2]:
        assert answer.timed(index).profile.kernel_ns > 0
        assert answer._computed(index) == 1


def test_a_prompt_that_the_cache_has(pipeline: Pipe) -> None:
    answer = complete(generating(TextGenerationScheduler(pipeline), TEXTS[0], DRAWN))
    found = answer.timed(0)
    assert found.found >= 128
    view = GenerationView(answer)
    view.choose(0)
    assert f"{found.found} tokens of its prompt were in the cache" in view._tokens.about


def test_what_cannot_be_run_again(pipeline: Pipe, tmp_path: Any) -> None:
    answer = complete(generating(pipeline, TEXT, DRAWN))
    with record(), pytest.raises(ArgumentError, match="ML852"):
        answer.profile(1)
    with record(), pytest.raises(ArgumentError, match="ML852"):
        generating(scheduler := scheduler_of(pipeline), TEXT, DRAWN, profile=True)
    assert not scheduler.has_work
    tokens = [GeneratedToken(2, " two")]
    with pytest.raises(InputError, match="ML479"):
        Generation("a", "One", [1], tokens).profile(0)
    request = answer.origin.request
    assert isinstance(request, TextGenerationRequest)
    with pytest.raises(InputError, match="ML476"):
        Generation("a", "One", [1], tokens, origin=Origin(request)).profile(0)

    class Draft:
        pass

    gone = Draft()
    origin = Origin(request, gone)
    with pytest.raises(InputError, match="ML479.*\n.*--profile|Draft cannot be run again"):
        Generation("a", "One", [1], tokens, origin=origin).profile(0)
    del gone
    gc.collect()
    with pytest.raises(InputError, match="its pipeline is gone"):
        Generation("a", "One", [1], tokens, origin=origin).profile(0)


def test_steps_that_others_took_are_run_again(pipeline: Pipe) -> None:
    """What a paused scheduler was stepped through is not recorded, and no step is taken for
    another."""
    scheduler = scheduler_of(pipeline)
    scheduler.pause()
    answers = generating(scheduler, TEXT, DRAWN, profile=True)
    for _ in range(4):
        scheduler.step()
    scheduler.resume()
    answer = complete(answers)
    assert len(answer.recordings) == 6
    assert [answer.timed(n).is_again for n in (0, 1, 5)] == [True, True, False]


def test_neighbours_are_told(pipeline: Pipe) -> None:
    scheduler = scheduler_of(pipeline)
    for text in TEXTS[2:]:
        scheduler.submit(context(pipeline, text, max_new_tokens=20))
    answer = complete(generating(scheduler, TEXT, DRAWN))
    view = GenerationView(answer)
    view.choose(5)
    token = answer.tokens[5]
    assert token.step is not None
    others = [one.request for one in token.step.requests if one.request != answer.request]
    assert len(others) == 3
    about = view._tokens.about
    assert all(name[:13] in about for name in others)
    assert "alone in the batch" in about
    assert f"step <b>{token.step.number} of {scheduler.name}</b>" in about
    while scheduler.has_work:
        scheduler.step()


def test_the_view(pipeline: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = complete(generating(pipeline, TEXT, DRAWN))
    view = GenerationView(answer)
    tokens = view._tokens
    assert (view.chosen, len(view.children), tokens.about) == (-1, 1, "")

    def message(token: object) -> None:
        view._received(None, {"type": "choose", "protocol": PROTOCOL, "token": token}, [])

    message(1)
    assert view.chosen == 1
    assert view.graph is not None
    assert [*view.children] == [tokens, view.graph]
    assert view.graph.document["profile"] is not None
    assert "Token 2 of 6" in tokens.about
    graph = view.graph
    message(0)
    assert shown(view) == (0, graph)
    with pytest.raises(ValueError, match="ML981"):
        view.choose(6)
    message(-1)
    assert shown(view) == (-1, None)
    assert tokens.about == ""
    # What fails is said below the tokens, and nothing is left drawn.
    message(2)

    def fails(_: int) -> Any:
        raise InputError("ML479", "<b>no</b>", fix="help")

    monkeypatch.setattr(answer, "timed", fails)
    message(3)
    assert shown(view) == (3, None)
    assert "No graph of this step: &lt;b&gt;no&lt;/b&gt;. To see it: help." in tokens.about
    for content in ({"type": "choose", "protocol": PROTOCOL, "token": 99}, {"type": "?"}, 7):
        view._received(None, content, [])
    assert view.chosen == 3
    view.close()


def test_errors_have_words(pipeline: Pipe) -> None:
    """Where other requests have all pages, the step waits for none of them."""
    answer = complete(generating(pipeline, TEXT, DRAWN))
    (manager,) = pipeline.kv_managers
    holders = []
    for n in range(manager.total_num_pages // 2 + 1):
        held = context(pipeline, f"{n} " + TEXTS[0], max_new_tokens=2)
        manager.claim(held.request_id, 0)
        if not manager.maybe_reserve(held, 1):
            manager.release(held.request_id)
            break
        holders.append(held)
    while manager.num_free_blocks:
        held = context(pipeline, f"{manager.num_free_blocks}", max_new_tokens=2)
        manager.claim(held.request_id, 0)
        manager.alloc(held)
        holders.append(held)
    with pytest.raises(MaxlabError, match="ML620"):
        answer.timed(1)
    for held in holders:
        manager.release(held.request_id)
    assert answer.timed(1).profile.kernel_ns > 0
