"""Operands as users write them: numbers, arrays, names and sizes, read and checked. No graph is
needed for it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from maxlab.driver import Tensor
from maxlab.dtype import (
    DType,
    check_array,
    check_scalar,
    check_unmasked,
    dtype_of,
    round_to,
)
from maxlab.errors import ArgumentError, ArgumentTypeError, MaxlabError, shown
from maxlab.ir import Shape, StaticDim


def is_number(x: object) -> bool:
    """Whether ``x`` is a Python or NumPy number."""
    return isinstance(x, (bool, int, float, np.generic))


def is_array(x: object) -> bool:
    """Whether ``x`` is a NumPy array or another object with data that DLPack can hand over."""
    return isinstance(x, np.ndarray) or (
        not hasattr(x, "_ir")  # a value of the graph, which most operands are
        and hasattr(x, "__dlpack__")
        and not hasattr(x, "__tensorvalue__")
    )


def is_weak(x: object) -> bool:
    """Whether ``x`` is a number, array or nested sequence, which takes the dtype of its partner."""
    if isinstance(x, Shape):  # a list by class, but the sizes are those of the graph
        return False
    return is_number(x) or isinstance(x, (list, tuple)) or is_array(x)


def data_of(x: Any, dtype: DType) -> np.ndarray[Any, Any]:
    """The elements of ``x``, a number, array or nested sequence, in ``dtype``, and in memory that
    nobody changes.

    Raises:
        DTypeError: ML102, a value that ``dtype`` cannot hold.
    """
    if is_number(x):
        with np.errstate(over="ignore"):  # a float rounds to infinity, as in a computation
            number = check_scalar(x, dtype)
            wide = np.float64 if dtype.is_float() else dtype.ml_numpy
            array = round_to(np.asarray(number, wide), dtype)
    else:
        array = np.asarray(check_array(to_numpy(x), dtype), dtype.ml_numpy, order="C")
    return own_copy(array, x)


def own_copy(array: np.ndarray[Any, Any], source: object) -> np.ndarray[Any, Any]:
    """``array``, copied when the caller could still change it through ``source``."""
    if isinstance(source, np.ndarray) and not _may_change(source):
        return array
    if is_array(source) and np.may_share_memory(array, to_numpy(source)):
        return array.copy()
    return array


def _may_change(array: np.ndarray[Any, Any]) -> bool:
    """Whether somebody may write to the memory of ``array``: it, or what it views, is writeable."""
    view: Any = array
    while isinstance(view, np.ndarray):
        if view.flags.writeable:
            return True
        view = view.base
    return False


def to_numpy(x: Any) -> np.ndarray[Any, Any]:
    """``x`` (an array, nested sequence, or DLPack object) as a NumPy array.

    Raises:
        ArgumentError: ML316, a ragged sequence.
        ArgumentTypeError: ML316, something that is no array.
        TensorError: ML413, a masked array.
    """
    check_unmasked(x)
    if isinstance(x, np.ndarray):
        return x
    if hasattr(x, "to_numpy") and hasattr(x, "__dlpack__"):
        return np.asarray(x.to_numpy())
    try:
        if hasattr(x, "__dlpack__") and not isinstance(x, np.generic):
            return np.asarray(Tensor.from_dlpack(x).to_ml_numpy())
        return np.asarray(x)
    except MaxlabError:
        raise
    except ValueError as error:
        raise ArgumentError(
            "ML316", f"the rows of {shown(x)} do not have one length", fix="make it rectangular"
        ) from error
    except (TypeError, RuntimeError, BufferError) as error:
        raise ArgumentTypeError(
            "ML316",
            f"{type(x).__name__} cannot be read as an array: {error}",
            fix="pass a NumPy array",
        ) from error


def as_dtype(what: str, dtype: object) -> DType:
    """``dtype``, a ``DType`` or what stands for one: a name, a dtype of NumPy or PyTorch.

    Raises:
        ArgumentTypeError: ML399.
    """
    found = dtype_of(dtype)
    if found is None:
        raise ArgumentTypeError(
            "ML399",
            f"{what}: the dtype must be a DType, got {shown(dtype)}",
            fix="use DType.float32, or DType.from_numpy(array.dtype)",
        )
    return found


def as_name(what: str, name: object) -> str:
    """``name``, which must be text that a file can hold.

    Raises:
        ArgumentTypeError: ML326, it is no string.
        ArgumentError: ML326, it has half of a surrogate pair.
    """
    if not isinstance(name, str):
        raise ArgumentTypeError(
            "ML326",
            f"{what} must be a string, got {shown(name)}",
            fix='pass text: "double"',
        )
    try:
        name.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ArgumentError(
            "ML326",
            f"{what} must be text that UTF-8 can write, got {shown(name)}",
            why=[f"character {error.start} is half of a surrogate pair"],
            fix="decode it with the encoding that it was written in",
        ) from error
    return name


def as_int(what: str, value: object, name: str) -> int:
    """``value`` as an int.

    Raises:
        ArgumentTypeError: ML302, not an integer.
    """
    if isinstance(value, StaticDim):
        return value.dim
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise ArgumentTypeError(
            "ML302",
            f"{what}: {name} must be an int, got {shown(value)}",
            fix="pass an int; int(x) makes one of a number that is whole",
        )
    return int(value)


def no_tensor(x: object, what: str) -> ArgumentTypeError:
    """The error for ``x``, which stands for no tensor."""
    return ArgumentTypeError(
        "ML317",
        f"{what} must be a tensor of the graph, got {type(x).__name__}",
        fix=_made_from(x),
    )


def _made_from(x: object) -> str:
    """How a tensor is made of ``x``, which is none."""
    if x is None:
        return "look where it comes from: a function without return gives None; ops.zeros_like(x)"
    if isinstance(x, str):
        return "write the number without quotes, or convert it: float('1')"
    if isinstance(x, complex):
        return "no dtype is complex: keep the parts in two tensors, x * 2 + y * 3"
    if isinstance(x, (set, frozenset, dict)):
        return "an array has an order: pass a list, such as list({1, 2})"
    return "make one with ops.constant(x, DType.float32, DeviceRef.CPU())"


def plain(value: Any) -> Any:
    """``value`` with NumPy's integers made Python's: attributes are printed, compared and read."""
    if isinstance(value, np.integer):
        return int(value)
    if type(value) is tuple and any(isinstance(item, np.integer) for item in value):
        return tuple(plain(item) for item in value)
    return value


__all__ = [
    "as_dtype",
    "as_int",
    "as_name",
    "data_of",
    "is_array",
    "is_number",
    "is_weak",
    "no_tensor",
    "own_copy",
    "plain",
    "to_numpy",
]
