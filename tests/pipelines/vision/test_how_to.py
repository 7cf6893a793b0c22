"""The page on images says what happens."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from maxlab.pipelines.lib.architectures import registry as current
from maxlab.pipelines.lib.architectures import use_registry
from tests.pages import run_page


def test_the_page_prints_what_it_says(
    tiny: tuple[Path, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(tiny[0], tmp_path / "tiny")
    before = current()
    run_page("how-to/text-from-images.md", 5)
    use_registry(before)
