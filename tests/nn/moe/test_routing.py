"""The way of tokens to some of the experts and back."""

from __future__ import annotations

import numpy as np
import pytest

from maxlab.dtype import DType
from maxlab.engine import InferenceSession
from maxlab.graph import Graph, TensorType
from maxlab.nn.moe import Routing

RNG = np.random.default_rng(8)
F32, I64 = DType.float32, DType.int64


@pytest.mark.parametrize(("first", "count"), [(0, 0), (2, 3)], ids=["all", "three of six"])
def test_rows_go_to_the_matrices_of_their_experts_and_back(first: int, count: int) -> None:
    here = count or 6
    indices = np.stack([RNG.permutation(6)[:2] for _ in range(9)])
    x = RNG.standard_normal((9, 4)).astype(np.float32)
    w = RNG.standard_normal((here, 3, 4)).astype(np.float32)
    types = [
        TensorType(I64, ["tokens", 2]),
        TensorType(F32, ["tokens", 4]),
        TensorType(F32, w.shape),
    ]
    with Graph("routed", input_types=types) as graph:
        chosen, rows, matrices = (value.tensor for value in graph.inputs)
        routing = Routing.of(chosen, 6, first, count)
        graph.output(routing.back(routing.product(routing.rows(rows), matrices)), routing.usage)
    found, usage = (y.to_numpy() for y in InferenceSession().load(graph)(indices, x, w))
    wanted = np.zeros((9, 2, 3))
    for token, place in np.ndindex(9, 2):
        expert = int(indices[token, place]) - first
        if 0 <= expert < here:
            wanted[token, place] = w[expert].astype(np.float64) @ x[token]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    assert usage[1] <= here + 1
