"""Opening compiled libraries and finding the addresses of their symbols.

Libraries stay open until the process ends: a kernel may be running in another thread,
and closing would save nothing the page cache does not share anyway.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any

from maxlab.errors import ToolchainError
from maxlab.toolchain._abi import ffi

_handles: dict[str, Any] = {}


@functools.cache
def libc() -> Any:
    """The C library of this process, by the declarations of `abi`."""
    library = ffi.dlopen(None)
    # cffi looks functions up on first use, which would overwrite the message of dlerror.
    _ = library.dlsym, library.dlerror
    # Kernels call exp and pow without naming libm, which saves the linker a search.
    library.dlopen(b"libm.so.6", os.RTLD_NOW | os.RTLD_GLOBAL)
    return library


def open_library(path: Path) -> Any:
    """The handle of the library at ``path``, opened once a process.

    Raises:
        ToolchainError: ML503, the loader refuses it; names the missing symbol if that is why.
    """
    name = str(path)
    handle = _handles.get(name)
    if handle is None:
        c = libc()
        handle = c.dlopen(os.fsencode(name), os.RTLD_NOW | os.RTLD_LOCAL)
        if handle == ffi.NULL:
            raise ToolchainError(
                "ML503",
                f"the compiled library cannot be opened: {_last_error(c)}",
                fix="if the file system is mounted noexec, set MAXLAB_CACHE_DIR to one that is "
                "not; if a symbol is undefined, the kernel calls a function nobody defines",
            )
        _handles[name] = handle
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


def _last_error(c: Any) -> str:
    message = c.dlerror()
    return "" if message == ffi.NULL else ffi.string(message).decode("utf-8", "replace")
