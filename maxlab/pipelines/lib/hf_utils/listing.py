"""The files of a model by name and size: those of a folder, of the cache, or of a hub."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from maxlab.errors import RepositoryError, WeightError
from maxlab.graph.weights import WeightsFormat, weights_format
from maxlab.pipelines.lib.hf_utils.access import model_info
from maxlab.pipelines.lib.hf_utils.names import check_file_name, inside

if TYPE_CHECKING:
    from huggingface_hub import ModelInfo  # type: ignore[import-not-found,unused-ignore]

DEEPEST = 4
"""Folders inside of one another in which files are looked for."""
MOST_FILES = 20_000
"""Files that a folder may have; one with more is no model."""
MOST_LACKING = 8
"""Missing shards that are named."""
_INDEX = ".index.json"
_SHARD = re.compile(r"(.*)-(\d{5,6})-of-(\d{5,6})(\.[^.]+)")
_NO_WEIGHTS = re.compile(
    r"training_args\.bin|optimizer\.(bin|pt|pth)|scheduler\.(bin|pt|pth)|rng_state.*\.pth|"
    r"scaler\.pt|tokenizer.*\.(bin|pt)"
)


@dataclass(frozen=True, slots=True)
class Listing:
    """Names and sizes of the files of a model, and where they lie.

    Attributes:
        place: Where it was looked for.
        sizes: The bytes of each file by its name, relative and with ``/``; None where the hub does
            not tell.
        root: The folder that the files lie in; None on a hub.
        info: The description by the hub.
    """

    place: Literal["folder", "cache", "hub"]
    sizes: dict[str, int | None]
    root: Path | None = None
    info: ModelInfo | None = field(default=None, repr=False)

    def path(self, name: str) -> Path:
        """The path of a file of a folder or of the cache.

        Raises:
            RepositoryError: ML123, it is a link that leads out of the folder.
        """
        assert self.root is not None
        return path_in(self.root, name)


def in_folder(root: Path) -> Listing:
    """The files of a folder and of those in it, hidden ones left out.

    Raises:
        RepositoryError: ML112, the folder cannot be read, or has more files than any model.
    """
    return Listing("folder", _walk(root), root)


def in_cache(snapshot: Path) -> Listing:
    """The files of a snapshot of the cache."""
    return Listing("cache", _walk(snapshot), snapshot)


def on_hub(repo_id: str, revision: str) -> Listing:
    """The files of a repository as its hub tells them; one request.

    Raises:
        RepositoryError: ML113 to ML120; ML111, the hub names a file that leads out of the
            repository.
    """
    info = model_info(repo_id, revision)
    sizes = {check_file_name(one.rfilename): one.size for one in info.siblings or ()}
    return Listing("hub", sizes, info=info)


def path_in(folder: Path, name: str) -> Path:
    """The path of the file ``name``, which was checked, of a folder or a snapshot of the cache.

    Raises:
        RepositoryError: ML123, it is a link that leads out of the folder, or of the cache.
    """
    return inside(folder, name, _cache_of(folder))


def _cache_of(folder: Path) -> Path | None:
    """The cache that ``folder`` is a snapshot of; None where it is none."""
    real = Path(os.path.realpath(folder))
    if real.parent.name == "snapshots" and real.parent.parent.name.startswith("models--"):
        return real.parent.parent.parent  # contents may be shared by repositories
    return None


def _walk(root: Path) -> dict[str, int | None]:
    sizes: dict[str, int | None] = {}

    def failed(error: OSError) -> None:
        raise RepositoryError(
            "ML112",
            f"the folder {error.filename} cannot be read: {error.strerror}",
            fix="check the rights of the folder",
        ) from error

    for at, folders, files in os.walk(root, onerror=failed):
        below = Path(at).relative_to(root)
        folders[:] = sorted(one for one in folders if not one.startswith("."))
        if len(below.parts) >= DEEPEST - 1:
            folders.clear()
        for name in files:
            path = Path(at) / name
            if not name.startswith(".") and path.is_file():
                sizes[(below / name).as_posix()] = path.stat().st_size
        if len(sizes) > MOST_FILES:
            raise RepositoryError(
                "ML112",
                f"the folder {root} has more than {MOST_FILES} files, and is no model",
                fix="give the folder that the weights lie in",
            )
    return dict(sorted(sizes.items()))


# ---------------------------------------------------------------- weights among the files


def format_of(name: str) -> WeightsFormat | None:
    """The format of a file by its suffix; None for what holds no weights."""
    base = name.rpartition("/")[2].lower()
    if base.endswith(".json") or _NO_WEIGHTS.fullmatch(base):
        return None
    try:
        return weights_format([Path(base)])
    except WeightError:
        return None


def weight_files(names: Iterable[str]) -> dict[WeightsFormat, list[str]]:
    """The files of weights by their format.

    Of safetensors and PyTorch files those of the root count, and those of folders where the root
    has none of the format: folders hold other models, such as the layers after a transformer.
    ``consolidated`` files, the same weights under other names, count where there are no others, and
    so do parts beside a model: ``mmproj`` (of images) and ``adapter_model``.
    """
    found: dict[WeightsFormat, list[str]] = {}
    for name in sorted(names):
        format = format_of(name)
        if format is not None:
            found.setdefault(format, []).append(name)
    plain = {name for files in found.values() for name in files if not _is_aside(name)}
    chosen: dict[WeightsFormat, list[str]] = {}
    for format in sorted(found, key=_preference):
        files = [name for name in found[format] if name in plain or not plain]
        if format is not WeightsFormat.gguf:
            files = [name for name in files if "/" not in name] or files
        if files:
            chosen[format] = files
    return chosen


def _preference(format: WeightsFormat) -> int:
    return [WeightsFormat.safetensors, WeightsFormat.gguf, WeightsFormat.pytorch].index(format)


def _is_aside(name: str) -> bool:
    base = name.rpartition("/")[2].lower()
    return base.startswith(("consolidated", "mmproj", "adapter_model"))


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Files that hold the weights of a model together: one, or all of its shards.

    Attributes:
        format: Their format.
        files: Their names, in order.
        lacks: Names of shards that are not there, the first few.
    """

    format: WeightsFormat
    files: tuple[str, ...]
    lacks: tuple[str, ...] = ()


