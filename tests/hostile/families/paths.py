"""Paths: every function that reads or writes a file, given everything that a path may lead to."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import maxlab
from maxlab import engine
from maxlab.diagnostics import Recording
from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, KernelLibrary, Module, TensorType
from maxlab.graph.weights import load_weights
from tests.analysis.runs.made import layered, profiled
from tests.hostile.families.recordings import RECORDS, _lines
from tests.hostile.harness import Case, Family, WrongResultError

CONTENT = b"what the user wrote\n"

_made: dict[str, Any] = {}


def _ready() -> None:
    _made["profile"] = profiled(layered())
    _made["timeline"] = _made["profile"].timeline
    _made["graph"] = Graph(
        "saved", lambda x: x + 1, [TensorType(DType.float32, ["n"], DeviceRef.CPU())]
    )


def _recording(folder: Path) -> Recording:
    file = folder / "whole.mlrec"
    file.write_bytes(_lines(RECORDS))
    return Recording.load(file)


READERS: dict[str, Callable[[Path], object]] = {
    "load_run": maxlab.load_run,
    "Recording.load": Recording.load,
    "Graph(path=)": lambda path: Graph("read", path=path),
    "Module": Module,
    "session.load": lambda path: engine.InferenceSession(num_threads=1).load(path),
    "load_weights": lambda path: load_weights([path]),
    "load_weights of .gguf": lambda path: load_weights([path.with_suffix(".gguf")]),
    "KernelLibrary": lambda path: KernelLibrary(paths=[path]),
    "dashboard(replay=)": lambda path: maxlab.dashboard(replay=path),
}
WRITERS: dict[str, Callable[[Path, Path], object]] = {
    "Graph.save": lambda path, folder: _made["graph"].save(path),
    "Graph.to_html": lambda path, folder: _made["graph"].to_html(path),
    "Profile.save": lambda path, folder: _made["profile"].save(path),
    "to_chrome": lambda path, folder: _made["timeline"].to_chrome(path),
    "to_csv": lambda path, folder: _recording(folder).to_csv(path),
}


def _socket(path: Path) -> None:
    os.chdir(path.parent)  # the whole path may be longer than an address of a socket
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


def _dangling(path: Path) -> None:
    path.symlink_to(path.parent / "nowhere" / "file")


def _linked(target: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(target)


def _linked_folder(path: Path) -> None:
    path.with_name("folder").mkdir(exist_ok=True)
    path.symlink_to("folder")


def _linked_file(path: Path) -> None:
    path.with_name("target").write_bytes(CONTENT)
    path.symlink_to("target")


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def _locked(path: Path) -> None:
    path.write_bytes(CONTENT)
    path.chmod(0)


def _device(path: Path) -> None:
    try:
        os.mknod(path, 0o600 | 0o020000, os.makedev(1, 5))
    except PermissionError:  # not root: a link to it does
        path.symlink_to("/dev/zero")


KINDS: dict[str, Callable[[Path], object]] = {
    "nothing": lambda path: None,
    "a folder": Path.mkdir,
    "a pipe": os.mkfifo,
    "a socket": _socket,
    "a device": _device,
    "a loop of links": _loop,
    "a link to nothing": _dangling,
    "a link to /dev/zero": _linked("/dev/zero"),
    "a link to /dev/full": _linked("/dev/full"),
    "a link to /proc/self/mem": _linked("/proc/self/mem"),
    "a link to a folder": _linked_folder,
    "a link to a file": _linked_file,
    "a sparse file": _sparse,
    "a file without permissions": _locked,
    "a file": lambda path: path.write_bytes(CONTENT),
    "an empty file": lambda path: path.touch(),
}
NAMES = (
    "a", "a.mlprof", "a.mlir", "a.gguf", "a.pt", "a.safetensors", "a.c", "a.mlpkg", "a.html.gz",
    "a b", "a\nb", "é", "\udcff", "x" * 255, "-rf", "*", "a\0b", "x" * 300, "d/e/f", ".", "..",
)  # fmt: skip


def _case(what: str, kind: str, name: str) -> Case:
    def run(folder: Path) -> None:
        place = folder / "place"
        place.mkdir()
        path = place / name
        try:
            KINDS[kind](path)
        except (OSError, ValueError):  # no such file can be: the function finds nothing there
            kept = None
        else:
            kept = _kept(path)
        try:
            if what in READERS:
                READERS[what](path)
            else:
                WRITERS[what](path, folder)
        finally:
            _check(what, kind, path, kept)

    return Case(f"{what} of {kind} at {name!r:.40}", run)


def _kept(path: Path) -> int | None:
    try:
        return os.lstat(path).st_mode
    except (OSError, ValueError):
        return None


def _check(what: str, kind: str, path: Path, kept: int | None) -> None:
    """Nothing that stood at ``path`` became another kind of thing, and no waste is left."""
    now = _kept(path)
    if kept is not None and (now is None or (now ^ kept) & 0o170000):
        raise WrongResultError(f"{kind} became something else: {kept:o} before, {now} after")
    was_there = kept is not None and kind in ("a file", "a link to a file")
    if what in READERS and was_there and path.read_bytes() != CONTENT:
        raise WrongResultError("reading changed the file")
    place = next(folder for folder in path.parents if folder.is_dir())
    waste = [p.name for p in place.iterdir() if p.name.startswith(".")]
    if waste:
        raise WrongResultError(f"{waste} is left in the folder")


def _draw(random: Random) -> Case:
    what = random.choice((*READERS, *WRITERS))
    return _case(what, random.choice(sorted(KINDS)), random.choice(NAMES))


SEEDS = [_case(what, kind, "a.bin") for what in (*READERS, *WRITERS) for kind in KINDS]

FAMILIES = (Family("paths", SEEDS, _draw, 3000, _ready, memory=256 << 20),)
