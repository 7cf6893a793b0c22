"""The C compiler of the package ``ziglang``, for machines that have no other.

``zig cc`` is clang with a linker and a C library of its own, in a wheel: ``pip install
'maxlab[zig]'``. Its program is called directly. What it builds for itself on the first use, its
runtime library and stubs of the C library, is kept beside our kernels; what it makes of one kernel
goes with the folder of that build.
"""

from __future__ import annotations

import importlib.util
import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from maxlab import progress, trace
from maxlab.errors import ToolchainError
from maxlab.toolchain.artefacts import cache

PACKAGE = "ziglang"
INSTALL = "pip install 'maxlab[zig]'"
PHASE = "preparing zig cc, once on this machine"
_FOLDER = "zig"
_TRIAL = "int trial(void) { return 0; }\n"
_lock = threading.Lock()
_ready: set[tuple[Path, str]] = set()
WARM_S = 900.0
"""Seconds that the first use may take: a minute and a half on a busy machine of two cores."""


def packaged() -> str | None:
    """The path of the program ``zig`` that the package ``ziglang`` of this Python has; None without
    the package.

    Raises:
        ToolchainError: ML508, the package is there and its program is not, or cannot be run.
    """
    try:
        spec = importlib.util.find_spec(PACKAGE)
    except (ImportError, ValueError):  # a module of this name without a file
        spec = None
    if spec is None or spec.submodule_search_locations is None:
        return None
    places = list(spec.submodule_search_locations)
    programs = [os.path.join(place, "zig") for place in places]
    for program in programs:
        if os.path.isfile(program) and os.access(program, os.X_OK):
            return os.path.abspath(program)
    if not any(os.path.exists(os.path.join(place, "__init__.py")) for place in places):
        return None  # a folder that happens to have the name
    raise ToolchainError(
        "ML508",
        f"the package {PACKAGE} has no program that can be run",
        why=[f"looked for {program}" for program in programs],
        fix=f"install it again: pip install --force-reinstall {PACKAGE}; or install gcc",
    )


def is_zig(command: Sequence[str]) -> bool:
    """Whether a compiler's ``command`` is the one of zig, from a package or not."""
    return os.path.basename(command[0]).startswith("zig") and "cc" in command[1:2]


def environment(cwd: Path | None) -> Mapping[str, str]:
    """The variables that tell zig where its caches are, those that the user has set left out.

    Args:
        cwd: The folder of a build, which goes with it; what zig makes of a text stays there.
    """
    places = {"ZIG_GLOBAL_CACHE_DIR": str(cache().folder(_FOLDER))}
    if cwd is not None:
        places["ZIG_LOCAL_CACHE_DIR"] = str(cwd / ".zig")
    return {name: place for name, place in places.items() if not os.environ.get(name)}


def warm(command: Sequence[str], version: str, arguments: Sequence[str], run: Any) -> None:
    """Let zig build what it needs itself, if it has not done so on this machine: some seconds to
    minutes, of which whoever watches the work at hand is told.

    Args:
        command: The compiler.
        version: Its version, for which the preparation counts.
        arguments: Compiler and linker arguments of a library.
        run: What runs a compiler, ``compiler.run``.

    Raises:
        ToolchainError: ML508, it cannot build a library.
    """
    known = cache().folder(_FOLDER), version
    if known in _ready:
        return
    with progress.working("prepare the C compiler") as work:
        while not _lock.acquire(timeout=0.1):  # another thread has begun
            work.step(PHASE)
        try:
            if known not in _ready:
                _warm(command, version, arguments, run, work)
                _ready.add(known)
        finally:
            _lock.release()


def _warm(
    command: Sequence[str], version: str, arguments: Sequence[str], run: Any, work: progress.Work
) -> None:
    mark = cache().folder(_FOLDER) / f"ready {version.replace('/', ' ')}"
    if mark.is_file():
        return
    work.step(PHASE)
    folder = cache().build_dir()
    try:
        with trace.span("compile", _FOLDER, kernels=[], why="first use of zig"):
            (folder / "trial.c").write_text(_TRIAL, encoding="utf-8")
            done = run(
                [*command, *arguments, "trial.c", "-o", "trial.so"], cwd=folder, timeout_s=WARM_S
            )
        if done.code or not (folder / "trial.so").is_file():
            raise ToolchainError(
                "ML508",
                f"zig cannot build a library: it ended with status {done.code}",
                why=done.output.strip().splitlines()[-5:],
                fix=f"install it again: pip install --force-reinstall {PACKAGE}; or install gcc",
            )
        mark.touch()
    finally:
        import shutil

        shutil.rmtree(folder, ignore_errors=True)


__all__ = ["INSTALL", "PACKAGE", "environment", "is_zig", "packaged", "warm"]
