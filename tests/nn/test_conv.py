"""Convolutions as layers against PyTorch: layouts, groups, strides, dilation, uneven padding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from maxlab import nn
from maxlab.dtype import DType
from maxlab.errors import ArgumentError, ArgumentTypeError, ShapeError, UnsupportedError
from maxlab.graph import DeviceRef, Graph, TensorType, Weight, ops
from tests.ids import stable
from tests.nn.running import Array, filled, ran, random

torch = pytest.importorskip("torch")
F32 = DType.float32
CPU = DeviceRef.CPU()

# in, out, window, sizes of the image, and the arguments of the layer
CASES: dict[str, tuple[int, int, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "1d": (3, 5, (3,), (9,), {}),
    "1d strided, padded": (4, 6, (3,), (10,), {"stride": 2, "padding": 1}),
    "1d grouped, dilated": (4, 8, (3,), (11,), {"num_groups": 2, "dilation": 2, "padding": 2}),
    "1d uneven": (2, 3, (4,), (7,), {"padding": (3, 1), "stride": 3}),
    "1d depthwise": (6, 6, (5,), (8,), {"num_groups": 6, "padding": 2}),
    "2d": (3, 4, (3, 3), (6, 7), {}),
    "2d pointwise": (5, 7, (1, 1), (4, 3), {}),
    "2d strides differ": (2, 4, (3, 2), (8, 9), {"stride": (2, 3), "padding": (1, 2)}),
    "2d uneven": (3, 4, (2, 3), (5, 6), {"padding": (1, 0, 2, 3), "stride": (2, 1)}),
    "2d grouped": (4, 6, (3, 3), (6, 6), {"num_groups": 2, "padding": 1, "stride": 2}),
    "2d dilations differ": (2, 2, (3, 2), (9, 8), {"dilation": (2, 3), "padding": 2}),
    "3d": (2, 3, (2, 3, 2), (4, 5, 4), {}),
    "3d uneven": (2, 4, (2, 2, 3), (4, 3, 5), {"padding": (1, 0, 0, 2, 1, 1), "stride": (1, 2, 1)}),
    "3d grouped": (4, 4, (2, 2, 2), (4, 4, 5), {"num_groups": 2, "dilation": (1, 2, 1),
                                               "padding": 1}),
}  # fmt: skip


def around(padding: Any, rank: int) -> list[int]:
    """The zeros before and after each axis, as the layers' documentation reads ``padding``."""
    given = (padding,) if isinstance(padding, int) else tuple(padding)
    if len(given) == 2 * rank:
        return list(given)
    each = given * rank if len(given) == 1 else given
    return [size for size in each for _ in range(2)]


def torch_conv(x: Array, w: Array, bias: Array | None, more: dict[str, Any]) -> Array:
    """PyTorch's convolution of the channels-first ``x``, padded by hand."""
    rank = x.ndim - 2
    pads = around(more.get("padding", 0), rank)
    backwards = [pads[2 * axis + side] for axis in reversed(range(rank)) for side in (0, 1)]
    image = torch.nn.functional.pad(torch.from_numpy(x), backwards)
    conv = getattr(torch.nn.functional, f"conv{rank}d")
    made = conv(
        image,
        torch.from_numpy(w),
        None if bias is None else torch.from_numpy(bias),
        more.get("stride", 1),
        0,
        more.get("dilation", 1),
        more.get("num_groups", 1),
    )
    return np.asarray(made.numpy())


def layer_of(
    window: tuple[int, ...], channels: int, filters: int, **more: Any
) -> nn.Conv1D | nn.Conv2d | nn.Conv3D:
    if len(window) == 1:
        return nn.Conv1D(window[0], channels, filters, F32, **more)
    if len(window) == 2:
        return nn.Conv2d((window[0], window[1]), channels, filters, F32, **more)
    depth, height, width = window
    return nn.Conv3D(depth, height, width, channels, filters, F32, **more)


def last(x: Array) -> Array:
    """The channels-first ``x`` with its channels last."""
    return np.ascontiguousarray(np.moveaxis(x, 1, -1))


