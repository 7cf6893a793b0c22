"""Everything that reads a file whose name the user gives, tried in a process with little memory:
``python -m tests.files.readers PLACE`` prints a JSON line for each."""

from __future__ import annotations

import json
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import maxlab
from maxlab import engine
from maxlab.__main__ import main
from maxlab.analysis import machine
from maxlab.analysis.check import Alone
from maxlab.driver import Tensor
from maxlab.dtype import DType
from maxlab.graph import Graph, KernelLibrary, Module

SECONDS = 30
MEMORY = 3 << 30


def _machine(path: str) -> Any:
    """Ceilings are read from the cache of kernels; a file that has none costs measuring again."""
    assert machine._read(Path(path)) is None
    raise FileNotFoundError("as expected")


READERS: dict[str, Callable[[str], Any]] = {
    "open": maxlab.open,
    "load_run": maxlab.load_run,
    "diff": lambda path: maxlab.diff(path, path),
    "python -m maxlab diff": lambda path: sys.exit(main(["diff", path, path])),
    "python -m maxlab show": lambda path: sys.exit(main(["show", path])),
    "Graph": lambda path: Graph(path=path),
    "Module": Module,
    "session.load": lambda path: engine.InferenceSession(num_threads=1).load(path),
    "add_subgraph": lambda path: Graph("g").add_subgraph("s", path=Path(path)),
    "KernelLibrary": lambda path: KernelLibrary(None, [path]),
    "KernelLibrary of an archive": lambda path: KernelLibrary(None, [path + ".mxpkg"]),
    "custom_extensions": lambda path: Graph("g", custom_extensions=[path]),
    "Alone.load": lambda path: Alone.load(path, ""),
    "machine": _machine,
    "mmap": lambda path: Tensor.mmap(path, DType.uint8, [100], "r"),
    "mmap nothing": lambda path: Tensor.mmap(path, DType.uint8, [0], "r"),
    "mmap to write": lambda path: Tensor.mmap(path, DType.uint8, [100], "r+"),
    "mmap anew": lambda path: Tensor.mmap(path, DType.uint8, [100], "w+"),
}


class TookTooLong(BaseException):
    """It waits for what never comes."""


def _stop(*_: object) -> None:
    raise TookTooLong


def tried(read: Callable[[str], Any], path: str) -> dict[str, str]:
    """What became of ``read(path)``: the class of its error, its bases, and its words."""
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        read(path)
    except BaseException as error:
        signal.setitimer(signal.ITIMER_REAL, 0)
        bases = " ".join(base.__name__ for base in type(error).__mro__)
        return {"error": type(error).__name__, "bases": bases, "text": ascii(str(error))}
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return {"error": "", "bases": "", "text": ""}


if __name__ == "__main__":
    engine.InferenceSession(num_threads=1)
    signal.signal(signal.SIGALRM, _stop)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for name, read in READERS.items():
        print(json.dumps({"name": name, **tried(read, json.loads(sys.argv[1]))}), flush=True)
