"""What is computed of shards, and of weights on several devices, is computed when a model is
loaded, where it is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maxlab import engine
from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, ShardingStrategy, TensorType, Weight, ops
from tests.devices.places import load, places, put, refs_of, taken

F32 = DType.float32
RNG = np.random.default_rng(5)
DATA: dict[str, Any] = {
    name: RNG.standard_normal(shape).astype(np.float32)
    for name, shape in (("a", (6, 8)), ("b", (6, 8)), ("whole", (8, 8)))
}


def stacked(refs: list[DeviceRef]) -> Graph:
    """On each device its rows of two weights, one above the other, and a weight that all have."""
    a, b = (Weight(name, F32, [6, 8], DeviceRef.CPU()) for name in ("a", "b"))
    whole = Weight("whole", F32, [8, 8], DeviceRef.CPU())
    for weight in (a, b):
        weight.sharding_strategy = ShardingStrategy.rowwise(len(refs))
    types = [TensorType(F32, [f"n{n}", 8], ref) for n, ref in enumerate(refs)]
    with Graph("g", input_types=types) as graph:
        made = []
        for value, own, other in zip(graph.inputs, a.shard(refs), b.shard(refs), strict=True):
            both = ops.concat([own, other], 0) * 2
            place = value.tensor.device
            made.append(value.tensor @ (ops.exp(whole.to(place)) @ both.T))
        graph.output(*made)
    return graph


def wanted(x: Any, n: int, many: int, data: dict[str, Any]) -> Any:
    rows = 6 // many
    both = np.concatenate([data[k][n * rows : (n + 1) * rows] for k in ("a", "b")]) * 2
    return x @ (np.exp(data["whole"]) @ both.T)


@pytest.mark.parametrize("which", ["2 cpus", "late cpus", "2 gpus", "mixed"])
def test_it_is_computed_once_and_there(which: str, tmp_path: Path) -> None:
    with places(which) as devices:
        many = len(devices)
        graph = stacked(refs_of(devices))
        model = load(graph, devices, **DATA)
        assert model.compiled.plan.facts.ahead is not None
        kinds = [step.kind for step in model.plan.steps]
        assert "concat" not in kinds
        assert kinds.count("contract") == many
        xs = [RNG.standard_normal((n + 1, 8)).astype(np.float32) for n in range(many)]
        model.save(tmp_path / "kept.mlmodel")
        session = engine.InferenceSession(devices=devices)
        kept = session.load(tmp_path / "kept.mlmodel", weights_registry=DATA)
        other = {name: one + 1 for name, one in DATA.items()}
        for made, data in ((model, DATA), (kept, DATA), (load(graph, devices, **other), other)):
            ys = made(*(put(x, device) for x, device in zip(xs, devices, strict=True)))
            for n, (x, y) in enumerate(zip(xs, ys, strict=True)):
                np.testing.assert_allclose(taken(y), wanted(x, n, many, data), rtol=1e-4, atol=1e-3)
