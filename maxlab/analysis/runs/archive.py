"""The file of a saved run, ``.mlprof``: what is in it, and how to read one that nobody vouches for.

A ``.mlprof`` is a ZIP archive, of which any tool can read the parts:

==================  ==============================================================================
``run.json``        what was run, where, and its kernels: ``format`` is ``"maxlab.run"``,
                    ``version`` is 1, then ``name``, ``label``, ``created`` (UTC, ISO 8601),
                    ``device``, ``threads``, ``dims``, ``machine``, ``options`` and ``kernels``,
                    each with ``id``, ``name``, ``kind``, ``nodes``, ``flops``, ``nbytes``,
                    ``busy_ns``, ``imbalance`` and ``turns``, which older files are without
``document.json``   the graph document that views draw, with the generated text of all kernels
``kernel_ns.npy``   ``[runs, kernels]`` int64, nanoseconds of each kernel in each timed run
``timed_ns.npy``    ``[runs]`` int64, nanoseconds of each timed run
``wall_ns.npy``     ``[runs]`` int64, nanoseconds of each run without timing
``timeline.json``   one run, kernel by kernel and thread by thread: ``Timeline.to_json``; a file
                    may be without it
==================  ==============================================================================

JSON is UTF-8 with sorted keys; saving a run twice makes the same bytes. Within a version, fields
and parts are only ever added, and a reader passes over those that it does not know. Nothing in the
file is code, and no part of it is unpickled.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from maxlab import files
from maxlab.analysis.runs.costs import Costs, costs_of
from maxlab.errors import DocumentError, shown
from maxlab.zipped import DamagedError, Zipped, array_of

FORMAT = "maxlab.run"
VERSION = 1

MOST_BYTES = 1 << 30
"""Bytes of a file: thousands of times a large model's."""

FREE_BYTES = 48 << 20
FREE_TIMES = 16
"""Memory that reading a file may take: so many bytes, and so many times the bytes of the file. A
small file that unpacks to very much is made to do harm."""

MOST_DEPTH = 64
"""Lists and objects inside of each other."""

_ARRAY_TIMES = 6
"""How often an array is there at once: packed, as it was read, as numbers, and in medians."""
JSON_PARTS = ("run.json", "document.json")
OPTIONAL_PARTS = ("timeline.json",)
ARRAY_PARTS = ("kernel_ns.npy", "timed_ns.npy", "wall_ns.npy")

# ZIP's own clock begins here; a fixed time makes equal runs equal bytes.
_NO_TIME = (1980, 1, 1, 0, 0, 0)

Array = np.ndarray[Any, Any]


def write(path: files.AnyPath, parts: Mapping[str, Any]) -> Path:
    """The path of the file that holds ``parts``, JSON values and arrays by their names.

    The file appears when it is complete; until then, and when writing fails, what was at ``path``
    stays as it is.

    Raises:
        FileError: ML001, ``path`` is there and is no regular file; ML003, it cannot be written.
    """
    names = (*JSON_PARTS, *OPTIONAL_PARTS, *ARRAY_PARTS)
    packed = {name: _packed(name, parts[name]) for name in names if name in parts}
    content = _zipped(packed, zipfile.ZIP_DEFLATED)
    if _memory(_costs(packed), packed, len(content)) > _free(len(content)):
        # Kernels that are all alike pack so well that a reader would take the file for a bomb.
        content = _zipped(packed, zipfile.ZIP_STORED)
    return files.write_bytes(path, content, "the saved run")


def _zipped(parts: Mapping[str, bytes], method: int) -> memoryview:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, raw in parts.items():
            entry = zipfile.ZipInfo(name, _NO_TIME)
            entry.compress_type = method
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, raw)
    return content.getbuffer()


def _packed(name: str, value: Any) -> bytes:
    if name not in ARRAY_PARTS:
        text = json.dumps(
            value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False
        )
        # Half of a surrogate pair, which names may have, becomes JSON's own escape.
        return text.encode("utf-8", "backslashreplace")
    content = io.BytesIO()
    np.lib.format.write_array(
        content, np.ascontiguousarray(value, "<i8"), version=(1, 0), allow_pickle=False
    )
    return content.getvalue()


