"""A tiny model that speaks in a pipeline, compiled once for all tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tokenizers", reason="tokenizers not installed")
pytest.importorskip("transformers", reason="transformers not installed")

from maxlab.pipelines.lib.architectures import registry as current
from maxlab.pipelines.lib.architectures import use_registry
from maxlab.pipelines.lib.audio_generator_pipeline import AudioGeneratorPipeline
from maxlab.pipelines.lib.registry import PipelineRegistry
from maxlab.pipelines.lib.speech_token_pipeline import SpeechTokenGenerationPipeline
from tests.pipelines.audio.running import audio_pipeline, speech_pipeline
from tests.pipelines.tiny.models import speaking_folder
from tests.pipelines.tiny.speaking import ARCHITECTURES


@contextmanager
def registered() -> Iterator[PipelineRegistry]:
    """A registry with the tiny models, in place of the one that pipelines use."""
    before, mine = current(), PipelineRegistry(ARCHITECTURES)
    use_registry(mine)
    try:
        yield mine
    finally:
        use_registry(before)


@pytest.fixture
def registry() -> Iterator[PipelineRegistry]:
    """A registry with the tiny models, for a test."""
    with registered() as found:
        yield found


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the model that speaks."""
    return speaking_folder(tmp_path_factory.mktemp("speaking"))


@pytest.fixture(scope="session")
def audio(folder: Path) -> AudioGeneratorPipeline:
    """A pipeline of audio, whose configuration tests change."""
    with registered() as found:
        return audio_pipeline(found, folder)


@pytest.fixture(scope="session")
def speech(tmp_path_factory: pytest.TempPathFactory) -> SpeechTokenGenerationPipeline:
    """A pipeline of speech tokens of the same model of language."""
    path = speaking_folder(tmp_path_factory.mktemp("tokens"), "SpeakingTokens")
    with registered() as found:
        return speech_pipeline(found, path)


@pytest.fixture(autouse=True)
def pages_come_back(request: pytest.FixtureRequest) -> Iterator[None]:
    """No test leaves a page of a shared pipeline with a request."""
    yield
    for name in {"audio", "speech"} & set(request.fixturenames):
        pipeline: Any = request.getfixturevalue(name)
        (manager,) = pipeline.kv_managers
        manager.check_tables()
        assert manager.num_free_blocks == manager.total_num_pages
