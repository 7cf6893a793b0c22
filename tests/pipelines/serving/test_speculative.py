"""Speculative decoding: the tokens of the target for any draft, fewer runs, and honest counts."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from maxlab.driver import Tensor
from maxlab.errors import InputError, MaxlabError
from maxlab.interfaces import (
    GenerationStatus,
    PipelineTask,
    ProcessorInputs,
    SamplingParams,
    TextGenerationInputs,
)
from maxlab.pipelines.core import TextContext
from maxlab.pipelines.lib.config import PipelineConfig
from maxlab.pipelines.lib.interfaces import ModelOutputs
from maxlab.pipelines.lib.pipeline_variants import TextGenerationPipeline
from maxlab.pipelines.lib.registry import PipelineRegistry
from maxlab.pipelines.lib.scheduler import Limits, TextGenerationScheduler
from maxlab.pipelines.lib.speculative_decoding import SpeculativeDecodingMetrics
from tests.pipelines.serving.drafts import FEATURES, Pair, draft_folders, paired, runs
from tests.pipelines.serving.running import TEXTS, Pipe, context, settings, written

DRAWN: dict[str, Any] = {"temperature": 8.0, "top_k": 40, "top_p": 0.95, "min_p": 0.01}
GREEDY: list[dict[str, Any]] = [
    {},
    {"repetition_penalty": 1.3, "max_new_tokens": 17},
    {"frequency_penalty": 0.8, "presence_penalty": 0.2},
    {"min_new_tokens": 6, "max_new_tokens": 7},
    {"max_new_tokens": 1},
]
"""Rules of the requests for `TEXTS`."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return draft_folders(tmp_path_factory.mktemp("drafts"))


@pytest.fixture(scope="module")
def alone(registry: PipelineRegistry, folders: dict[str, Path]) -> Pipe:
    """The target without a draft."""
    _, found = registry.retrieve(PipelineConfig(**settings(folders["target"], **FEATURES)))
    assert isinstance(found, TextGenerationPipeline)
    return found


@pytest.fixture(scope="module")
def pairs(registry: PipelineRegistry, folders: dict[str, Path]) -> dict[str, Pair]:
    """The target with each of the drafts."""
    return {name: paired(registry, folders, name, **FEATURES) for name in ("same", "near", "far")}


def made(pipeline: Any, given: list[dict[str, Any]]) -> list[TextContext]:
    return [context(pipeline, text, **one) for text, one in zip(TEXTS, given, strict=True)]


def require_empty(pair: Pair) -> None:
    """No request has a page of either cache."""
    for manager in pair.kv_managers:
        manager.check_tables()
        assert manager.num_free_blocks == manager.total_num_pages


