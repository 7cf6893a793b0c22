"""``maxlab.quantize``: products of bytes beside the same arithmetic in NumPy and in torch, and the
report of what they cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import maxlab
import maxlab.torch
from maxlab.analysis.quantizing import Quantized
from maxlab.analysis.quantizing.rounding import range_of, rounded_rows
from maxlab.errors import (
    ArgumentError,
    ArgumentTypeError,
    GraphError,
    InputError,
)

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(5)
F32 = maxlab.float32


class Encoder(torch.nn.Module):  # type: ignore[misc]
    """A small encoder of tokens: an embedding, two layers of attention, a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(50, 32)
        self.query = torch.nn.Linear(32, 32)
        self.key = torch.nn.Linear(32, 32)
        self.value = torch.nn.Linear(32, 32, bias=False)
        self.up = torch.nn.Linear(32, 96)
        self.down = torch.nn.Linear(96, 32)
        self.norm = torch.nn.LayerNorm(32)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        scores = self.query(x) @ self.key(x).transpose(-1, -2) / 32**0.5
        x = self.norm(x + scores.softmax(-1) @ self.value(x))
        x = self.norm(x + self.down(torch.nn.functional.gelu(self.up(x))))
        return torch.nn.functional.normalize(x.mean(1), dim=-1)


def bytes_of(x: Array, given: tuple[float, int] | None) -> tuple[Array, Array, Array]:
    """The bytes of rows ``x``, their scales and zeros, in float32 as the formula says."""
    f = np.float32
    if given is None:
        low, high = np.minimum(x.min(-1), f(0)), np.maximum(x.max(-1), f(0))
        scale = np.maximum(high / f(255) - low / f(255), f(2.0**-126))
        zero = np.rint(-low / scale)
    else:
        scale, zero = np.full(x.shape[:-1], given[0], f), np.full(x.shape[:-1], given[1], f)
    q = np.clip(np.rint(x * (f(1) / scale)[..., None]) + zero[..., None], 0, 255)
    return q.astype(np.int64), scale.astype(f), zero.astype(np.int64)


def product_of(x: Array, w: Array, b: Array, given: tuple[float, int] | None = None) -> Array:
    """``x w^T + b`` with both sides in bytes and sums of integers."""
    q, scale, zero = bytes_of(x, given)
    rows, scales = rounded_rows(w)
    sums = (q - zero[..., None]) @ rows.astype(np.int64).T
    return np.asarray(sums * (scale[..., None].astype(np.float64) * scales) + b)


@pytest.fixture(scope="module")
def linear() -> tuple[Any, Array, torch.nn.Linear]:
    torch.manual_seed(1)
    layer = torch.nn.Linear(40, 24).eval()
    x = torch.randn(7, 40) * 3 + 1
    return maxlab.torch.load(layer, x), x.numpy(), layer


@pytest.fixture(scope="module")
def encoder() -> tuple[Any, list[torch.Tensor]]:
    torch.manual_seed(2)
    data = [torch.randint(0, 50, (2, 9)) for _ in range(3)]
    return maxlab.torch.load(Encoder().eval(), data[0]), data


@pytest.fixture(scope="module")
def quantised(encoder: tuple[Any, list[torch.Tensor]]) -> Quantized:
    model, data = encoder
    made: Quantized = maxlab.quantize(model, data, runs=1)
    return made


# ---------------------------------------------------------------- the arithmetic
def test_dynamic_products_are_those_of_the_formula(
    linear: tuple[Any, Array, torch.nn.Linear],
) -> None:
    model, x, layer = linear
    w, b = (t.detach().numpy() for t in (layer.weight, layer.bias))
    got = maxlab.quantize(model)(x)[0].to_numpy()
    want = product_of(x, w, b)
    np.testing.assert_allclose(got, want, rtol=2e-6, atol=2e-6)
    assert np.abs(got - (x @ w.T + b)).max() > 1e-4  # it is not the product of floats


def test_calibrated_products_have_the_range_of_the_data(
    linear: tuple[Any, Array, torch.nn.Linear],
) -> None:
    model, x, layer = linear
    w, b = (t.detach().numpy() for t in (layer.weight, layer.bias))
    made = maxlab.quantize(model, [x], activations="calibrated")
    given = range_of(float(x.min()), float(x.max()))
    far = np.where(RNG.random(x.shape) < 0.5, x, 2 * x).astype(np.float32)  # beyond the range
    np.testing.assert_allclose(
        made(far)[0].to_numpy(), product_of(far, w, b, given), rtol=2e-6, atol=2e-6
    )


