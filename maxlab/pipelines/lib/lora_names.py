"""The names of adapters (LoRA), and the errors that are about them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath
from typing import Any

from maxlab.errors import InputError
from maxlab.interfaces import LoRAStatus
from maxlab.pipelines.lib.lora_adapter import AdapterError, AdapterPathError


class AdapterNameError(InputError):
    """A name that an adapter has already."""


class NoAdapterError(InputError):
    """A name that no adapter has."""


def name_of(context: Any) -> str:
    """The name of the adapter or of the base that a request asks.

    Args:
        context: The state of the request.
    """
    return getattr(context, "model_name", "")


def status_of(error: BaseException, loads: bool) -> LoRAStatus:
    """How an operation ended that raised ``error``.

    Args:
        error: What was raised.
        loads: Whether an adapter was to be loaded.
    """
    if not loads:
        gone = isinstance(error, NoAdapterError)
        return LoRAStatus.UNLOAD_NAME_NONEXISTENT if gone else LoRAStatus.UNLOAD_ERROR
    if isinstance(error, AdapterNameError):
        return LoRAStatus.LOAD_NAME_EXISTS
    if isinstance(error, AdapterPathError):
        return LoRAStatus.LOAD_INVALID_PATH
    invalid = isinstance(error, AdapterError)
    return LoRAStatus.LOAD_INVALID_ADAPTER if invalid else LoRAStatus.LOAD_ERROR


def name_and_path(told: str) -> tuple[str, str]:
    """The name of an adapter and its path: the parts of ``NAME=PATH``, or twice the path.

    Args:
        told: An entry of ``lora_paths``.

    Example:
        >>> name_and_path("poems=folder/a"), name_and_path("folder/a")
        (('poems', 'folder/a'), ('folder/a', 'folder/a'))
    """
    first, equals, rest = told.partition("=")
    return (first, rest) if equals and first and rest else (told, told)


def base_names(paths: Iterable[str | None]) -> set[str]:
    """The names by which requests may mean the base: ``paths``, and the last part of each.

    Args:
        paths: The path of the model, the id of its repository, or the name that it is served by.

    Example:
        >>> sorted(base_names(["org/llama", None]))
        ['llama', 'org/llama']
    """
    found = {path for path in paths if path}
    return found | {PurePath(path).name for path in found}


__all__ = [
    "AdapterNameError",
    "NoAdapterError",
    "base_names",
    "name_and_path",
    "name_of",
    "status_of",
]
