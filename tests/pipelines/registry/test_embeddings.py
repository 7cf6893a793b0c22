"""The pipeline of embeddings: the shapes that models give, pooling, and batches."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from maxlab.driver import Tensor
from maxlab.dtype import DType
from maxlab.errors import ExecutionError
from maxlab.interfaces import EmbeddingsGenerationInputs, Pipeline
from maxlab.pipelines.core import TextContext
from maxlab.pipelines.lib.embeddings_pipeline import EmbeddingsPipeline
from maxlab.pipelines.lib.interfaces import ModelOutputs

SIZE = 4
Array = np.ndarray[Any, Any]


def rows_of(context: TextContext) -> Array:
    """The embeddings of a text's tokens, [tokens, size]: different for each token and place."""
    tokens = context.next_tokens.astype(np.float32)[:, None]
    places = np.arange(len(tokens), dtype=np.float32)[:, None]
    return tokens * np.arange(1, SIZE + 1, dtype=np.float32) + places / 8


class Given:
    """A model whose outputs have one of the shapes, padding filled with NaN."""

    def __init__(self, shape: str) -> None:
        self.shape = shape
        self.batches: list[int] = []

    def prepare_initial_token_inputs(self, context_batch: Sequence[TextContext]) -> Any:
        self.batches.append(len(context_batch))
        return [rows_of(context) for context in context_batch]

    def execute(self, rows: list[Array]) -> ModelOutputs:
        lengths = [len(one) for one in rows]
        offsets = None
        if self.shape.startswith("padded"):
            extra = 3 if self.shape == "padded too long" else 0
            found = np.full((len(rows), max(lengths) + extra, SIZE), np.nan, np.float32)
            for row, one in zip(found, rows, strict=True):
                row[: len(one)] = one
        elif self.shape == "pooled":
            found = np.stack([one.mean(0) for one in rows])
        else:
            found = np.concatenate(rows)
        if self.shape == "ragged with offsets":
            offsets = Tensor.from_numpy(np.cumsum([0, *lengths], dtype=np.uint32))
        if self.shape == "bfloat16":
            bits = found.astype(ml_dtypes.bfloat16).view(np.uint16)
            return ModelOutputs(Tensor.from_numpy(bits).view(DType.bfloat16))
        return ModelOutputs(Tensor.from_numpy(found), logit_offsets=offsets)


def pipeline_of(model: Any, *, pooled: bool = True, most: int | None = None) -> EmbeddingsPipeline:
    """A pipeline of a model that is made already."""
    pipeline = EmbeddingsPipeline.__new__(EmbeddingsPipeline)
    config: Any = SimpleNamespace(pool_embeddings=pooled, max_batch_size=most)
    pipeline._pipeline_config, pipeline._pipeline_model = config, model
    return pipeline


def contexts(lengths: Sequence[int]) -> list[TextContext]:
    rng = np.random.default_rng(len(lengths))
    return [TextContext(max_length=200, tokens=rng.integers(0, 50, n)) for n in lengths]


def executed(pipeline: Pipeline[Any, Any], batches: list[list[TextContext]]) -> list[Array]:
    inputs = EmbeddingsGenerationInputs([{one.request_id: one for one in b} for b in batches])
    outputs = pipeline.execute(inputs)
    assert list(outputs) == list(inputs.batch)
    assert all(output.is_done for output in outputs.values())
    return [output.embeddings for output in outputs.values()]


SHAPES = ["padded", "padded too long", "ragged", "ragged with offsets", "bfloat16"]


@pytest.mark.parametrize("lengths", [[3], [1, 1, 1], [5, 1, 130, 2], [2, 2]])
@pytest.mark.parametrize("shape", [*SHAPES, "pooled"])
def test_a_pooled_embedding_is_the_mean_of_a_texts_tokens(shape: str, lengths: list[int]) -> None:
    texts = contexts(lengths)
    found = executed(pipeline_of(Given(shape)), [texts])
    tolerance = 2**-7 if shape == "bfloat16" else 1e-6
    for one, text in zip(found, texts, strict=True):
        assert (one.dtype, one.shape) == (np.float32, (SIZE,))
        np.testing.assert_allclose(one, rows_of(text).mean(0), rtol=tolerance)


