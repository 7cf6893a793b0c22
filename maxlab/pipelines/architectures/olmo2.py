"""OLMo 2: norms behind attention and perceptrons, and of whole queries and keys."""

from __future__ import annotations

from typing import Any

from maxlab import nn
from maxlab.graph import TensorValue
from maxlab.nn import kernels
from maxlab.nn.kv_cache import PagedCacheValues
from maxlab.nn.rotary_embedding import RotaryEmbedding
from maxlab.pipelines.architectures.decoder import DecoderModel, decoder_architecture
from maxlab.pipelines.architectures.decoder_parts import (
    BiasedAttention,
    CausalLM,
    Given,
    mlp_of,
    rope_of,
)
from maxlab.pipelines.lib.config_enums import RopeType


def norm(config: Any, given: Given, size: int) -> nn.RMSNorm:
    """A norm of vectors of ``size``, [tokens, size] to the same.

    Args:
        config: The configuration of the checkpoint.
        given: What its layers are made with.
        size: The size of a vector.
    """
    return nn.RMSNorm(size, given.dtype, config.rms_norm_eps, multiply_before_cast=True)


class Attention(BiasedAttention):
    """Attention whose queries and keys are normalised, all heads of a token together."""

    def __init__(self, config: Any, given: Given, rope: RotaryEmbedding) -> None:
        super().__init__(config, given, rope)
        size = given.kv_params.head_dim
        self.q_norm = norm(config, given, self.n_heads * size)
        self.k_norm = norm(config, given, self.num_key_value_heads * size)

    def project(
        self,
        layer_idx: TensorValue,
        x: TensorValue,
        kv_collection: PagedCacheValues,
        input_row_offsets: TensorValue,
    ) -> TensorValue:
        """The queries of ``x``, [tokens, heads * head_dim]; its keys and values go into the cache.

        Args:
            layer_idx: The layer of the cache.
            x: The rows of all texts, [tokens, hidden_size].
            kv_collection: The cache.
            input_row_offsets: Where the rows of each text begin.
        """
        keys, values = self.k_norm(self.k_proj(x)), self.v_proj(x)
        for part, rows in enumerate((keys, values)):
            kernels.store_rows(
                self.kv_params, kv_collection, rows, input_row_offsets, layer_idx, part
            )
        return self.q_norm(self.q_proj(x))


class Block(nn.Module):
    """A layer: attention and a gated perceptron, each normalised and then added to its input."""

    def __init__(self, config: Any, given: Given, rope: RotaryEmbedding) -> None:
        self.self_attn = Attention(config, given, rope)
        self.mlp = mlp_of(config, given, activation=config.hidden_act)
        self.post_attention_layernorm = norm(config, given, config.hidden_size)
        self.post_feedforward_layernorm = norm(config, given, config.hidden_size)

    def __call__(self, layer_idx: TensorValue, x: TensorValue, *cached: Any) -> TensorValue:
        x = x + self.post_attention_layernorm(self.self_attn(layer_idx, x, *cached))
        return x + self.post_feedforward_layernorm(self.mlp(x))  # [tokens, hidden_size]


class Olmo2(CausalLM):
    """Olmo2 with its head.

    Args:
        config: The ``Olmo2Config`` of the checkpoint.
        given: What its layers are made with.

    Raises:
        UnsupportedError: ML169 (a NotImplementedError), a variant that is not computed.
    """

    def __init__(self, config: Any, given: Given) -> None:
        rope = rope_of(config, given)
        layers = [Block(config, given, rope) for _ in range(config.num_hidden_layers)]
        super().__init__(config, given, rope, layers, norm(config, given, config.hidden_size))


class Olmo2Model(DecoderModel):
    """Olmo2 in a pipeline."""

    module = Olmo2


ARCHITECTURES = [
    decoder_architecture(
        "Olmo2ForCausalLM",
        ["allenai/OLMo-2-0425-1B-Instruct"],
        Olmo2Model,
        gguf_rope=RopeType.neox,
    )
]

__all__ = ["ARCHITECTURES", "Olmo2", "Olmo2Model"]
