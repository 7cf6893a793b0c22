"""MPNet as a model of embeddings, such as ``sentence-transformers/all-mpnet-base-v2``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from maxlab import nn
from maxlab.dtype import DType
from maxlab.errors import UnsupportedError
from maxlab.graph import DeviceRef, TensorValue, ops
from maxlab.graph.weights import WeightData, WeightsFormat
from maxlab.interfaces import PipelineTask
from maxlab.pipelines.architectures.encoder import (
    EncoderModel,
    Intermediate,
    Residual,
    hiding,
    join_heads,
    kept_places,
    pooled,
    require_activation,
    split_heads,
)
from maxlab.pipelines.architectures.pooling import Pooling
from maxlab.pipelines.lib.architecture import SupportedArchitecture
from maxlab.pipelines.lib.config_enums import SupportedEncoding
from maxlab.pipelines.lib.tokenizer import TextTokenizer
from maxlab.pipelines.lib.utils import upper_bounded_default

PADDING = 1
"""The token of padding; places are counted from the number behind it."""
BUCKETS = 32
"""The groups of distances between tokens, half of them to each side."""
FARTHEST = 128
"""The distance from which on all tokens are in one group."""


def buckets_of(distances: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The group of each distance of a key from its query.

    Near distances have groups of their own, farther ones share them by their logarithm.

    Args:
        distances: The place of the key minus that of the query.

    Example:
        >>> buckets_of(np.array([-200, -9, -1, 0, 1, 9, 200])).tolist()
        [15, 8, 1, 0, 17, 24, 31]
    """
    half = BUCKETS // 2
    near = half // 2
    size = np.abs(distances)
    # In float32, as checkpoints were trained: a distance at the border of two groups is rounded.
    ratio = np.log(np.maximum(size, 1).astype(np.float32) / np.float32(near))
    grown = ratio / np.float32(math.log(FARTHEST / near)) * np.float32(half - near)
    far = np.minimum(near + grown.astype(np.int64), half - 1)
    return np.where(distances > 0, half, 0) + np.where(size < near, size, far)


class Embeddings(nn.Module):
    """The sum of the embeddings of a token and of its place, normalised."""

    def __init__(self, config: Any, dtype: DType, device: DeviceRef) -> None:
        super().__init__()
        size = config.hidden_size
        self.word_embeddings = nn.Embedding(config.vocab_size, size, dtype, device)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, size, dtype, device)
        self.LayerNorm = nn.LayerNorm(size, [device], dtype, eps=config.layer_norm_eps)

    def __call__(self, tokens: TensorValue) -> TensorValue:
        counted = ops.cast(ops.not_equal(tokens, PADDING), DType.int64)
        places = ops.cumsum(counted, axis=1) * counted + PADDING
        return self.LayerNorm(self.word_embeddings(tokens) + self.position_embeddings(places))


class SelfAttention(nn.Module):
    """Attention of each token to all tokens of its text, with a bias by their distance."""

    def __init__(self, config: Any, dtype: DType, device: DeviceRef) -> None:
        super().__init__()
        self._heads = config.num_attention_heads
        size = config.hidden_size
        self.q, self.k, self.v, self.o = (
            nn.Linear(size, size, dtype, device, has_bias=True) for _ in range(4)
        )

    def __call__(self, x: TensorValue, bias: TensorValue) -> TensorValue:
        query, key, value = (
            split_heads(layer(x), self._heads) for layer in (self.q, self.k, self.v)
        )
        return self.o(join_heads(ops.scaled_dot_product_attention(query, key, value, bias)))


class Attention(nn.Module):
    """Self-attention, added to what came before and normalised."""

    def __init__(self, config: Any, dtype: DType, device: DeviceRef) -> None:
        super().__init__()
        self.attn = SelfAttention(config, dtype, device)
        self.LayerNorm = nn.LayerNorm(
            config.hidden_size, [device], dtype, eps=config.layer_norm_eps
        )

    def __call__(self, x: TensorValue, bias: TensorValue) -> TensorValue:
        return self.LayerNorm(x + self.attn(x, bias))


class Block(nn.Module):
    """A layer of the encoder."""

    def __init__(self, config: Any, dtype: DType, device: DeviceRef) -> None:
        super().__init__()
        self.attention = Attention(config, dtype, device)
        self.intermediate = Intermediate(config, dtype, device)
        self.output = Residual(config.intermediate_size, config, dtype, device)

    def __call__(self, x: TensorValue, bias: TensorValue) -> TensorValue:
        x = self.attention(x, bias)
        return self.output(self.intermediate(x), x)


class Encoder(nn.Module):
    """All layers, one after the other, with one table of biases."""

    def __init__(self, config: Any, dtype: DType, device: DeviceRef) -> None:
        super().__init__()
        self._most = config.max_position_embeddings
        self.layer = nn.LayerList(
            [Block(config, dtype, device) for _ in range(config.num_hidden_layers)]
        )
        self.relative_attention_bias = nn.Embedding(
            BUCKETS, config.num_attention_heads, dtype, device
        )

    def __call__(self, x: TensorValue, hidden: TensorValue) -> TensorValue:
        bias = self._by_distance(x) + hidden
        for layer in self.layer:
            x = layer(x, bias)
        return x

    def _by_distance(self, x: TensorValue) -> TensorValue:
        """The numbers to add to scores by distance, of shape [1, heads, longest, longest]."""
        most = self._most
        table = ops.constant(buckets_of(np.arange(1 - most, most)), DType.int64, x.device)
        places = ops.range(0, x.shape[1], dtype=DType.int64, device=x.device)
        distances = ops.unsqueeze(places, 0) - ops.unsqueeze(places, 1)
        groups = ops.gather(table, distances + (most - 1), axis=0)
        return ops.unsqueeze(ops.permute(self.relative_attention_bias(groups), [2, 0, 1]), 0)


