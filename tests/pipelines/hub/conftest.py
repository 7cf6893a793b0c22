"""A hub and a cache of one's own for each test."""

from __future__ import annotations

import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.pipelines.hub.server import Hub, serving


@pytest.fixture(scope="session")
def server() -> Iterator[Hub]:
    """One hub for all tests."""
    with serving() as hub:
        yield hub


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and no token."""
    constants: Any = pytest.importorskip(
        "huggingface_hub.constants",
        reason="huggingface_hub not installed; scripts/test --oracle installs it",
    )
    folder = tmp_path / "hub"
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_OIDC_RESOURCE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {
        "HF_HUB_CACHE": str(folder),
        "HF_HOME": str(tmp_path),
        "HF_TOKEN_PATH": str(tmp_path / "token"),
        "HF_HUB_OFFLINE": False,
    }.items():
        monkeypatch.setattr(constants, name, value)
    return folder


@pytest.fixture
def hub(cache: Path, server: Hub, monkeypatch: pytest.MonkeyPatch) -> Hub:
    """A hub without repositories, which ``huggingface_hub`` asks; there is no wait between
    attempts."""
    from huggingface_hub import constants, file_download
    from huggingface_hub.utils import _http

    from maxlab.pipelines.lib.hf_utils import access

    server.models.clear()
    server.faults.clear()
    server.asked.clear()
    monkeypatch.setattr(constants, "ENDPOINT", server.url)
    template = server.url + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(access, "WAITS_S", (0.0, 0.0, 0.0))
    hurried = types.SimpleNamespace(**{**vars(time), "sleep": lambda seconds: None})
    for module in (file_download, _http):  # they wait a second and more before they go on
        monkeypatch.setattr(module, "time", hurried)
    return server
