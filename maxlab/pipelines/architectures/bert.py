"""BERT as a model of embeddings, such as the sentence transformers that derive from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

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


class Embeddings(nn.Module):
    """The sum of the embeddings of a token, its place and its segment, normalised."""

    def __init__(self, config: Any, dtype: DType, device: DeviceRef) -> None:
        super().__init__()
        size = config.hidden_size
        self.word_embeddings = nn.Embedding(config.vocab_size, size, dtype, device)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, size, dtype, device)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, size, dtype, device)
        self.LayerNorm = nn.LayerNorm(size, [device], dtype, eps=config.layer_norm_eps)

    def __call__(self, tokens: TensorValue) -> TensorValue:
        places = ops.range(0, tokens.shape[1], dtype=DType.int64, device=tokens.device)
        x = self.word_embeddings(tokens) + self.position_embeddings(places)
        return self.LayerNorm(x + self.token_type_embeddings.weight[0].to(x.device))


class SelfAttention(nn.Module):
    """Attention of each token to all tokens of its text."""

    def __init__(self, config: Any, dtype: DType, device: DeviceRef) -> None:
        super().__init__()
        self._heads = config.num_attention_heads
        size = config.hidden_size
        self.query, self.key, self.value = (
            nn.Linear(size, size, dtype, device, has_bias=True) for _ in range(3)
        )

    def __call__(self, x: TensorValue, bias: TensorValue) -> TensorValue:
        query, key, value = (
            split_heads(layer(x), self._heads) for layer in (self.query, self.key, self.value)
        )
        return join_heads(ops.scaled_dot_product_attention(query, key, value, bias))


class Attention(nn.Module):
    """Self-attention and the layer behind it."""

    def __init__(self, config: Any, dtype: DType, device: DeviceRef) -> None:
        super().__init__()
        # Named as in checkpoints.
        self.self = SelfAttention(config, dtype, device)
        self.output = Residual(config.hidden_size, config, dtype, device)

    def __call__(self, x: TensorValue, bias: TensorValue) -> TensorValue:
        return self.output(self.self(x, bias), x)


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
    """All layers, one after the other."""

    def __init__(self, config: Any, dtype: DType, device: DeviceRef) -> None:
        super().__init__()
        self.layer = nn.LayerList(
            [Block(config, dtype, device) for _ in range(config.num_hidden_layers)]
        )

    def __call__(self, x: TensorValue, bias: TensorValue) -> TensorValue:
        for layer in self.layer:
            x = layer(x, bias)
        return x


class Bert(nn.Module):
    """BERT without its heads: embeddings of tokens, or of texts with a ``pooling``.

    Args:
        config: The ``BertConfig`` of the checkpoint.
        dtype: The dtype of weights and activations.
        device: The device.
        pooling: How the embeddings of a text's tokens become one; None where they do not.

    Raises:
        UnsupportedError: ML169 (a NotImplementedError), a variant of BERT that is not computed.
    """

    def __init__(
        self, config: Any, dtype: DType, device: DeviceRef, *, pooling: Pooling | None
    ) -> None:
        super().__init__()
        _require_plain(config)
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


def _require_plain(config: Any) -> None:
    """Raises for variants of BERT that compute something else."""
    kind = getattr(config, "position_embedding_type", "absolute")
    if kind not in ("absolute", None):
        raise UnsupportedError(
            "ML169", f"BERT with position_embedding_type={kind!r} is not computed"
        )
    require_activation(config.hidden_act, "BERT")


class BertModel(EncoderModel):
    """BERT in a pipeline of embeddings."""

    @staticmethod
    def module(config: Any, dtype: DType, device: DeviceRef, *, pooling: Pooling | None) -> Bert:
        """The layers of BERT.

        Args:
            config: The ``BertConfig`` of the checkpoint.
            dtype: The dtype of weights and activations.
            device: The device.
            pooling: How the embeddings of a text's tokens become one; None where they do not.

        Raises:
            UnsupportedError: ML169 (a NotImplementedError), a variant that is not computed.
        """
        return Bert(config, dtype, device, pooling=pooling)

    @staticmethod
    def convert(state_dict: Mapping[str, Any], **kwargs: Any) -> dict[str, WeightData]:
        """The weights of a checkpoint by the names of `Bert`, without those of heads.

        Args:
            state_dict: The weights by the names of the checkpoint.
            **kwargs: Configurations, which the names do not depend on.
        """
        return convert_safetensor_state_dict(state_dict, **kwargs)


_HEADS = ("pooler.", "cls.")
_OLD_NAMES = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}


def convert_safetensor_state_dict(
    state_dict: Mapping[str, Any], **unused_kwargs: Any
) -> dict[str, WeightData]:
    """The weights of a checkpoint by the names of `Bert`, without those of heads.

    Args:
        state_dict: The weights by the names of the checkpoint.
        **unused_kwargs: Configurations, which the names do not depend on.
    """
    found: dict[str, WeightData] = {}
    for full, weight in state_dict.items():
        name = full.removeprefix("bert.")
        if name.startswith(_HEADS) or name == "embeddings.position_ids":
            continue
        for old, new in _OLD_NAMES.items():
            name = name.replace(old, new)
        found[name] = weight.data()
    return found


_BERT = SupportedArchitecture(
    name="BertModel",
    example_repo_ids=["sentence-transformers/all-MiniLM-L6-v2", "BAAI/bge-small-en-v1.5"],
    default_encoding=SupportedEncoding.float32,
    supported_encodings={SupportedEncoding.float32: []},
    pipeline_model=BertModel,
    task=PipelineTask.EMBEDDINGS_GENERATION,
    tokenizer=TextTokenizer,
    default_weights_format=WeightsFormat.safetensors,
    weight_adapters={WeightsFormat.safetensors: convert_safetensor_state_dict},
)

ARCHITECTURES = [
    _BERT,
    replace(_BERT, name="BertForMaskedLM", example_repo_ids=["google-bert/bert-base-uncased"]),
]

__all__ = ["ARCHITECTURES", "Bert", "BertModel", "convert_safetensor_state_dict"]