@pytest.mark.parametrize("steps", [1, 4, 7])
@pytest.mark.parametrize("draft", ["same", "near", "far"])
def test_greedy_tokens_are_those_of_the_target_for_any_draft(
    alone: Pipe, pairs: dict[str, Pair], draft: str, steps: int
) -> None:
    """Pages without a user hold NaN, so a cache that keeps what was not kept would show."""
    pair, wanted = pairs[draft], written(alone, *made(alone, GREEDY))
    before = runs(pair)[1]
    whole: Any = pair
    assert written(whole, *made(pair, GREEDY), steps=steps) == wanted
    assert len(wanted[3]) == 7
    assert len(wanted[1]) == 17
    if draft == "same":  # 17 tokens, all but the last of each round proposed
        assert runs(pair)[1] - before == -(-17 // (steps + 1))
    require_empty(pair)


def test_counts_are_those_of_what_the_models_did(pairs: dict[str, Pair]) -> None:
    """Probes: metrics that are made up, and a target that decodes token by token."""
    kept = {}
    for name, pair in pairs.items():
        before, old = runs(pair), SpeculativeDecodingMetrics(**vars(pair.metrics))
        whole: Any = pair
        tokens = written(whole, *(context(pair, text) for text in TEXTS), steps=3)
        assert all(len(one) == 12 for one in tokens)
        drafts, rounds = (now - then for now, then in zip(runs(pair), before, strict=True))
        found = pair.metrics
        generated = found.draft_tokens_generated - old.draft_tokens_generated
        kept[name] = (found.draft_tokens_accepted - old.draft_tokens_accepted) / generated
        assert len(TEXTS) <= generated <= drafts * len(TEXTS)
        assert found.num_generations - old.num_generations <= rounds * len(TEXTS)
        assert rounds - 1 <= drafts <= 3 * rounds
    assert kept["same"] == 1
    assert 0.05 < kept["near"] < 0.95
    assert kept["far"] < 0.2


def test_draft_tokens_are_drawn_by_the_rules_of_the_target(pairs: dict[str, Pair]) -> None:
    """A draft that is the target proposes what is kept, only if both see the same rules."""
    pair = pairs["same"]
    old = SpeculativeDecodingMetrics(**vars(pair.metrics))
    rules = DRAWN | {"repetition_penalty": 1.4, "min_new_tokens": 3}
    whole: Any = pair
    contexts = made(pair, [rules | {"seed": seed} for seed in range(5)])
    tokens = written(whole, *contexts, steps=3)
    assert len({tuple(one) for one in tokens}) == len(tokens)
    found = pair.metrics
    generated = found.draft_tokens_generated - old.draft_tokens_generated
    assert generated >= 40
    assert found.draft_tokens_accepted - old.draft_tokens_accepted == generated
    assert found.bonus_tokens_used > old.bonus_tokens_used


def test_told_probabilities_are_those_of_the_target(alone: Pipe, pairs: dict[str, Pair]) -> None:
    def told(pipeline: Any, steps: int) -> list[Any]:
        contexts = [context(pipeline, "a", max_new_tokens=9), context(pipeline, TEXTS[2])]
        contexts[0].log_probabilities = 3
        found: list[Any] = []
        while not all(one.is_done for one in contexts):
            batch = {one.request_id: one for one in contexts if not one.is_done}
            for request_id, output in pipeline.execute(
                TextGenerationInputs([batch], steps)
            ).items():
                if request_id == contexts[0].request_id:
                    found += output.log_probabilities or []
                else:
                    assert output.log_probabilities is None
                if output.is_done:
                    pipeline.release(request_id)
        return found

    wanted = told(alone, 1)
    assert len(wanted) == 9
    for steps in (2, 4):
        found = told(pairs["near"], steps)
        assert len(found) == 9
        for one, other in zip(found, wanted, strict=True):
            (mine,), (theirs,) = one.top_log_probabilities, other.top_log_probabilities
            assert list(mine) == list(theirs)
            np.testing.assert_allclose(list(mine.values()), list(theirs.values()), atol=0.02)


def test_an_answer_ends_within_the_tokens_that_are_kept(
    alone: Pipe, pairs: dict[str, Pair]
) -> None:
    (whole,) = written(alone, context(alone, "a"))
    place = next(n for n in range(2, 12) if whole[n] not in whole[:n])
    pair: Any = pairs["same"]
    ended = context(pair, "a", stop_token_ids=[whole[place]])
    other = context(pair, "a")
    assert written(pair, ended, other, steps=6) == [whole[:place], whole]
    assert ended.status is GenerationStatus.END_OF_SEQUENCE
    text = pair.tokenizer.delegate.decode(whole)
    stop = text[5:8]
    stopped = context(pair, "a", stop=[stop])
    (tokens,) = written(pair, stopped, steps=6)
    assert stopped.status is GenerationStatus.END_OF_SEQUENCE
    assert len(tokens) < len(whole)
    assert whole[: len(tokens)] == tokens


def test_processors_of_logits_decide_token_by_token(alone: Pipe, pairs: dict[str, Pair]) -> None:
    seen: list[int] = []

    def never_twice(inputs: ProcessorInputs) -> None:
        seen.append(inputs.context.current_length)
        inputs.logits.to_numpy()[:, inputs.context.all_tokens] = -np.inf

    given: Any = {"logits_processors": [never_twice]}
    (wanted,) = written(alone, context(alone, "a", **given))
    pair: Any = pairs["same"]
    lengths, before = seen[:], runs(pair)
    seen.clear()
    assert written(pair, context(pair, "a", **given), steps=4) == [wanted]
    assert seen == lengths
    assert runs(pair)[0] == before[0]


def test_texts_may_be_as_long_as_the_target_takes(
    registry: PipelineRegistry, folders: dict[str, Path], alone: Pipe, tmp_path: Path
) -> None:
    """The draft model takes 64 tokens, and proposes nothing behind longer texts."""
    short = draft_folders(tmp_path, max_position_embeddings=64)
    pair: Any = paired(registry, {**folders, "short": short["same"]}, "short", max_length=80)
    assert [manager.max_seq_len for manager in pair.kv_managers] == [80, 64]
    prompt = np.arange(50) % 90 + 9

    def one() -> TextContext:
        return TextContext(
            max_length=80, tokens=prompt, sampling_params=SamplingParams(temperature=0.0)
        )

    (wanted,) = written(alone, one())
    assert written(pair, one(), steps=5) == [wanted]
    assert len(wanted) == 30
    assert pair.metrics.draft_tokens_accepted >= 10
    draft, hf = pair._draft_model, pair._draft_model.huggingface_config
    full = TextContext(max_length=80, tokens=np.arange(78))
    assert pair.calculate_num_steps(draft, hf, 5, full, is_draft=True) == 0
    target = pair._target_model
    assert pair.calculate_num_steps(target, target.huggingface_config, 5, full) == 2
    assert pair.steps_for([full, one()], 5) == 2
    over = TextContext(max_length=99, tokens=np.arange(80))
    with pytest.raises(ValueError, match="ML160"):
        pair.calculate_num_steps(target, target.huggingface_config, 5, over)
    require_empty(pair)


# Logits of the decoder are in the thousands, so sums in another order differ in the third decimal.
def anew(pair: Pair, batch: list[TextContext]) -> Any:
    """The logits of the draft model behind texts, which it computes from their first token on."""
    texts = [TextContext(max_length=400, tokens=one.all_tokens.copy()) for one in batch]
    inputs, count = pair.prepare_batch(pair._draft_model, texts, 1, 1, is_draft=True)
    (*_, every) = pair.generate_draft_tokens(texts, count, inputs)
    for one in texts:
        pair.forget(one.request_id)
    return every.to_numpy()[0]


def test_the_steps_can_be_taken_one_by_one(alone: Pipe, pairs: dict[str, Pair]) -> None:
    pair: Any = pairs["near"]
    wanted = written(alone, context(alone, TEXTS[0]), context(alone, "a"))
    batch = [context(pair, TEXTS[0]), context(pair, "a")]
    rounds = 0
    while not any(one.is_done for one in batch):
        rounds += 1
        inputs, count = pair.prepare_batch(pair._draft_model, batch, 3, 1, is_draft=True)
        count, tokens, logits, inputs, every = pair.generate_draft_tokens(batch, count, inputs)
        assert [tuple(one.shape) for one in (tokens, logits, every)] == [
            (2, count),
            (2, count),
            (count, 2, 400),
        ]
        here = np.take_along_axis(
            every.to_numpy().transpose(1, 0, 2), tokens.to_numpy()[:, :, None], 2
        )
        np.testing.assert_array_equal(here[:, :, 0], logits.to_numpy())
        np.testing.assert_allclose(every.to_numpy()[0], anew(pair, batch), rtol=1e-4, atol=0.02)
        parts = [
            [*one.next_tokens, *row] for one, row in zip(batch, tokens.to_numpy(), strict=True)
        ]
        merged = Tensor.from_numpy(np.concatenate(parts).astype(np.int64))
        ends = Tensor.from_numpy(np.cumsum([0, *map(len, parts)]).astype(np.uint32))
        checks: Any = (batch, count, tokens, logits, merged, ends, every)
        found = pair.verify_draft_tokens_with_target_model(inputs, *checks)
        assert [tuple(one.shape) for one in found] == [(2,), (2, count), (2, 1)]
        lengths = [one.current_length for one in batch]
        pair.update_contexts(batch, *(one.to_numpy() for one in (*found, tokens)), count)
        added = [one.current_length - old for one, old in zip(batch, lengths, strict=True)]
        assert added == (found[0].to_numpy() + 1).tolist() or any(one.is_done for one in batch)
        assert [one.start_idx + 1 for one in batch] == [one.active_idx for one in batch]
        answers = pair.build_response(batch)
        for one, tokens_of in zip(batch, wanted, strict=True):
            told = answers[one.request_id].tokens
            place = len(one.generated_tokens)
            assert told == tokens_of[place - len(told) : place]
    assert rounds < 12
    with pytest.raises(InputError, match="ML869"):
        pair.prepare_batch(pair._target_model, batch, 1, 3)
    for one in batch:
        pair.release(one.request_id)
    require_empty(pair)


def test_limits_of_a_batch_cut_those_of_its_requests(pairs: dict[str, Pair]) -> None:
    pair = pairs["same"]
    batch = [context(pair, text) for text in TEXTS[:2]]
    rows = np.log(np.array([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2]], np.float32))

    def drawn(max_k: int, min_top_p: float, seed: int) -> list[int]:
        def two(x: float, kind: Any = np.float32) -> Tensor:
            return Tensor.from_numpy(np.array([x, x], kind))

        new, every, logits = pair.sample_draft_logits(
            batch,
            ModelOutputs(logits=Tensor.from_numpy(rows)),
            Tensor.from_numpy(np.full((2, 1), 7, np.int64)),
            Tensor.from_numpy(np.zeros((2, 1), np.float32)),
            two(-1, np.int64),
            Tensor.from_numpy(np.array(max_k, np.int64)),
            two(1),
            two(0.1),
            Tensor.from_numpy(np.array(min_top_p, np.float32)),
            Tensor.from_numpy(np.array([seed, seed + 1], np.uint64)),
        )
        tokens: list[int] = new.to_numpy().tolist()
        assert every.to_numpy().tolist() == [[7, token] for token in tokens]
        np.testing.assert_array_equal(logits.to_numpy()[:, 1], rows[0, tokens])
        return tokens

    seeds = range(0, 60, 2)
    assert {one for seed in seeds for one in drawn(-1, 1.0, seed)} == {0, 1, 2}
    assert {one for seed in seeds for one in drawn(2, 1.0, seed)} == {0, 1}
    assert {one for seed in seeds for one in drawn(-1, 0.1, seed)} == {0}


