"""A tiny model, and a process whose environment says nothing about configurations."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from maxlab.pipelines.lib.architectures import registry, use_registry
from maxlab.pipelines.lib.pipeline_config import PipelineConfig
from tests.pipelines.config import folders


@pytest.fixture(autouse=True)
def _silent_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for place in PipelineConfig._places().values():
        if place.setting.env:
            monkeypatch.delenv(place.setting.env, raising=False)


@pytest.fixture(autouse=True)
def _no_architectures() -> Iterator[None]:
    """Asks no registry, whatever the tests before have registered."""
    before = registry()
    use_registry(None)
    yield
    use_registry(before)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a tiny Llama."""
    pytest.importorskip("transformers", reason="transformers not installed; extra oracle has it")
    return folders.model(tmp_path_factory.mktemp("models") / "llama")
