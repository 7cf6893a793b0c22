"""Folders of tokenizers, made once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.pipelines.tokenizer import trained


@pytest.fixture(scope="session")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """Gives the folder of a tokenizer of a kind with a chat template, by their names."""

    @cache
    def make(kind: str = "byte_level", template: str = "chatml") -> Path:
        path = tmp_path_factory.mktemp(f"{kind}-{template}")
        return trained.folder(path, kind, chat_template=trained.TEMPLATES[template])

    return make
