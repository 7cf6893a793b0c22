"""Models travel to other processes by pickle."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from pathlib import Path
from typing import Any

import pytest

from maxlab import engine
from maxlab.errors import GraphError, WeightError
from maxlab.graph import Graph, TensorType, ops
from tests.engine.kept.made import F32, X, dequantised, from_file, outputs, scores


def _ran(model: Any, x: Any) -> list[bytes]:
    return outputs(model, x)


@pytest.mark.parametrize("made", [scores, dequantised])
def test_another_process_runs_it(made: Any) -> None:
    model = made()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(_ran, (model, X)) == outputs(model)


def test_its_plan_travels(tmp_path: Path) -> None:
    model = scores()
    again = pickle.loads(pickle.dumps(model))
    assert again.plan == model.plan
    assert "the plan is that of" in again.compiled.cached
    assert again.num_threads == model.num_threads
    assert outputs(copy.deepcopy(model)) == outputs(model)


def test_weights_of_files_travel_by_name(tmp_path: Path) -> None:
    model, inside = from_file(tmp_path), scores()
    data = pickle.dumps(model)
    assert len(data) + 7000 < len(pickle.dumps(inside))
    assert outputs(pickle.loads(data)) == outputs(model)
    (tmp_path / "weights.safetensors").unlink()
    with pytest.raises(WeightError, match="ML517"):
        pickle.loads(data)


def test_a_function_of_python_does_not_travel() -> None:
    with Graph("speaks", input_types=[TensorType(F32, [2])]) as graph:
        ops.print("hello")
        graph.output(graph.inputs[0].tensor * 2)
    with pytest.raises(GraphError, match="ML450"):
        pickle.dumps(engine.InferenceSession().load(graph))
