"""Which file of the machine a path of the Jupyter server means, and what that file is now."""

from __future__ import annotations

import os
import stat
from typing import Any

from jupyter_core.paths import is_hidden

from maxlab import files
from maxlab.errors import FileError, MissingFileError


def stamp_of(found: os.stat_result) -> str:
    """A text that is another when the file is another, or was written to."""
    return f"{found.st_dev:x}-{found.st_ino:x}-{found.st_size:x}-{found.st_mtime_ns:x}"


def place_of(path: str, root: str, allow_hidden: bool = False) -> str:
    """The file of the machine that ``path`` means, its links followed.

    Args:
        path: As the file browser has it, relative to ``root``.
        root: The folder that the Jupyter server shows. What a link in it leads to has to lie in it
            too.
        allow_hidden: Whether the server shows files that begin with a dot, or lie in such a folder.

    Raises:
        FileError: ML890, there is no such file that the server shows. The message is the same
            whether there is one outside of the folder or not.
    """
    base = os.path.realpath(root)
    try:
        parts = [part for part in path.split("/") if part]
        named = os.path.normpath(os.path.join(base, *parts))
        place = os.path.realpath(named)
        inside = all(os.path.commonpath([one, base]) == base for one in (named, place))
        hidden = inside and any(is_hidden(one, base) for one in (named, place))
        shown = inside and (allow_hidden or not hidden) and stat.S_ISREG(os.stat(place).st_mode)
    except (OSError, ValueError):  # it is missing, or its name has a NUL or half of a pair
        shown = False
    if not shown:
        raise MissingFileError(
            "ML890",
            f"the Jupyter server shows no file {path!r}",
            fix="open a file below the folder that the server was started in; links out of it "
            "are not followed, and hidden files are shown where the server's settings say so",
        )
    return place


def place_in(contents: Any, path: str) -> str:
    """The file that ``path`` means to the server's manager of contents; see ``place_of``.

    Raises:
        FileError: ML890, as ``place_of``, and where the manager keeps its contents elsewhere than
            in files of this machine.
    """
    root = getattr(contents, "root_dir", None)
    if not isinstance(root, str):
        raise FileError(
            "ML890",
            f"the Jupyter server keeps {path!r} elsewhere than in files of its machine",
            fix="copy the file to a folder of the machine, and start a server there",
        )
    return place_of(path, root, bool(getattr(contents, "allow_hidden", False)))


def require_same(path: str, place: str, stamp: str) -> str:
    """The stamp that the file at ``place`` has now.

    Args:
        path: What the user calls the file.
        place: The file.
        stamp: The one that it had when it was opened; empty when it was not.

    Raises:
        FileError: ML891, it has another one, or is no longer there.
    """
    try:
        now = stamp_of(os.stat(place))
    except OSError as error:
        if stamp:
            raise gone(path) from error
        raise files.unreadable(place, "the file", error) from error
    if stamp and now != stamp:
        raise FileError(
            "ML891",
            f"{path} has changed since it was opened",
            fix="open it again to see what is new",
        )
    return now


def gone(path: str) -> MissingFileError:
    """The error of a file that was there when it was opened."""
    return MissingFileError(
        "ML891", f"{path} is no longer there", fix="what was read of it stays until it is closed"
    )
