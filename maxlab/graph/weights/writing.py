"""Writing safetensors files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from maxlab import files
from maxlab.dtype import DType
from maxlab.graph.weights.safetensors import DTYPES
from maxlab.opset.core import Array

_WORDS: Final = {dtype: word for word, dtype in DTYPES.items()}


def write_safetensors(path: Path | str, arrays: Mapping[str, Array]) -> None:
    """Writes ``arrays``, in their order, to the file at ``path``, which is replaced at the end.

    Args:
        path: The file.
        arrays: Contiguous arrays by name.

    Raises:
        FileError: ML003, it cannot be written; it is as it was before.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import numpy as np
        >>> from maxlab.graph.weights import SafetensorWeights
        >>> from maxlab.graph.weights.writing import write_safetensors
        >>> path = Path(tempfile.mkdtemp(), "one.safetensors")
        >>> write_safetensors(path, {"w": np.ones(2, np.float32)})
        >>> SafetensorWeights([path]).w.data().data
        array([1., 1.], dtype=float32)
    """
    head = safetensors_head(arrays)
    with files.replacing(path, "the weights") as file:
        file.write(head)
        for array in arrays.values():
            file.write(array.reshape(-1).view(np.uint8).data)


def safetensors_head(arrays: Mapping[str, Array], alignment: int = 8) -> bytes:
    """The head of a file of safetensors, which stands before the bytes of ``arrays``: a multiple of
    ``alignment`` bytes.

    Args:
        arrays: The arrays, in the order in which their bytes will follow.
        alignment: A multiple of 8.
    """
    header: dict[str, Any] = {}
    at = 0
    for name, array in arrays.items():
        header[name] = {
            "dtype": _WORDS[DType.from_numpy(array.dtype)],
            "shape": list(array.shape),
            "data_offsets": [at, at + array.nbytes],
        }
        at += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % alignment)
    return len(text).to_bytes(8, "little") + text


__all__ = ["safetensors_head", "write_safetensors"]
