"""Phi-3 and Phi-4: stacked projections, and rotary embeddings for long texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from maxlab import nn
from maxlab.graph import TensorValue, ops
from maxlab.graph.weights import WeightData
from maxlab.nn.attention import AttentionWithRope
from maxlab.nn.rotary_embedding import RotaryEmbedding
from maxlab.nn.transformer import TransformerBlock
from maxlab.pipelines.architectures.decoder import DecoderModel, decoder_architecture
from maxlab.pipelines.architectures.decoder_parts import (
    CausalLM,
    Given,
    attention_arguments,
    norm_of,
    rope_of,
    set_window,
)
from maxlab.pipelines.architectures.decoder_weights import convert_gguf_state_dict
from maxlab.pipelines.architectures.encoder import ACTIVATIONS, require_activation
from maxlab.pipelines.lib.config_enums import RopeType


class MLP(nn.Module):
    """A gated perceptron whose two first matrices are one."""

    def __init__(self, config: Any, given: Given) -> None:
        size, between = config.hidden_size, config.intermediate_size
        self.gate_up_proj = given.linear(size, 2 * between)
        self.down_proj = given.linear(between, size)
        require_activation(config.hidden_act, config.model_type)
        self._activation = ACTIVATIONS[config.hidden_act]

    def __call__(self, x: TensorValue) -> TensorValue:
        gate, up = ops.chunk(self.gate_up_proj(x), 2, axis=-1)  # each [tokens, intermediate_size]
        return self.down_proj(self._activation(gate) * up)  # [tokens, hidden_size]


class Block(TransformerBlock):
    """A layer: attention in a window and a gated perceptron, [tokens, hidden_size] to the same."""

    def __init__(self, config: Any, given: Given, rope: RotaryEmbedding, number: int) -> None:
        stacked = given.quantization_encoding is None  # packed ones may be of several encodings
        attention = AttentionWithRope(
            **attention_arguments(config, given, rope), stacked_qkv=stacked
        )
        set_window(attention, config, number)
        super().__init__(
            attention=attention,
            mlp=MLP(config, given),
            attention_norm=norm_of(config, given),
            mlp_norm=norm_of(config, given),
        )


class Phi3(CausalLM):
    """Phi3 with its head.

    Args:
        config: The ``Phi3Config`` of the checkpoint.
        given: What its layers are made with.

    Raises:
        UnsupportedError: ML169 (a NotImplementedError), a variant that is not computed.
    """

    def __init__(self, config: Any, given: Given) -> None:
        rope = rope_of(config, given)
        layers = [Block(config, given, rope, number) for number in range(config.num_hidden_layers)]
        super().__init__(config, given, rope, layers, norm_of(config, given))


class Phi3Model(DecoderModel):
    """Phi3 in a pipeline."""

    module = Phi3


def convert_gguf(
    state_dict: Mapping[str, Any],
    huggingface_config: Any = None,
    pipeline_config: Any = None,
    **unused_kwargs: Any,
) -> dict[str, WeightData]:
    """The weights of a GGUF file by the names of ``Phi3``; those of queries, keys and values are
    cut apart where weights are packed.

    Args:
        state_dict: The weights by the names of the file.
        huggingface_config: The configuration of the checkpoint.
        pipeline_config: The configuration of the pipeline, with the encoding.
        **unused_kwargs: Other configurations, which the names do not depend on.
    """
    names = {"attn_qkv": "self_attn.qkv_proj", "ffn_up": "mlp.gate_up_proj"}
    found = convert_gguf_state_dict(state_dict, huggingface_config, names=names)
    if not pipeline_config.model_config.quantization_encoding.is_quantized:
        return found
    config, last = huggingface_config, "qkv_proj.weight"
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    rows = size * config.num_attention_heads
    ends = [rows, rows + size * config.num_key_value_heads]
    for name in [name for name in found if name.endswith(last)]:
        whole = found.pop(name)
        for part, array in zip("qkv", np.split(np.asarray(whole.data), ends), strict=True):
            made = WeightData.from_numpy(array, name.replace(last, f"{part}_proj.weight"))
            made.quantization_encoding = whole.quantization_encoding
            found[made.name] = made
    return found


ARCHITECTURES = [
    decoder_architecture(
        "Phi3ForCausalLM",
        ["microsoft/Phi-3.5-mini-instruct", "microsoft/phi-4"],
        Phi3Model,
        gguf_rope=RopeType.neox,
        convert_gguf=convert_gguf,
    )
]

__all__ = ["ARCHITECTURES", "Phi3", "Phi3Model"]
