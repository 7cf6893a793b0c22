"""The fake driver for tests: built, loaded in front of a process, and given kernels it can run.

A test writes a program as text and runs it by `run`: in a process of its own, because a process
has one libcuda, and PyCUDA finds the fake there under the driver's name. The kernels of the
program are compiled for the simulator and really run.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
FLAGS = ("-O1", "-std=c++17", "-shared", "-fPIC", "-Wall", "-Wextra", "-Wno-unused-parameter",
         "-fvisibility=hidden")  # fmt: skip


@functools.cache
def library_dir(source: str, name: str) -> Path:
    """The folder of a fake library, compiled once for all test runs of a user.

    Args:
        source: its folder beside this file.
        name: what the real one is called, such as ``"libcuda.so.1"``.
    """
    compiler = shutil.which("g++")
    assert compiler is not None, "the fake driver needs g++"
    files = sorted((HERE / source).iterdir())
    digest = hashlib.blake2b("\0".join((*FLAGS, name)).encode(), digest_size=8)
    for file in files:
        digest.update(file.read_bytes())
    units = [str(file) for file in files if file.suffix == ".cpp"]
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "maxlab-tests"
    folder = base / f"fake-{digest.hexdigest()}"
    if not (folder / name).exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            made = Path(scratch) / "made.so"
            command = [compiler, *FLAGS, f"-Wl,-soname,{name}", *units, "-o", str(made)]
            subprocess.run([*command, "-ldl", "-pthread"], check=True)
            os.replace(made, folder / name)
    return folder


def why_not() -> str | None:
    """Why programs cannot be run with PyCUDA here, None if they can."""
    if importlib.util.find_spec("pycuda") is None:
        return "PyCUDA is not installed; scripts/build_pycuda.py builds it"
    if shutil.which("g++") is None:
        return "the fake driver needs g++"
    return None


@dataclass(frozen=True)
class Result:
    """How a program ended.

    Attributes:
        code: its exit status.
        out: what it printed.
        err: what it printed on stderr.
        report: the fake driver's counters, and under ``left`` what was not given back.
    """

    code: int
    out: str
    err: str
    report: dict[str, Any]


def run(
    program: str,
    *,
    devices: int = 1,
    memory: int | None = None,
    peer: bool = True,
    fake: bool = True,
    blas: bool = False,
    path: Sequence[Path] = (),
    timeout_s: float = 120,
) -> Result:
    """Run a Python program in a process that has the fake driver.

    Args:
        program: its text; `install` has been called before it.
        devices: how many GPUs there are.
        memory: bytes of each.
        peer: whether they can read each other's memory.
        fake: False for a process without any driver.
        blas: whether it has the fake cuBLASLt as well.
        path: folders that are searched for modules first.
        timeout_s: after so long the test fails.
    """
    with tempfile.TemporaryDirectory(prefix="maxlab-fake-") as folder:
        report = Path(folder) / "report.json"
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, path), *_python_path()])}
        env["FAKECUDA_DEVICES"] = str(devices)
        env["FAKECUDA_REPORT"] = str(report)
        env["FAKECUDA_PEER"] = str(int(peer))
        if memory is not None:
            env["FAKECUDA_MEMORY"] = str(memory)
        before = ""
        if fake:
            folders = [str(library_dir("libcuda", "libcuda.so.1"))]
            if blas:
                folders.append(str(library_dir("libcublaslt", "libcublasLt.so.13")))
            folders.append(os.environ.get("LD_LIBRARY_PATH", ""))
            env["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, folders))
            before = "from tests.driver_cuda.fake import harness\nharness.install()\n"
        file = Path(folder) / "program.py"
        file.write_text(before + program, encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-W", "error", str(file)],
            env=env, cwd=ROOT, capture_output=True, text=True, timeout=timeout_s, check=False,
        )  # fmt: skip
        counted = json.loads(report.read_text("utf-8")) if report.exists() else {}
    return Result(done.returncode, done.stdout, done.stderr, counted)


def _python_path() -> list[str]:
    given = os.environ.get("PYTHONPATH", "")
    return [str(ROOT), *(part for part in given.split(os.pathsep) if part)]


# ---------------------------------------------------------------- inside of the program


def install() -> None:
    """Let the backend load kernels for the fake driver: compiled by g++, run by the simulator."""
    from maxlab.driver.cuda import modules

    vars(modules)["compile_cuda"] = compile_for_fake


def compile_for_fake(sources: Sequence[Any], arch: str, *, flags: Any = None) -> list[Any]:
    """What `maxlab.toolchain.cuda.compile_cuda` returns, with images for the fake driver."""
    from maxlab.toolchain.cuda import CudaUnit, ResourceUsage
    from maxlab.toolchain.simkernels import SimSource, compile_sim_kernels

    accuracy: Any = "default" if flags is None else flags.accuracy
    wanted = [SimSource(s.name, s.text, tuple(s.headers), accuracy) for s in sources]
    units = []
    for kernel in compile_sim_kernels(wanted):
        image = f"FAKECUDA\n{kernel.runtime.path}\n{kernel.path}\n".encode()
        usage = ResourceUsage(registers=24, shared_bytes=16, spill_store_bytes=4)
        units.append(
            CudaUnit(
                kernel.source.name, arch, kernel.path, image, usage,
                kernel.hit, kernel.why_miss, kernel.ms,
            )
        )  # fmt: skip
    return units


def counted(what: str) -> int:
    """How often the fake driver did something so far."""
    import ctypes

    library = ctypes.CDLL("libcuda.so.1")
    library.fakecuda_count.restype = ctypes.c_longlong
    return int(library.fakecuda_count(what.encode()))
