"""Linear layers of weights as GPTQ stores them: AutoGPTQ's formula, and packed in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from maxlab import nn
from maxlab.dtype import DType
from maxlab.errors import ArgumentError, ArgumentTypeError, ModuleError, ShapeError
from maxlab.graph import DeviceRef, Graph, ShardingStrategy, TensorType, Weight, ops
from maxlab.graph.quantization import QuantizationConfig, QuantizationEncoding
from maxlab.graph.weights.declared import DeclaredWeights
from maxlab.nn.gptq import sorted_by_group
from tests.cpu_and_gpu import session
from tests.devices.places import load, places, put, refs_of, taken
from tests.ids import stable
from tests.nn.gptq_weights import checkpoint, numbers
from tests.nn.running import ran, random

F32 = DType.float32
CPU = DeviceRef.CPU()
GPTQ = QuantizationEncoding.GPTQ
loose: Any = nn
"""The layers, for calls whose types are wrong."""


def config(bits: int = 4, group_size: int = 32, **more: Any) -> QuantizationConfig:
    return QuantizationConfig("gptq", bits, group_size, sym=True, **more)


@pytest.mark.parametrize("act_order", [False, True], ids=["in order", "by activation"])
@pytest.mark.parametrize("bits", [4, 8])
def test_the_layer_computes_the_formula(bits: int, act_order: bool, place: DeviceRef) -> None:
    found = checkpoint(bits, 128, 40, 32, act_order)
    layer = nn.GPTQLinear(
        128, 40, F32, place, True, GPTQ, config(bits, desc_act=act_order)
    )  # fmt: skip
    words, perm = sorted_by_group(found["qweight"], found["g_idx"], bits)
    state = {"qweight": words, "scales": found["scales"], "bias": random(40)}
    if act_order:
        assert not np.array_equal(words, found["qweight"])
        state["perm_idx"] = perm
    else:
        assert np.array_equal(words, found["qweight"])
    layer.load_state_dict(state)
    x = random(2, 3, 128)
    want = x @ numbers(found, bits) + state["bias"]
    assert np.allclose(ran(layer, place, x, ["a", "b", 128]), want, atol=1e-3)


def test_one_group_and_halves() -> None:
    found = checkpoint(4, 64, 8, 64, False)
    layer = nn.GPTQLinear(64, 8, DType.float16, CPU, quantization_config=config(group_size=-1))
    layer.load_state_dict({"qweight": found["qweight"], "scales": found["scales"]})
    x = random(3, 64).astype(np.float16)
    made = ran(layer, CPU, x)
    assert made.dtype == np.float16
    assert np.allclose(made, x.astype(np.float32) @ numbers(found, 4), rtol=2e-3, atol=2e-2)


def test_weights_stay_packed_in_memory() -> None:
    found = checkpoint(4, 4096, 512, 128, False)
    layer = nn.GPTQLinear(4096, 512, F32, CPU, quantization_config=config(group_size=128))
    layer.load_state_dict({"qweight": found["qweight"], "scales": found["scales"]})
    graph = Graph("g", layer, [TensorType(F32, [1, 4096])])
    model = session(CPU).load(graph, weights_registry=layer.state_dict())
    nbytes = sum(slot.nbytes.evaluate({}) for slot in model.plan.slots)
    packed = found["qweight"].nbytes + found["scales"].nbytes
    assert nbytes < 1.1 * packed  # as floats, it would be 7.5 times as much


@pytest.mark.parametrize("which", ["2 cpus", "4 cpus"])
def test_shards_are_columns_of_words(which: str) -> None:
    found = checkpoint(4, 64, 8, 32, True)
    layer = nn.GPTQLinear(64, 8, F32, CPU, True, GPTQ, config(desc_act=True))
    words, perm = sorted_by_group(found["qweight"], found["g_idx"])
    state = {"qweight": words, "scales": found["scales"], "perm_idx": perm, "bias": random(8)}
    layer.load_state_dict(state)
    x = random(2, 64)
    with places(which) as devices:
        refs = refs_of(devices)
        layer.sharding_strategy = ShardingStrategy.rowwise(len(refs))
        shards: list[Any] = layer.shard(refs)
        assert [s.qweight.shape[1] for s in shards] == [8 // len(refs)] * len(refs)
        with Graph("g", input_types=[TensorType(F32, [2, 64], refs[0])]) as graph:
            given = graph.inputs[0].tensor
            parts = [
                shard(ops.transfer_to(given, ref)) for shard, ref in zip(shards, refs, strict=True)
            ]
            graph.output(ops.concat([ops.transfer_to(y, refs[0]) for y in parts], -1))
        made = taken(load(graph, devices, **state)(put(x, devices[0]))[0])
    assert np.allclose(made, x @ numbers(found, 4) + state["bias"], atol=1e-3)
    with pytest.raises(ModuleError, match="ML719"):
        layer.sharding_strategy = ShardingStrategy.columnwise(2)


def test_older_layers_take_words_and_scales() -> None:
    found = checkpoint(4, 64, 8, 32, True)
    words, perm = sorted_by_group(found["qweight"], found["g_idx"])
    pair: Any = (words, found["scales"])

    class Old(nn.Module):
        def __call__(self, x: Any) -> Any:
            return nn.GPTQLinearV1(pair, None, GPTQ, config(desc_act=True), perm)(x)

    x = random(2, 64)
    assert np.allclose(ran(Old(), CPU, x), x @ numbers(found, 4), atol=1e-3)


def test_older_layers_find_words_and_scales() -> None:
    layer: Any = DeclaredWeights().layer
    made: Any = loose.LinearV1.create(
        F32, GPTQ, 64, 8, layer, layer.bias, config(desc_act=True)
    )  # fmt: skip
    assert type(made).__name__ == "GPTQLinearV1"
    assert [w.name for w in (*made.weight, made.perm_idx, made.bias)] == [
        "layer.qweight",
        "layer.scales",
        "layer.perm_idx",
        "layer.bias",
    ]
    assert [list(w.shape) for w in made.weight] == [[8, 8], [2, 8]]


@pytest.mark.parametrize(
    ("make", "error", "code"),
    [
        (lambda: nn.GPTQLinear(64, 8, F32, CPU), ModuleError, "ML799"),
        (
            lambda: nn.GPTQLinear(
                64, 8, F32, CPU, quantization_config=QuantizationConfig("gptq", 4, 32)
            ),
            ModuleError,
            "sym=False",
        ),
        (
            lambda: nn.GPTQLinear(
                64, 8, F32, CPU, quantization_config=QuantizationConfig("awq", 4, 32, sym=True)
            ),
            ModuleError,
            "ML799",
        ),
        (
            lambda: nn.GPTQLinear(64, 8, F32, CPU, quantization_config=config(3)),
            ModuleError,
            "3 bits",
        ),
        (
            lambda: nn.GPTQLinear(64, 8, F32, CPU, quantization_config=config(4, 48)),
            ModuleError,
            "ML799",
        ),
        (
            lambda: nn.GPTQLinear(64, 8, F32, CPU, quantization_config=config(4, 4)),
            ModuleError,
            "ML799",
        ),
        (
            lambda: nn.GPTQLinear(
                64, 8, F32, CPU, False, QuantizationEncoding.Q4_0, quantization_config=config()
            ),
            ModuleError,
            "ML799",
        ),
        (
            lambda: nn.GPTQLinear(
                64, 8, F32, CPU, quantization_config=config(), float8_config=object()
            ),
            ModuleError,
            "ML717",
        ),
        (lambda: loose.GPTQLinear(0, 8, F32, CPU), ArgumentError, "ML716"),
        (
            lambda: nn.GPTQLinearV1(np.zeros((8, 8)), None, GPTQ, config()),
            ModuleError,
            "qweight, scales",
        ),
        (
            lambda: loose.GPTQLinearV1((1, 2), None, GPTQ, config(desc_act=True)),
            ModuleError,
            "perm_idx",
        ),
        (
            lambda: nn.LinearV1.create(
                F32, GPTQ, 64, 8, Weight("w", F32, [1]), None, config()
            ),
            ModuleError,
            "several weights",
        ),
        (
            lambda: sorted_by_group(np.zeros((2, 3), np.int32), np.zeros(8, np.int32)),
            ModuleError,
            "ML799",
        ),
    ],
    ids=stable,
)  # fmt: skip
def test_weights_that_are_packed_otherwise_are_refused(
    make: Any, error: type[Exception], code: str
) -> None:
    with pytest.raises(error, match=code):
        make()


I32, F16 = DType.int32, DType.float16


@pytest.mark.parametrize(
    ("types", "bits", "error", "code"),
    [
        ([(F32, [2, 64]), (I32, [8, 8]), (F16, [2, 8])], 3, ArgumentError, "ML737"),
        ([(F16, [2, 64]), (I32, [8, 8]), (F16, [2, 8])], 4, ArgumentTypeError, "ML738"),
        ([(F32, [2, 64]), (F32, [8, 8]), (F16, [2, 8])], 4, ArgumentTypeError, "ML738"),
        ([(F32, [2, 64]), (I32, [8, 8]), (I32, [2, 8])], 4, ArgumentTypeError, "ML738"),
        ([(F32, [2, 64]), (I32, ["w", 8]), (F16, [2, 8])], 4, ShapeError, "ML739"),
        ([(F32, [2, 64]), (I32, [8]), (F16, [2, 8])], 4, ShapeError, "ML739"),
        ([(F32, [2, 64]), (I32, [8, 8]), (F16, [3, 8])], 4, ShapeError, "ML740"),
        ([(F32, [2, 64]), (I32, [8, 8]), (F16, [0, 8])], 4, ShapeError, "ML740"),
        ([(F32, [2, 64]), (I32, [8, 8]), (F16, [16, 8])], 4, ShapeError, "ML740"),
        ([(F32, [2, 64]), (I32, [8, 8]), (F16, [2, 7])], 4, ShapeError, "ML741"),
        ([(F32, [2, 63]), (I32, [8, 8]), (F16, [2, 8])], 4, ShapeError, "ML741"),
    ],
    ids=stable,
)
def test_products_refuse_what_does_not_fit(
    types: Any, bits: int, error: type[Exception], code: str
) -> None:
    given = [TensorType(kind, shape) for kind, shape in types]
    with pytest.raises(error, match=code):
        Graph("g", lambda x, words, scales: ops.matmul_groups(x, words, scales, bits), given)
