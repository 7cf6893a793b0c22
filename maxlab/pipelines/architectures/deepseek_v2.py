"""DeepSeek-V2: multi-head latent attention, and mixtures of experts some of which every token
takes.

DeepSeek-AI, "DeepSeek-V2: A Strong, Economical, and Efficient Mixture-of-Experts Language Model",
2024, arXiv:2405.04434.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from maxlab import nn
from maxlab.dtype import DType
from maxlab.graph import TensorValue, ops
from maxlab.graph.weights import WeightData
from maxlab.nn.attention.multi_latent_attention import LatentAttentionWithRope
from maxlab.nn.attention.on_devices import TensorParallel
from maxlab.nn.kv_cache import KVCacheParams
from maxlab.nn.moe import MoE, MoEGate
from maxlab.nn.rotary_embedding import RotaryEmbedding
from maxlab.nn.transformer import DistributedTransformerBlock, TransformerBlock
from maxlab.pipelines.architectures.decoder import (
    DecoderModel,
    convert_safetensor_state_dict,
    decoder_architecture,
)
from maxlab.pipelines.architectures.decoder_devices import CausalLMOnDevices
from maxlab.pipelines.architectures.decoder_parts import (
    CausalLM,
    Given,
    mlp_of,
    norm_of,
    not_computed,
    rope_of,
)

_BUFFER = 2048
"""The most tokens of which keys and values are in memory at a time; more make products no faster on
a CPU."""


class Attention(LatentAttentionWithRope):
    """The attention of a layer, with biases where the checkpoint has them."""

    def __init__(self, config: Any, given: Given, rope: RotaryEmbedding) -> None:
        super().__init__(
            rope=rope,
            num_attention_heads=config.num_attention_heads,
            num_key_value_heads=config.num_key_value_heads,
            hidden_size=config.hidden_size,
            kv_params=given.kv_params,
            dtype=given.dtype,
            devices=list(given.devices) or [given.device],
            q_lora_rank=config.q_lora_rank,
            kv_lora_rank=config.kv_lora_rank,
            qk_nope_head_dim=config.qk_nope_head_dim,
            qk_rope_head_dim=config.qk_rope_head_dim,
            v_head_dim=config.v_head_dim,
            buffer_size=min(_BUFFER, given.max_seq_len),
        )
        if config.attention_bias:
            names = ["kv_a_proj_with_mqa", "o_proj"]
            for name in names if config.q_lora_rank is None else ["q_a_proj", *names]:
                rows, columns = (int(dim) for dim in getattr(self, name).weight.shape)
                made = nn.Linear(columns, rows, given.dtype, given.device, has_bias=True)
                setattr(self, name, made)


class Gate(MoEGate):
    """The gate of a mixture: the experts with the largest shares of a softmax in float32, and these
    times ``routed_scaling_factor``.

    With ``group_limited_greedy`` a token takes experts of ``topk_group`` groups alone: those whose
    best expert has the largest shares.

    Args:
        config: The configuration of the checkpoint.
        **kwargs: As of ``MoEGate``.
    """

    def __init__(self, config: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.scale = float(config.routed_scaling_factor)
        limited = config.topk_method == "group_limited_greedy"
        self.groups = (int(config.n_group), int(config.topk_group)) if limited else None

    def __call__(self, hidden_state: TensorValue) -> tuple[TensorValue, TensorValue]:
        """The experts of each token, int64 ``[tokens, num_experts_per_token]``, and their weights,
        float32.

        Args:
            hidden_state: The vectors of the tokens, ``[tokens, hidden_dim]``.
        """
        weight = ops.cast(self.gate_score.weight.to(hidden_state.device), DType.float32)
        shares = ops.softmax(ops.cast(hidden_state, DType.float32) @ weight.T)
        if self.groups is not None:
            shares = self._limited(shares, *self.groups)
        weights, indices = ops.top_k(shares, self.num_experts_per_token)
        return indices, weights * self.scale

    def _limited(self, shares: TensorValue, groups: int, chosen: int) -> TensorValue:
        """``shares``, of which those of all groups but ``chosen`` are 0."""
        tokens, device = shares.shape[0], shares.device
        parts = ops.reshape(shares, [tokens, groups, self.num_experts // groups])
        _, best = ops.top_k(ops.squeeze(ops.max(parts, axis=2), 2), chosen)  # [tokens, chosen]
        number = ops.range(0, groups, 1, out_dim=groups, dtype=DType.int64, device=device)
        taken = ops.cast(ops.unsqueeze(best, 2) == number, DType.int32)  # [tokens, chosen, groups]
        some = ops.reshape(ops.max(taken, axis=1), [tokens, groups, 1]) > 0
        kept = ops.where(some, parts, ops.constant(0, shares.dtype, device))
        return ops.reshape(kept, shares.shape)


def mlp_of_layer(config: Any, given: Given, number: int) -> Any:
    """The gated perceptron of one of the first layers, or the mixture of experts of another,
    [tokens, hidden_size] to the same.

    Args:
        config: The configuration of the checkpoint.
        given: What its layers are made with.
        number: The number of the layer.

    Raises:
        ShapeError: ML798, fewer experts than devices.
    """
    if number < config.first_k_dense_replace:
        return mlp_of(config, given, activation=config.hidden_act, has_bias=config.mlp_bias)
    shared = config.n_shared_experts or 0
    return MoE(
        [given.device],
        config.hidden_size,
        config.n_routed_experts,
        config.num_experts_per_tok,
        config.moe_intermediate_size,
        gate_cls=lambda **kwargs: Gate(config, **kwargs),
        has_shared_experts=shared > 0,
        shared_experts_dim=config.moe_intermediate_size * shared,
        ep_size=given.count,
        dtype=given.dtype,
    )


class Block(TransformerBlock):
    """A layer: attention over latent vectors, then a gated perceptron in the first layers and a
    mixture of experts in the others, [tokens, hidden_size] to the same."""

    def __init__(self, config: Any, given: Given, rope: RotaryEmbedding, number: int) -> None:
        super().__init__(
            attention=Attention(config, given, rope),
            mlp=mlp_of_layer(config, given, number),
            attention_norm=norm_of(config, given),
            mlp_norm=norm_of(config, given),
        )


class DeepseekV2(CausalLM):
    """DeepSeek-V2 with its head.

    Args:
        config: The ``DeepseekV2Config`` of the checkpoint.
        given: What its layers are made with.

    Raises:
        UnsupportedError: ML169 (a NotImplementedError), a variant that is not computed.
        ArgumentError: ML519, ML675, ML716 (each a ValueError), sizes that do not fit.
    """

    def __init__(self, config: Any, given: Given) -> None:
        require_computed(config)
        rope = rope_of(config, replace(given, interleaved=True))
        layers = [Block(config, given, rope, number) for number in range(config.num_hidden_layers)]
        super().__init__(config, given, rope, layers, norm_of(config, given))


class ParallelLatentAttention(TensorParallel, Attention):  # type: ignore[misc]
    """``Attention`` whose heads are divided among devices."""


class BlockOnDevices(DistributedTransformerBlock):
    """A layer that several devices compute together, [tokens, hidden_size] to the same on each:
    each has some of the heads, some of the experts, and all of the experts of every token."""

    def __init__(self, config: Any, given: Given, rope: RotaryEmbedding, number: int) -> None:
        super().__init__(
            attention=ParallelLatentAttention(config, given, rope),
            mlp=mlp_of_layer(config, given, number),
            attention_norm=norm_of(config, given),
            mlp_norm=norm_of(config, given),
            devices=list(given.devices),
        )


class DeepseekV2OnDevices(CausalLMOnDevices):
    """DeepSeek-V2 with its head on several devices, each with a whole cache of latent vectors.

    Args:
        config: The ``DeepseekV2Config`` of the checkpoint.
        given: What its layers are made with.

    Raises:
        UnsupportedError: ML169 (a NotImplementedError), a variant that is not computed.
        ArgumentError: ML519, ML675, ML716 (each a ValueError), sizes that do not fit.
        ShapeError: ML798, fewer experts, or other parts, than devices.
    """

    def __init__(self, config: Any, given: Given) -> None:
        require_computed(config)
        rope = rope_of(config, replace(given, interleaved=True))
        layers = [
            BlockOnDevices(config, given, rope, number)
            for number in range(config.num_hidden_layers)
        ]
        super().__init__(config, given, rope, layers, norm_of(config, given))


def require_computed(config: Any) -> None:
    """Raises where a layer would compute something else than the checkpoint says.

    Args:
        config: The configuration of the checkpoint.

    Raises:
        UnsupportedError: ML169 (a NotImplementedError).
    """
    sparse = config.first_k_dense_replace < config.num_hidden_layers
    experts, method = config.n_routed_experts, config.topk_method
    why = None
    if not sparse:
        return
    if config.hidden_act != "silu":
        why = ("hidden_act", "experts have silu")
    elif config.mlp_bias:
        why = ("mlp_bias", "experts have no biases")
    elif config.norm_topk_prob:
        why = ("norm_topk_prob", "weights of experts are shares of a softmax over all")
    elif getattr(config, "moe_layer_freq", 1) != 1:
        why = ("moe_layer_freq", "all layers from first_k_dense_replace on have experts")
    elif method not in ("greedy", "group_limited_greedy"):
        why = ("topk_method", "it must be greedy or group_limited_greedy")
    elif method != "greedy" and (
        not config.n_group
        or experts % config.n_group
        or not 0 < (config.topk_group or 0) <= config.n_group
    ):
        why = (
            "n_group",
            f"{experts} experts must be groups of equal size, of which some are taken",
        )
    if why is not None:
        raise not_computed(config, why[0], getattr(config, why[0]), why[1])


def convert(
    state_dict: Mapping[str, Any], huggingface_config: Any = None, **unused_kwargs: Any
) -> dict[str, WeightData]:
    """The weights of a checkpoint by the names of the model.

    Args:
        state_dict: The weights by the names of the checkpoint.
        huggingface_config: The configuration of the checkpoint.
        **unused_kwargs: Other configurations, which the names do not depend on.
    """
    found = convert_safetensor_state_dict(state_dict, huggingface_config)
    gate, score = ".mlp.gate.weight", ".mlp.gate.gate_score.weight"
    return {
        name.removesuffix(gate) + score if name.endswith(gate) else name: weight
        for name, weight in found.items()
    }


class DeepseekV2Model(DecoderModel):
    """DeepSeek-V2 in a pipeline, on one device or on several. The cache, of which each device has
    one, has one latent vector of each token and layer."""

    runs_on_several = True
    read_settings = frozenset()  # its pairs are neighbours, in every checkpoint

    @staticmethod
    def module(config: Any, given: Given) -> nn.Module:
        """The layers of the model.

        Args:
            config: The ``DeepseekV2Config`` of the checkpoint.
            given: What its layers are made with.

        Raises:
            UnsupportedError: ML169 (a NotImplementedError), a variant that is not computed.
        """
        return DeepseekV2OnDevices(config, given) if given.devices else DeepseekV2(config, given)

    @classmethod
    def get_kv_params(
        cls, huggingface_config: Any, n_devices: int, kv_cache_config: Any, cache_dtype: DType
    ) -> KVCacheParams:
        """The parameters of the cache, of vectors of ``kv_lora_rank + qk_rope_head_dim`` numbers.

        Args:
            huggingface_config: The configuration of the checkpoint.
            n_devices: The number of devices.
            kv_cache_config: How the cache is to be laid out.
            cache_dtype: The dtype of the vectors.

        Raises:
            ArgumentError: ML165, ML166 (each a ValueError), parameters that exclude one another.
        """
        config = huggingface_config
        made = super().get_kv_params(config, 1, kv_cache_config, cache_dtype)
        width = config.kv_lora_rank + config.qk_rope_head_dim
        return replace(made, n_kv_heads=1, head_dim=width, is_mla=True, n_devices=n_devices)


ARCHITECTURES = [
    decoder_architecture(
        "DeepseekV2ForCausalLM",
        ["deepseek-ai/DeepSeek-V2-Lite", "deepseek-ai/DeepSeek-V2-Lite-Chat"],
        DeepseekV2Model,
        convert,
        multi_gpu_supported=True,
    )
]

__all__ = [
    "ARCHITECTURES",
    "DeepseekV2",
    "DeepseekV2Model",
    "DeepseekV2OnDevices",
    "convert",
    "require_computed",
]
