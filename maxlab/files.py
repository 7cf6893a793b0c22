"""The one way in and out for files that a user names: no surprise is opened, nothing is lost.

Reading opens regular files only: a pipe would wait for somebody to write to it, a device may have
no end. Writing goes to a new file beside the target, which takes the target's name when it is
complete and on the disk; whatever goes wrong before that, the target keeps its old content. A
process that is killed leaves the new file behind, under a name that begins with ``.maxlab-``.

Symbolic links are followed in both directions, so a link stays a link. Of a file with several hard
links only the name that was given gets the new content. What a program keeps for itself, such as
compiled kernels, has stricter rules of its own.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Literal

from maxlab.errors import ArgumentTypeError, FileError, MissingFileError

AnyPath = str | os.PathLike[str]
Mode = Literal["rb", "r+b", "w+b"]
"""How a file is opened: to read it, to change it where it is, or to make or empty it."""

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)
_FLAGS = {"rb": os.O_RDONLY, "r+b": os.O_RDWR, "w+b": os.O_RDWR | os.O_CREAT}
_STEP = 1 << 20
"""Bytes that are read at once where a file is longer than it said."""


def kind_of(mode: int) -> str:
    """The kind of a path by its ``st_mode``, in words: ``"a folder"``, ``"a pipe"``, ``"a regular
    file"`` …
    """
    return next((words for test, words in _KINDS if test(mode)), "a regular file")


# ---------------------------------------------------------------- names


def as_path(path: AnyPath) -> Path:
    """``path`` as a ``pathlib.Path``.

    Raises:
        ArgumentTypeError: ML005, it is neither text nor a path.

    Example:
        >>> as_path(3)
        Traceback (most recent call last):
        ...
        maxlab.errors.ArgumentTypeError: a path is text or a pathlib.Path, got int [ML005]
          fix: pass the name of a file
    """
    return Path(_name(path))


def beside(path: AnyPath, suffix: str, what: str = "the file") -> Path:
    """The file of the same name with another suffix; never ``path`` itself.

    Args:
        path: The file.
        suffix: The other suffix, with its dot.
        what: What the file at ``path`` is to the user, for messages.

    Raises:
        FileError: ML003, ``path`` names a folder, which has no suffix.

    Example:
        >>> beside("alone.py", ".npz").name, beside("alone.npz", ".npz").name
        ('alone.npz', 'alone.npz.npz')
    """
    place = as_path(path)
    if place.name in ("", ".."):
        raise FileError(
            "ML003",
            f"{what} {_shown(path)} cannot be written: it names a folder",
            fix="name a file in a folder that exists and that you may write",
        )
    made = place.with_suffix(suffix)
    return made if made != place else place.with_name(place.name + suffix)


# ---------------------------------------------------------------- reading


def open_regular(path: AnyPath, what: str = "the file", mode: Mode = "rb") -> BinaryIO:
    """The regular file at ``path``, opened at its beginning.

    Args:
        path: The file; links are followed.
        what: What the file is to the user, for messages: ``"the saved run"``.
        mode: ``"rb"`` to read; ``"r+b"`` to change it where it is; ``"w+b"`` to make it, or to
            empty the one that is there. `replacing` is what loses nothing.

    Raises:
        FileError: ML001, it is no regular file; ML002, it cannot be opened to read; ML003, it
            cannot be opened to write.
        MissingFileError: ML002, there is no such file.
        ArgumentTypeError: ML005, ``path`` is no path.

    Example:
        >>> open_regular("/dev/zero")
        Traceback (most recent call last):
        ...
        maxlab.errors.FileError: the file /dev/zero cannot be read: it is a device [ML001]
          fix: name a regular file
    """
    name = _name(path)
    verb = "read" if mode == "rb" else "written"
    try:
        # Asked before it is opened, since opening a device may already do something; and asked of
        # what was opened, since the path may be another file by then.
        with contextlib.suppress(FileNotFoundError) if mode == "w+b" else contextlib.nullcontext():
            _require_regular(os.stat(name), name, what, verb)
        # Without O_NONBLOCK, a pipe that took the name in between would make open() wait.
        flags = _FLAGS[mode] | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
        handle = os.open(name, flags, 0o666)
        try:
            _require_regular(os.fstat(handle), name, what, verb)
            os.set_blocking(handle, True)
            if mode == "w+b":
                os.ftruncate(handle, 0)
            return os.fdopen(handle, "rb" if mode == "rb" else "r+b")
        except BaseException:
            os.close(handle)
            raise
    except FileError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a NUL, or half of a surrogate pair
        raise (unreadable if mode == "rb" else _unwritable)(path, what, error) from error


def read_bytes(path: AnyPath, what: str = "the file", most: int | None = None) -> bytes:
    """The content of the regular file at ``path``.

    Args:
        path: The file; links are followed.
        what: What the file is to the user, for messages.
        most: The number of bytes that it may have; None for any number.

    Raises:
        FileError: ML001, it is no regular file; ML002, it cannot be read; ML004, it has more bytes.
        MissingFileError: ML002, there is no such file.
        ArgumentTypeError: ML005, ``path`` is no path.
    """
    with open_regular(path, what) as file:
        try:
            size = os.fstat(file.fileno()).st_size
            if most is not None and size > most:
                raise too_large(path, what, size, most)
            content = file.read(size)
            # A file may grow while it is read, and files of /proc say that they have no bytes.
            while more := file.read(_STEP):
                if most is not None and len(content) + len(more) > most:
                    raise too_large(path, what, len(content) + len(more), most)
                content += more
            return content
        except FileError:
            raise
        except (OSError, MemoryError) as error:
            raise unreadable(path, what, error) from error


def read_text(path: AnyPath, what: str = "the file", most: int | None = None) -> str:
    """The content of the regular UTF-8 file at ``path``; see `read_bytes`.

    Raises:
        FileError: As `read_bytes`, and ML002, it is not UTF-8.
        MissingFileError: ML002, there is no such file.
        ArgumentTypeError: ML005, ``path`` is no path.
    """
    content = read_bytes(path, what, most)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FileError(
            "ML002",
            f"{what} {_shown(path)} cannot be read: it is not UTF-8 text, from byte "
            f"{error.start} on",
            fix="check that it is the file you mean",
        ) from error


# ---------------------------------------------------------------- writing


@contextlib.contextmanager
def replacing(path: AnyPath, what: str = "the file") -> Iterator[BinaryIO]:
    """A new file to write bytes to, which takes the place of ``path`` when the block ends.

    When the block raises, or the content cannot be written, ``path`` is as it was before. A file
    that is replaced hands on its permissions; a new one gets those of the process's umask. The
    block leaves the file open.

    Args:
        path: The file; where it is a link, the file that it leads to is replaced.
        what: What the file is to the user, for messages.

    Raises:
        FileError: ML001, ``path`` is there and is no regular file; ML003, it cannot be written.
        ArgumentTypeError: ML005, ``path`` is no path.
    """
    target, old = _target(path, what)
    folder = os.path.dirname(target)
    new = os.path.join(folder, f".maxlab-{os.urandom(8).hex()}.part")
    made = None
    try:
        try:
            # O_EXCL: never somebody else's file, nor a link that was laid there. Nobody else may
            # open what replaces a private file, not even while it is empty.
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            made = _New(os.open(new, flags, 0o666 if old is None else 0o600), path, what)
            if old is not None:
                _hand_on(old, made.fileno())
        except OSError as error:
            raise _unwritable(path, what, error) from error
        file = io.BufferedRandom(made)
        # The errors of the block are its own: only what `_New` raises is about this file.
        yield file
        file.flush()
        try:
            os.fsync(file.fileno())
            file.close()
            os.replace(new, target)
            _sync_folder(folder)
        except OSError as error:
            raise _unwritable(path, what, error) from error
    except BaseException:
        if made is not None:
            made.close()  # and not the buffer, which would first write what nobody wants any more
            with contextlib.suppress(OSError):
                os.unlink(new)
        raise


def write_bytes(path: AnyPath, content: bytes | memoryview, what: str = "the file") -> Path:
    """The path of the file that now holds ``content``, all of it; see `replacing`.

    Raises:
        FileError: ML001, ``path`` is there and is no regular file; ML003, it cannot be written; it
            is as it was before.
        ArgumentTypeError: ML005, ``path`` is no path.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> target = Path(tempfile.mkdtemp()) / "notes.txt"
        >>> write_bytes(target, b"done").read_bytes()
        b'done'
    """
    with replacing(path, what) as file:
        file.write(content)
    return as_path(path)


def write_text(path: AnyPath, text: str, what: str = "the file") -> Path:
    """The path of the UTF-8 file that now holds ``text``; see `write_bytes`.

    Raises:
        FileError: As `write_bytes`, and ML003, ``text`` has half of a surrogate pair.
        ArgumentTypeError: ML005, ``path`` is no path.
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


