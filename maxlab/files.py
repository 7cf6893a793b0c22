"""The one way in and out for files that a user names: no surprise is opened, nothing is lost.

Reading opens regular files only: a pipe would wait for somebody to write to it, a device may have
no end. Writing goes to a new file beside the target, which takes the target's name when it is
complete and on the disk; whatever goes wrong before that, the target keeps its old content.

Symbolic links are followed in both directions, so a link stays a link. What a program keeps for
itself, such as compiled kernels, has stricter rules of its own.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from maxlab.errors import FileError, MissingFileError

AnyPath = str | os.PathLike[str]

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


def kind_of(mode: int) -> str:
    """What ``st_mode`` says a path is, as words: ``"a folder"``, ``"a pipe"``, ``"a regular
    file"`` …"""
    return next((words for test, words in _KINDS if test(mode)), "a regular file")


def open_regular(path: AnyPath, what: str = "the file") -> BinaryIO:
    """The regular file at ``path``, opened to read bytes from its beginning.

    Args:
        path: The file; links are followed.
        what: What the file is to the user, for messages: ``"the saved run"``.

    Raises:
        FileError: ML001, it is no regular file; ML002, it cannot be opened.
        MissingFileError: ML002, there is no such file.

    Example:
        >>> open_regular("/dev/zero")
        Traceback (most recent call last):
        ...
        maxlab.errors.FileError: the file /dev/zero cannot be read: it is a device [ML001]
          fix: name a regular file
    """
    try:
        name = os.fspath(path)
        # Asked before it is opened, since opening a device may already do something; and asked of
        # what was opened, since the path may be another file by then.
        _require_regular(os.stat(name), name, what)
        # Without O_NONBLOCK, a pipe that took the name in between would make open() wait.
        handle = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        try:
            _require_regular(os.fstat(handle), name, what)
            os.set_blocking(handle, True)
            return os.fdopen(handle, "rb")
        except BaseException:
            os.close(handle)
            raise
    except FileError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise unreadable(path, what, error) from error


def read_bytes(path: AnyPath, what: str = "the file", most: int | None = None) -> bytes:
    """The content of the regular file at ``path``.

    Args:
        path: The file; links are followed.
        what: What the file is to the user, for messages.
        most: The number of bytes that it may have; None for any number.

    Raises:
        FileError: ML001, it is no regular file; ML002, it cannot be read; ML004, it has more bytes.
        MissingFileError: ML002, there is no such file.
    """
    with open_regular(path, what) as file:
        try:
            size = os.fstat(file.fileno()).st_size
            if most is not None:
                if size <= most:  # a file may grow while it is read
                    content = file.read(most + 1)
                    size = max(size, len(content))
                if size > most:
                    raise too_large(path, what, size, most)
                return content
            return file.read()
        except FileError:
            raise
        except (OSError, MemoryError) as error:
            raise unreadable(path, what, error) from error


def read_text(path: AnyPath, what: str = "the file", most: int | None = None) -> str:
    """The content of the regular UTF-8 file at ``path``; see `read_bytes`.

    Raises:
        FileError: As `read_bytes`, and ML002, it is not UTF-8.
        MissingFileError: ML002, there is no such file.
    """
    content = read_bytes(path, what, most)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FileError(
            "ML002",
            f"{what} {os.fspath(path)} cannot be read: it is not UTF-8 text, from byte "
            f"{error.start} on",
            fix="check that it is the file you mean",
        ) from error


@contextlib.contextmanager
def replacing(path: AnyPath, what: str = "the file") -> Iterator[BinaryIO]:
    """A new file to write bytes to, which takes the place of ``path`` when the block ends.

    When the block raises, or the content cannot be written, ``path`` is as it was before. A file
    that is replaced hands on its permissions; a new one gets those of the process's umask.

    Args:
        path: The file; where it is a link, the file that it leads to is replaced.
        what: What the file is to the user, for messages.

    Raises:
        FileError: ML001, ``path`` is there and is no regular file; ML003, it cannot be written.
    """
    target, old = _target(path, what)
    beside = os.path.join(os.path.dirname(target), f".maxlab-{secrets.token_hex(8)}.part")
    try:
        # O_EXCL: never somebody else's file, nor a link that was laid there.
        handle = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise _unwritable(path, what, error) from error
    try:
        with os.fdopen(handle, "w+b") as file:
            try:
                if old is not None:
                    with contextlib.suppress(OSError):  # only root may give files away
                        os.fchown(handle, old.st_uid, old.st_gid)
                    os.fchmod(handle, stat.S_IMODE(old.st_mode))
            except OSError as error:
                raise _unwritable(path, what, error) from error
            # The body's own errors are not about this file, unless writing to it failed.
            yield file
            _finish(file, path, what)
        try:
            os.replace(beside, target)
            _sync_folder(os.path.dirname(target))
        except OSError as error:
            raise _unwritable(path, what, error) from error
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        if isinstance(error, OSError) and error.errno in _WRITE_ERRORS:
            if not isinstance(error, FileError):
                raise _unwritable(path, what, error) from error
        raise


