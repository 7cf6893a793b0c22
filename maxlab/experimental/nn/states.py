"""The state of modules of eager tensors: the values of parameters, checked, and modules as text."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from maxlab.driver import Device
from maxlab.driver import Tensor as Memory
from maxlab.dtype import DType
from maxlab.errors import (
    ArgumentTypeError,
    MissingKeyError,
    ModuleError,
    UnusableArgumentError,
    shown,
)
from maxlab.experimental.tensor import Tensor
from maxlab.graph import DeviceRef, DimLike, TensorType

_LISTED = 8


# ---------------------------------------------------------------- attributes
def attributes(module: object) -> Iterator[tuple[str, Any]]:
    """The attributes of ``module`` itself, in the order in which they were set: pairs ``(name,
    value)``.
    """
    yield from list(module.__dict__.items())
    for kind in type(module).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(module, name):
                yield name, getattr(module, name)


# ---------------------------------------------------------------- values
def takes_tensor(lookup: Callable[..., Any]) -> bool:
    """Whether ``lookup`` takes the tensor behind the name, as Python functions of two arguments do;
    what is written in C, such as the ``__getitem__`` of a dict, takes the name.

    Example:
        >>> takes_tensor(lambda name, tensor: tensor), takes_tensor({}.__getitem__)
        (True, False)
    """
    try:
        signature = inspect.signature(lookup)
    except (TypeError, ValueError):
        return False
    required, most = 0, 0
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            most += 2
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            most += 1
            required += parameter.default is parameter.empty
    # One that takes a second argument only when it is given has another use for it.
    return required == 2 or (required == 0 and most >= 2)


def tensor_of(name: str, value: Any) -> Tensor:
    """``value``, for the parameter ``name``, as a tensor over the same memory.

    Raises:
        ModuleError: ML710, it is no array.
    """
    if isinstance(value, Tensor):
        return value
    value = getattr(value, "data", value) if hasattr(value, "quantization_encoding") else value
    if not hasattr(value, "__dlpack__"):
        raise ModuleError(
            "ML710",
            f"{name!r}: the value is a {type(value).__name__}, expected an array",
            fix="pass a Tensor, a NumPy array or another array of the DLPack protocol",
        )
    return Tensor.from_dlpack(value)


def fitting(name: str, parameter: Tensor, value: Any) -> Tensor:
    """``value`` as a tensor where ``parameter``, whose path is ``name``, lies.

    Raises:
        ModuleError: ML707, it has another dtype or shape; ML710, it is no array.
    """
    made = tensor_of(name, value)
    if made.dtype is not parameter.dtype:
        raise ModuleError(
            "ML707",
            f"{name!r}: the value is {made.dtype.name}, expected {parameter.dtype.name}",
            fix="convert it, or load it with load_state, which takes any",
        )
    shape, wanted = sizes(made), sizes(parameter)
    if shape != wanted:
        raise ModuleError(
            "ML707",
            f"{name!r}: the value has the shape {shape}, expected {wanted}",
            fix="transpose or reshape it" if sorted(shape) == sorted(wanted) else None,
        )
    placed: Tensor = made.to(parameter.device)
    return placed


def type_on(device: Device, dtype: DType, *shape: DimLike) -> TensorType:
    """The type of an input on ``device``."""
    return TensorType(dtype, shape, DeviceRef.from_device(device))


def memory_of(tensor: Tensor) -> Memory:
    """The memory of ``tensor``, whose value is computed now if it was not."""
    memory: Memory = tensor.realize.tensor.driver_tensor
    return memory


def sizes(tensor: Tensor) -> list[int]:
    """The shape of ``tensor`` in numbers."""
    return [int(dim) for dim in tensor.shape]


def check_names(
    model: str, parameters: Iterable[str], state: Mapping[str, Any], strict: bool
) -> None:
    """Raises unless ``state`` has the names ``parameters`` and, if ``strict``, no others.

    Raises:
        MissingKeyError: ML733, a name is missing.
        ModuleError: ML706, ``state`` has names that are no parameter's.
    """
    wanted = list(parameters)
    missing = [name for name in wanted if name not in state]
    unexpected = [name for name in state if name not in set(wanted)]
    guesses = [
        f"{name!r}: did you mean {close[0]!r}?"
        for name in unexpected[:_LISTED]
        if (close := difflib.get_close_matches(name, missing or wanted, 1))
    ]
    if missing:
        raise MissingKeyError(
            "ML733",
            f"{model}: no value for {_listing(missing)}",
            why=guesses,
            fix="give a value for each parameter; load_state takes a function that makes them",
        )
    if strict and unexpected:
        raise ModuleError(
            "ML706",
            f"the state dict does not fit {model}: {len(unexpected)} unexpected: "
            f"{_listing(unexpected)}",
            why=guesses,
            fix="leave them out, or pass strict=False to ignore them",
        )


def check_tensor(what: str, value: Any) -> None:
    """Raises unless ``value``, which becomes ``what``, is a tensor.

    Raises:
        ModuleError: ML734.
    """
    if not isinstance(value, Tensor):
        raise ModuleError(
            "ML734",
            f"{what}: a parameter is replaced by a Tensor, got {shown(value)}",
            fix="return a Tensor for every name: the given one where nothing changes",
        )


def check_class(given: Any, base: type) -> None:
    """Raises unless ``given`` is a class derived from ``base``.

    Raises:
        UnusableArgumentError: ML748.
    """
    if not isinstance(given, type) or not issubclass(given, base):
        raise UnusableArgumentError(
            "ML748",
            f"module_dataclass: expected a class derived from Module, got {shown(given)}",
            fix="write @module_dataclass above: class Name(Module): ...",
        )


def check_module(what: str, value: Any, base: type) -> None:
    """Raises unless ``value`` is a module.

    Raises:
        ArgumentTypeError: ML748.
    """
    refuse_layer(what, value)
    if not isinstance(value, base):
        raise ArgumentTypeError(
            "ML748",
            f"{what}: expected a Module, got {shown(value)}",
            fix="write *modules to pass the modules of a list"
            if isinstance(value, (list, tuple))
            else "derive its class from Module, and compute in forward",
        )


def refuse_layer(what: str, value: Any) -> None:
    """Raises if ``value`` is a layer of ``maxlab.nn``, whose weights have values in graphs alone.

    Raises:
        ArgumentTypeError: ML748.
    """
    kind = type(value)
    if any(base.__module__ == "maxlab.nn.calls" for base in kind.__mro__):
        raise ArgumentTypeError(
            "ML748",
            f"{what} is a {kind.__name__} of maxlab.nn, which has weights in graphs alone, and no "
            "tensors",
            fix="use layers of maxlab.experimental.nn in modules of tensors; or layers of "
            "maxlab.nn in all of the model",
        )


def _listing(names: list[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(map(repr, names[:_LISTED])) + more


# ---------------------------------------------------------------- text
class TypeText:
    """The type of a tensor, which is what a module's text says of it: no value is computed."""

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor

    def __repr__(self) -> str:
        return f"{self._tensor.dtype.name}[{', '.join(map(str, self._tensor.shape))}]"


_WIDTH = 88


def text_of(module: Any) -> str:
    """The class of ``module`` with what its ``__rich_repr__`` names; an argument a line where they
    are too long for one."""
    parts: list[str] = []
    for item in module.__rich_repr__():
        name, value, *default = item if isinstance(item, tuple) else (None, item)
        if default and default[0] is value:
            continue
        parts.append(repr(value) if name is None else f"{name}={value!r}")
    line = f"{type(module).__name__}({', '.join(parts)})"
    if len(line) <= _WIDTH and "\n" not in line:
        return line
    inner = "".join(f"    {part},\n".replace("\n", "\n    ").removesuffix("    ") for part in parts)
    return f"{type(module).__name__}(\n{inner})"
