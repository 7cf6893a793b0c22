"""Speech tokens: as many of each request as are asked, and no step too many."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maxlab.errors import InputError, InputTypeError, UnsupportedError
from maxlab.interfaces import GenerationStatus, TextGenerationInputs
from maxlab.pipelines.core import TextContext, TTSContext
from maxlab.pipelines.lib.audio_generator_pipeline import AudioGeneratorPipeline
from maxlab.pipelines.lib.pipeline_variants.batch_info import FILENAME, BatchInfo, BatchInfos
from maxlab.pipelines.lib.registry import PipelineRegistry
from maxlab.pipelines.lib.scheduler import Limits, TextGenerationScheduler
from maxlab.pipelines.lib.speech_token_pipeline import SpeechTokenGenerationPipeline as Speech
from tests.pipelines.audio.running import TEXTS, audio_config, context, request, tokens_of
from tests.pipelines.tiny.looking_back import ARCHITECTURES


def asked(contexts: list[TTSContext], numbers: list[int]) -> Any:
    """The batch of some contexts, and the numbers of tokens that they are to get."""
    batch = {one.request_id: one for one in contexts}
    return batch, dict(zip(batch, numbers, strict=True))


@pytest.fixture(scope="module")
def alone(speech: Speech) -> list[list[int]]:
    """Twelve tokens of each text, each computed alone."""
    found = [tokens_of(speech, text, 12) for text in TEXTS]
    assert [len(tokens) for tokens in found] == [12, 12, 12]
    assert len({tuple(tokens) for tokens in found}) == 3
    return found


@pytest.mark.parametrize("seed", range(3))
def test_each_request_gets_as_many_tokens_as_are_asked(
    speech: Speech, alone: list[list[int]], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    contexts = [context(speech, text, 12) for text in TEXTS]
    found: list[list[int]] = [[] for _ in contexts]
    while not all(one.status.is_done for one in contexts):
        numbers = rng.integers(0, 5, len(contexts)).tolist()
        steps = int(rng.integers(1, 7))
        before = [len(tokens) for tokens in found]
        batch, most = asked(contexts, numbers)
        outputs = speech.next_speech_token(batch, steps, most)
        assert list(outputs) == [one.request_id for one in contexts]
        for index, output in enumerate(outputs.values()):
            found[index] += output.tokens
            told = min(numbers[index], steps, 12 - before[index])
            assert len(output.tokens) == told
            assert output.final_status is contexts[index].status
    assert found == alone
    for one in contexts:
        assert one.status is GenerationStatus.MAXIMUM_LENGTH
        assert not one.is_done  # its audio may go on
        speech.release(one.request_id)


def test_steps_end_when_every_request_has_ended(speech: Speech, alone: list[list[int]]) -> None:
    contexts = [context(speech, text, 12) for text in TEXTS]
    for one, tokens, place in zip(contexts, alone, (2, 0, 4), strict=True):
        end = next(n for n in range(place, 12) if tokens[n] not in tokens[:n])
        one.eos_token_ids = {tokens[end]}
    ends = [
        tokens.index(next(iter(one.eos_token_ids)))
        for one, tokens in zip(contexts, alone, strict=True)
    ]
    assert max(ends) < 8
    model: Any = speech.speech_lm
    before = model.runs
    batch, numbers = asked(contexts, [12] * 3)
    outputs = speech.next_speech_token(batch, 12, numbers)
    assert model.runs - before == max(ends) + 1
    for one, tokens, end in zip(contexts, alone, ends, strict=True):
        assert outputs[one.request_id].tokens == tokens[:end]  # the token that ends it is not told
        assert outputs[one.request_id].final_status is GenerationStatus.END_OF_SEQUENCE
    # Requests that have ended are not computed again.
    again = speech.next_speech_token(batch, 4, numbers)
    assert [output.tokens for output in again.values()] == [[], [], []]
    assert model.runs - before == max(ends) + 1
    for one in contexts:
        speech.release(one.request_id)


def test_one_request_that_goes_on_keeps_the_steps_going(
    speech: Speech, alone: list[list[int]]
) -> None:
    contexts = [context(speech, text, 12) for text in TEXTS[:2]]
    contexts[0].eos_token_ids = {alone[0][0]}
    model: Any = speech.speech_lm
    before = model.runs
    batch, numbers = asked(contexts, [9, 6])
    outputs = speech.next_speech_token(batch, 9, numbers)
    assert model.runs - before == 6  # the first has ended, the second has its six
    assert [output.tokens for output in outputs.values()] == [[], alone[1][:6]]
    for one in contexts:
        speech.release(one.request_id)


def test_pages_are_taken_for_the_tokens_that_are_asked(speech: Speech) -> None:
    one = context(speech, TEXTS[1], 200)
    (manager,) = speech.kv_managers
    speech.next_speech_token({one.request_id: one}, 190, {one.request_id: 2})
    assert manager.total_num_pages - manager.num_free_blocks == 1  # of 128 tokens
    speech.release(one.request_id)


def test_execute_ends_early_too(speech: Speech, alone: list[list[int]]) -> None:
    one = context(speech, TEXTS[1], 12)
    end = next(n for n in range(2, 12) if alone[1][n] not in alone[1][:n])
    one.eos_token_ids = {alone[1][end]}
    model: Any = speech.speech_lm
    before = model.runs
    outputs = speech.execute(TextGenerationInputs([{one.request_id: one}], 12))
    assert model.runs - before == end + 1
    assert outputs[one.request_id].tokens == alone[1][:end]
    assert speech.execute(TextGenerationInputs([{}], 3)) == {}
    speech.release(one.request_id)


def test_generate_answers_requests_for_speech(speech: Speech, alone: list[list[int]]) -> None:
    requests: list[Any] = [request(text, 12) for text in TEXTS]
    outputs = speech.generate(requests)
    assert [output.tokens for output in outputs] == alone


def test_a_scheduler_gives_back_the_pages_of_what_has_ended(
    speech: Speech, alone: list[list[int]]
) -> None:
    limits = dataclasses.replace(Limits.of(speech.pipeline_config), prompt_tokens=50)
    scheduler = TextGenerationScheduler(speech, limits)
    contexts = [context(speech, text, 12) for text in TEXTS]
    assert [output.tokens for output in scheduler.answer(contexts)] == alone
    assert not scheduler.has_work


def test_log_probabilities_come_with_their_tokens(speech: Speech, alone: list[list[int]]) -> None:
    plain, told = context(speech, TEXTS[1], 12), context(speech, TEXTS[2], 12)
    told.log_probabilities = 2
    batch, numbers = asked([plain, told], [3, 2])
    outputs = speech.next_speech_token(batch, 3, numbers)
    assert outputs[plain.request_id].log_probabilities is None
    found = outputs[told.request_id].log_probabilities
    assert found is not None
    assert [max(one.top_log_probabilities[-1], key=one.top_log_probabilities[-1].__getitem__)
            for one in found] == alone[2][:2]  # fmt: skip
    for one in (plain, told):
        speech.release(one.request_id)


def test_what_is_not_asked_is_not_computed(speech: Speech) -> None:
    one = context(speech)
    model: Any = speech.speech_lm
    before = model.runs
    batch, numbers = asked([one], [0])
    assert speech.next_speech_token(batch, 0, {one.request_id: 3}) == {}
    assert speech.next_speech_token({}, 3, {}) == {}
    assert speech.next_speech_token(batch, 3, numbers)[one.request_id].tokens == []
    assert model.runs == before


@pytest.mark.parametrize(
    ("steps", "number", "code", "kind"),
    [
        (2, None, "ML193", InputError),
        (2, -1, "ML981", InputError),
        (-1, 2, "ML981", InputError),
        (2, 1.5, "ML980", InputTypeError),
    ],
)
def test_numbers_that_cannot_be(
    speech: Speech, steps: int, number: Any, code: str, kind: type[Exception]
) -> None:
    one = context(speech)
    numbers = {} if number is None else {one.request_id: number}
    with pytest.raises(kind) as caught:
        speech.next_speech_token({one.request_id: one}, steps, numbers)
    assert getattr(caught.value, "code", "") == code
    assert one.end_idx == len(one.prompt_tokens)


def test_settings_of_audio_are_for_a_pipeline_of_audio(
    registry: PipelineRegistry, folder: Path, audio: AudioGeneratorPipeline
) -> None:
    config = audio_config(folder)
    model = ARCHITECTURES[0].pipeline_model
    with pytest.raises(UnsupportedError, match=r"AudioGenerationConfig\.audio_decoder.*ML127"):
        Speech(config, model, 1, {}, audio.tokenizer)


def test_the_token_that_ends_and_the_least_number() -> None:
    one = TextContext(max_length=9, tokens=np.array([5]), eos_token_ids={7})
    assert one.ends_generation(7, 1)
    assert not one.ends_generation(6, 1)
    assert not one.ends_generation(7, 0)  # none was generated
    one.ignore_eos = True
    assert not one.ends_generation(7, 1)


def test_tokens_that_have_ended_take_no_more() -> None:
    one = TTSContext(max_length=2, tokens=np.array([5]))
    one.update(6)
    assert one.status is GenerationStatus.MAXIMUM_LENGTH
    assert not one.is_done
    with pytest.raises(InputError, match="ML991"):
        one.update(7)


def test_a_batch_that_ended_early_tells_its_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FILENAME, str(tmp_path / "infos.json"))

    class Owner:
        pass

    owner = Owner()
    infos = BatchInfos(owner)
    infos.add(BatchInfo([0], [5], 8))
    infos.add(BatchInfo([5], [1], 8))
    infos.shorten(3)
    del owner
    found = json.loads((tmp_path / "infos.json").read_text())["batch_data"]
    assert [one["num_steps"] for one in found] == [8, 3]
