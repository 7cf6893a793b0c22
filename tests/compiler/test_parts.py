"""Long reductions are made in parts: results, and the same bits with any number of threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from maxlab.analysis.stages import stages
from maxlab.compiler.passes import parts
from maxlab.driver import CPU, Accelerator, Tensor
from maxlab.dtype import DType
from maxlab.engine import InferenceSession, Model
from maxlab.graph import DeviceRef, Graph, TensorType, TensorValue, ops

Array = np.ndarray[Any, Any]
Fn = Callable[[TensorValue], TensorValue]
REDUCTIONS: dict[str, tuple[Fn, Callable[[Array], Any]]] = {
    "sum": (ops.sum, lambda x: x.sum(-1, keepdims=True)),
    "mean": (ops.mean, lambda x: x.mean(-1, keepdims=True)),
    "max": (ops.max, lambda x: x.max(-1, keepdims=True)),
    "min": (ops.min, lambda x: x.min(-1, keepdims=True)),
    "argmax": (ops.argmax, lambda x: x.argmax(-1, keepdims=True)),
    "argmin": (ops.argmin, lambda x: x.argmin(-1, keepdims=True)),
    "softmax": (ops.softmax, lambda x: np.exp(x - x.max(-1, keepdims=True))
                / np.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True)),
    "squares": (lambda x: ops.sum(x * x), lambda x: (x * x).sum(-1, keepdims=True)),
}  # fmt: skip


@pytest.fixture
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let short rows have parts, which simulated devices are soon done with."""
    monkeypatch.setattr(parts, "LEAST", 64)
    monkeypatch.setattr(parts, "EACH", 16)


def loaded(
    fn: Fn, shape: tuple[int | str, ...], dtype: DType = DType.float32,
    device: DeviceRef | None = None, threads: int = 2,
) -> Model:  # fmt: skip
    with Graph("g", input_types=[TensorType(dtype, shape, device or DeviceRef.CPU())]) as graph:
        graph.output(fn(graph.inputs[0].tensor))
    devices = [Accelerator(0)] if device is not None and device.is_gpu() else None
    return InferenceSession(devices=devices, num_threads=threads).load(graph)


def run(model: Model, x: Array, place: DeviceRef) -> Array:
    """The result of ``model``, which is on the device ``place``."""
    given = Tensor.from_numpy(x)
    if place.is_gpu():
        given = given.to(Accelerator(0))
    return model.execute(given)[0].to(CPU()).to_numpy()


def data(shape: tuple[int, ...], dtype: DType = DType.float32) -> Array:
    rng = np.random.default_rng(7)
    if dtype.is_integral():
        ends = np.iinfo(dtype.to_numpy())
        return rng.integers(ends.min, ends.max, shape, dtype.to_numpy(), endpoint=True)
    return rng.standard_normal(shape).astype(dtype.ml_numpy)


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("shape", [(1 << 18,), (3, 300_000)], ids=str)
def test_results_are_those_of_float64(name: str, shape: tuple[int, ...]) -> None:
    fn, wanted = REDUCTIONS[name]
    x = data(shape)
    model = loaded(fn, shape)
    found = model.execute(x)[0].to_numpy()
    assert len(model.kernels) > 1
    exact = wanted(x.astype(np.float64))
    scale = np.abs(exact).max() + (np.abs(x).mean() if name in ("sum", "mean") else 0)
    assert found.shape == exact.shape
    np.testing.assert_allclose(found, exact, rtol=2e-6, atol=2e-6 * scale)


@pytest.mark.usefixtures("_short")
@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_any_axis_on_both_devices(name: str, axis: int, place: DeviceRef) -> None:
    shape = tuple(96 if n == axis else 2 for n in range(3))
    fn, wanted = REDUCTIONS[name]

    def moved(x: TensorValue) -> TensorValue:
        return ops.transpose(fn(ops.transpose(x, axis, -1)), axis, -1)

    def along(x: TensorValue) -> TensorValue:
        if name in ("softmax", "squares", "argmax", "argmin"):
            return moved(x)
        return getattr(ops, name)(x, axis=axis)  # type: ignore[no-any-return]

    x = data(shape)
    found = run(loaded(along, shape, device=place), x, place)
    exact = np.swapaxes(wanted(np.swapaxes(x.astype(np.float64), axis, -1)), axis, -1)
    np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("_short")
@pytest.mark.parametrize("dtype", [DType.int8, DType.uint8, DType.int64, DType.uint64], ids=str)
@pytest.mark.parametrize("name", ["sum", "max", "min"])
def test_integers_are_exact(name: str, dtype: DType) -> None:
    fn = REDUCTIONS[name][0]
    x = data((2, 640), dtype)
    found = loaded(fn, (2, 640), dtype).execute(x)[0].to_numpy()
    folds: dict[str, Any] = {"sum": np.sum, "max": np.max, "min": np.min}
    fold = folds[name]
    np.testing.assert_array_equal(found, fold(x, axis=-1, keepdims=True).astype(x.dtype))


@pytest.mark.usefixtures("_short")
@pytest.mark.parametrize("dtype", [DType.bfloat16, DType.float16], ids=str)
def test_sums_of_halves_are_rounded_once(dtype: DType) -> None:
    x = np.ones((1, 1 << 12), dtype.ml_numpy)
    x[0, ::2] = 1 / 64  # lost in sums of 8 bits
    found = loaded(ops.sum, (1, 1 << 12), dtype).execute(x)[0].to_ml_numpy()
    assert float(found[0, 0]) == float(np.array(x.astype(np.float64).sum()).astype(x.dtype))


@pytest.mark.usefixtures("_short")
def test_nan_is_the_extreme(place: DeviceRef) -> None:
    x = data((1, 128))
    x[0, 77] = np.nan
    for fn in (ops.max, ops.min, ops.sum):
        assert np.isnan(run(loaded(fn, (1, 128), device=place), x, place)).all()
    assert run(loaded(ops.argmax, (1, 128), device=place), x, place) == 77


def test_the_bits_are_those_of_any_number_of_threads() -> None:
    x = data((1 << 20,))
    found = {
        loaded(ops.mean, x.shape, threads=threads).execute(x)[0].to_numpy().tobytes()
        for threads in (1, 2, 5)
    }
    assert len(found) == 1


def test_only_few_long_rows_of_known_sizes_have_parts() -> None:
    def count(*shape: int | str) -> int:
        return len(loaded(ops.sum, shape).kernels)

    assert count(1 << 18) == count(16, 1 << 18) == 2
    assert count(1 << 17) == count(17, 1 << 18) == count("n") == count("n", 1 << 18) == 1
    assert count(262_147) == 1  # a prime number
    assert count(0, 1 << 18) == 1


def test_the_compiler_says_why() -> None:
    found = {stage.name: stage for stage in stages(loaded(ops.sum, (1 << 18,)))}
    (rewrite,) = found["parts"].rewrites
    assert rewrite.rule == "parts"
    assert len(rewrite.into) >= 4
