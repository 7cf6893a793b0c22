"""Finding the format of weight files and opening them."""

from __future__ import annotations

import enum
import os
from collections.abc import Sequence
from pathlib import Path

from maxlab.errors import WeightError
from maxlab.graph.build import staged
from maxlab.graph.weights.base import Weights
from maxlab.graph.weights.safetensors import SafetensorWeights


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


@staged
def weights_format(weight_paths: Sequence[os.PathLike[str]]) -> WeightsFormat:
    """The format of weight files, told by their suffixes.

    Args:
        weight_paths: The files of one checkpoint.

    Raises:
        WeightError: ML636 (a ValueError), no file, an unknown suffix, or different formats.

    Example:
        >>> from pathlib import Path
        >>> weights_format([Path("model-00001.safetensors"), Path("model-00002.safetensors")])
        <WeightsFormat.safetensors: 'safetensors'>
    """
    found: dict[WeightsFormat, str] = {}
    for path in map(Path, weight_paths):
        format = _SUFFIXES.get(path.suffix.lower())
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


@staged
def load_weights(paths: Sequence[os.PathLike[str]]) -> Weights:
    """The weights of one checkpoint, found by attribute and index; safetensors files are mapped,
    not copied.

    Args:
        paths: Its files.

    Raises:
        WeightError: ML636, no file, an unknown suffix, or different formats; ML637, a format that
            this version cannot read; ML632 and ML633, a file that cannot be opened or is damaged.

    Example:
        >>> from pathlib import Path
        >>> from maxlab.graph.weights import load_weights
        >>> weights = load_weights([Path("model.safetensors")])  # doctest: +SKIP
    """
    format = weights_format(paths)
    if format is not WeightsFormat.safetensors:
        raise WeightError(
            "ML637",
            f"{Path(paths[0])} is a {format.value} file, which cannot be read in this version",
            fix="convert it to safetensors: safetensors.torch.save_file(state_dict, path)",
        )
    return SafetensorWeights([Path(path) for path in paths])
