"""Mixtures of experts whose tokens go to the devices with their experts: equal to one device, with
transfers of no more than what other devices need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from maxlab import engine
from maxlab.driver import Device
from maxlab.dtype import DType
from maxlab.errors import ModuleError, ShapeError, ShardCountError
from maxlab.graph import DeviceRef, Graph, ShardingStrategy, TensorType
from maxlab.nn.comm.ep import EPBatchManager, EPConfig
from maxlab.nn.moe import MoE
from maxlab.nn.moe.expert_parallel import for_all_tokens, forward_moe_sharded_layers
from tests.devices.places import (
    load,
    places,
    put,
    refs_of,
    signal_types,
    signals,
    taken,
    weights_on,
)
from tests.nn.moe import test_fp8
from tests.nn.moe.test_moe import layer, looped
from tests.nn.running import Array, filled, ran, random

CPU, F32, BF16 = DeviceRef.CPU(), DType.float32, DType.bfloat16
SHARED: dict[str, Any] = {"has_shared_experts": True, "shared_experts_dim": 20}
HIDDEN, CHOSEN = 16, 3


def loaded(
    module: Any, devices: Sequence[Device], width: int = HIDDEN, dtype: DType = F32
) -> engine.Model:
    """The layer on ``devices``: outputs, tokens by expert, and vectors by device."""
    refs = refs_of(devices)
    types = [TensorType(dtype, [f"n{n}", width], ref) for n, ref in enumerate(refs)]
    with Graph("moe", input_types=types) as graph:
        made = module([value.tensor for value in graph.inputs])
        graph.output(*made, module.tokens_per_expert, module.tokens_sent)
    return load(graph, devices, **module.state_dict())


def called(
    model: engine.Model, devices: Sequence[Device], xs: Sequence[Array]
) -> tuple[list[Array], Array, Array]:
    *ys, tokens, sent = model(*(put(x, device) for x, device in zip(xs, devices, strict=True)))
    return [taken(y) for y in ys], taken(tokens), taken(sent)


def experts_on(model: engine.Model) -> dict[int, set[int]]:
    """The numbers of the experts whose weights each device gets."""
    return {
        device: {int(name.split(".")[1]) for name in names if name.startswith("experts.")}
        for device, names in weights_on(model).items()
    }


def wanted_sent(indices: Sequence[Array], config: EPConfig) -> Array:
    """The vectors that each device sends to each, from the experts of its tokens."""
    many = config.n_gpus_per_node
    runs = [config.experts_of(n) for n in range(many)]
    return np.array([[np.isin(ids, run).sum() for run in runs] for ids in indices])


# ---------------------------------------------------------------- what it computes
@pytest.mark.parametrize(
    ("which", "experts", "first", "more", "counts"),
    [
        ("2 cpus", 9, False, SHARED, [6, 3]),
        ("3 cpus", 8, True, {}, [0, 5, 1]),
        ("4 cpus", 9, False, SHARED, [2, 0, 7, 1]),
        ("2 gpus", 5, True, SHARED, [3, 2]),
        ("late cpus", 4, False, {}, [0, 0]),
    ],
)
def test_it_is_one_device(
    which: str, experts: int, first: bool, more: dict[str, Any], counts: list[int]
) -> None:
    with places(which) as devices:
        given = {"num_experts": experts, "apply_router_weight_first": first, **more}
        module = layer(CPU, ep_size=len(devices), **given)
        state = filled(module)
        model = loaded(module, devices)
        one = layer(CPU, **given)
        one.load_state_dict(state)
        for seed in range(2):
            xs = [random(count + seed, HIDDEN) for count in counts]
            ys, tokens, sent = called(model, devices, xs)
            chosen = []
            for x, y in zip(xs, ys, strict=True):
                alone = ran(one, CPU, x, ["tokens", HIDDEN])
                if "cpu" in which:
                    np.testing.assert_array_equal(y, alone)
                assert y.shape == x.shape
                chosen.append(np.zeros((0, CHOSEN), np.int64))
                if len(x):
                    wanted, chosen[-1] = looped(state, x, CHOSEN, first)
                    np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-3)
            every = np.bincount(np.concatenate(chosen).ravel(), minlength=experts)
            np.testing.assert_array_equal(tokens, every)
            np.testing.assert_array_equal(sent, wanted_sent(chosen, module.ep_batch_manager.config))


def steered(module: MoE, expert: int) -> dict[str, Any]:
    """Random weights with which every token takes the experts from ``expert`` on."""
    state = filled(module)
    gate = np.zeros_like(state["gate.gate_score.weight"])
    gate[expert : expert + module.num_experts_per_token, 0] = [3, 2, 1][
        : module.num_experts_per_token
    ]
    state["gate.gate_score.weight"] = gate
    module.load_state_dict(state)
    return state


@pytest.mark.parametrize("chosen", [1, 3])
def test_all_tokens_to_one_device(chosen: int) -> None:
    """Experts of the other devices are not computed, and nothing is sent to these devices."""
    with places("4 cpus") as devices:
        module = layer(CPU, num_experts=12, num_experts_per_token=chosen, ep_size=4)
        state = steered(module, 6)  # device 2 has experts 6 to 8
        model = loaded(module, devices)
        xs = [np.abs(random(count, HIDDEN)) + 0.1 for count in (3, 1, 2, 5)]
        ys, tokens, sent = called(model, devices, xs)
        for x, y in zip(xs, ys, strict=True):
            np.testing.assert_allclose(y, looped(state, x, chosen, False)[0], rtol=1e-4, atol=1e-3)
        assert tokens.tolist() == [11 if 6 <= e < 6 + chosen else 0 for e in range(12)]
        assert sent.tolist() == [[0, 0, n * chosen, 0] for n in (3, 1, 2, 5)]
        kernels = model.profile(
            *(put(x, device) for x, device in zip(xs, devices, strict=True)), runs=1, warmup=0
        ).kernels
        work = dict.fromkeys(range(4), 0)
        for kernel, step in zip(kernels, model.plan.steps, strict=True):
            if "experts.matmul" in kernel.name:
                work[step.device.id] += kernel.flops
        assert work == {0: 0, 1: 0, 2: 11 * chosen * 2 * HIDDEN * (24 + 12), 3: 0}


def test_transfers_are_of_what_other_devices_need() -> None:
    with places("3 cpus") as devices:
        module = layer(CPU, num_experts=7, ep_size=3)
        filled(module)
        model = loaded(module, devices)
        xs = [random(count, HIDDEN) for count in (4, 9, 2)]
        _, _, sent = called(model, devices, xs)
        kernels = model.profile(
            *(put(x, device) for x, device in zip(xs, devices, strict=True)), runs=1, warmup=0
        ).kernels
        copies = [kernel.nbytes // 2 for kernel in kernels if kernel.name == "transfer"]
        moved = sent.sum() - np.trace(sent)
        assert 0 < moved < sent.sum()
        manager = module.ep_batch_manager
        assert (manager.dispatch_bytes, manager.combine_bytes) == (4 * HIDDEN + 4, 4 * HIDDEN)
        counted = 2 * 3 * 8 + 2 * 7 * 8  # tokens_sent and tokens_per_expert go to one device
        assert sum(copies) == moved * (manager.dispatch_bytes + manager.combine_bytes) + counted


def test_no_device_holds_experts_of_others() -> None:
    with places("3 cpus") as devices:
        module = layer(CPU, num_experts=8, ep_size=3, **SHARED)
        filled(module)
        model = loaded(module, devices)
        assert experts_on(model) == {0: {0, 1, 2}, 1: {3, 4, 5}, 2: {6, 7}}
        read = {slot.name for slot in model.plan.slots if slot.kind == "weight"}
        assert not any(name.startswith("experts.") for name in read), "they are stacked at load"


def test_layers_that_share_a_manager_and_one_that_is_called_twice() -> None:
    with places("2 cpus") as devices:
        manager = EPBatchManager(EPConfig(F32, F32, HIDDEN, CHOSEN, 8, 64, 2))
        first, second = (layer(CPU, ep_size=2, ep_batch_manager=manager) for _ in range(2))
        assert first.ep_batch_manager is second.ep_batch_manager is manager
        states = [filled(module) for module in (first, second)]
        types = [TensorType(F32, ["n", HIDDEN], ref) for ref in refs_of(devices)]
        for number, module in enumerate((first, second)):
            for name, weight in module.raw_state_dict().items():
                weight.name = f"{number}.{name}"
        with Graph("moe", input_types=types) as graph:
            values = [value.tensor for value in graph.inputs]
            graph.output(*first(second(first(values))))
        named = {
            f"{n}.{name}": one for n, state in enumerate(states) for name, one in state.items()
        }
        xs = [random(4, HIDDEN) * 0.1 for _ in range(2)]
        ys = load(graph, devices, **named)(*map(put, xs, devices))
        for x, y in zip(xs, ys, strict=True):
            wanted = x
            for state in (states[0], states[1], states[0]):
                wanted, _ = looped(state, wanted, CHOSEN, False)
            np.testing.assert_allclose(
                taken(y), wanted, rtol=1e-3, atol=1e-3 * np.abs(wanted).max()
            )


def test_vectors_travel_in_other_dtypes() -> None:
    """Inputs of experts are rounded to bfloat16, results to float16; gates see the inputs."""
    with places("2 cpus") as devices:
        manager = EPBatchManager(EPConfig(BF16, DType.float16, HIDDEN, CHOSEN, 8, None, 2))
        module = layer(CPU, ep_size=2, ep_batch_manager=manager)
        state = filled(module)
        xs = [random(count, HIDDEN) for count in (3, 2)]
        ys, _, _ = called(loaded(module, devices), devices, xs)
        assert (manager.dispatch_bytes, manager.combine_bytes) == (2 * HIDDEN + 4, 2 * HIDDEN)
        gate = state["gate.gate_score.weight"]
        for x, y in zip(xs, ys, strict=True):
            rows = x.astype(BF16.ml_numpy).astype(np.float32)
            wanted = np.zeros_like(x)
            for token, row in enumerate(rows):
                scores = gate @ x[token]
                best = np.argsort(-scores)[:CHOSEN]
                weights = np.exp(scores[best] - scores[best].max())
                for expert, weight in zip(best, weights / weights.sum(), strict=True):
                    parts = [
                        state[f"experts.{expert}.{n}_proj.weight"] for n in ("gate", "up", "down")
                    ]
                    inner = parts[0] @ row
                    made = parts[2] @ (inner / (1 + np.exp(-inner)) * (parts[1] @ row))
                    wanted[token] += weight * made.astype(np.float16)
            np.testing.assert_allclose(y, wanted, rtol=2e-3, atol=2e-3)
            assert np.abs(y - looped(state, x, CHOSEN, False)[0]).max() > 1e-3, "they are rounded"


def test_numbers_of_16_bits_are_those_of_one_device() -> None:
    with places("2 cpus") as devices:
        module, one = (layer(CPU, dtype=BF16, ep_size=n, **SHARED) for n in (2, 1))
        state = filled(module)
        one.load_state_dict(state)
        assert module.ep_batch_manager.dispatch_bytes == 2 * HIDDEN + 4
        xs = [random(count, HIDDEN).astype(BF16.ml_numpy) for count in (4, 3)]
        ys, _, _ = called(loaded(module, devices, dtype=BF16), devices, xs)
        for x, y in zip(xs, ys, strict=True):
            np.testing.assert_array_equal(y, ran(one, CPU, x, ["tokens", HIDDEN]))


@pytest.mark.parametrize("name", test_fp8.SCALES)
def test_experts_of_8_bits(name: str) -> None:
    """Scales of rows and blocks are those of one device; a scale of all rows is that of a device,
    so that tokens which all go to one are as on one device."""
    with places("2 cpus") as devices:
        width, counts = test_fp8.HIDDEN, (4, 0) if name == "tensor" else (4, 3)
        module = test_fp8.layer(CPU, name, ep_size=2)
        state = test_fp8.filled(module)
        if name == "tensor":
            state["gate.gate_score.weight"][:4] = -9
            state["gate.gate_score.weight"][4:] = 9
            module.load_state_dict(state)
        model = loaded(module, devices, width)
        xs = [np.abs(random(count, width)) for count in counts]
        ys, tokens, _ = called(model, devices, xs)
        assert tokens.sum() == sum(counts) * test_fp8.CHOSEN
        assert (name == "tensor") == (tokens[:4].sum() == 0)
        for x, y in zip(xs, ys, strict=True):
            if len(x):
                test_fp8.close(y, test_fp8.looped(state, x, name))
        assert experts_on(model) == {0: {0, 1, 2}, 1: {3, 4, 5}}


@pytest.mark.parametrize("collective", [True, False])
def test_tokens_that_all_devices_have(collective: bool) -> None:
    """Each device sends its share, also when that is none."""
    with places("3 cpus") as devices:
        refs = refs_of(devices)
        module = layer(CPU, num_experts=7, ep_size=3)
        state = filled(module)
        types: list[Any] = [TensorType(F32, ["n", HIDDEN], ref) for ref in refs]
        types += signal_types(refs) if collective else []
        with Graph("moe", input_types=types) as graph:
            values = [value.tensor for value in graph.inputs[:3]]
            buffers = [value.buffer for value in graph.inputs[3:]] or None
            graph.output(*for_all_tokens(module, values, buffers), module.tokens_sent)
        model = load(graph, devices, **state)
        extra = signals(devices) if collective else []
        for count in (1, 5):
            x = random(count, HIDDEN)
            *ys, sent = model(*(put(x, device) for device in devices), *extra)
            wanted, _ = looped(state, x, CHOSEN, False)
            for y in ys:
                np.testing.assert_allclose(taken(y), wanted, rtol=1e-4, atol=1e-3)
            shares = [count * (n + 1) // 3 - count * n // 3 for n in range(3)]
            assert taken(sent).sum(1).tolist() == [CHOSEN * share for share in shares]


# ---------------------------------------------------------------- what is refused
def test_layers_and_devices_that_do_not_fit() -> None:
    config = EPConfig(F32, F32, HIDDEN, CHOSEN, 8, None, 2)
    wrong: list[dict[str, Any]] = [
        {"ep_batch_manager": object(), "ep_size": 2},
        {"ep_batch_manager": EPBatchManager(config)},
        {"ep_batch_manager": EPBatchManager(config), "ep_size": 2, "num_experts": 9},
        {"ep_batch_manager": EPBatchManager(config), "ep_size": 2, "num_experts_per_token": 2},
    ]
    for more in wrong:
        with pytest.raises(ModuleError, match="ML521"):
            layer(CPU, **more)
    with pytest.raises(ShapeError, match="ML798"):
        layer(CPU, ep_size=9)
    module, without = layer(CPU, ep_size=2), layer(CPU)
    with pytest.raises(ModuleError, match="ML521"):
        module.sharding_strategy = ShardingStrategy.expert_parallel(3)
    assert module.sharding_strategy is not None
    assert module.sharding_strategy.is_expert_parallel
    refs = [DeviceRef.CPU(0), DeviceRef.CPU(1)]
    with Graph("moe", input_types=[TensorType(F32, [2, HIDDEN], ref) for ref in refs]) as graph:
        xs = [value.tensor for value in graph.inputs]
        shards = module.shard(refs)
        calls: list[Any] = [
            lambda: module([xs[0], xs[0]]),
            lambda: module([*xs, xs[0]]),
            lambda: shards[0](xs[0]),
            lambda: forward_moe_sharded_layers(shards[::-1], xs),
            lambda: forward_moe_sharded_layers([shards[0], module.shard(refs)[0]], xs),
        ]
        for call in calls:
            with pytest.raises(ModuleError, match="ML521"):
                call()
        with pytest.raises(ShardCountError, match="ML467"):
            forward_moe_sharded_layers(shards, xs[:1])
        with pytest.raises(ModuleError, match="ML668"):
            _ = module.tokens_sent
        graph.output(*forward_moe_sharded_layers(shards, xs), module(xs[0]))
        assert not module.has_sent
    with Graph("moe", input_types=[TensorType(F32, [2, HIDDEN], refs[0])]) as graph:
        x = graph.inputs[0].tensor
        with pytest.raises(ModuleError, match="ML521"):
            without([x, x])
        graph.output(without(x))
        with pytest.raises(ModuleError, match="ML668"):
            _ = without.tokens_sent


def test_shards_that_send_nothing_are_called_one_by_one() -> None:
    module = layer(CPU)
    module.sharding_strategy = ShardingStrategy.expert_parallel(2)
    refs = [DeviceRef.CPU(0), DeviceRef.CPU(1)]
    with Graph("moe", input_types=[TensorType(F32, [2, HIDDEN], ref) for ref in refs]) as graph:
        found = forward_moe_sharded_layers(module.shard(refs), [v.tensor for v in graph.inputs])
        graph.output(*found)
    assert [y.device for y in found] == refs
    with pytest.raises(ModuleError, match="ML676"):
        _ = module.ep_batch_manager
    assert [list(y.shape) for y in found] == [[2, HIDDEN]] * 2
