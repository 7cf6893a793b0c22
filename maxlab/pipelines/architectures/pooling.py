"""How the embeddings of a text's tokens become one: as the authors of a checkpoint say."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maxlab import files
from maxlab.errors import InputError, MaxlabError, UnsupportedError, shown
from maxlab.pipelines.lib.config_enums import RepoType
from maxlab.pipelines.lib.hf_utils import HuggingFaceRepo, download_weight_files

if TYPE_CHECKING:
    from maxlab.pipelines.lib.config import PipelineConfig

FILE = "1_Pooling/config.json"
"""The file in which sentence transformers say how they pool."""
_BEGIN = "pooling_mode"


class Pooling(StrEnum):
    """The embedding of a text, made of those of its tokens."""

    mean = "mean_tokens"
    """Their mean."""
    first = "cls_token"
    """That of the first token."""


def pooling_of(config: PipelineConfig) -> Pooling | None:
    """How the checkpoint of a configuration is pooled: the mean where it does not say; None where
    ``pool_embeddings`` is False.

    Args:
        config: The configuration of the pipeline.

    Raises:
        InputError: ML132 (a ValueError), the file that says it cannot be read.
        UnsupportedError: ML169 (a NotImplementedError), it says something else than the mean or
            the first token.
    """
    if not config.pool_embeddings:
        return None
    repo = config.model_config.huggingface_model_repo
    path = _file_of(repo)
    if path is None:
        return Pooling.mean
    try:
        entries = json.loads(files.read_text(path, "how embeddings are pooled", most=1 << 20))
        modes = _modes(entries)
    except (MaxlabError, ValueError, RecursionError, AttributeError) as error:
        raise InputError(
            "ML132",
            f"{FILE} of {repo.repo_id} cannot be read",
            why=[f"{type(error).__name__}: {shown(str(error), 200)[1:-1]}"],
            fix="mend the file, or leave it out: the mean of the tokens is taken then",
        ) from error
    if modes <= {Pooling.mean.value}:
        return Pooling.mean
    if modes == {Pooling.first.value}:
        return Pooling.first
    raise UnsupportedError(
        "ML169",
        f"{repo.repo_id} is pooled by {', '.join(sorted(modes))}, which is not computed",
        why=[f"{FILE} says so"],
        fix="pass pool_embeddings=False, and pool the embeddings of the tokens yourself",
    )


def _file_of(repo: HuggingFaceRepo) -> Path | None:
    """The file on this machine; None where the checkpoint has none."""
    if not repo.file_exists(FILE):
        return None
    revision = repo.revision if repo.repo_type is RepoType.online else None
    (path,) = download_weight_files(repo.repo_id, [FILE], revision=revision)
    return path


def _modes(entries: dict[str, Any]) -> set[str]:
    """The ways of pooling that a file names, as one word or as switches."""
    word = entries.get(_BEGIN)
    if isinstance(word, str):
        return {{"mean": Pooling.mean.value, "cls": Pooling.first.value}.get(word, word)}
    return {
        name.removeprefix(f"{_BEGIN}_")
        for name, value in entries.items()
        if name.startswith(f"{_BEGIN}_") and value is True
    }


__all__ = ["FILE", "Pooling", "pooling_of"]