@pytest.mark.parametrize("permute", [False, True], ids=["channels last", "channels first"])
@pytest.mark.parametrize("name", CASES)
def test_layers_compute_what_torch_does(name: str, permute: bool) -> None:
    channels, filters, window, sizes, more = CASES[name]
    bias = "uneven" in name or "grouped" in name
    layer = layer_of(window, channels, filters, has_bias=bias, permute=permute, **more)
    state = filled(layer)
    w = state["weight"]
    if not permute:
        rank = len(window)
        assert w.shape == (*window, channels // more.get("num_groups", 1), filters)
        w = np.ascontiguousarray(w.transpose(rank + 1, rank, *range(rank)))
    x = random(2, channels, *sizes)
    want = torch_conv(x, w, state.get("bias"), more)
    names: list[int | str] = ["n", channels, "a", "b", "c"]
    dims = [*names[: 2 + len(sizes)]]
    if permute:
        assert np.allclose(ran(layer, CPU, x, dims), want, atol=2e-5)
    else:
        made = ran(layer, CPU, last(x), [dims[0], *dims[2:], dims[1]])
        assert np.allclose(made, last(want), atol=2e-5)


@pytest.mark.parametrize("name", ["1d uneven", "2d grouped", "3d uneven"])
def test_layers_compute_the_same_on_both_places(name: str, place: DeviceRef) -> None:
    channels, filters, window, sizes, more = CASES[name]
    layer = layer_of(window, channels, filters, has_bias=True, permute=True, device=place, **more)
    state = filled(layer)
    x = random(1, channels, *sizes)
    want = torch_conv(x, state["weight"], state["bias"], more)
    assert np.allclose(ran(layer, place, x), want, atol=2e-5)


def test_names_follow_the_name() -> None:
    for made in (
        nn.Conv1D(3, 2, 4, F32, has_bias=True, name="a.b"),
        nn.Conv2d(3, 2, 4, F32, has_bias=True, name="a.b"),
        nn.Conv3D(3, 3, 3, 2, 4, F32, has_bias=True, name="a.b"),
        nn.ConvTranspose1d(3, 2, 4, F32, has_bias=True, name="a.b"),
    ):
        assert list(made.state_dict()) == ["a.b.weight", "a.b.bias"]
    plain = nn.Sequential([nn.Conv2d(3, 2, 4, F32), nn.Conv2d(1, 4, 4, F32, has_bias=True)])
    assert list(plain.state_dict()) == ["0.weight", "1.weight", "1.bias"]


def test_attributes_are_in_full() -> None:
    two = nn.Conv2d(3, 4, 8, F32, 2, 1, 3, 2)
    assert (two.stride, two.padding, two.dilation) == ((2, 2), (1, 1, 1, 1), (3, 3))
    assert (two.num_groups, two.bias, two.permute, two.device) == (2, None, False, CPU)
    assert list(two.filter.shape) == [3, 3, 2, 8]
    assert nn.Conv2d(3, 4, 8, F32, padding=(1, 2)).padding == (1, 1, 2, 2)
    three = nn.Conv3D(1, 2, 3, 4, 8, F32, (1, 2, 3), 2)
    assert (three.stride, three.padding) == ((1, 2, 3), (2,) * 6)
    one = nn.Conv1D(3, 4, 8, F32, 2, 1)
    assert (one.stride, one.padding, one.dilation) == (2, 1, 1)
    assert list(nn.Conv1D(3, 4, 8, F32, permute=True).filter.shape) == [8, 4, 3]


loose: Any = nn
"""The layers, for calls whose types are wrong."""
REFUSED: list[tuple[Any, type[Exception], str]] = [
    (lambda: loose.Conv2d(0, 2, 2, F32), ArgumentError, "ML716"),
    (lambda: loose.Conv2d((3, 3, 3), 2, 2, F32), ArgumentError, "ML367"),
    (lambda: loose.Conv2d(3, 2.5, 2, F32), ArgumentError, "ML716"),
    (lambda: loose.Conv2d(3, 2, 2, F32, stride=0), ArgumentError, "ML367"),
    (lambda: loose.Conv2d(3, 2, 2, F32, dilation=(1, 0)), ArgumentError, "ML367"),
    (lambda: loose.Conv2d(3, 2, 2, F32, padding=-1), ArgumentError, "ML367"),
    (lambda: loose.Conv2d(3, 2, 2, F32, padding=(1, 2, 3)), ArgumentError, "ML367"),
    (lambda: loose.Conv2d(3, 2, 2, F32, padding="same"), ArgumentTypeError, "ML302"),
    (lambda: loose.Conv1D(3, 2, 2, F32, padding=(1, 1, 1, 1)), ArgumentError, "ML367"),
    (lambda: loose.Conv3D(3, 3, 3, 2, 2, F32, padding=(1, 1)), ArgumentError, "ML367"),
    (lambda: loose.Conv2d(3, 3, 4, F32, num_groups=2), ArgumentError, "ML724"),
    (lambda: loose.Conv2d(3, 4, 3, F32, num_groups=2), ArgumentError, "ML724"),
    (lambda: loose.Conv2d(3, 8, 3), ArgumentTypeError, "ML972"),  # PyTorch's order
    (lambda: loose.Conv2d(3, 8, 3, 2), ArgumentTypeError, "ML399"),
    (lambda: loose.Conv1D(filter=1), ArgumentTypeError, "ML972"),
    (lambda: loose.Conv2dV1(np.zeros((3, 3, 1, 1)), stride=(1, 0)), ArgumentError, "ML367"),
    (lambda: loose.ConvTranspose1d(3, 2, 2, F32, dilation=2), UnsupportedError, "ML372"),
    (lambda: loose.ConvTranspose1d(3, 2, 2, F32, dilation=(1, 2)), UnsupportedError, "ML372"),
    (lambda: loose.WeightNormConvTranspose1d(3, 2, 2, F32, dilation=2), UnsupportedError, "ML372"),
    (lambda: loose.ConvTranspose1d(3, 2, 2, F32, output_padding=1), ArgumentError, "ML367"),
    (lambda: loose.ConvTranspose1d(3, 2, 2, F32, 2, output_padding=(1, 0)), ArgumentError, "ML367"),
    (lambda: loose.ConvTranspose1d(3, 2, 2, F32, padding=(1, 0, 0, 0)), ArgumentError, "ML367"),
    (lambda: loose.ConvTranspose1d(0, 2, 2, F32), ArgumentError, "ML716"),
]


@pytest.mark.parametrize(("make", "kind", "code"), REFUSED, ids=stable)
def test_arguments_are_refused_when_the_layer_is_made(
    make: Any, kind: type[Exception], code: str
) -> None:
    with pytest.raises(kind, match=code):
        make()


@pytest.mark.parametrize(
    ("layer", "dims"),
    [
        (nn.Conv1D(3, 2, 2, F32), ["n", 8]),
        (nn.Conv1D(3, 2, 2, F32), ["n", 8, 3]),
        (nn.Conv1D(3, 2, 2, F32, permute=True), ["n", 3, 8]),
        (nn.Conv2d(3, 2, 2, F32), ["n", 8, 8]),
        (nn.Conv2d(3, 2, 2, F32), ["n", 2, 2, 2]),
        (nn.Conv3D(1, 1, 1, 2, 2, F32), ["n", 2, 2, 2]),
        (nn.ConvTranspose1d(3, 2, 2, F32), ["n", 2]),
        (nn.ConvTranspose1d(3, 2, 2, F32), ["n", 8, 3]),
        (nn.ConvTranspose1d(2, 2, 2, F32, padding=2), ["n", 1, 2]),
    ],
    ids=stable,
)
def test_inputs_that_do_not_fit_are_refused(layer: nn.Module, dims: list[int | str]) -> None:
    with pytest.raises(ShapeError):
        Graph("g", layer, [TensorType(F32, dims)])


# ---------------------------------------------------------------- given filters
def test_older_layers_use_what_they_are_given(place: DeviceRef) -> None:
    x, w, b = random(1, 6, 5, 4, 2), random(2, 3, 1, 2, 4), random(4)

    class Old(nn.Module):
        def __call__(self, x: Any) -> Any:
            more: dict[str, Any] = {"stride": (1, 2, 1), "padding": 1}
            three = nn.Conv3DV1(w, b, **more)(x)
            two = nn.Conv2dV1(w[0, :, :, :1], padding=(0, 1, 1, 0), groups=2)(x[:, 0])
            one = nn.Conv1DV1(w[0, :, 0], b, padding=2, dilation=2)(x[:, 0, :, 0])
            return ops.concat([ops.flatten(y, 1) for y in (three, two, one)], 1)

    first = np.moveaxis(x, -1, 1)
    three = torch_conv(first, w.transpose(4, 3, 0, 1, 2), b, {"stride": (1, 2, 1), "padding": 1})
    two = torch_conv(
        np.ascontiguousarray(first[:, :, 0]),
        w[0, :, :, :1].transpose(3, 2, 0, 1),
        None,
        {"padding": (0, 1, 1, 0), "num_groups": 2},
    )
    one = torch_conv(
        np.ascontiguousarray(first[:, :, 0, :, 0]),
        w[0, :, 0].transpose(2, 1, 0),
        b,
        {"padding": 2, "dilation": 2},
    )
    want = np.concatenate([last(y).reshape(1, -1) for y in (three, two, one)], 1)
    assert np.allclose(ran(Old(), place, x), want, atol=2e-5)


def test_the_example_of_the_page_with_the_layer_that_takes_filters() -> None:
    with Graph(name="conv_example") as graph:
        x_data = np.zeros((2, 10, 16), dtype=np.float32)
        x = ops.constant(x_data, dtype=F32, device=CPU)
        filter_1d = Weight("filter_weight", F32, [3, 16, 32], CPU)
        bias_1d = Weight("bias_weight", F32, [32], CPU)
        made = nn.Conv1DV1(filter=filter_1d, bias=bias_1d, stride=1, padding=1)(x)
        graph.output(made)
    assert list(made.shape) == [2, 10, 32]


# ---------------------------------------------------------------- transposed
TRANSPOSED: dict[str, dict[str, Any]] = {
    "plain": {},
    "strided": {"stride": 3},
    "cut": {"stride": 2, "padding": 1},
    "more at the end": {"stride": 3, "padding": 1, "output_padding": 1},
    "more than is cut": {"stride": 4, "padding": 1, "output_padding": 3},
}


def torch_transposed(x: Array, w: Array, bias: Array | None, more: dict[str, Any]) -> Array:
    made = torch.nn.functional.conv_transpose1d(
        torch.from_numpy(x),
        torch.from_numpy(w),
        None if bias is None else torch.from_numpy(bias),
        **more,
    )
    return np.asarray(made.numpy())


@pytest.mark.parametrize("permute", [False, True], ids=["channels last", "channels first"])
@pytest.mark.parametrize("name", TRANSPOSED)
def test_transposed_layers_compute_what_torch_does(name: str, permute: bool) -> None:
    more = TRANSPOSED[name]
    layer = nn.ConvTranspose1d(4, 3, 5, F32, has_bias=True, permute=permute, **more)
    state = filled(layer)
    w = state["weight"] if permute else state["weight"].transpose(2, 1, 0).copy()
    x = random(2, 3, 6)
    want = torch_transposed(x, w, state["bias"], more)
    if permute:
        assert np.allclose(ran(layer, CPU, x, ["n", 3, "l"]), want, atol=2e-5)
    else:
        assert np.allclose(ran(layer, CPU, last(x), ["n", "l", 3]), last(want), atol=2e-5)


def test_transposed_layers_take_the_dims_of_images(place: DeviceRef) -> None:
    layer = nn.ConvTranspose1d(
        3, 2, 4, F32, (1, 2), (0, 0, 1, 0), (1, 1), (0, 1), permute=True, device=place
    )
    assert (layer.stride, layer.padding, layer.output_padding) == ((1, 2), (0, 0, 1, 0), (0, 1))
    state = filled(layer)
    x = random(1, 2, 5)
    whole = torch_transposed(x, state["weight"], None, {"stride": 2, "output_padding": 1})
    assert np.allclose(ran(layer, place, x), whole[:, :, 1:], atol=2e-5)


@pytest.mark.parametrize("permute", [False, True], ids=["channels last", "channels first"])
def test_weight_norm_is_that_of_torch(permute: bool, place: DeviceRef) -> None:
    more: dict[str, Any] = {"stride": 2, "padding": 1, "output_padding": 1}
    layer = nn.WeightNormConvTranspose1d(
        4, 3, 5, F32, has_bias=True, permute=permute, device=place, **more
    )
    state = filled(layer)
    assert list(state) == ["weight_g", "weight_v", "bias"]
    g, v = (state[k] if permute else state[k].transpose(2, 1, 0) for k in ("weight_g", "weight_v"))
    w = torch._weight_norm(torch.from_numpy(v.copy()), torch.from_numpy(g.copy()), 0).numpy()
    x = random(2, 3, 6)
    want = torch_transposed(x, w, state["bias"], more)
    if permute:
        assert np.allclose(ran(layer, place, x), want, atol=3e-5)
    else:
        assert np.allclose(ran(layer, place, last(x)), last(want), atol=3e-5)


# ---------------------------------------------------------------- clamp
@pytest.mark.parametrize(
    "bounds", [(None, None), (-0.5, None), (None, 0.25), (-0.5, 0.25), (1, -1)]
)
def test_clamp(bounds: tuple[float | None, float | None], place: DeviceRef) -> None:
    x = random(4, 5)
    low, high = bounds

    class Clamped(nn.Module):
        def __call__(self, x: Any) -> Any:
            return nn.clamp(x, low, max=high)

    want = np.clip(x, -np.inf if low is None else low, np.inf if high is None else high)
    assert np.array_equal(ran(Clamped(), place, x), want.astype(np.float32))
