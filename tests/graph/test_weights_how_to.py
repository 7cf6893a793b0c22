"""The page on loading weights, run as printed, and the docstrings of the readers."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import re
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.graph.weight_files import Array, array, gguf, info, pair, text, torch_of

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "load-weights.md"


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

    page = PAGE.read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == page.count("```python") == 8
    scope: dict[str, object] = {}
    for program, said in blocks:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(program, str(PAGE), "exec"), scope)
        assert out.getvalue() == said


@pytest.mark.parametrize("name", ["base", "load", "safetensors", "gguf", "gguf_file", "pytorch"])
def test_docstring_examples(name: str) -> None:
    result = doctest.testmod(importlib.import_module(f"maxlab.graph.weights.{name}"))
    assert result.attempted > 0
    assert result.failed == 0
