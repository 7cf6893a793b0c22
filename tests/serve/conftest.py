"""A server of a tiny Llama with random weights, in a thread, for all tests of the folder."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openai", reason="openai not installed")
pytest.importorskip("starlette", reason="starlette not installed")
pytest.importorskip("uvicorn", reason="uvicorn not installed")
pytest.importorskip("torch", reason="torch not installed")
pytest.importorskip("transformers", reason="transformers not installed")

from maxlab.pipelines.lib.architectures import registry as current
from maxlab.pipelines.lib.architectures import use_registry
from maxlab.serve.command import KEPT_EVENTS, engine_of
from maxlab.serve.engine import TextEngine
from maxlab.serve.limits import Limits
from maxlab.serve.server import ModelServer
from tests.serve.serving import Served, started

BASE, ADAPTERS = "tiny", ("one", "two")
LENGTH = 500
"""The most tokens of a sequence."""


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny Llama with a tokenizer and a chat template, and of two adapters."""
    from tests.pipelines.decoders import tiny
    from tests.pipelines.decoders.adapters import adapter_folder
    from tests.pipelines.tokenizer import trained

    path = tmp_path_factory.mktemp("llama")
    base = tiny.decoder_folder(path, "LlamaForCausalLM", eos_token_id=1, bos_token_id=0)
    trained.folder(path, chat_template=trained.CHATML)
    (path / "generation_config.json").write_text(json.dumps({"do_sample": False}))
    for seed, name in enumerate(ADAPTERS):
        adapter_folder(path / name, base, seed, 4, 6.0)
    return path


@pytest.fixture(scope="session")
def engine(folder: Path) -> Iterator[TextEngine]:
    """The model in its process, with all features and two adapters."""
    flags = [
        f"--max-length={LENGTH}", "--max-batch-size=8", f"--served-model-name={BASE}",
        "--enable-echo", "--enable-lora", "--max-num-loras=2", "--max-lora-rank=8",
        *(f"--lora-paths={name}={folder / name}" for name in ADAPTERS),
    ]  # fmt: skip
    before = current()
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("MAXLAB_TRACE_EVENTS", KEPT_EVENTS)  # as the command does
        made = engine_of(str(folder), flags, 64)
    yield made
    made.close()
    use_registry(before)


@pytest.fixture(scope="session")
def served(engine: TextEngine) -> Iterator[Served]:
    """The server, with short times for clients that are slow."""
    limits = Limits(
        body_bytes=1 << 16, answers=64, answers_each=8, receive_s=1.0, send_s=1.0, request_s=60.0
    )
    with started(ModelServer(engine, limits, port=0)) as found:
        yield found


@pytest.fixture
def client(served: Served) -> Iterator[Any]:
    """OpenAI's client."""
    import openai

    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0) as made:
        yield made


@pytest.fixture(autouse=True)
def nothing_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """No test leaves an answer that is written or waits, nor a thread."""
    yield
    if "served" in request.fixturenames:
        assert request.getfixturevalue("served").is_idle(), "answers are still written"
    names = [one.name for one in threading.enumerate()]
    assert len(names) < 64, names
