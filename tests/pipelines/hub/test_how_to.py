"""The page on folders of models, run as printed on a folder that is made here."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pages import run_page
from tests.pipelines.hub.models import config, folder, gguf_file, safetensors


def test_the_programs_print_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder(
        tmp_path / "tiny",
        {
            "config.json": config(),
            "model-00001-of-00002.safetensors": safetensors({"layers.0.weight": ("BF16", 512)}),
            "model-00002-of-00002.safetensors": safetensors({"layers.1.weight": ("BF16", 48)}),
            "tiny-Q4_0.gguf": gguf_file({"blk.0.ffn_up.weight": ("Q4_0", 2)}),
        },
    )
    run_page("how-to/use-a-model-folder.md", 3)
