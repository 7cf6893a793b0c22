"""What fields refuse, with the class of the error, the field and its range."""

from __future__ import annotations

import dataclasses
import logging
import math
from typing import Any

import numpy as np
import pytest

from maxlab import interfaces as i
from maxlab.errors import InputError, InputTypeError, MaxlabError, UnsupportedError
from tests.interfaces.samples import PARAMS, context

ID = i.RequestID("a")
PIXELS = np.zeros((1, 2), np.float32)
NAN, INF = math.nan, math.inf
USER = {"role": "user", "content": "hi"}

Row = tuple[Any, dict[str, Any], str, list[Any], list[Any], str]


def rows(
    kind: Any, others: dict[str, Any], *of_fields: tuple[str, list[Any], list[Any], str]
) -> list[Row]:
    """The rows of several fields of one class."""
    return [(kind, others, *row) for row in of_fields]


# The class, its other arguments, the field, values that are refused as of a wrong type, and values
# that are refused as out of range, with words of the message.
REFUSED: list[Row] = [
    (i.RequestID, {}, "value", [1, None, b"a"], [""], "a str"),
    (i.Request, {}, "request_id", ["a", None, 3], [], "a RequestID"),
    (i.SamplingParams, {}, "top_k", ["a", 1.0, True, None], [-2, 256, 10**30], "[-1, 255]"),
    (i.SamplingParams, {}, "top_p", ["a", None, True], [-0.1, 1.1, NAN, INF], "[0, 1]"),
    (i.SamplingParams, {}, "min_p", ["a", None, True], [-0.1, 1.1, NAN, INF], "[0, 1]"),
    (i.SamplingParams, {}, "temperature", ["a", None], [-0.1, NAN, INF, 10**999], "[0, inf)"),
    (i.SamplingParams, {}, "frequency_penalty", ["a", None], [NAN, INF, -INF], "(-inf, inf)"),
    (i.SamplingParams, {}, "presence_penalty", ["a", None], [NAN, INF, -INF], "(-inf, inf)"),
    (i.SamplingParams, {}, "repetition_penalty", ["a", None], [0, -1.0, NAN, INF], "(0, inf)"),
    (i.SamplingParams, {}, "max_new_tokens", ["a", 1.5, True], [0, -1], "[1, "),
    (i.SamplingParams, {}, "min_new_tokens", ["a", 1.5, None], [-1], "[0, "),
    (i.SamplingParams, {}, "ignore_eos", [1, None, "no"], [], "a bool"),
    (i.SamplingParams, {}, "stop", ["x", [1], ("x",), 5], [[""]], ""),
    (i.SamplingParams, {}, "stop_token_ids", [3, ["a"], [1.5]], [[-1]], ""),
    (i.SamplingParams, {}, "detokenize", [0, None], [], "a bool"),
    (i.SamplingParams, {}, "seed", ["a", None, 1.5], [-1, 2**64], f"[0, {2**64 - 1}]"),
    (i.SamplingParams, {}, "logits_processors", [print, [1], "x"], [], ""),
    (i.SamplingParamsInput, {}, "top_k", ["a", 1.0], [-2, 256], "[-1, 255]"),
    (i.SamplingParamsInput, {}, "repetition_penalty", ["a"], [0], "(0, inf)"),
    (i.SamplingParamsGenerationConfigDefaults, {}, "top_p", ["a"], [2], "[0, 1]"),
    (i.SamplingParamsGenerationConfigDefaults, {}, "do_sample", [1, "no"], [], "a bool"),
    (i.TextGenerationRequest, {"request_id": ID}, "model_name", [1, None], [""], "a str"),
    (i.TextGenerationRequest, {"model_name": "m"}, "request_id", ["a"], [], "a RequestID"),
    *rows(
        i.TextGenerationRequest,
        {"request_id": ID, "model_name": "m"},
        ("prompt", [1, ["a"], b"x", [1.5]], [[-1]], ""),
        ("messages", ["hi", ["hi"], USER, [{**USER, "role": 1}]], [[{}]], ""),
        ("messages", [[{**USER, "content": 1}]], [[{**USER, "role": "x"}]], ""),
        ("messages", [[{**USER, "content": ["a"]}]], [[{"role": "user"}]], ""),
        ("images", [b"x", ["x"]], [], ""),
        ("tools", [[1]], [[{"type": "function"}], [{}]], ""),
        ("response_format", ["json"], [{"type": "json"}], ""),
        ("timestamp_ns", [1.5, None], [-1, 2**64], "[0, "),
        ("request_path", [None], [""], "a str"),
        ("logprobs", [True, 1.5], [-1], "[0, "),
        ("echo", [1], [], "a bool"),
        ("stop", [1, [1]], ["", [""]], ""),
        ("chat_template_options", [[1], {1: 2}], [], ""),
        ("sampling_params", [None, {}], [], "SamplingParams"),
        ("target_endpoint", [1], [""], "a str"),
    ),
    (i.TextGenerationInputs, {"batches": []}, "num_steps", [None, 1.5], [0], "[1, "),
    (i.TextGenerationInputs, {"batches": [], "num_steps": 1}, "input_tokens", ["x"], [-2], "[-1, "),
    (i.TextGenerationInputs, {"batches": [], "num_steps": 1}, "batch_type", ["TG"], [], ""),
    (i.TextGenerationInputs, {"num_steps": 1}, "batches", [{}, [1], [{"a": 1}]], [], ""),
    (i.EmbeddingsGenerationInputs, {}, "batches", [{}, [{"a": 1}]], [], ""),
    (i.EmbeddingsGenerationOutput, {}, "embeddings", [[1.0], np.arange(3)], [], "floating"),
    (i.AudioGenerationInputs, {}, "batch", [[], {"a": 1}], [], ""),
    *rows(
        i.AudioGenerationRequest,
        {"request_id": ID, "model": "m"},
        ("input", [1], [], "a str"),
        ("input", [], ["x" * 4097], "at most 4096 characters, not 4097"),
        ("audio_prompt_tokens", [None, ["a"]], [[-1]], ""),
        ("audio_prompt_transcription", [None], [], "a str"),
        ("prompt", [1, ["a"]], [[-1]], ""),
        ("streaming", [None], [], "a bool"),
        ("buffer_speech_tokens", [[1], np.zeros(2)], [], "integer"),
    ),
    *rows(
        i.AudioGenerationMetadata,
        {},
        ("sample_rate", ["a", 1.5], [0], "[1, "),
        ("duration", ["a"], [-1.0, NAN], "[0, inf)"),
        ("final_chunk", [0], [], "a bool"),
        ("request_id", ["a"], [], "a RequestID"),
        ("tokens_generated", [1.5], [-1], "[0, "),
        ("echo", [1], [], "a str"),
    ),
    *rows(
        i.AudioGenerationOutput,
        {"final_status": i.GenerationStatus.ACTIVE, "steps_executed": 0},
        ("final_status", ["active ", None], [], "GenerationStatus"),
        ("steps_executed", [None], [-1], "[0, "),
        ("audio_data", [np.zeros(2), [1.0]], [], "float32"),
        ("metadata", [{}], [], "AudioGenerationMetadata"),
    ),
    (
        i.ImageMetadata,
        {"end_idx": 3, "pixel_values": PIXELS},
        "start_idx",
        ["a", None],
        [-1, 3],
        "",
    ),
    (i.ImageMetadata, {"start_idx": 0, "end_idx": 1}, "pixel_values", [[1], np.arange(2)], [], ""),
    (i.LoRARequest, {}, "operation", ["x", None], [], "LoRAOperation"),
    (i.LoRARequest, {"operation": i.LoRAOperation.LOAD}, "lora_path", [1], [""], "a str"),
    (i.LoRAResponse, {"message": ""}, "status", ["x"], [], "LoRAStatus"),
    (i.LoRAResponse, {"status": i.LoRAStatus.SUCCESS}, "message", [1, [1]], [], ""),
    (i.SchedulerResult, {"result": None}, "is_done", [1, None], [], "a bool"),
    (i.LogProbabilities, {"top_log_probabilities": []}, "token_log_probabilities", [1], [], ""),
    (i.SharedMemoryArray, {"name": "x", "shape": (1,)}, "dtype", [1], ["object", "V8"], ""),
    (i.SharedMemoryArray, {"name": "x", "dtype": "int8"}, "shape", [3, ["a"]], [(-1,)], ""),
]


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: f"{row[0].__name__}.{row[2]}")
def test_refused(row: Row) -> None:
    kind, others, field, of_wrong_type, out_of_range, words = row
    for value in of_wrong_type:
        with pytest.raises(InputTypeError) as raised:
            kind(**{**others, field: value})
        assert isinstance(raised.value, TypeError)
        assert field in str(raised.value)
        assert words in str(raised.value)
    for value in out_of_range:
        with pytest.raises(MaxlabError) as refused:
            kind(**{**others, field: value})
        assert isinstance(refused.value, ValueError)
        assert words in str(refused.value)
    assert of_wrong_type or out_of_range


