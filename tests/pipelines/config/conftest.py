"""A tiny model, and a process whose environment says nothing about configurations."""

from __future__ import annotations

import pytest

from maxlab.pipelines.lib.pipeline_config import PipelineConfig
from tests.pipelines.config import folders


@pytest.fixture(autouse=True)
def _silent_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for place in PipelineConfig._places().values():
        if place.setting.env:
            monkeypatch.delenv(place.setting.env, raising=False)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a tiny Llama."""
    pytest.importorskip("transformers", reason="transformers not installed; extra oracle has it")
    return folders.model(tmp_path_factory.mktemp("models") / "llama")
