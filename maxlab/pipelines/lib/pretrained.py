"""Configurations and tokenizers of checkpoints, as transformers reads them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from maxlab.errors import InputError, MissingPackageError, shown

if TYPE_CHECKING:
    from maxlab.pipelines.lib.hf_utils import HuggingFaceRepo


def huggingface_config(repo: HuggingFaceRepo) -> Any:
    """The configuration of a checkpoint: what transformers makes of ``config.json``.

    A ``model_type`` that transformers does not know gives a plain ``PretrainedConfig``, with
    every entry of the file as an attribute. Code of the repository runs only if it is trusted.

    Args:
        repo: The repository or folder of the checkpoint.

    Raises:
        InputError: ML176 (a ValueError), ``config.json`` is not there or cannot be read.
        MissingPackageError: ML979, transformers is not installed.
    """
    transformers = _transformers()
    given = {"revision": repo.revision, "trust_remote_code": repo.trust_remote_code}
    try:
        entries, _ = transformers.PretrainedConfig.get_config_dict(repo.repo_id, **given)
        known = entries.get("model_type") in transformers.CONFIG_MAPPING
        if known or (repo.trust_remote_code and "auto_map" in entries):
            config = transformers.AutoConfig.from_pretrained(repo.repo_id, **given)
        else:
            config = transformers.PretrainedConfig.from_dict(entries)
    except Exception as error:  # of whatever type: the file may hold anything
        raise InputError(
            "ML176",
            f"the configuration of {repo.repo_id} cannot be read",
            why=[_first_line(error)],
            fix="the folder of a model has a config.json as transformers writes it",
        ) from error
    names = config.architectures
    if names is not None and not (
        isinstance(names, list) and all(isinstance(name, str) for name in names)
    ):
        raise InputError(
            "ML176",
            f"architectures in config.json of {repo.repo_id}: a list of names expected ≠ "
            f"{shown(names)} given",
            fix='write "architectures": ["NameOfTheModelsClass"]',
        )
    return config


def huggingface_tokenizer(repo: HuggingFaceRepo) -> Any:
    """The tokenizer of a checkpoint, as transformers loads it.

    Args:
        repo: The repository or folder of the checkpoint.

    Raises:
        InputError: ML177 (a ValueError), its files are not there or cannot be read.
        MissingPackageError: ML979, transformers is not installed.
    """
    transformers = _transformers()
    try:
        return transformers.AutoTokenizer.from_pretrained(
            repo.repo_id, revision=repo.revision, trust_remote_code=repo.trust_remote_code
        )
    except Exception as error:  # of whatever type: the files may hold anything
        raise InputError(
            "ML177",
            f"the tokenizer of {repo.repo_id} cannot be loaded",
            why=[_first_line(error)],
            fix="the folder of a model has a tokenizer.json and a tokenizer_config.json as "
            "transformers writes them",
        ) from error


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else 'no message'}"


def _transformers() -> Any:
    try:
        return import_module("transformers")
    except ImportError as error:
        raise MissingPackageError(
            "ML979",
            "reading the configuration of a model needs transformers, which is not installed",
            why=[str(error)],
            fix='pip install "maxlab[llm]"',
        ) from error


__all__ = ["huggingface_config", "huggingface_tokenizer"]
