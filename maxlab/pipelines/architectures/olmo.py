"""OLMo: norms without weights, and limits of queries, keys and values."""

from __future__ import annotations

from typing import Any

from maxlab import nn
from maxlab.dtype import DType
from maxlab.graph import TensorValue
from maxlab.nn import kernels
from maxlab.nn.kv_cache import PagedCacheValues
from maxlab.nn.rotary_embedding import RotaryEmbedding
from maxlab.nn.transformer import TransformerBlock
from maxlab.pipelines.architectures.decoder import DecoderModel, decoder_architecture
from maxlab.pipelines.architectures.decoder_parts import (
    BiasedAttention,
    CausalLM,
    Given,
    mlp_of,
    rope_of,
)
from maxlab.pipelines.lib.config_enums import RopeType


def norm(config: Any, given: Given) -> nn.ConstantLayerNorm:
    """A norm of vectors, computed in float32.

    Args:
        config: The configuration of the checkpoint.
        given: What its layers are made with.
    """
    return nn.ConstantLayerNorm(config.hidden_size, given.device, DType.float32, eps=1e-5)


class Attention(BiasedAttention):
    """Attention whose queries, keys and values are cut to ``[-clip_qkv, clip_qkv]``.

    The limit is one of what is computed, as the checkpoints were trained, and not of the weights.
    """

    def __init__(self, config: Any, given: Given, rope: RotaryEmbedding) -> None:
        super().__init__(config, given, rope)
        self.limit = config.clip_qkv

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
        low = None if self.limit is None else -self.limit
        q, k, v = (
            nn.clamp(layer(x), low, self.limit) for layer in (self.q_proj, self.k_proj, self.v_proj)
        )
        for part, rows in enumerate((k, v)):
            kernels.store_rows(
                self.kv_params, kv_collection, rows, input_row_offsets, layer_idx, part
            )
        return q


class Block(TransformerBlock):
    """A layer: attention and a gated perceptron, [tokens, hidden_size] to the same."""

    def __init__(self, config: Any, given: Given, rope: RotaryEmbedding) -> None:
        super().__init__(
            attention=Attention(config, given, rope),
            mlp=mlp_of(config, given, activation=config.hidden_act),
            attention_norm=norm(config, given),
            mlp_norm=norm(config, given),
        )


class Olmo(CausalLM):
    """Olmo with its head.

    Args:
        config: The ``OlmoConfig`` of the checkpoint.
        given: What its layers are made with.

    Raises:
        UnsupportedError: ML169 (a NotImplementedError), a variant that is not computed.
    """

    def __init__(self, config: Any, given: Given) -> None:
        rope = rope_of(config, given)
        layers = [Block(config, given, rope) for _ in range(config.num_hidden_layers)]
        super().__init__(config, given, rope, layers, norm(config, given))


class OlmoModel(DecoderModel):
    """Olmo in a pipeline."""

    module = Olmo


ARCHITECTURES = [
    decoder_architecture(
        "OlmoForCausalLM",
        ["allenai/OLMo-1B-hf", "allenai/OLMo-7B-hf"],
        OlmoModel,
        gguf_rope=RopeType.normal,
    )
]

__all__ = ["ARCHITECTURES", "Olmo", "OlmoModel"]