class MPNet(nn.Module):
    """MPNet without its heads: embeddings of tokens, or of texts with a ``pooling``.

    Args:
        config: The ``MPNetConfig`` of the checkpoint.
        dtype: The dtype of weights and activations.
        device: The device.
        pooling: How the embeddings of a text's tokens become one; None where they do not.

    Raises:
        UnsupportedError: ML169 (a NotImplementedError), a variant that is not computed.
    """

    def __init__(
        self, config: Any, dtype: DType, device: DeviceRef, *, pooling: Pooling | None
    ) -> None:
        super().__init__()
        if config.relative_attention_num_buckets != BUCKETS:
            raise UnsupportedError(
                "ML169",
                "MPNet with relative_attention_num_buckets="
                f"{config.relative_attention_num_buckets} is not computed",
                why=[f"transformers divides distances into {BUCKETS} groups"],
            )
        require_activation(config.hidden_act, "MPNet")
        self._dtype, self._pooling = dtype, pooling
        self.embeddings = Embeddings(config, dtype, device)
        self.encoder = Encoder(config, dtype, device)

    def __call__(self, tokens: TensorValue, lengths: TensorValue) -> TensorValue:
        """Embeddings, of shape [texts, longest, size] or pooled [texts, size].

        Args:
            tokens: int64 of shape [texts, longest]; what lies behind the end of a text is not
                read.
            lengths: The number of tokens of each text, int64 of shape [texts, 1].
        """
        kept = kept_places(tokens, lengths, self._dtype)
        x = self.encoder(self.embeddings(tokens), hiding(kept))
        return pooled(x, kept, lengths, self._pooling)


class MPNetModel(EncoderModel):
    """MPNet in a pipeline of embeddings."""

    padding = PADDING

    @staticmethod
    def module(config: Any, dtype: DType, device: DeviceRef, *, pooling: Pooling | None) -> MPNet:
        """The layers of MPNet.

        Args:
            config: The ``MPNetConfig`` of the checkpoint.
            dtype: The dtype of weights and activations.
            device: The device.
            pooling: How the embeddings of a text's tokens become one; None where they do not.

        Raises:
            UnsupportedError: ML169 (a NotImplementedError), a variant that is not computed.
        """
        return MPNet(config, dtype, device, pooling=pooling)

    @staticmethod
    def convert(state_dict: Mapping[str, Any], **kwargs: Any) -> dict[str, WeightData]:
        """The weights of a checkpoint by the names of `MPNet`, without those of heads.

        Args:
            state_dict: The weights by the names of the checkpoint.
            **kwargs: Configurations, which the names do not depend on.
        """
        return convert_safetensor_state_dict(state_dict, **kwargs)

    @classmethod
    def calculate_max_seq_len(cls, pipeline_config: Any, huggingface_config: Any) -> int:
        """The places that the checkpoint has embeddings for, or ``max_length`` of the pipeline.

        The first two embeddings of places stand for padding and for none.

        Args:
            pipeline_config: The configuration of the pipeline.
            huggingface_config: The ``MPNetConfig``.

        Raises:
            InputError: ML180 (a ValueError), ``max_length`` is larger than that.
        """
        places = huggingface_config.max_position_embeddings - PADDING - 1
        return upper_bounded_default(places, pipeline_config.max_length)


def convert_safetensor_state_dict(
    state_dict: Mapping[str, Any], **unused_kwargs: Any
) -> dict[str, WeightData]:
    """The weights of a checkpoint by the names of `MPNet`, without those of heads.

    Args:
        state_dict: The weights by the names of the checkpoint.
        **unused_kwargs: Configurations, which the names do not depend on.
    """
    named = {name.removeprefix("mpnet."): weight for name, weight in state_dict.items()}
    return {
        name: weight.data()
        for name, weight in named.items()
        if not name.startswith(("pooler.", "lm_head.")) and name != "embeddings.position_ids"
    }


_MPNET = SupportedArchitecture(
    name="MPNetForMaskedLM",
    example_repo_ids=["sentence-transformers/all-mpnet-base-v2"],
    default_encoding=SupportedEncoding.float32,
    supported_encodings={SupportedEncoding.float32: []},
    pipeline_model=MPNetModel,
    task=PipelineTask.EMBEDDINGS_GENERATION,
    tokenizer=TextTokenizer,
    default_weights_format=WeightsFormat.safetensors,
    weight_adapters={WeightsFormat.safetensors: convert_safetensor_state_dict},
)

ARCHITECTURES = [_MPNET, replace(_MPNET, name="MPNetModel", example_repo_ids=[])]

__all__ = ["ARCHITECTURES", "MPNet", "MPNetModel", "buckets_of", "convert_safetensor_state_dict"]
