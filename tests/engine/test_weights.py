"""Weights: checked against the graph, used in place, packed copies shared and never stale."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maxlab import trace
from maxlab.driver import Tensor
from maxlab.dtype import DType
from maxlab.engine import InferenceSession
from maxlab.engine import weights as engine_weights
from maxlab.errors import MissingWeightError, WeightError
from maxlab.graph import Graph, TensorType, Weight, ops

F32 = DType.float32
Array = np.ndarray[Any, Any]


def linear(dtype: DType = F32) -> Graph:
    """x @ w + b."""
    with Graph("linear", input_types=[TensorType(dtype, ["n", 3])]) as graph:
        w, b = Weight("layer.weight", dtype, [3, 4]), Weight("layer.bias", dtype, [4])
        graph.output(graph.inputs[0].tensor @ w + b)
    return graph


def data(seed: int = 0) -> dict[str, Array]:
    """Weights for ``linear``."""
    rng = np.random.default_rng(seed)
    return {
        "layer.weight": rng.standard_normal((3, 4)).astype(np.float32),
        "layer.bias": rng.standard_normal(4).astype(np.float32),
    }


X = np.arange(6, dtype=np.float32).reshape(2, 3)


def expected(weights: dict[str, Array]) -> Array:
    """What ``linear`` gives for X."""
    return X @ weights["layer.weight"] + weights["layer.bias"]


# ---------------------------------------------------------------- refusals
def test_missing_weights() -> None:
    weights = data()
    weights["layer.wieght"] = weights.pop("layer.weight")
    with pytest.raises(MissingWeightError, match=r"did you mean 'layer\.wieght'") as caught:
        InferenceSession().load(linear(), weights_registry=weights)
    assert caught.value.code == "ML613"
    assert isinstance(caught.value, ValueError)
    assert caught.value.at is not None
    assert "test_weights" in caught.value.at.file


def test_no_registry_at_all() -> None:
    with pytest.raises(WeightError, match="not in the weights registry"):
        InferenceSession().load(linear())


@pytest.mark.parametrize(
    ("bad", "code", "words"),
    [
        (np.zeros((4, 3), np.float32), "ML615", r"\[4, 3\]"),
        (np.zeros((3, 4, 1), np.float32), "ML615", r"\[3, 4, 1\]"),
        (np.zeros(12, np.float32), "ML615", r"\[12\]"),
        (np.zeros((3, 4), np.float64), "ML614", "float64"),
        (np.zeros((3, 4), np.int32), "ML614", "int32"),
        (np.zeros((4, 3), np.float32).T, "ML611", "not contiguous"),
        (np.zeros((3, 8), np.float32)[:, ::2], "ML611", "not contiguous"),
        ("text", "ML612", "expected an array"),
        (3.5, "ML612", "expected an array"),
        (None, "ML612", "expected an array"),
    ],
)
def test_wrong_weights(bad: Any, code: str, words: str) -> None:
    with pytest.raises(WeightError, match=words) as caught:
        InferenceSession().load(linear(), weights_registry={**data(), "layer.weight": bad})
    assert caught.value.code == code
    assert caught.value.at is not None
    assert "Weight(" in caught.value.at.text or "@ w" in caught.value.at.text


def test_extra_names_are_ignored() -> None:
    weights = data()
    model = InferenceSession().load(linear(), weights_registry={**weights, "other": np.zeros(3)})
    np.testing.assert_allclose(model(X)[0].to_numpy(), expected(weights), rtol=1e-6)


def test_one_name_for_two_weights() -> None:
    with Graph("g", input_types=[TensorType(F32, [3])]) as graph:
        x = graph.inputs[0].tensor
        graph.output(x + Weight("w", F32, [3]))
        with pytest.raises(ValueError, match="w"):
            x + Weight("w", F32, [3])


# ---------------------------------------------------------------- sharing
@pytest.mark.parametrize("wrap", [lambda a: a, Tensor.from_numpy], ids=["numpy", "driver"])
def test_kinds_of_arrays(wrap: Any) -> None:
    weights = data()
    model = InferenceSession().load(
        linear(), weights_registry={k: wrap(v) for k, v in weights.items()}
    )
    np.testing.assert_allclose(model(X)[0].to_numpy(), expected(weights), rtol=1e-6)


def test_read_only_weights() -> None:
    weights = data()
    for array in weights.values():
        array.flags.writeable = False
    model = InferenceSession().load(linear(), weights_registry=weights)
    np.testing.assert_allclose(model(X)[0].to_numpy(), expected(weights), rtol=1e-6)


def test_weights_outlive_their_registry() -> None:
    weights = data()
    want = expected(weights)
    model = InferenceSession().load(linear(), weights_registry=dict(weights))
    del weights
    gc.collect()
    _ = [np.full(100, 9.0, np.float32) for _ in range(100)]
    np.testing.assert_allclose(model(X)[0].to_numpy(), want, rtol=1e-6)


def test_weights_are_read_in_place() -> None:
    """Whatever is not packed is the caller's own memory: a change is seen by the next call."""
    weights = data()
    model = InferenceSession().load(linear(), weights_registry=weights)
    weights["layer.bias"][:] = 100
    np.testing.assert_allclose(model(X)[0].to_numpy(), expected(weights), rtol=1e-6)


