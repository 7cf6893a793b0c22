"""GPT-OSS: attention with sinks, in a window in every other layer, and experts with biases and a
clamped activation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from maxlab import nn
from maxlab.graph import DeviceRef, ShardingStrategy, TensorValue, Weight, ops
from maxlab.graph.weights import WeightData
from maxlab.nn.attention.on_devices import TensorParallel
from maxlab.nn.moe import MoE, MoEGate, Routing
from maxlab.nn.rotary_embedding import RotaryEmbedding
from maxlab.nn.sharding import shard_of, unfit
from maxlab.nn.transformer import DistributedTransformerBlock, TransformerBlock
from maxlab.pipelines.architectures.decoder import (
    DecoderModel,
    convert_safetensor_state_dict,
    decoder_architecture,
)
from maxlab.pipelines.architectures.decoder_devices import CausalLMOnDevices
from maxlab.pipelines.architectures.decoder_parts import (
    BiasedAttention,
    CausalLM,
    Given,
    norm_of,
    not_computed,
    rope_of,
    set_window,
)


class Attention(BiasedAttention):
    """Attention whose heads each have a sink: a score that takes part in the softmax without a
    value."""

    def __init__(self, config: Any, given: Given, rope: RotaryEmbedding, number: int) -> None:
        super().__init__(config, given, rope, scale=given.kv_params.head_dim**-0.5)
        heads = config.num_attention_heads
        self.sinks = Weight("sinks", given.dtype, (heads,), DeviceRef.CPU())
        set_window(self, config, number)


class Gate(MoEGate):
    """The experts with the highest scores, and the softmax over these, [tokens, hidden_size] to
    twice [tokens, experts of a token]."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.gate_score = nn.Linear(
            self.hidden_dim, self.num_experts, given["dtype"], self.devices[0], has_bias=True
        )

    def __call__(self, hidden_state: TensorValue) -> tuple[TensorValue, TensorValue]:
        indices, scores = super().__call__(hidden_state)
        return indices, ops.softmax(scores)


class Experts(nn.Module):
    """The weights of all experts of a layer, each in one tensor, as the checkpoint has them."""

    count: int

    def __init__(self, config: Any, given: Given) -> None:
        count, hidden, size = config.num_local_experts, config.hidden_size, config.intermediate_size
        self.count = int(count)

        def weight(name: str, *shape: int) -> Weight:
            return Weight(name, given.dtype, (count, *shape), DeviceRef.CPU())

        self.gate_up_proj = weight("gate_up_proj", hidden, 2 * size)
        self.gate_up_proj_bias = weight("gate_up_proj_bias", 2 * size)
        self.down_proj = weight("down_proj", size, hidden)
        self.down_proj_bias = weight("down_proj_bias", hidden)

    def __len__(self) -> int:
        return self.count

    def cut(self, strategy: ShardingStrategy | None) -> None:
        """Sets how the tensors are cut, all alike.

        Args:
            strategy: How the experts, their first axis, are divided; None for not at all.
        """
        for weight in self.layer_weights.values():
            weight.sharding_strategy = strategy

    def shard(self, places: Sequence[DeviceRef]) -> list[Experts]:
        """Some of the experts for each of ``places``.

        Args:
            places: The devices.
        """
        parts = {name: one.shard(places) for name, one in self.layer_weights.items()}
        made = []
        for n in range(len(places)):
            own: dict[str, Any] = {name: shards[n] for name, shards in parts.items()}
            count = int(own["gate_up_proj"].shape[0])
            made.append(shard_of(self, count=count, **own))
        return made


class SparseMLP(MoE):
    """The experts of a layer, [tokens, hidden_size] to the same.

    Args:
        config: The ``GptOssConfig`` of the checkpoint.
        given: What its layers are made with.
    """

    def __init__(self, config: Any, given: Given) -> None:
        self._made_with = (config, given)
        super().__init__(
            [given.device],
            config.hidden_size,
            config.num_local_experts,
            config.num_experts_per_tok,
            config.intermediate_size,
            Gate,
            ep_size=given.count,
            dtype=given.dtype,
        )
        self.alpha = float(getattr(config, "swiglu_alpha", 1.702))
        self.limit = float(getattr(config, "swiglu_limit", 7.0))

    def _make_experts(self) -> Experts:
        return Experts(*self._made_with)

    def _cut_experts(self, strategy: ShardingStrategy | None) -> None:
        if isinstance(strategy, ShardingStrategy) and not strategy.is_replicate:
            if not strategy.is_expert_parallel or self._manager is None:
                fix = "make it with ep_size: experts in one tensor are divided whole"
                raise unfit("SparseMLP", strategy, fix)
            strategy = ShardingStrategy.rowwise(self.ep_size)
        self.experts.cut(strategy)

    def _shard_experts(self, places: list[DeviceRef]) -> Sequence[Experts]:
        found: Sequence[Experts] = self.experts.shard(places)
        return found

    @property
    def gate_up_proj(self) -> TensorValue:
        # The checkpoint has [experts, hidden_size, 2 * size], with gate and up in turn.
        return _halves(ops.transpose(self.experts.gate_up_proj.to(self.devices[0]), 1, 2))

    @property
    def down_proj(self) -> TensorValue:
        return ops.transpose(self.experts.down_proj.to(self.devices[0]), 1, 2)

    def computed(self, rows: TensorValue, routing: Routing) -> TensorValue:
        device, experts = self.devices[0], self.experts
        inner = routing.product(rows, self.gate_up_proj)  # [rows, 2 * intermediate_size]
        inner = inner + routing.of_rows(_halves(experts.gate_up_proj_bias.to(device)))
        gate, up = inner[:, : self.moe_dim], inner[:, self.moe_dim :]
        gate = ops.min(gate, self.limit)
        up = ops.max(ops.min(up, self.limit), -self.limit)
        inner = (up + 1) * (gate * ops.sigmoid(gate * self.alpha))
        made = routing.product(inner, self.down_proj)  # [rows, hidden_size]
        return made + routing.of_rows(experts.down_proj_bias.to(device))