def test_the_fields_of_a_request_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        PARAMS.top_k = 3  # type: ignore[misc]


def test_numbers_of_numpy_are_numbers() -> None:
    params = i.SamplingParams(top_k=np.int64(5), temperature=np.float32(0.5))  # type: ignore[arg-type]
    assert (params.top_k, params.temperature) == (5, 0.5)


# ---------------------------------------------------------------- three levels of defaults
def merged(asked: dict[str, Any], model: dict[str, Any]) -> i.SamplingParams:
    """The parameters of a user and a model."""
    return i.SamplingParams.from_input_and_generation_config(
        i.SamplingParamsInput(**asked), i.SamplingParamsGenerationConfigDefaults(**model)
    )


LEVELS: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ({}, {}, {"temperature": 1, "top_k": -1, "top_p": 1}),
    ({}, {"temperature": 0.7, "top_k": 50}, {"temperature": 0.7, "top_k": 50, "top_p": 1}),
    ({"temperature": 0.2}, {"temperature": 0.7, "top_k": 50}, {"temperature": 0.2, "top_k": 50}),
    ({"top_k": 0}, {"top_k": 50}, {"top_k": -1}),
    ({"ignore_eos": False, "min_p": 0.0}, {}, {"ignore_eos": False, "min_p": 0.0}),
    ({}, {"do_sample": False}, {"temperature": 0, "top_k": 1}),
    ({}, {"do_sample": False, "temperature": 0.7, "top_k": 9}, {"temperature": 0, "top_k": 1}),
    ({"temperature": 0.5}, {"do_sample": False}, {"temperature": 0.5, "top_k": -1}),
    ({"temperature": 0.5}, {"do_sample": False, "top_k": 9}, {"temperature": 0.5, "top_k": 9}),
    ({}, {"do_sample": True, "temperature": 0.7}, {"temperature": 0.7}),
    ({"temperature": 0}, {"top_k": 50}, {"temperature": 0, "top_k": 1}),
    ({"max_new_tokens": 5}, {"min_new_tokens": 9}, {"max_new_tokens": 5, "min_new_tokens": 5}),
    ({"min_new_tokens": 9}, {"max_new_tokens": 5}, {"max_new_tokens": 9, "min_new_tokens": 9}),
    ({}, {"repetition_penalty": 1.2}, {"repetition_penalty": 1.2}),
]