def write_bytes(path: AnyPath, content: bytes | memoryview, what: str = "the file") -> Path:
    """The path of the file that now holds ``content``, all of it; see `replacing`.

    Raises:
        FileError: ML001, ``path`` is there and is no regular file; ML003, it cannot be written; it
            is as it was before.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> target = Path(tempfile.mkdtemp()) / "notes.txt"
        >>> write_bytes(target, b"done").read_bytes()
        b'done'
    """
    with replacing(path, what) as file:
        file.write(content)
    return Path(path)


def write_text(path: AnyPath, text: str, what: str = "the file") -> Path:
    """The path of the UTF-8 file that now holds ``text``; see `write_bytes`.

    Raises:
        FileError: As `write_bytes`, and ML003, ``text`` has half of a surrogate pair.
    """
    try:
        content = text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise FileError(
            "ML003",
            f"{what} {_shown(path)} cannot be written: character {error.start} of its text is half "
            "of a surrogate pair, which UTF-8 has no bytes for",
            fix="take the character out of the name or text that has it",
        ) from error
    return write_bytes(path, content, what)


def too_large(path: AnyPath, what: str, size: int, most: int) -> FileError:
    """The error of a file of ``size`` bytes where at most ``most`` are read."""
    return FileError(
        "ML004",
        f"{what} {os.fspath(path)} is too large: {size} bytes, at most {most} are read",
        fix="check that it is the file you mean",
    )


def unreadable(path: AnyPath, what: str, error: Exception) -> FileError:
    """The typed error for ``error``, which opening or reading ``path`` raised."""
    kind = MissingFileError if isinstance(error, FileNotFoundError) else FileError
    return _from(kind, "ML002", f"{what} {_shown(path)} cannot be read", error, "check the path")


# What a disk says that is full, broken or gone, as opposed to what a writer's own work raises.
_WRITE_ERRORS = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.ESTALE, errno.ENODEV}
)


def _unwritable(path: AnyPath, what: str, error: Exception) -> FileError:
    fix = (
        "free some space, or write to another disk"
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT)
        else "name a file in a folder that exists and that you may write"
    )
    return _from(FileError, "ML003", f"{what} {_shown(path)} cannot be written", error, fix)


def _from(kind: type[FileError], code: str, words: str, error: Exception, fix: str) -> FileError:
    reason = str(getattr(error, "strerror", None) or str(error) or type(error).__name__)
    made = kind(code, f"{words}: {reason[:1].lower()}{reason[1:]}", fix=fix)
    made.errno = getattr(error, "errno", None)
    return made


def _shown(path: AnyPath) -> str:
    return os.fspath(path).replace("\0", "\\0")


def _require_regular(found: os.stat_result, name: str, what: str, verb: str = "read") -> None:
    if not stat.S_ISREG(found.st_mode):
        raise FileError(
            "ML001",
            f"{what} {name} cannot be {verb}: it is {kind_of(found.st_mode)}",
            fix="name a regular file",
        )


def _target(path: AnyPath, what: str) -> tuple[str, os.stat_result | None]:
    """The file that ``path`` leads to, and what is known of it; None while it is not there."""
    try:
        name = os.fspath(path)
        target = os.path.realpath(name)
        try:
            old = os.stat(target)
        except FileNotFoundError:
            if name.endswith(os.sep):  # realpath drops it
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR)) from None
            return target, None
    except (OSError, ValueError) as error:  # a loop of links, a folder that is none, a NUL
        raise _unwritable(path, what, error) from error
    _require_regular(old, name, what, "written")
    if not os.access(target, os.W_OK):  # a rename would pass over it
        denied = PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        raise _unwritable(path, what, denied)
    return target, old


def _finish(file: BinaryIO, path: AnyPath, what: str) -> None:
    """All that was written is on the disk."""
    try:
        file.flush()
        os.fsync(file.fileno())
    except OSError as error:
        raise _unwritable(path, what, error) from error


def _sync_folder(folder: str) -> None:
    """The new name is on the disk too, where the file system can say so."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
