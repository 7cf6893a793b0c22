"""Products of bytes beside torch: its integer product, and its functions that quantise rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from maxlab import trace
from maxlab.analysis.memory import memory
from maxlab.dtype import DType
from maxlab.engine import InferenceSession
from maxlab.errors import ArgumentError, ArgumentTypeError, InputError, ShapeError
from maxlab.graph import Graph, TensorType, Weight, ops
from maxlab.opset.int8 import MOST, quantized_rows
from maxlab.toolchain import runtime

Array = np.ndarray[Any, Any]


def run(arrays: list[Array], *, known: bool, **more: Any) -> Array:
    """The product of the left operand and the rest, which the model has when it is loaded, or is
    given when it runs."""
    left, rest = arrays[0], arrays[1:]
    given = arrays[:1] if known else arrays
    types = [TensorType(DType.from_numpy(a.dtype), a.shape) for a in given]
    with Graph("product", input_types=types) as graph:
        values: list[Any] = [*graph.inputs, *(rest if known else [])]
        graph.output(ops.matmul_int8(*values, **more))
    (made,) = InferenceSession().load(graph).execute(*given)
    assert left.shape[:-1] == tuple(made.shape)[:-1]
    return np.asarray(made.to_numpy())


@pytest.mark.parametrize("known", [True, False])
def test_integers_are_those_of_torch(known: bool) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(-128, 128, (40, 72)).astype(np.int8)
    w = rng.integers(-128, 128, (48, 72)).astype(np.int8)
    one, none = np.ones(48, np.float32), np.zeros(48, np.float32)
    made = run([x, w, one, none, np.array([1, 0], np.float32)], known=known)
    whole = torch._int_mm(torch.from_numpy(x), torch.from_numpy(w).T).numpy()
    assert np.array_equal(made, whole.astype(np.float32))


def test_rows_are_quantised_as_torch_does() -> None:
    rng = np.random.default_rng(1)
    x = (rng.standard_normal((6, 50)) * rng.uniform(0.1, 30, (6, 1))).astype(np.float32)
    q, scale, zero = quantized_rows(x)
    for row in range(len(x)):
        given = torch.from_numpy(x[row]), float(scale[row]), int(zero[row]), 0, 255
        near = torch.fake_quantize_per_tensor_affine(*given).numpy()
        want = (q[row].astype(np.int64) - zero[row]) * scale[row]
        assert np.allclose(near, want, rtol=1e-6, atol=0)
    chosen = torch.ao.quantization.MinMaxObserver(dtype=torch.quint8)
    chosen(torch.from_numpy(x[0]))
    their_scale, their_zero = chosen.calculate_qparams()
    assert np.isclose(scale[0], float(their_scale[0]))
    assert zero[0] == int(their_zero[0])


@pytest.mark.parametrize("activation", ["none", "relu", "gelu", "silu"])
def test_a_layer_is_near_that_of_floats(activation: str) -> None:
    rng = np.random.default_rng(2)
    x = rng.standard_normal((9, 160)).astype(np.float32)
    weight = (rng.standard_normal((70, 160)) / np.sqrt(160)).astype(np.float32)
    bias = rng.standard_normal(70).astype(np.float32)
    scales = (np.abs(weight).max(1) / 127).astype(np.float32)
    w = np.rint(weight / scales[:, None]).astype(np.int8)
    layer = torch.from_numpy(x) @ torch.from_numpy(weight).T + torch.from_numpy(bias)
    of = getattr(torch.nn.functional, activation, lambda v: v)
    for given in ([], [8 / 255, 128]):
        numbers = [np.array(given, np.float32)] if given else []
        made = run([x, w, scales, bias, *numbers], known=True, activation=activation)
        assert np.abs(made - of(layer).numpy()).max() < 0.08


def test_a_row_is_the_same_in_any_batch() -> None:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((300, 100)).astype(np.float32)
    w = rng.integers(-127, 128, (130, 100)).astype(np.int8)
    scales = np.full(130, 0.01, np.float32)
    made = run([x, w, scales], known=True)
    assert np.array_equal(made[17:18], run([x[17:18].copy(), w, scales], known=True))


def test_weights_are_packed_once_and_counted() -> None:
    f, rng = DType.float32, np.random.default_rng(4)
    w = rng.integers(-127, 128, (70, 100)).astype(np.int8)
    w.flags.writeable = False
    registry = {"w": w, "scales": np.full(70, 0.01, np.float32)}
    with Graph("layer", input_types=[TensorType(f, ["m", 100])]) as graph:
        known = [Weight("w", DType.int8, [70, 100]), Weight("scales", f, [70])]
        graph.output(ops.matmul_int8(graph.inputs[0], *known))
    session = InferenceSession()
    models = [session.load(graph, weights_registry=registry)]
    before = len(trace.recorder().events("pack"))
    models.append(session.load(graph, weights_registry=registry))
    assert len(trace.recorder().events("pack")) == before
    size = runtime().products.mx_int8_pack_size(100, 70)
    for model in models:
        assert [step.name for step in model.plan.steps if "pack" in step.name] == []
        assert memory(model, {"m": 3}).nbytes("packed") == size


def types(**other: TensorType) -> list[TensorType]:
    f = DType.float32
    found = {
        "x": TensorType(f, ["m", 8]),
        "w": TensorType(DType.int8, [3, 8]),
        "scales": TensorType(f, [3]),
        "bias": TensorType(f, [3]),
        "given": TensorType(f, [2]),
    }
    return list({**found, **other}.values())


@pytest.mark.parametrize(
    ("error", "code", "other", "activation"),
    [
        (ArgumentTypeError, "ML738", {"w": TensorType(DType.uint8, [3, 8])}, "none"),
        (ArgumentTypeError, "ML738", {"x": TensorType(DType.int32, ["m", 8])}, "none"),
        (ShapeError, "ML739", {"w": TensorType(DType.int8, [1, 3, 8])}, "none"),
        (ShapeError, "ML741", {"x": TensorType(DType.float32, ["m", 7])}, "none"),
        (ShapeError, "ML741", {"bias": TensorType(DType.float32, [4])}, "none"),
        (ShapeError, "ML231", {"given": TensorType(DType.float32, [3])}, "none"),
        (
            ShapeError,
            "ML231",
            {
                "x": TensorType(DType.int8, ["m", 8]),
                "given": TensorType(DType.float32, [0]),
            },
            "none",
        ),
        (
            ShapeError,
            "ML231",
            {
                "x": TensorType(DType.float32, ["m", MOST + 1]),
                "w": TensorType(DType.int8, [3, MOST + 1]),
            },
            "none",
        ),
        (ArgumentError, "ML230", {}, "softmax"),
    ],
)
def test_what_is_refused(
    error: type[Exception], code: str, other: dict[str, TensorType], activation: Any
) -> None:
    with (
        Graph("refused", input_types=types(**other)) as graph,
        pytest.raises(error, match=code),
    ):
        ops.matmul_int8(*graph.inputs, activation=activation)


def test_sizes_that_are_known_when_it_runs() -> None:
    f = DType.float32
    named = [
        TensorType(f, ["m", "k"]),
        TensorType(DType.int8, ["n", "j"]),
        TensorType(f, ["n"]),
    ]
    with Graph("named", input_types=named) as graph:
        graph.output(ops.matmul_int8(*graph.inputs))
    model = InferenceSession().load(graph)
    one = np.ones(3, np.float32)
    (made,) = model.execute(np.ones((2, 5), np.float32), np.ones((3, 5), np.int8), one)
    assert np.allclose(made.to_numpy(), 5)
    with pytest.raises(InputError, match="inner dims"):
        model.execute(np.ones((2, 5), np.float32), np.ones((3, 6), np.int8), one)
    with pytest.raises(InputError, match="65536 columns"):
        model.execute(np.ones((1, MOST + 1), np.float32), np.ones((3, MOST + 1), np.int8), one)
