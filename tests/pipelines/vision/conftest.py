"""A pipeline of a tiny Qwen2.5-VL, made once for all tests of the folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch not installed")
pytest.importorskip("transformers", reason="transformers not installed")
pytest.importorskip("PIL.Image", reason="Pillow not installed")

from maxlab.dtype import DType
from maxlab.pipelines.architectures.qwen2_5_vl import ARCHITECTURES, Qwen25VLModel
from maxlab.pipelines.lib.architectures import registry as current
from maxlab.pipelines.lib.architectures import use_registry
from maxlab.pipelines.lib.config import PipelineConfig
from maxlab.pipelines.lib.pipeline_variants import TextGenerationPipeline
from maxlab.pipelines.lib.registry import PipelineRegistry
from tests.pipelines.vision.folders import vision_folder

Pipe = TextGenerationPipeline[Any]


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """The folder of the model, and the model of transformers."""
    folder = tmp_path_factory.mktemp("vision")
    return folder, vision_folder(folder)


def made(folder: Path, pages: int = 32, **given: Any) -> Pipe:
    """A pipeline of a folder, with a cache of so many pages."""
    before, mine = current(), PipelineRegistry(list(ARCHITECTURES))
    use_registry(mine)
    try:
        base: dict[str, Any] = {"max_batch_size": 4, "max_length": 400, "max_num_steps": 4}
        config = PipelineConfig(model_path=str(folder), **{**base, **given})
        size = Qwen25VLModel.get_kv_params(
            config.model_config.huggingface_config,
            1,
            config.model_config.kv_cache_config,
            DType.float32,
        ).bytes_per_block(2)
        with pytest.MonkeyPatch.context() as patched:
            load = Qwen25VLModel.load_kv_manager
            patched.setattr(
                Qwen25VLModel,
                "load_kv_manager",
                lambda self, session, _: load(self, session, pages * size),
            )
            _, found = mine.retrieve(config)
    finally:
        use_registry(before)
    assert isinstance(found, TextGenerationPipeline)
    return found


@pytest.fixture(scope="session")
def pipeline(tiny: tuple[Path, Any]) -> Pipe:
    """A pipeline that keeps prefixes, and whose model returns all logits."""
    return made(tiny[0], enable_prefix_caching=True, enable_echo=True)


@pytest.fixture(autouse=True)
def pages_come_back(request: pytest.FixtureRequest) -> Iterator[None]:
    """No test leaves a page of the shared pipeline with a user."""
    yield
    if "pipeline" in request.fixturenames:
        (manager,) = request.getfixturevalue("pipeline").kv_managers
        assert manager.num_free_blocks == manager.total_num_pages
