"""Attention of padded batches, on one device and on several, against torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, ShapeError
from maxlab.graph import DeviceRef, Graph, TensorType
from maxlab.nn.attention import MultiheadAttention
from tests.devices.places import load, places, put, refs_of, signal_types, signals, taken
from tests.nn.running import Array, filled, ran, random

torch = pytest.importorskip("torch", reason="torch not installed")

F32 = DType.float32
HIDDEN, HEADS = 20, 5
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "biases": {"qkv_has_bias": True, "o_proj_has_bias": True},
    "stacked": {"stacked_qkv": True, "qkv_has_bias": True, "scale": 0.3},
}


def wanted(state: dict[str, Array], x: Array, scale: float | None = None, **unused: Any) -> Array:
    """What torch makes of ``x``."""
    given = {name: torch.from_numpy(array) for name, array in state.items()}

    def linear(name: str, rows: Any) -> Any:
        bias = given.get(f"{name}.bias")
        return torch.nn.functional.linear(rows, given[f"{name}.weight"], bias)

    rows = torch.from_numpy(x)
    if "qkv_proj.weight" in given:
        parts = linear("qkv_proj", rows).chunk(3, -1)
    else:
        parts = [linear(f"{name}_proj", rows) for name in "qkv"]
    q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in parts)
    y = torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=scale)
    return np.asarray(linear("o_proj", y.transpose(1, 2).flatten(2)))


@pytest.mark.parametrize("kind", KINDS)
def test_one_device(place: DeviceRef, kind: str) -> None:
    layer = MultiheadAttention(HEADS, HIDDEN, [place], **KINDS[kind])
    state, x = filled(layer), random(3, 7, HIDDEN)
    found = ran(layer, place, x, ["batch", "rows", HIDDEN])
    np.testing.assert_allclose(found, wanted(state, x, **KINDS[kind]), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("told", [True, False], ids=["signals", "copies"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("which", ["2 cpus", "2 gpus"])
def test_several_devices(which: str, kind: str, told: bool) -> None:
    """Heads that do not divide evenly: each device has three of them, or two."""
    with places(which) as devices:
        refs = refs_of(devices)
        layer = MultiheadAttention(HEADS, HIDDEN, refs, **KINDS[kind])
        state, x = filled(layer), random(2, 4, HIDDEN)
        types: list[Any] = [TensorType(F32, x.shape, ref) for ref in refs]
        with Graph("heads", input_types=types + (signal_types(refs) if told else [])) as graph:
            values: Any = graph.inputs
            rows = [value.tensor for value in values[: len(refs)]]
            graph.output(*layer(rows, values[len(refs) :] if told else None))
        sizes = {
            tuple(map(int, op.result.tensor_type.shape))
            for op in graph.function.ops
            if op.name == "mo.constant.external"
        }
        assert (HIDDEN, HIDDEN) not in sizes, "no device has a whole weight"
        given = [put(x, device) for device in devices] + (signals(devices) if told else [])
        for y in load(graph, devices, **state)(*given):
            expected = wanted(state, x, **KINDS[kind])
            np.testing.assert_allclose(taken(y), expected, rtol=1e-4, atol=1e-4)


def test_weights_in_one() -> None:
    for kind, given in KINDS.items():
        layer = MultiheadAttention(HEADS, HIDDEN, **given)
        layer.state_dict()  # names the weights, as nothing calls the layer
        with Graph(kind, input_types=[]):
            assert layer.wqkv.shape == [3 * HIDDEN, HIDDEN]
            bias = layer.wqkv_bias
            assert (bias is None) == (kind == "plain")
            assert bias is None or bias.shape == [3 * HIDDEN]


def test_what_is_refused() -> None:
    with pytest.raises(ArgumentError, match="ML519"):
        MultiheadAttention(3, HIDDEN)
    with pytest.raises(ArgumentError, match="ML716"):
        MultiheadAttention(0, HIDDEN)
    with pytest.raises(ArgumentError, match="ML721"):
        MultiheadAttention(HEADS, HIDDEN, [])
    with pytest.raises(ShapeError, match="ML798"):
        MultiheadAttention(1, HIDDEN, [DeviceRef.CPU(0), DeviceRef.CPU(1)])
    two = [TensorType(F32, [2, HIDDEN])]
    with pytest.raises(ShapeError, match="ML659"):
        Graph("rank", MultiheadAttention(HEADS, HIDDEN), two)
