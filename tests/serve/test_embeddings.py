"""Embeddings over HTTP, against transformers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maxlab.errors import InputError
from maxlab.serve.command import engine_of
from maxlab.serve.limits import Limits
from maxlab.serve.server import ModelServer
from tests.serve.serving import Served, error_of, started

TEXTS = ["The quick brown fox", "a", "weather in Boston today"]


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """The folder of a tiny Bert with a tokenizer, and the model of transformers."""
    import torch
    import transformers

    from tests.pipelines.tokenizer import trained

    path = tmp_path_factory.mktemp("bert")
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=420, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=48, max_position_embeddings=64,
    )  # fmt: skip
    model: Any = transformers.BertModel(config).eval()
    model.save_pretrained(path)
    trained.folder(path, model_max_length=64)
    return path, model


@pytest.fixture(scope="module")
def embedding(bert: tuple[Path, Any]) -> Iterator[Served]:
    """A server of the tiny Bert."""
    engine = engine_of(str(bert[0]), ["--served-model-name=bert", "--max-batch-size=2"], 16)
    with started(ModelServer(engine, Limits(answers_each=8), port=0)) as found:
        yield found
    engine.close()


def test_embeddings_are_those_of_transformers(embedding: Served, bert: tuple[Path, Any]) -> None:
    import openai
    import torch
    import transformers

    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(bert[0])
    wanted, count = [], 0
    for text in TEXTS:
        ids = torch.tensor([tokenizer.encode(text)])
        count += ids.shape[1]
        with torch.no_grad():
            wanted.append(bert[1](ids).last_hidden_state[0].mean(0).numpy())
    client: Any
    with openai.OpenAI(base_url=f"{embedding.url}/v1", api_key="none", max_retries=0) as client:
        for given in (TEXTS, [tokenizer.encode(text) for text in TEXTS]):
            for more in ({}, {"encoding_format": "float"}):
                found: Any = client.embeddings.create(model="bert", input=given, **more)
                np.testing.assert_allclose([one.embedding for one in found.data], wanted, atol=1e-5)
                assert [one.index for one in found.data] == [0, 1, 2]
                assert found.usage.prompt_tokens == count
        alone = client.embeddings.create(model="bert", input=TEXTS[0], dimensions=32)
        np.testing.assert_allclose(alone.data[0].embedding, wanted[0], atol=1e-5)
        assert [one.id for one in client.models.list()] == ["bert"]


def test_what_is_wrong_is_refused(embedding: Served) -> None:
    asked = {"model": "bert", "input": "a"}
    for given, status, param, code in (
        ({"model": "nobody"}, 404, "model", "model_not_found"),
        ({"input": []}, 400, "input", None),
        ({"input": "a" * 300}, 400, None, "context_length_exceeded"),
        ({"input": [421]}, 400, None, "ML981"),
        ({"input": ["a"] * 9}, 400, "n", None),
        ({"dimensions": 31}, 400, "dimensions", None),
    ):
        found, _, body = embedding.post("/v1/embeddings", {**asked, **given})
        error = error_of(body)
        assert (found, error["param"], error["code"]) == (status, param, code), error
    text = {"model": "bert", "prompt": "a"}
    status, _, body = embedding.post("/v1/completions", text)
    assert (status, error_of(body)["param"]) == (400, "model")
    assert embedding.post("/v1/embeddings", asked)[0] == 200


def test_a_model_of_texts_makes_no_embeddings(served: Served) -> None:
    status, _, body = served.post("/v1/embeddings", {"model": "tiny", "input": "a"})
    assert (status, error_of(body)["param"]) == (400, "model")


def test_embeddings_of_tokens_are_not_served(bert: tuple[Path, Any]) -> None:
    with pytest.raises(InputError, match="ML192"):
        engine_of(str(bert[0]), ["--no-pool-embeddings"], 1)
