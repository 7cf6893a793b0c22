"""NVIDIA's programs and libraries on this machine: where they are, and how they are opened.

They come as a toolkit (``CUDA_HOME``, ``/usr/local/cuda``, beside the nvcc on the PATH), as wheels
(``nvidia/cu13`` and others in site-packages) or from the system's loader. All three places are
searched in this order; none of them is ever a Python import.
"""

from __future__ import annotations

import os
import shutil
import site
import sys
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from maxlab.toolchain.cffi_abi import ffi
from maxlab.toolchain.loader import libc


def toolkit_roots() -> list[Path]:
    """The folders of CUDA toolkits, the one to prefer first; each has a ``bin``, ``lib`` or
    ``include``.
    """
    places = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH")]
    roots = [Path(place) for place in places if place]
    nvcc = shutil.which("nvcc")
    if nvcc is not None:
        # A launcher script in /usr/local/bin stands beside no headers; the test below drops it.
        roots += [Path(nvcc).parent.parent, Path(nvcc).resolve().parent.parent]
    roots.append(Path("/usr/local/cuda"))
    marks = ("include/cuda.h", "lib64/libnvrtc.so", "lib/libnvrtc.so")
    return [root for root in dict.fromkeys(roots) if any((root / mark).exists() for mark in marks)]


def wheel_roots() -> list[Path]:
    """The folders that NVIDIA's wheels install into, such as ``site-packages/nvidia/cu13``."""
    entries = [entry for entry in sys.path if entry]
    folders = [Path(entry) / "nvidia" for entry in (*entries, *_site_packages(), *_user_site())]
    found: list[Path] = []
    for folder in dict.fromkeys(folders):
        if folder.is_dir():
            found += sorted((part for part in folder.iterdir() if part.is_dir()), reverse=True)
    return found


def include_dirs() -> list[Path]:
    """The folders that CUDA's headers are in, such as that of ``cuda_bf16.h``."""
    found = [root / "include" for root in (*toolkit_roots(), *wheel_roots())]
    return [folder for folder in dict.fromkeys(found) if (folder / "cuda_fp16.h").is_file()]


def find_program(name: str) -> Path | None:
    """A program of a toolkit or of a wheel: ``nvcc``, ``cuobjdump``, ``nvdisasm``."""
    homes = [Path(value) for key in ("CUDA_HOME", "CUDA_PATH") if (value := os.environ.get(key))]
    for root in homes:
        if os.access(root / "bin" / name, os.X_OK):
            return root / "bin" / name
    on_path = shutil.which(name)
    if on_path is not None:
        return Path(on_path)
    for root in (*toolkit_roots(), *wheel_roots()):
        if os.access(root / "bin" / name, os.X_OK):
            return root / "bin" / name
    return None


def library_paths(stem: str, majors: Iterable[int]) -> list[str]:
    """Paths to open for a library, best first: ``lib<stem>.so.<major>`` of each place, then its
    bare name, which the system's loader looks up.
    """
    names = [f"lib{stem}.so.{major}" for major in majors]
    folders = [
        root / sub for root in (*toolkit_roots(), *wheel_roots()) for sub in ("lib64", "lib")
    ]
    searched = [Path(entry) for entry in os.environ.get("LD_LIBRARY_PATH", "").split(":") if entry]
    found = [
        str(folder / name)
        for name in names
        for folder in dict.fromkeys((*searched, *folders))
        if (folder / name).is_file()
    ]
    return [*found, *names]


class NvLibrary:
    """An opened library with the functions of a table.

    Args:
        handle: what ``dlopen`` gave.
        path: what it was opened by.
        functions: C types of function pointers, by name.

    Raises:
        OSError: it lacks one of the functions.
    """

    def __init__(self, handle: Any, path: str, functions: Mapping[str, str]) -> None:
        self.path = path
        self._handle = handle
        for name, c_type in functions.items():
            found = libc().dlsym(handle, name.encode())
            if found == ffi.NULL:
                raise OSError(f"{path} has no function {name}")
            setattr(self, name, ffi.cast(c_type, found))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{name} is not in the table of {self.path}")


_lock = threading.Lock()


def open_beside(library: str, pattern: str) -> None:
    """Open the libraries of ``library``'s folder that ``pattern`` names, for it to find by name.

    NVRTC opens its built-in headers by their bare name when it first compiles, and the loader does
    not look beside NVRTC for them; a library of that name which is already open serves.
    """
    folder = Path(library).parent
    if not Path(library).is_absolute():
        return  # found by the loader, which finds the others too
    for found in sorted(folder.glob(pattern)):
        with _lock:
            if libc().dlopen(os.fsencode(found), os.RTLD_NOW | os.RTLD_LOCAL) == ffi.NULL:
                libc().dlerror()


def open_library(candidates: Iterable[str], functions: Mapping[str, str]) -> NvLibrary | None:
    """The first of ``candidates`` that can be opened and has all ``functions``, or None."""
    c = libc()
    for candidate in candidates:
        with _lock:  # dlerror's text belongs to the last call
            handle = c.dlopen(os.fsencode(candidate), os.RTLD_NOW | os.RTLD_LOCAL)
            if handle == ffi.NULL:
                c.dlerror()
                continue
        try:
            return NvLibrary(handle, candidate, functions)
        except OSError:
            continue
    return None


def _site_packages() -> list[str]:
    try:
        return site.getsitepackages()
    except AttributeError:  # an embedded interpreter
        return []


def _user_site() -> list[str]:
    return [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
