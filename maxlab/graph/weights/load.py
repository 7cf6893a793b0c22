"""Finding the format of weight files and opening them: one, several, or the index of several."""

from __future__ import annotations

import enum
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from maxlab.errors import WeightError
from maxlab.graph.staged import placed
from maxlab.graph.weights.base import Weights
from maxlab.graph.weights.gguf import GGUFWeights
from maxlab.graph.weights.gguf_file import GGUFFile
from maxlab.graph.weights.mapped import MappedFile
from maxlab.graph.weights.pytorch import PytorchFile, PytorchWeights
from maxlab.graph.weights.safetensors import MAX_HEADER_BYTES, SafetensorWeights


class WeightsFormat(str, enum.Enum):  # noqa: UP042 - StrEnum would print another text
    """The formats of weight files."""

    gguf = "gguf"
    pytorch = "pytorch"
    safetensors = "safetensors"


_SUFFIXES = {
    ".safetensors": WeightsFormat.safetensors,
    ".gguf": WeightsFormat.gguf,
    ".bin": WeightsFormat.pytorch,
    ".pt": WeightsFormat.pytorch,
    ".pth": WeightsFormat.pytorch,
}


_INDEX = ".index.json"
"""How the name of an index ends: ``model.safetensors.index.json``."""


def _suffix(path: Path) -> str:
    name = path.name.lower()
    return Path(name.removesuffix(_INDEX)).suffix


@placed
def weights_format(weight_paths: Sequence[os.PathLike[str]]) -> WeightsFormat:
    """The format of weight files, told by their suffixes; an index counts as what it is an index
    of.

    Args:
        weight_paths: The files of one checkpoint.

    Raises:
        WeightError: ML636 (a ValueError), no list, no file, an unknown suffix, or several
            formats.

    Example:
        >>> from pathlib import Path
        >>> weights_format([Path("model-00001.safetensors"), Path("model-00002.safetensors")])
        <WeightsFormat.safetensors: 'safetensors'>
    """
    if isinstance(weight_paths, (str, os.PathLike)):
        raise WeightError(
            "ML636",
            f"expected a list of weight files, got the path {os.fspath(weight_paths)!r}",
            fix=f"write [Path({os.fspath(weight_paths)!r})]",
        )
    found: dict[WeightsFormat, str] = {}
    for path in map(Path, weight_paths):
        format = _SUFFIXES.get(_suffix(path))
        if format is None:
            raise WeightError(
                "ML636",
                f"{path} has the suffix {path.suffix!r}, which no format of weights has",
                fix="the suffixes are " + ", ".join(_SUFFIXES),
            )
        found.setdefault(format, str(path))
    if not found:
        raise WeightError("ML636", "there are no weight files", fix="give one path or more")
    if len(found) > 1:
        raise WeightError(
            "ML636",
            "the weight files have different formats: " + " and ".join(found.values()),
            fix="give the files of one checkpoint",
        )
    return next(iter(found))


@placed
def load_weights(paths: Sequence[os.PathLike[str]], *, private: bool = False) -> Weights:
    """The weights of one checkpoint, found by attribute and index.

    Files are mapped: opening them reads what they list, and a weight is read from the disk when
    something uses it. A file must stay as it is meanwhile. One that is shortened or written over
    is an error where its weights are used next, in a model too.

    Args:
        paths: Its files, or the index of them, such as ``model.safetensors.index.json``, whose
            files lie beside it.
        private: Read the files now, into memory of their own. It takes as many bytes as they have,
            and what becomes of them does not matter any more.

    Raises:
        WeightError: ML636, no list, no file, an unknown suffix, or different formats; ML632, ML633
            and ML637, a file that cannot be opened, is damaged, or of a variant that is not read;
            ML635, a name in two files; ML747 and ML750, a PyTorch file that asks for code or has
            no tensors by name; ML749, an index that does not fit its files.

    Example:
        >>> from pathlib import Path
        >>> from maxlab.graph.weights import load_weights
        >>> weights = load_weights([Path("model.safetensors")])  # doctest: +SKIP
        >>> own = load_weights([Path("model.safetensors")], private=True)  # doctest: +SKIP
    """
    format = weights_format(paths)
    indexed: dict[str, Path] = {}
    files: dict[Path, None] = {}
    for path in map(Path, paths):
        if path.name.lower().endswith(_INDEX):
            found = _read_index(path)
            indexed |= found
            files |= dict.fromkeys(found.values())
        else:
            files[path] = None
    if format is WeightsFormat.safetensors:
        weights: Weights = SafetensorWeights(list(files), private=private)
    elif format is WeightsFormat.gguf:
        tensors = _merged({path: GGUFFile(path, private).tensors for path in files})
        weights = GGUFWeights(next(iter(files)), tensors)
    else:
        tensors = _merged({path: PytorchFile(path, private).tensors for path in files})
        weights = PytorchWeights(next(iter(files)), tensors)
    for name, path in indexed.items():
        if not weights[name].exists():
            raise WeightError(
                "ML749",
                f"the index puts the weight {name!r} into {path}, which does not have it",
                fix="download the index and all of its files again",
            )
    return weights


def _merged(files: Mapping[Path, Mapping[str, Any]]) -> dict[str, Any]:
    """The tensors of several files, each name once."""
    found: dict[str, Any] = {}
    where: dict[str, Path] = {}
    for path, tensors in files.items():
        for name, tensor in tensors.items():
            if name in found:
                raise WeightError(
                    "ML635",
                    f"the weight {name!r} stands in {where[name]} and in {path}",
                    fix="give the files of one checkpoint",
                )
            found[name], where[name] = tensor, path
    return found


def _read_index(path: Path) -> dict[str, Path]:
    """The file of each weight, by an index."""
    file = MappedFile(path, "index")
    if file.size > MAX_HEADER_BYTES:
        raise file.bad(f"it has {file.size} bytes; indices have far less")
    try:
        text = file.map[:]
        file.map.require_whole()
        read = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise file.bad("it is not JSON") from error
    entries = read.get("weight_map") if isinstance(read, dict) else None
    if not isinstance(entries, dict) or not entries:
        raise file.bad("it has no weight_map")
    for value in set(map(str, entries.values())):
        # A name from a file that strangers wrote stays beside that file.
        if value in ("", ".", "..") or {"/", "\\", "\0"} & set(value):
            raise file.bad(f"it names the file {value[:200]!r}, which is none beside it")
        if _SUFFIXES.get(Path(value).suffix.lower()) is not _SUFFIXES[_suffix(path)]:
            raise file.bad(f"it names the file {value[:200]!r}, which is of another format")
    return {name: path.parent / str(value) for name, value in entries.items()}
