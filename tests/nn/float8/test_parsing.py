"""Configs of float8 models as publishers write them, beside small weights; and spoilt ones."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

from maxlab.dtype import DType
from maxlab.errors import MaxlabError
from maxlab.nn.float8_config import (
    Float8Config,
    Float8InputScaleSpec,
    Float8ScaleGranularity,
    Float8ScaleOrigin,
    Float8WeightScaleSpec,
    parse_float8_config,
)
from tests.nn.float8.models import ATTENTION, BF16, F8, F32, MLP, Model, config

TENSOR, ROWWISE, COLWISE, BLOCK = Float8ScaleGranularity
STATIC, DYNAMIC = Float8ScaleOrigin
E4M3 = DType.float8_e4m3fn
ROWS, BLOCKS = (256, 1), (2, 2)


def read(given: Any, model: Model, **names: str) -> Float8Config:
    found = parse_float8_config(given, model.weights, E4M3, model.prefix, **names)
    assert found is not None
    return found


def fbgemm(prefix: str = "") -> Model:
    model = Model(prefix)
    for number in range(3):
        model.layer(number, "self_attn", None)
        model.layer(number, "mlp", ROWS if number else None)
    model.put("embed_tokens.weight", (10, 8), BF16)
    return model


def blocks() -> Model:
    model = Model().layer(1, "self_attn", None).layer(1, "mlp", None)
    for part in ("self_attn", "mlp"):
        model.layer(0, part, BLOCKS, last="weight_scale_inv")
    return model


def per_token() -> Model:
    model = Model()
    for number in range(12):
        scale = None if number == 1 else ROWS
        model.layer(number, "self_attn", scale, dtype=BF16).layer(number, "mlp", scale, dtype=BF16)
    return model


def static() -> Model:
    model = Model().layer(0, "self_attn", ()).layer(0, "mlp", (1,))
    for part, names in (("self_attn", ATTENTION), ("mlp", MLP)):
        model.layer(0, part, (), names, "input_scale")
    return model


def test_fbgemm() -> None:
    assert read(config("fbgemm"), fbgemm()) == Float8Config(
        Float8InputScaleSpec(COLWISE, DYNAMIC, DType.float32, 1200.0),
        Float8WeightScaleSpec(ROWWISE, DType.float32),
        {1, 2},
        set(),
        DType.bfloat16,
        "fbgemm_fp8",
    )


def test_blocks() -> None:
    assert read(config("blocks"), blocks()) == Float8Config(
        Float8InputScaleSpec(BLOCK, DYNAMIC, DType.float32, block_size=(1, 128)),
        Float8WeightScaleSpec(BLOCK, DType.float32, (128, 128)),
        {0},
        {0},
        None,
        "fp8",
    )


def test_scales_for_each_channel_and_token() -> None:
    every = set(range(12)) - {1}  # "layers.1" is not "layers.10"
    assert read(config("per token"), per_token()) == Float8Config(
        Float8InputScaleSpec(COLWISE, DYNAMIC, DType.bfloat16),
        Float8WeightScaleSpec(ROWWISE, DType.bfloat16),
        every,
        every,
        None,
        "compressed-tensors",
    )


def test_stored_scales_of_a_tensor() -> None:
    want = Float8Config(
        Float8InputScaleSpec(TENSOR, STATIC, DType.float32),
        Float8WeightScaleSpec(TENSOR, DType.float32),
        {0},
        {0},
        None,
        "compressed-tensors",
    )
    assert read(config("static"), static()) == want
    other = {"quant_method": "fp8", "activation_scheme": "static", "ignored_layers": ["lm_head"]}
    given = {"num_hidden_layers": 1, "quantization_config": other}
    assert read(given, static()) == Float8Config(
        want.input_scale, want.weight_scale, {0}, {0}, None, "fp8"
    )


def test_compressed_blocks() -> None:
    given = config("blocks")
    spec = {"num_bits": 8, "type": "float"}
    group = {
        "weights": {**spec, "strategy": "block", "block_structure": "128x128"},
        "input_activations": {**spec, "strategy": "group", "group_size": 128, "dynamic": True},
    }
    given["quantization_config"] = {
        "quant_method": "compressed-tensors",
        "config_groups": {"group_0": group, "group_1": {**group, "targets": ["re:.*mlp.*"]}},
        "ignore": ["re:model.layers.1.*"],
    }
    model = Model().layer(0, "self_attn", BLOCKS).layer(0, "mlp", BLOCKS)
    found = read(given, model)
    assert found.weight_scale.block_size == (128, 128)
    assert found.input_scale.block_size == (1, 128)
    assert found.mlp_in_float8 == found.attn_qkv_in_float8 == {0}


@pytest.mark.parametrize("name", ["model.layers.1", "model.layers.1.mlp"])
def test_names_are_left_out_by_whole_parts(name: str) -> None:
    """Those of layer 1 are not those of layers 10 and 11."""
    given = {**config("blocks"), "num_hidden_layers": 12}
    given["quantization_config"]["modules_to_not_convert"] = [name, "proj", "model.layer"]
    model = Model()
    for number in range(12):
        model.layer(number, "mlp", None if number == 1 else BLOCKS, last="weight_scale_inv")
    found = read(given, model)
    assert found.mlp_in_float8 == set(range(12)) - {1}
    assert (1 in found.attn_qkv_in_float8) is name.endswith("mlp")


def test_targets_are_what_is_converted() -> None:
    given = config("static")
    given["quantization_config"]["config_groups"]["group_0"]["targets"] = ["re:.*mlp.*"]
    model = static()
    for name in [name for name in model.weights if "self_attn" in name]:
        del model.weights[name]
    found = read(given, model.layer(0, "self_attn", None))
    assert found.mlp_in_float8 == {0}
    assert found.attn_qkv_in_float8 == set()


# ---------------------------------------------------------------- kinds of configs and names
def test_a_config_may_be_an_object_with_objects_in_it() -> None:
    given = config("fbgemm")
    inner = SimpleNamespace(to_dict=lambda: given["quantization_config"])
    whole = SimpleNamespace(num_hidden_layers=3, quantization_config=inner)
    assert read(whole, fbgemm()) == read(given, fbgemm())


def test_models_with_pictures_keep_the_language_model_apart() -> None:
    given = config("fbgemm")
    nested = {
        "text_config": {"num_hidden_layers": given["num_hidden_layers"]},
        "quantization_config": given["quantization_config"],
    }
    assert read(nested, fbgemm()) == read(given, fbgemm())
    assert read({"text_config": given}, fbgemm()) == read(given, fbgemm())


def test_prefixes_of_weights_and_of_the_config() -> None:
    given = config("fbgemm")
    want = read(given, fbgemm())
    assert read(given, fbgemm("language_model.")) == want
    kept = given["quantization_config"]["modules_to_not_convert"]
    given["quantization_config"]["modules_to_not_convert"] = [
        name.replace("model.", "language_model.model.") for name in kept
    ]
    model = fbgemm("model.")
    assert read(given, model, ignored_modules_prefix="language_model.model.") == want


def test_experts_and_latent_attention_count_as_parts_of_their_layer() -> None:
    given = config("blocks")
    model = Model().layer(1, "self_attn", None).layer(1, "mlp", None)
    experts = tuple(f"experts.{n}.{name}" for n in range(3) for name in MLP)
    latent = ("q_a_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj")
    model.layer(0, "mlp", BLOCKS, (*experts, "shared_experts.up_proj"), "weight_scale_inv")
    model.layer(0, "self_attn", BLOCKS, latent, "weight_scale_inv")
    model.put("layers.0.mlp.gate.weight", (4, 8), BF16)  # the router is no projection
    assert read(given, model).mlp_in_float8 == {0}
    model.put("layers.0.mlp.experts.2.up_proj.weight", (256, 200), BF16)
    with pytest.raises(MaxlabError, match=r"experts\.2\.up_proj.*ML697"):
        read(given, model)


def test_the_dtype_of_a_bias() -> None:
    model = blocks()
    model.put("layers.0.self_attn.q_proj.bias", (256,), BF16)
    assert read(config("blocks"), model).bias_dtype is DType.bfloat16


@pytest.mark.parametrize("dtype", [DType.bfloat16, DType.float32, "float8_e4m3fn", None])
def test_models_of_another_dtype_have_no_config(dtype: Any) -> None:
    assert parse_float8_config(config("fbgemm"), {}, dtype) is None
    assert parse_float8_config(object(), {}, dtype) is None


def test_the_bits_of_amd_are_read_too() -> None:
    found = parse_float8_config(config("fbgemm"), fbgemm().weights, DType.float8_e4m3fnuz)
    assert found == read(config("fbgemm"), fbgemm())


# ---------------------------------------------------------------- spoilt configs
MODELS: dict[str, Callable[[], Model]] = {
    "fbgemm": fbgemm,
    "blocks": blocks,
    "per token": per_token,
    "static": static,
}
GROUP = ("config_groups", "group_0")
# (model, where in quantization_config, what is put there, code); a `...` deletes.
SPOILT: list[tuple[str, tuple[str, ...], Any, str]] = [
    ("fbgemm", ("quant_method",), "gptq", "ML695"),
    ("fbgemm", ("quant_method",), ..., "ML695"),
    ("fbgemm", ("quant_method",), ["fp8"], "ML695"),
    ("fbgemm", (), None, "ML695"),
    ("fbgemm", (), "fbgemm_fp8", "ML696"),
    ("fbgemm", (), [], "ML696"),
    ("fbgemm", ("activation_scale_ub",), "1200", "ML696"),
    ("fbgemm", ("activation_scale_ub",), -1.0, "ML696"),
    ("fbgemm", ("activation_scale_ub",), float("nan"), "ML696"),
    ("fbgemm", ("activation_scale_ub",), float("inf"), "ML696"),
    ("fbgemm", ("activation_scale_ub",), True, "ML696"),
    ("fbgemm", ("modules_to_not_convert",), "lm_head", "ML696"),
    ("fbgemm", ("modules_to_not_convert",), [1], "ML696"),
    ("fbgemm", ("modules_to_not_convert",), None, "ML697"),
    ("blocks", ("weight_block_size",), [128], "ML696"),
    ("blocks", ("weight_block_size",), [128, 0], "ML696"),
    ("blocks", ("weight_block_size",), [128, "many"], "ML696"),
    ("blocks", ("weight_block_size",), 128, "ML696"),
    ("blocks", ("weight_block_size",), None, "ML695"),
    ("blocks", ("weight_block_size",), [64, 64], "ML699"),
    ("blocks", ("activation_scheme",), "static", "ML695"),
    ("blocks", ("activation_scheme",), "sometimes", "ML696"),
    ("blocks", ("fmt",), "e5m2", "ML695"),
    ("blocks", ("fmt",), ["e4m3"], "ML695"),
    ("blocks", ("scale_fmt",), "ue8m0", "ML695"),
    ("blocks", ("expert_dtype",), "fp4", "ML695"),
    ("blocks", ("dequantize",), True, "ML695"),
    ("blocks", ("modules_to_convert",), ["model.embed_tokens"], "ML695"),
    ("blocks", ("activation_scheme",), ["dynamic"], "ML696"),
    ("per token", ("format",), "pack-quantized", "ML695"),
    ("per token", ("format",), ["float-quantized"], "ML695"),
    ("per token", ("kv_cache_scheme",), {"num_bits": 8, "type": "float"}, "ML695"),
    ("per token", ("sparsity_config",), {"format": "sparse-24-bitmask"}, "ML695"),
    ("per token", ("sparsity_config",), "dense", "ML696"),
    ("per token", ("config_groups",), {}, "ML696"),
    ("per token", ("config_groups",), [], "ML696"),
    ("per token", ("config_groups",), ..., "ML696"),
    ("per token", GROUP, None, "ML696"),
    ("per token", ("ignore",), {"lm_head": 1}, "ML696"),
    ("per token", ("ignore",), ["re:*"], "ML696"),
    ("per token", (*GROUP, "targets"), "Linear", "ML696"),
    ("per token", (*GROUP, "output_activations"), {}, "ML695"),
    ("per token", (*GROUP, "input_activations"), None, "ML695"),
    ("per token", (*GROUP, "input_activations"), 8, "ML696"),
    ("per token", (*GROUP, "input_activations", "strategy"), "channel", "ML695"),
    ("per token", (*GROUP, "input_activations", "dynamic"), "local", "ML695"),
    ("per token", (*GROUP, "input_activations", "dynamic"), False, "ML695"),
    ("per token", (*GROUP, "input_activations", "num_bits"), 4, "ML695"),
    ("per token", (*GROUP, "input_activations", "strategy"), "group", "ML696"),
    ("per token", (*GROUP, "weights"), None, "ML696"),
    ("per token", (*GROUP, "weights", "type"), "int", "ML695"),
    ("per token", (*GROUP, "weights", "num_bits"), "8", "ML695"),
    ("per token", (*GROUP, "weights", "num_bits"), 8.5, "ML695"),
    ("per token", (*GROUP, "weights", "symmetric"), False, "ML695"),
    ("per token", (*GROUP, "weights", "dynamic"), True, "ML695"),
    ("per token", (*GROUP, "weights", "strategy"), "group", "ML695"),
    ("per token", (*GROUP, "weights", "strategy"), "block", "ML696"),
    ("per token", (*GROUP, "weights", "strategy"), "tensor", "ML699"),
    ("static", (*GROUP, "weights", "strategy"), "channel", "ML699"),
    ("static", ("ignore",), ["re:.*q_proj"], "ML697"),
]


@pytest.mark.parametrize("number", range(len(SPOILT)))
def test_spoilt_configs(number: int) -> None:
    name, path, value, code = SPOILT[number]
    given = config(name)
    place, keys = given, ("quantization_config", *path)
    for key in keys[:-1]:
        place = place[key]
    if value is ...:
        del place[keys[-1]]
    else:
        place[keys[-1]] = value
    with pytest.raises(MaxlabError) as caught:
        read(given, MODELS[name]())
    assert caught.value.code == code, caught.value
    assert caught.value.fix


@pytest.mark.parametrize("count", [None, 0, -1, 2.0, "2", True])
def test_the_number_of_layers_must_be_known(count: Any) -> None:
    given = {**config("fbgemm"), "num_hidden_layers": count}
    with pytest.raises(MaxlabError, match="ML696"):
        read(given, fbgemm())


def test_bits_that_are_not_read() -> None:
    with pytest.raises(MaxlabError, match="ML695"):
        parse_float8_config(config("fbgemm"), fbgemm().weights, DType.float8_e5m2)


WHOLE = {name: make() for name, make in MODELS.items()}


# ---------------------------------------------------------------- spoilt weights
def without(name: str) -> Callable[[Model], None]:
    return lambda model: model.weights.__delitem__(name)


def with_(name: str, shape: tuple[int, ...], dtype: Any) -> Callable[[Model], None]:
    return lambda model: model.put(name, shape, dtype)


GATE = "layers.1.mlp.gate_proj"
WEIGHTS: list[tuple[str, Callable[[Model], None], str]] = [
    ("fbgemm", lambda model: model.weights.clear(), "ML699"),
    ("fbgemm", without(f"{GATE}.weight_scale"), "ML699"),
    ("fbgemm", with_(f"{GATE}.weight_scale", ROWS, BF16), "ML699"),
    ("fbgemm", with_(f"{GATE}.weight_scale", (255, 1), F32), "ML699"),
    ("fbgemm", with_(f"{GATE}.weight", (256, 200), BF16), "ML697"),
    ("fbgemm", with_("layers.0.mlp.gate_proj.weight", (256, 200), F8), "ML697"),
    ("fbgemm", lambda model: model.weights.update({f"{GATE}.weight": None}), "ML697"),  # type: ignore[dict-item]
    ("fbgemm", lambda model: model.weights.update({f"{GATE}.weight": np.ones(3)}), "ML697"),  # type: ignore[dict-item]
    ("fbgemm", lambda model: model.weights.update({f"{GATE}.weight_scale": 1.0}), "ML697"),  # type: ignore[dict-item]
    ("static", without("layers.0.mlp.up_proj.input_scale"), "ML699"),
]


@pytest.mark.parametrize("number", range(len(WEIGHTS)))
def test_spoilt_weights(number: int) -> None:
    name, spoil, code = WEIGHTS[number]
    model = MODELS[name]()
    spoil(model)
    with pytest.raises(MaxlabError) as caught:
        read(config(name), model)
    assert caught.value.code == code, caught.value
    assert caught.value.fix


def test_the_dtype_of_scales_may_come_from_another_module() -> None:
    model = Model()
    model.put("lm_head.weight_scale", (10, 1), BF16)
    assert read(config("fbgemm"), model).weight_scale.dtype is DType.bfloat16


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 300)
    | st.floats()
    | st.text(max_size=3)
    | st.sampled_from(["tensor", "token", "block", "float", "dynamic", "re:*", "Linear", "fp8"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths to everything inside of ``value``."""
    items: Any = ()
    if isinstance(value, (dict, list)):
        items = value.items() if isinstance(value, dict) else enumerate(value)
    return [path] + [found for key, inner in items for found in places(inner, (*path, key))]