class _New(io.FileIO):
    """A new file, whose errors of writing name the file that it is to replace."""

    def __init__(self, handle: int, path: AnyPath, what: str) -> None:
        super().__init__(handle, "r+b")
        self._names = path, what

    def write(self, content: object) -> int:
        try:
            return super().write(content)  # type: ignore[arg-type]  # whatever BufferedRandom has
        except OSError as error:
            raise _unwritable(*self._names, error) from error


def _hand_on(old: os.stat_result, handle: int) -> None:
    """Give the open file the owner and the permissions of ``old``."""
    mode = stat.S_IMODE(old.st_mode)
    try:
        os.fchown(handle, old.st_uid, old.st_gid)
    except OSError:  # only root may give files away; then no program runs as another user
        mode &= 0o777
    os.fchmod(handle, mode)


def _target(path: AnyPath, what: str) -> tuple[str, os.stat_result | None]:
    """The file that ``path`` leads to, and what is known of it; None while it is not there."""
    name = _name(path)
    try:
        target = os.path.realpath(name)
        try:
            # Not asked by its real path alone: that has lost a slash at its end.
            old = os.stat(name)
        except FileNotFoundError:
            if not name or name.endswith(os.sep):
                raise
            return target, None
    except (OSError, ValueError) as error:  # a loop of links, a folder that is none, a NUL
        raise _unwritable(path, what, error) from error
    _require_regular(old, name, what, "written")
    if not os.access(target, os.W_OK, effective_ids=True):  # a rename would pass over it
        denied = PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        raise _unwritable(path, what, denied)
    return target, old


