"""Convolutions by Winograd's tiles: models that ask for speed have them, and what follows too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from maxlab.analysis.check import compare
from maxlab.compiler import Options
from maxlab.dtype import DType
from maxlab.engine import InferenceSession, Model
from maxlab.graph import DeviceRef, Graph, TensorType, Weight, ops
from maxlab.opset import convolution_tiles as tiles

Array = np.ndarray[Any, Any]
CPU = DeviceRef.CPU()
SAME = (1, 1, 1, 1)


def loaded(
    shape: tuple[Any, ...], oc: int, accuracy: str = "fast", *, padding: Any = SAME,
    dtype: DType = DType.float32, window: int = 3, known: bool = True, then: Any = None,
    joined: bool = False, bias: bool = True, threads: int = 2, **attrs: Any,
) -> tuple[Model, list[Array]]:  # fmt: skip
    """A model of one convolution, and the arrays of its filter and bias."""
    ic = shape[-1] * (2 if joined else 1) // attrs.get("groups", 1)
    rng = np.random.default_rng(3)
    filters = rng.standard_normal((window, window, ic, oc)).astype(np.float32)
    arrays = [filters.astype(dtype.ml_numpy), rng.standard_normal(oc).astype(dtype.ml_numpy)]
    given = [TensorType(dtype, shape, CPU)] * (2 if joined else 1)
    given += [] if known else [TensorType(dtype, filters.shape, CPU)]
    with Graph("convolution", input_types=given) as graph:
        inputs = [value.tensor for value in graph.inputs]
        w = Weight("w", dtype, filters.shape, CPU) if known else inputs[-1]
        x = ops.concat(inputs[:2], -1) if joined else inputs[0]
        b = Weight("b", dtype, [oc], CPU) if bias else None
        y = ops.conv2d(x, w, padding=padding, bias=b, **attrs)
        graph.output(y if then is None else then(y, inputs[0]))
    weights = dict(zip(("w", "b"), arrays, strict=True))
    weights = {
        name: weights[name]
        for name in ("w", "b")
        if (name == "w" and known) or (name == "b" and bias)
    }
    model = InferenceSession(num_threads=threads).load(
        graph, weights_registry=weights, options=Options(accuracy=accuracy)  # type: ignore[arg-type]
    )  # fmt: skip
    return model, arrays


def by_tiles(model: Model) -> bool:
    return any("winograd_f32" in kernel.source for kernel in model.kernels.values())


def defined(x: Array, filters: Array, bias: Array | None, padding: Any = SAME) -> Array:
    wide = np.pad(x.astype(np.float64), ((0, 0), padding[:2], padding[2:], (0, 0)))
    oh, ow = wide.shape[1] - 2, wide.shape[2] - 2
    taps = ((r, s) for r in range(3) for s in range(3))
    made = sum(wide[:, r : r + oh, s : s + ow] @ filters[r, s].astype(float) for r, s in taps)
    return np.asarray(made if bias is None else made + bias)


def near(found: Array, wanted: Array) -> None:
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max() <= 2e-5 * np.abs(wanted).max()


def image(*shape: int, seed: int = 1) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    ("shape", "oc", "padding"),
    [
        ((1, 16, 16, 32), 32, SAME),
        ((2, 30, 17, 48), 80, (0, 0, 0, 0)),
        ((1, 33, 20, 64), 96, (2, 1, 0, 2)),
        ((3, 14, 14, 256), 64, SAME),
        ((1, 57, 40, 32), 512, SAME),
    ],
    ids=str,
)
def test_they_give_the_convolution(
    shape: tuple[int, ...], oc: int, padding: Any, bias: bool, threads: int
) -> None:
    model, (filters, added) = loaded(shape, oc, padding=padding, bias=bias, threads=threads)
    assert by_tiles(model)
    x = image(*shape)
    near(model(x)[0].to_numpy(), defined(x, filters, added if bias else None, padding))


def test_images_may_be_as_many_as_one_likes() -> None:
    model, (filters, bias) = loaded(("n", 16, 20, 32), 48)
    assert by_tiles(model)
    for n in (1, 3, 0):
        x = image(n, 16, 20, 32)
        found = model(x)[0].to_numpy()
        assert found.shape == (n, 16, 20, 48)
        if n:
            near(found, defined(x, filters, bias))


def test_what_follows_is_done_with_them() -> None:
    """A residual, a scale and an activation: in the same kernel, each element once."""

    def then(y: Any, x: Any) -> Any:
        return ops.relu(y * 0.5 + x) + 1.0

    model, (filters, bias) = loaded((2, 23, 18, 64), 64, then=then)
    assert by_tiles(model)
    assert len(model.plan.steps) == 1
    x = image(2, 23, 18, 64)
    wanted = np.maximum(defined(x, filters, bias) * 0.5 + x, 0) + 1
    near(model(x)[0].to_numpy(), wanted)


def test_two_images_are_joined_before() -> None:
    model, (filters, _) = loaded((1, 20, 20, 32), 64, joined=True, bias=False)
    assert by_tiles(model)
    x, y = image(1, 20, 20, 32), image(1, 20, 20, 32, seed=2)
    near(model(x, y)[0].to_numpy(), defined(np.concatenate([x, y], -1), filters, None))


def test_blocks_and_parts_give_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    x = image(1, 40, 36, 64)
    whole = loaded((1, 40, 36, 64), 192)[0](x)[0].to_numpy()
    for name, value in (("CACHED", 1 << 18), ("ITEMS", 64), ("MOST", 160), ("GROUP", 1)):
        with monkeypatch.context() as patch:
            patch.setattr(tiles, name, value)
            model, _ = loaded((1, 40, 36, 64), 192)
            assert by_tiles(model)
            np.testing.assert_array_equal(model(x)[0].to_numpy(), whole, err_msg=name)


@pytest.mark.parametrize("accuracy", ["default", "exact"])
def test_only_models_that_ask_for_speed_have_them(accuracy: str) -> None:
    assert not by_tiles(loaded((1, 16, 16, 32), 32, accuracy)[0])


@pytest.mark.parametrize(
    ("shape", "oc", "more"),
    [
        ((1, 16, 16, 24), 32, {}),
        ((1, 16, 16, 32), 40, {}),
        ((1, 16, 16, 16), 64, {}),
        ((1, 8, 8, 64), 64, {}),
        ((1, 17, 17, 64), 64, {"padding": SAME}),
        ((1, 16, 16, 64), 64, {"stride": (2, 2)}),
        ((1, 16, 16, 64), 64, {"dilation": (2, 2)}),
        ((1, 16, 16, 64), 64, {"groups": 2}),
        ((1, 16, 16, 64), 64, {"window": 5}),
        ((1, 16, 16, 64), 64, {"dtype": DType.bfloat16}),
        ((1, 16, 16, 64), 64, {"known": False}),
        ((1, "h", 16, 64), 64, {}),
    ],
    ids=str,
)
def test_others_are_computed_as_before(shape: tuple[Any, ...], oc: int, more: Any) -> None:
    assert not by_tiles(loaded(shape, oc, **more)[0])


def test_the_comparison_with_the_references_agrees() -> None:
    model, _ = loaded((1, 28, 28, 64), 64, then=lambda y, x: ops.relu(y))
    found = compare(model, image(1, 28, 28, 64))
    assert found.ok, found.message


def test_a_kept_model_has_them(tmp_path: Any) -> None:
    model, (filters, bias) = loaded((1, 16, 16, 32), 32)
    x = image(1, 16, 16, 32)
    model.save(tmp_path / "kept.maxlab")
    again = InferenceSession().load(tmp_path / "kept.maxlab")
    near(again(x)[0].to_numpy(), defined(x, filters, bias))
    np.testing.assert_array_equal(again(x)[0].to_numpy(), model(x)[0].to_numpy())