@settings(max_examples=60, deadline=None)
@drawn(st.data(), st.sampled_from(["blocks", "static", "per token"]))
def test_whatever_stands_in_a_config_is_read_or_refused(data: st.DataObject, name: str) -> None:
    spoilt = config(name)
    path = data.draw(st.sampled_from(places(spoilt)[1:]))
    place: Any = spoilt
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = data.draw(VALUES)
    with contextlib.suppress(MaxlabError):
        assert isinstance(read(spoilt, WHOLE[name]), Float8Config)


def test_weights_are_a_dict() -> None:
    with pytest.raises(MaxlabError, match="ML696"):
        parse_float8_config(config("fbgemm"), [], E4M3)  # type: ignore[arg-type]


# ---------------------------------------------------------------- others
@pytest.mark.oracle
def test_configs_of_transformers_are_read() -> None:
    from transformers import FbgemmFp8Config, FineGrainedFP8Config

    kept = config("fbgemm")["quantization_config"]["modules_to_not_convert"]
    made = FbgemmFp8Config(activation_scale_ub=1200.0, modules_to_not_convert=kept)
    given = SimpleNamespace(num_hidden_layers=3, quantization_config=made)
    assert read(given, fbgemm()) == read(config("fbgemm"), fbgemm())
    grained = FineGrainedFP8Config(modules_to_not_convert=["lm_head", "model.layers.1"])
    given = SimpleNamespace(num_hidden_layers=2, quantization_config=grained)
    assert read(given, blocks()) == read(config("blocks"), blocks())


@pytest.mark.oracle
def test_the_shapes_of_scales_are_those_of_transformers() -> None:
    import torch
    from transformers.integrations.finegrained_fp8 import FP8Linear

    with torch.device("meta"):
        layer = FP8Linear(200, 300, block_size=(128, 128))
    spec = Float8WeightScaleSpec(BLOCK, DType.float32, (128, 128))
    assert tuple(layer.weight_scale_inv.shape) == spec.scale_shape(300, 200)
