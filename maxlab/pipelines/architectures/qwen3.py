"""Qwen3: each head of queries and keys is normalised."""

from __future__ import annotations

from typing import Any

from maxlab.nn.rotary_embedding import RotaryEmbedding
from maxlab.pipelines.architectures.decoder import DecoderModel, decoder_architecture
from maxlab.pipelines.architectures.decoder_parts import (
    BiasedAttention,
    CausalLM,
    GatedBlock,
    Given,
    norm_of,
    rope_of,
    set_window,
)
from maxlab.pipelines.lib.config_enums import RopeType


class Block(GatedBlock):
    """A layer: attention, in later layers in a window where the checkpoint says so, and a gated
    perceptron, [tokens, hidden_size] to the same."""

    def __init__(self, config: Any, given: Given, rope: RotaryEmbedding, number: int) -> None:
        attention = BiasedAttention(
            config, given, rope, use_qk_norm=True, rms_norm_eps=config.rms_norm_eps
        )
        set_window(attention, config, number)
        super().__init__(config, given, attention)


class Qwen3(CausalLM):
    """Qwen3 with its head.

    Args:
        config: The ``Qwen3Config`` of the checkpoint.
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


class Qwen3Model(DecoderModel):
    """Qwen3 in a pipeline."""

    module = Qwen3


ARCHITECTURES = [
    decoder_architecture(
        "Qwen3ForCausalLM",
        ["Qwen/Qwen3-8B", "Qwen/Qwen3-0.6B", "Qwen/Qwen3-8B-FP8"],
        Qwen3Model,
        gguf_rope=RopeType.neox,
        reads_float8=True,
        reads_gptq=True,
    )
]

__all__ = ["ARCHITECTURES", "Qwen3", "Qwen3Model"]