# ---------------------------------------------------------------- schedulers
@pytest.mark.parametrize("way", [{}, {"prompt_tokens": 50}, {"mixes": True, "prompt_tokens": 60}])
def test_a_scheduler_answers_the_same(
    alone: Pipe, pairs: dict[str, Pair], way: dict[str, Any]
) -> None:
    wanted = [written(alone, one)[0] for one in made(alone, GREEDY)]
    pair = pairs["near"]
    limits = Limits.of(pair.pipeline_config)
    scheduler = TextGenerationScheduler(pair, Limits(**{**vars(limits), **way}))
    answers = scheduler.answer(made(pair, GREEDY))
    assert [one.tokens for one in answers] == wanted
    require_empty(pair)


def test_pages_may_run_out(registry: PipelineRegistry, tmp_path: Path, alone: Pipe) -> None:
    """Requests give way to others and are computed anew, and the tokens stay the same."""
    folders = draft_folders(tmp_path, pages=4)
    pair = paired(registry, folders, "near", max_length=300, **FEATURES)
    prompts = [np.arange(120) % (50 + n) + 9 for n in range(3)]

    def contexts() -> list[TextContext]:
        params = SamplingParams(temperature=0.0, max_new_tokens=20)
        return [TextContext(max_length=300, tokens=one, sampling_params=params) for one in prompts]

    wanted = [written(alone, one)[0] for one in contexts()]
    scheduler = TextGenerationScheduler(pair)
    assert [one.tokens for one in scheduler.answer(contexts())] == wanted
    assert scheduler.preemptions > 0
    assert pair.metrics.draft_tokens_accepted > 0
    cancelled = contexts()
    for one in cancelled:
        scheduler.submit(one)
    scheduler.step()
    for one in cancelled:
        scheduler.cancel(one.request_id)
    scheduler.step()
    assert not scheduler.has_work
    require_empty(pair)


