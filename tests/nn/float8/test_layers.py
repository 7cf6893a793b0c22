"""Layers with weights of 8-bit floats, against what torch rounds inputs to, and the product."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from maxlab import nn
from maxlab.dtype import DType
from maxlab.engine import InferenceSession
from maxlab.errors import MaxlabError, ModuleError
from maxlab.graph import DeviceRef, Graph, ShardingStrategy, TensorType
from maxlab.nn.float8_config import (
    Float8Config,
    Float8InputScaleSpec,
    Float8ScaleGranularity,
    Float8ScaleOrigin,
    Float8WeightScaleSpec,
)
from maxlab.opset.float8 import float8_numbers, random_float8

Array = np.ndarray[Any, Any]
F32, BF16, FN = DType.float32, DType.bfloat16, DType.float8_e4m3fn
CPU = DeviceRef.CPU()


def config(
    of_input: str, of_weight: str, *, static: bool = False, block: int = 0, **more: Any
) -> Float8Config:
    """Scales of inputs and weights by the names of granularities."""
    origin = Float8ScaleOrigin.STATIC if static else Float8ScaleOrigin.DYNAMIC
    bound = more.pop("bound", None)
    return Float8Config(
        Float8InputScaleSpec(
            Float8ScaleGranularity(of_input), origin, F32, bound, (1, block) if block else None
        ),
        Float8WeightScaleSpec(
            Float8ScaleGranularity(of_weight), F32, (block, block) if block else None
        ),
        mlp_in_float8={0},
        attn_qkv_in_float8={0},
        **more,
    )


CONFIGS = {
    "tensor static": config("tensor", "tensor", static=True),
    "rows static": config("tensor", "rowwise", static=True),
    "tensor dynamic": config("tensor", "tensor"),
    "tokens": config("colwise", "rowwise"),
    "tokens, one weight": config("colwise", "tensor"),
    "bound": config("colwise", "rowwise", bound=1.5),
    "blocks": config("block", "block", block=32),
}


def weights(
    given: Float8Config, rows: int, columns: int, seed: int = 0, prefix: str = ""
) -> dict[str, Array]:
    """The weights of a layer, with scales about which products are of size 1."""
    rng = np.random.default_rng(seed)
    shape = given.weight_scale.scale_shape(rows, columns)
    found = {
        "weight": random_float8(rng, (rows, columns)),
        "weight_scale": rng.uniform(5e-4, 1e-3, shape).astype(np.float32),
    }
    if given.is_static:
        found["input_scale"] = np.array(0.007, np.float32)
    return {f"{prefix}{name}": array for name, array in found.items()}


def rounded(x: Array, scale: Any) -> Array:
    """What is left of ``x`` when it is rounded to 8-bit floats by ``scale``."""
    scale = torch.as_tensor(scale)
    cut = (torch.from_numpy(x.astype(np.float32)) / scale).clamp(-448, 448)
    made: Array = (cut.to(torch.float8_e4m3fn).float() * scale).numpy()
    return made


def reference(given: Float8Config, x: Array, state: dict[str, Array], prefix: str = "") -> Array:
    """The layer's product, in float64."""
    size = given.weight_scale.block_size
    scales = state[f"{prefix}weight_scale"]
    of_weight = size or ((1, 0) if scales.size > 1 else (0, 0))
    scales = scales.reshape(1, 1) if scales.ndim < 2 else scales
    wide = float8_numbers(state[f"{prefix}weight"], scales, *of_weight)
    parts = torch.from_numpy(x.astype(np.float32))
    top = torch.tensor(given.input_scale.activation_scale_ub or np.inf)
    if given.is_static:
        left = rounded(x, float(state[f"{prefix}input_scale"]))
    elif given.input_scale.is_tensor:
        left = rounded(x, parts.abs().max() / 448)
    elif given.input_scale.is_block:
        block = size[1] if size else 0
        left = np.concatenate([
            rounded(part.numpy(), part.abs().amax(-1, keepdim=True) / 448)
            for part in parts.split(block, -1)
        ], -1)  # fmt: skip
    else:
        left = rounded(x, parts.abs().amax(-1, keepdim=True).minimum(top) / 448)
    made: Array = left.astype(np.float64) @ wide.T
    return made


def outputs(layer: nn.Module, *given: tuple[Array, tuple[Any, ...]]) -> list[Array]:
    """What ``layer`` makes of arrays that are declared with shapes."""
    types = [TensorType(DType.from_numpy(x.dtype), shape, CPU) for x, shape in given]
    graph = Graph("g", layer, types)
    model = InferenceSession().load(graph, weights_registry=layer.state_dict())
    return [y.to_ml_numpy() for y in model.execute(*(x for x, _ in given))]


def close(y: Array, wanted: Array, error: float = 2e-5) -> None:
    np.testing.assert_allclose(y, wanted, rtol=error, atol=error * np.abs(wanted).max())


@pytest.mark.parametrize("name", CONFIGS)
def test_linear(name: str) -> None:
    given = CONFIGS[name]
    layer = nn.Linear(100, 40, FN, CPU, float8_config=given)
    state = weights(given, 40, 100)
    layer.load_state_dict(state)
    assert sorted(layer.state_dict()) == sorted(state)
    x = np.random.default_rng(1).standard_normal((5, 100)).astype(np.float32)
    (y,) = outputs(layer, (x, ("rows", 100)))
    close(y, reference(given, x, state))
    plain = (
        x.astype(np.float64)
        @ float8_numbers(
            state["weight"],
            state["weight_scale"].reshape(state["weight_scale"].shape or (1, 1)),
            *(
                given.weight_scale.block_size
                or ((1, 0) if state["weight_scale"].size > 1 else (0, 0))
            ),
        ).T
    )
    assert np.abs(y - plain).max() > 1e-3  # the input was rounded


