"""Models of embeddings that see a text as a whole: padded batches, and pooling."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxlab import nn
from maxlab.driver import Tensor
from maxlab.dtype import DType
from maxlab.errors import UnsupportedError
from maxlab.graph import DeviceRef, Graph, TensorType, TensorValue, ops
from maxlab.graph.weights import WeightData
from maxlab.pipelines.architectures.pooling import Pooling, pooling_of
from maxlab.pipelines.core import TextContext
from maxlab.pipelines.lib.interfaces import ModelInputs, ModelOutputs, PipelineModel
from maxlab.pipelines.lib.utils import upper_bounded_default

ACTIVATIONS: dict[str, Callable[[TensorValue], TensorValue]] = {
    "gelu": ops.gelu,
    "gelu_new": lambda x: ops.gelu(x, approximate="tanh"),
    "gelu_pytorch_tanh": lambda x: ops.gelu(x, approximate="tanh"),
    "relu": ops.relu,
    "silu": ops.silu,
    "swish": ops.silu,
}
"""The activations of config.json by name."""


def require_activation(name: str, model: str) -> None:
    """Raises unless the activation ``name`` of ``model`` is computed.

    Raises:
        UnsupportedError: ML169 (a NotImplementedError).
    """
    if name not in ACTIVATIONS:
        raise UnsupportedError(
            "ML169",
            f"{model} with hidden_act={name!r} is not computed",
            why=[f"the activations are {', '.join(ACTIVATIONS)}"],
        )


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


class Intermediate(nn.Module):
    """The widening layer with its activation."""

    def __init__(self, config: Any, dtype: DType, device: DeviceRef) -> None:
        super().__init__()
        self._activation = ACTIVATIONS[config.hidden_act]
        self.dense = nn.Linear(
            config.hidden_size, config.intermediate_size, dtype, device, has_bias=True
        )

    def __call__(self, x: TensorValue) -> TensorValue:
        return self._activation(self.dense(x))


def split_heads(x: TensorValue, heads: int) -> TensorValue:
    """``x`` of shape [texts, longest, size] as [texts, heads, longest, size of a head]."""
    texts, longest, size = x.shape
    return ops.permute(ops.reshape(x, (texts, longest, heads, int(size) // heads)), [0, 2, 1, 3])


def join_heads(x: TensorValue) -> TensorValue:
    """The inverse of `split_heads`."""
    texts, heads, longest, size = x.shape
    return ops.reshape(ops.permute(x, [0, 2, 1, 3]), (texts, longest, int(heads) * int(size)))


def kept_places(tokens: TensorValue, lengths: TensorValue, dtype: DType) -> TensorValue:
    """1 for a token, and 0 for padding: ``dtype`` of shape [texts, longest]."""
    places = ops.range(0, tokens.shape[1], dtype=DType.int64, device=tokens.device)
    return ops.cast(ops.greater(lengths, places), dtype)


def hiding(kept: TensorValue) -> TensorValue:
    """The numbers that hide padding when added to scores, of shape [texts, 1, 1, longest]."""
    texts, longest = kept.shape
    return ops.reshape((1.0 - kept) * -1e30, (texts, 1, 1, longest))


def pooled(
    x: TensorValue, kept: TensorValue, lengths: TensorValue, pooling: Pooling | None
) -> TensorValue:
    """The embedding of each text, [texts, size]; ``x`` as it is without a ``pooling``."""
    if pooling is None:
        return x
    if pooling is Pooling.first:
        return x[:, 0]
    total = ops.squeeze(ops.sum(x * ops.unsqueeze(kept, -1), axis=1), 1)
    return total / ops.cast(lengths, x.dtype)


@dataclass(eq=False)
class EncoderInputs(ModelInputs):
    """The padded tokens of texts, and their lengths.

    Args:
        tokens: int64 of shape [texts, longest].
        lengths: int64 of shape [texts, 1].
    """

    tokens: Tensor
    lengths: Tensor


class EncoderModel(PipelineModel[TextContext]):
    """A model of embeddings in a pipeline: its graph takes padded tokens and their lengths."""

    padding = 0
    """The token that stands where a text has ended."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if len(self.devices) > 1:
            raise UnsupportedError(
                "ML169",
                f"{type(self).__name__} runs on one device, and {len(self.devices)} are configured",
                fix="name one in device_specs of the configuration",
            )
        device = DeviceRef.from_device(self.devices[0])
        module = self.module(
            self.huggingface_config,
            self.dtype,
            device,
            pooling=pooling_of(self.pipeline_config),
        )
        adapt = self.adapter or self.convert
        state = adapt(
            dict(self.weights.items()),
            huggingface_config=self.huggingface_config,
            pipeline_config=self.pipeline_config,
        )
        module.load_state_dict(state)
        inputs = [
            TensorType(DType.int64, ["texts", "longest"], device),
            TensorType(DType.int64, ["texts", 1], device),
        ]
        graph = Graph(type(module).__name__.lower(), module, input_types=inputs)
        self.model = self.session.load(graph, weights_registry=module.state_dict())

    @staticmethod
    @abstractmethod
    def module(
        config: Any, dtype: DType, device: DeviceRef, *, pooling: Pooling | None
    ) -> nn.Module:
        """The layers of the model, which are called with tokens and lengths.

        Args:
            config: The configuration of the checkpoint.
            dtype: The dtype of weights and activations.
            device: The device.
            pooling: How the embeddings of a text's tokens become one; None where they do not.

        Raises:
            NotImplementedError: The class that extends this one calls it.
        """
        raise NotImplementedError

    @staticmethod
    @abstractmethod
    def convert(state_dict: Mapping[str, Any], **kwargs: Any) -> dict[str, WeightData]:
        """The weights of a checkpoint by the names of the layers.

        Args:
            state_dict: The weights by the names of the checkpoint.
            **kwargs: The configurations of the checkpoint and of the pipeline.

        Raises:
            NotImplementedError: The class that extends this one calls it.
        """
        raise NotImplementedError

    @classmethod
    def calculate_max_seq_len(cls, pipeline_config: Any, huggingface_config: Any) -> int:
        """The places that the checkpoint has embeddings for, or ``max_length`` of the pipeline.

        Args:
            pipeline_config: The configuration of the pipeline.
            huggingface_config: The configuration of the checkpoint.

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
    ) -> EncoderInputs:
        """The tokens of a batch, padded to the longest text.

        Args:
            context_batch: The states of the requests.
            kv_cache_inputs: None: there is no cache.
            return_n_logits: Not read: every token has its embedding.
        """
        del kv_cache_inputs, return_n_logits
        texts = [context.next_tokens for context in context_batch]
        tokens = np.full((len(texts), max(map(len, texts))), self.padding, np.int64)
        for row, text in zip(tokens, texts, strict=True):
            row[: len(text)] = text
        lengths = np.array([[len(text)] for text in texts], np.int64)
        device = self.devices[0]
        return EncoderInputs(
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
        raise UnsupportedError(
            "ML169", f"{type(self).__name__} makes embeddings, in one step; it draws no tokens"
        )

    def execute(self, model_inputs: ModelInputs) -> ModelOutputs:
        """The embeddings as ``logits``: [texts, size], or unpooled [texts, longest, size].

        Args:
            model_inputs: The inputs, `EncoderInputs`.
        """
        (embeddings,) = self.model(*model_inputs)
        return ModelOutputs(logits=embeddings)


__all__ = [
    "ACTIVATIONS",
    "EncoderInputs",
    "EncoderModel",
    "Intermediate",
    "Residual",
    "hiding",
    "join_heads",
    "kept_places",
    "pooled",
    "require_activation",
    "split_heads",
]
