"""Folders to build in, made and removed without ``tempfile`` and ``shutil``: importing these takes
longer than what a first compilation does with them."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_TRIES = 100


def fresh_folder(parent: Path, prefix: str) -> Path:
    """A new folder in ``parent``, for this user alone.

    Args:
        parent: A folder that is there.
        prefix: What the name begins with.

    Raises:
        OSError: It cannot be made.
    """
    for left in reversed(range(_TRIES)):
        path = parent / f"{prefix}{os.urandom(8).hex()}"
        try:
            path.mkdir(0o700)
        except FileExistsError:
            if not left:
                raise
        else:
            return path
    raise AssertionError("the last try returns or raises")


def remove_folder(folder: Path) -> None:
    """Remove ``folder``, which only this user can change, and what is in it; links are removed, not
    followed, and what cannot be removed stays."""
    with contextlib.suppress(OSError):
        with os.scandir(folder) as entries:
            found = [(Path(entry.path), entry.is_dir(follow_symlinks=False)) for entry in entries]
        for path, is_folder in found:
            if is_folder:
                remove_folder(path)
            else:
                with contextlib.suppress(OSError):
                    path.unlink()
        folder.rmdir()


__all__ = ["fresh_folder", "remove_folder"]
