"""The pipeline of text: batches, steps, ends of answers, and what is refused."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from maxlab.errors import InputError, UnsupportedError
from maxlab.interfaces import GenerationStatus, ProcessorInputs, RequestID, TextGenerationInputs
from maxlab.pipelines.core import TextContext
from maxlab.pipelines.lib.config import PipelineConfig
from maxlab.pipelines.lib.interfaces import get_paged_manager
from maxlab.pipelines.lib.pipeline_variants.batch_info import FILENAME, BatchInfo, BatchInfos
from maxlab.pipelines.lib.pipeline_variants.drawing import Drawing
from maxlab.pipelines.lib.pipeline_variants.grammars import Grammars
from maxlab.pipelines.lib.pipeline_variants.text_generation import READ
from tests.pipelines.serving.running import TEXTS, Make, Pipe, context, request, written

DRAWN: dict[str, Any] = {"temperature": 8.0, "top_k": 40, "top_p": 0.95}


def test_answers_are_the_same_alone_and_in_a_batch_and_with_any_number_of_steps(
    pipeline: Pipe,
) -> None:
    given = [{}, DRAWN | {"seed": 5}, {"repetition_penalty": 1.3}, DRAWN | {"seed": 6}, {}]
    given[3] |= {"frequency_penalty": 0.8, "presence_penalty": 0.2}

    def contexts() -> list[TextContext]:
        return [context(pipeline, text, **one) for text, one in zip(TEXTS, given, strict=True)]

    alone = [written(pipeline, one)[0] for one in contexts()]
    assert all(len(tokens) == 12 for tokens in alone)
    assert len({tuple(tokens) for tokens in alone}) == len(alone)
    assert written(pipeline, *contexts()) == alone
    assert written(pipeline, *contexts(), steps=10) == alone
    answers = pipeline.generate(
        [request(text, **one) for text, one in zip(TEXTS, given, strict=True)]
    )
    assert [answer.tokens for answer in answers] == alone


def test_a_step_computes_one_token_of_each_request_in_one_run(pipeline: Pipe) -> None:
    """Probes: a cache that computes the prefix again, and a batch that is a loop of singles."""
    model: Any = pipeline._pipeline_model
    contexts = [context(pipeline, text, max_new_tokens=5) for text in TEXTS]
    prompts = sum(one.active_length for one in contexts)
    rows, runs = model.rows, model.runs
    written(pipeline, *contexts)
    assert model.rows - rows == prompts + 4 * len(contexts)
    assert model.runs - runs == 5


def test_steps_have_room(pipeline: Pipe) -> None:
    one = context(pipeline, "a", max_new_tokens=300)
    assert pipeline.calculate_num_steps(10, one) == 10
    long = TextContext(max_length=400, tokens=np.full(395, 9))
    assert pipeline.calculate_num_steps(10, long) == 5
    assert pipeline.steps_for([one, long], 10) == 5
    full = TextContext(max_length=400, tokens=np.full(400, 9))
    with pytest.raises(ValueError, match=r"400 given.*ML160"):
        pipeline.calculate_num_steps(10, full)


def test_an_answer_ends_where_the_model_can_go_no_further(pipeline: Pipe) -> None:
    one = TextContext(max_length=10**6, tokens=np.full(390, 9), eos_token_ids={399})
    (tokens,) = written(pipeline, one, steps=8)
    assert len(tokens) == 10
    assert one.status is GenerationStatus.MAXIMUM_LENGTH


def test_the_batch_is_prepared_as_a_whole(pipeline: Pipe) -> None:
    contexts = [context(pipeline, text) for text in TEXTS[:3]]
    batch = {one.request_id: one for one in contexts}
    inputs, steps, bitmask, flat = pipeline.prepare_batch([batch], 3)
    given: Any = inputs
    assert (steps, bitmask, flat) == (3, None, contexts)
    assert given.input_row_offsets.to_numpy()[-1] == sum(one.active_length for one in contexts)
    manager = get_paged_manager(pipeline)
    assert manager is pipeline.kv_managers[0]
    assert all(manager.contains(one) for one in batch)
    for one in batch:
        pipeline.release(one)
    with pytest.raises(InputError, match="ML621"):
        pipeline.release(contexts[0].request_id)


def test_batches_without_requests_have_no_outputs(pipeline: Pipe) -> None:
    assert pipeline.execute(TextGenerationInputs([], 1)) == {}
    assert pipeline.execute(TextGenerationInputs([{}], 1)) == {}


def test_tokens_behind_the_end_are_dropped(pipeline: Pipe) -> None:
    (whole,) = written(pipeline, context(pipeline, "a"))
    place = next(n for n in range(2, 12) if whole[n] not in whole[:n])
    ended = context(pipeline, "a", stop_token_ids=[whole[place]])
    other = context(pipeline, "a")
    assert written(pipeline, ended, other, steps=12) == [whole[:place], whole]
    assert ended.status is GenerationStatus.END_OF_SEQUENCE
    assert other.status is GenerationStatus.MAXIMUM_LENGTH


def test_contexts_that_name_no_end_have_that_of_the_model(pipeline: Pipe) -> None:
    one = TextContext(max_length=20, tokens=np.array([5, 6]))
    written(pipeline, one)
    assert one.eos_token_ids == {1}


def test_a_text_ends_an_answer_wherever_its_tokens_are_cut(pipeline: Pipe) -> None:
    tokenizer: Any = pipeline.tokenizer
    (whole,) = written(pipeline, context(pipeline, TEXTS[4], max_new_tokens=40))
    text = tokenizer.delegate.decode(whole)
    starts = [n for n in range(4, len(text) - 4) if text[n : n + 3].isascii()]
    stop = next(text[n : n + 3] for n in starts if text.find(text[n : n + 3]) == n)
    ended = context(pipeline, TEXTS[4], max_new_tokens=40, stop=[stop])
    of_request = replace(request(TEXTS[4], max_new_tokens=40), stop=stop)
    same = asyncio.run(pipeline.tokenizer.new_context(of_request))
    assert same.sampling_params.stop == [stop]
    ended.eos_sequences.clear()  # the ways to write it that are known beforehand
    (tokens,) = written(pipeline, ended, steps=7)
    assert ended.status is GenerationStatus.END_OF_SEQUENCE
    assert tokens == whole[: len(tokens)]
    decode = tokenizer.delegate.decode
    assert stop not in decode(tokens[:-1])
    assert stop in decode(tokens), "the token that completes it is told"
    as_tokens = context(pipeline, TEXTS[4], max_new_tokens=40, stop=[stop], detokenize=False)
    as_tokens.eos_sequences.clear()
    assert written(pipeline, as_tokens) == [whole]
    later = context(pipeline, TEXTS[4], max_new_tokens=40, stop=[stop], min_new_tokens=40)
    assert written(pipeline, later) == [whole]


def test_a_seed_decides_a_request_alone(pipeline: Pipe) -> None:
    drawn = [written(pipeline, context(pipeline, "a", **DRAWN, seed=seed))[0] for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_processors_change_the_logits_of_their_request(pipeline: Pipe) -> None:
    seen: list[int] = []

    def only(inputs: ProcessorInputs) -> None:
        seen.append(inputs.context.current_length)
        logits = inputs.logits.to_numpy()
        logits[:] = np.where(np.arange(logits.shape[-1]) == 77, 1.0, -50.0)

    free = context(pipeline, "a")
    (whole,) = written(pipeline, context(pipeline, "a"))
    bound = context(pipeline, "a", logits_processors=[only], max_new_tokens=4)
    start = bound.current_length
    assert written(pipeline, free, bound, steps=5) == [whole, [77] * 4]
    assert seen == [start, start + 1, start + 2, start + 3], "it sees every token before"


def test_processors_of_batches_change_the_logits_of_all(pipeline: Pipe) -> None:
    def shift(inputs: Any) -> None:
        assert [type(one) for one in inputs.context_batch] == [TextContext] * 2
        inputs.logits.to_numpy()[:, 78] += 1e4

    pipeline.batch_processors.append(shift)
    try:
        contexts = [context(pipeline, text, max_new_tokens=3) for text in TEXTS[1:3]]
        assert written(pipeline, *contexts, steps=3) == [[78] * 3] * 2
    finally:
        pipeline.batch_processors.clear()


@pytest.mark.parametrize(
    ("given", "flag"),
    [
        ({"repetition_penalty": 1.1}, "do_penalties"),
        ({"frequency_penalty": 0.1}, "do_penalties"),
        ({"presence_penalty": 0.1}, "do_penalties"),
        ({"min_new_tokens": 2}, "enable_min_tokens"),
        ({"logprobs": 1, "echo": True}, "enable_echo"),
        ({"response_format": {"type": "json_object", "json_schema": {}}},
         "enable_structured_output"),
    ],
)  # fmt: skip
def test_features_that_are_off_are_refused(
    pipeline: Pipe, make: Make, given: dict[str, Any], flag: str, tmp_path: Path
) -> None:
    config: Any = pipeline.pipeline_config
    plain = SimpleNamespace(
        sampling_config=type(config.sampling_config)(), enable_echo=False, max_length=400
    )
    pipeline._pipeline_config, before = plain, config  # type: ignore[assignment]
    try:
        with pytest.raises(ValueError, match=rf"without {flag}.*ML139"):
            pipeline.execute(_inputs(context(pipeline, "a", **given)))
    finally:
        pipeline._pipeline_config = before


def _inputs(*contexts: TextContext, steps: int = 1) -> TextGenerationInputs[TextContext]:
    return TextGenerationInputs([{one.request_id: one for one in contexts}], steps)


def test_what_no_pipeline_of_text_reads_is_refused(pipeline: Pipe) -> None:
    with pytest.raises(UnsupportedError, match="target_endpoint"):
        pipeline.execute(_inputs(context(pipeline, "a", target_endpoint="ipc://x")))


SCHEMAS: list[dict[str, Any]] = [
    {"type": "boolean"},
    {"enum": ["red", "green", 7]},
    {"type": "object", "properties": {"a": {"type": "boolean"}, "b": {"enum": [1, 2]}},
     "required": ["a", "b"], "additionalProperties": False},
    {"type": "array", "items": {"enum": ["x", None]}, "minItems": 1, "maxItems": 3},
    {"type": "string", "maxLength": 3},
    {"type": "integer", "minimum": 10, "maximum": 99},
]  # fmt: skip


def test_answers_fit_their_schema_beside_free_ones(pipeline: Pipe) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    pytest.importorskip("llguidance")
    tokenizer: Any = pipeline.tokenizer
    (whole,) = written(pipeline, context(pipeline, "a"))
    contexts = [
        context(
            pipeline, f"{number}", max_new_tokens=60, seed=number, temperature=1.0,
            response_format={"type": "json_schema", "json_schema": schema},
        )
        for number, schema in enumerate(SCHEMAS)
    ]  # fmt: skip
    *answers, free = written(pipeline, *contexts, context(pipeline, "a"), steps=5)
    assert free == whole
    for one, tokens, schema in zip(contexts, answers, SCHEMAS, strict=True):
        assert one.status is GenerationStatus.END_OF_SEQUENCE
        jsonschema.validate(json.loads(tokenizer.delegate.decode(tokens)), schema)


def test_tokens_without_a_choice_are_computed_at_once(pipeline: Pipe) -> None:
    pytest.importorskip("llguidance")
    model: Any = pipeline._pipeline_model
    schema = {"const": "a long text that is given beforehand"}
    form = {"type": "json_schema", "json_schema": schema}
    one = context(pipeline, "a", response_format=form, max_new_tokens=60)
    runs = model.runs
    (tokens,) = written(pipeline, one)
    assert json.loads(pipeline.tokenizer.delegate.decode(tokens)) == schema["const"]  # type: ignore[attr-defined]
    assert model.runs - runs < len(tokens) / 2


def test_a_schema_that_is_none_leaves_the_answer_free(
    pipeline: Pipe, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("llguidance")
    (whole,) = written(pipeline, context(pipeline, "a"))
    form = {"type": "json_schema", "json_schema": {"type": "no such type"}}
    assert written(pipeline, context(pipeline, "a", response_format=form)) == [whole]
    assert caplog.text.count("answered freely") == 1


def test_masks_are_there_for_schemas_only(pipeline: Pipe) -> None:
    pytest.importorskip("llguidance")
    form = {"type": "json_schema", "json_schema": {"type": "boolean"}}
    free, bound = context(pipeline, "a"), context(pipeline, "a", response_format=form)
    assert pipeline.initialize_bitmask([free]) is None
    mask = pipeline.initialize_bitmask([free, bound])
    assert mask is not None
    assert mask.shape == (2, 13)
    assert mask.dtype == np.int32
    pipeline.update_for_structured_output(bound, mask, 1)
    assert (mask[0] == -1).all()
    assert not (mask[1] == -1).all()
    assert pipeline.steps_for([free, bound], 5) == 1
    with pytest.raises(InputError, match="ML139"):
        pipeline.require_accepted(context(pipeline, "a", response_format=form, min_new_tokens=1))


class Owner:
    """Stands for a pipeline."""


def test_sizes_of_batches_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "sizes.json"
    monkeypatch.setenv(FILENAME, str(path))
    owner = Owner()
    infos = BatchInfos(owner)
    infos.add(BatchInfo([0, 128], [5, 1], 2))
    assert not path.exists()
    del owner
    gc.collect()
    assert json.loads(path.read_text()) == {
        "batch_data": [{"past_seq_lens": [0, 128], "seq_lens": [5, 1], "num_steps": 2}]
    }
    assert [one.name for one in dataclasses.fields(BatchInfo)] == [
        "past_seq_lens", "seq_lens", "num_steps",
    ]  # fmt: skip


def test_sizes_of_batches_are_collected(
    pipeline: Pipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FILENAME, str(tmp_path / "sizes.json"))
    monkeypatch.setattr(pipeline, "_infos", BatchInfos(Owner()))
    one = context(pipeline, "a", max_new_tokens=3)
    length = one.active_length
    written(pipeline, one, steps=2)
    first, second = pipeline._infos._infos
    assert first == BatchInfo([0], [length], 2)
    assert second == BatchInfo([length + 1], [1], 2)


def test_ids_of_answers_are_those_of_requests(pipeline: Pipe) -> None:
    one = request("a")
    (answer,) = pipeline.generate(one)
    assert answer.request_id == one.request_id
    assert isinstance(answer.request_id, RequestID)


def test_drawn_tokens_go_into_the_next_step_as_they_are(
    pipeline: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Probe: several steps that are a loop of single ones, with a look at the tokens in each."""
    model: Any = pipeline._pipeline_model
    drawn: list[Any] = []
    looked: list[int] = []
    draw, tokens = Drawing.draw, Drawing.tokens
    prepare = model.prepare_next_token_inputs

    def drawing(self: Drawing, outputs: Any) -> Any:
        drawn.append(draw(self, outputs))
        return drawn[-1]

    def looking(self: Drawing) -> Any:
        looked.append(len(drawn))
        return tokens(self)

    def prepared(next_tokens: Any, before: Any) -> Any:
        assert next_tokens is drawn[-1]
        made = prepare(next_tokens, before)
        assert made.tokens is next_tokens
        return made

    monkeypatch.setattr(Drawing, "draw", drawing)
    monkeypatch.setattr(Drawing, "tokens", looking)
    monkeypatch.setattr(model, "prepare_next_token_inputs", prepared)
    written(pipeline, *(context(pipeline, text) for text in TEXTS), steps=6)
    assert len(drawn) == 12
    assert looked == [6, 12]


def test_each_setting_that_is_taken_has_a_reader() -> None:
    rows = read_by()
    config = PipelineConfig.__new__(PipelineConfig)
    places = config._places()
    for keyword in READ:
        assert rows[places[keyword].owner.__name__, places[keyword].name] != "refused", keyword


def test_settings_that_it_does_not_read_are_refused(make: Make) -> None:
    for given in ({"ce_delay_ms": 5.0}, {"min_batch_size_tg": 2}):
        with pytest.raises(UnsupportedError, match=r"ML127"):
            make(**given)


def read_by() -> dict[tuple[str, str], str]:
    """The reader of each setting, by its class and name."""
    lines = (Path(__file__).parents[1] / "read_by.md").read_text("utf-8").splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {(row[0], row[1]): row[2] for row in cells if len(row) == 3}


def test_the_package_of_grammars_is_named(pipeline: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llguidance", None)
    delegate = SimpleNamespace(backend_tokenizer=object())
    with pytest.raises(ImportError, match=r"llguidance(.|\n)*ML979(.|\n)*maxlab\[llm\]"):
        Grammars(delegate, 400, {1})
    with pytest.raises(ValueError, match="ML140"):
        Grammars(None, 400, {1})
