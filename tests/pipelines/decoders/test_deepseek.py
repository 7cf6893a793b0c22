"""DeepSeek-V2: what its cache holds, what its gate chooses, and variants that are refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from maxlab.dtype import DType
from maxlab.engine import InferenceSession
from maxlab.errors import UnsupportedError
from maxlab.graph import DeviceRef, Graph, TensorType
from maxlab.nn.kv_cache import KVCacheParams
from maxlab.pipelines.architectures.deepseek_v2 import DeepseekV2Model, Gate, require_computed

F32, CPU = DType.float32, DeviceRef.CPU()
CONFIG: dict[str, Any] = {
    "model_type": "deepseek_v2", "num_attention_heads": 16, "num_key_value_heads": 16,
    "hidden_size": 2048, "head_dim": 64, "kv_lora_rank": 512, "qk_rope_head_dim": 64,
    "num_hidden_layers": 4, "first_k_dense_replace": 1, "n_routed_experts": 12,
    "hidden_act": "silu", "mlp_bias": False, "norm_topk_prob": False, "topk_method": "greedy",
    "n_group": 3, "topk_group": 2, "routed_scaling_factor": 1.5,
}  # fmt: skip


def _config(**more: Any) -> Any:
    return SimpleNamespace(**{**CONFIG, **more})


def test_the_cache_has_one_vector_of_a_token() -> None:
    """It takes 1152 bytes a token and layer; keys and values of 16 heads would take 10240."""
    given = SimpleNamespace(
        kv_cache_page_size=128,
        enable_prefix_caching=True,
        enable_kvcache_swapping_to_host=False,
        host_kvcache_swap_space_gb=None,
    )
    made = DeepseekV2Model.get_kv_params(_config(), 1, given, DType.bfloat16)
    assert isinstance(made, KVCacheParams)
    assert made.enable_prefix_caching
    assert made.shape_per_block(27) == (1, 27, 128, 1, 576)
    assert made.bytes_per_token(1) == 1152


@pytest.mark.parametrize("dtype", [DType.float32, DType.bfloat16], ids=str)
def test_experts_of_some_groups_alone(dtype: DType) -> None:
    """A token takes the best experts of the two groups whose best expert is best, also where others
    are better; the shares are computed in float32."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal((40, 6)).astype(dtype.ml_numpy)
    weight = rng.standard_normal((12, 6)).astype(dtype.ml_numpy)
    gate = Gate(
        _config(topk_method="group_limited_greedy"),
        devices=[CPU],
        hidden_dim=6,
        num_experts=12,
        num_experts_per_token=4,
        dtype=dtype,
    )
    gate.load_state_dict({"gate_score.weight": weight})
    graph = Graph("gate", gate, [TensorType(dtype, ["tokens", 6])])
    model = InferenceSession().load(graph, weights_registry=gate.state_dict())
    indices, weights = (y.to_numpy() for y in model(x))
    scores = x.astype(np.float64) @ weight.astype(np.float64).T
    shares = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    others = 0
    for row in range(len(x)):
        best = shares[row].reshape(3, 4).max(1).argsort()[-2:]
        allowed = [e for e in range(12) if e // 4 in best]
        wanted = sorted(allowed, key=lambda e: -shares[row, e])[:4]
        assert sorted(indices[row]) == sorted(wanted)
        np.testing.assert_allclose(weights[row], shares[row, indices[row]] * 1.5, rtol=1e-5)
        others += sorted(wanted) != sorted(np.argsort(shares[row])[-4:])
    assert weights.dtype == np.float32
    assert others > 5, "the groups matter"


@pytest.mark.parametrize(
    "more",
    [
        {"hidden_act": "gelu"},
        {"mlp_bias": True},
        {"norm_topk_prob": True},
        {"moe_layer_freq": 2},
        {"topk_method": "noaux_tc"},
        {"topk_method": "group_limited_greedy", "n_group": 5},
        {"topk_method": "group_limited_greedy", "topk_group": None},
    ],
    ids=str,
)
def test_a_variant_that_is_not_computed_is_refused(more: dict[str, Any]) -> None:
    require_computed(_config())
    require_computed(_config(**more, first_k_dense_replace=4))
    with pytest.raises(UnsupportedError, match="ML169"):
        require_computed(_config(**more))
