"""A limit for the cache of compiled kernels: when it is passed, those used longest ago go.

A kernel's file can go at any time: what a process runs is a copy of its own, and a process that
finds a file gone compiles the kernel again. So nothing is locked. When a file was last used is its
time of modification, which a use sets anew once a day: file systems do not always keep the time of
the last reading.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from pathlib import Path

USED_S = 24 * 3600.0
"""How old the time of the last use may be before a use sets it anew."""
SWEPT_S = 3600.0
"""A cache that some process has looked through this long ago is not looked through again, unless
much was added."""
KEPT = 0.75
"""The part of the limit that is left, so that not every kernel that is added makes another go."""


def used(handle: int, info: os.stat_result) -> os.stat_result:
    """The system's facts of the open file ``handle`` after this use, whose ``info`` it was."""
    if abs(time.time() - info.st_mtime) < USED_S:
        return info
    with contextlib.suppress(OSError):  # of root, or on a disk that cannot be written
        os.utime(handle)
    return os.fstat(handle)


def is_due(folder: Path) -> bool:
    """Whether nobody has looked through the cache for a while; if so, this process will now."""
    mark = folder / "swept"
    try:
        if abs(time.time() - mark.stat(follow_symlinks=False).st_mtime) < SWEPT_S:
            return False
    except OSError:  # for the first time
        pass
    with contextlib.suppress(OSError):
        handle = os.open(mark, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
        try:
            os.utime(handle)
        finally:
            os.close(handle)
    return True


def forget(folder: Path) -> None:
    """Take away what says that the cache was looked through."""
    with contextlib.suppress(OSError):
        (folder / "swept").unlink()


def shrink(kernels: Path, most: int) -> int:
    """The bytes that were freed below ``kernels``, libraries and plans, which may hold ``most``.

    Links to one file are one library: they go together, with the sources that lie beside them.
    """
    libraries: dict[tuple[int, int], tuple[float, int, list[str]]] = {}
    beside: dict[str, list[str]] = {}
    for folder in _folders(kernels):
        for file in _files(folder):
            stem, dot, ending = file.path.rpartition(".")
            with contextlib.suppress(FileNotFoundError):  # removed by another process
                info = file.stat(follow_symlinks=False)
                if not dot or not stat.S_ISREG(info.st_mode):
                    continue
                if ending in ("so", "plan", "seen"):
                    key = info.st_dev, info.st_ino
                    row = libraries.setdefault(key, (info.st_mtime, info.st_size, []))
                    row[2].append(file.path)
                else:
                    beside.setdefault(stem, []).append(file.path)
    total = sum(size for _, size, _ in libraries.values())
    if total <= most:
        return 0
    freed = 0
    for _, size, paths in sorted(libraries.values(), key=lambda one: one[0]):
        if total - freed <= KEPT * most:
            break
        for path in paths:
            for one in (path, *beside.get(path.rpartition(".")[0], ())):
                with contextlib.suppress(OSError):
                    os.unlink(one)
        freed += size
    return freed


def _folders(kernels: Path) -> list[str]:
    """The folders in ``kernels``; links are none."""
    try:
        if kernels.is_symlink():
            return []
        with os.scandir(kernels) as found:
            return [entry.path for entry in found if entry.is_dir(follow_symlinks=False)]
    except OSError:  # not there, or removed by another process
        return []


def _files(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except OSError:
        return []


__all__ = ["forget", "is_due", "shrink", "used"]
