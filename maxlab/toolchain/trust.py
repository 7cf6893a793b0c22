"""Rules about who could put code into a folder, by which the cache of compiled kernels is kept.

Code is loaded from a folder, and built in it, where nobody else can put a file or change one:

* The cache, its folders and its files belong to this user or to root, and neither their group nor
  all users can write them. None of the folders inside is a link.
* The folders above it, through which its path leads, belong to this user or to root as well, for
  the owner of a folder can put another one in the place of the cache. They may be open to others
  where these can only add to them (the sticky bit, as ``/tmp`` has it), or to a group whose only
  member is this user. A link on the way belongs to this user or to root.

In a user namespace, as sandboxes and containers without root have, the folders above may belong to
a user whom the namespace has no number for: ``/`` and ``/home`` do there, being root's outside.
"""

from __future__ import annotations

import errno
import functools
import os
import stat

_KIND_AND_OTHERS = 0o170000 | stat.S_IWGRP | stat.S_IWOTH
_MOST_LINKS = 40  # as many as Linux follows


class DistrustedError(PermissionError):
    """Somebody else could put code into a folder."""

    def __init__(self, reason: str) -> None:
        super().__init__(errno.EPERM, reason)


def check_folder(path: str | os.PathLike[str], called: str | None = None) -> None:
    """Raises unless ``path`` is a folder of this user, or of root, that nobody else can write.

    Args:
        path: The folder itself; a link is none.
        called: What messages call it; its path by default.

    Raises:
        DistrustedError: It is not.
        OSError: It cannot be looked at: there is none, or the way to it is barred.
    """
    info = os.lstat(path)
    if info.st_mode & _KIND_AND_OTHERS != stat.S_IFDIR or info.st_uid not in (0, os.geteuid()):
        _check_private(info, called or os.fspath(path))


def is_private(info: os.stat_result) -> bool:
    """Whether ``info`` is of a file or folder of this user, or of root, that nobody else can write.

    Example:
        >>> import os
        >>> is_private(os.stat("/"))
        True
    """
    return info.st_uid in (0, os.geteuid()) and not info.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def check_way(root: str | os.PathLike[str]) -> None:
    """Raises unless ``root`` is a private folder, and nobody else can put another in its place.

    ``root`` may be a link to such a folder.

    Raises:
        DistrustedError: Somebody else can.
        OSError: It cannot be looked at; a `FileNotFoundError` where there is no such folder.
    """
    # The folders and names that lead to it, as the kernel goes them.
    here, info = "/", os.lstat("/")
    left = os.path.abspath(root).split("/")[::-1]
    links = 0
    while left:
        part = left.pop()
        if part in ("", "."):
            continue
        if part == "..":
            here = os.path.dirname(here)
            info = os.lstat(here)
            continue
        if not stat.S_ISDIR(info.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, f"{here} is not a directory")
        _check_above(info, here)
        there = os.path.join(here, part)
        found = os.lstat(there)
        if not stat.S_ISLNK(found.st_mode):
            here, info = there, found
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        if not _is_known(found.st_uid):
            raise DistrustedError(f"the link {there} belongs to another user")
        target = os.readlink(there)
        if target.startswith("/"):
            here, info = "/", os.lstat("/")
        left += target.split("/")[::-1]
    _check_private(info, "it")


def _check_private(info: os.stat_result, name: str) -> None:
    if stat.S_ISLNK(info.st_mode):
        raise DistrustedError(f"{name} is a link")
    if not stat.S_ISDIR(info.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    if info.st_uid not in (0, os.geteuid()):
        raise DistrustedError(f"{name} belongs to another user")
    if info.st_mode & stat.S_IWOTH:
        raise DistrustedError(f"every user can write {name}")
    if info.st_mode & stat.S_IWGRP:
        raise DistrustedError(f"its group can write {name}")


def _check_above(info: os.stat_result, name: str) -> None:
    """Raises if the owner, the group or others can move what is in the folder ``name``."""
    if not _is_known(info.st_uid):
        raise DistrustedError(f"{name}, above it, belongs to another user")
    if info.st_mode & stat.S_ISVTX:
        return
    if info.st_mode & stat.S_IWOTH:
        raise DistrustedError(f"every user can write {name}, above it")
    if info.st_mode & stat.S_IWGRP and not _is_own_group(info.st_gid):
        raise DistrustedError(f"its group can write {name}, above it")


def _is_known(user: int) -> bool:
    """Whether ``user`` is this one, root, or nobody of the user namespace."""
    return user in (0, os.geteuid()) or user == _nobody()


@functools.cache
def _nobody() -> int | None:
    """The number of users whom the user namespace has none for; None outside of a namespace."""
    try:
        with open("/proc/self/uid_map", encoding="ascii") as file:
            first, outside, count = (int(word) for word in file.readline().split())
        if (first, outside) == (0, 0) and count >= 2**32 - 1:
            return None
        with open("/proc/sys/kernel/overflowuid", encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):  # a system without namespaces
        return None


def _is_own_group(group: int) -> bool:
    """Whether this user alone is in ``group``, as many systems make a group for each user."""
    import grp
    import pwd

    try:
        me, found = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    return (me.pw_gid, me.pw_name) == (group, found.gr_name) and {me.pw_name} >= set(found.gr_mem)
