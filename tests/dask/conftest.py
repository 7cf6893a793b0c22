"""A cluster of two workers in processes of their own, and a tiny Llama that each of them loads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("distributed", reason="distributed not installed")
pytest.importorskip("torch", reason="torch not installed")
pytest.importorskip("transformers", reason="transformers not installed")

from maxlab.pipelines.lib.architectures import registry as current
from maxlab.pipelines.lib.architectures import use_registry

LENGTH = 300
"""The most tokens of a sequence."""


@pytest.fixture(scope="session")
def oracles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The folder of a tiny Llama with a tokenizer, and of an adapter; and the models of
    transformers, the base and the one with the adapter merged."""
    from tests.pipelines.decoders import tiny
    from tests.pipelines.decoders.adapters import adapter_folder
    from tests.pipelines.tokenizer import trained

    path = tmp_path_factory.mktemp("llama")
    base = tiny.decoder_folder(path, "LlamaForCausalLM", eos_token_id=1, bos_token_id=0)
    trained.folder(path)
    (path / "generation_config.json").write_text(json.dumps({"do_sample": False}))
    poems = adapter_folder(path / "poems", base, 0, 4, 6.0)
    return {"folder": path, "base": base.eval(), "poems": poems.eval()}


@pytest.fixture(scope="session")
def folder(oracles: dict[str, Any]) -> Path:
    """The folder of the model."""
    found: Path = oracles["folder"]
    return found


@pytest.fixture(scope="session")
def client() -> Iterator[Any]:
    """A client of the cluster."""
    import dask

    distributed: Any = pytest.importorskip("distributed")

    before = current()
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "60s"}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0",
            silence_logs=False, memory_limit=None,
        ) as cluster,
        distributed.Client(cluster) as made,
    ):  # fmt: skip
        yield made
    use_registry(before)
