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
import os
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from maxlab.errors import DocumentError

FORMAT = "maxlab.run"
VERSION = 1

MOST_BYTES = 256 << 20
"""Bytes of a file, and of all its parts unpacked: a thousand times a large model's."""

JSON_PARTS = ("run.json", "document.json")
OPTIONAL_PARTS = ("timeline.json",)
ARRAY_PARTS = ("kernel_ns.npy", "timed_ns.npy", "wall_ns.npy")

# ZIP's own clock begins here; a fixed time makes equal runs equal bytes.
_NO_TIME = (1980, 1, 1, 0, 0, 0)

Array = np.ndarray[Any, Any]


def write(path: Path, parts: Mapping[str, Any]) -> None:
    """Write ``parts``, JSON values and arrays by their names, to ``path``.

    The file appears when it is complete; until then, and when writing fails, what was at ``path``
    stays as it is.

    Raises:
        OSError: The file cannot be written.
    """
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name in (*JSON_PARTS, *OPTIONAL_PARTS, *ARRAY_PARTS):
            if name not in parts:
                continue
            entry = zipfile.ZipInfo(name, _NO_TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, _packed(name, parts[name]))
    handle, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.getbuffer())
        os.chmod(beside, 0o666 & ~_umask())
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _packed(name: str, value: Any) -> bytes:
    if name not in ARRAY_PARTS:
        text = json.dumps(
            value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False
        )
        return text.encode()
    content = io.BytesIO()
    np.lib.format.write_array(
        content, np.ascontiguousarray(value, "<i8"), version=(1, 0), allow_pickle=False
    )
    return content.getvalue()


def read(path: Path) -> dict[str, Any]:
    """The parts of the file at ``path`` by their names: JSON values and int64 arrays, whose shapes
    and contents are as the file claims and nothing more.

    Raises:
        DocumentError: ML840, it is no saved run; ML841, it is damaged; ML842, it was written by a
            newer maxlab; ML843, it is larger than any run.
        OSError: The file cannot be read.
    """
    size = path.stat().st_size
    if size > MOST_BYTES:
        _too_large(path, size)
    raw = path.read_bytes()
    if not raw.startswith(b"PK"):
        raise DocumentError(
            "ML840",
            f"{path.name} is not a saved run: it does not begin like a ZIP archive",
            fix="save a run with profile.save('name.mlprof')",
        )
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            parts = _members(path, archive)
            run = _json(path, "run.json", parts.get("run.json", b""))
            _check_head(path, run, parts)
            found: dict[str, Any] = {"run.json": run}
            found |= {
                name: _json(path, name, parts[name])
                for name in ("document.json", *OPTIONAL_PARTS)
                if name in parts
            }
    except (
        zipfile.BadZipFile,  # the archive itself, a part's header, or its checksum
        zlib.error,
        EOFError,
        NotImplementedError,  # a way of packing that nobody uses
        RuntimeError,  # encrypted
        OSError,
        ValueError,
        OverflowError,
    ) as error:
        if isinstance(error, DocumentError):
            raise
        _damaged(path, str(error) or type(error).__name__)
    for name in ARRAY_PARTS:
        found[name] = _array(path, name, parts[name])
    return found


def _members(path: Path, archive: zipfile.ZipFile) -> dict[str, bytes]:
    """The parts that this version knows, unpacked.

    An archive can claim any size, and unpack to a thousand times its own, so nothing is unpacked
    before the claims are added up, and nothing beyond them.
    """
    entries: dict[str, zipfile.ZipInfo] = {}
    for entry in archive.infolist():
        if entry.filename in (*JSON_PARTS, *OPTIONAL_PARTS, *ARRAY_PARTS):
            if entry.filename in entries:
                _damaged(path, f"it has two parts {entry.filename}")
            entries[entry.filename] = entry
    total = sum(entry.file_size for entry in entries.values())
    if total > MOST_BYTES:
        _too_large(path, total)
    parts = {}
    for name, entry in entries.items():
        with archive.open(entry) as file:
            parts[name] = file.read(entry.file_size + 1)
        if len(parts[name]) != entry.file_size:
            _damaged(path, f"{name} is not as long as it says")
    return parts


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
        _damaged(path, f"its version is {str(version)[:40]!r}")
    if version > VERSION:
        raise DocumentError(
            "ML842",
            f"{path.name} is of version {version}, this maxlab reads up to {VERSION}",
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
    file = io.BytesIO(raw)
    try:
        if np.lib.format.read_magic(file) != (1, 0):
            _damaged(path, f"{name} is not of .npy's version 1.0")
        shape, by_column, dtype = np.lib.format.read_array_header_1_0(file, max_header_size=4096)
    except (ValueError, SyntaxError, RecursionError, MemoryError, OverflowError) as error:
        if isinstance(error, DocumentError):
            raise
        _damaged(path, f"{name}: {str(error).splitlines()[0] if str(error) else 'its header'}")
    if dtype != np.dtype("<i8") or by_column or any(not 0 <= n <= MOST_BYTES for n in shape):
        _damaged(path, f"{name} has another type or order")
    count = 1
    for n in shape:
        count *= n
    rest = raw[file.tell() :]
    if len(rest) != count * 8:
        _damaged(path, f"{name} has {len(rest)} bytes for {count} numbers")
    found: Array = np.frombuffer(rest, "<i8").astype(np.int64).reshape(shape)
    if found.size and int(found.min()) < 0:
        _damaged(path, f"{name} has times below zero")
    return found


def _damaged(path: Path, why: str) -> NoReturn:
    raise DocumentError(
        "ML841",
        f"{path.name} cannot be read: {why}",
        fix="the file was cut off or changed; copy it again, or save the run again",
    )


def _too_large(path: Path, size: int) -> NoReturn:
    raise DocumentError(
        "ML843",
        f"{path.name} would take {size} bytes, more than the {MOST_BYTES} that a run may have",
        fix="this is no file of maxlab; do not open it",
    )
