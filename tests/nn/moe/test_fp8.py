"""Mixtures of experts of 8-bit floats against torch, which rounds to them too."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

from maxlab.dtype import DType
from maxlab.errors import ModuleError
from maxlab.graph import DeviceRef, Graph, ShardingStrategy, TensorType, TensorValue, ops
from maxlab.nn.float8_config import (
    Float8Config,
    Float8InputScaleSpec,
    Float8ScaleGranularity,
    Float8ScaleOrigin,
    Float8WeightScaleSpec,
)
from maxlab.nn.moe import MoEFp8, MoEGate
from tests.cpu_and_gpu import at, numpy, session
from tests.devices.places import load, places, put, refs_of, taken
from tests.nn.running import Array, random

CPU, F32 = DeviceRef.CPU(), DType.float32
ROW, COLUMN = Float8ScaleGranularity.ROWWISE, Float8ScaleGranularity.COLWISE
TENSOR, BLOCK = Float8ScaleGranularity.TENSOR, Float8ScaleGranularity.BLOCK
DYNAMIC, STATIC = Float8ScaleOrigin.DYNAMIC, Float8ScaleOrigin.STATIC
HIDDEN, INNER, EXPERTS, CHOSEN = 32, 24, 6, 2
SCALES: dict[str, Any] = {
    "tokens": (COLUMN, ROW, None, None),
    "tensor": (TENSOR, TENSOR, None, None),
    "blocks": (BLOCK, BLOCK, (1, 16), (8, 16)),
}


def config(name: str, origin: Float8ScaleOrigin = DYNAMIC) -> Float8Config:
    left, right, across, blocks = SCALES[name]
    return Float8Config(
        Float8InputScaleSpec(left, origin, F32, block_size=across),
        Float8WeightScaleSpec(right, F32, blocks),
        mlp_in_float8={0},
        attn_qkv_in_float8=set(),
    )


class Weighted(MoEGate):
    """Weights are the softmax over the chosen experts."""

    def __call__(self, hidden_state: TensorValue) -> tuple[TensorValue, TensorValue]:
        indices, scores = super().__call__(hidden_state)
        return indices, ops.softmax(scores)


def layer(place: DeviceRef, name: str, **more: Any) -> MoEFp8:
    given: dict[str, Any] = {"dtype": F32, "float8_config": config(name), "moe_dim": INNER, **more}
    return MoEFp8([place], HIDDEN, EXPERTS, CHOSEN, gate_cls=Weighted, **given)


def filled(module: MoEFp8) -> dict[str, Any]:
    """Random weights of 8 bits with positive scales."""
    state: dict[str, Any] = {}
    for name, value in module.state_dict().items():
        made = random(*value.shape)
        is_scale = name.endswith("scale")
        state[name] = np.asarray(np.abs(made) + 0.1 if is_scale else made, value.dtype)
    module.load_state_dict(state)
    return state


# ---------------------------------------------------------------- torch
def rounded(x: torch.Tensor, groups: int) -> torch.Tensor:
    """The rows of ``x`` as 8-bit floats hold them, with a scale for each of ``groups`` parts of a
    row; 0 for one scale of all."""
    parts = x.reshape(len(x), groups, -1) if groups else x.reshape(1, 1, -1)
    scale = parts.abs().amax(-1, keepdim=True) / 448
    codes = (parts / scale).to(torch.float8_e4m3fn).float()
    return (codes * scale).reshape(x.shape)


def numbers(state: dict[str, Any], name: str) -> torch.Tensor:
    """The numbers of a weight of 8 bits."""
    weight = torch.from_numpy(state[f"{name}.weight"].astype(np.float32))
    scale = torch.from_numpy(state[f"{name}.weight_scale"])
    down, across = (8, 16) if scale.dim() and scale.shape[1] > 1 else (1, weight.shape[1])
    if scale.dim():
        scale = scale.repeat_interleave(down, 0).repeat_interleave(across, 1)
        scale = scale[: weight.shape[0], : weight.shape[1]]
    return weight * scale


def looped(state: dict[str, Any], x: Array, name: str) -> Array:
    """What the layer makes of ``x``, expert by expert: all rows of all experts are rounded, and
    those that are not theirs are left out."""
    rows = torch.from_numpy(x)
    scores = rows @ torch.from_numpy(state["gate.gate_score.weight"]).T
    best, indices = torch.topk(scores, CHOSEN)
    weights = best.softmax(-1)
    inputs = rows.repeat_interleave(CHOSEN, 0)
    groups = {"tokens": (1, 1), "tensor": (0, 0), "blocks": (HIDDEN // 16, 2)}[name]
    left = rounded(inputs, groups[0])
    inner = torch.zeros(len(inputs), INNER)
    for row, expert in enumerate(indices.flatten().tolist()):
        gate, up = (numbers(state, f"experts.{expert}.{part}_proj") for part in ("gate", "up"))
        inner[row] = torch.nn.functional.silu(left[row] @ gate.T) * (left[row] @ up.T)
    if name == "blocks":  # the last block of a row is not whole
        left = torch.cat([rounded(inner[:, :16], 1), rounded(inner[:, 16:], 1)], 1)
    else:
        left = rounded(inner, groups[1])
    made = torch.stack(
        [
            left[row] @ numbers(state, f"experts.{expert}.down_proj").T
            for row, expert in enumerate(indices.flatten().tolist())
        ]
    )
    made = made.reshape(len(rows), CHOSEN, HIDDEN) * weights[..., None]
    found: Array = made.sum(1).numpy()
    return found


def close(found: Array, wanted: Array) -> None:
    """Raises unless both are equal but for numbers that may be rounded to either of two codes."""
    error = np.abs(found - wanted) / np.abs(wanted).max()
    assert np.median(error) < 1e-5
    assert error.max() < 0.02


# ---------------------------------------------------------------- what it computes
@pytest.mark.parametrize("name", SCALES)
def test_it_is_a_loop_over_rounded_rows(place: DeviceRef, name: str) -> None:
    module = layer(place, name)
    state, x = filled(module), random(5, HIDDEN)
    graph = Graph("moe", module, [TensorType(F32, ["tokens", HIDDEN], place)])
    model = session(place).load(graph, weights_registry=state)
    close(numpy(model(at(x, place))[0]), looped(state, x, name))


@pytest.mark.parametrize("name", SCALES)
def test_weights_stay_of_8_bits(name: str) -> None:
    module = layer(CPU, name)
    state = filled(module)
    parts = [f"experts.0.{part}_proj.weight" for part in ("gate", "down", "up")]
    assert {name for name in state if "experts.0." in name} == {
        each for part in parts for each in (part, f"{part}_scale")
    }
    assert state[parts[0]].dtype == ml_dtypes.float8_e4m3fn
    with Graph("moe", input_types=[TensorType(F32, [4, HIDDEN], CPU)]) as graph:
        scales = [module.gate_up_proj_scales, module.down_proj_scales]
        graph.output(module(graph.inputs[0].tensor))
    down = {"blocks": (2 * INNER // 8, HIDDEN // 8)}.get(name, (2 * INNER, HIDDEN))
    across = (2, 2) if name == "blocks" else (1, 1)
    for scale, *wanted in zip(scales, down, across, strict=True):
        assert [int(dim) for dim in scale.shape] == [EXPERTS, *wanted]
    model = session(CPU).load(graph, weights_registry=state)
    known = [s for s in model.plan.slots if s.kind in ("weight", "packed", "constant")]
    wide = [s for s in known if not s.dtype.is_float8()]
    matrices = 3 * EXPERTS * HIDDEN * INNER
    assert sum(s.nbytes.evaluate({}) for s in wide) < matrices / 2
    assert sum(s.nbytes.evaluate({}) for s in known) < 2 * matrices


@pytest.mark.parametrize("name", ["rowwise", "expert_parallel"])
def test_shards_add_up(name: str) -> None:
    with places("2 cpus") as devices:
        refs = refs_of(devices)
        module = layer(CPU, "tokens")
        state, x = filled(module), random(6, HIDDEN)
        module.sharding_strategy = getattr(ShardingStrategy, name)(2)
        with Graph("moe", input_types=[TensorType(F32, ["n", HIDDEN], r) for r in refs]) as graph:
            values = [v.tensor for v in graph.inputs]
            graph.output(*(s(v) for s, v in zip(module.shard(refs), values, strict=True)))
        parts = [taken(y) for y in load(graph, devices, **state)(*(put(x, d) for d in devices))]
        whole = looped(state, x, "tokens")
        error = np.abs(np.sum(parts, axis=0) - whole) / np.abs(whole).max()
        # Halves of a row that is cut are rounded by scales of their own.
        assert error.max() < (0.1 if name == "rowwise" else 0.02)


# ---------------------------------------------------------------- errors
@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"float8_config": None}, "float8_config=None"),
        ({"float8_config": config("tensor", STATIC)}, "static scales"),
        ({"float8_config": config("blocks"), "moe_dim": 20}, "for each 8 rows"),
        ({"dtype": DType.float8_e4m3fn}, "that of the gate"),
    ],
)
def test_what_cannot_be_built(more: dict[str, Any], text: str) -> None:
    with pytest.raises(ModuleError, match=rf"{text}.*ML717"):
        layer(CPU, "tokens", **more)
