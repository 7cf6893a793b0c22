"""Qwen3 with mixtures of experts: most layers have many small perceptrons, of which each token
takes a few."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from maxlab import nn
from maxlab.dtype import DType
from maxlab.graph import TensorValue, ops
from maxlab.graph.weights import WeightData
from maxlab.nn.moe import MoE, MoEGate
from maxlab.nn.rotary_embedding import RotaryEmbedding
from maxlab.nn.transformer import DistributedTransformerBlock, TransformerBlock
from maxlab.pipelines.architectures.decoder import (
    DecoderModel,
    convert_safetensor_state_dict,
    decoder_architecture,
)
from maxlab.pipelines.architectures.decoder_devices import CausalLMOnDevices, ParallelAttention
from maxlab.pipelines.architectures.decoder_parts import (
    BiasedAttention,
    CausalLM,
    Given,
    mlp_of,
    norm_of,
    not_computed,
    rope_of,
    set_window,
)


class Gate(MoEGate):
    """The experts with the largest probabilities among all, and these as weights, [tokens,
    hidden_size] to twice [tokens, experts of a token]."""

    is_normalised = False

    def __call__(self, hidden_state: TensorValue) -> tuple[TensorValue, TensorValue]:
        scores = ops.cast(self.gate_score(hidden_state), DType.float32)  # [tokens, experts]
        weights, indices = ops.top_k(ops.softmax(scores), self.num_experts_per_token)
        return indices, weights / ops.sum(weights) if self.is_normalised else weights


class NormalisedGate(Gate):
    """The same with weights that add up to 1."""

    is_normalised = True


def experts_of(config: Any, given: Given) -> MoE:
    """The experts of a layer, [tokens, hidden_size] to the same.

    Args:
        config: The configuration of the checkpoint.
        given: What its layers are made with.

    Raises:
        UnsupportedError: ML169 (a NotImplementedError), an activation that is not computed.
    """
    if config.hidden_act != "silu":
        raise not_computed(
            config, "hidden_act", config.hidden_act, "experts are computed with silu"
        )
    return MoE(
        [given.device],
        config.hidden_size,
        config.num_experts,
        config.num_experts_per_tok,
        config.moe_intermediate_size,
        NormalisedGate if config.norm_topk_prob else Gate,
        ep_size=given.count,
        dtype=given.dtype,
    )


def mlp_of_layer(config: Any, given: Given, number: int) -> Any:
    """The experts of a layer, or its gated perceptron, [tokens, hidden_size] to the same.

    Args:
        config: The configuration of the checkpoint.
        given: What its layers are made with.
        number: The number of the layer.

    Raises:
        UnsupportedError: ML169 (a NotImplementedError), an activation that is not computed.
        ShapeError: ML798, fewer experts than devices.
    """
    is_sparse = number not in config.mlp_only_layers and config.num_experts > 0
    if is_sparse and (number + 1) % config.decoder_sparse_step == 0:
        return experts_of(config, given)
    return mlp_of(config, given, activation=config.hidden_act)


class Block(TransformerBlock):
    """A layer: attention with normalised heads, and experts or a gated perceptron, [tokens,
    hidden_size] to the same."""

    def __init__(self, config: Any, given: Given, rope: RotaryEmbedding, number: int) -> None:
        attention = BiasedAttention(
            config, given, rope, use_qk_norm=True, rms_norm_eps=config.rms_norm_eps
        )
        set_window(attention, config, number)
        super().__init__(
            attention=attention,
            mlp=mlp_of_layer(config, given, number),
            attention_norm=norm_of(config, given),
            mlp_norm=norm_of(config, given),
        )


class Qwen3Moe(CausalLM):
    """Qwen3 with mixtures of experts, with its head.

    Args:
        config: The ``Qwen3MoeConfig`` of the checkpoint.
        given: What its layers are made with.

    Raises:
        UnsupportedError: ML169 (a NotImplementedError), a variant that is not computed.
    """

    def __init__(self, config: Any, given: Given) -> None:
        rope = rope_of(config, given)
        layers = [Block(config, given, rope, number) for number in range(config.num_hidden_layers)]
        super().__init__(config, given, rope, layers, norm_of(config, given))


class BlockOnDevices(DistributedTransformerBlock):
    """A layer that several devices compute together, [tokens, hidden_size] to the same on each:
    each has some of the heads, and some of the experts."""

    def __init__(self, config: Any, given: Given, rope: RotaryEmbedding, number: int) -> None:
        attention = ParallelAttention(
            config, given, rope, use_qk_norm=True, rms_norm_eps=config.rms_norm_eps
        )
        set_window(attention, config, number)
        super().__init__(
            attention=attention,
            mlp=mlp_of_layer(config, given, number),
            attention_norm=norm_of(config, given),
            mlp_norm=norm_of(config, given),
            devices=list(given.devices),
        )


class Qwen3MoeOnDevices(CausalLMOnDevices):
    """Qwen3 with mixtures of experts, with its head, on several devices.

    Args:
        config: The ``Qwen3MoeConfig`` of the checkpoint.
        given: What its layers are made with.

    Raises:
        ShapeError: ML798, fewer experts, or other parts, than devices.
        UnsupportedError: ML169 (a NotImplementedError), a variant that is not computed.
    """

    def __init__(self, config: Any, given: Given) -> None:
        rope = rope_of(config, given)
        layers = [
            BlockOnDevices(config, given, rope, number)
            for number in range(config.num_hidden_layers)
        ]
        super().__init__(config, given, rope, layers, norm_of(config, given))


class Qwen3MoeModel(DecoderModel):
    """Qwen3 with mixtures of experts in a pipeline, on one device or on several."""

    runs_on_several = True

    @staticmethod
    def module(config: Any, given: Given) -> nn.Module:
        """The layers of the model.

        Args:
            config: The ``Qwen3MoeConfig`` of the checkpoint.
            given: What its layers are made with.

        Raises:
            UnsupportedError: ML169 (a NotImplementedError), a variant that is not computed.
        """
        return Qwen3MoeOnDevices(config, given) if given.devices else Qwen3Moe(config, given)


def convert_state_dict(
    state_dict: Mapping[str, Any], huggingface_config: Any = None, **unused_kwargs: Any
) -> dict[str, WeightData]:
    """The weights of a checkpoint by the names of the model.

    Args:
        state_dict: The weights by the names of the checkpoint.
        huggingface_config: The configuration of the checkpoint.
        **unused_kwargs: Other configurations, which the names do not depend on.
    """
    state = convert_safetensor_state_dict(state_dict, huggingface_config)
    return {
        name.replace(".mlp.gate.weight", ".mlp.gate.gate_score.weight"): weight
        for name, weight in state.items()
    }


ARCHITECTURES = [
    decoder_architecture(
        "Qwen3MoeForCausalLM",
        ["Qwen/Qwen3-30B-A3B"],
        Qwen3MoeModel,
        convert_state_dict,
        multi_gpu_supported=True,
    )
]

__all__ = ["ARCHITECTURES", "Qwen3Moe", "Qwen3MoeModel", "Qwen3MoeOnDevices", "convert_state_dict"]
