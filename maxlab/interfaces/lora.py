"""Adapters of low rank that are loaded and unloaded while a model serves."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from maxlab.interfaces import fields
from maxlab.interfaces.showing import Shown


class LoRAOperation(StrEnum):
    """The ways to change the set of adapters."""

    LOAD = "load"
    UNLOAD = "unload"
    LIST = "list"


class LoRAStatus(StrEnum):
    """How an operation on adapters ended."""

    SUCCESS = "success"
    LOAD_NAME_EXISTS = "load_name_exists"
    UNLOAD_NAME_NONEXISTENT = "unload_name_nonexistent"
    LOAD_ERROR = "load_error"
    UNLOAD_ERROR = "unload_error"
    LOAD_INVALID_PATH = "load_invalid_path"
    LOAD_INVALID_ADAPTER = "load_invalid_adapter"


class LoRAType(StrEnum):
    """The weights of an adapter, by the names that files give them."""

    A = "lora_A"
    """The first matrix, from the width of the layer down to the rank."""
    B = "lora_B"
    """The second matrix, from the rank up to the width of the layer."""
    BIAS = "lora.bias"
    """The bias that is added after the second matrix."""


_REQUEST: fields.Rules = {
    "operation": fields.instance(LoRAOperation),
    "lora_name": fields.optional(fields.word),
    "lora_path": fields.optional(fields.word),
}
_RESPONSE: fields.Rules = {
    "status": fields.instance(LoRAStatus),
    "message": fields.either(list, fields.listed(fields.text), fields.text),
}


class LoRARequest(Shown, msgspec.Struct, tag=True, omit_defaults=True):
    """An operation on adapters that is asked for.

    Args:
        operation: What to do.
        lora_name: The name of the adapter, for loading and unloading.
        lora_path: The folder of the adapter, for loading.

    Raises:
        InputTypeError: A field of another type.
        InputError: An empty name or path.
    """

    operation: LoRAOperation
    lora_name: str | None = None
    lora_path: str | None = None

    def __post_init__(self) -> None:
        fields.check(self, _REQUEST)


class LoRAResponse(Shown, msgspec.Struct, tag=True, omit_defaults=True):
    """How an operation on adapters ended, and what there is to say.

    Args:
        status: How it ended.
        message: A sentence; of a list of adapters, their names.

    Raises:
        InputTypeError: A field of another type.
    """

    status: LoRAStatus
    message: str | list[str]

    def __post_init__(self) -> None:
        fields.check(self, _RESPONSE)


fields.declare(LoRARequest, _REQUEST)
fields.declare(LoRAResponse, _RESPONSE)
