"""The questions of the panel *Check*."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from maxlab.analysis.check import compare
from maxlab.errors import ArgumentError
from maxlab.graph import ops
from maxlab.lab.questions.answering import answer, answers_to_save
from tests.analysis.check.planting import model_of, plant

ROOT = Path(__file__).resolve().parents[2]


def run(path: Path) -> str:
    """What the script prints."""
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, path], capture_output=True, text=True, check=False, env=env
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_compare_of_a_right_model() -> None:
    model = model_of(lambda x: ops.softmax(x * 2.0), ("n", 32))
    profile = model.profile(np.ones((3, 32), np.float32), runs=1, warmup=0)
    assert "compare" not in answers_to_save(profile)
    data = answer(model, "compare", {}).data
    assert data["ok"]
    assert data["first"] is None
    assert [n["id"] for n in data["nodes"]] == ["n1", "n2"] or {n["id"] for n in data["nodes"]} == {
        "n1",
        "n2",
    }
    assert len(data["outputs"]) == 1
    json.dumps(data, allow_nan=False)
    assert answers_to_save(profile)["compare"] == data
    assert answer(model, "compare", {"newest": True}).data == data


def test_a_comparison_of_a_cell_is_shown_too() -> None:
    model = model_of(lambda x: x * 2.0, ("n",))
    assert answer(model, "compare", {"newest": True}).data == {"version": 2, "kind": "none"}
    found = compare(model, np.ones(3, np.float32))
    data = answer(model, "compare", {"newest": True}).data
    assert data["message"].lower().startswith(found.message)
    del found
    gc.collect()
    assert answer(model, "compare", {"newest": True}).data["kind"] == "none"


def test_a_wrong_model_and_its_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of(lambda x: ops.tanh(x - 0.25) * 3.0, ("n", 32))
    model.profile(np.linspace(-2, 2, 96, dtype=np.float32).reshape(3, 32), runs=1, warmup=0)
    plant(model, "k0", ("- 0.25f", "- 0.5f"))
    data = answer(model, "compare", {"all": True}).data
    first = data["nodes"][0]
    assert (data["first"], first["id"], first["op"], first["ok"]) == (
        first["id"],
        "n1",
        "sub",
        False,
    )
    assert first["wrong"] == 96
    assert data["can_repro"]
    monkeypatch.chdir(tmp_path)
    made = answer(model, "repro", {}).data
    assert made["files"] == ["planted_k0.c", "planted_k0.npz", "planted_k0.py"]
    path = Path(made["path"])
    far = float(run(path).rpartition(" ")[2])
    assert far > 0.1
    text = path.with_suffix(".c").read_text().replace("- 0.5f", "- 0.25f")
    path.with_suffix(".c").write_text(text)
    assert float(run(path).rpartition(" ")[2]) < 1e-5
    assert answer(model, "repro", {}).data["files"][0] == "planted_k0_2.c"


def test_nan_and_values() -> None:
    model = model_of(lambda x: ops.exp(ops.sqrt(x - 1.0)) * 2.0, ("n", 8))
    x = np.full((200, 8), 5, np.float32)
    x[7, 3] = 0
    model.profile(x, runs=1, warmup=0)
    trip = answer(model, "nan", {}).data["trip"]
    assert trip["node"] == "n2"
    assert trip["op"] == "sqrt"
    assert trip["at"] == [7, 3]
    assert list(trip["operands"].values()) == ["-1"]
    told = answer(model, "value", {"node": "n2"})
    data = told.data
    json.dumps(data, allow_nan=False)
    assert (data["nan"], data["inf"], data["min"], data["max"]) == (1, 0, 2.0, 2.0)
    assert data["how"] == "kernel"
    image = np.frombuffer(told.buffers[0], "<f4").reshape(
        data["image"]["rows"], data["image"]["columns"]
    )
    assert image.shape == (96, 8)
    assert np.isnan(image).sum() == 1
    assert sum(data["histogram"]["counts"]) == 200 * 8 - 1
    assert len(data["corner"]) == 6


def test_no_nan_and_no_such_op() -> None:
    model = model_of(lambda x: x + 1.0, ("n",))
    model(np.ones(3, np.float32))
    assert answer(model, "nan", {}).data["trip"] is None
    for wrong, code in (("n99", "ML805"), (None, "ML862")):
        with pytest.raises(ArgumentError, match=code):
            answer(model, "value", {"node": wrong})
    with pytest.raises(ArgumentError, match="ML661"):
        answer(model, "repro", {})