@pytest.mark.filterwarnings("ignore:.*deprecated")
def test_weights_are_rounded_as_torch_rounds_each_channel(
    linear: tuple[Any, Array, torch.nn.Linear],
) -> None:
    weight = linear[2].weight.detach()
    rows, scales = rounded_rows(weight.numpy())
    zeros = torch.zeros(24, dtype=torch.int64)
    wanted = torch.quantize_per_channel(weight, torch.from_numpy(scales), zeros, 0, torch.qint8)
    assert np.array_equal(rows, wanted.int_repr().numpy())
    assert (np.abs(rows).max(axis=1) == 127).all()


@pytest.mark.filterwarnings("ignore:.*deprecated")
def test_a_layer_is_as_near_as_that_of_torch(linear: tuple[Any, Array, torch.nn.Linear]) -> None:
    model, x, layer = linear
    theirs = torch.ao.quantization.quantize_dynamic(torch.nn.Sequential(layer), {torch.nn.Linear})
    exact = layer(torch.from_numpy(x)).detach().numpy()
    own = np.linalg.norm(maxlab.quantize(model)(x)[0].to_numpy() - exact)
    other = np.linalg.norm(theirs(torch.from_numpy(x)).detach().numpy() - exact)
    assert own <= other  # which has one scale for all rows, and seven bits


@pytest.mark.parametrize("low", [-1.0, 0.0, 2.0])
def test_ranges_contain_zero_exactly(low: float) -> None:
    scale, zero = range_of(low, 3.0)
    assert 0 <= zero <= 255
    assert (0 - zero) * scale <= min(low, 0) + scale / 2
    assert (255 - zero) * scale >= 3.0 - scale / 2
    assert range_of(0.0, 0.0).scale > 0


def test_rows_of_zeros_stay_zeros() -> None:
    rows, scales = rounded_rows(np.zeros((2, 3), np.float32))
    assert not rows.any()
    assert (scales == 1).all()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_graphs_of_other_floats_and_layouts(dtype: str) -> None:
    typed = maxlab.DType[dtype]
    w = RNG.standard_normal((12, 20)).astype(np.float32)

    def forward(x: Any) -> Any:
        return maxlab.ops.relu(x @ maxlab.ops.constant(w, typed, maxlab.DeviceRef.CPU()).T)

    graph = maxlab.Graph("g", forward, [maxlab.TensorType(typed, ["b", 3, 20])])
    made = maxlab.quantize(graph)
    x = RNG.standard_normal((2, 3, 20)).astype(np.float32).astype(typed.ml_numpy)
    got = made(maxlab.driver.Tensor.from_numpy(x))[0].to_ml_numpy()
    assert got.dtype == typed.ml_numpy
    rows = w.astype(typed.ml_numpy).astype(np.float32)
    want = np.maximum(product_of(x.astype(np.float32), rows, np.zeros(12, np.float32)), 0)
    np.testing.assert_allclose(got.astype(np.float32), want, rtol=1e-2, atol=1e-2)


def test_bias_and_activation_come_with_the_product_unless_others_read_it() -> None:
    w, b = np.eye(8, 4, dtype=np.float32), np.ones(4, np.float32)
    types = [maxlab.TensorType(F32, ["n", 8])]

    def shared(x: Any) -> Any:
        y = x @ w + b
        return maxlab.ops.gelu(y), y

    alone = maxlab.quantize(maxlab.Graph("a", lambda x: maxlab.ops.gelu(x @ w + b), types))
    assert [op.name for op in alone.graph.function.ops if "gelu" in op.name] == []
    both = maxlab.quantize(maxlab.Graph("b", shared, types))
    x = np.linspace(-3, 3, 16, dtype=np.float32).reshape(2, 8)
    y = both(x)
    # behind bytes gelu is off by 4e-7 of its input, as `ops.matmul_int8` says
    near = 4.2e-7 * float(np.abs(y[1].to_numpy()).max())
    np.testing.assert_allclose(alone(x)[0].to_numpy(), y[0].to_numpy(), rtol=1e-6, atol=near)
    np.testing.assert_allclose(y[1].to_numpy(), x[:, :4] + 1, atol=0.02)


def test_weights_that_have_the_name_of_bytes_stay_what_they_are() -> None:
    cpu = maxlab.DeviceRef.CPU()
    weight = maxlab.Weight("w", F32, [8, 4], cpu)
    other = maxlab.Weight("w.scales", F32, [4], cpu)
    types = [maxlab.TensorType(F32, ["n", 8])]
    graph = maxlab.Graph("g", lambda x: x @ weight + other, types)
    data = {"w": np.eye(8, 4, dtype=np.float32), "w.scales": np.full(4, 5, np.float32)}
    x = np.linspace(-1, 1, 16, dtype=np.float32).reshape(2, 8)
    made = maxlab.quantize(graph, weights_registry=data)
    np.testing.assert_allclose(made(x)[0].to_numpy(), x[:, :4] + 5, atol=0.01)


