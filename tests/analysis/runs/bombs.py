"""Saved runs that are made to take memory, and what reading them takes:
``python -m tests.analysis.runs.bombs RUN FOLDER`` prints a JSON line for each.

``RUN`` is a saved run that is fine; each bomb is that one with something put into it.
"""

from __future__ import annotations

import io
import json
import os
import resource
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

Parts = dict[str, bytes]
MEMORY = 12 << 30
COUNT = 800_000


def _in(part: str, text: Callable[[], bytes]) -> Callable[[Parts], Parts]:
    """A field that no reader knows, at the front of a part."""
    return lambda parts: {part: b'{"odd":' + text() + b"," + parts[part][1:]}


def _in_head(text: Callable[[], bytes]) -> Callable[[Parts], Parts]:
    return _in("run.json", text)


def _in_document(text: Callable[[], bytes]) -> Callable[[Parts], Parts]:
    return _in("document.json", text)


def _npy(array: np.ndarray) -> bytes:
    content = io.BytesIO()
    np.lib.format.write_array(content, array, version=(1, 0))
    return content.getvalue()


def _many_samples(_: Parts) -> Parts:
    return {"wall_ns.npy": _npy(np.ones(4 * COUNT, np.int64))}


def _many_runs(parts: Parts) -> Parts:
    kernels = len(json.loads(parts["run.json"])["kernels"])
    return {
        "kernel_ns.npy": _npy(np.ones((COUNT, kernels), np.int64)),
        "timed_ns.npy": _npy(np.ones(COUNT, np.int64)),
    }


def _timeline(**changed: object) -> Callable[[Parts], Parts]:
    def made(parts: Parts) -> Parts:
        timeline = json.loads(parts["timeline.json"])
        for name in list(timeline["columns"]):
            if name in changed:
                timeline["columns"][name] = changed[name]
        if "n" in changed:
            del timeline["columns"]["turns"]
            timeline["n"] = changed["n"]
        return {"timeline.json": json.dumps(timeline).encode()}

    return made


def _list(item: bytes, count: int) -> bytes:
    return b"[" + (item + b",") * (count - 1) + item + b"]"


BOMBS: dict[str, Callable[[Parts], Parts]] = {
    "lists": _in_head(lambda: _list(b"[]", COUNT)),
    "objects": _in_document(lambda: _list(b"{}", COUNT)),
    "objects with a key": _in_document(lambda: _list(b'{"":0}', COUNT)),
    "keys": _in_document(
        lambda: b"{" + b",".join([b'"%d":0' % n for n in range(COUNT // 3)]) + b"}"
    ),
    "numbers": _in_head(lambda: _list(b"1e9", COUNT)),
    "texts": _in_head(lambda: _list(b'"ab"', COUNT)),
    "one text": _in_head(lambda: b'"' + b"a" * (60 * COUNT) + b'"'),
    "one wide text": _in_head(lambda: b'"' + "😀".encode() + b"a" * (30 * COUNT) + b'"'),
    "escaped texts": _in_head(lambda: _list(b'"\\""', (2 * COUNT))),
    "brackets behind escapes": _in_head(
        lambda: b'["\\\\\\"",' + b",".join([b'"\\\\",[]'] * (COUNT // 2)) + b"]"
    ),
    "digits": _in_head(lambda: _list(b"7" * 4000, 30_000)),
    "depth": _in_head(lambda: b"[" * 900 + b"]" * 900),
    "a list of lists of lists": _in_head(lambda: _list(b"[[[[]]]]", (COUNT // 2))),
    "no end": _in_head(lambda: b"[" * (8 * COUNT)),
    "samples": _many_samples,
    "runs": _many_runs,
    "slices": _timeline(n=10**9),
    "slices beyond counting": _timeline(n=10**30),
    "blanks": _in_head(lambda: b" " * (60 * COUNT) + b"0"),
}
PARTS = 10_000


def written(parts: Parts, path: Path) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, raw in parts.items():
            archive.writestr(name, raw)
    return path


def of_parts(parts: Parts, path: Path) -> Path:
    """A run with very many parts that no reader knows."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, raw in parts.items():
            archive.writestr(name, raw)
        for n in range(PARTS):
            archive.writestr(zipfile.ZipInfo(f"{n}"), b"")
    return path


def packed_by(method: int) -> Callable[[Parts, Path], Path]:
    def made(parts: Parts, path: Path) -> Path:
        with zipfile.ZipFile(path, "w", method) as archive:
            for name, raw in parts.items():
                archive.writestr(name, raw)
        return path

    return made


FILES: dict[str, Callable[[Parts, Path], Path]] = {
    "parts": of_parts,
    "bzip2": packed_by(zipfile.ZIP_BZIP2),
    "lzma": packed_by(zipfile.ZIP_LZMA),
}


def megabytes(kibibytes: int) -> float:
    return round(kibibytes * 1024 / 1e6, 1)


def _resident() -> int:
    """KiB of this process that are in memory."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * (resource.getpagesize() >> 10)


def tried(path: Path) -> dict[str, object]:
    """What became of reading ``path`` in a fork of this process, and the megabytes it took."""
    import maxlab
    from maxlab.errors import MaxlabError

    read, write = os.pipe()
    process = os.fork()
    if not process:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        before = _resident()
        try:
            run = maxlab.load_run(path)
            try:
                said = f"loaded {len(run.kernels)} kernels, {len(run.timeline)} slices"
            except MaxlabError as error:
                said = f"loaded, {error.code}"
        except MaxlabError as error:
            said = f"{type(error).__name__} {error.code}"
        except BaseException as error:
            said = f"bare {type(error).__name__}"
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        os.write(write, json.dumps({"said": said, "mb": megabytes(peak - before)}).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        raw = answer.read()
    os.waitpid(process, 0)
    found = json.loads(raw) if raw else {"said": "it did not live to tell", "mb": 0}
    return {**found, "file_mb": round(path.stat().st_size / 1e6, 3)}


def main(run: Path, folder: Path) -> None:
    import maxlab

    maxlab.load_run(run)  # what it imports is no part of what a file takes
    with zipfile.ZipFile(run) as archive:
        fine = {name: archive.read(name) for name in archive.namelist()}
    for name, change in BOMBS.items():
        path = written({**fine, **change(fine)}, folder / "bomb.mlprof")
        print(json.dumps({"name": name, **tried(path)}), flush=True)
    for name, write in FILES.items():
        print(json.dumps({"name": name, **tried(write(fine, folder / "bomb.mlprof"))}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
