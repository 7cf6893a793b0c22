"""Audio as a file, and as a notebook shows it."""

from __future__ import annotations

import base64
import io
import re
import wave
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from maxlab.errors import InputError
from maxlab.interfaces import (
    AudioGenerationMetadata,
    AudioGenerationOutput,
    GenerationStatus,
    RequestID,
    SchedulerResult,
)
from maxlab.lab.requests import audio
from tests.pipelines.showing.test_displays import EVIL, bundle, page

RNG = np.random.default_rng(3)


def output(samples: Any, rate: int | None = 800, **given: Any) -> AudioGenerationOutput:
    """An output with these samples."""
    return AudioGenerationOutput(
        GenerationStatus.END_OF_SEQUENCE,
        3,
        np.asarray(samples, np.float32),
        metadata=AudioGenerationMetadata(sample_rate=rate, **given),
    )


def read(file: bytes) -> tuple[Any, list[int]]:
    """The parameters and the samples of a WAV file, by the standard library."""
    with wave.open(io.BytesIO(file)) as opened:
        frames = opened.readframes(opened.getnframes())
        return opened.getparams(), np.frombuffer(frames, "<i2").tolist()


def player(shown: str) -> bytes:
    """The file that the player of some HTML holds."""
    (held,) = re.findall(r'<audio [^>]*src="data:audio/wav;base64,([^"]*)"', shown)
    return base64.b64decode(held, validate=True)


# ---------------------------------------------------------------- files
@pytest.mark.parametrize("count", [0, 1, 1000])
def test_a_file_has_the_samples(count: int) -> None:
    samples = RNG.uniform(-1, 1, count).astype(np.float32)
    params, found = read(output(samples, 24000).to_wav())
    assert (params.nchannels, params.sampwidth, params.framerate) == (1, 2, 24000)
    assert params.nframes == count
    assert np.abs(np.array(found) / 32767 - samples).max(initial=0) <= 0.5 / 32767 + 1e-7


def test_samples_that_no_file_can_say() -> None:
    _, found = read(output([1.0, -1.0, 7.0, -7.0, np.nan, np.inf, -np.inf, 0.25]).to_wav())
    assert found == [32767, -32767, 32767, -32767, 0, 32767, -32767, 8192]


@pytest.mark.parametrize(("samples", "rate"), [([0.0], None), ([0.0], 2**31), ([[0.0, 0.0]], 800)])
def test_no_file_without_a_rate_or_a_channel(samples: Any, rate: int | None) -> None:
    made = output(samples, rate)
    with pytest.raises(InputError, match="ML195"):
        made.to_wav()
    assert "<audio" not in bundle(made)["text/html"]
    assert "played" in page(made).words


# ---------------------------------------------------------------- the player
def test_a_notebook_shows_a_player_and_a_waveform() -> None:
    samples = np.sin(np.arange(1200) / 5) * 0.4
    made = output(samples, 8000, request_id=RequestID("a"), tokens_generated=3)
    found = bundle(made)
    assert player(found["text/html"]) == made.to_wav()
    title = "AudioGenerationOutput 'a': 0.15 s at 8000 Hz, end of sequence"
    assert title in page(made).words
    assert "peak 0.4" in page(made).words
    assert found["text/plain"].splitlines()[0] == title
    assert "audio_data" in found["text/plain"]
    assert page(made).tags.count("svg") == 1
    assert "audio_data" in page(made).words  # the fields are below it


def test_the_waveform_is_that_of_the_samples() -> None:
    samples = RNG.standard_normal(5003).astype(np.float32)
    low, high = audio.envelope(samples)
    assert len(low) == len(high) == audio.COLUMNS
    edges = [n * 5003 // 600 for n in range(601)]
    assert low.tolist() == [samples[a:b].min() for a, b in pairwise(edges)]
    assert high.tolist() == [samples[a:b].max() for a, b in pairwise(edges)]
    (path,) = re.findall(r'<path d="M([^"]*)Z"', bundle(output(samples))["text/html"])
    points = [tuple(map(float, point.split())) for point in path.split("L")]
    assert len(points) == 1200
    peak = np.abs(samples).max()
    for (x, y), value in zip(points[:600], high, strict=True):
        assert y == pytest.approx(48 - 44 * value / peak, abs=0.051)
        assert 0 <= x <= 600
    for (_, y), value in zip(points[:599:-1], low, strict=True):
        assert y == pytest.approx(48 - 44 * value / peak, abs=0.051)


@pytest.mark.parametrize("samples", [[0.0], [0.0] * 700, [np.nan, np.inf, -np.inf, 3.0, -0.5]])
def test_odd_samples_are_drawn_and_told(samples: list[float]) -> None:
    shown = page(output(samples))
    assert "svg" in shown.tags
    assert "audio" in shown.tags
    assert ("3 samples not finite" in shown.words) == (len(samples) == 5)
    assert ("1 sample beyond -1 and 1" in shown.words) == (len(samples) == 5)
    points = re.findall(r'<path d="([^"]*)"', bundle(output(samples))["text/html"])
    assert "nan" not in points[0]
    assert "inf" not in points[0]


def test_long_audio_is_played_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audio, "MOST_SAMPLES", 80)
    made = output(RNG.uniform(-1, 1, 200))
    params, _ = read(player(bundle(made)["text/html"]))
    assert params.nframes == 80
    assert "The player has the first 0.1 s" in page(made).words


def test_no_sample_is_no_player() -> None:
    shown = page(output([]))
    assert "audio" not in shown.tags
    assert "svg" not in shown.tags
    assert "0 s at 800 Hz" in shown.words


def test_names_of_users_stay_text() -> None:
    named = output([0.1, 0.2], model_name=EVIL, request_id=RequestID(EVIL), echo=EVIL)
    html = bundle(named)["text/html"]
    assert "<img" not in html
    page(named)


def test_a_result_of_a_scheduler_is_played_too() -> None:
    made = output([0.1, 0.2])
    assert player(bundle(SchedulerResult.create(made))["text/html"]) == made.to_wav()