@pytest.mark.parametrize(("asked", "model", "wanted"), LEVELS)
def test_the_first_level_that_sets_a_field_decides(
    asked: dict[str, Any], model: dict[str, Any], wanted: dict[str, Any]
) -> None:
    found = merged(asked, model)
    assert {name: getattr(found, name) for name in wanted} == wanted


def test_every_field_of_the_user_wins() -> None:
    asked = {one.name: getattr(PARAMS, one.name) for one in dataclasses.fields(PARAMS)}
    everything = {"temperature": 2.0, "top_p": 0.2, "top_k": 7, "repetition_penalty": 2.0}
    assert merged(asked, {**everything, "max_new_tokens": 3, "min_new_tokens": 1}) == PARAMS


def test_what_a_user_contradicts_is_the_users_mistake() -> None:
    with pytest.raises(InputError, match="min_new_tokens is 5, above max_new_tokens, 3"):
        merged({"max_new_tokens": 3, "min_new_tokens": 5}, {})


def test_the_log_tells_every_parameter(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "maxlab.interfaces"):
        PARAMS.log_sampling_info()
    for one in dataclasses.fields(PARAMS):
        assert f"{one.name:20}: {getattr(PARAMS, one.name)}" in caplog.text


# ---------------------------------------------------------------- what hangs together
def test_a_request_has_a_prompt_or_messages() -> None:
    with pytest.raises(InputError, match="both a prompt and messages"):
        i.TextGenerationRequest(ID, "m", prompt="", messages=[])


