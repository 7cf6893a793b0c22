"""Ops with sizes that only a run tells, beside torch's."""

from __future__ import annotations

import numpy as np
import pytest

from maxlab import engine
from maxlab.dtype import DType
from maxlab.graph import Graph, TensorType, ops

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle


@pytest.mark.parametrize("seed", range(4))
def test_against_torch(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, 40, 3).tolist())
    x = (rng.standard_normal(shape) * (rng.random(shape) < 0.4)).astype(np.float32)
    mask = rng.random(shape) < rng.random()
    updates = rng.standard_normal(int(mask.sum())).astype(np.float32)
    repeats = rng.integers(0, 4, shape[1])
    types = [
        TensorType(DType.float32, ["a", "b", "c"]),
        TensorType(DType.bool, ["a", "b", "c"]),
        TensorType(DType.float32, ["k"]),
        TensorType(DType.int64, ["b"]),
    ]
    with Graph("dynamic", input_types=types) as graph:
        a, where, new, counts = graph.inputs
        graph.output(
            ops.nonzero(a, "hits"),
            ops.masked_scatter(a, where, new, "k"),
            ops.repeat_interleave(a, counts.tensor, 1, "wide"),
        )
    got = engine.InferenceSession().load(graph)(x, mask, updates, repeats)
    y = torch.from_numpy(x)
    wanted = [
        torch.nonzero(y),
        y.masked_scatter(torch.from_numpy(mask), torch.from_numpy(updates)),
        torch.repeat_interleave(y, torch.from_numpy(repeats), 1),
    ]
    for one, two in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(one.to_numpy(), two.numpy())
