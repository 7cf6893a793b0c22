"""Adapters of low rank (LoRA) as ``peft`` writes them: a folder with ``adapter_config.json`` and
``adapter_model.safetensors``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from maxlab.dtype import DType
from maxlab.errors import InputError, MaxlabError
from maxlab.graph.weights import WeightData, load_weights
from maxlab.pipelines.lib.hf_utils.cache import snapshot_of
from maxlab.pipelines.lib.hf_utils.encodings import read_config

if TYPE_CHECKING:
    from maxlab.nn.lora import LinearLoRA

Array = npt.NDArray[Any]

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
FLOATS = (DType.float32, DType.float16, DType.bfloat16, DType.float64)
"""The dtypes that matrices may have in files."""
PREFIXES = ("", "model.", "language_model.", "model.language_model.", "language_model.model.")
"""Prefixes of the path of a layer in the names of a checkpoint."""
_NAME = re.compile(r"(?:base_model\.model\.)?(.+)\.lora_([AB])(?:\.default)?\.weight")


@dataclass(frozen=True, eq=False, repr=False)
class Matrices:
    """The two matrices of a layer, in the dtype of the model.

    Args:
        a: [rank, inputs].
        b: [outputs, rank], with the factor ``alpha / rank``.
    """

    a: Array
    b: Array

    def __repr__(self) -> str:
        return (
            f"Matrices(a={self.a.dtype}{list(self.a.shape)}, b={self.b.dtype}{list(self.b.shape)})"
        )


@dataclass(frozen=True, eq=False, repr=False)
class Adapter:
    """An adapter in memory.

    Args:
        name: What requests call it.
        path: What it was loaded from.
        rank: The largest rank of its matrices.
        layers: The matrices by the path of the layer in the model.
    """

    name: str
    path: str
    rank: int
    layers: Mapping[str, Matrices]
    digest: str = field(init=False)
    """A hash of the matrices: what two adapters of one digest compute is the same."""

    def __post_init__(self) -> None:
        hasher = blake2b(digest_size=16)
        for path, pair in sorted(self.layers.items()):
            hasher.update(f"{path} {pair.a.shape} {pair.b.shape} ".encode())
            hasher.update(pair.a.tobytes() + pair.b.tobytes())
        object.__setattr__(self, "digest", hasher.hexdigest())

    @property
    def nbytes(self) -> int:
        """The bytes of the matrices."""
        return sum(pair.a.nbytes + pair.b.nbytes for pair in self.layers.values())

    def __repr__(self) -> str:
        return (
            f"Adapter({self.name!r}, path={self.path!r}, rank={self.rank}, "
            f"{len(self.layers)} layers, {self.nbytes} bytes)"
        )


class AdapterPathError(InputError):
    """A place that has no adapter."""


class AdapterError(InputError):
    """An adapter that cannot be used, or not with this model."""


def unreadable(path: str, why: str, fix: str) -> AdapterError:
    """The error that the files of an adapter cannot be used: ML537."""
    return AdapterError("ML537", f"the adapter {path}: {why}", fix=fix)


def unfit(path: str, why: str, fix: str) -> AdapterError:
    """The error that an adapter does not fit the model: ML538."""
    return AdapterError("ML538", f"the adapter {path} does not fit the model: {why}", fix=fix)


def folder_of(path: str) -> Path:
    """The folder of an adapter: a folder, or a repository of Hugging Face in the cache.

    Args:
        path: The folder, or the id of the repository.

    Raises:
        AdapterPathError: ML537 (a ValueError), neither is there.
    """
    folder: Path | None = Path(path).expanduser()
    try:
        there = folder is not None and folder.is_dir()
    except (OSError, ValueError):  # such as a name that is too long
        there = False
    if not there:
        folder = None
        if re.fullmatch(r"[\w.-]+/[\w.-]+", path):
            try:
                folder = snapshot_of(path, "main")
            except MaxlabError:
                folder = None
    if folder is None:
        raise AdapterPathError(
            "ML537",
            f"the adapter {path}: there is no such folder, and the cache has no such repository",
            fix="pass a folder with adapter_config.json, or download the repository first",
        )
    return folder


def read_adapter(
    name: str, path: str, layers: Mapping[str, LinearLoRA], dtype: DType, max_rank: int
) -> Adapter:
    """The adapter of a folder, for a model.

    Args:
        name: What requests are to call it.
        path: The folder, or the id of a repository in the cache.
        layers: The layers of the model that take adapters, by their paths.
        dtype: The dtype of the matrices in the model.
        max_rank: The largest rank that the model has room for.

    Raises:
        AdapterPathError: ML537 (a ValueError), there is no such folder.
        AdapterError: ML537 (a ValueError), files that are missing, damaged, or of a kind of adapter
            that is not computed; ML538 (a ValueError), layers, ranks, shapes or dtypes that the
            model does not have.
    """
    folder = folder_of(path)
    config = _config(path, folder)
    pairs = _pairs(path, folder)
    if not pairs:
        raise unreadable(path, f"{WEIGHTS} has no matrices", "save it with peft once more")
    found: dict[str, Matrices] = {}
    for full, pair in pairs.items():
        own = next(
            (full[len(p) :] for p in PREFIXES if full.startswith(p) and full[len(p) :] in layers),
            None,
        )
        if own is None:
            known = ", ".join(dict.fromkeys(one.rpartition(".")[2] for one in layers))
            raise unfit(
                path,
                f"it changes {full}, and the model takes no adapter there",
                f"train one whose target_modules are among {known}",
            )
        rank = _rank(path, config, full, max_rank)
        found[own] = _fitted(
            path, full, pair, layers[own], rank, _factor(path, config, full, rank), dtype
        )
    return Adapter(name, path, max(len(pair.a) for pair in found.values()), found)


# ---------------------------------------------------------------- the configuration
_REFUSED = {
    "use_dora": (False, None),
    "bias": ("none", None),
    "fan_in_fan_out": (False, None),
    "lora_bias": (False, None),
    "modules_to_save": (None, []),
    "layer_replication": (None, []),
    "trainable_token_indices": (None, [], {}),
    "target_parameters": (None, []),
    "alora_invocation_tokens": (None, []),
    "use_qalora": (False, None),
}
"""Entries that ask for more than the two matrices, with the values that do not."""
_CHANGES_BASE = ("pissa", "olora", "loftq", "corda")
"""Beginnings of ``init_lora_weights`` that take a part of the base into the adapter, so that the
adapter belongs to a base with other weights."""


def _config(path: str, folder: Path) -> dict[str, Any]:
    """The configuration, which asks for nothing that is not computed."""
    found = read_config(folder / CONFIG)
    if found is None:
        raise unreadable(path, f"{CONFIG} is missing or no JSON object", "save it with peft")
    if found.get("peft_type", "LORA") != "LORA":
        raise unreadable(
            path,
            f"it is of the kind {found['peft_type']!r}",
            "only LoRA is computed; merge others into the checkpoint",
        )
    for name, plain in _REFUSED.items():
        if name in found and found[name] not in plain:
            raise unreadable(
                path,
                f"{CONFIG} says {name}={found[name]!r}, which is not computed",
                "merge it into the checkpoint, or train an adapter without",
            )
    first = found.get("init_lora_weights")
    if isinstance(first, str) and first.startswith(_CHANGES_BASE):
        raise unreadable(
            path,
            f"it was made with init_lora_weights={first!r}, which changes the weights of the base",
            "convert it to a plain one: save_pretrained of peft with "
            "path_initial_model_for_weight_conversion",
        )
    for name in ("rank_pattern", "alpha_pattern"):
        if not isinstance(found.get(name) or {}, dict):
            raise unreadable(path, f"{name} is no object", "save it with peft once more")
    return found


def _of_layer(path: str, config: dict[str, Any], pattern: str, plain: str, full: str) -> Any:
    """The value of a layer: that of the first pattern that its path ends with, or the usual one."""
    for key, value in (config.get(pattern) or {}).items():
        try:
            if re.fullmatch(rf"(?:.*\.)?(?:{key})", full):
                return value
        except re.error as error:
            raise unreadable(
                path, f"{pattern} has {key!r}, which is no regular expression", "correct it"
            ) from error
    return config.get(plain)


def _rank(path: str, config: dict[str, Any], full: str, max_rank: int) -> int:
    rank = _of_layer(path, config, "rank_pattern", "r", full)
    if isinstance(rank, bool) or not isinstance(rank, int) or rank < 1:
        raise unreadable(path, f"the rank of {full} is {rank!r}", "r is a positive integer")
    if rank > max_rank:
        raise unfit(
            path,
            f"its rank {rank} is above max_lora_rank, {max_rank}",
            f"configure max_lora_rank={rank} or more",
        )
    return rank


def _factor(path: str, config: dict[str, Any], full: str, rank: int) -> float:
    """The factor of the product of the matrices: ``alpha / r``, or ``alpha / sqrt(r)``."""
    alpha = _of_layer(path, config, "alpha_pattern", "lora_alpha", full)
    if isinstance(alpha, bool) or not isinstance(alpha, (int, float)) or not math.isfinite(alpha):
        raise unreadable(path, f"lora_alpha of {full} is {alpha!r}", "lora_alpha is a number")
    return alpha / (math.sqrt(rank) if config.get("use_rslora") else rank)


# ---------------------------------------------------------------- the matrices
def _pairs(path: str, folder: Path) -> dict[str, dict[str, WeightData]]:
    """A and B by the names of layers in the file."""
    file = folder / WEIGHTS
    if not file.is_file():
        other = "adapter_model.bin"
        hint = f"; {other} may run code when it is read" if (folder / other).is_file() else ""
        raise unreadable(path, f"{WEIGHTS} is missing{hint}", "save it as safetensors with peft")
    found: dict[str, dict[str, WeightData]] = {}
    for name, data in _data(path, file):
        match = _NAME.fullmatch(name)
        if match is None:
            raise unreadable(
                path,
                f"the weight {name!r} is no matrix A or B of a linear layer",
                "merge the adapter into the checkpoint, or train one without",
            )
        found.setdefault(match[1], {})[match[2]] = data
    return found


def _data(path: str, file: Path) -> Iterator[tuple[str, WeightData]]:
    """The weights of a file, which is read whole: later changes of it do not matter."""
    try:
        for name, weight in load_weights([file], private=True).items():
            yield name, weight.data()
    except MaxlabError as error:
        raise unreadable(path, error.what, "save it with peft once more") from error


def _fitted(
    path: str,
    full: str,
    pair: dict[str, WeightData],
    layer: LinearLoRA,
    rank: int,
    factor: float,
    dtype: DType,
) -> Matrices:
    """The matrices of a layer in ``dtype``, with the factor in B."""
    inputs, outputs = int(layer.lora_A.shape[2]), int(layer.lora_B.shape[1])
    made: dict[str, Array] = {}
    for letter, shape in (("A", (rank, inputs)), ("B", (outputs, rank))):
        data = pair.get(letter)
        if data is None:
            raise unreadable(path, f"{full} has no matrix {letter}", "save it with peft once more")
        if data.dtype not in FLOATS:
            raise unfit(
                path,
                f"the matrix {letter} of {full} is {data.dtype.name}",
                f"save it as one of {', '.join(kind.name for kind in FLOATS)}",
            )
        if tuple(map(int, data.shape)) != shape:
            raise unfit(
                path,
                f"the matrix {letter} of {full} is {list(map(int, data.shape))}, expected "
                f"{list(shape)}",
                "take an adapter that was trained on this checkpoint",
            )
        numbers = np.asarray(data.data).astype(
            np.float64 if data.dtype is DType.float64 else np.float32
        )
        if not np.isfinite(numbers).all():
            raise unfit(
                path,
                f"the matrix {letter} of {full} has numbers that are not finite",
                "train it with a smaller step",
            )
        made[letter] = numbers
    kind = dtype.ml_numpy
    return Matrices(made["A"].astype(kind), (made["B"] * factor).astype(kind))


__all__ = [
    "Adapter",
    "AdapterError",
    "AdapterPathError",
    "Matrices",
    "folder_of",
    "read_adapter",
]