def test_a_changed_weight_is_packed_anew_by_the_next_load() -> None:
    """Although the first model, and its packed copy of the same memory, still live."""
    weights, graph, session = data(), linear(), InferenceSession()
    first = session.load(graph, weights_registry=weights)
    old = expected(weights)
    weights["layer.weight"][:] += 1
    second = session.load(graph, weights_registry=weights)
    np.testing.assert_allclose(second(X)[0].to_numpy(), expected(weights), rtol=1e-6)
    np.testing.assert_allclose(first(X)[0].to_numpy(), old, rtol=1e-6)


def test_weights_that_cannot_change_are_packed_once(tmp_path: Path) -> None:
    weights, graph, session = data(), linear(), InferenceSession()
    np.save(tmp_path / "weight.npy", weights["layer.weight"])
    mapped = np.load(tmp_path / "weight.npy", mmap_mode="r")
    frozen = weights["layer.weight"].copy()
    frozen.flags.writeable = False
    for weight in (mapped, frozen):
        kept = [session.load(graph, weights_registry=weights | {"layer.weight": weight})]
        before = len(trace.recorder().events("pack"))
        kept.append(session.load(graph, weights_registry=weights | {"layer.weight": weight}))
        assert len(trace.recorder().events("pack")) == before
        for model in kept:
            np.testing.assert_allclose(model(X)[0].to_numpy(), expected(weights), rtol=1e-6)


@pytest.mark.parametrize("lend", [np.ndarray.view, lambda a: np.frombuffer(a.data, a.dtype)])
def test_a_read_only_view_may_change(lend: Any) -> None:
    weights, graph, session = data(), linear(), InferenceSession()
    owner = weights["layer.weight"]
    view = lend(owner).reshape(owner.shape)
    view.flags.writeable = False
    given = weights | {"layer.weight": view}
    first = session.load(graph, weights_registry=given)
    owner += 1
    second = session.load(graph, weights_registry=given)
    np.testing.assert_allclose(second(X)[0].to_numpy(), expected(weights), rtol=1e-6)
    assert first is not second


def test_models_share_packed_weights() -> None:
    weights, session = data(), InferenceSession()
    first = session.load(linear(), weights_registry=weights)
    second = session.load(linear(), weights_registry=weights)

    def packed(model: Any) -> list[Any]:
        return [k for k in model.prepared.keep if isinstance(k, engine_weights.PackedWeight)]

    assert len(packed(first)) == 1
    assert packed(first)[0] is packed(second)[0]
    shared = weakref.ref(packed(first)[0])
    del first, second
    gc.collect()
    assert shared() is None


def test_another_registry_compiles_nothing() -> None:
    graph, session = linear(), InferenceSession()
    session.load(graph, weights_registry=data())
    for seed in (1, 2):
        events: list[trace.Event] = []
        trace.recorder().listen(events.append)
        weights = data(seed)
        model = session.load(graph, weights_registry=weights)
        np.testing.assert_allclose(model(X)[0].to_numpy(), expected(weights), rtol=1e-6)
        trace.recorder().unlisten(events.append)
        assert not [e for e in events if e.kind == "cache" and not e.data.get("hit")]


@pytest.mark.parametrize("dtype", [DType.float64, DType.float16, DType.bfloat16, DType.int32])
def test_weights_of_other_dtypes(dtype: DType) -> None:
    weights = {k: np.round(v * 4).astype(dtype.ml_numpy) for k, v in data().items()}
    given = {k: Tensor.from_numpy(v) for k, v in weights.items()}
    model = InferenceSession().load(linear(dtype), weights_registry=given)
    made = model(Tensor.from_numpy(X.astype(dtype.ml_numpy)))[0]
    want = (X @ weights["layer.weight"].astype(np.float64)) + weights["layer.bias"].astype(
        np.float64
    )
    raw = (
        made.view(DType.uint16).to_numpy().view(dtype.ml_numpy)
        if dtype is DType.bfloat16
        else made.to_numpy()
    )
    np.testing.assert_allclose(raw.astype(np.float64), want, rtol=1e-2)


def test_one_weight_read_and_multiplied() -> None:
    w = np.arange(9, dtype=np.float32).reshape(3, 3)
    with Graph("g", input_types=[TensorType(F32, ["n", 3])]) as graph:
        v = Weight("w", F32, [3, 3])
        graph.output(graph.inputs[0].tensor @ v, ops.sum(v, 0), graph.inputs[0].tensor @ v.T)
    made = InferenceSession().load(graph, weights_registry={"w": w})(X)
    np.testing.assert_allclose(made[0].to_numpy(), X @ w)
    np.testing.assert_allclose(made[1].to_numpy(), w.sum(0, keepdims=True))
    np.testing.assert_allclose(made[2].to_numpy(), X @ w.T)
