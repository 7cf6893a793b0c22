"""The encoding of weights, told by the head of a file, or by its name where there is no more."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maxlab import files
from maxlab.errors import FileError, WeightError
from maxlab.graph.weights import WeightsFormat
from maxlab.graph.weights.gguf_file import GGUFFile
from maxlab.graph.weights.mapped import UnmappedFile
from maxlab.graph.weights.pytorch import PytorchFile
from maxlab.graph.weights.safetensors import DTYPES, SafetensorsFile
from maxlab.pipelines.lib.config_enums import SupportedEncoding

_MOST_CONFIG = 10_000_000
_PLAIN = {one.dtype.name: one for one in SupportedEncoding if not one.is_quantized}
_BLOCKS = {
    "F32": SupportedEncoding.float32,
    "F16": SupportedEncoding.float16,
    "BF16": SupportedEncoding.bfloat16,
    "Q4_0": SupportedEncoding.q4_0,
    "Q4_K": SupportedEncoding.q4_k,
    "Q5_K": SupportedEncoding.q5_k,
    "Q6_K": SupportedEncoding.q6_k,
}
_FILE_TYPES = {
    0: "F32", 1: "F16", 2: "Q4_0", 14: "Q4_K", 15: "Q4_K", 16: "Q5_K", 17: "Q5_K", 18: "Q6_K",
    32: "BF16",
}  # fmt: skip
"""``general.file_type`` of GGUF files: what most of the tensors are."""


@dataclass(frozen=True, slots=True)
class Told:
    """The encoding that weights tell, or why they tell none.

    Attributes:
        encoding: The encoding; None where maxlab has no word for it.
        why: Why there is none, in words.
        error: Why the file cannot be read.
    """

    encoding: SupportedEncoding | None
    why: str = ""
    error: WeightError | None = None


def told_by_file(paths: Sequence[Path], format: WeightsFormat, method: str | None) -> Told:
    """The encoding that the heads of the files of a checkpoint tell.

    Args:
        paths: The files, which are on this machine.
        format: Their format.
        method: How the configuration of the model says that it is quantised; None for not at all.

    Raises:
        WeightError: ML632, ML633 or ML637, one of them cannot be read.
    """
    if format is WeightsFormat.gguf:
        return _of_gguf([GGUFFile(path, opened=UnmappedFile(path, "GGUF")) for path in paths])
    counts: Counter[str] = Counter()
    names: list[str] = []
    for path in paths:
        if format is WeightsFormat.safetensors:
            entries = SafetensorsFile(path, opened=UnmappedFile(path, "safetensors")).entries
            names += entries
            for spelling, shape, _, _ in entries.values():
                counts[_name(spelling)] += math.prod(shape)
        else:
            tensors = PytorchFile(path).tensors
            names += tensors
            for tensor in tensors.values():
                counts[tensor.dtype.name if tensor.dtype else tensor.spelling] += math.prod(
                    tensor.shape
                )
    return told_by_counts(counts, names, method)


def told_by_counts(
    counts: Mapping[str, int], names: Collection[str] = (), method: str | None = None
) -> Told:
    """The encoding that the numbers of elements of each dtype tell, and the names of tensors.

    Args:
        counts: Elements by dtype, spelled as safetensors or NumPy do.
        names: The names of the tensors, where they are known.
        method: As above.
    """
    if method == "gptq" or (method is None and any(name.endswith(".g_idx") for name in names)):
        return Told(SupportedEncoding.gptq)
    dtypes: Counter[str] = Counter()
    for spelling, count in counts.items():
        dtypes[_name(spelling)] += count
    if dtypes["float8_e4m3fn"]:
        return Told(SupportedEncoding.float8_e4m3fn)
    if method is not None:
        return Told(None, f"they are quantised by {method}")
    floats = {name: count for name, count in dtypes.items() if name in _PLAIN}
    if floats:
        return Told(_PLAIN[max(floats, key=lambda name: (floats[name], name))])
    have = ", ".join(name for name in dtypes if dtypes[name])
    return Told(None, f"their dtypes are {have}" if have else "there are none")


def _name(spelling: str) -> str:
    """The name of a dtype that safetensors spell ``spelling``."""
    dtype = DTYPES.get(spelling)
    return spelling if dtype is None else dtype.name


def _of_gguf(files: Sequence[GGUFFile]) -> Told:
    tensors = [tensor for file in files for tensor in file.tensors.values()]
    counts: Counter[str] = Counter()
    # Norms and biases are floats everywhere.
    for tensor in [one for one in tensors if len(one.logical) > 1] or tensors:
        counts[tensor.spelling] += math.prod(tensor.logical)
    if not counts:
        return Told(None, "there are none")
    said = files[0].metadata.get("general.file_type")
    most = _FILE_TYPES.get(said) if isinstance(said, int) else None
    if most is None or most not in counts:  # few layers may be smaller than their embeddings
        most = max(counts, key=lambda name: (counts[name], name))
    if most in _BLOCKS:
        return Told(_BLOCKS[most])
    return Told(None, f"most of their blocks are {most}")


def told_by_name(name: str) -> Told:
    """The encoding that the name of a file tells."""
    found = SupportedEncoding.parse_from_file_name(name)
    return Told(found, "" if found else "its name does not tell, and its head is not here")


def method_of(config: Mapping[str, Any] | None) -> str | None:
    """How a configuration, such as that of ``config.json``, says that weights are quantised."""
    found = config.get("quantization_config") if isinstance(config, Mapping) else None
    method = found.get("quant_method") if isinstance(found, Mapping) else None
    return method.lower() if isinstance(method, str) else None


def read_config(path: Path) -> dict[str, Any] | None:
    """The content of a ``config.json``; None where there is none that is a JSON object."""
    try:
        read = json.loads(files.read_text(path, "the configuration", _MOST_CONFIG))
    except (FileError, ValueError, RecursionError):
        return None
    return read if isinstance(read, dict) else None


__all__ = ["Told", "method_of", "read_config", "told_by_counts", "told_by_file", "told_by_name"]
