"""Attention with packed weights: equal to attention with the numbers that these stand for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from maxlab import nn
from maxlab.dtype import DType
from maxlab.errors import ArgumentError, DTypeError, ModuleError, ShapeError
from maxlab.graph import DeviceRef, Graph, TensorValue
from maxlab.graph.quantization import QuantizationConfig, QuantizationEncoding
from maxlab.graph.weights import WeightData
from maxlab.nn import kernels
from maxlab.nn.attention import AttentionWithRope, GGUFQAttentionWithRope, GPTQAttentionWithRope
from maxlab.nn.kv_cache import KVCacheParams
from maxlab.nn.rotary_embedding import RotaryEmbedding
from maxlab.opset.packed_products import group_floats
from maxlab.opset.quantized import random_blocks
from tests.nn.kernels.caches import Array, Cache, Values, run
from tests.nn.running import random

F32, CPU = DType.float32, DeviceRef.CPU()
HIDDEN, HEADS, KEYS, SIZE = 256, 4, 2, 64
Q5, Q6 = QuantizationEncoding.Q5_K, QuantizationEncoding.Q6_K
NAMES = ("q_proj", "k_proj", "v_proj", "o_proj")
ROWS = dict(zip(NAMES, (HEADS * SIZE, KEYS * SIZE, KEYS * SIZE, HIDDEN), strict=True))


def given() -> dict[str, Any]:
    return {
        "rope": RotaryEmbedding(HEADS * SIZE, HEADS, 100.0, 32),
        "num_attention_heads": HEADS,
        "num_key_value_heads": KEYS,
        "hidden_size": HIDDEN,
        "kv_params": KVCacheParams(F32, n_kv_heads=KEYS, head_dim=SIZE, page_size=4),
    }


def blocks(seed: int, encoding: QuantizationEncoding, rows: int) -> WeightData:
    """A packed weight, [rows, HIDDEN], with scales as of trained weights."""
    made = random_blocks(np.random.default_rng(seed), encoding.value, (rows, HIDDEN // 256))
    if encoding is Q5:
        scales = made[:, :4].copy().view(np.float16)
        made[:, :4] = (scales / 8).view(np.uint8)
    data = WeightData.from_numpy(made, "blocks")
    data.quantization_encoding = encoding
    return data


def computed(layer: Any, cache: Cache, x: Array) -> Array:
    """What a layer makes of ``x``; its keys and values go into ``cache``."""

    def body(
        values: Values, offsets: TensorValue, number: TensorValue, rest: list[TensorValue]
    ) -> list[TensorValue]:
        return [layer(number, rest[0], values, layer.rope.freqs_cis, offsets)]

    (y,) = run(cache, CPU, 1, [x], body, layer.state_dict())
    return y


def check(layer: Any, numbers: dict[str, Array]) -> None:
    """Raises unless ``layer`` computes what a layer with ``numbers`` does."""
    plain = AttentionWithRope(**given(), has_bias=layer.has_bias)
    plain.load_state_dict(numbers)
    caches = [Cache(layer.kv_params, [5, 0], [3, 6]) for _ in range(2)]
    x = random(caches[0].tokens, HIDDEN)
    found, wanted = (
        computed(one, cache, x) for one, cache in zip((layer, plain), caches, strict=True)
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(caches[0].blocks, caches[1].blocks, rtol=1e-3, atol=1e-3)


def test_weights_of_gguf_files() -> None:
    layer = GGUFQAttentionWithRope(
        **given(), dtype=DType.uint8, quantization_encoding=Q5, has_bias=True
    )
    packed = {f"{name}.weight": blocks(n, Q5, ROWS[name]) for n, name in enumerate(NAMES)}
    biases = {f"{name}.bias": random(ROWS[name]) for name in NAMES[:3]}
    layer.load_state_dict({**packed, **biases})
    assert {layer.state_dict()[name].dtype for name in packed} == {np.dtype(np.uint8)}
    check(layer, {name: np.asarray(one.astype(F32).data) for name, one in packed.items()} | biases)
    with Graph("weights", input_types=[]):
        rows = (HEADS + 2 * KEYS) * SIZE
        assert layer.wqkv.shape == [rows, Q5.block_size]


def test_weights_may_have_several_encodings() -> None:
    layer = GGUFQAttentionWithRope(**given(), dtype=DType.uint8, quantization_encoding=Q5)
    kinds = dict.fromkeys(NAMES, Q5) | {"v_proj": Q6}
    packed = {f"{name}.weight": blocks(9, kinds[name], ROWS[name]) for name in NAMES}
    layer.load_state_dict(packed, override_quantization_encoding=True)
    with Graph("weights", input_types=[]), pytest.raises(ModuleError, match="ML717"):
        assert layer.wqkv is None


def test_the_function_is_the_layer() -> None:
    """``unfused_qkv_ragged_matmul_gguf_quantized`` against NumPy, and what it refuses."""
    params: Any = given()["kv_params"]
    packed = [blocks(n, Q5, ROWS[name]) for n, name in enumerate(NAMES[:3])]
    numbers = [np.asarray(one.astype(F32).data) for one in packed]
    found, wanted = (Cache(params, [5, 0], [3, 6]) for _ in range(2))
    x = random(found.tokens, HIDDEN)

    def body(
        values: Values, offsets: TensorValue, number: TensorValue, rest: list[TensorValue]
    ) -> list[TensorValue]:
        x, q, k, v = rest
        return [
            kernels.unfused_qkv_ragged_matmul_gguf_quantized(
                params, x, offsets, HEADS, q, k, v, Q5, Q5, Q5, values, number
            )
        ]

    arrays = [x, *(np.array(one.data) for one in packed)]
    (q,) = run(found, CPU, 1, arrays, body)
    k, v = (np.asarray(x @ weight.T).reshape(-1, KEYS, SIZE) for weight in numbers[1:])
    wanted.stored(1, 0, k)
    wanted.stored(1, 1, v)
    np.testing.assert_allclose(q, x @ numbers[0].T, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(found.blocks, wanted.blocks, rtol=1e-3, atol=1e-3)
    with pytest.raises(ShapeError, match="ML659"):
        run(found, CPU, 1, [arrays[0], arrays[2], *arrays[2:]], body)
    with pytest.raises(DTypeError, match="ML666"):
        run(found, CPU, 1, [arrays[0], *numbers], body)


def config(**more: Any) -> QuantizationConfig:
    return QuantizationConfig("gptq", 4, 32, sym=True, **more)


@pytest.mark.parametrize("act_order", [False, True])
def test_weights_of_gptq(act_order: bool) -> None:
    layer = GPTQAttentionWithRope(config(desc_act=act_order), **given())
    rng = np.random.default_rng(4)
    packed: dict[str, Array] = {}
    numbers: dict[str, Array] = {}
    for name in NAMES:
        words = rng.integers(-(2**31), 2**31, (HIDDEN // 8, ROWS[name])).astype(np.int32)
        scales = rng.uniform(0.001, 0.01, (HIDDEN // 32, ROWS[name])).astype(np.float16)
        packed |= {f"{name}.qweight": words, f"{name}.scales": scales}
        bits = words.view(np.uint32)[:, None] >> np.arange(0, 32, 4, dtype=np.uint32)[:, None]
        q = (bits & 15).reshape(HIDDEN, -1).astype(np.float32) - 8
        made = q * scales.astype(np.float32).repeat(32, 0)
        if act_order:
            order = rng.permutation(HIDDEN).astype(np.int32)
            packed[f"{name}.perm_idx"] = order
            made = made[np.argsort(order)]
        numbers[f"{name}.weight"] = np.ascontiguousarray(made.T)
    layer.load_state_dict(packed)
    check(layer, numbers)
    with Graph("weights", input_types=[]):
        shape = [HIDDEN // 2 + 2 * HIDDEN // 32, (HEADS + 2 * KEYS) * SIZE]
        assert layer.wqkv.shape == shape
        assert layer.wqkv.dtype is DType.uint8


@pytest.mark.parametrize("desc_act", [False, True])
def test_the_function_is_the_layer_of_gptq(desc_act: bool) -> None:
    """``fused_qkv_ragged_matmul_quantized`` of ``wqkv``, against products with the numbers."""
    layer: Any = GPTQAttentionWithRope(config(desc_act=desc_act), **given())
    rng = np.random.default_rng(5)
    order = rng.permutation(HIDDEN).astype(np.int32)
    state: dict[str, Array] = {}
    numbers = []
    for name in NAMES:
        words = rng.integers(-(2**31), 2**31, (HIDDEN // 8, ROWS[name])).astype(np.int32)
        scales = rng.uniform(0.001, 0.01, (HIDDEN // 32, ROWS[name])).astype(np.float16)
        state |= {f"{name}.qweight": words, f"{name}.scales": scales}
        state |= {f"{name}.perm_idx": order} if desc_act else {}
        numbers.append(group_floats(words, scales, 4))
    layer.load_state_dict(state)
    found, wanted = (Cache(layer.kv_params, [5, 0], [3, 6]) for _ in range(2))
    x, bias = random(found.tokens, HIDDEN), random((HEADS + 2 * KEYS) * SIZE)

    def body(
        values: Values, offsets: TensorValue, number: TensorValue, rest: list[TensorValue]
    ) -> list[TensorValue]:
        perm = layer.q_proj.perm_idx
        return [
            kernels.fused_qkv_ragged_matmul_quantized(
                layer.kv_params, rest[0], offsets, layer.wqkv, values, number, HEADS,
                layer.q_proj.quantization_config, perm, rest[1],
            )
        ]  # fmt: skip

    (q,) = run(found, CPU, 1, [x, bias], body, layer.state_dict())
    met = x[:, order] if desc_act else x
    q_wanted, k, v = np.split(
        met @ np.concatenate(numbers[:3], axis=1) + bias, [ROWS["q_proj"], -KEYS * SIZE], axis=1
    )
    wanted.stored(1, 0, k.reshape(-1, KEYS, SIZE))
    wanted.stored(1, 1, v.reshape(-1, KEYS, SIZE))
    np.testing.assert_allclose(q, q_wanted, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(found.blocks, wanted.blocks, rtol=1e-3, atol=1e-3)


def test_what_the_function_of_gptq_refuses() -> None:
    params: Any = given()["kv_params"]
    width = (HEADS + 2 * KEYS) * SIZE
    packed = np.zeros((HIDDEN // 2 + 2 * HIDDEN // 32, width), np.uint8)
    order = np.zeros(HIDDEN, np.int32)
    cache = Cache(params, [0], [2])
    x = random(2, HIDDEN)
    cases: list[tuple[type[Exception], str, QuantizationConfig, list[Array]]] = [
        (ShapeError, "ML659", config(), [x, packed[1:]]),
        (ShapeError, "ML659", config(), [x, packed[:, 1:]]),
        (ShapeError, "ML659", config(desc_act=True), [x, packed, order[1:]]),
        (DTypeError, "ML666", config(), [x, packed.astype(np.int32)]),
        (DTypeError, "ML666", config(desc_act=True), [x, packed, order.astype(np.int64)]),
        (ArgumentError, "ML667", config(), [x, packed, order]),
        (ArgumentError, "ML667", config(desc_act=True), [x, packed]),
        (ModuleError, "ML799", QuantizationConfig("gptq", 4, 48, sym=True), [x, packed]),
    ]
    for error, code, how, arrays in cases:

        def body(
            values: Values,
            offsets: TensorValue,
            number: TensorValue,
            rest: list[TensorValue],
            how: QuantizationConfig = how,
        ) -> list[TensorValue]:
            x, weight, *perm = rest
            return [
                kernels.fused_qkv_ragged_matmul_quantized(
                    params, x, offsets, weight, values, number, HEADS, how, *perm
                )
            ]

        with pytest.raises(error, match=code):
            run(cache, CPU, 0, arrays, body)


def test_what_is_refused() -> None:
    packed = {"dtype": DType.uint8, "quantization_encoding": Q5}
    for error, code, more in (
        (ArgumentError, "ML519", {"dtype": F32}),
        (ModuleError, "ML717", {"clip_qkv": 1.0}),
        (ModuleError, "ML717", {"quantization_encoding": QuantizationEncoding.GPTQ}),
        (ModuleError, "ML782", {"hidden_size": 200}),
    ):
        with pytest.raises(error, match=code):
            GGUFQAttentionWithRope(**{**given(), **packed, **more})
    with pytest.raises(ModuleError, match="ML799"):
        GPTQAttentionWithRope(QuantizationConfig("gptq", 3, 32, sym=True), **given())

    def plain(quantization_config: QuantizationConfig, **how: Any) -> nn.Linear:
        return nn.Linear(**how)

    layer = GPTQAttentionWithRope(config(), **given(), linear_cls=plain)
    with Graph("weights", input_types=[]), pytest.raises(ModuleError, match="ML717"):
        assert layer.wqkv is None


def test_the_last_projection_is_packed_too() -> None:
    kinds = []

    def linear(**how: Any) -> nn.Linear:
        kinds.append(how["quantization_encoding"])
        return nn.Linear(**how)

    GGUFQAttentionWithRope(
        **given(), dtype=DType.uint8, quantization_encoding=Q6, linear_cls=linear
    )
    assert kinds == [Q6] * 4