def checkpoints(
    files: Mapping[WeightsFormat, list[str]], names: Collection[str]
) -> list[Checkpoint]:
    """The checkpoints of a model, each of which can be loaded by itself, in the order of formats.

    Where a whole file and shards have one name, the whole file counts, as with ``transformers``.
    Files that have no names of shards are shards all the same where there is an index of others.

    Args:
        files: The files of weights by format.
        names: All files of the model.
    """
    found: list[Checkpoint] = []
    for format, given in files.items():
        rest = _indexed(given, names)
        found += [Checkpoint(format, tuple(sorted(of_one))) for of_one in rest.values()]
        given = [name for name in given if not any(name in of_one for of_one in rest.values())]
        whole = [name for name in given if not _SHARD.fullmatch(name)]
        shards: dict[tuple[str, str, str], list[str]] = {}
        for name in given:
            match = _SHARD.fullmatch(name)
            if match and match[1] + match[4] not in whole:
                shards.setdefault((match[1], match[3], match[4]), []).append(name)
        made = [Checkpoint(format, (name,)) for name in whole]
        for (stem, count, suffix), have in shards.items():
            there = set(have)
            every = (
                f"{stem}-{n:0{len(count)}}-of-{count}{suffix}" for n in range(1, int(count) + 1)
            )
            lacks = islice((name for name in every if name not in there), MOST_LACKING)
            made.append(Checkpoint(format, tuple(sorted(have)), tuple(lacks)))
        # A variant, such as model.fp16.safetensors, has the longer name.
        by_length = format is not WeightsFormat.gguf
        found += sorted(made, key=lambda one: (by_length * len(one.files[0]), one.files))
    return found


def _indexed(files: list[str], names: Collection[str]) -> dict[str, list[str]]:
    """The files of each index that is of neither a file of its name nor of numbered shards."""
    found: dict[str, list[str]] = {}
    for index in (name for name in names if name.endswith(_INDEX)):
        target = index.removesuffix(_INDEX)
        folder, _, base = target.rpartition("/")
        stem, _, suffix = base.rpartition(".")
        near = [name for name in files if name.rpartition("/")[0] == folder]
        near = [name for name in near if name.endswith(f".{suffix}")]
        numbered = [match for match in map(_SHARD.fullmatch, near) if match]
        if target not in near and not any(m[1].rpartition("/")[2] == stem for m in numbered):
            found[index] = near
    return {index: near for index, near in found.items() if near}


def is_filled(names: Collection[str]) -> bool:
    """True if the files are enough to load a model: a whole checkpoint, and ``config.json`` unless
    it is a GGUF file, which holds its own."""
    return any(
        not one.lacks and (one.format is WeightsFormat.gguf or "config.json" in names)
        for one in checkpoints(weight_files(names), names)
    )


__all__ = [
    "Checkpoint",
    "Listing",
    "checkpoints",
    "format_of",
    "in_cache",
    "in_folder",
    "is_filled",
    "on_hub",
    "path_in",
    "weight_files",
]
