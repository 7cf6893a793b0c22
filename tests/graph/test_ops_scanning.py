"""Running sums whose long rows are shared by threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from maxlab import engine
from maxlab.dtype import DType
from maxlab.graph import Graph, TensorType, ops
from maxlab.opset.scan import LONG_ROW
from tests.compiler.interpret import host


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_share_a_row(threads: int) -> None:
    rng = np.random.default_rng(6)
    with Graph("g", input_types=[TensorType(DType.int32, ["rows", "n"])]) as graph:
        x = graph.inputs[0].tensor
        graph.output(ops.cumsum(x), ops.cumsum(x, exclusive=True, reverse=True))
    model = engine.InferenceSession(num_threads=threads).load(graph)
    for shape in ((1, LONG_ROW), (1, 3 * LONG_ROW + 5), (2, LONG_ROW + 1), (9, 40), (1, 0), (0, 7)):
        data = rng.integers(-(2**31), 2**31, shape).astype(np.int32)
        forward, backward = (host(v) for v in model(data))
        np.testing.assert_array_equal(forward, np.cumsum(data, 1, dtype=np.int32))
        total = np.flip(np.cumsum(np.flip(data, 1), 1, dtype=np.int32), 1)
        np.testing.assert_array_equal(backward, total - data)


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["float32", "float64", "float16", "int8"])
def test_long_rows_are_those_of_torch(name: str) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(7)
    data: Any = (rng.standard_normal((1, 100_000)) * 3).astype(name)
    with Graph("g", input_types=[TensorType(DType.from_numpy(data.dtype), data.shape)]) as graph:
        graph.output(ops.cumsum(graph.inputs[0].tensor))
    got = host(engine.InferenceSession(num_threads=3).load(graph)(data)[0])
    given = torch.from_numpy(data)
    wide = given if name == "int8" else given.to(torch.float64)
    want = torch.cumsum(wide, 1, dtype=wide.dtype).numpy()
    if name == "int8":
        np.testing.assert_array_equal(got, want)
    else:
        grain = {"float16": 2.0**-9, "float32": 1e-6, "float64": 1e-14}[name]
        np.testing.assert_allclose(got.astype(float), want, rtol=grain, atol=grain * 2000)
