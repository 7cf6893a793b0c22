"""The page on many machines says what happens."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.pages import run_page


@pytest.mark.slow
def test_the_page_prints_what_it_says(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(folder, "tiny")
    run_page("how-to/many-machines.md", 5)
