"""Weights of a file that are only packed: their pages go back to the system, and stay readable."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from maxlab import engine
from maxlab.dtype import DType
from maxlab.graph import Graph, TensorType, Weight, ops
from maxlab.graph.weights import load_weights

SMAPS = Path("/proc/self/smaps")


def resident(path: Path) -> int:
    """The bytes of ``path`` that are in the memory of this process."""
    found, inside = 0, False
    for line in SMAPS.read_text("utf-8").splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            inside = line.endswith(str(path))
        elif inside and line.startswith("Rss:"):
            found += 1024 * int(line.split()[1])
    return found


@pytest.mark.skipif(not SMAPS.exists(), reason="needs /proc")
@pytest.mark.parametrize("also_read", [False, True], ids=["only packed", "also read"])
def test_weights_of_a_file_are_held_once(tmp_path: Path, also_read: bool) -> None:
    path = tmp_path / "model.safetensors"
    w = np.random.default_rng(1).standard_normal((2048, 512)).astype(np.float32)
    save_file({"w": w}, path)
    weights = load_weights([path])
    with Graph("product", input_types=[TensorType(DType.float32, ["n", 512])]) as graph:
        given = Weight("w", DType.float32, w.shape)
        outputs = [graph.inputs[0].tensor @ given.T]
        if also_read:
            outputs.append(ops.sum(given, axis=1))
        graph.output(*outputs)
    registry = {name: value.data() for name, value in weights.items()}
    model = engine.InferenceSession().load(graph, weights_registry=registry)
    assert resident(path) < w.nbytes / 8
    x = np.ones((1, 512), np.float32)
    y, *rest = model(x)
    np.testing.assert_allclose(y.to_numpy(), x @ w.T, rtol=1e-4, atol=1e-4)
    if also_read:
        np.testing.assert_allclose(rest[0].to_numpy().ravel(), w.sum(1), rtol=1e-3, atol=1e-3)
    else:
        assert resident(path) < w.nbytes / 8
    np.testing.assert_array_equal(np.from_dlpack(model.weights["w"]), w)
    assert resident(path) >= w.nbytes
