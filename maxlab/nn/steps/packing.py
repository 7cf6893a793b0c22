"""Arrays as values of JSON, and back; what a file says of them is checked."""

from __future__ import annotations

import base64
import binascii
import math
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
_DTYPES = ("<f4", "<f2", "<i8", "<u4", "|b1")


def packed(array: Array) -> dict[str, Any]:
    """The array as values of JSON: its dtype, its shape and its bytes.

    Args:
        array: Of floats of 32 or 16 bits, int64, uint32 or bool.

    Example:
        >>> packed(np.array([1, 2], np.uint32))
        {'dtype': '<u4', 'shape': [2], 'data': 'AQAAAAIAAAA='}
    """
    kind = array.dtype.newbyteorder("<").str
    assert kind in _DTYPES, kind
    content = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
    shape = [int(size) for size in array.shape]
    return {"dtype": kind, "shape": shape, "data": base64.b64encode(content).decode()}


def unpacked(data: Any, kinds: str, rank: int) -> Array:
    """The array that `packed` made values of.

    Args:
        data: The values.
        kinds: The kinds of dtypes that it may have, as NumPy names them.
        rank: The number of axes that it has.

    Raises:
        ValueError: They are not such values.
    """
    if not isinstance(data, dict) or data.get("dtype") not in _DTYPES:
        raise ValueError("no array")
    dtype, shape = np.dtype(data["dtype"]), data.get("shape")
    if not isinstance(shape, list) or not all(type(n) is int and 0 <= n < 2**40 for n in shape):
        raise ValueError(f"no shape of an array: {str(shape)[:60]}")
    if dtype.kind not in kinds or len(shape) != rank:
        raise ValueError(f"an array of {dtype.name} {shape}, not of rank {rank}")
    try:
        content = base64.b64decode(str(data.get("data")), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError("the elements of an array are no base64") from error
    if len(content) != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{len(content)} bytes for an array of {dtype.name} {shape}")
    if dtype.kind == "b" and content.strip(b"\0\1"):
        raise ValueError("other bools than 0 and 1")
    return np.frombuffer(content, dtype).reshape(shape)


__all__ = ["packed", "unpacked"]
