"""Folders among the temporary files that one process has for itself, and that go when it ends.

A process that is killed cannot remove its own. So each has a file that its process holds a lock on
for as long as it lives, the processes that it forked included: the next process that makes a folder
removes those whose lock nobody holds any more.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
from pathlib import Path

from maxlab.toolchain.trust import check_folder, check_way

_OWNER = "owner"
_PREFIX = "maxlab-"
# With the process that made them: a fork has its parent's in its memory.
_own: set[tuple[int, Path]] = set()


def private_folder(prefix: str) -> Path:
    """A new folder for this process alone, among the temporary files; it goes when that ends.

    Args:
        prefix: What its name begins with: ``maxlab-`` and more.

    Raises:
        OSError: there is no place for it, or others could put another folder in its place.
    """
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix=prefix)).absolute()
    mine = os.getpid(), folder
    _own.add(mine)
    try:
        check_way(folder)
    except OSError:
        import shutil

        _own.discard(mine)
        shutil.rmtree(folder, ignore_errors=True)
        raise
    _hold(folder)
    _remove_left(folder.parent)
    return folder


def _hold(folder: Path) -> None:
    """Lock a file in ``folder`` until this process ends, where files have locks."""
    new = folder / f"{_OWNER}.new"
    with contextlib.suppress(OSError):
        handle = os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # It gets its name when it is locked: before, the folder would look left behind.
            os.replace(new, folder / _OWNER)
        except OSError:
            os.close(handle)
            raise


def _remove_left(place: Path) -> None:
    """Remove the folders in ``place`` whose processes are gone."""
    import shutil

    try:
        with os.scandir(place) as entries:
            found = [entry.path for entry in entries if entry.name.startswith(_PREFIX)]
    except OSError:
        return
    for path in found:
        # Not there any more, of another user, or of a process that lives.
        with contextlib.suppress(OSError):
            check_folder(path)
            handle = os.open(os.path.join(path, _OWNER), os.O_RDONLY | os.O_NOFOLLOW)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(handle)


@atexit.register
def _leave() -> None:
    for owner, folder in _own:
        if owner == os.getpid():
            import shutil

            shutil.rmtree(folder, ignore_errors=True)


__all__ = ["private_folder"]
