"""The pipeline that makes embeddings of texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from maxlab.driver import CPU, Tensor
from maxlab.errors import ExecutionError
from maxlab.graph.weights import WeightsFormat
from maxlab.interfaces import (
    EmbeddingsContext,
    EmbeddingsGenerationInputs,
    EmbeddingsGenerationOutput,
    Pipeline,
    PipelineTokenizer,
    RequestID,
)
from maxlab.nn.transformer import ReturnLogits
from maxlab.pipelines.lib.interfaces import ModelOutputs, PipelineModel
from maxlab.pipelines.lib.model_loading import loaded_model
from maxlab.pipelines.lib.weights_adapter import WeightsAdapter

if TYPE_CHECKING:
    from maxlab.pipelines.lib.config import PipelineConfig

T = TypeVar("T")
Floats = npt.NDArray[np.float32]
_READ = {"pool_embeddings", "force_download"}
"""Settings that this pipeline reads and others may not."""


class EmbeddingsPipeline(Pipeline[EmbeddingsGenerationInputs, EmbeddingsGenerationOutput]):
    """Makes embeddings of texts: of each text a vector, or of each of its tokens one.

    With ``pool_embeddings``, the default of the configuration, the vector of a text is the mean of
    those of its tokens; padding does not count. The ``logits`` of the model may have one of these
    shapes:

    - [texts, longest text, size]: padded, an embedding for each token;
    - [tokens, size]: ragged, the texts one after the other, with their ``logit_offsets`` or not;
    - [texts, size]: pooled by the model; taken with ``pool_embeddings`` only.

    Args:
        pipeline_config: The configuration, resolved.
        pipeline_model: The class of the model.
        eos_token_id: The token that ends a sequence, or None: embeddings do not depend on it.
        weight_adapters: Functions that convert the weights of a format of files.
        tokenizer: The tokenizer of the texts; contexts come tokenized, so it is not called.

    Raises:
        InputError: ML182 (a ValueError), the configuration names no encoding.
        UnsupportedError: ML127 (a NotImplementedError), the configuration asks for something that
            this pipeline does not do.
        WeightError: The files of weights cannot be read, or do not fit the model.
    """

    def __init__(
        self,
        pipeline_config: PipelineConfig,
        pipeline_model: type[PipelineModel[Any]],
        eos_token_id: int | None,
        weight_adapters: Mapping[WeightsFormat, WeightsAdapter],
        tokenizer: PipelineTokenizer[Any, Any, Any],
    ) -> None:
        del eos_token_id
        pipeline_config.refuse_unread(read=_READ)
        self._pipeline_config = pipeline_config
        self._tokenizer = tokenizer
        self._pipeline_model = loaded_model(
            pipeline_config, pipeline_model, weight_adapters, ReturnLogits.ALL
        )

    @property
    def pipeline_config(self) -> PipelineConfig:
        """The configuration."""
        return self._pipeline_config

    @property
    def tokenizer(self) -> PipelineTokenizer[Any, Any, Any]:
        """The tokenizer that makes contexts of requests."""
        return self._tokenizer

    def execute(
        self, inputs: EmbeddingsGenerationInputs
    ) -> dict[RequestID, EmbeddingsGenerationOutput]:
        """The embeddings of each request: float32 of shape [size], or [tokens, size] unpooled.

        More requests than ``max_batch_size`` of the configuration are executed one such batch
        after the other.

        Args:
            inputs: The batch.

        Raises:
            ExecutionError: ML178 (a ValueError), the outputs of the model do not fit the batch.
        """
        batch = inputs.batch
        most = self._pipeline_config.max_batch_size or max(len(batch), 1)
        done: dict[RequestID, EmbeddingsGenerationOutput] = {}
        for part in _parts(batch.items(), most):
            found = self._embed([context for _, context in part])
            for (request_id, _), embeddings in zip(part, found, strict=True):
                done[request_id] = EmbeddingsGenerationOutput(embeddings)
        return done

    def _embed(self, contexts: Sequence[EmbeddingsContext]) -> list[Floats]:
        """The embeddings of one batch."""
        model_inputs = self._pipeline_model.prepare_initial_token_inputs(contexts)
        outputs = self._pipeline_model.execute(model_inputs)
        lengths = [context.active_length for context in contexts]
        name = type(self._pipeline_model).__name__
        rows = _rows(name, outputs, lengths, is_pooled=self._pipeline_config.pool_embeddings)
        if not self._pipeline_config.pool_embeddings:
            return [row.copy() for row in rows]  # not parts of one array that all keep
        return [
            row if row.ndim == 1 else row.mean(0, dtype=np.float64).astype(np.float32)
            for row in rows
        ]

    def release(self, request_id: RequestID) -> None:
        """Ends a request. One step answers it whole, so nothing of it was kept.

        Args:
            request_id: The request.
        """
        del request_id


def _parts(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """``items`` in lists of ``size``, the last one shorter."""
    left = iter(items)
    while part := list(islice(left, size)):
        yield part


def _rows(
    name: str, outputs: ModelOutputs, lengths: Sequence[int], *, is_pooled: bool
) -> list[Floats]:
    """The embeddings of each text as the model gives them: [tokens, size], or [size] pooled.

    Raises:
        ExecutionError: ML178, they do not fit the texts.
    """
    found = _floats(outputs.logits)
    texts, longest, tokens = len(lengths), max(lengths), sum(lengths)
    if min(lengths) < 1:
        raise _misfit(name, "texts with tokens", f"texts with {list(lengths)} tokens")
    if found.ndim == 3 and found.shape[0] == texts and found.shape[1] >= longest:
        return [rows[:length] for rows, length in zip(found, lengths, strict=True)]
    if found.ndim == 2 and outputs.logit_offsets is not None:
        starts = outputs.logit_offsets.to_numpy().tolist()
        if starts != [0, *accumulate(lengths)] or len(found) != tokens:
            raise _misfit(
                name,
                f"logit_offsets of texts with {list(lengths)} tokens",
                f"{starts} for {len(found)} rows",
            )
        return _split(found, lengths)
    if found.ndim == 2 and len(found) == tokens:
        return _split(found, lengths)
    if found.ndim == 2 and len(found) == texts and is_pooled:
        return list(found)
    expected = f"[{texts}, {longest} or more, size] or [{tokens}, size]"
    if is_pooled:
        expected += f" or [{texts}, size]"
    raise _misfit(name, f"embeddings of shape {expected}", str(list(found.shape)))


def _split(rows: Floats, lengths: Sequence[int]) -> list[Floats]:
    """``rows`` divided into parts of ``lengths``."""
    ends = list(accumulate(lengths))
    return [rows[end - length : end] for end, length in zip(ends, lengths, strict=True)]


def _floats(tensor: Tensor) -> Floats:
    """The elements of a tensor as float32 on the host."""
    return tensor.to(CPU()).to_ml_numpy().astype(np.float32, copy=False)


def _misfit(name: str, expected: str, got: str) -> ExecutionError:
    return ExecutionError(
        "ML178",
        f"{name}: {expected} expected ≠ {got} given",
        fix="let execute of the model return one of the shapes that EmbeddingsPipeline takes",
    )


__all__ = ["EmbeddingsPipeline"]
