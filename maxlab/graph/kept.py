"""The numbers of weights that a document keeps: small ones in its text, larger ones in a file of
safetensors beside it.

The name of that file has a hash of what is in it. A document is written behind its file, so at each
moment a document names a whole file that has its own numbers: what is cut off in between leaves the
document of before with the file of before.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
import re
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import GraphError, Location, MaxlabError, WeightError, shown
from maxlab.files import read_bytes
from maxlab.graph.notes import Refuse
from maxlab.graph.operands import to_numpy
from maxlab.graph.weights.safetensors import DTYPES, SafetensorsFile
from maxlab.graph.weights.writing import write_safetensors
from maxlab.ir import Function, Op
from maxlab.ir.function_json import Json
from maxlab.opset import is_weight
from maxlab.opset.core import Array

WEIGHTS: Final = "weights"
"""The field of a document."""
SMALL: Final = 4096
"""Bytes of a weight that stands in the text of a document, at most."""
_DTYPES: Final = {dtype.name: dtype for dtype in DTYPES.values()}
_FILE: Final = re.compile(r"[^/\\\0]+\.safetensors")
_HASH: Final = re.compile(r"[0-9a-f]{64}")
MOST_RANK: Final = 32
MOST_NEIGHBOURS: Final = 1000
"""Documents of a folder that are asked whether they name a file, at most."""


@dataclass(frozen=True, slots=True)
class Entry:
    """The numbers of a weight in a document: themselves, as base64, or the SHA-256 of their bytes,
    which are in a file.
    """

    dtype: DType
    shape: tuple[int, ...]
    data: str = ""
    digest: str = ""

    def note(self) -> str:
        """It as a note of the graph."""
        where = {"sha256": self.digest} if self.digest else {"data": self.data}
        told = {"dtype": self.dtype.name, "shape": list(self.shape), **where}
        return json.dumps(told, sort_keys=True, separators=(",", ":"))


@dataclass(slots=True)
class Kept:
    """Where the numbers of larger weights are.

    Attributes:
        folder: Where the files are; None for the folder of the process.
        files: The names of the files, by the SHA-256 of what they have.
        arrays: Numbers that are in memory, or mapped, by the same.
    """

    folder: Path | None = field(default=None, compare=False)
    files: dict[str, str] = field(default_factory=dict)
    arrays: dict[str, Array] = field(default_factory=dict, compare=False)


# ---------------------------------------------------------------- in a document
def weights_data(kept: Kept, function: Function) -> Json:
    """The weights in the text of the document of ``function``: those that the graph has and whose
    numbers are small, or in a file.
    """
    notes = function.notes.get(WEIGHTS, {})
    made: Json = {}
    for name in weights_of(function) if notes else ():
        if name in notes:
            entry: Json = json.loads(notes[name])
            digest = entry.get("sha256", "")
            if digest in kept.files:
                entry["file"] = kept.files[digest]
            if not digest or digest in kept.files:
                made[name] = entry
    return made


def set_weights(
    function: Function, entries: Mapping[str, tuple[Entry, str]], folder: Path | None = None
) -> Kept:
    """Let ``function`` have the numbers that ``entries`` says, each with the file that it is in;
    where they are.

    Args:
        function: The operations of a graph.
        entries: What `read_weights` gave.
        folder: Where the files are.
    """
    kept = Kept(folder)
    for name, (entry, file) in entries.items():
        function.set_note(WEIGHTS, name, entry.note())
        if file:
            kept.files[entry.digest] = file
    return kept


def read_weights(data: Json, refuse: Refuse) -> dict[str, tuple[Entry, str]]:
    """The entries that ``data``, which a document has as its weights, has, and the files."""
    made = {}
    for name, entry in data.items():
        what = f"the weight {shown(name)}"
        if not isinstance(entry, dict):
            refuse(f"{what} is {shown(entry)}, expected an object", name)
        told, shape = entry.get("dtype"), entry.get("shape")
        dtype = _DTYPES.get(told) if isinstance(told, str) else None
        if dtype is None:
            refuse(f"{what} is of {shown(told)}, which no file of weights has", name)
        if (
            not isinstance(shape, list)
            or len(shape) > MOST_RANK
            or not all(size.__class__ is int and 0 <= size < 2**40 for size in shape)
        ):
            refuse(f"{what} has the shape {shown(shape)}, expected a list of sizes", name)
        file, digest, text = (entry.get(key, "") for key in ("file", "sha256", "data"))
        if file != "":
            if not isinstance(file, str) or not _FILE.fullmatch(file) or file.startswith("."):
                refuse(f"{what} is in {shown(file)}, which is no file beside the document", name)
            if not isinstance(digest, str) or not _HASH.fullmatch(digest):
                refuse(f"{what}: sha256 is {shown(digest)}, expected 64 digits", name)
            made[name] = Entry(dtype, tuple(shape), digest=digest), file
            continue
        if not isinstance(text, str) or _length(text) != math.prod(shape) * dtype.size_in_bytes:
            refuse(f"{what} has no bytes of its shape and dtype", name)
        try:
            base64.b64decode(text, validate=True)
        except ValueError:
            refuse(f"{what}: its data is no base64", name)
        made[name] = Entry(dtype, tuple(shape), data=text), ""
    return made


def _length(text: str) -> int:
    return len(text) // 4 * 3 - text[-2:].count("=") if len(text) % 4 == 0 else -1


def weights_of(function: Function) -> dict[str, Op]:
    """The weights that ``function`` reads, by the names that a registry has for them."""
    found: dict[str, Op] = {}
    for op in function.ops:
        if is_weight(op):
            found.setdefault(str(op.attrs.get("of", op.attrs["name"])), op)
    return found


# ---------------------------------------------------------------- reading
class KeptWeights(MutableMapping[str, Array]):
    """The numbers of the weights of a graph that its document keeps, by their names. They are read
    when they are asked for.

    Raises:
        WeightError: ML884, the file of a weight is not there or cannot be read; ML885, it has other
            numbers than those that were saved.
        GraphError: ML886, what is set is no array of the weight's type.
    """

    def __init__(self, function: Function, kept: Kept) -> None:
        self._function = function
        self._kept = kept

    def _entry(self, name: str) -> Entry:
        note = self._function.notes.get(WEIGHTS, {})[name]
        data = json.loads(note)
        texts = data.get("data", ""), data.get("sha256", "")
        return Entry(_DTYPES[data["dtype"]], tuple(data["shape"]), *texts)

    def __getitem__(self, name: str) -> Array:
        entry = self._entry(name)
        if not entry.digest:
            flat = np.frombuffer(base64.b64decode(entry.data), entry.dtype.ml_numpy)
            return flat.reshape(entry.shape)
        kept = self._kept
        if entry.digest not in kept.arrays:
            op = weights_of(self._function).get(name)
            kept.arrays[entry.digest] = _read(name, entry, kept, None if op is None else op.loc)
        return kept.arrays[entry.digest]

    def __setitem__(self, name: str, array: Any) -> None:
        made = as_weight(name, weights_of(self._function).get(name), array)
        dtype = DType.from_numpy(made.dtype)
        if made.nbytes <= SMALL:
            text = base64.b64encode(made.tobytes()).decode()
            entry = Entry(dtype, made.shape, data=text)
        else:
            entry = Entry(dtype, made.shape, digest=_digest(made))
            if made.flags.writeable:  # whoever gave it may change it
                made = made.copy()
            self._kept.arrays.setdefault(entry.digest, made)
        self._hold(name)
        self._function.set_note(WEIGHTS, name, entry.note())

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        self._hold(name)
        self._function.set_note(WEIGHTS, name, None)

    def _hold(self, name: str) -> None:
        """Have the numbers of ``name`` still when they are replaced, their file is removed, and
        undo brings them back."""
        if name in self:
            with suppress(WeightError):
                self[name]

    def __contains__(self, name: object) -> bool:
        return name in self._function.notes.get(WEIGHTS, {})

    def __iter__(self) -> Iterator[str]:
        return iter(self._function.notes.get(WEIGHTS, {}))

    def __len__(self) -> int:
        return len(self._function.notes.get(WEIGHTS, {}))

    def __repr__(self) -> str:
        return f"<the numbers of {', '.join(self) or 'no weights'}>"

    def is_written(self, folder: Path) -> bool:
        """Whether all numbers that are too large for the text are in a file of ``folder``, as far
        as they are known here."""
        kept = self._kept
        for name in weights_of(self._function):
            digest = self._entry(name).digest if name in self else ""
            if digest in kept.arrays:
                file = kept.files.get(digest)
                if file is None or not (folder / file).is_file():
                    return False
        return True


def as_weight(name: str, op: Op | None, data: Any) -> Array:
    """``data`` as the numbers of the weight ``name``, which ``op`` is.

    Raises:
        GraphError: ML886, the graph has no such weight, or it is of another type.
    """
    if op is None:
        raise GraphError(
            "ML886",
            f"the graph has no weight {name!r}",
            fix="give the numbers of weights that the graph reads",
        )
    if not hasattr(data, "__dlpack__") and hasattr(data, "data"):
        data = data.data
    try:
        array = np.asarray(to_numpy(data), order="C")
        dtype = DType.from_numpy(array.dtype)
    except (MaxlabError, TypeError, ValueError) as error:
        raise GraphError(
            "ML886", f"the weight {name!r} is {shown(data)}, expected an array", at=op.loc
        ) from error
    type, whole = op.attrs["type"], op.attrs.get("whole")
    wanted = tuple(whole) if whole is not None else tuple(map(str, type.shape))
    has = array.shape if whole is not None else tuple(map(str, array.shape))
    if dtype is not type.dtype or has != wanted or dtype.name not in _DTYPES:
        raise GraphError(
            "ML886",
            f"the numbers of the weight {name!r} are {dtype.name}{list(array.shape)}, the graph "
            f"reads {type.dtype.name}[{', '.join(map(str, wanted))}]",
            at=op.loc,
            fix="give the array that the graph was built for",
        )
    return array


def _read(name: str, entry: Entry, kept: Kept, at: Location | None) -> Array:
    named = kept.files.get(entry.digest, "")
    path = Path(named) if kept.folder is None else kept.folder / named
    try:
        file = SafetensorsFile(path)
    except WeightError as error:
        code = "ML884" if error.code == "ML632" else "ML885"
        raise WeightError(
            code,
            f"the document keeps the weight {name!r} in a file that cannot be read: {error.what}",
            at=at,
            fix=f"put {named} beside the document, or give the weight when the graph is loaded",
        ) from error
    if name not in file.entries:
        raise _other(name, path, "it has no such weight", at)
    array = file.read(name)
    if DType.from_numpy(array.dtype) is not entry.dtype or array.shape != entry.shape:
        has = f"it is {array.dtype}{list(array.shape)} there"
        raise _other(name, path, f"{has}, and was {entry.dtype.name}{list(entry.shape)}", at)
    if _digest(array) != entry.digest:
        raise _other(name, path, "its bytes are others", at)
    return array


def _other(name: str, path: Path, why: str, at: Location | None) -> WeightError:
    return WeightError(
        "ML885",
        f"{path} does not have the numbers that the weight {name!r} was saved with: {why}",
        at=at,
        fix="take the file that was saved with the document; or give the weight when the graph is "
        "loaded, and save the document again",
    )


def _digest(array: Array) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data).hexdigest()


# ---------------------------------------------------------------- writing
def write_weights(kept: Kept, function: Function, path: Path) -> None:
    """Write the numbers that are too large for the text of a document beside ``path``, where that
    will be.

    Numbers that cannot be read any more stay where the document says that they are.

    Raises:
        FileError: ML003, the file cannot be written; ``kept`` is as it was.
    """
    weights = KeptWeights(function, kept)
    found: dict[str, Array] = {}
    for name in weights:  # also of weights that are gone: undo may bring them back
        with suppress(WeightError):
            found[name] = weights[name]
    named = weights_of(function)
    large = {
        name: array
        for name, array in sorted(found.items())
        if array.nbytes > SMALL and name in named
    }
    folder = path.parent
    if large:
        notes = [[name, function.notes[WEIGHTS][name]] for name in large]
        mark = hashlib.sha256(json.dumps(notes).encode()).hexdigest()[:16]
        file = f"{path.stem}.{mark}.safetensors"
        if not (folder / file).is_file():
            write_safetensors(folder / file, large)
        for name in large:
            kept.files[weights._entry(name).digest] = file
    kept.folder = folder


def remove_unused(path: Path, suffix: str) -> None:
    """Remove the files that were written beside documents at ``path`` before, and that no document
    of the folder names any more."""
    own = re.compile(re.escape(path.stem) + r"\.[0-9a-f]{16}\.safetensors")
    found = [one for one in path.parent.iterdir() if own.fullmatch(one.name)]
    neighbours = sorted(path.parent.glob(f"*{suffix}")) if found else []
    if len(neighbours) > MOST_NEIGHBOURS:
        return
    try:
        texts = [read_bytes(one) for one in neighbours]
    except OSError:  # one that cannot be read may name them
        return
    for file in found:
        if not any(os.fsencode(file.name) in text for text in texts):
            with suppress(OSError):
                file.unlink()


__all__ = [
    "SMALL",
    "WEIGHTS",
    "Entry",
    "Kept",
    "KeptWeights",
    "read_weights",
    "remove_unused",
    "set_weights",
    "weights_data",
    "weights_of",
    "write_weights",
]