@pytest.mark.parametrize("lengths", [[3], [1, 1, 1], [5, 1, 130, 2]])
@pytest.mark.parametrize("shape", SHAPES)
def test_unpooled_embeddings_are_those_of_the_tokens_without_padding(
    shape: str, lengths: list[int]
) -> None:
    texts = contexts(lengths)
    found = executed(pipeline_of(Given(shape), pooled=False), [texts])
    tolerance = 2**-7 if shape == "bfloat16" else 0
    for one, text in zip(found, texts, strict=True):
        assert (one.dtype, one.shape) == (np.float32, (len(text.next_tokens), SIZE))
        np.testing.assert_allclose(one, rows_of(text), rtol=tolerance)
        one[:] = 0  # an array of its own
    assert all(not one.any() for one in found)


@pytest.mark.parametrize(
    ("most", "sizes"), [(None, [7]), (7, [7]), (3, [3, 3, 1]), (1, [1] * 7), (100, [7])]
)
def test_a_batch_is_executed_in_parts_of_the_largest_size(
    most: int | None, sizes: list[int]
) -> None:
    texts = contexts([3, 1, 4, 1, 5, 9, 2])
    model = Given("ragged")
    found = executed(pipeline_of(model, most=most), [texts[:2], [], texts[2:]])
    assert model.batches == sizes
    for one, text in zip(found, texts, strict=True):
        np.testing.assert_allclose(one, rows_of(text).mean(0), rtol=1e-6)


@pytest.mark.parametrize("batches", [[], [{}], [{}, {}]])
def test_an_empty_batch_has_no_outputs(batches: list[Any]) -> None:
    model = Given("ragged")
    assert pipeline_of(model).execute(EmbeddingsGenerationInputs(batches)) == {}
    assert model.batches == []


class Wrong:
    """A model that gives what it was made with."""

    def __init__(self, shape: tuple[int, ...], offsets: list[int] | None = None) -> None:
        given = None if offsets is None else Tensor.from_numpy(np.array(offsets))
        self.outputs = ModelOutputs(
            Tensor.from_numpy(np.zeros(shape, np.float32)), logit_offsets=given
        )

    def prepare_initial_token_inputs(self, context_batch: Sequence[TextContext]) -> Any:
        return context_batch

    def execute(self, inputs: Any) -> ModelOutputs:
        return self.outputs


@pytest.mark.parametrize("pooled", [True, False])
@pytest.mark.parametrize(
    ("shape", "offsets"),
    [
        ((SIZE,), None),
        ((1, 3, SIZE), None),
        ((2, 2, SIZE), None),
        ((3, SIZE), None),
        ((6, SIZE), None),
        ((2, 3, SIZE, 1), None),
        ((5, SIZE), [0, 2, 5]),
        ((5, SIZE), [0, 3]),
        ((5, SIZE), [0, 3, 6]),
        ((5, SIZE), [1, 3, 5]),
        ((6, SIZE), [0, 3, 5]),
        ((5, SIZE), [5, 3, 0]),
    ],
)
def test_outputs_that_do_not_fit_the_batch_are_refused(
    shape: tuple[int, ...], offsets: list[int] | None, pooled: bool
) -> None:
    with pytest.raises(ExecutionError) as caught:
        executed(pipeline_of(Wrong(shape, offsets), pooled=pooled), [contexts([3, 2])])
    assert caught.value.code == "ML178"
    assert "Wrong" in caught.value.what


def test_embeddings_that_the_model_pooled_cannot_be_unpooled() -> None:
    with pytest.raises(ExecutionError):
        executed(pipeline_of(Given("pooled"), pooled=False), [contexts([3, 2])])
