"""Layers with adapters, against the same layers with the adapters merged into their weights."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from maxlab import nn
from maxlab.driver import Tensor
from maxlab.dtype import DType
from maxlab.errors import ModuleError
from maxlab.graph import DeviceRef, Graph, ShardingStrategy, TensorType
from maxlab.nn.attention import AttentionWithRope
from maxlab.nn.kv_cache import KVCacheParams, PagedCacheInputSymbols, PagedCacheValues
from maxlab.nn.lora import (
    AttentionWithRopeAndLoRA,
    LinearLoRA,
    SupportsLoRA,
    add_lora,
    lora_layers,
    set_lora_batch_info,
)
from maxlab.nn.rotary_embedding import RotaryEmbedding
from tests.cpu_and_gpu import at, numpy, session
from tests.nn.running import Array, filled, random

CPU, F32, I32, U32 = DeviceRef.CPU(), DType.float32, DType.int32, DType.uint32
SLOTS, RANK, INPUTS, OUTPUTS = 3, 4, 24, 16
IDS, RANKS = np.array([2, -1, 0], np.int32), np.array([4, 0, 2], np.uint32)
OFFSETS = np.array([0, 3, 5, 9], np.uint32)


def _groups(place: DeviceRef) -> list[TensorType]:
    return [
        TensorType(I32, ["texts"], place),
        TensorType(U32, ["texts"], place),
        TensorType(U32, ["texts_and_end"], place),
    ]


def _linear(place: DeviceRef, **more: Any) -> LinearLoRA:
    return LinearLoRA(INPUTS, OUTPUTS, SLOTS, RANK, F32, place, **more)


def _adapted(x: Array, state: dict[str, Any], stem: str = "") -> Array:
    """What a layer computes, one sequence at a time."""
    weight, a, b = (state[f"{stem}{name}weight"] for name in ("", "lora_A.", "lora_B."))
    rows = []
    for adapter, rank, part in zip(IDS, RANKS, np.split(x, OFFSETS[1:-1]), strict=True):
        merged, bias = weight.astype(np.float64), state.get(f"{stem}bias", np.zeros(len(weight)))
        if adapter >= 0:
            merged = merged + b[adapter, :, :rank] @ a[adapter, :rank].astype(np.float64)
            bias = bias + state.get(f"{stem}lora.bias", np.zeros((SLOTS, 1)))[adapter]
        rows.append(part @ merged.T + bias)
    return np.concatenate(rows)


def _model(layer: LinearLoRA, place: DeviceRef) -> Any:
    types = [TensorType(F32, ["tokens", INPUTS], place), *_groups(place)]
    with Graph("adapted", input_types=types) as graph:
        x, ids, ranks, offsets = (value.tensor for value in graph.inputs)
        layer.set_lora_batch_info(ids, ranks, offsets)
        graph.output(layer(x))
    return session(place).load(graph, weights_registry=layer.state_dict())


def test_a_linear_layer_with_all_its_biases(place: DeviceRef) -> None:
    layer = _linear(place, has_bias=True, has_lora_bias=True, name="up")
    state = filled(layer)
    assert sorted(state) == [
        "up.bias", "up.lora.bias", "up.lora_A.weight", "up.lora_B.weight", "up.weight",
    ]  # fmt: skip
    x = random(9, INPUTS)
    model = _model(layer, place)
    (found,) = model(*(at(each, place) for each in (x, IDS, RANKS, OFFSETS)))
    np.testing.assert_allclose(numpy(found), _adapted(x, state, "up."), rtol=1e-4, atol=1e-4)


def test_adapters_change_in_place(place: DeviceRef) -> None:
    """The graph reads the slots where they are: another adapter needs no other model."""
    layer = _linear(place)
    state = filled(layer)
    slots = {
        name: at(value, place) if ".lora_" in f".{name}" else value for name, value in state.items()
    }
    layer.load_state_dict(slots)
    model, x = _model(layer, place), random(9, INPUTS)
    for _ in range(2):
        (found,) = model(*(at(each, place) for each in (x, IDS, RANKS, OFFSETS)))
        np.testing.assert_allclose(numpy(found), _adapted(x, state), rtol=1e-4, atol=1e-4)
        state["lora_B.weight"] = random(SLOTS, OUTPUTS, RANK)
        slots["lora_B.weight"].inplace_copy_from(Tensor.from_numpy(state["lora_B.weight"]))


def test_a_packed_layer_takes_adapters() -> None:
    from maxlab.graph.quantization import QuantizationEncoding

    columns = 32
    packed = nn.Linear(
        columns, 8, DType.uint8, CPU, quantization_encoding=QuantizationEncoding.Q4_0
    )
    holder = nn.Sequential(packed)
    (made,) = add_lora(holder, SLOTS, RANK, F32, targets=("0",)).values()
    assert made.weight is packed.weight
    assert made.lora_A.shape == [SLOTS, RANK, columns]


PAGES = (2, 0, 1)
"""The page of each sequence."""
PARAMS = KVCacheParams(F32, n_kv_heads=2, head_dim=8, page_size=128)


def _attention(kind: type[AttentionWithRope], **more: Any) -> AttentionWithRope:
    return kind(
        rope=RotaryEmbedding(32, 4, 10000.0, 256, head_dim=8, interleaved=False),
        num_attention_heads=4,
        num_key_value_heads=2,
        hidden_size=INPUTS,
        kv_params=PARAMS,
        **more,
    )


def _attend(layer: AttentionWithRope, x: Array, adapts: bool) -> tuple[Array, Array]:
    """The output for three sequences, and the pages with their keys and values."""
    symbols = PagedCacheInputSymbols.of(PARAMS, 1, CPU)
    types = [TensorType(F32, ["tokens", INPUTS]), *_groups(CPU)]
    with Graph("attend", input_types=[*types, *symbols]) as graph:
        rows, ids, ranks, offsets = (value.tensor for value in graph.inputs[:4])
        cache = PagedCacheValues.of(graph.inputs[4:])
        if adapts:
            set_lora_batch_info(layer, ids, ranks, offsets)
        number = nn.functional.constant(0, U32, CPU)
        graph.output(layer(number, rows, cache, layer.rope.freqs_cis, offsets), ids, ranks)
    model = session(CPU).load(graph, weights_registry=layer.state_dict())
    pages = np.zeros((3, 2, 1, 128, 2, 8), np.float32)
    table = np.array(PAGES, np.uint32)[:, None]
    limits = np.array([[4, 4]], np.uint32)
    found = model(x, IDS, RANKS, OFFSETS, pages, np.zeros(3, np.uint32), table, limits)
    return found[0].to_numpy(), pages


def test_attention_by_the_adapter_of_each_sequence() -> None:
    made = partial(LinearLoRA, max_num_loras=SLOTS, max_lora_rank=RANK)
    adapted = _attention(AttentionWithRopeAndLoRA, linear_cls=made, has_bias=True)
    assert isinstance(adapted, AttentionWithRopeAndLoRA)
    state = filled(adapted)
    x = random(9, INPUTS)
    found, pages = _attend(adapted, x, adapts=True)
    plain = _attention(AttentionWithRope, has_bias=True)
    assert all(isinstance(layer, SupportsLoRA) for layer in adapted.qkv_loras)
    for text, (adapter, rank) in enumerate(zip(IDS, RANKS, strict=True)):
        merged = {}
        for name in plain.state_dict():
            merged[name] = state[name]
            if name.endswith(".weight") and adapter >= 0:
                a, b = (state[name.replace("weight", f"lora_{k}.weight")] for k in "AB")
                merged[name] = state[name] + b[adapter, :, :rank] @ a[adapter, :rank]
        plain.load_state_dict(merged)
        wanted, its_pages = _attend(plain, x, adapts=False)
        rows = slice(int(OFFSETS[text]), int(OFFSETS[text + 1]))
        np.testing.assert_allclose(found[rows], wanted[rows], rtol=2e-4, atol=2e-4)
        page = PAGES[text]
        np.testing.assert_allclose(pages[page], its_pages[page], rtol=2e-4, atol=2e-4)


def test_the_same_model_whose_layers_are_replaced() -> None:
    plain = _attention(AttentionWithRope)
    base = filled(plain)
    made = add_lora(plain, SLOTS, RANK, F32)
    assert sorted(made) == ["k_proj", "o_proj", "q_proj", "v_proj"]
    assert [path for path, _ in lora_layers(plain)] == list(made)
    state = {name: random(*weight.shape) for name, weight in plain.raw_state_dict().items()}
    plain.load_state_dict({**state, **base})
    own = partial(LinearLoRA, max_num_loras=SLOTS, max_lora_rank=RANK)
    other = _attention(AttentionWithRopeAndLoRA, linear_cls=own)
    other.load_state_dict({**state, **base})
    x = random(9, INPUTS)
    for one, two in zip(_attend(plain, x, True), _attend(other, x, True), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-4)


def test_a_batch_that_is_not_known() -> None:
    made = partial(LinearLoRA, max_num_loras=SLOTS, max_lora_rank=RANK)
    attention = _attention(AttentionWithRopeAndLoRA, linear_cls=made)
    assert isinstance(attention, AttentionWithRopeAndLoRA)
    symbols = PagedCacheInputSymbols.of(PARAMS, 1, CPU)
    types = [TensorType(F32, ["tokens", INPUTS]), TensorType(U32, ["ends"]), *symbols]
    with Graph("attend", input_types=types) as graph:
        x, offsets = (value.tensor for value in graph.inputs[:2])
        cache, number = PagedCacheValues.of(graph.inputs[2:]), nn.functional.constant(0, U32, CPU)
        with pytest.raises(ValueError, match="ML535"):
            attention.fused_qkv_lora(x, cache, offsets, number)
        with pytest.raises(ValueError, match="ML535"):
            _linear(CPU)(x)
        graph.output()
    for more in ({}, {"linear_cls": made, "stacked_qkv": True}):
        layer = _attention(AttentionWithRopeAndLoRA, **more)
        assert isinstance(layer, AttentionWithRopeAndLoRA)
        with pytest.raises(ValueError, match="ML536"):
            _ = layer.qkv_loras


def test_it_is_not_cut_for_several_devices() -> None:
    layer = _linear(CPU)
    with pytest.raises(ModuleError, match="ML719"):
        layer.sharding_strategy = ShardingStrategy.replicate(2)
    with pytest.raises(ModuleError, match="ML719"):
        layer.shard([CPU, DeviceRef.CPU(1)])