# ---------------------------------------------------------------- smoothing
def smoothed_net() -> tuple[maxlab.Graph, Array, Array]:
    """Two products of one activation, which has large numbers at one place of each row."""
    w, v = (RNG.standard_normal((48, n)).astype(np.float32) for n in (16, 8))
    x = RNG.standard_normal((20, 48)).astype(np.float32)
    x[:, 5] *= 60

    def forward(x: Any) -> Any:
        return x @ w, x @ v

    return maxlab.Graph("g", forward, [maxlab.TensorType(F32, ["n", 48])]), x, w


@pytest.mark.parametrize("activations", ["dynamic", "calibrated"])
def test_smoothing_helps_where_a_place_of_rows_is_large(activations: Any) -> None:
    graph, x, w = smoothed_net()
    plain = maxlab.quantize(graph, [x], activations=activations, smoothing=False, runs=0)
    made = maxlab.quantize(graph, [x], activations=activations, runs=0)
    for one, other in zip(made.layers, plain.layers, strict=True):
        assert one.error is not None
        assert other.error is not None
        assert one.error < 0.5 * other.error
    names = [name for name in made.model.weights if name.endswith("smoothing")]
    assert len(names) == 1  # both products share what is smoothed
    assert not [name for name in plain.model.weights if name.endswith("smoothing")]
    inverse = made.model.weights[names[0]].to_numpy()
    given = None
    smooth = x * inverse
    if activations == "calibrated":
        given = range_of(float(smooth.min()), float(smooth.max()))
    rows, scales = (
        made.model.weights[f"{made.layers[0].name}.{part}"].to_numpy()
        for part in ("int8", "scales")
    )
    assert (np.abs(rows * scales[:, None] - w.T / inverse) <= 0.51 * scales[:, None]).all()
    got = made(x)[0].to_numpy()
    q, scale, zero = bytes_of(smooth, given)
    want = ((q - zero[:, None]) @ rows.astype(np.int64).T) * (scale[:, None] * scales)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    exact = x.astype(np.float64) @ w
    apart = np.linalg.norm(got - exact) / np.linalg.norm(exact)
    assert made.layers[0].error == pytest.approx(apart, rel=1e-2)
    kept = made.keeping(made.layers[0].name)
    assert np.array_equal(kept(x)[1].to_numpy(), made(x)[1].to_numpy())


def test_smoothing_that_gains_nothing_is_left_out(
    linear: tuple[Any, Array, torch.nn.Linear],
) -> None:
    model, x, _ = linear
    made = maxlab.quantize(model, [x], runs=0)
    assert not [name for name in made.model.weights if name.endswith("smoothing")]


# ---------------------------------------------------------------- models and their reports
def test_an_encoder_points_where_it_did(
    encoder: tuple[Any, list[torch.Tensor]], quantised: Quantized
) -> None:
    model, data = encoder
    assert [layer.name for layer in quantised.layers] == ["query", "key", "value", "up", "down"]
    for ids in data:
        exact, got = model(ids).numpy(), quantised(ids)[0].to_numpy()
        assert ((exact * got).sum(-1) >= 0.999).all()
    assert quantised.outputs is not None
    exact = np.concatenate([model(ids).numpy() for ids in data])
    got = np.concatenate([quantised(ids)[0].to_numpy() for ids in data])
    apart = np.linalg.norm((exact - got).astype(np.float64)) / np.linalg.norm(exact)
    assert quantised.outputs.relative == pytest.approx(apart, rel=1e-5)
    assert 0 < apart < 0.05
    assert "embed.weight" in quantised.model.weights  # embeddings stay in floats


def test_errors_are_those_of_each_layer_alone(
    encoder: tuple[Any, list[torch.Tensor]], quantised: Quantized
) -> None:
    model, data = encoder
    module = model.module
    x = np.concatenate([module.embed(ids).detach().numpy() for ids in data])
    w, b = (t.detach().numpy() for t in (module.query.weight, module.query.bias))
    exact, got = x.astype(np.float64) @ w.T, product_of(x, w, np.zeros_like(b))
    wanted = np.linalg.norm(exact - got) / np.linalg.norm(exact)
    cosine = (exact * got).sum() / np.linalg.norm(exact) / np.linalg.norm(got)
    layer = quantised.layers[0]
    assert layer.error == pytest.approx(wanted, rel=1e-3)
    assert layer.cosine == pytest.approx(cosine, abs=1e-6)
    assert layer.snr_db == pytest.approx(-20 * np.log10(wanted), abs=0.01)
    assert (layer.before_bytes, layer.after_bytes) == (32 * 32 * 4, 32 * 32 + 32 * 4)
    assert all(x.before_ns and x.after_ns for x in quantised.layers)


