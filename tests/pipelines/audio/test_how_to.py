"""The page on models that speak says what happens."""

from __future__ import annotations

from pathlib import Path

import pytest

from maxlab.pipelines.lib.registry import PIPELINE_REGISTRY
from tests.pages import run_page


def test_the_page_prints_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers", reason="transformers not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(PIPELINE_REGISTRY, "architectures", {})
    run_page("how-to/speak.md", 7)
    assert set(PIPELINE_REGISTRY.architectures) == {"Chimes"}
