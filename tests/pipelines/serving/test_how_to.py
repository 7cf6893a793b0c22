"""The page on generating text says what happens."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.pages import run_page


def test_the_page_prints_what_it_says(
    llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("llguidance")
    monkeypatch.chdir(tmp_path)
    shutil.copytree(llama, "tiny")
    run_page("how-to/generate-text.md", 4)
