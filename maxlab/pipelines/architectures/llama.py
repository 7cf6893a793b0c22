"""Llama, up to 3.3, and models that are laid out like it."""

from __future__ import annotations

from typing import Any

from maxlab.nn import Module
from maxlab.nn.rotary_embedding import RotaryEmbedding
from maxlab.nn.transformer import DistributedTransformerBlock
from maxlab.pipelines.architectures.decoder import DecoderModel, decoder_architecture
from maxlab.pipelines.architectures.decoder_devices import CausalLMOnDevices, ParallelAttention
from maxlab.pipelines.architectures.decoder_parts import (
    BiasedAttention,
    CausalLM,
    GatedBlock,
    Given,
    mlp_of,
    norm_of,
    rope_of,
)
from maxlab.pipelines.lib.config_enums import RopeType


class Block(GatedBlock):
    """A layer: attention and a gated perceptron, [tokens, hidden_size] to the same."""

    def __init__(self, config: Any, given: Given, rope: RotaryEmbedding) -> None:
        attention = BiasedAttention(config, given, rope)
        super().__init__(config, given, attention, has_bias=config.mlp_bias)


class Llama(CausalLM):
    """Llama with its head.

    Args:
        config: The ``LlamaConfig`` of the checkpoint.
        given: What its layers are made with.

    Raises:
        UnsupportedError: ML169 (a NotImplementedError), a variant that is not computed.
    """

    def __init__(self, config: Any, given: Given) -> None:
        rope = rope_of(config, given)
        layers = [
            Block(config, given.of_layer(number), rope)
            for number in range(config.num_hidden_layers)
        ]
        super().__init__(config, given, rope, layers, norm_of(config, given))


class BlockOnDevices(DistributedTransformerBlock):
    """A layer that several devices compute together, [tokens, hidden_size] to the same on each."""

    def __init__(self, config: Any, given: Given, rope: RotaryEmbedding) -> None:
        super().__init__(
            attention=ParallelAttention(config, given, rope),
            mlp=mlp_of(config, given, activation=config.hidden_act, has_bias=config.mlp_bias),
            attention_norm=norm_of(config, given),
            mlp_norm=norm_of(config, given),
            devices=list(given.devices),
        )


class LlamaOnDevices(CausalLMOnDevices):
    """Llama with its head on several devices.

    Args:
        config: The ``LlamaConfig`` of the checkpoint.
        given: What its layers are made with.

    Raises:
        ModuleError: ML719, blocks of 8-bit floats that would be cut.
        ShapeError: ML798, blocks of packed weights that would be cut, or sizes that are too small
            for so many devices.
        UnsupportedError: ML169 (a NotImplementedError), a variant that is not computed.
    """

    def __init__(self, config: Any, given: Given) -> None:
        rope = rope_of(config, given)
        layers = [
            BlockOnDevices(config, given.of_layer(number), rope)
            for number in range(config.num_hidden_layers)
        ]
        super().__init__(config, given, rope, layers, norm_of(config, given))


class LlamaModel(DecoderModel):
    """Llama in a pipeline, on one device or on several."""

    runs_on_several = True

    @staticmethod
    def module(config: Any, given: Given) -> Module:
        """The layers of the model.

        Args:
            config: The ``LlamaConfig`` of the checkpoint.
            given: What its layers are made with.

        Raises:
            UnsupportedError: ML169 (a NotImplementedError), a variant that is not computed.
        """
        return LlamaOnDevices(config, given) if given.devices else Llama(config, given)


ARCHITECTURES = [
    decoder_architecture(
        "LlamaForCausalLM",
        ["meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.2-1B-Instruct"],
        LlamaModel,
        gguf_rope=RopeType.normal,
        reads_float8=True,
        reads_gptq=True,
        multi_gpu_supported=True,
    )
]

__all__ = ["ARCHITECTURES", "Llama", "LlamaModel", "LlamaOnDevices"]
