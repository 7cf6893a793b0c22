"""Gemma 3 for text: windows in most layers, and a rotary embedding for each kind of layers."""

from __future__ import annotations

from functools import partial
from typing import Any

from maxlab import nn
from maxlab.graph import TensorValue, ops
from maxlab.nn.rotary_embedding import RotaryEmbedding
from maxlab.pipelines.architectures.decoder import DecoderModel, decoder_architecture
from maxlab.pipelines.architectures.decoder_parts import (
    BiasedAttention,
    CausalLM,
    Given,
    mlp_of,
    not_computed,
    rope_of,
    set_window,
)
from maxlab.pipelines.architectures.decoder_weights import convert_gguf_state_dict
from maxlab.pipelines.lib.config_enums import RopeType


def norm(config: Any, given: Given, size: int) -> nn.RMSNorm:
    """A norm of vectors of ``size`` whose weights are stored less 1, [tokens, size] to the same.

    Args:
        config: The configuration of the checkpoint.
        given: What its layers are made with.
        size: The size of a vector.
    """
    return nn.RMSNorm(size, given.dtype, config.rms_norm_eps, weight_offset=1.0)


class Attention(BiasedAttention):
    """Attention in a window or over all tokens, by the layer, with normalised queries and keys."""

    def __init__(self, config: Any, given: Given, rope: RotaryEmbedding, number: int) -> None:
        super().__init__(
            config, given, rope, scale=config.query_pre_attn_scalar**-0.5, use_qk_norm=True
        )
        size = given.kv_params.head_dim
        self.q_norm, self.k_norm = norm(config, given, size), norm(config, given, size)
        set_window(self, config, number)


class Block(nn.Module):
    """A layer: attention and a gated perceptron, each between two norms and added to its input."""

    def __init__(self, config: Any, given: Given, rope: RotaryEmbedding, number: int) -> None:
        self.self_attn = Attention(config, given, rope, number)
        self.mlp = mlp_of(config, given, activation=config.hidden_activation)
        size = config.hidden_size
        self.input_layernorm = norm(config, given, size)
        self.post_attention_layernorm = norm(config, given, size)
        self.pre_feedforward_layernorm = norm(config, given, size)
        self.post_feedforward_layernorm = norm(config, given, size)

    def __call__(self, layer_idx: TensorValue, x: TensorValue, *cached: Any) -> TensorValue:
        y = self.self_attn(layer_idx, self.input_layernorm(x), *cached)  # [tokens, hidden_size]
        x = x + self.post_attention_layernorm(y)
        return x + self.post_feedforward_layernorm(self.mlp(self.pre_feedforward_layernorm(x)))


class Gemma3(CausalLM):
    """Gemma 3 for text with its head.

    Args:
        config: The ``Gemma3TextConfig`` of the checkpoint.
        given: What its layers are made with.

    Raises:
        UnsupportedError: ML169 (a NotImplementedError), a variant that is not computed.
    """

    def __init__(self, config: Any, given: Given) -> None:
        for name in ("use_bidirectional_attention", "attn_logit_softcapping"):
            if getattr(config, name, None):
                raise not_computed(config, name, getattr(config, name), "Gemma 3 for text has none")
        ropes = {kind: rope_of(config, given, kind) for kind in set(config.layer_types)}
        layers = [
            Block(config, given, ropes[kind], number)
            for number, kind in enumerate(config.layer_types)
        ]
        super().__init__(
            config,
            given,
            ropes[config.layer_types[0]],
            layers,
            norm(config, given, config.hidden_size),
            embedding_multiplier=config.hidden_size**0.5,
        )
        self._limit = config.final_logit_softcapping

    def _logits(self, x: TensorValue) -> TensorValue:
        logits = super()._logits(x)
        return logits if self._limit is None else ops.tanh(logits / self._limit) * self._limit


class Gemma3Model(DecoderModel):
    """Gemma3 in a pipeline."""

    module = Gemma3


ARCHITECTURES = [
    decoder_architecture(
        "Gemma3ForCausalLM",
        ["google/gemma-3-1b-it"],
        Gemma3Model,
        gguf_rope=RopeType.neox,
        convert_gguf=partial(
            convert_gguf_state_dict,
            names={"ffn_norm": "pre_feedforward_layernorm"},
            norm_offset=1.0,  # which llama.cpp adds when it writes the file
        ),
    )
]

__all__ = ["ARCHITECTURES", "Gemma3", "Gemma3Model"]
