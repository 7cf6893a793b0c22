"""Files that maxlab keeps for itself in the folder of a session: no link leads out of it.

Files that a user names are opened by `maxlab.files`, which follows links. Here a link, a pipe or a
folder that lies under the name of such a file is refused: whoever put it there is not maxlab.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path


def opened(path: Path, flags: int = os.O_RDONLY) -> int:
    """A descriptor of the regular file ``path``, which belongs to this user; a new one is private.

    Args:
        path: The file; a link in its place is not followed.
        flags: Of ``os.open``.

    Raises:
        OSError: It is not there, or it is not such a file.
    """
    # O_NONBLOCK: a pipe in its place would make open() wait.
    safe = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
    handle = os.open(path, flags | safe, 0o600)
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid():
            raise PermissionError(f"{path} is not a file of maxlab")
    except BaseException:
        os.close(handle)
        raise
    return handle


def content(path: Path, most: int = 1 << 20, offset: int = 0) -> bytes:
    """``most`` bytes at most of the file ``path``, from ``offset`` on.

    Raises:
        OSError: It is not there, or it is not a file of maxlab.
    """
    with open(opened(path), "rb") as file:
        file.seek(offset)
        # read() makes room for all that it is asked for, before it looks how much there is.
        return file.read(min(most, max(os.fstat(file.fileno()).st_size - offset, 0)))


def created(path: Path) -> int:
    """A descriptor to write to a new file ``path``; whatever had the name before loses it.

    Raises:
        OSError: It cannot be made.
    """
    path.unlink(missing_ok=True)
    return opened(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)


def replace(path: Path, text: str) -> None:
    """Lets the file ``path`` hold ``text``; a reader sees the old content or all of the new.

    Raises:
        OSError: It cannot be written.
    """
    new = path.with_name(f"{path.name}.{secrets.token_hex(4)}.new")
    try:
        with open(opened(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "w", encoding="utf-8") as file:
            file.write(text)
        new.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            new.unlink()
        raise
