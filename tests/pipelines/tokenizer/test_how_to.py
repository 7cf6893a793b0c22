"""The page on chat templates says what happens."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pages import run_page
from tests.pipelines.tokenizer import trained

pytest.importorskip("transformers", reason="transformers not installed")


def test_the_page_prints_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    trained.folder(tmp_path / "tiny", chat_template=trained.LLAMA3)
    run_page("how-to/render-a-chat-template.md", 7)
