"""The cache of compiled kernels: one file a kernel, named by all that decides its content.

``<root>/kernels/ab/<text>.<prelude>.<flags>.<compiler>.<cpu>.so``

Each part is a digest, so a look-up that fails can say which part was new. A file ends in
a seal, a digest of what is before it: a file cut short by a full disk or a crash is
found before it is opened, and built again. Kernels that were compiled together are hard
links to one library. Files appear by rename, so any number of processes may share a
cache. Nothing is loaded from a directory that others can write.

When the directory cannot be used or written (read-only home, full disk), kernels go to
a private temporary directory that lasts as long as the process, and one ``warning`` event
says so. `CacheError` is raised only when that fails too.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import hashlib
import os
import shutil
import stat
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from maxlab import trace
from maxlab.config import config
from maxlab.errors import CacheError

_MAGIC = b"mxkernel"
_SEAL_BYTES = len(_MAGIC) + 32
_STALE_S = 24 * 3600.0
PARTS = ("text", "prelude", "flags", "compiler", "cpu")


@dataclass(frozen=True, slots=True)
class Key:
    """The five digests that name an artefact; see `PARTS`."""

    text: str
    prelude: str
    flags: str
    compiler: str
    cpu: str

    def filename(self) -> str:
        """The file name inside its folder."""
        return f"{self.text}.{self.prelude}.{self.flags}.{self.compiler}.{self.cpu}.so"


def seal(path: Path) -> None:
    """Append to a finished library the digest that `is_whole` checks.

    The loader maps the segments the ELF header names and never looks behind them.
    """
    data = path.read_bytes()
    with path.open("ab") as file:
        file.write(_MAGIC + hashlib.blake2b(data, digest_size=32).digest())


def is_whole(path: Path) -> bool:
    """True if ``path`` is a sealed file whose content is what was sealed.

    Raises:
        FileNotFoundError: there is no such file.
    """
    data = path.read_bytes()
    body, seal_bytes = data[:-_SEAL_BYTES], data[-_SEAL_BYTES:]
    return seal_bytes == _MAGIC + hashlib.blake2b(body, digest_size=32).digest()


class Cache:
    """The cache directory of this process and, once it was needed, the private spare one."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.spare: Path | None = None
        self._places = [root]
        self._checked = False
        self._lock = threading.Lock()
        # (device, inode, size, mtime): kernels of one library are checked once.
        self._whole: set[tuple[int, int, int, int]] = set()

    # -------------------------------------------------------------- reading

    def find(self, key: Key) -> tuple[Path | None, str | None]:
        """(path, None) of a good artefact, or (None, why there is none)."""
        corrupt = False
        for root in self._readable():
            path = self.path(root, key)
            try:
                if self._verified(path):
                    return path, None
                corrupt = True
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError:
                corrupt = True
        return None, "corrupt entry rebuilt" if corrupt else self._why(key)

    def _verified(self, path: Path) -> bool:
        info = path.stat()
        mark = (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns)
        if mark in self._whole:
            return True
        if not is_whole(path):
            return False
        self._whole.add(mark)
        return True

    def _why(self, key: Key) -> str:
        """Which part of ``key`` is new, judged by the artefacts of the same text."""
        wanted = [getattr(key, part) for part in PARTS]
        best: list[str] | None = None
        for root in self._readable():
            try:
                names = os.listdir(self.path(root, key).parent)
            except OSError:
                continue
            for name in names:
                parts = name.split(".")
                if name.startswith(key.text) and len(parts) == len(PARTS) + 1:
                    pairs = zip(PARTS, wanted, parts, strict=False)
                    differ = [part for part, a, b in pairs if a != b]
                    if best is None or len(differ) < len(best):
                        best = differ
        if not best:
            return "new text"
        return f"{' and '.join(best)} changed"

    # -------------------------------------------------------------- writing

    def build_dir(self) -> Path:
        """A fresh private directory to build in, on the file system of the cache.

        Raises:
            CacheError: ML510, nowhere to write.
        """
        if self.spare is None:
            try:
                self._prepare()
                return Path(tempfile.mkdtemp(prefix="build-", dir=self.root / "tmp"))
            except OSError as error:
                self.use_spare(error)
        return Path(tempfile.mkdtemp(prefix="build-", dir=self.spare))

    def publish(self, built: Path, keys: list[Key]) -> list[Path]:
        """The paths under which the sealed library ``built`` is now kept, one a key.

        Raises:
            CacheError: ML510, nowhere to write.
        """
        if self.spare is None:
            try:
                return [self._place(built, self.path(self.root, key)) for key in keys]
            except OSError as error:
                self.use_spare(error)
        spare = self.spare
        assert spare is not None, "use_spare sets the spare directory or raises"
        try:
            return [self._place(built, self.path(spare, key)) for key in keys]
        except OSError as error:
            raise _cannot_write(spare, error) from error

    def use_spare(self, error: OSError) -> None:
        """Keep kernels in a private temporary directory from now on, because of ``error``.

        Raises:
            CacheError: ML510, no temporary directory can be made either.
        """
        with self._lock:
            if self.spare is not None:
                return
            try:
                spare = Path(tempfile.mkdtemp(prefix="maxlab-"))
            except OSError as second:
                raise _cannot_write(self.root, error) from second
            atexit.register(shutil.rmtree, spare, ignore_errors=True)
            self.spare = spare
            self._places.append(spare)
        trace.emit(
            "warning",
            "cache",
            message=f"the kernel cache {self.root} cannot be used ({_reason(error)}); "
            f"kernels of this process are kept in {spare} and compiled again next time",
            fix="set MAXLAB_CACHE_DIR to a private directory that can be written",
        )

    def clear(self) -> int:
        """Remove every artefact; the number of bytes that were in them."""
        freed = sum(size for _, size in self._files())
        for root in self._readable():
            shutil.rmtree(root / "kernels", ignore_errors=True)
        self._whole.clear()
        return freed

    def usage(self) -> tuple[int, int]:
        """(artefacts, bytes on disk); libraries shared by several kernels count once."""
        files = self._files()
        return len(files), sum(size for _, size in files)

    def path(self, root: Path, key: Key) -> Path:
        """Where ``root`` keeps the artefact of ``key``."""
        return root / "kernels" / key.text[:2] / key.filename()

    # -------------------------------------------------------------- inside

    def _readable(self) -> list[Path]:
        """The directories to look in; a root that others can write is never among them."""
        if not self._checked:
            try:
                _check_private(self.root)
            except FileNotFoundError:
                return self._places  # nothing there yet: judge it when it is
            except OSError as error:
                self._places = []
                self.use_spare(error)
            self._checked = True
        return self._places

    def _prepare(self) -> None:
        """The directories, private to the user."""
        if not self.root.is_absolute():  # a "~" that has no home directory behind it
            raise OSError(errno.ENOENT, "no home directory")
        if not self.root.is_dir():
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_private(self.root)
        tmp = self.root / "tmp"
        if not tmp.is_dir():
            tmp.mkdir(mode=0o700, exist_ok=True)
        with os.scandir(tmp) as entries:
            for left in entries:  # of processes that were killed
                # another thread or process may be removing its own just now
                with contextlib.suppress(FileNotFoundError):
                    if time.time() - left.stat().st_mtime > _STALE_S:
                        shutil.rmtree(left.path, ignore_errors=True)

    def _place(self, built: Path, path: Path) -> Path:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        unique = f"{path.name}.{os.getpid()}.{threading.get_ident():x}"
        new = path.with_name(unique)
        try:
            try:
                os.link(built, new)
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
                    raise
                shutil.copyfile(built, new)  # a file system without hard links
            # A rename onto another link of the same file would leave both names.
            os.replace(new, path)
        finally:
            new.unlink(missing_ok=True)
        return path

    def _files(self) -> list[tuple[int, int]]:
        found: dict[tuple[int, int], int] = {}
        for root in self._readable():
            for file in (root / "kernels").glob("*/*.so"):
                with contextlib.suppress(FileNotFoundError):  # removed by another process
                    info = file.stat()
                    found[info.st_dev, info.st_ino] = info.st_size
        return [(inode, size) for (_, inode), size in found.items()]


def _check_private(root: Path) -> None:
    """Raise OSError if someone else could put code into ``root``."""
    info = root.stat()
    if not stat.S_ISDIR(info.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, "not a directory")
    if info.st_mode & stat.S_IWOTH:
        raise PermissionError(errno.EPERM, "every user can write it")
    if info.st_uid not in (0, os.geteuid()) and os.geteuid() != 0:
        raise PermissionError(errno.EPERM, "it belongs to another user")


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def _temporary() -> str:
    try:
        return f"the temporary directory {tempfile.gettempdir()} cannot be used"
    except OSError:  # it tries several, and none can be written
        return "there is no temporary directory that can be used"


def _cannot_write(root: Path, error: OSError) -> CacheError:
    return CacheError(
        "ML510",
        f"compiled kernels cannot be kept: {root}: {_reason(error)}",
        why=[f"{_temporary()} either"],
        fix="free some space, or set MAXLAB_CACHE_DIR to a directory that can be written",
    )


_caches: dict[Path, Cache] = {}


def cache() -> Cache:
    """The cache at `config().cache_dir`."""
    root = config().cache_dir
    found = _caches.get(root)
    if found is None:
        found = _caches.setdefault(root, Cache(root))
    return found
