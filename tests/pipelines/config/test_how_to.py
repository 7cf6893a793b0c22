"""The page on configurations prints what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pages import run_page
from tests.pipelines.config import folders


def test_the_page_prints_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers", reason="transformers not installed; extra oracle has it")
    monkeypatch.chdir(tmp_path)
    folders.model(tmp_path / "tiny", generation={"temperature": 0.2, "top_k": 50})
    run_page("how-to/configure-a-pipeline.md", 8)
