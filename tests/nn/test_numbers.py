"""What layers compute, run by the engine and compared with formulas in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from maxlab import nn
from maxlab.dtype import DType
from maxlab.engine import InferenceSession
from maxlab.errors import ArgumentError, DTypeError, ModuleError, ShapeError
from maxlab.graph import DeviceRef, Graph, TensorType
from tests.ids import stable

F32, BF16 = DType.float32, DType.bfloat16
CPU = DeviceRef.CPU()
Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(7)


def random(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def filled(module: nn.Module) -> nn.Module:
    """``module`` with random weights."""
    state = {k: random(*v.shape).astype(v.dtype) for k, v in module.state_dict().items()}
    module.load_state_dict(state)
    return module


def run(module: nn.Module, type: TensorType, x: Array) -> Array:
    """What ``module`` computes for ``x``; the registry is its state dict."""
    graph = Graph("g", module, [type])
    model = InferenceSession().load(graph, weights_registry=module.state_dict())
    (out,) = model.execute(bits(x))
    made: Array = out.to_numpy() if type.dtype is not BF16 else out.view(DType.uint16).to_numpy()
    return made.view(ml_dtypes.bfloat16) if type.dtype is BF16 else made


def bits(x: Array) -> Any:
    """``x`` as an input: bfloat16 arrays have no DLPack, their bits have."""
    if x.dtype != ml_dtypes.bfloat16:
        return x
    from maxlab.driver import Tensor

    return Tensor.from_numpy(x.view(np.uint16)).view(BF16)


@pytest.mark.parametrize("shape", [(5, 6), (2, 3, 6), (1, 6)])
@pytest.mark.parametrize("bias", [False, True])
def test_linear(shape: tuple[int, ...], bias: bool) -> None:
    layer = filled(nn.Linear(6, 4, F32, CPU, has_bias=bias))
    state = layer.state_dict()
    x = random(*shape)
    want = x @ state["weight"].T + (state["bias"] if bias else 0)
    names = ["b", "s"][: len(shape) - 1]
    assert np.allclose(run(layer, TensorType(F32, [*names, 6]), x), want, atol=1e-5)


def test_linear_cuts_its_weights() -> None:
    layer = filled(nn.Linear(6, 4, F32, CPU, clip_weight=0.25))
    x = random(3, 6)
    want = x @ np.clip(layer.state_dict()["weight"], -0.25, 0.25).T
    assert np.allclose(run(layer, TensorType(F32, ["n", 6]), x), want, atol=1e-5)


def test_names_of_linear_and_embedding() -> None:
    assert list(nn.Linear(2, 2, F32, CPU, has_bias=True, name="q").state_dict()) == [
        "q.weight",
        "q.bias",
    ]
    assert list(nn.Embedding(2, 2, F32, CPU, name="table").state_dict()) == ["table"]


ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_mlp(name: str) -> None:
    mlp = filled(nn.MLP(F32, None, 4, 8, [CPU], has_bias=True, activation_function=name))
    s = {k: v.astype(np.float64) for k, v in mlp.state_dict().items()}
    x = random(3, 4)
    gate = x @ s["gate_proj.weight"].T + s["gate_proj.bias"]
    up = x @ s["up_proj.weight"].T + s["up_proj.bias"]
    want = (ACTIVATIONS[name](gate) * up) @ s["down_proj.weight"].T + s["down_proj.bias"]
    assert np.allclose(run(mlp, TensorType(F32, ["n", 4]), x), want, atol=1e-4)


def test_mlp_makes_its_layers_with_linear_cls() -> None:
    class Own(nn.Linear):
        pass

    mlp = nn.MLP(F32, None, 4, 8, [CPU], linear_cls=Own)
    assert type(mlp.up_proj) is Own


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_embedding(dtype: Any) -> None:
    layer = filled(nn.Embedding(9, 4, F32, CPU))
    ids = np.array([[0, 8, 3], [3, 3, 1]], dtype)
    made = run(layer, TensorType(DType.from_numpy(ids.dtype), ["b", "s"]), ids)
    assert np.array_equal(made, layer.state_dict()["weight"][ids])


@pytest.mark.parametrize("eps", [1e-5, 0.5])
@pytest.mark.parametrize("bias", [False, True])
def test_layer_norm(eps: float, bias: bool) -> None:
    layer = filled(nn.LayerNorm(8, [CPU], F32, eps=eps, use_bias=bias))
    s = layer.state_dict()
    x = random(5, 8) * 3 + 1
    centred = x - x.mean(-1, keepdims=True)
    normal = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps)
    want = normal * s["weight"] + (s["bias"] if bias else 0)
    assert np.allclose(run(layer, TensorType(F32, ["n", 8]), x), want, atol=1e-5)


@pytest.mark.parametrize(("dims", "shape"), [(8, (3, 8)), ((8,), (3, 8)), ((4, 2), (3, 4, 2))])
def test_constant_layer_norm(dims: Any, shape: tuple[int, ...]) -> None:
    layer = nn.ConstantLayerNorm(dims, CPU, F32, eps=0.1)
    x = random(*shape)
    axes = (-1,) if len(shape) == 2 else (-2, -1)
    centred = x - x.mean(axes, keepdims=True)
    want = centred / np.sqrt((centred**2).mean(axes, keepdims=True) + 0.1)
    made = run(layer, TensorType(F32, ["n", *shape[1:]]), x)
    assert np.allclose(made, want, atol=1e-5)
    assert not layer.state_dict()


@pytest.mark.parametrize("offset", [0.0, 1.0, 0.5])
@pytest.mark.parametrize("eps", [1e-6, 0.5])
def test_rms_norm(offset: float, eps: float) -> None:
    layer = filled(nn.RMSNorm(8, F32, eps, offset))
    x = random(5, 8) * 3
    want = x / np.sqrt((x**2).mean(-1, keepdims=True) + eps)
    want = want * (layer.state_dict()["weight"] + offset)
    assert np.allclose(run(layer, TensorType(F32, ["n", 8]), x), want, atol=1e-5)


@pytest.mark.parametrize("before", [True, False])
def test_rms_norm_rounds_where_it_is_told(before: bool) -> None:
    layer = filled(nn.RMSNorm(64, BF16, 1e-6, 1.0, multiply_before_cast=before))
    half = ml_dtypes.bfloat16
    x = random(40, 64).astype(half)
    w = layer.state_dict()["weight"]
    wide = x.astype(np.float32)
    normal = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-6)
    if before:
        want = (normal * (w.astype(np.float32) + np.float32(1))).astype(half)
    else:
        want = normal.astype(half) * (w + half(1))
    other = (
        normal.astype(half) * (w + half(1))
        if before
        else (normal * (w.astype(np.float32) + 1)).astype(half)
    )
    made = run(layer, TensorType(BF16, ["n", 64]), x)
    agree = np.mean(made.view(np.uint16) == want.view(np.uint16))
    wrong = np.mean(made.view(np.uint16) == other.view(np.uint16))
    assert agree > 0.99
    assert agree > wrong + 0.1


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("shape", [(2, 6), (2, 6, 5), (2, 6, 3, 4)])
def test_group_norm(affine: bool, shape: tuple[int, ...]) -> None:
    layer = filled(nn.GroupNorm(3, 6, 0.01, affine, CPU))
    x = random(*shape)
    groups = x.reshape(2, 3, -1).astype(np.float64)
    centred = groups - groups.mean(-1, keepdims=True)
    want = (centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 0.01)).reshape(shape)
    if affine:
        channel = (6, *[1] * (len(shape) - 2))
        s = layer.state_dict()
        want = want * s["weight"].reshape(channel) + s["bias"].reshape(channel)
    names: list[int | str] = ["n", 6, "h", "w"]
    assert np.allclose(run(layer, TensorType(F32, names[: len(shape)]), x), want, atol=1e-4)


def test_v1_layers_use_what_they_are_given() -> None:
    x, w, b, table = random(3, 4), random(4, 4), random(4), random(7, 4)

    class Old(nn.Module):
        def __init__(self) -> None:
            linear = nn.LinearV1(w, b)
            self.mlp = nn.MLPV1(linear, nn.LinearV1(w), linear)

        def __call__(self, x: Any) -> Any:
            from maxlab.graph import ops

            gamma = ops.constant(b, F32, CPU)
            ids = ops.constant(np.array([1, 0, 6]), DType.int64, CPU)
            y = self.mlp(x) + nn.EmbeddingV1(table, CPU)(ids)
            return nn.LayerNormV1(gamma)(y) + nn.RMSNormV1(b, weight_offset=1.0)(y)

    gate = x @ w.T + b
    y = (gate / (1 + np.exp(-gate)) * gate) @ w.T + table[[1, 0, 6]]
    centred = y - y.mean(-1, keepdims=True)
    want = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-6) * b
    want = want + y / np.sqrt((y**2).mean(-1, keepdims=True) + 1e-6) * (b + 1)
    assert np.allclose(run(Old(), TensorType(F32, [3, 4]), x), want, atol=2e-3)


def test_a_new_registry_needs_no_new_graph() -> None:
    layer = nn.Linear(2, 2, F32, CPU)
    state = layer.state_dict()
    graph = Graph("g", layer, [TensorType(F32, ["n", 2])])
    x = np.eye(2, dtype=np.float32)
    for scale in (1.0, 3.0):
        state["weight"] = np.full((2, 2), scale, np.float32)
        model = InferenceSession().load(graph, weights_registry=state)
        assert np.allclose(model.execute(x)[0].to_numpy(), scale)


def test_a_saved_model_computes_the_same(tmp_path: Any) -> None:
    layer = filled(nn.MLP(F32, None, 4, 8, [CPU]))
    graph = Graph("mlp", layer, [TensorType(F32, ["n", 4])])
    graph.save(tmp_path / "mlp.mlir")
    again = Graph(path=tmp_path / "mlp.mlir")
    assert str(again) == str(graph)
    x = random(3, 4)
    session = InferenceSession()
    first, second = (
        session.load(g, weights_registry=layer.state_dict()).execute(x)[0].to_numpy()
        for g in (graph, again)
    )
    assert np.array_equal(first, second)


def on(layer: nn.Module, *dims: int | str) -> Graph:
    return Graph("g", layer, [TensorType(F32, dims)])


@pytest.mark.parametrize(
    ("layer", "dims"),
    [
        (nn.Linear(4, 2, F32, CPU), ("n", 3)),
        (nn.LayerNorm(4, [CPU], F32), ("n", 3)),
        (nn.LayerNorm(4, [CPU], F32), ("n", 1)),
        (nn.RMSNorm(4, F32), ("n", 1)),
        (nn.RMSNorm(4, F32), ("n", "m")),
        (nn.ConstantLayerNorm((2, 4), CPU, F32), ("n", 4)),
        (nn.GroupNorm(2, 4, device=CPU), ("n", 6)),
        (nn.GroupNorm(2, 4, device=CPU), (4,)),
    ],
    ids=stable,
)
def test_shapes_that_do_not_fit_are_refused(layer: nn.Module, dims: tuple[int | str, ...]) -> None:
    with pytest.raises(ShapeError):
        on(layer, *dims)


def test_arguments_that_do_not_fit_are_refused() -> None:
    for size in (0, -1, 2.5, True, "4"):
        with pytest.raises(ArgumentError, match="ML716"):
            nn.Linear(size, 2, F32, CPU)  # type: ignore[arg-type]
    loose: Any = nn
    with pytest.raises(ModuleError, match="quantization_encoding"):
        loose.Linear(2, 2, F32, CPU, quantization_encoding="q4_0")
    with pytest.raises(ModuleError, match="float8_config"):
        loose.Linear(2, 2, F32, CPU, float8_config=object())
    with pytest.raises(ModuleError, match="ML717"):
        loose.Embedding(2, 2, F32, CPU, "q4_0")
    with pytest.raises(ModuleError, match="dist_gemm_config"):
        loose.MLP(F32, None, 2, 2, [CPU], dist_gemm_config=object())
    with pytest.raises(ArgumentError, match="ML718"):
        nn.Linear(2, 2, F32, CPU, clip_weight=-1)
    with pytest.raises(ArgumentError, match="silu, gelu"):
        nn.MLP(F32, None, 2, 2, [CPU], activation_function="swish")
    with pytest.raises(ArgumentError, match="ML721"):
        nn.LayerNorm(2, [], F32)
    with pytest.raises(ArgumentError, match="ML722"):
        nn.RMSNorm(2, F32, eps=0)
    with pytest.raises(ArgumentError, match="ML724"):
        nn.GroupNorm(3, 4, device=CPU)
    with pytest.raises(DTypeError):
        on(nn.Embedding(2, 2, F32, CPU), "n")
