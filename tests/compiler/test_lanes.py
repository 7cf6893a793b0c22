"""Rows that kernels go through by vectors: every length, odd numbers, and the bits of exp."""

from __future__ import annotations

import numpy as np
import pytest

from maxlab import engine
from maxlab.driver import Tensor
from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, TensorType, ops

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

LENGTHS = (1, 3, 4, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 128, 200, 257)


def rows(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32) * np.float32(3)


@pytest.fixture(scope="module")
def unknown() -> engine.Model:
    """Sums, extremes, exp and softmax of rows whose length is known when they run."""
    with Graph("rows", input_types=[TensorType(DType.float32, ["m", "n"])]) as graph:
        x = graph.inputs[0].tensor
        graph.output(
            ops.sum(x, -1), ops.max(x, axis=-1), ops.min(x, axis=-1), ops.exp(x),
            ops.softmax(x), ops.sum(x * x, -1), ops.sum(ops.exp(x) * x, -1), ops.sum(x, 0),
        )  # fmt: skip
    return engine.InferenceSession(num_threads=1).load(graph)


def wanted(x: np.ndarray) -> list[np.ndarray]:
    wide = x.astype(np.float64)
    shifted = np.exp(wide - wide.max(-1, keepdims=True))
    return [
        wide.sum(-1, keepdims=True), wide.max(-1, keepdims=True), wide.min(-1, keepdims=True),
        np.exp(wide), shifted / shifted.sum(-1, keepdims=True),
        (wide * wide).sum(-1, keepdims=True),
        (np.exp(wide) * wide).sum(-1, keepdims=True), wide.sum(0, keepdims=True),
    ]  # fmt: skip


def compare(found: list[np.ndarray], exact: list[np.ndarray]) -> None:
    for one, other in zip(found, exact, strict=True):
        np.testing.assert_allclose(one, other, rtol=3e-5, atol=1e-4)


@pytest.mark.parametrize("length", LENGTHS)
def test_rows_of_any_length(unknown: engine.Model, length: int) -> None:
    x = rows(np.random.default_rng(length), 5, length)
    compare([one.to_numpy() for one in unknown.execute(Tensor.from_numpy(x))], wanted(x))


KNOWN = [(3, 320), (6, 1000), (9, 64), (1030, 3), (4, 1500)]
"""And some rows of less than a vector of most machines, and of few columns."""
KNOWN += [(40, 8), (33, 9), (15, 10), (70, 12), (65, 15), (500, 16), (100, 7), (129, 17)]


@pytest.mark.parametrize("shape", KNOWN)
def test_rows_of_known_length(shape: tuple[int, int]) -> None:
    with Graph("known", input_types=[TensorType(DType.float32, shape)]) as graph:
        x = graph.inputs[0].tensor
        graph.output(ops.sum(x, -1), ops.max(x, axis=-1), ops.softmax(x), ops.sum(x, 0))
    model = engine.InferenceSession(num_threads=2).load(graph)
    data = rows(np.random.default_rng(1), *shape)
    exact = wanted(data)
    compare(
        [one.to_numpy() for one in model.execute(Tensor.from_numpy(data))],
        [exact[0], exact[1], exact[4], exact[7]],
    )


def test_odd_numbers_at_every_place(unknown: engine.Model) -> None:
    nan, inf = np.float32("nan"), np.float32("inf")
    for length in (16, 37, 130):
        x = rows(np.random.default_rng(2), length + 3, length)
        for place in range(length):
            x[place, place] = nan if place % 2 else -nan
        x[length], x[length + 1], x[length + 2, 1] = inf, -inf, inf
        found = [one.to_numpy() for one in unknown.execute(Tensor.from_numpy(x))]
        for k in range(3):
            assert np.isnan(found[k][:length]).all()
        assert found[1][length:, 0].tolist() == [inf, -inf, inf]
        assert found[2][length:-1, 0].tolist() == [inf, -inf]
        assert np.isnan(found[4][: length + 1]).all()
        np.testing.assert_allclose(found[3], np.exp(x.astype(np.float64)), rtol=2e-7)


def test_columns_are_added_in_few_roundings() -> None:
    """Of 4096 numbers that are all alike, which a running sum rounds again and again."""
    with Graph("columns", input_types=[TensorType(DType.float32, (4096, 300))]) as graph:
        graph.output(ops.sum(graph.inputs[0].tensor, 0))
    model = engine.InferenceSession(num_threads=1).load(graph)
    x = np.full((4096, 300), 0.1, np.float32)
    found = model.execute(Tensor.from_numpy(x))[0].to_numpy()
    running = np.cumsum(x[:, 0])[-1]
    exact = 4096 * float(np.float32(0.1))
    assert np.abs(found - exact).max() < abs(running - exact) / 2


# ---------------------------------------------------------------- kept rows
@pytest.mark.parametrize("name", ["alone", "of a product", "read again", "transposed", "halves"])
def test_rows_are_kept_in_the_result_where_nothing_reads_there(name: str) -> None:
    """What several passes need is in the memory of the result until this is stored, also where that
    is the memory of the operand, but not where a later pass reads the operand."""
    dtype = DType.bfloat16 if name == "halves" else DType.float32
    with Graph("g", input_types=[TensorType(dtype, [9, 200], DeviceRef.CPU())]) as graph:
        x = graph.inputs[0].tensor
        eye = ops.constant(np.eye(200, dtype=np.float32), DType.float32, DeviceRef.CPU())
        y = x @ eye if name == "of a product" else x
        soft = ops.softmax(y)
        made = {"read again": lambda: soft * y, "transposed": lambda: ops.transpose(soft, 0, 1)}
        graph.output(made.get(name, lambda: soft)())
    model = engine.InferenceSession(num_threads=2).load(graph)
    sources = "".join(kernel.source for kernel in model.kernels.values())
    assert ("*const t0 = p" in sources) is (name not in ("read again", "halves"))
    given = np.random.default_rng(1).standard_normal((9, 200)).astype(dtype.ml_numpy)
    found = model.execute(given)[0].to_ml_numpy().astype(np.float64)
    wide = given.astype(np.float64)
    exact = np.exp(wide - wide.max(-1, keepdims=True))
    exact /= exact.sum(-1, keepdims=True)
    exact = {"read again": exact * wide, "transposed": exact.T}.get(name, exact)
    assert found.shape == exact.shape
    np.testing.assert_allclose(found, exact, atol=4e-3 if name == "halves" else 1e-6)
