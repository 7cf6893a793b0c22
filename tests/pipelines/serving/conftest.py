"""A tiny decoder in a pipeline, compiled once for all tests of a module."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tokenizers", reason="tokenizers not installed")
pytest.importorskip("transformers", reason="transformers not installed")

from maxlab.pipelines.lib.architectures import registry as current
from maxlab.pipelines.lib.architectures import use_registry
from maxlab.pipelines.lib.registry import PipelineRegistry
from tests.pipelines.serving.running import Make, Pipe, made, written
from tests.pipelines.serving.scheduling import contexts


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny Llama with a tokenizer, which draws the most probable token."""
    pytest.importorskip("torch", reason="torch not installed")
    from tests.pipelines.decoders import tiny
    from tests.pipelines.tokenizer import trained

    path = tmp_path_factory.mktemp("llama")
    tiny.decoder_folder(path, "LlamaForCausalLM", eos_token_id=1, bos_token_id=0)
    trained.folder(path)
    (path / "generation_config.json").write_text(json.dumps({"do_sample": False}))
    return path


@pytest.fixture(scope="module")
def registry() -> Iterator[PipelineRegistry]:
    """An empty registry in place of the one that pipelines use."""
    before, mine = current(), PipelineRegistry([])
    use_registry(mine)
    yield mine
    use_registry(before)


@pytest.fixture(scope="module")
def make(registry: PipelineRegistry, tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Makes pipelines of the decoder."""

    def one(pages: int | None = None, **given: Any) -> Pipe:
        folder: Path = tmp_path_factory.mktemp("decoder")
        return made(registry, folder, pages, **given)

    return one


@pytest.fixture(scope="module")
def pipeline(make: Make) -> Pipe:
    """A pipeline with all features of the sampler, and room for all requests."""
    return make(do_penalties=True, enable_min_tokens=True, enable_structured_output=True)


@pytest.fixture(scope="module")
def alone(pipeline: Pipe) -> list[list[int]]:
    """The answers to the prompts, each computed alone."""
    return [written(pipeline, one)[0] for one in contexts(pipeline)]


@pytest.fixture(autouse=True)
def pages_come_back(request: pytest.FixtureRequest) -> Iterator[None]:
    """No test leaves a page of the shared pipeline with a user."""
    yield
    if "pipeline" in request.fixturenames:
        (manager,) = request.getfixturevalue("pipeline").kv_managers
        manager.check_tables()
        assert manager.num_free_blocks == manager.total_num_pages
