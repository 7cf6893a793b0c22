"""Speech over HTTP: whole files and samples as they are made, by OpenAI's client and by sockets."""

from __future__ import annotations

import io
import json
import threading
import wave
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maxlab.errors import InputError
from maxlab.interfaces import AudioGenerationRequest, RequestID, SamplingParams
from maxlab.interfaces.waves import as_samples
from maxlab.pipelines.lib.registry import PIPELINE_REGISTRY
from maxlab.serve.command import engine_of
from maxlab.serve.limits import Limits
from maxlab.serve.server import ModelServer
from maxlab.serve.speech import SpeechEngine
from tests.pipelines.tiny.models import FOLDER, speaking_folder
from tests.serve.serving import PATIENCE_S, Served, error_of, head, started, until

SPEECH = "/v1/audio/speech"
TEXTS = ["The quick brown fox", "a", "weather in Boston today", "lazy dog", "café"]
COUNTS = [9, 30, 1, 17, 12]
PERMITS: list[threading.Semaphore] = []
"""Where there is one, the decoder needs a permit for each call."""
BAD = 399
"""A token of a voice that the decoder of these tests fails with."""


@pytest.fixture(scope="module")
def speaking(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny model that speaks."""
    return speaking_folder(tmp_path_factory.mktemp("speaking"))


@pytest.fixture(scope="module")
def speech_engine(speaking: Path) -> Iterator[SpeechEngine]:
    """The model, which speaks two texts at a time."""
    flags = [
        f"--custom-architectures={FOLDER}:speaking", "--audio-decoder=sines",
        f"--audio-decoder-weights={speaking / 'decoder.safetensors'}", "--chunk-size=3",
        "--buffer=1", "--served-model-name=voice", "--max-batch-size=2", "--max-length=300",
    ]  # fmt: skip
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(PIPELINE_REGISTRY, "architectures", {})
        made = engine_of(str(speaking), flags, 8)
        assert isinstance(made, SpeechEngine)
        decoder = made._pipeline.pipeline_model.audio_decoder
        decode = decoder.decode

        def failing(tokens: Any) -> Any:
            for permits in PERMITS:
                permits.acquire(timeout=PATIENCE_S)
            if any(BAD in row for row in tokens):
                raise RuntimeError("a bad voice")
            return decode(tokens)

        decoder.decode = failing
        yield made
        made.close()


@pytest.fixture(scope="module")
def spoken(speech_engine: SpeechEngine) -> list[Any]:
    """The audio of the texts, by the pipeline alone."""
    requests = [
        AudioGenerationRequest(
            RequestID(),
            "voice",
            input=text,
            sampling_params=SamplingParams(temperature=0.0, max_new_tokens=count),
        )
        for text, count in zip(TEXTS, COUNTS, strict=True)
    ]
    found: list[Any] = speech_engine._pipeline.generate(requests)
    return found


@pytest.fixture(scope="module")
def voice(speech_engine: SpeechEngine, spoken: list[Any]) -> Iterator[Served]:
    """A server of the model."""
    with started(ModelServer(speech_engine, Limits(), port=0)) as found:
        yield found


@pytest.fixture(autouse=True)
def pages_come_back(request: pytest.FixtureRequest) -> Iterator[None]:
    """No test leaves a request, or a page with one."""
    yield
    if "voice" in request.fixturenames:
        engine = request.getfixturevalue("speech_engine")
        (manager,) = engine._pipeline.kv_managers
        assert until(lambda: engine.count == 0)
        assert until(lambda: manager.num_free_blocks == manager.total_num_pages)


def body(place: int, **given: Any) -> dict[str, Any]:
    """The body of a request for a text."""
    text = {"model": "voice", "input": TEXTS[place], "max_tokens": COUNTS[place]}
    return {**text, "temperature": 0, **given}


@pytest.mark.parametrize("place", range(len(TEXTS)))
def test_a_file_is_that_of_the_pipeline(voice: Served, spoken: list[Any], place: int) -> None:
    status, headers, found = voice.post(SPEECH, body(place))
    assert (status, headers["content-type"]) == (200, "audio/wav")
    assert found == spoken[place].to_wav()
    with wave.open(io.BytesIO(found)) as file:
        assert (file.getframerate(), file.getnframes()) == (800, 16 * COUNTS[place])


def test_openai_s_client_reads_files_and_samples(voice: Served, spoken: list[Any]) -> None:
    import openai

    client: Any
    with openai.OpenAI(base_url=f"{voice.url}/v1", api_key="none", max_retries=0) as client:
        given = {"model": "voice", "voice": "default", "input": TEXTS[1]}
        more = {"extra_body": {"temperature": 0, "max_tokens": COUNTS[1]}}
        whole = client.audio.speech.create(**given, **more, response_format="wav", speed=1.0)
        assert whole.read() == spoken[1].to_wav()
        stream = client.audio.speech.with_streaming_response
        with stream.create(**given, **more, response_format="pcm") as response:
            assert response.headers["content-type"] == "audio/pcm; rate=800; channels=1"
            parts = list(response.iter_bytes())
        assert [one.id for one in client.models.list()] == ["voice"]
    samples = np.frombuffer(b"".join(parts), "<i2")
    np.testing.assert_array_equal(samples, as_samples(spoken[1].audio_data))


def test_texts_that_are_asked_together(voice: Served, spoken: list[Any]) -> None:
    places = [0, 1, 2, 3, 4, 1, 0]
    with ThreadPoolExecutor(len(places)) as pool:
        found = list(pool.map(lambda place: voice.post(SPEECH, body(place)), places))
    assert [status for status, _, _ in found] == [200] * len(places)
    assert [data for _, _, data in found] == [spoken[place].to_wav() for place in places]


def test_the_voice_of_a_recording(voice: Served, spoken: list[Any]) -> None:
    _, _, plain = voice.post(SPEECH, body(0))
    _, _, other = voice.post(SPEECH, body(0, audio_prompt_tokens=[7, 8]))
    assert plain[:44] == other[:44]
    assert plain[44 : 44 + 32] != other[44 : 44 + 32]  # the first tone begins with another one
    assert plain[44 + 32 :] == other[44 + 32 :]
    _, _, read = voice.post(SPEECH, body(0, audio_prompt_transcription="Hello."))
    assert read[44:] != plain[44:]


@pytest.mark.parametrize(
    ("given", "status", "param", "code"),
    [
        ({"model": "nobody"}, 404, "model", "model_not_found"),
        ({"response_format": "mp3"}, 400, "response_format", None),
        ({"voice": "alloy"}, 400, "voice", None),
        ({"speed": 1.5}, 400, "speed", None),
        ({"instructions": "Whisper."}, 400, "instructions", None),
        ({"stream_format": "sse"}, 400, "stream_format", None),
        ({"input": ""}, 400, "input", None),
        ({"input": "a" * 4097}, 400, "input", None),
        ({"input": "The quick brown fox " * 200}, 400, None, "context_length_exceeded"),
        ({"pitch": 2}, 400, "pitch", None),
    ],
)
def test_what_is_wrong_is_refused(
    voice: Served, given: dict[str, Any], status: int, param: str | None, code: str | None
) -> None:
    found, _, data = voice.post(SPEECH, body(0, **given))
    error = error_of(data)
    assert (found, error["param"]) == (status, param), error
    assert code is None or error["code"] == code


def test_one_failure_is_nobody_else_s(voice: Served, spoken: list[Any]) -> None:
    bad = body(1, audio_prompt_tokens=[BAD])
    with ThreadPoolExecutor(4) as pool:
        asked = [body(0), bad, body(3), bad]
        found = list(pool.map(lambda one: voice.post(SPEECH, one), asked))
    assert [status for status, _, _ in found] == [200, 500, 200, 500]
    assert found[0][2] == spoken[0].to_wav()
    assert found[2][2] == spoken[3].to_wav()
    assert error_of(found[1][2])["type"] == "server_error"
    assert "bad voice" not in error_of(found[1][2])["message"]


def test_a_client_that_goes_away(voice: Served, speech_engine: SpeechEngine) -> None:
    (manager,) = speech_engine._pipeline.kv_managers
    data = json.dumps(body(1, max_tokens=280, response_format="pcm")).encode()
    PERMITS.append(threading.Semaphore(1))  # for the first piece
    try:
        connection = voice.send(head(SPEECH, len(data)), data)
        assert b"200 OK" in connection.recv(1 << 12)
        assert manager.num_free_blocks < manager.total_num_pages
        connection.close()
        assert until(lambda: speech_engine.count == 0)
    finally:
        PERMITS.pop().release(1000)
    # `pages_come_back` looks at the rest.


def test_more_than_it_takes(voice: Served, speech_engine: SpeechEngine) -> None:
    speech_engine.most = 0
    try:
        status, headers, data = voice.post(SPEECH, body(0))
    finally:
        speech_engine.most = 8
    assert (status, error_of(data)["code"], headers["retry-after"]) == (429, "queue_full", "1")


def test_models_of_other_tasks(voice: Served, served: Served) -> None:
    for path, given in (
        ("/v1/completions", {"prompt": "a"}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}]}),
        ("/v1/embeddings", {"input": "a"}),
    ):
        status, _, data = voice.post(path, {"model": "voice", **given})
        assert (status, error_of(data)["param"]) == (400, "model")
        assert "audio" in error_of(data)["message"]
    status, _, data = served.post(SPEECH, {"model": "tiny", "input": "a"})
    assert (status, error_of(data)["param"]) == (400, "model")


def test_metrics_count_tokens(voice: Served) -> None:
    def number(name: str) -> float:
        lines = voice.get("/metrics")[2].decode().splitlines()
        return sum(float(one.rpartition(" ")[2]) for one in lines if one.startswith(name))

    before = number("maxlab_generated_tokens_total")
    voice.post(SPEECH, body(0))
    assert number("maxlab_generated_tokens_total") - before == COUNTS[0]


def test_a_model_of_audio_needs_a_decoder(speaking: Path, speech_engine: SpeechEngine) -> None:
    architectures = [f"--custom-architectures={FOLDER}:speaking"]
    with pytest.raises(InputError, match="ML129"):
        engine_of(str(speaking), architectures, 1)
