"""Mistral: Llama whose tokens see the last few thousand tokens."""

from __future__ import annotations

from typing import Any

from maxlab.nn.attention import AttentionWithRope
from maxlab.nn.rotary_embedding import RotaryEmbedding
from maxlab.pipelines.architectures.decoder import DecoderModel, decoder_architecture
from maxlab.pipelines.architectures.decoder_parts import (
    CausalLM,
    GatedBlock,
    Given,
    attention_arguments,
    norm_of,
    rope_of,
    set_window,
)
from maxlab.pipelines.lib.config_enums import RopeType


class Block(GatedBlock):
    """A layer: attention in a window and a gated perceptron, [tokens, hidden_size] to the same."""

    def __init__(self, config: Any, given: Given, rope: RotaryEmbedding, number: int) -> None:
        attention = AttentionWithRope(**attention_arguments(config, given, rope))
        set_window(attention, config, number)
        super().__init__(config, given, attention)


class Mistral(CausalLM):
    """Mistral with its head.

    Args:
        config: The ``MistralConfig`` of the checkpoint.
        given: What its layers are made with.

    Raises:
        UnsupportedError: ML169 (a NotImplementedError), a variant that is not computed.
    """

    def __init__(self, config: Any, given: Given) -> None:
        rope = rope_of(config, given)
        layers = [
            Block(config, given.of_layer(number), rope, number)
            for number in range(config.num_hidden_layers)
        ]
        super().__init__(config, given, rope, layers, norm_of(config, given))


class MistralModel(DecoderModel):
    """Mistral in a pipeline."""

    module = Mistral


ARCHITECTURES = [
    decoder_architecture(
        "MistralForCausalLM",
        ["mistralai/Mistral-7B-Instruct-v0.3"],
        MistralModel,
        gguf_rope=RopeType.normal,
        reads_float8=True,
        reads_gptq=True,
    )
]

__all__ = ["ARCHITECTURES", "Mistral", "MistralModel"]