def test_layers_are_kept_by_name_op_and_scope(quantised: Quantized) -> None:
    names = [layer.name for layer in quantised.layers]
    down = quantised.layers[4]
    made = quantised.keeping("query", down.node)
    assert made.kept == ["query", "down"]
    assert made.layers[0].after_bytes == made.layers[0].before_bytes
    assert made.layers[0].error == quantised.layers[0].error
    assert "query.weight" in made.model.weights
    assert "query.weight" not in quantised.model.weights
    assert made.toggling("query").kept == ["down"]
    assert quantised.keeping(*names).outputs.relative == 0  # type: ignore[union-attr]
    assert quantised.kept == []
    with pytest.raises(ArgumentError, match="ML242"):
        quantised.keeping("head")


def test_quantising_is_deterministic_and_leaves_the_model_alone(
    encoder: tuple[Any, list[torch.Tensor]], quantised: Quantized
) -> None:
    model, data = encoder
    before = str(model.graph)
    again = maxlab.quantize(model, data, runs=0)
    assert str(model.graph) == before
    assert np.array_equal(again(data[0])[0].to_numpy(), quantised(data[0])[0].to_numpy())
    assert [x.error for x in again.layers] == [x.error for x in quantised.layers]
    assert all(x.before_ns is None for x in again.layers)


def test_a_quantised_model_is_saved_and_loaded(quantised: Quantized, tmp_path: Path) -> None:
    ids = np.arange(18, dtype=np.int64).reshape(2, 9)
    quantised.save(tmp_path / "q.mlmodel")
    again = maxlab.load(tmp_path / "q.mlmodel")
    assert np.array_equal(again(ids)[0].to_numpy(), quantised(ids)[0].to_numpy())


def test_the_report_is_a_table_in_every_form(quantised: Quantized) -> None:
    assert len(quantised.to_csv().splitlines()) == 6
    text = str(quantised)
    assert text == quantised.table()
    assert "5 of 5 products" in text
    assert "query" in text
    page = quantised.to_html()
    assert page.count("<tr>") == 6
    assert "SNR" in page
    bundle = quantised._repr_mimebundle_()
    plain = "Quantized('Encoder', 5 of 5 in int8, activations dynamic)"
    assert bundle == {"text/plain": plain, "text/html": page}


def test_views_of_the_graph_are_coloured_by_error_and_times(quantised: Quantized) -> None:
    from maxlab.lab.snapshot import take

    overlays = {x["title"]: x for x in take(quantised.model).document["overlays"]}
    assert set(overlays) == {"int8 error", "time in float", "time in int8"}
    error = quantised.layers[0].error
    assert error is not None
    assert overlays["int8 error"]["values"][quantised.layers[0].node] == pytest.approx(100 * error)


def test_without_data_there_are_neither_errors_nor_times(
    encoder: tuple[Any, list[torch.Tensor]],
) -> None:
    made = maxlab.quantize(encoder[0])
    assert made.outputs is None
    assert all(x.error is None and x.after_ns is None for x in made.layers)
    assert "down" in made.table()


# ---------------------------------------------------------------- what is refused
def project(x: Any) -> Any:
    return x @ np.eye(8, 4, dtype=np.float32)


def test_what_cannot_be_quantised_is_refused() -> None:
    types = [maxlab.TensorType(F32, ["n", 8])]
    graph = maxlab.Graph("project", project, types)
    good = np.ones((3, 8), np.float32)
    with pytest.raises(GraphError, match="ML239"):
        maxlab.quantize(maxlab.Graph("double", lambda x: x * 2, types))
    refused: list[Any] = [
        [],
        good,
        "text",
        [good.astype(np.float64)],
        [(good, good)],
        [{"y": good}],
        3,
    ]
    for data in refused:
        with pytest.raises(InputError, match="ML240"):
            maxlab.quantize(graph, data)
    for value in (np.nan, np.inf):
        with pytest.raises(InputError, match="ML241"):
            maxlab.quantize(graph, [good, np.full((3, 8), value, np.float32)])
    for given in ({"activations": "static"}, {"activations": "calibrated"}, {"runs": -1}):
        with pytest.raises(ArgumentError, match="ML243"):
            maxlab.quantize(graph, **given)
    with pytest.raises(ArgumentError, match="ML243"):
        maxlab.quantize(maxlab.load(graph), weights_registry={})
    with pytest.raises(ArgumentTypeError, match="ML674"):
        maxlab.quantize("model.mlmodel")


@pytest.mark.parametrize("activations", ["dynamic", "calibrated"])
def test_activations_that_overflow_are_named(activations: Any) -> None:
    big = np.full((8, 8), 1e30, np.float32)
    types = [maxlab.TensorType(F32, ["n", 8])]
    graph = maxlab.Graph("big", lambda x: (x @ big) @ big, types)
    with pytest.raises(InputError, match=r"the product 'n\d+' has NaN or an infinity") as caught:
        maxlab.quantize(graph, [np.ones((1, 8), np.float32)], activations=activations)
    assert caught.value.code == "ML241"