def test_a_bias_other_ranks_and_dtypes() -> None:
    given = config("colwise", "rowwise", bias_dtype=BF16)
    layer = nn.Linear(64, 24, FN, CPU, has_bias=True, float8_config=given, name="up")
    state = weights(given, 24, 64, prefix="up.")
    rng = np.random.default_rng(2)
    state["up.bias"] = rng.standard_normal(24).astype(BF16.ml_numpy)
    layer.load_state_dict(state)
    x = rng.standard_normal((2, 3, 64)).astype(np.float32)
    bias = state["up.bias"].astype(np.float32)
    wanted = reference(given, x.reshape(6, 64), state, "up.") + bias
    (y,) = outputs(layer, (x, ("a", "b", 64)))
    close(y, wanted.reshape(2, 3, 24))
    half = x[0].astype(BF16.ml_numpy)
    (y,) = outputs(layer, (half, half.shape))
    assert y.dtype == BF16.ml_numpy
    close(y.astype(np.float32), reference(given, half, state, "up.") + bias, 2**-7)


def test_the_weight_stays_of_8_bits() -> None:
    for name in ("tensor static", "blocks"):
        layer = nn.Linear(512, 512, FN, CPU, float8_config=CONFIGS[name])
        layer.load_state_dict(weights(CONFIGS[name], 512, 512))
        graph = Graph("g", layer, [TensorType(F32, [1, 512], CPU)])
        model = InferenceSession().load(graph, weights_registry=layer.state_dict())
        sizes = sum(slot.nbytes.evaluate({}) for slot in model.plan.slots)
        assert sizes < 1.1 * 512 * 512


def test_a_perceptron() -> None:
    given = CONFIGS["tokens"]
    layer = nn.MLP(FN, None, 32, 48, [CPU], float8_config=given)
    state: dict[str, Array] = {}
    for seed, (name, shape) in enumerate(
        (("gate_proj", (48, 32)), ("up_proj", (48, 32)), ("down_proj", (32, 48)))
    ):
        state |= weights(given, *shape, seed, f"{name}.")
    layer.load_state_dict(state)
    x = np.random.default_rng(3).standard_normal((4, 32)).astype(np.float32)
    (y,) = outputs(layer, (x, x.shape))
    gate, up = (reference(given, x, state, f"{n}_proj.").astype(np.float32) for n in ("gate", "up"))
    inner = gate / (1 + np.exp(-gate)) * up
    # Numbers beside a middle may be rounded to the other side, by what float32 sums lost.
    close(y, reference(given, inner, state, "down_proj."), 2e-2)


# ---------------------------------------------------------------- shards
@pytest.mark.parametrize("name", ["tensor static", "tokens", "blocks"])
@pytest.mark.parametrize("axis", ["rowwise", "columnwise", "replicate"])
def test_shards(name: str, axis: str) -> None:
    given, places = CONFIGS[name], [DeviceRef.CPU(0), DeviceRef.CPU(0)]
    layer = nn.Linear(128, 64, FN, CPU, float8_config=given)
    state = weights(given, 64, 128)
    layer.load_state_dict(state)
    layer.sharding_strategy = getattr(ShardingStrategy, axis)(2)
    x = np.random.default_rng(4).standard_normal((3, 128)).astype(np.float32)

    def build(x: Any) -> Any:
        parts = layer.shard(places)
        if axis == "columnwise":
            return [part(x[:, 64 * n : 64 * n + 64]) for n, part in enumerate(parts)]
        return [part(x) for part in parts]

    graph = Graph("g", build, [TensorType(F32, x.shape, CPU)])
    model = InferenceSession().load(graph, weights_registry=layer.state_dict())
    made = [y.to_numpy() for y in model.execute(x)]
    if axis == "rowwise":
        close(np.concatenate(made, -1), reference(given, x, state))
        return
    if axis == "replicate":
        for y in made:
            close(y, reference(given, x, state))
        return
    for number, y in enumerate(made):
        part = slice(64 * number, 64 * number + 64)
        half = {**state, "weight": state["weight"][:, part]}
        if name == "blocks":
            half["weight_scale"] = state["weight_scale"][:, 2 * number : 2 * number + 2]
        close(y, reference(given, x[:, part], half))


# ---------------------------------------------------------------- refusals
def test_what_is_refused() -> None:
    good = CONFIGS["tokens"]
    refused: list[dict[str, Any]] = [
        {"float8_config": object()},
        {"dtype": F32},
        {"clip_weight": 1.0},
        {"float8_config": config("rowwise", "rowwise")},
        {"float8_config": config("colwise", "colwise")},
        {"float8_config": config("colwise", "rowwise", static=True)},
    ]
    for more in refused:
        with pytest.raises(ModuleError, match="ML717"):
            nn.Linear(**{"in_dim": 8, "out_dim": 8, "dtype": FN, "float8_config": good, **more})
    layer = nn.Linear(64, 96, FN, CPU, float8_config=CONFIGS["blocks"])
    with pytest.raises(MaxlabError, match="ML719"):
        layer.sharding_strategy = ShardingStrategy.rowwise(2)  # of 48 rows: 32 and a half block
    assert layer.sharding_strategy is None
