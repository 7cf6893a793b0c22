"""Mixtures of experts against a loop over tokens and against transformers, whole and in shards."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch

from maxlab import nn
from maxlab.dtype import DType
from maxlab.errors import ArgumentError, ModuleError, ShapeError
from maxlab.graph import DeviceRef, Graph, ShardingStrategy, TensorType, TensorValue, ops
from maxlab.nn.moe import MoE, MoEGate
from tests.cpu_and_gpu import at, numpy, session
from tests.devices.places import load, places, put, refs_of, taken
from tests.nn.running import Array, filled, ran, random

CPU, F32 = DeviceRef.CPU(), DType.float32
SIZES: dict[str, Any] = {
    "hidden_dim": 16, "num_experts": 8, "num_experts_per_token": 3, "moe_dim": 12, "dtype": F32,
}  # fmt: skip


class Weighted(MoEGate):
    """Weights are the softmax over the chosen experts."""

    def __call__(self, hidden_state: TensorValue) -> tuple[TensorValue, TensorValue]:
        indices, scores = super().__call__(hidden_state)
        return indices, ops.softmax(scores)


def layer(place: DeviceRef, **more: Any) -> MoE:
    return MoE([place], gate_cls=Weighted, **{**SIZES, **more})


def mlp(state: Mapping[str, Any], name: str, x: torch.Tensor) -> torch.Tensor:
    gate, up, down = (
        torch.from_numpy(state[f"{name}.{part}_proj.weight"]).double()
        for part in ("gate", "up", "down")
    )
    return (torch.nn.functional.silu(x @ gate.T) * (x @ up.T)) @ down.T


def looped(state: Mapping[str, Any], x: Array, chosen: int, first: bool) -> tuple[Array, Array]:
    """What the layer makes of ``x``, token by token, and the experts of each token."""
    rows = torch.from_numpy(x).double().reshape(-1, x.shape[-1])
    scores = rows @ torch.from_numpy(state["gate.gate_score.weight"]).double().T
    best, indices = torch.topk(scores, chosen)
    weights = best.softmax(-1)
    shared = "shared_experts.up_proj.weight" in state
    made = []
    for token, row in enumerate(rows):
        y = mlp(state, "shared_experts", row) if shared else torch.zeros_like(row)
        for expert, weight in zip(indices[token].tolist(), weights[token], strict=True):
            name = f"experts.{expert}"
            y = y + (mlp(state, name, row * weight) if first else weight * mlp(state, name, row))
        made.append(y)
    return torch.stack(made).reshape(x.shape).numpy(), indices.numpy()


# ---------------------------------------------------------------- one device
@pytest.mark.parametrize(
    ("first", "shared", "chosen", "shape"),
    [(False, 0, 3, (5,)), (True, 10, 3, (2, 4)), (False, 10, 1, (1,)), (False, 0, 8, (2, 3))],
)
def test_a_layer_is_a_loop_over_tokens(
    place: DeviceRef, first: bool, shared: int, chosen: int, shape: tuple[int, ...]
) -> None:
    more = {"has_shared_experts": True, "shared_experts_dim": shared} if shared else {}
    module = layer(place, num_experts_per_token=chosen, apply_router_weight_first=first, **more)
    state, x = filled(module), random(*shape, 16)
    names = ["tokens", "more"][: len(shape)]
    with Graph("moe", input_types=[TensorType(F32, [*names, 16], place)]) as graph:
        y = module(graph.inputs[0].tensor)
        graph.output(y, module.tokens_per_expert)
    made, counts = session(place).load(graph, weights_registry=state)(at(x, place))
    wanted, indices = looped(state, x, chosen, first)
    np.testing.assert_allclose(numpy(made), wanted, rtol=1e-4, atol=1e-3)
    np.testing.assert_array_equal(numpy(counts), np.bincount(indices.ravel(), minlength=8))


def test_weights_are_named_by_expert_and_stacked() -> None:
    module = layer(CPU, num_experts=2, num_experts_per_token=1)
    state = filled(module)
    parts = [f"{part}_proj.weight" for part in ("gate", "down", "up")]
    names = [f"experts.{n}.{part}" for n in range(2) for part in parts]
    assert list(state) == ["gate.gate_score.weight", *names]
    with Graph("moe", input_types=[TensorType(F32, ["tokens", 16], CPU)]) as graph:
        stacked = [module.gate_up_proj, module.down_proj]
        graph.output(module(graph.inputs[0].tensor), *stacked)
    gate_up, down = (np.array(y.to_numpy()) for y in session(CPU).load(
        graph, weights_registry=state)(random(1, 16))[1:])  # fmt: skip
    for n in range(2):
        gate, last, up = (state[f"experts.{n}.{part}"] for part in parts)
        np.testing.assert_array_equal(gate_up[n], np.concatenate([gate, up]))
        np.testing.assert_array_equal(down[n], last)


def test_weights_are_stacked_when_a_model_is_loaded(place: DeviceRef) -> None:
    module = layer(place, num_experts=3)
    graph = Graph("moe", module, [TensorType(F32, ["tokens", 16], place)])
    model = session(place).load(graph, weights_registry=module.state_dict())
    names = " ".join(step.name for step in model.plan.steps)
    assert "experts.matmul" in names
    assert "concat" not in names
    assert "transfer" not in names


def test_tokens_of_experts_are_read_on_the_host_while_a_model_runs(place: DeviceRef) -> None:
    module, seen = layer(place, num_experts_per_token=1), []
    state, x = filled(module), random(7, 16)
    with Graph("moe", input_types=[TensorType(F32, ["tokens", 16], place)]) as graph:
        y = module(graph.inputs[0].tensor)
        ops.watch(module.tokens_per_expert, lambda counts: seen.append(np.array(counts)), "load")
        graph.output(y)
    numpy(session(place).load(graph, weights_registry=state)(at(x, place))[0])
    _, indices = looped(state, x, 1, False)
    np.testing.assert_array_equal(seen, [np.bincount(indices.ravel(), minlength=8)])


def test_work_follows_the_tokens() -> None:
    """One token of 64 experts costs two products of one expert, and the gate."""
    module = layer(CPU, num_experts=64, num_experts_per_token=1)
    state = filled(module)
    graph = Graph("moe", module, [TensorType(F32, ["tokens", 16], CPU)])
    model = session(CPU).load(graph, weights_registry=state)
    for tokens in (1, 5):
        profile = model.profile(random(tokens, 16), runs=1, warmup=0)
        work = sum(k.flops for k in profile.kernels if "experts" in k.name)
        assert work == tokens * 2 * 16 * (24 + 12)
        assert sum(k.flops for k in profile.kernels) < work + tokens * (2 * 16 * 64 + 2000)


def test_halves(place: DeviceRef) -> None:
    module = layer(place, dtype=DType.bfloat16)
    state = filled(module)
    wide = {name: value.astype(np.float32) for name, value in state.items()}
    x = random(6, 16).astype(next(iter(state.values())).dtype)
    wanted, _ = looped(wide, x.astype(np.float32), 3, False)
    found = ran(module, place, x).astype(np.float32)
    np.testing.assert_allclose(found, wanted, rtol=0.03, atol=0.02 * np.abs(wanted).max())


# ---------------------------------------------------------------- transformers
class Softmax(MoEGate):
    """Weights are those of a softmax over all experts, times a factor."""

    factor, is_normalised = 1.0, False

    def __call__(self, hidden_state: TensorValue) -> tuple[TensorValue, TensorValue]:
        weights = ops.softmax(self.gate_score(hidden_state))
        values, indices = ops.top_k(weights, self.num_experts_per_token)
        if self.is_normalised:
            values = values / ops.sum(values)
        return indices, values * self.factor


def _loaded(module: MoE, block: Any, size: int) -> None:
    """The weights of a block of transformers in ``module``."""
    state = {"gate.gate_score.weight": block.gate.weight}
    for n, (both, down) in enumerate(
        zip(block.experts.gate_up_proj, block.experts.down_proj, strict=True)
    ):
        name = f"experts.{n}"
        state[f"{name}.gate_proj.weight"], state[f"{name}.up_proj.weight"] = both.split(size)
        state[f"{name}.down_proj.weight"] = down
    if module.shared_experts is not None:
        state |= {f"shared_experts.{k}": v for k, v in block.shared_experts.state_dict().items()}
    module.load_state_dict({k: v.detach().contiguous().numpy() for k, v in state.items()})


def _random(block: Any, seed: int) -> Any:
    torch.manual_seed(seed)
    with torch.no_grad():
        for weight in block.parameters():
            weight.copy_(torch.randn_like(weight) * 0.3)
    return block.eval()


@pytest.mark.parametrize("is_normalised", [False, True])
def test_it_is_the_block_of_qwen3(is_normalised: bool) -> None:
    from transformers.models.qwen3_moe import modeling_qwen3_moe as theirs

    config = theirs.Qwen3MoeConfig(
        hidden_size=16, num_experts=8, num_experts_per_tok=3, moe_intermediate_size=12,
        norm_topk_prob=is_normalised,
    )  # fmt: skip
    block = _random(theirs.Qwen3MoeSparseMoeBlock(config), 1)

    class Gate(Softmax):
        pass

    Gate.is_normalised = is_normalised
    module = MoE([CPU], gate_cls=Gate, **SIZES)
    _loaded(module, block, 12)
    x = random(2, 7, 16)
    with torch.no_grad():
        wanted = block(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(ran(module, CPU, x), wanted, rtol=1e-4, atol=1e-5)


def test_it_is_the_block_of_deepseek() -> None:
    from transformers.models.deepseek_v2 import modeling_deepseek_v2 as theirs

    config = theirs.DeepseekV2Config(
        hidden_size=16, n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=12,
        n_shared_experts=2, num_attention_heads=2, routed_scaling_factor=2.5, topk_method="greedy",
    )  # fmt: skip
    block = _random(theirs.DeepseekV2Moe(config), 2)

    class Gate(Softmax):
        factor = 2.5

    more: dict[str, Any] = {"has_shared_experts": True, "shared_experts_dim": 24}
    module = MoE([CPU], gate_cls=Gate, **SIZES, **more)
    _loaded(module, block, 12)
    x = random(2, 5, 16)
    with torch.no_grad():
        wanted = block(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(ran(module, CPU, x), wanted, rtol=1e-4, atol=1e-5)


# ---------------------------------------------------------------- several devices
@pytest.mark.parametrize(
    ("which", "name"),
    [
        ("2 cpus", "rowwise"),
        ("2 cpus", "replicate"),
        ("4 cpus", "expert_parallel"),
        ("2 gpus", "expert_parallel"),
    ],
)
def test_shards_add_up(which: str, name: str) -> None:
    with places(which) as devices:
        refs = refs_of(devices)
        module = layer(CPU, has_shared_experts=True, shared_experts_dim=20, num_experts=9)
        state, x = filled(module), random(6, 16)
        module.sharding_strategy = getattr(ShardingStrategy, name)(len(refs))
        with Graph("moe", input_types=[TensorType(F32, ["n", 16], ref) for ref in refs]) as graph:
            shards = module.shard(refs)
            values = [v.tensor for v in graph.inputs]
            graph.output(*(shard(v) for shard, v in zip(shards, values, strict=True)))
        parts = [taken(y) for y in load(graph, devices, **state)(*(put(x, d) for d in devices))]
        wanted, _ = looped(state, x, 3, False)
        found = parts[-1] if name == "replicate" else np.sum(parts, axis=0)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-3)
        own = [_elements(shard) for shard in shards]
        whole = sum(value.size for value in state.values()) - state["gate.gate_score.weight"].size
        assert sum(own) == whole * (len(refs) if name == "replicate" else 1)
        if name != "replicate":
            assert max(own) < whole * 0.6


def _elements(shard: MoE) -> int:
    """The elements of the weights of the experts of a shard."""
    parts = [*shard.experts, shard.shared_experts]
    layers = [layer for e in parts for layer in (e.gate_proj, e.up_proj, e.down_proj)]
    return sum(math.prod(int(dim) for dim in each.weight.shape) for each in layers)


def test_shards_that_cannot_be_are_refused() -> None:
    module = layer(CPU)
    with pytest.raises(ModuleError, match="ML719"):
        module.shard([CPU])
    with pytest.raises(ModuleError, match="ML719"):
        module.sharding_strategy = ShardingStrategy.columnwise(2)
    with pytest.raises(ModuleError, match="ML719"):
        module.gate.sharding_strategy = ShardingStrategy.rowwise(2)
    with pytest.raises(ShapeError, match="ML798"):
        module.sharding_strategy = ShardingStrategy.expert_parallel(9)
    assert module.sharding_strategy is None
    module.sharding_strategy = ShardingStrategy.expert_parallel(2)
    with pytest.raises(ValueError, match="ML796"):
        module.shard([CPU])
    module.gate.sharding_strategy = ShardingStrategy.replicate(2)
    assert len(module.gate.shard([CPU, CPU])) == 2


# ---------------------------------------------------------------- errors
@pytest.mark.parametrize(
    ("more", "kind", "code"),
    [
        ({"num_experts": 0}, ArgumentError, "ML716"),
        ({"num_experts_per_token": 9}, ArgumentError, "ML675"),
        ({"shared_experts_dim": 8}, ArgumentError, "ML675"),
        ({"has_shared_experts": True}, ArgumentError, "ML716"),
        ({"ep_size": 0}, ArgumentError, "ML716"),
        ({"ep_batch_manager": object()}, ModuleError, "ML521"),
        ({"float8_config": object()}, ModuleError, "ML717"),
    ],
)
def test_what_cannot_be_built(more: dict[str, Any], kind: type[Exception], code: str) -> None:
    with pytest.raises(kind, match=code):
        layer(CPU, **more)


def test_no_manager_and_no_call() -> None:
    module = layer(CPU)
    with pytest.raises(ModuleError, match="ML676"):
        _ = module.ep_batch_manager
    with pytest.raises(ModuleError, match="ML668"):
        _ = module.tokens_per_expert
    with pytest.raises(ArgumentError, match="ML721"):
        MoE([], **SIZES)


@pytest.mark.parametrize("turned", ["swapped", "one", "many"])
def test_a_gate_that_gives_something_else(turned: str) -> None:
    class Gate(MoEGate):
        def __call__(self, hidden_state: TensorValue) -> Any:
            indices, scores = super().__call__(hidden_state)
            given = {"swapped": (scores, indices), "one": indices}
            return given.get(turned, (indices[:, :1], scores[:, :1]))

    module = MoE([CPU], gate_cls=Gate, **SIZES)
    with pytest.raises(ShapeError, match="ML677"):
        Graph("moe", module, [TensorType(F32, ["tokens", 16], CPU)])


def test_the_module_is_of_nn() -> None:
    assert nn.moe.MoE is MoE
