"""The page on loading weights, run as printed on files that are made here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.graph.weight_files import Array, array, gguf, info, pair, text, torch_of
from tests.pages import run_page


def test_the_programs_print_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    bias = np.linspace(0, 0.75, 4, dtype=np.float32)
    layers: dict[str, Array] = {"weight": np.ones((8, 4), np.float32), "bias": bias}
    tensors = {f"layers.{n}.{name}": x for n in range(2) for name, x in layers.items()}
    save_file(tensors, "model.safetensors")
    Path("pytorch_model.bin").write_bytes(torch_of(tensors))
    block = np.array([0, 0x3C] + 16 * [0x99], np.uint8)  # a scale of 1; 9, less 8
    words = b"".join(map(text, ("<s>", "</s>", "a")))
    pairs = [
        pair("general.architecture", 8, text("llama")),
        pair("tokenizer.ggml.tokens", 9, array(8, 3, words)),
    ]
    described = [info("blk.0.ffn_up.weight", [64, 4], 2, 0)]
    Path("model.gguf").write_bytes(gguf(pairs, described, np.tile(block, 8).tobytes()))

    run_page("how-to/load-weights.md", 10)