def _halves(x: TensorValue) -> TensorValue:
    """``x`` with the even places of its second axis before the odd ones."""
    return ops.concat([x[:, ::2], x[:, 1::2]], 1)


class Block(TransformerBlock):
    """A layer: attention and experts, [tokens, hidden_size] to the same."""

    def __init__(self, config: Any, given: Given, rope: RotaryEmbedding, number: int) -> None:
        super().__init__(
            attention=Attention(config, given, rope, number),
            mlp=SparseMLP(config, given),
            attention_norm=norm_of(config, given),
            mlp_norm=norm_of(config, given),
        )


def require_numbers(config: Any) -> None:
    """Raises where the weights of a checkpoint are packed.

    Args:
        config: The configuration of the checkpoint.

    Raises:
        UnsupportedError: ML169 (a NotImplementedError).
    """
    packed = getattr(config, "quantization_config", None)
    if packed is not None:
        how = packed if isinstance(packed, dict) else vars(packed)
        raise not_computed(
            config, "quantization_config", how.get("quant_method"),
            "weights must be numbers: take a checkpoint in bfloat16, or let transformers "
            "dequantise one with Mxfp4Config(dequantize=True) and save it",
        )  # fmt: skip


class GptOss(CausalLM):
    """GPT-OSS with its head.

    Args:
        config: The ``GptOssConfig`` of the checkpoint.
        given: What its layers are made with.

    Raises:
        UnsupportedError: ML169 (a NotImplementedError), a variant that is not computed, such as
            weights that are packed in 4 bits.
    """

    def __init__(self, config: Any, given: Given) -> None:
        require_numbers(config)
        rope = rope_of(config, given)
        layers = [Block(config, given, rope, number) for number in range(config.num_hidden_layers)]
        super().__init__(config, given, rope, layers, norm_of(config, given))


class ParallelSinkAttention(TensorParallel, Attention):  # type: ignore[misc]
    """``Attention`` whose heads are divided among devices."""


class BlockOnDevices(DistributedTransformerBlock):
    """A layer that several devices compute together, [tokens, hidden_size] to the same on each:
    each has some of the heads, and some of the experts."""

    def __init__(self, config: Any, given: Given, rope: RotaryEmbedding, number: int) -> None:
        super().__init__(
            attention=ParallelSinkAttention(config, given, rope, number),
            mlp=SparseMLP(config, given),
            attention_norm=norm_of(config, given),
            mlp_norm=norm_of(config, given),
            devices=list(given.devices),
        )


class GptOssOnDevices(CausalLMOnDevices):
    """GPT-OSS with its head on several devices.

    Args:
        config: The ``GptOssConfig`` of the checkpoint.
        given: What its layers are made with.

    Raises:
        ShapeError: ML798, fewer experts, or other parts, than devices.
        UnsupportedError: ML169 (a NotImplementedError), a variant that is not computed.
    """

    def __init__(self, config: Any, given: Given) -> None:
        require_numbers(config)
        rope = rope_of(config, given)
        layers = [
            BlockOnDevices(config, given, rope, number)
            for number in range(config.num_hidden_layers)
        ]
        super().__init__(config, given, rope, layers, norm_of(config, given))


class GptOssModel(DecoderModel):
    """GPT-OSS in a pipeline, on one device or on several."""

    runs_on_several = True

    @staticmethod
    def module(config: Any, given: Given) -> nn.Module:
        """The layers of the model.

        Args:
            config: The ``GptOssConfig`` of the checkpoint.
            given: What its layers are made with.

        Raises:
            UnsupportedError: ML169 (a NotImplementedError), a variant that is not computed.
        """
        return GptOssOnDevices(config, given) if given.devices else GptOss(config, given)


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
        name.replace(".mlp.router.", ".mlp.gate.gate_score."): weight
        for name, weight in state.items()
    }


ARCHITECTURES = [
    decoder_architecture(
        "GptOssForCausalLM",
        ["openai/gpt-oss-20b", "openai/gpt-oss-120b"],
        GptOssModel,
        convert_state_dict,
        multi_gpu_supported=True,
    )
]

__all__ = ["ARCHITECTURES", "GptOss", "GptOssModel", "GptOssOnDevices", "convert_state_dict"]
