"""Granite: Llama with factors for embeddings, attention, residuals and logits."""

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
)
from maxlab.pipelines.lib.config_enums import RopeType


class Block(GatedBlock):
    """A layer: attention and a gated perceptron, [tokens, hidden_size] to the same."""

    def __init__(self, config: Any, given: Given, rope: RotaryEmbedding) -> None:
        super().__init__(
            config,
            given,
            BiasedAttention(config, given, rope, scale=config.attention_multiplier),
            has_bias=config.mlp_bias,
            residual_multiplier=config.residual_multiplier,
        )


class Granite(CausalLM):
    """Granite with its head.

    Args:
        config: The ``GraniteConfig`` of the checkpoint.
        given: What its layers are made with.

    Raises:
        UnsupportedError: ML169 (a NotImplementedError), a variant that is not computed.
    """

    def __init__(self, config: Any, given: Given) -> None:
        rope = rope_of(config, given)
        layers = [Block(config, given, rope) for _ in range(config.num_hidden_layers)]
        super().__init__(
            config,
            given,
            rope,
            layers,
            norm_of(config, given),
            embedding_multiplier=config.embedding_multiplier,
            logits_scaling=config.logits_scaling,
        )


class GraniteModel(DecoderModel):
    """Granite in a pipeline."""

    module = Granite


ARCHITECTURES = [
    decoder_architecture(
        "GraniteForCausalLM",
        ["ibm-granite/granite-3.1-8b-instruct"],
        GraniteModel,
        gguf_rope=RopeType.normal,
    )
]

__all__ = ["ARCHITECTURES", "Granite", "GraniteModel"]
