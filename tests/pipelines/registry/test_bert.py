"""BERT from a folder to embeddings, against transformers with the same weights."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch not installed")
pytest.importorskip("transformers", reason="transformers not installed")

import torch
import transformers

from maxlab.errors import InputError, UnsupportedError
from maxlab.graph.weights import SafetensorWeights
from maxlab.graph.weights.writing import write_safetensors
from maxlab.interfaces import (
    EmbeddingsGenerationInputs,
    PipelineTask,
    RequestID,
    TextGenerationRequest,
)
from maxlab.pipelines.architectures import register_all_models
from maxlab.pipelines.architectures.bert import ARCHITECTURES
from maxlab.pipelines.lib.config import PipelineConfig
from maxlab.pipelines.lib.registry import PIPELINE_REGISTRY, PipelineRegistry
from tests.pipelines.tiny.models import bert_folder

TEXTS = [
    "the quiet river",
    "bread",
    "green light turns into bread the the the river quiet light bread",
    "unknown words",
    "the",
]


@pytest.fixture(autouse=True)
def known(registry: PipelineRegistry) -> None:
    for architecture in ARCHITECTURES:
        registry.register(architecture)


def embedded(registry: PipelineRegistry, config: PipelineConfig, texts: list[str]) -> Any:
    """The embeddings of texts, in their order."""
    tokenizer, pipeline = registry.retrieve(config, PipelineTask.EMBEDDINGS_GENERATION)

    async def contexts() -> list[Any]:
        requests = [TextGenerationRequest(RequestID(), "bert", prompt=text) for text in texts]
        return [await tokenizer.new_context(request) for request in requests]

    found = asyncio.run(contexts())
    inputs = EmbeddingsGenerationInputs([{one.request_id: one for one in found}])
    outputs: Any = pipeline.execute(inputs)
    return [outputs[one.request_id].embeddings for one in found]


def expected(model: Any, folder: Path, text: str) -> np.ndarray[Any, Any]:
    """The embeddings of a text's tokens by transformers, one text at a time."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    inner = getattr(model, "bert", model)
    with torch.no_grad():
        found = inner(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
    return np.asarray(found.numpy())


@pytest.mark.parametrize(("pooled", "most"), [(True, 5), (False, 2)])
def test_embeddings_are_those_of_transformers(
    pooled: bool, most: int, tmp_path: Path, registry: PipelineRegistry
) -> None:
    model = bert_folder(tmp_path)
    config = PipelineConfig(model_path=str(tmp_path), pool_embeddings=pooled, max_batch_size=most)
    for found, text in zip(embedded(registry, config, TEXTS), TEXTS, strict=True):
        rows = expected(model, tmp_path, text)
        wanted = rows.mean(0) if pooled else rows
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, atol=1e-5)


@pytest.mark.parametrize("activation", ["gelu_new", "relu", "silu"])
def test_a_masked_language_model_has_the_same_embeddings(
    activation: str, tmp_path: Path, registry: PipelineRegistry
) -> None:
    model = bert_folder(
        tmp_path, kind=transformers.BertForMaskedLM, hidden_act=activation, layer_norm_eps=1e-3
    )
    (found,) = embedded(registry, PipelineConfig(model_path=str(tmp_path)), TEXTS[:1])
    np.testing.assert_allclose(found, expected(model, tmp_path, TEXTS[0]).mean(0), atol=1e-5)


def test_weights_may_have_the_names_of_old_checkpoints(
    tmp_path: Path, registry: PipelineRegistry
) -> None:
    model = bert_folder(tmp_path)
    path = tmp_path / "model.safetensors"
    weights = {name: one.data() for name, one in SafetensorWeights([path]).items()}
    old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    arrays: dict[str, Any] = {"bert.embeddings.position_ids": np.arange(20)[None]}
    for name, weight in weights.items():
        for new, before in old.items():
            name = name.replace(new, before)
        arrays[f"bert.{name}"] = np.array(weight.data)
    path.unlink()
    write_safetensors(path, arrays)
    (found,) = embedded(registry, PipelineConfig(model_path=str(tmp_path)), TEXTS[:1])
    np.testing.assert_allclose(found, expected(model, tmp_path, TEXTS[0]).mean(0), atol=1e-5)


def test_a_text_that_is_too_long_is_refused(tmp_path: Path, registry: PipelineRegistry) -> None:
    bert_folder(tmp_path)
    with pytest.raises(InputError):
        embedded(registry, PipelineConfig(model_path=str(tmp_path)), ["the " * 30])
    with pytest.raises(InputError):
        PipelineConfig(model_path=str(tmp_path), max_length=21)


@pytest.mark.parametrize(
    "entries", [{"hidden_act": "tanh"}, {"position_embedding_type": "relative_key"}]
)
def test_a_variant_that_is_not_computed_is_refused(
    entries: dict[str, Any], tmp_path: Path, registry: PipelineRegistry
) -> None:
    bert_folder(tmp_path, **entries)
    with pytest.raises(UnsupportedError) as caught:
        embedded(registry, PipelineConfig(model_path=str(tmp_path)), TEXTS[:1])
    assert caught.value.code == "ML169"
    assert next(iter(entries)) in caught.value.what


def test_all_models_are_registered_once() -> None:
    before = dict(PIPELINE_REGISTRY.architectures)
    try:
        register_all_models()
        register_all_models()
        assert {"BertModel", "BertForMaskedLM"} <= set(PIPELINE_REGISTRY.architectures)
    finally:
        PIPELINE_REGISTRY.reset()
        for one in before.values():
            PIPELINE_REGISTRY.register(one)
    assert len({dataclasses.astuple(one)[0] for one in ARCHITECTURES}) == len(ARCHITECTURES)