def test_generate_answers_whole_prompts(alone: Pipe, pairs: dict[str, Pair]) -> None:
    from tests.pipelines.serving.running import request

    answers = pairs["near"].generate([request(text) for text in TEXTS])
    assert [one.tokens for one in answers] == [
        written(alone, context(alone, text))[0] for text in TEXTS
    ]


# ---------------------------------------------------------------- refusals
def test_what_no_draft_can_do_is_refused(
    registry: PipelineRegistry, folders: dict[str, Path], pairs: dict[str, Pair], tmp_path: Path
) -> None:
    pair = pairs["near"]
    schema = context(pair, "a")
    schema.json_schema = "{}"
    for refused in (pair.require_accepted, pair.jump_ahead):
        with pytest.raises(InputError, match="ML139"):
            refused(schema)
    config = PipelineConfig(**settings(folders["target"]))
    with pytest.raises(ValueError, match="names none.*ML868"):
        Pair(config, type(pair._target_model), 1, {}, pair.tokenizer)
    other = draft_folders(tmp_path, vocab_size=401)["target"]
    given = settings(folders["target"], draft_model_path=str(other))
    with pytest.raises(InputError, match="400 tokens, as the model has, expected ≠ 401.*ML138"):
        PipelineConfig(**given)
    entries = json.loads((other / "config.json").read_text())
    entries |= {"vocab_size": 400, "architectures": ["Unheard"]}
    (other / "config.json").write_text(json.dumps(entries))
    with pytest.raises(MaxlabError, match="Unheard.*not registered.*ML172"):
        registry.retrieve(PipelineConfig(**given))


def test_the_registry_chooses_by_the_configuration() -> None:
    from maxlab.pipelines.lib.registry import get_pipeline_for_task

    for draft, kind in ((None, TextGenerationPipeline), (object(), Pair)):
        config: Any = SimpleNamespace(draft_model_config=draft)
        found: Any = get_pipeline_for_task(PipelineTask.TEXT_GENERATION, config)
        assert found is kind


def test_metrics_add_up() -> None:
    metrics = SpeculativeDecodingMetrics()
    assert metrics.get_stats()["acceptance_rate"] == 0
    metrics.update(8, 5, 1, [4, 1])
    metrics.update(4, 1, 0, [1])
    assert metrics.get_stats() == {
        "acceptance_rate": 0.5,
        "bonus_tokens_used": 1,
        "draft_tokens_accepted": 6,
        "draft_tokens_generated": 12,
        "avg_acceptance_length": 2.0,
    }
    assert str(metrics) == "6 of 12 draft tokens kept (50.0 %), 2.00 a round, and 1 bonus token"
