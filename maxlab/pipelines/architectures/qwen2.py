"""Qwen2 and Qwen2.5: queries, keys and values have biases."""

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
    """A layer: attention, in later layers in a window where the checkpoint says so, and a gated
    perceptron, [tokens, hidden_size] to the same."""

    def __init__(self, config: Any, given: Given, rope: RotaryEmbedding, number: int) -> None:
        attention = AttentionWithRope(**attention_arguments(config, given, rope), has_bias=True)
        set_window(attention, config, number)
        super().__init__(config, given, attention)


class Qwen2(CausalLM):
    """Qwen2 with its head.

    Args:
        config: The ``Qwen2Config`` of the checkpoint.
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


class Qwen2Model(DecoderModel):
    """Qwen2 in a pipeline."""

    module = Qwen2


ARCHITECTURES = [
    decoder_architecture(
        "Qwen2ForCausalLM",
        ["Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-0.5B-Instruct"],
        Qwen2Model,
        gguf_rope=RopeType.neox,
        reads_float8=True,
        reads_gptq=True,
    )
]

__all__ = ["ARCHITECTURES", "Qwen2", "Qwen2Model"]
