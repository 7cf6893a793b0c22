"""Opening compiled libraries and finding the addresses of their symbols.

A library is opened from a private copy of the bytes that were verified: a file in memory, which
nobody can write once it is sealed. Truncating, replacing or rewriting the file in the cache reaches
no code that runs, and a cache may lie where nothing can be executed. Libraries stay open until the
process ends: a kernel may be running in another thread.

Profilers see the kernel's name in the map of memory (``/memfd:k_softmax``). Debuggers and
sanitizers want symbols too, and look for them in a file: with ``MAXLAB_KEEP_SOURCE=1`` the copies
are files in a private folder, which goes when the process ends. So they are where the system has
no files in memory.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import itertools
import os
import threading
from pathlib import Path
from typing import Any

from maxlab.config import config
from maxlab.errors import ToolchainError
from maxlab.toolchain.artefacts import Artefact
from maxlab.toolchain.cffi_abi import ffi
from maxlab.toolchain.private import private_folder

_DESCRIPTORS = "/proc/self/fd/"
_MOST_NAME = 200
# Linux 6.3: never a program of its own. Mapping its code, as the loader does, needs no such right.
_NOEXEC_SEAL = 0x8

_handles: dict[bytes, Any] = {}
_lock = threading.Lock()
_numbers = itertools.count(1)


@functools.cache
def libc() -> Any:
    """The C library of this process, by the declarations of `abi`."""
    library = ffi.dlopen(None)
    # cffi looks functions up on first use, which would overwrite the message of dlerror.
    _ = library.dlsym, library.dlerror
    # Kernels call exp and pow without naming libm, which saves the linker a search.
    library.dlopen(b"libm.so.6", os.RTLD_NOW | os.RTLD_GLOBAL)
    return library


def open_library(artefact: Artefact, name: str) -> Any:
    """The handle of the library whose content was verified, opened once a process.

    Args:
        artefact: as `maxlab.toolchain.artefacts.Cache` gives it.
        name: what debuggers and profilers see it called.

    Raises:
        ToolchainError: ML503, the loader refuses it; names the missing symbol if that is why.
    """
    content = artefact.content
    handle = _handles.get(content.digest)
    if handle is None:
        with _lock:
            handle = _handles.get(content.digest)
            if handle is None:
                handle = _opened(content.data, name[:_MOST_NAME], artefact.path)
                _handles[content.digest] = handle
                content.data = b""
    return handle


def symbol_address(handle: Any, symbol: str, path: Path) -> int:
    """The address of ``symbol`` in an open library.

    Raises:
        ToolchainError: ML503, the library has no such symbol.
    """
    c = libc()
    found = c.dlsym(handle, symbol.encode())
    if found == ffi.NULL:
        raise ToolchainError(
            "ML503",
            f"{path.name} has no symbol {symbol}",
            fix=f"name the kernel's C function {symbol}, and do not declare it static",
        )
    return int(ffi.cast("uintptr_t", found))


def _opened(data: bytes, name: str, path: Path) -> Any:
    if not config().keep_source:
        with contextlib.suppress(OSError):
            handle = _from_memory(data, name)
            if handle != ffi.NULL:
                return handle
    try:
        copy, handle = _from_folder(data, name)
    except OSError as error:
        raise ToolchainError(
            "ML503",
            f"the compiled library cannot be copied to where it is opened: {error.strerror}",
            fix="free some space, or set TMPDIR to a directory that only you can write",
        ) from error
    if handle == ffi.NULL:
        raise ToolchainError(
            "ML503",
            "the compiled library cannot be opened: "
            + _last_error(libc()).replace(str(copy), str(path)),
            fix="if a symbol is undefined, the kernel calls a function nobody defines; if the "
            "temporary files are on a file system that is mounted noexec, set TMPDIR to a "
            "directory on another one",
        )
    return handle


def _from_memory(data: bytes, name: str) -> Any:
    """The handle of a copy in memory, NULL if the loader refuses it.

    Raises:
        OSError: the system has no files in memory, or no room for this one.
    """
    descriptor = _memory_file(name)
    try:
        _write(descriptor, data)
        seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
        path = _DESCRIPTORS + _spelled(next(_numbers)) + str(descriptor)
        return libc().dlopen(path.encode(), os.RTLD_NOW | os.RTLD_LOCAL)
    finally:
        os.close(descriptor)


def _memory_file(name: str) -> int:
    if not hasattr(os, "memfd_create"):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        return os.memfd_create(name, flags | _NOEXEC_SEAL)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return os.memfd_create(name, flags)


def _spelled(number: int) -> str:
    """A detour of slashes and dots that leads nowhere, another one for each number.

    The loader takes a path that it has seen for the library it has opened from it, and numbers of
    descriptors are used again; so each path has to be new.

    Example:
        >>> _spelled(5)
        './/./'
    """
    return f"{number:b}".replace("0", "/").replace("1", "./")


def _from_folder(data: bytes, name: str) -> tuple[Path, Any]:
    """A copy in this process's own folder, and its handle, NULL if the loader refuses it.

    Raises:
        OSError: it cannot be written.
    """
    copy = _folder(os.getpid()) / f"{name}-{next(_numbers)}.so"
    descriptor = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        _write(descriptor, data)
    finally:
        os.close(descriptor)
    return copy, libc().dlopen(os.fsencode(copy), os.RTLD_NOW | os.RTLD_LOCAL)


@functools.lru_cache(maxsize=1)
def _folder(process: int) -> Path:
    """Where ``process`` keeps copies that have to be files; a fork has a folder of its own."""
    return private_folder("maxlab-code-")


def _write(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _last_error(c: Any) -> str:
    message = c.dlerror()
    return "" if message == ffi.NULL else ffi.string(message).decode("utf-8", "replace")
