"""The tutorial of requests, with PyTorch and without; the weights that stand in for training."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

FOLDER = Path(__file__).resolve().parents[3] / "notebooks"
NOTEBOOK = FOLDER / "10_requests_and_sampling.ipynb"


def run(monkeypatch: pytest.MonkeyPatch, without_torch: bool) -> dict[str, Any]:
    """The variables after the code cells of the notebook."""
    monkeypatch.chdir(FOLDER)
    find_spec = importlib.util.find_spec

    def found(name: str, package: str | None = None) -> Any:
        return None if without_torch and name == "torch" else find_spec(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", found)
    scope: dict[str, Any] = {}
    for number, cell in enumerate(json.loads(NOTEBOOK.read_text("utf-8"))["cells"]):
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"cell {number}", "exec"), scope)
    return scope


@pytest.mark.parametrize("without_torch", [True, False], ids=["without torch", "with torch"])
def test_it_runs(monkeypatch: pytest.MonkeyPatch, without_torch: bool) -> None:
    if not without_torch:
        pytest.importorskip("torch", reason="torch is not installed")
    scope = run(monkeypatch, without_torch)
    tokens = scope["encode"](scope["text"])
    logits = scope["model"](scope["windows"](tokens)[:-1].astype(np.int64))[0].to_numpy()
    powers = np.exp(logits - logits.max(1, keepdims=True))
    told = np.log((powers / powers.sum(1, keepdims=True))[np.arange(len(tokens)), tokens])
    # A model that had learnt nothing would have the mean log(1/27), -3.3.
    assert told.mean() > -0.4
    assert scope["answer"]("This is the cat", temperature=0).startswith(
        "This is the cat that killed"
    )
    shipped = np.load(FOLDER / "data" / "rhyme.npz")
    assert {name: shipped[name].shape for name in shipped} == {
        name: value.shape for name, value in scope["weights"].items()
    }