def _sync_folder(folder: str) -> None:
    """Have the new name on the disk too, where the file system can say so."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


# ---------------------------------------------------------------- errors


def too_large(path: AnyPath, what: str, size: int, most: int) -> FileError:
    """The error of a file of ``size`` bytes where at most ``most`` are read."""
    return FileError(
        "ML004",
        f"{what} {_shown(path)} is too large: {size} bytes, at most {most} are read",
        fix="check that it is the file you mean",
    )


def unreadable(path: AnyPath, what: str, error: Exception) -> FileError:
    """The typed error for ``error``, which opening or reading ``path`` raised."""
    kind = MissingFileError if isinstance(error, FileNotFoundError) else FileError
    return _from(kind, "ML002", f"{what} {_shown(path)} cannot be read", error, "check the path")


def _unwritable(path: AnyPath, what: str, error: Exception) -> FileError:
    fix = (
        "free some space, or write to another disk"
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        else "name a file in a folder that exists and that you may write"
    )
    return _from(FileError, "ML003", f"{what} {_shown(path)} cannot be written", error, fix)


def _from(kind: type[FileError], code: str, words: str, error: Exception, fix: str) -> FileError:
    if isinstance(error, UnicodeError):
        reason = "its name has half of a surrogate pair"
    else:
        reason = str(getattr(error, "strerror", None) or str(error) or type(error).__name__)
    made = kind(code, f"{words}: {reason[:1].lower()}{reason[1:]}", fix=fix)
    made.errno = getattr(error, "errno", None)
    return made


def _name(path: AnyPath) -> str:
    try:
        return os.fsdecode(path)
    except TypeError:
        raise ArgumentTypeError(
            "ML005",
            f"a path is text or a pathlib.Path, got {type(path).__name__}",
            fix="pass the name of a file",
        ) from None


def _shown(path: AnyPath) -> str:
    """``path`` in a message: on one line, of characters that can be printed."""
    name = _name(path)
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in name) or "''"


def _require_regular(found: os.stat_result, name: str, what: str, verb: str) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise FileError(
            "ML001",
            f"{what} {_shown(name)} cannot be {verb}: it is {kind_of(found.st_mode)}",
            fix="name a regular file",
        )