def read(path: files.AnyPath) -> dict[str, Any]:
    """The parts of the file at ``path`` by their names: JSON values and int64 arrays, whose shapes
    and contents are as the file claims and nothing more.

    Raises:
        DocumentError: ML840, it is no saved run; ML841, it is damaged; ML842, it was written by a
            newer maxlab; ML843, it would take more memory than any run of its size.
        FileError: ML001, it is no regular file; ML002, it cannot be read; ML004, it has too many
            bytes.
    """
    raw = files.read_bytes(path, "the saved run", MOST_BYTES)
    place = files.as_path(path)
    if not raw.startswith(b"PK"):
        raise DocumentError(
            "ML840",
            f"{place.name} is not a saved run: it does not begin like a ZIP archive",
            fix="save a run with profile.save('name.mlprof')",
        )
    try:
        archive = Zipped(raw)
        known = (*JSON_PARTS, *OPTIONAL_PARTS, *ARRAY_PARTS)
        claimed = {name: size for name, size in archive.sizes.items() if name in known}
        most = _free(len(raw))
        # Refused before it is unpacked: text that is three times there, at the least.
        least = sum((_ARRAY_TIMES if n in ARRAY_PARTS else 3) * s for n, s in claimed.items())
        if least > most:
            _too_large(place, least, most)
        parts = {name: archive.read(name) for name in known if name in archive}
        costs = _costs(parts)
        needed = _memory(costs, parts, len(raw))
        if needed > most:
            _too_large(place, needed, most)
        for name, one in costs.items():
            if one.depth > MOST_DEPTH:
                raise DamagedError(f"{name}: {one.depth} lists and objects inside of each other")
        run = _json(place, "run.json", parts.get("run.json", b""))
        _check_head(place, run, parts)
        found: dict[str, Any] = {"run.json": run}
        for name in ("document.json", *OPTIONAL_PARTS):
            if name in parts:
                found[name] = _json(place, name, parts.pop(name))
        for name in ARRAY_PARTS:
            found[name] = _array(place, name, parts[name])
    except DamagedError as error:
        _damaged(place, str(error))
    return found


# ---------------------------------------------------------------- memory


def _free(nbytes: int) -> int:
    """The bytes of memory that reading a file of ``nbytes`` may take."""
    return FREE_BYTES + FREE_TIMES * nbytes


def _memory(costs: Mapping[str, Costs], parts: Mapping[str, bytes], nbytes: int) -> int:
    """The bytes of memory that reading the unpacked ``parts`` of a file of ``nbytes`` takes."""
    # The file is there twice: as it was read, and in what its archive keeps of each part.
    arrays = sum(len(raw) for name, raw in parts.items() if name in ARRAY_PARTS)
    return 2 * nbytes + _ARRAY_TIMES * arrays + sum(one.nbytes for one in costs.values())


def _costs(parts: Mapping[str, bytes]) -> dict[str, Costs]:
    """The cost of reading each part that is JSON."""
    return {name: costs_of(raw) for name, raw in parts.items() if name not in ARRAY_PARTS}


# ---------------------------------------------------------------- parts


def _check_head(path: Path, run: Any, parts: Mapping[str, bytes]) -> None:
    """That this is a run, of a version that can be read, with all its parts."""
    if not isinstance(run, dict) or run.get("format") != FORMAT:
        raise DocumentError(
            "ML840",
            f"{path.name} is not a saved run: its run.json does not say {FORMAT!r}",
            fix="save a run with profile.save('name.mlprof')",
        )
    version = run.get("version")
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        _damaged(path, f"its version is {shown(version, 40)}")
    if version > VERSION:
        raise DocumentError(
            "ML842",
            f"{path.name} is of version {shown(version, 40)}, this maxlab reads up to {VERSION}",
            fix="update maxlab, or save the run again with this one",
        )
    for name in (*JSON_PARTS, *ARRAY_PARTS):
        if name not in parts:
            _damaged(path, f"{name} is missing")


def _json(path: Path, name: str, raw: bytes) -> Any:
    if not raw:
        return None

    def refuse(text: str) -> NoReturn:
        raise ValueError(f"{text} is not a number of JSON")

    try:
        return json.loads(raw.decode("utf-8"), parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        _damaged(path, f"{name}: {error}")


def _array(path: Path, name: str, raw: bytes) -> Array:
    """The int64 array in ``raw``: its header must claim as many bytes as there are."""
    found: Array = array_of(name, raw, "<i8").astype(np.int64)
    if found.size and int(found.min()) < 0:
        _damaged(path, f"{name} has times below zero")
    return found


def _damaged(path: Path, why: str) -> NoReturn:
    raise DocumentError(
        "ML841",
        f"{path.name} cannot be read: {why}",
        fix="the file was cut off or changed; copy it again, or save the run again",
    )


def _too_large(path: Path, size: int, most: int) -> NoReturn:
    raise DocumentError(
        "ML843",
        f"{path.name} would take {size} bytes, more than the {most} that a run of its size may",
        fix="this is no file of maxlab; do not open it",
    )
