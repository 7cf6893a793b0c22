"""Contexts of requests for speech: which text the model reads, and what goes along with it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tokenizers", reason="tokenizers not installed")
pytest.importorskip("transformers", reason="transformers not installed")

from maxlab.errors import InputError
from maxlab.interfaces import AudioGenerationRequest, RequestID, SamplingParams
from maxlab.pipelines.core import TTSContext
from maxlab.pipelines.lib.tokenizer import SpeechTokenizer
from tests.pipelines.tokenizer import trained


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> SpeechTokenizer:
    """A tokenizer without a chat template."""
    folder = tmp_path_factory.mktemp("plain")
    trained.folder(folder)
    return SpeechTokenizer(str(folder), max_length=200)


@pytest.fixture(scope="module")
def chatting(plain: SpeechTokenizer) -> SpeechTokenizer:
    """The same tokenizer with a chat template."""
    return SpeechTokenizer(plain.model_path, max_length=200, chat_template=trained.LLAMA3)


def asked(**given: Any) -> AudioGenerationRequest:
    """A request with these fields."""
    return AudioGenerationRequest(RequestID("a"), "tiny", **given)


def context(tokenizer: SpeechTokenizer, **given: Any) -> TTSContext:
    """The state of a request with these fields."""
    return asyncio.run(tokenizer.new_context(asked(**given)))


def test_the_text_alone_without_a_template(plain: SpeechTokenizer) -> None:
    said = context(plain, input="the lazy dog")
    assert said.tokens[: said.end_idx].tolist() == plain.delegate.encode("the lazy dog")
    both = context(plain, input="the lazy dog", audio_prompt_transcription="The fox.")
    assert both.all_tokens.tolist() == plain.delegate.encode("The fox. the lazy dog")


def test_the_text_in_a_template(chatting: SpeechTokenizer) -> None:
    request = asked(
        input="the dog", audio_prompt_transcription="A fox.", _assistant_message_override="tone 7"
    )
    text, adds_special = chatting.prompt_of(request)
    assert text == ("<s><|start|>user\n\nA fox. the dog<|end|><|start|>assistant\n\ntone 7")
    assert not adds_special
    found = asyncio.run(chatting.new_context(request))
    assert found.all_tokens.tolist() == chatting.delegate.encode(text, add_special_tokens=False)


def test_a_prompt_goes_to_the_model_as_it_is(chatting: SpeechTokenizer) -> None:
    given = {"input": "not read", "audio_prompt_transcription": "nor this"}
    assert context(chatting, prompt=[5, 6, 7], **given).all_tokens.tolist() == [5, 6, 7]
    text = context(chatting, prompt="the dog", **given)
    assert text.all_tokens.tolist() == chatting.delegate.encode("the dog")


def test_a_model_writes_the_voice_into_the_answer(plain: SpeechTokenizer) -> None:
    class Voiced(SpeechTokenizer):
        def assistant_message(self, request: AudioGenerationRequest) -> str:
            return "".join(f"[{token}]" for token in request.audio_prompt_tokens)

    tokenizer = Voiced(plain.model_path, chat_template=trained.LLAMA3)
    text, _ = tokenizer.prompt_of(asked(input="dog", audio_prompt_tokens=[3, 14]))
    assert str(text).endswith("assistant\n\n[3][14]")


def test_what_goes_along(plain: SpeechTokenizer) -> None:
    params = SamplingParams(max_new_tokens=9, stop=["END"], ignore_eos=True)
    before = np.array([8, 9], np.int32)
    found = context(
        plain,
        input="the dog",
        audio_prompt_tokens=[3, 4],
        buffer_speech_tokens=before,
        streaming=False,
        sampling_params=params,
    )
    assert found.request_id == RequestID("a")
    assert found.model_name == "tiny"
    assert found.audio_prompt_tokens.tolist() == [3, 4]
    assert found.buffer_speech_tokens is before
    assert not found.streaming
    assert found.max_length == found.end_idx + 9
    assert found.sampling_params is params
    assert found.ignore_eos
    assert plain.delegate.encode("END", add_special_tokens=False) in found.eos_sequences
    assert found.eos_token_ids == plain.eos_token_ids != set()


def test_validators_see_the_context(plain: SpeechTokenizer) -> None:
    seen: list[TTSContext] = []
    tokenizer = SpeechTokenizer(plain.model_path, context_validators=[seen.append])
    assert seen == []
    found = context(tokenizer, input="a")
    assert len(seen) == 1
    assert seen[0] is found


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "a prompt or input expected ≠ neither given.*ML159"),
        (
            {"input": "a", "_assistant_message_override": "b"},
            "no chat template to put it into.*ML159",
        ),
        ({"input": "dog " * 300}, "at most max_length = 200 tokens.*ML160"),
        ({"input": "a", "audio_prompt_tokens": [2**31]}, "ML981"),
    ],
)
def test_requests_that_are_refused(
    plain: SpeechTokenizer, given: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=f"(?s){words}"):
        context(plain, **given)


def test_other_faults_of_a_template_are_told(plain: SpeechTokenizer, tmp_path: Path) -> None:
    tokenizer = SpeechTokenizer(plain.model_path, chat_template="{{ raise_exception('no voice') }}")
    with pytest.raises(InputError, match="no voice"):
        tokenizer.prompt_of(asked(input="a"))