def test_batches_are_merged_in_their_order() -> None:
    a, b, c = (i.RequestID(name) for name in "abc")
    batches: Any = [{a: context("a", 2), b: context("b")}, {c: context("c", 0, True)}]
    inputs = i.TextGenerationInputs(batches, 1)
    assert list(inputs.batch) == [a, b, c]
    assert inputs.batch_top_log_probs == [2, 0, 0]
    assert inputs.batch_echo == [False, False, True]
    assert inputs.enable_log_probs
    assert inputs.enable_echo
    quiet = i.TextGenerationInputs([{b: batches[0][b]}], 1)
    assert not quiet.enable_log_probs
    assert not quiet.enable_echo
    assert list(i.EmbeddingsGenerationInputs(batches).batch) == [a, b, c]


def test_a_request_is_in_one_batch() -> None:
    batches: Any = [{ID: context("a")}, {ID: context("a")}]
    for kind in (i.EmbeddingsGenerationInputs, lambda all_: i.TextGenerationInputs(all_, 1)):
        with pytest.raises(InputError, match="'a' is in two batches"):
            kind(batches)


def test_the_output_of_a_task() -> None:
    assert str(i.PipelineTask.EMBEDDINGS_GENERATION.output_type).endswith(
        "SchedulerResult[maxlab.interfaces.embeddings.EmbeddingsGenerationOutput]]"
    )
    assert len({str(task.output_type) for task in i.PipelineTask}) == 3


def test_metadata_keeps_zero_and_false() -> None:
    found = i.AudioGenerationMetadata(chunk_id=0, final_chunk=False, request_id=ID).to_dict()
    assert found == {"chunk_id": 0, "final_chunk": False, "request_id": "a"}


def test_results_say_whether_they_are_done() -> None:
    for status in i.GenerationStatus:
        output = i.TextGenerationOutput(ID, [], status)
        assert output.is_done is status.is_done is (status is not i.GenerationStatus.ACTIVE)
        assert i.SchedulerResult.create(output).is_done is status.is_done
    assert i.SchedulerResult.cancelled() == i.SchedulerResult(True, None)


@pytest.mark.parametrize("field", [f.name for f in dataclasses.fields(PARAMS) if f.name != "seed"])
def test_a_pipeline_refuses_what_it_does_not_read(field: str) -> None:
    names = {one.name for one in dataclasses.fields(PARAMS)}
    value = [print] if field == "logits_processors" else getattr(PARAMS, field)
    asked: dict[str, Any] = {field: value, "max_new_tokens": 9}
    params = i.SamplingParams(**asked)
    i.refuse_unread(params, read=names)
    with pytest.raises(UnsupportedError, match=f"SamplingParams.{field} is"):
        i.refuse_unread(params, read=names - {field})
    with pytest.raises(InputTypeError, match="nothing"):
        i.refuse_unread(params, read={"nothing"})
