"""The part of Qwen2.5-VL that writes: a Qwen2 whose tokens have positions in three dimensions, and
some of whose tokens are parts of images."""

from __future__ import annotations

from copy import copy
from typing import Any

from maxlab.dtype import DType
from maxlab.errors import UnsupportedError
from maxlab.graph import DeviceRef, TensorValue, ops
from maxlab.nn import kernels
from maxlab.nn.attention import AttentionWithRope
from maxlab.nn.kv_cache import PagedCacheValues
from maxlab.nn.rotary_embedding import RotaryEmbedding
from maxlab.nn.transformer import TransformerBlock
from maxlab.nn.transformer.logits import logits_of
from maxlab.pipelines.architectures.decoder_parts import (
    CausalLM,
    Given,
    attention_arguments,
    mlp_of,
    norm_of,
    not_computed,
    rope_of,
    set_window,
)
from maxlab.pipelines.architectures.qwen2_5_vl.vision import VisionTower


def text_config(huggingface_config: Any) -> Any:
    """The part of the configuration of a checkpoint that is about text.

    Args:
        huggingface_config: The configuration of the checkpoint.
    """
    text = copy(huggingface_config.get_text_config())
    text.tie_word_embeddings = huggingface_config.tie_word_embeddings
    if not getattr(text, "use_sliding_window", False):  # which older transformers leave to models
        text.sliding_window = None
    return text


def sections_of(text: Any) -> list[int]:
    """How many pairs of a head are turned by the position in time, in height and in width.

    Args:
        text: The configuration of the text.

    Raises:
        UnsupportedError: ML169 (a NotImplementedError), three counts that do not fit a head.
    """
    scaling = getattr(text, "rope_parameters", None) or getattr(text, "rope_scaling", None) or {}
    found = scaling.get("mrope_section", [16, 24, 24])
    pairs = text.hidden_size // text.num_attention_heads // 2
    if len(found) != 3 or sum(found) != pairs:
        raise not_computed(
            text, "mrope_section", found, f"three counts, {pairs} in all, are the pairs of a head"
        )
    return [int(one) for one in found]


class Attention(AttentionWithRope):
    """Attention whose queries and keys are turned by positions in three dimensions."""

    def __init__(self, text: Any, given: Given, rope: RotaryEmbedding, number: int) -> None:
        super().__init__(**attention_arguments(text, given, rope), has_bias=True)
        set_window(self, text, number)
        self.sections = sections_of(text)

    def __call__(  # type: ignore[override]
        self,
        layer_idx: TensorValue,
        x: TensorValue,
        kv_collection: PagedCacheValues,
        freqs_cis: TensorValue,
        input_row_offsets: TensorValue,
        position_ids: TensorValue,
    ) -> TensorValue:
        """The attention of each row of ``x``, [tokens, hidden_size].

        Args:
            layer_idx: The layer of the cache, uint32 of rank 0.
            x: The rows of all texts, [tokens, hidden_size].
            kv_collection: The cache; keys and values of these rows are added to it.
            freqs_cis: The table of the rotary embedding, [positions, head_dim].
            input_row_offsets: Where the rows of each text begin, uint32 [batch + 1].
            position_ids: The positions in time, height and width, int64 [3, tokens].
        """
        params = self.kv_params
        q = self.project(layer_idx, x, kv_collection, input_row_offsets)
        q = kernels.fused_qk_ragged_rope(
            params,
            ops.reshape(q, [x.shape[0], self.n_heads, params.head_dim]),
            input_row_offsets,
            kv_collection,
            freqs_cis,
            layer_idx,
            interleaved=self.rope.interleaved,
            position_ids=position_ids,
            mrope_section=self.sections,
        )
        return self.attend(layer_idx, q, kv_collection, input_row_offsets)


class Block(TransformerBlock):
    """A layer: attention and a gated perceptron, [tokens, hidden_size] to the same."""

    def __init__(self, text: Any, given: Given, rope: RotaryEmbedding, number: int) -> None:
        super().__init__(
            attention=Attention(text, given, rope, number),
            mlp=mlp_of(text, given, activation=text.hidden_act),
            attention_norm=norm_of(text, given),
            mlp_norm=norm_of(text, given),
        )

    def __call__(self, layer_idx: TensorValue, x: TensorValue, *cached: Any) -> TensorValue:
        """The vectors after this layer, [tokens, hidden_size].

        Args:
            layer_idx: The layer of the cache, uint32 of rank 0.
            x: The vectors before.
            *cached: What `Attention` takes besides.
        """
        attended: TensorValue = self.self_attn(layer_idx, self.input_layernorm(x), *cached)
        x = x + attended
        made: TensorValue = self.mlp(self.post_attention_layernorm(x))
        return x + made


class Qwen25VL(CausalLM):
    """Qwen2.5-VL with its head, and with the part that sees as ``visual``.

    Args:
        config: The ``Qwen2_5_VLConfig`` of the checkpoint.
        given: What its layers are made with.

    Raises:
        UnsupportedError: ML169 (a NotImplementedError), a variant that is not computed.
    """

    def __init__(self, config: Any, given: Given) -> None:
        text = text_config(config)
        if config.vision_config.out_hidden_size != text.hidden_size:
            raise UnsupportedError(
                "ML169",
                f"tokens of images of {config.vision_config.out_hidden_size} numbers beside those "
                f"of texts of {text.hidden_size} are not computed",
                why=["out_hidden_size of vision_config is hidden_size of text_config"],
            )
        rope = rope_of(text, given)
        layers = [Block(text, given, rope, number) for number in range(text.num_hidden_layers)]
        super().__init__(text, given, rope, layers, norm_of(text, given))
        self.visual = VisionTower(config.vision_config, given.dtype, given.device)

    def __call__(  # type: ignore[override]
        self,
        tokens: TensorValue,
        kv_collection: PagedCacheValues,
        return_n_logits: TensorValue,
        input_row_offsets: TensorValue,
        position_ids: TensorValue,
        image_embeddings: TensorValue,
        image_places: TensorValue,
    ) -> tuple[TensorValue, ...]:
        """The logits, as ``nn.transformer.Transformer`` gives them.

        Args:
            tokens: The tokens of all texts, int64 [tokens].
            kv_collection: The cache.
            return_n_logits: The number of tokens of each text whose logits are returned, int64 [1].
            input_row_offsets: Where the tokens of each text begin, uint32 [batch + 1].
            position_ids: The positions in time, height and width, int64 [3, tokens].
            image_embeddings: The vectors of tokens of images, [image_tokens, hidden_size].
            image_places: Which of the tokens these are, int64 [image_tokens, 1].
        """
        x = ops.scatter_nd(self.embed_tokens(tokens), image_embeddings, image_places)
        table = self.rope.freqs_cis.to(x.device)
        for number, layer in enumerate(self.layers):
            idx = ops.constant(number, DType.uint32, DeviceRef.CPU())
            x = layer(idx, x, kv_collection, table, input_row_offsets, position_ids)
        return logits_of(self._logits, x, input_row_offsets, return_n_logits, self.return_logits)


__all__ = ["Qwen25VL", "sections_of", "text_config"]
