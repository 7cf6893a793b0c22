"""The experts of GPT-OSS against those of transformers, and what of its checkpoints is refused."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
import torch
from transformers.models.gpt_oss import modeling_gpt_oss as theirs

from maxlab.dtype import DType
from maxlab.errors import ModuleError, UnsupportedError
from maxlab.graph import DeviceRef, Graph, ShardingStrategy, TensorType
from maxlab.nn.kv_cache import KVCacheParams
from maxlab.nn.transformer import ReturnLogits
from maxlab.pipelines.architectures import gpt_oss, qwen3_moe
from maxlab.pipelines.architectures.decoder_parts import Given, rope_of
from tests.cpu_and_gpu import at, numpy, session
from tests.nn.running import random

F32 = DType.float32
PARAMS = KVCacheParams(F32, n_kv_heads=2, head_dim=8, page_size=128)


def _config(**more: Any) -> Any:
    return theirs.GptOssConfig(
        hidden_size=16, intermediate_size=12, num_local_experts=6, num_experts_per_tok=2,
        num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2, head_dim=8,
        vocab_size=32, swiglu_limit=0.7, swiglu_alpha=1.3, **more,
    )  # fmt: skip


def _given(place: DeviceRef) -> Given:
    return Given(F32, place, PARAMS, 64, ReturnLogits.LAST_TOKEN)


def test_experts_are_those_of_transformers(place: DeviceRef) -> None:
    config = _config()
    torch.manual_seed(4)
    block = theirs.GptOssMLP(config).eval()
    with torch.no_grad():
        for weight in block.parameters():
            weight.copy_(torch.randn_like(weight) * 0.4)
    state = {k.replace("router.", "gate.gate_score."): v for k, v in block.state_dict().items()}
    module = gpt_oss.SparseMLP(config, _given(place))
    module.load_state_dict({k: v.numpy() for k, v in state.items()})
    graph = Graph("experts", module, [TensorType(F32, ["tokens", 16], place)])
    model = session(place).load(graph, weights_registry=module.state_dict())
    names = " ".join(step.name for step in model.plan.steps)
    assert "experts.matmul" in names
    assert "transpose" not in names
    assert "concat" not in names, "weights are laid out when a model is loaded"
    x = random(9, 16)
    with torch.no_grad():
        wanted = block(torch.from_numpy(x[None]))[0][0].numpy()
    np.testing.assert_allclose(numpy(model(at(x, place))[0]), wanted, rtol=1e-4, atol=1e-5)


def test_matrices_are_those_of_every_mixture() -> None:
    """``gate_up_proj`` and ``down_proj`` are laid out as those of ``MoE``."""
    module = gpt_oss.SparseMLP(_config(), _given(DeviceRef.CPU()))
    with Graph("matrices", input_types=[]):
        shapes = [[int(dim) for dim in x.shape] for x in (module.gate_up_proj, module.down_proj)]
    assert shapes == [[6, 24, 16], [6, 16, 12]]


def test_sinks_are_divided_with_the_heads() -> None:
    params = KVCacheParams(F32, n_kv_heads=2, head_dim=8, page_size=128, n_devices=2)
    given = Given(F32, DeviceRef.CPU(), params, 64, ReturnLogits.LAST_TOKEN)
    config = _config()
    layer = gpt_oss.Attention(config, given, rope_of(config, given), 0)
    layer.sharding_strategy = ShardingStrategy.rowwise(2)
    shards = layer.shard([DeviceRef.CPU(0), DeviceRef.CPU(1)])
    for number, shard in enumerate(shards):
        assert shard.sinks is not None
        assert list(shard.sinks.shape) == [1]
        assert shard.sinks.device == DeviceRef.CPU(number)
    layer.sharding_strategy = None
    assert layer.sinks is not None
    assert layer.sinks.sharding_strategy is None


def test_experts_in_one_tensor_are_not_cut() -> None:
    module = gpt_oss.SparseMLP(_config(), _given(DeviceRef.CPU()))
    with pytest.raises(ModuleError, match=r"SparseMLP.*ML719"):
        module.sharding_strategy = ShardingStrategy.expert_parallel(2)
    with pytest.raises(ModuleError, match="ML719"):
        module.shard([DeviceRef.CPU()])


def test_packed_weights_are_refused() -> None:
    config = _config(quantization_config={"quant_method": "mxfp4"})
    with pytest.raises(UnsupportedError, match=r"mxfp4.*ML169"):
        gpt_oss.GptOss(config, _given(DeviceRef.CPU()))


def test_another_activation_is_refused() -> None:
    config = cast("Any", type("Config", (), {"hidden_act": "relu", "model_type": "qwen3_moe"}))
    with pytest.raises(UnsupportedError, match=r"hidden_act='relu'.*ML169"):
        qwen3_moe.experts_of(config, _given(DeviceRef.CPU()))
