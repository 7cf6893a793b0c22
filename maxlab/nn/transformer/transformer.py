"""``Transformer``: a model of language made of blocks of attention and perceptrons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from maxlab.dtype import DType
from maxlab.errors import ArgumentTypeError, shown
from maxlab.graph import DeviceRef, TensorValue, ops
from maxlab.nn.calls import Layer
from maxlab.nn.dense import check_size
from maxlab.nn.lists import LayerList
from maxlab.nn.module import Module
from maxlab.nn.rotary_embedding import RotaryEmbedding
from maxlab.nn.transformer.logits import ReturnLogits, logits_of

if TYPE_CHECKING:
    from maxlab.nn.kv_cache import KVCacheParams, PagedCacheValues


class TransformerBlock(Module):
    """A layer of a transformer: attention, then a perceptron, each of the normalised input and
    added to it.

    Args:
        attention: Attention over the cache, called as ``AttentionWithRope`` is.
        mlp: Makes vectors ``[tokens, size]`` of such vectors.
        attention_norm: The norm before ``attention``, named ``input_layernorm``.
        mlp_norm: The norm before ``mlp``, named ``post_attention_layernorm``.
        residual_multiplier: The factor of what is added.
    """

    def __init__(
        self,
        attention: Module,
        mlp: Layer,
        attention_norm: Layer,
        mlp_norm: Layer,
        residual_multiplier: float = 1.0,
    ) -> None:
        self.self_attn = attention
        self.mlp = mlp
        self.input_layernorm = attention_norm
        self.post_attention_layernorm = mlp_norm
        self.residual_multiplier = float(residual_multiplier)

    def __call__(
        self,
        layer_idx: TensorValue,
        x: TensorValue,
        kv_collection: PagedCacheValues,
        freqs_cis: TensorValue,
        input_row_offsets: TensorValue,
    ) -> TensorValue:
        """The vectors after this layer, ``[tokens, size]``.

        Args:
            layer_idx: The layer of the cache, uint32 of rank 0.
            x: The vectors before, ``[tokens, size]``.
            kv_collection: The cache.
            freqs_cis: The table of the rotary embedding.
            input_row_offsets: Where the rows of each text begin, uint32 ``[batch + 1]``.
        """
        attended = self.self_attn(
            layer_idx, self.input_layernorm(x), kv_collection, freqs_cis, input_row_offsets
        )
        x = x + self._scaled(attended)
        return x + self._scaled(self.mlp(self.post_attention_layernorm(x)))

    def _scaled(self, x: TensorValue) -> TensorValue:
        return x if self.residual_multiplier == 1.0 else x * self.residual_multiplier


class Transformer(Module):
    """A model of language that reads ragged batches of tokens and keeps keys and values in a paged
    cache.

    Args:
        dim: The size of a token's vector.
        n_heads: The number of attention heads.
        layers: The layers, called as ``TransformerBlock`` is.
        norm: The norm behind the layers.
        output: Makes the logits; named ``lm_head``.
        embedding: The vectors of tokens; named ``embed_tokens``.
        kv_params: The parameters of the cache.
        rope: The rotary embedding, whose table each layer gets. A layer whose ``self_attn`` has
            another ``rope`` gets that one's.
        return_logits: The tokens whose logits are returned.
        embedding_multiplier: The factor of the vectors of tokens.
        logits_scaling: What logits are divided by.

    Raises:
        ArgumentError: ML716, a size that is not a positive int.
        ArgumentTypeError: ML520, ``return_logits`` is no ``ReturnLogits``.

    Example:
        >>> from maxlab import nn
        >>> from maxlab.nn.attention import AttentionWithRope
        >>> from maxlab.nn.kv_cache import KVCacheParams
        >>> params = KVCacheParams(DType.float32, n_kv_heads=2, head_dim=16, page_size=128)
        >>> rope = RotaryEmbedding(64, 4, 10000.0, 512, interleaved=False)
        >>> def block():
        ...     attention = AttentionWithRope(
        ...         rope=rope, num_attention_heads=4, num_key_value_heads=2, hidden_size=64,
        ...         kv_params=params)
        ...     mlp = nn.MLP(DType.float32, None, 64, 128, [DeviceRef.CPU()])
        ...     return TransformerBlock(attention, mlp, nn.RMSNorm(64), nn.RMSNorm(64))
        >>> model = Transformer(
        ...     dim=64, n_heads=4, layers=[block(), block()], norm=nn.RMSNorm(64),
        ...     output=nn.Linear(64, 1000), embedding=nn.Embedding(1000, 64), kv_params=params,
        ...     rope=rope)
        >>> len(model.state_dict())
        21
    """

    def __init__(
        self,
        dim: int,
        n_heads: int,
        layers: Sequence[Any],
        norm: Layer,
        output: Any,
        embedding: Any,
        kv_params: KVCacheParams,
        rope: RotaryEmbedding,
        return_logits: ReturnLogits = ReturnLogits.LAST_TOKEN,
        embedding_multiplier: float = 1.0,
        logits_scaling: float = 1.0,
    ) -> None:
        what = type(self).__name__
        if not isinstance(return_logits, ReturnLogits):
            raise ArgumentTypeError(
                "ML520",
                f"{what}: return_logits must be a ReturnLogits, got {shown(return_logits)}",
                fix="pass ReturnLogits.LAST_TOKEN, or another member",
            )
        self.dim = check_size(what, "dim", dim)
        self.n_heads = check_size(what, "n_heads", n_heads)
        self.embed_tokens = embedding
        self.layers = LayerList(list(layers))
        self.norm = norm
        self.lm_head = output
        self.kv_params = kv_params
        self.rope = rope
        self.return_logits = return_logits
        self.embedding_multiplier = float(embedding_multiplier)
        self.logits_scaling = float(logits_scaling)

    def __call__(
        self,
        tokens: TensorValue,
        kv_collection: PagedCacheValues,
        return_n_logits: TensorValue,
        input_row_offsets: TensorValue,
    ) -> tuple[TensorValue, ...]:
        """The logits of the last token of each text, float32 ``[batch, words]``; with ``VARIABLE``
        and ``ALL`` also those of more tokens, ``[rows, words]``, and where the rows of each text
        begin among them, ``[batch + 1]``.

        Args:
            tokens: The tokens of all texts, integers ``[tokens]``.
            kv_collection: The cache.
            return_n_logits: The number of tokens of each text for ``VARIABLE``, int64 ``[1]`` on
                the host. Every text must have as many.
            input_row_offsets: Where the tokens of each text begin, uint32 ``[batch + 1]``.
        """
        x = self.embed_tokens(tokens)  # [tokens, dim]
        if self.embedding_multiplier != 1.0:
            x = x * self.embedding_multiplier
        tables: dict[int, TensorValue] = {}
        for number, layer in enumerate(self.layers):
            rope = getattr(getattr(layer, "self_attn", None), "rope", self.rope)
            if id(rope) not in tables:
                tables[id(rope)] = rope.freqs_cis.to(x.device)
            idx = ops.constant(number, DType.uint32, DeviceRef.CPU())
            x = layer(idx, x, kv_collection, tables[id(rope)], input_row_offsets)
        return logits_of(self._logits, x, input_row_offsets, return_n_logits, self.return_logits)

    def _logits(self, x: TensorValue) -> TensorValue:
        """The logits of vectors, ``[rows, words]``."""
        logits = ops.cast(self.lm_head(self.norm(x)), DType.float32)
        return logits if self.logits_scaling == 1.0 else logits / self.logits_scaling


__all__ = ["ReturnLogits", "Transformer", "TransformerBlock"]
