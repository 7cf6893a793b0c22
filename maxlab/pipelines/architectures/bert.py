"""BERT as a model of embeddings, such as the sentence transformers that derive from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from maxlab import nn
from maxlab.driver import Tensor
from maxlab.dtype import DType
from maxlab.errors import UnsupportedError
from maxlab.graph import DeviceRef, Graph, TensorType, TensorValue, ops
from maxlab.graph.weights import WeightData, WeightsFormat
from maxlab.interfaces import PipelineTask
from maxlab.pipelines.core import TextContext
from maxlab.pipelines.lib.architecture import SupportedArchitecture
from maxlab.pipelines.lib.config_enums import SupportedEncoding
from maxlab.pipelines.lib.interfaces import ModelInputs, ModelOutputs, PipelineModel
from maxlab.pipelines.lib.tokenizer import TextTokenizer
from maxlab.pipelines.lib.utils import upper_bounded_default

_ACTIVATIONS: dict[str, Callable[[TensorValue], TensorValue]] = {
    "gelu": ops.gelu,
    "gelu_new": lambda x: ops.gelu(x, approximate="tanh"),
    "gelu_pytorch_tanh": lambda x: ops.gelu(x, approximate="tanh"),
    "relu": ops.relu,
    "silu": ops.silu,
    "swish": ops.silu,
}
"""The activations of config.json by name."""


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
        batch, length, _ = x.shape
        size = int(x.shape[-1])

        def heads(y: TensorValue) -> TensorValue:  # [batch, heads, length, size of a head]
            split = (batch, length, self._heads, size // self._heads)
            return ops.permute(ops.reshape(y, split), [0, 2, 1, 3])

        mixed = ops.scaled_dot_product_attention(
            heads(self.query(x)), heads(self.key(x)), heads(self.value(x)), bias
        )
        return ops.reshape(ops.permute(mixed, [0, 2, 1, 3]), (batch, length, size))


class Residual(nn.Module):
    """A linear layer whose result is added to what came before, and normalised."""

    def __init__(self, inputs: int, config: Any, dtype: DType, device: DeviceRef) -> None:
        super().__init__()
        self.dense = nn.Linear(inputs, config.hidden_size, dtype, device, has_bias=True)
        self.LayerNorm = nn.LayerNorm(
            config.hidden_size, [device], dtype, eps=config.layer_norm_eps
        )

    def __call__(self, x: TensorValue, before: TensorValue) -> TensorValue:
        return self.LayerNorm(before + self.dense(x))


class Attention(nn.Module):
    """Self-attention and the layer behind it."""

    def __init__(self, config: Any, dtype: DType, device: DeviceRef) -> None:
        super().__init__()
        # Named as in checkpoints.
        self.self = SelfAttention(config, dtype, device)
        self.output = Residual(config.hidden_size, config, dtype, device)

    def __call__(self, x: TensorValue, bias: TensorValue) -> TensorValue:
        return self.output(self.self(x, bias), x)


class Intermediate(nn.Module):
    """The widening layer with its activation."""

    def __init__(self, config: Any, dtype: DType, device: DeviceRef) -> None:
        super().__init__()
        self._activation = _ACTIVATIONS[config.hidden_act]
        self.dense = nn.Linear(
            config.hidden_size, config.intermediate_size, dtype, device, has_bias=True
        )

    def __call__(self, x: TensorValue) -> TensorValue:
        return self._activation(self.dense(x))


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
    """BERT without its heads: embeddings of tokens, or of texts with ``is_pooled``.

    Args:
        config: The ``BertConfig`` of the checkpoint.
        dtype: The dtype of weights and activations.
        device: The device.
        is_pooled: Whether the embeddings of a text's tokens become their mean.

    Raises:
        UnsupportedError: ML169 (a NotImplementedError), a variant of BERT that is not computed.
    """

    def __init__(self, config: Any, dtype: DType, device: DeviceRef, *, is_pooled: bool) -> None:
        super().__init__()
        _require_plain(config)
        self._dtype, self._is_pooled = dtype, is_pooled
        self.embeddings = Embeddings(config, dtype, device)
        self.encoder = Encoder(config, dtype, device)

    def __call__(self, tokens: TensorValue, lengths: TensorValue) -> TensorValue:
        """Embeddings, of shape [texts, longest, size] or pooled [texts, size].

        Args:
            tokens: int64 of shape [texts, longest]; what lies behind the end of a text is not
                read.
            lengths: The number of tokens of each text, int64 of shape [texts, 1].
        """
        texts, longest = tokens.shape
        places = ops.range(0, longest, dtype=DType.int64, device=tokens.device)
        kept = ops.cast(ops.greater(lengths, places), self._dtype)  # 1 for a token, else 0
        bias = ops.reshape((1.0 - kept) * -1e30, (texts, 1, 1, longest))
        x = self.encoder(self.embeddings(tokens), bias)
        if not self._is_pooled:
            return x
        total = ops.squeeze(ops.sum(x * ops.unsqueeze(kept, -1), axis=1), 1)
        return total / ops.cast(lengths, self._dtype)


def _require_plain(config: Any) -> None:
    """Raises for variants of BERT that compute something else."""
    kind = getattr(config, "position_embedding_type", "absolute")
    if kind not in ("absolute", None):
        raise UnsupportedError(
            "ML169", f"BERT with position_embedding_type={kind!r} is not computed"
        )
    if config.hidden_act not in _ACTIVATIONS:
        raise UnsupportedError(
            "ML169",
            f"BERT with hidden_act={config.hidden_act!r} is not computed",
            why=[f"the activations are {', '.join(_ACTIVATIONS)}"],
        )


@dataclass(eq=False)
class BertInputs(ModelInputs):
    """The padded tokens of texts, and their lengths.

    Args:
        tokens: int64 of shape [texts, longest].
        lengths: int64 of shape [texts, 1].
    """

    tokens: Tensor
    lengths: Tensor


class BertModel(PipelineModel[TextContext]):
    """BERT in a pipeline of embeddings."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        device = DeviceRef.from_device(self.devices[0])
        bert = Bert(
            self.huggingface_config,
            self.dtype,
            device,
            is_pooled=self.pipeline_config.pool_embeddings,
        )
        given = dict(self.weights.items())
        adapt = self.adapter or convert_safetensor_state_dict
        state = adapt(
            given,
            huggingface_config=self.huggingface_config,
            pipeline_config=self.pipeline_config,
        )
        bert.load_state_dict(state)
        inputs = [
            TensorType(DType.int64, ["texts", "longest"], device),
            TensorType(DType.int64, ["texts", 1], device),
        ]
        graph = Graph("bert", bert, input_types=inputs)
        self.model = self.session.load(graph, weights_registry=bert.state_dict())

    @classmethod
    def calculate_max_seq_len(cls, pipeline_config: Any, huggingface_config: Any) -> int:
        """The places that the checkpoint has embeddings for, or ``max_length`` of the pipeline.

        Args:
            pipeline_config: The configuration of the pipeline.
            huggingface_config: The ``BertConfig``.

        Raises:
            InputError: ML180 (a ValueError), ``max_length`` is larger than that.
        """
        return upper_bounded_default(
            huggingface_config.max_position_embeddings, pipeline_config.max_length
        )

    def prepare_initial_token_inputs(
        self,
        context_batch: Sequence[TextContext],
        kv_cache_inputs: Iterable[Any] | None = None,
        return_n_logits: int = 1,
    ) -> BertInputs:
        """The tokens of a batch, padded to the longest text.

        Args:
            context_batch: The states of the requests.
            kv_cache_inputs: None: there is no cache.
            return_n_logits: Not read: every token has its embedding.
        """
        del kv_cache_inputs, return_n_logits
        texts = [context.next_tokens for context in context_batch]
        tokens = np.zeros((len(texts), max(map(len, texts))), np.int64)
        for row, text in zip(tokens, texts, strict=True):
            row[: len(text)] = text
        lengths = np.array([[len(text)] for text in texts], np.int64)
        device = self.devices[0]
        return BertInputs(
            Tensor.from_numpy(tokens).to(device), Tensor.from_numpy(lengths).to(device)
        )

    def prepare_next_token_inputs(
        self, next_tokens: Tensor, prev_model_inputs: ModelInputs
    ) -> ModelInputs:
        """Raises: embeddings are made in one step.

        Args:
            next_tokens: Tokens that were drawn.
            prev_model_inputs: The inputs before.

        Raises:
            UnsupportedError: ML169 (a NotImplementedError).
        """
        del next_tokens, prev_model_inputs
        raise UnsupportedError("ML169", "BERT makes embeddings, in one step; it draws no tokens")

    def execute(self, model_inputs: ModelInputs) -> ModelOutputs:
        """The embeddings as ``logits``: [texts, size], or unpooled [texts, longest, size].

        Args:
            model_inputs: The inputs, `BertInputs`.
        """
        (embeddings,) = self.model(*model_inputs)
        return ModelOutputs(logits=embeddings)


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

__all__ = ["ARCHITECTURES", "Bert", "BertInputs", "BertModel", "convert_safetensor_state_dict"]
