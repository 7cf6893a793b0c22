"""The files of a model that configurations read: its configs, and the sizes of its weights."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from maxlab.driver import DeviceSpec, scan_available_devices
from maxlab.errors import (
    DeviceError,
    InputError,
    MaxlabError,
    MissingFileError,
    shown,
)
from maxlab.interfaces import SamplingParamsGenerationConfigDefaults
from maxlab.pipelines.lib.config_enums import RepoType
from maxlab.pipelines.lib.hf_utils import HuggingFaceRepo, try_to_load_from_cache
from maxlab.pipelines.lib.hf_utils.cache import snapshot_of
from maxlab.pipelines.lib.hf_utils.names import check_file_name, inside

_LOG = logging.getLogger("maxlab.pipelines")
_DEFAULTS = (
    "temperature",
    "top_p",
    "top_k",
    "repetition_penalty",
    "max_new_tokens",
    "min_new_tokens",
    "do_sample",
)
"""Entries of a generation config that are about sampling."""


def _transformers() -> Any:
    from maxlab.pipelines.lib.tokenizer import packages

    return packages.transformers("the configuration of a model")


def missing_devices(specs: Sequence[DeviceSpec]) -> DeviceError:
    """The error for devices that are not all there."""
    there = ", ".join(f"{one.device_type}:{one.id}" for one in scan_available_devices())
    told = ", ".join(f"{one.device_type}:{one.id}" for one in specs)
    return DeviceError(
        "ML410",
        f"the devices {told} were asked for, and there are {there}",
        fix="leave device_specs out, or give [DeviceSpec.cpu()]",
    )


def _unreadable(repo: HuggingFaceRepo, name: str, error: Exception) -> InputError:
    return InputError(
        "ML132",
        f"{name} of {repo.repo_id} cannot be read",
        why=[f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"],
        fix="check that it is the folder or the repository of a model",
    )


def _options(repo: HuggingFaceRepo, name: str) -> dict[str, Any]:
    """Keywords of ``from_pretrained``, with which the file ``name`` of a folder, or of a cache that
    has it, causes no call of the network."""
    if repo.repo_type is RepoType.local:
        return {"local_files_only": True}
    snapshot = snapshot_of(repo.repo_id, repo.revision)
    cached = snapshot is not None and (snapshot / name).is_file()
    return {"revision": repo.revision, "local_files_only": cached}


def config_of(repo: HuggingFaceRepo) -> Any:
    """The ``AutoConfig`` of a model.

    A ``model_type`` that transformers does not know gives a plain ``PretrainedConfig``, with every
    entry of ``config.json`` as an attribute. Code of the repository runs only if it is trusted.

    Raises:
        InputError: ML132, there is none, or it cannot be read.
        MissingPackageError: ML979, transformers is not installed.
    """
    transformers = _transformers()
    options = _options(repo, "config.json")
    try:
        entries, _ = transformers.PretrainedConfig.get_config_dict(repo.repo_id, **options)
        known = entries.get("model_type") in transformers.CONFIG_MAPPING
        if known or (repo.trust_remote_code and "auto_map" in entries):
            config = transformers.AutoConfig.from_pretrained(
                repo.repo_id, trust_remote_code=repo.trust_remote_code, **options
            )
        elif entries:
            config = transformers.PretrainedConfig.from_dict(entries)
        else:
            raise ValueError("it has no entries")
    except MaxlabError:
        raise
    except Exception as error:  # transformers raises many kinds for many faults of the file
        raise _unreadable(repo, "config.json", error) from error
    names = config.architectures
    if names is not None and not (
        isinstance(names, list) and all(isinstance(name, str) for name in names)
    ):
        fault = TypeError(f"architectures: a list of names expected, got {shown(names)}")
        raise _unreadable(repo, "config.json", fault)
    return config


def generation_config_of(repo: HuggingFaceRepo) -> Any:
    """The ``GenerationConfig`` of a model; that class's defaults where the model has no file.

    Raises:
        InputError: ML132, the file cannot be read.
        MissingPackageError: ML979, transformers is not installed.
    """
    loader = _transformers().GenerationConfig
    if not repo.file_exists("generation_config.json"):
        return loader()
    try:
        return loader.from_pretrained(repo.repo_id, **_options(repo, "generation_config.json"))
    except Exception as error:
        raise _unreadable(repo, "generation_config.json", error) from error


def sampling_defaults_of(repo: HuggingFaceRepo) -> SamplingParamsGenerationConfigDefaults:
    """The sampling parameters that a model's generation config sets.

    transformers is not imported where the model has no such file.

    Raises:
        InputError: ML132, the file cannot be read.
    """
    if not repo.file_exists("generation_config.json"):
        return SamplingParamsGenerationConfigDefaults()
    explicit = generation_config_of(repo).to_diff_dict()
    found: dict[str, Any] = {}
    for name in _DEFAULTS:
        value = explicit.get(name)
        if value is None:
            continue
        try:
            SamplingParamsGenerationConfigDefaults(**{name: value})
        except MaxlabError as error:
            _LOG.warning(
                "%s of generation_config.json of %s is left out: %s", name, repo.repo_id, error.what
            )
        else:
            found[name] = value
    return SamplingParamsGenerationConfigDefaults(**found)


def split_weight_paths(
    model_path: str, weight_paths: Sequence[Path]
) -> tuple[list[Path], str | None]:
    """Weight paths as they are read from now on, and the repository that they name.

    A path that is a file here stays as it is, in full. ``ORG/NAME/FILE`` names a file of another
    repository than the model's; all paths that do so name the same.

    Raises:
        InputError: ML131, paths name several repositories.
    """
    found: list[Path] = []
    repos: set[str] = set()
    for path in weight_paths:
        full = path.expanduser()
        if full.is_file():
            found.append(full.absolute())
            continue
        in_model = bool(model_path) and (Path(model_path).expanduser() / path).is_file()
        if in_model or path.is_absolute() or len(path.parts) < 3:
            found.append(path)
            continue
        name = "/".join(path.parts[:2])
        if name != model_path:
            repos.add(name)
        found.append(Path(*path.parts[2:]))
    if len(repos) > 1:
        raise InputError(
            "ML131",
            f"weight files of one repository expected ≠ those of {', '.join(sorted(repos))} given",
            fix="give the files of one of them",
        )
    return found, repos.pop() if repos else None


def local_weight(repo: HuggingFaceRepo, path: Path) -> Path | None:
    """The weight file on this machine, in a folder or in the cache; None where it is not.

    Raises:
        RepositoryError: ML111, ML123, the path leads out of the folder or repository.
    """
    if path.is_absolute():
        return path if path.is_file() else None
    if repo.repo_type is RepoType.local:
        full = inside(Path(repo.repo_id).expanduser(), check_file_name(path))
        return full if full.is_file() else None
    cached = try_to_load_from_cache(repo.repo_id, str(path), repo.revision)
    return Path(cached) if isinstance(cached, str) else None


def require_weights(repo: HuggingFaceRepo, paths: Sequence[Path]) -> None:
    """Raises for a weight file that is neither here nor in the repository.

    Raises:
        MissingFileError: ML002.
        RepositoryError: ML111, ML123, a path leads out of the folder or repository.
    """
    for path in paths:
        if local_weight(repo, path) is not None:
            continue
        if repo.repo_type is RepoType.local or not repo.file_exists(str(path)):
            raise MissingFileError(
                "ML002",
                f"the weight file {path} of {repo.repo_id} cannot be read: it is not there",
                fix="give a path, or a path relative to the model's folder or repository",
            )


def size_of(repo: HuggingFaceRepo, paths: Sequence[Path]) -> int:
    """The bytes of weight files.

    Raises:
        MissingFileError: ML002, one is not there.
        InputError: ML131, the hub does not tell the size of one.
    """
    total = 0
    for path in paths:
        local = local_weight(repo, path)
        if local is not None:
            total += local.stat().st_size
            continue
        require_weights(repo, [path])
        size = repo.size_of(str(path))
        if size is None:
            raise InputError(
                "ML131",
                f"the hub does not tell the size of {path} of {repo.repo_id}",
                fix="download the file first",
            )
        total += size
    return total
