"""The examples of ``engine``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from maxlab import engine
from maxlab.driver import CPU
from maxlab.dtype import DType
from maxlab.graph import Graph, TensorType
from tests.reference.examples import example


def double() -> Graph:
    return Graph("double", lambda x: x * 2, [TensorType(DType.float32, ["batch", 3])])


@example("engine", 1)
def test_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # the page loads a model of a hub; what maxlab loads is a graph that was saved
    monkeypatch.chdir(tmp_path)
    double().save("bert-base-uncased")
    session = engine.InferenceSession(devices=[CPU()])
    model_path = Path("bert-base-uncased")
    model = session.load(model_path)
    assert model.execute(np.ones((1, 3), np.float32))[0].to_numpy().tolist() == [[2, 2, 2]]
    with pytest.raises(RuntimeError, match="cannot be read"):
        session.load(Path("missing"))


@example("engine", 2)
def test_input_metadata(capsys: pytest.CaptureFixture[str]) -> None:
    model = engine.InferenceSession().load(double())
    for tensor in model.input_metadata:
        print(f"name: {tensor.name}, shape: {tensor.shape}, dtype: {tensor.dtype}")
    out = capsys.readouterr().out
    assert out == "name: input0, shape: [None, 3], dtype: DType.float32\n"


@example("engine", 3)
def test_output_metadata(capsys: pytest.CaptureFixture[str]) -> None:
    model = engine.InferenceSession().load(double())
    for tensor in model.output_metadata:
        print(f"name: {tensor.name}, shape: {tensor.shape}, dtype: {tensor.dtype}")
    out = capsys.readouterr().out
    assert out == "name: output0, shape: [None, 3], dtype: DType.float32\n"
