"""Small kernels, and Python processes that compile them: what several test files share."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from maxlab import trace
from maxlab.config import config, set_config
from maxlab.toolchain import KernelSource, LoadedKernel, forget
from maxlab.toolchain.cffi_abi import ffi

ROOT = Path(__file__).resolve().parents[2]
HANG_S = 60.0
TEXT = (
    "int {name}(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx)"
    " {{ for (i64 i = lo; i < hi; i++) ((i64 *)b[0])[i] = {value}; return 0; }}"
)
# The first lines of a script for `child`.
IMPORTS = (
    "import os, sys, threading, time\n"
    "from pathlib import Path\n"
    "from maxlab import trace\n"
    "from maxlab.toolchain import KernelSource, cache, compile_units, forget, runtime\n"
    "from tests.toolchain.small import call, kernel, warnings\n"
)


def kernel(value: int, name: str | None = None) -> KernelSource:
    """A kernel that stores ``value``."""
    name = name or f"k_small_{value}"
    return KernelSource(name, TEXT.format(name=name, value=value))


def call(loaded: LoadedKernel) -> int:
    """What a kernel of `kernel` stores."""
    out = ffi.new("i64[1]")
    pointers = ffi.new("void *[1]", [out])
    assert ffi.cast("mx_fn", loaded.address)(pointers, ffi.NULL, 0, 1, ffi.NULL) == 0
    return int(out[0])


def warnings() -> list[str]:
    """The messages of all warnings so far."""
    return [event.data["message"] for event in trace.recorder().events("warning")]


@contextmanager
def settings(**changes: Any) -> Iterator[None]:
    """Let ``changes`` be in force, with no kernel in memory."""
    old = set_config(dataclasses.replace(config(), **changes))
    forget()
    trace.recorder().clear()
    try:
        yield
    finally:
        set_config(old)
        forget()


def environment(**changes: str) -> dict[str, str]:
    """The environment of a child that can import maxlab and the tests."""
    paths = os.pathsep.join([str(ROOT), *(entry for entry in sys.path if entry)])
    return {**os.environ, "PYTHONPATH": paths, "MAXLAB_NUM_THREADS": "2", **changes}


def start(script: str, *arguments: str, **env: str) -> subprocess.Popen[str]:
    """A Python process that runs `IMPORTS` and then ``script``."""
    return subprocess.Popen(
        [sys.executable, "-c", IMPORTS + script, *arguments],
        env=environment(**env),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def child(script: str, *arguments: str, **env: str) -> str:
    """What a Python process prints that runs `IMPORTS` and then ``script``; it has to succeed."""
    process = start(script, *arguments, **env)
    try:
        out, err = process.communicate(timeout=HANG_S)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"the process hangs\n{out}\n{err[-2000:]}") from None
    assert process.returncode == 0, f"status {process.returncode}\n{out}\n{err[-2000:]}"
    return out


def only(root: Path) -> Path:
    """The only library that is kept below ``root``."""
    [found] = root.glob("kernels/*/*.so")
    return found
