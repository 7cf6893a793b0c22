"""The cache of compiled kernels: one file a kernel, named by all that decides its content.

``<root>/kernels/ab/<text>.<prelude>.<flags>.<compiler>.<cpu>.so``

Each part is a digest, so a look-up that fails can say which part was new. A file ends in
a seal, the names that it may have and a digest of all before it: a file that was cut short, or
that is another kernel's, is found before it is opened, and built again. Kernels that were compiled
together are hard links to one library, whose seal has all of their names. Files appear by rename,
so any number of processes may share a cache, and clear it.

A file is read once. The bytes that were verified are those that are loaded, from a copy that only
this process has (`loader`), so nothing that becomes of the file reaches code that runs. Nothing is
read from a place where others could put something; `trust` has the rules.

When the directory cannot be used or written (read-only home, full disk, a folder of others),
kernels go to a private temporary directory that lasts as long as the process, and one ``warning``
event says so. `CacheError` is raised only when that fails too.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import stat
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

from maxlab import trace
from maxlab.config import config
from maxlab.errors import (
    CacheError,
    MaxlabError,
    ToolchainError,
    elsewhere,
    nearest,
    unlisted,
)
from maxlab.habits import fitting
from maxlab.toolchain import eviction, processes
from maxlab.toolchain.folders import fresh_folder, remove_folder
from maxlab.toolchain.private import private_folder
from maxlab.toolchain.seals import (
    Content,
    is_own_file,
    is_whole,
    mark_of,
    open_own,
    read_own,
    seal,
    unsealed,
)
from maxlab.toolchain.trust import DistrustedError, check_folder, check_way

_STALE_S = 24 * 3600.0
_BUILD = "build-"
# How often a thing is done again that another process has undone by clearing the cache.
_BUILDS = 4
_TRIES = 100
PARTS = ("text", "prelude", "flags", "compiler", "cpu")
ENDINGS = (".so", ".plan", ".seen", ".version")
"""How the names of artefacts end: libraries, plans of graphs, notes of files that were found to be
whole, and notes of what compilers say of themselves."""


@dataclass(frozen=True, slots=True)
class Key:
    """The five digests that name an artefact; see `PARTS`."""

    text: str
    prelude: str
    flags: str
    compiler: str
    cpu: str

    parts: ClassVar[tuple[str, ...]] = PARTS

    def filename(self) -> str:
        """The file name inside its folder."""
        return f"{self.text}.{self.prelude}.{self.flags}.{self.compiler}.{self.cpu}.so"


@dataclass(frozen=True, slots=True)
class PlanKey:
    """The digests that name the plan of a graph.

    Attributes:
        text: Of the graph.
        version: Of the compiler that made the plan.
        options: Of what it was told.
    """

    text: str
    version: str
    options: str

    parts: ClassVar[tuple[str, ...]] = ("text", "version", "options")

    def filename(self) -> str:
        """The file name inside its folder."""
        return f"{self.text}.{self.version}.{self.options}.plan"


@dataclass(frozen=True, slots=True)
class SeenKey:
    """The digest that names the note of a file that was read and found to be whole.

    Attributes:
        text: Of what stays the same while the file does, and of what it has to be.
    """

    text: str

    parts: ClassVar[tuple[str, ...]] = ("text",)

    def filename(self) -> str:
        """The file name inside its folder."""
        return f"{self.text}.seen"


@dataclass(frozen=True, slots=True)
class VersionKey:
    """The digest that names the note of what a compiler says of itself.

    Attributes:
        text: Of what stays the same while the program does.
    """

    text: str

    parts: ClassVar[tuple[str, ...]] = ("text",)

    def filename(self) -> str:
        """The file name inside its folder."""
        return f"{self.text}.version"


AnyKey = Key | PlanKey | SeenKey | VersionKey


class CacheInfo(NamedTuple):
    """The content of a cache.

    Attributes:
        place: Its directory, the private spare one where the configured one cannot be used.
        libraries: Compiled libraries in it.
        bytes: What they take on the disk.
        limit: The most bytes that they may take, by ``MAXLAB_CACHE_LIMIT``; None without one.
    """

    place: Path
    libraries: int
    bytes: int
    limit: int | None

    def __str__(self) -> str:
        limit = "without a limit" if self.limit is None else f"of {self.limit / 2**20:,.0f} MiB"
        return (
            f"{self.place}: {self.libraries} librar{'y' if self.libraries == 1 else 'ies'}, "
            f"{self.bytes / 2**20:,.1f} MiB {limit}"
        )


class Artefact(NamedTuple):
    """A verified artefact: where it is kept, and what it holds. Links to one file share it."""

    path: Path
    content: Content


def content_of(artefact: Artefact) -> bytes:
    """The bytes of a library, without its seal; those of the file where the process has dropped
    them.

    Raises:
        CacheError: ML510, the file is gone or another one, so that it has to be found again.
    """
    content = artefact.content
    if content.data:
        return content.data
    try:
        handle = open_own(artefact.path)
        try:
            found = unsealed(read_own(handle, os.fstat(handle).st_size))
        finally:
            os.close(handle)
    except OSError as error:
        raise _cannot_read(artefact.path, _reason(error)) from error
    if found is None or found.digest != content.digest:
        raise _cannot_read(artefact.path, "it is another file now")
    return found.data


class Cache:
    """The cache directory of this process and, once it was needed, the private spare one."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.spare: Path | None = None
        self.why_spare: str | None = None
        self._places = [root]
        self._checked = False
        self._lock = threading.Lock()
        self._added = 0  # bytes since the cache was last looked through
        self._real: dict[Path, str] = {}  # the directories with links resolved
        # (device, inode, size, times): kernels of one library are verified once.
        self._known: dict[tuple[int, ...], Content] = {}

    # -------------------------------------------------------------- reading

    def find(self, key: AnyKey) -> tuple[Artefact | None, str | None]:
        """(artefact, None) of a good one, or (None, why there is none)."""
        corrupt = False
        for root in self._readable():
            try:
                content = self._verified(root, key)
                if content is not None:
                    return Artefact(self.path(root, key), content), None
                corrupt = True
            except (FileNotFoundError, NotADirectoryError):
                continue
            except DistrustedError as error:
                self._distrust(root, error)
            except OSError:
                corrupt = True
        return None, "corrupt entry rebuilt" if corrupt else self._why(key)

    def _verified(self, root: Path, key: AnyKey) -> Content | None:
        """The content of the file of ``key``; None if it is not what was kept under this name.

        Raises:
            DistrustedError: others can write a folder on the way.
            OSError: there is no file, or it cannot be opened.
        """
        real = self._real.get(root)
        if real is None:
            real = self._real[root] = os.path.realpath(root)
        # Only the owner of a private folder changes what is in it; so the folders that are looked
        # at here are those that the file is opened in.
        name = key.filename()
        kernels = f"{real}/kernels"
        folder = f"{kernels}/{key.text[:2]}"
        check_folder(real, "it")
        check_folder(kernels)
        check_folder(folder)
        handle = open_own(f"{folder}/{name}")
        try:
            info = os.fstat(handle)
            if not is_own_file(info):
                return None
            info = eviction.used(handle, info)
            mark = mark_of(info)
            content = self._known.get(mark)
            if content is None:
                content = unsealed(read_own(handle, info.st_size))
                if content is None:
                    return None
                self._known[mark] = content
        finally:
            os.close(handle)
        return content if name in content.names else None

    def _why(self, key: AnyKey) -> str:
        """Which part of ``key`` is new, judged by the artefacts of the same text."""
        *wanted, ending = key.filename().split(".")
        best: list[str] | None = None
        for root in self._readable():
            try:
                names = os.listdir(self.path(root, key).parent)
            except OSError:
                continue
            for name in names:
                parts = name.split(".")
                if name.startswith(key.text) and parts[len(wanted) :] == [ending]:
                    pairs = zip(key.parts, wanted, parts, strict=False)
                    differ = [part for part, a, b in pairs if a != b]
                    if best is None or len(differ) < len(best):
                        best = differ
        if not best:
            return "new text"
        return f"{' and '.join(best)} changed"

    # -------------------------------------------------------------- writing

    def build(
        self,
        keys: Sequence[AnyKey],
        make: Callable[[Path], Path],
        accept: Callable[[Artefact], object] | None = None,
        source: str | None = None,
    ) -> list[Artefact]:
        """The artefacts of ``keys``, all of them the file that ``make`` wrote.

        Args:
            keys: the names to keep it under.
            make: writes the file into the folder it is given, which is fresh and private, and
                returns its path. It is called again when the disk is full, or when the folder is
                gone because another process cleared the cache.
            accept: is given the artefact before it is kept, and raises when it is of no use.
            source: the name in the folder of the text that is kept beside the artefacts, if any.

        Raises:
            CacheError: ML510, nowhere to write.
            ToolchainError: as ``make`` and ``accept``.
        """
        names = [key.filename() for key in keys]
        tries = _BUILDS
        while True:
            with processes.starting():
                folder = self.build_dir()
                _building.add((os.getpid(), folder))
            in_spare = self.spare is not None and folder.is_relative_to(self.spare)
            try:
                built = make(folder)
                content = seal(built, names)
                if accept is not None:
                    accept(Artefact(self.path(folder, keys[0]), content))
                text = folder / source if source is not None else None
                return self._publish(built, content, keys, text)
            except processes.StoppedError:
                raise
            except (OSError, ToolchainError) as error:
                gone = not folder.is_dir()
                if isinstance(error, MaxlabError) and not gone:
                    raise
                tries -= 1
                if gone and tries > 0:
                    continue
                reason = error if isinstance(error, OSError) else _removed()
                if in_spare:
                    raise _cannot_write(folder.parent, reason) from error
                self.use_spare(reason)
            finally:
                remove_folder(folder)
                _building.discard((os.getpid(), folder))

    def build_dir(self) -> Path:
        """A fresh private directory to build in, on the file system of the cache.

        Raises:
            CacheError: ML510, nowhere to write.
        """
        left = _TRIES
        while self.spare is None:
            left -= 1
            try:
                self._prepare()
                return fresh_folder(self.root / "tmp", _BUILD)
            except FileNotFoundError as error:  # removed by another process just now
                if not left:
                    self.use_spare(error)
            except OSError as error:
                self.use_spare(error)
        try:
            return fresh_folder(self.spare, _BUILD)
        except OSError as error:
            raise _cannot_write(self.spare, error) from error

    def folder(self, name: str) -> Path:
        """A private folder ``name`` beside the kernels, for what a compiler keeps for itself; in
        the spare directory where the configured one cannot be used.

        Raises:
            CacheError: ML510, nowhere to write.
        """
        while self.spare is None:
            try:
                self._prepare()
                _make_private(self.root / name)
                check_folder(self.root / name)
                return self.root / name
            except OSError as error:
                self.use_spare(error)
        made = self.spare / name
        try:
            made.mkdir(0o700, exist_ok=True)
        except OSError as error:
            raise _cannot_write(self.spare, error) from error
        return made

    def _publish(
        self, built: Path, content: Content, keys: Sequence[AnyKey], source: Path | None
    ) -> list[Artefact]:
        """The artefacts of the sealed file ``built``, which is now kept."""
        root = self.spare if self.spare is not None else self.root
        made = []
        for key in keys:
            path = self.path(root, key)
            self._place(root, built, path)
            if source is not None:
                self._place(root, source, path.with_suffix(source.suffix))
            made.append(Artefact(path, content))
        with contextlib.suppress(FileNotFoundError):  # cleared meanwhile
            info = os.lstat(made[-1].path)
            self._known[mark_of(info)] = content
            self._shrink(root, info.st_size)
        return made

    def _shrink(self, root: Path, added: int) -> None:
        """Remove what was used longest ago where ``added`` bytes more may be too many."""
        limit = self.limit
        if limit is None or root != self.root:
            return
        with self._lock:
            first = self._added == 0
            self._added += added
            if not (self._added > limit // 16 or (first and eviction.is_due(root))):
                return
            self._added = 1
        eviction.shrink(root / "kernels", limit)

    def use_spare(self, error: OSError) -> None:
        """Keep kernels in a private temporary directory from now on, because of ``error``.

        Raises:
            CacheError: ML510, no temporary directory can be made either.
        """
        with self._lock:
            if self.spare is not None:
                return
            try:
                spare = private_folder("maxlab-")
            except OSError as second:
                raise _cannot_write(self.root, error) from second
            self.why_spare = _reason(error)
            self.spare = spare
            self._places.append(spare)
        trace.emit(
            "warning",
            "cache",
            message=f"the kernel cache {self.root} cannot be used ({self.why_spare}); "
            f"kernels of this process are kept in {spare} and compiled again next time",
            fix="set MAXLAB_CACHE_DIR to a private directory that can be written",
        )

    @fitting("ML975", "maxlab.cache().clear()")
    def clear(self) -> int:
        """Remove every artefact; the number of bytes that were in them.

        Other threads and processes may compile meanwhile, and keep what they make. No link is
        followed.
        """
        freed = sum(size for _, size in self._files())
        for root in self._readable():
            kernels = root / "kernels"
            eviction.forget(root)
            if kernels.is_symlink():
                with contextlib.suppress(OSError):
                    kernels.unlink()
            else:
                import shutil

                shutil.rmtree(kernels, ignore_errors=True)
        self._known.clear()
        return freed

    def usage(self) -> tuple[int, int]:
        """(artefacts, bytes on disk); libraries shared by several kernels count once."""
        files = self._files()
        return len(files), sum(size for _, size in files)

    def info(self) -> CacheInfo:
        """Where the cache is, how many libraries it holds and how many bytes they take.

        Example:
            >>> from maxlab.toolchain import cache
            >>> cache().info().bytes >= 0
            True
        """
        count, size = self.usage()
        place = self.root if self.spare is None else self.spare
        return CacheInfo(place, count, size, self.limit)

    @property
    def limit(self) -> int | None:
        """The most bytes that libraries may take; None without a limit."""
        return config().cache_limit << 20 or None

    def __repr__(self) -> str:
        return f"Cache({str(self.root)!r})"

    def path(self, root: Path, key: AnyKey) -> Path:
        """Where ``root`` keeps the artefact of ``key``."""
        return root / "kernels" / key.text[:2] / key.filename()

    # -------------------------------------------------------------- inside

    def _readable(self) -> list[Path]:
        """The directories to look in; one that others can write is never among them."""
        if not self._checked:
            try:
                check_way(self.root)
            except FileNotFoundError:  # nothing there yet: judge it when it is
                return list(self._places)
            except OSError as error:
                self._distrust(self.root, error)
            self._checked = True
        return list(self._places)

    def _distrust(self, place: Path, error: OSError) -> None:
        """Look into ``place`` no more."""
        self._places = [other for other in self._places if other != place]
        self.use_spare(error)

    def _prepare(self) -> None:
        """The directories, private to the user."""
        if not self.root.is_absolute():  # a "~" that has no home directory behind it
            raise OSError(errno.ENOENT, "No home directory")
        tmp = self.root / "tmp"
        _make_private(self.root)
        check_way(self.root)
        _make_private(tmp)
        check_folder(tmp)
        with os.scandir(tmp) as entries:
            for left in entries:  # of processes that were killed
                # another thread or process may be removing its own just now
                with contextlib.suppress(FileNotFoundError):
                    if not left.name.startswith(_BUILD) or not left.is_dir(follow_symlinks=False):
                        continue
                    if time.time() - left.stat(follow_symlinks=False).st_mtime > _STALE_S:
                        remove_folder(Path(left.path))

    def _place(self, root: Path, built: Path, path: Path) -> None:
        """Keep ``built`` as ``path``, whatever is there."""
        for left in reversed(range(_TRIES)):
            try:
                _make_private(path.parent)
                check_way(root)
                check_folder(path.parent.parent)
                check_folder(path.parent)
                _put(built, path)
                return
            except FileNotFoundError:  # another process clears the cache
                if not left or not built.exists():
                    raise

    def _files(self) -> list[tuple[int, int]]:
        found: dict[tuple[int, int], int] = {}
        for root in self._readable():
            for folder in _entries(root / "kernels"):
                for file in _entries(folder.path) if folder.is_dir(follow_symlinks=False) else ():
                    with contextlib.suppress(FileNotFoundError):  # removed by another process
                        info = file.stat(follow_symlinks=False)
                        if stat.S_ISREG(info.st_mode) and file.name.endswith(ENDINGS):
                            found[info.st_dev, info.st_ino] = info.st_size
        return [(inode, size) for (_, inode), size in found.items()]


# ---------------------------------------------------------------- files


def _put(built: Path, path: Path) -> None:
    """Give ``built`` the name ``path`` too, or a copy where there are no hard links."""
    new = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident():x}")
    try:
        new.unlink(missing_ok=True)  # of a process that was killed
        try:
            os.link(built, new)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.ENOENT):
                raise
            import shutil

            shutil.copyfile(built, new)  # a file system without hard links
            new.chmod(0o600)
        try:
            # A rename onto another link of the same file would leave both names.
            os.replace(new, path)
        except IsADirectoryError:
            import shutil

            shutil.rmtree(path, ignore_errors=True)
            os.replace(new, path)
    finally:
        new.unlink(missing_ok=True)


def _make_private(folder: Path) -> None:
    """Make ``folder`` and those above it that are missing, for this user alone."""
    if os.path.isdir(folder):
        return
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:  # by another process; or no folder, as its check will say
        pass
    except FileNotFoundError:
        if folder.parent == folder:
            raise
        _make_private(folder.parent)
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)


def _entries(folder: Path | str) -> list[os.DirEntry[str]]:
    try:
        if os.path.islink(folder):
            return []
        with os.scandir(folder) as found:
            return list(found)
    except OSError:  # not there, or removed by another process
        return []


# ---------------------------------------------------------------- words


def _removed() -> OSError:
    return FileNotFoundError(errno.ENOENT, "It was removed while kernels were compiled")


def _reason(error: OSError) -> str:
    words = error.strerror or str(error)
    return words[:1].lower() + words[1:]


def _temporary() -> str:
    import tempfile

    try:
        return f"the temporary directory {tempfile.gettempdir()} cannot be used"
    except OSError:  # it tries several, and none can be written
        return "there is no temporary directory that can be used"


def _cannot_read(path: Path, why: str) -> CacheError:
    return CacheError(
        "ML510",
        f"the compiled library {path} cannot be read: {why}",
        fix="load the model again, which finds or compiles it",
    )


def _cannot_write(root: Path, error: OSError) -> CacheError:
    return CacheError(
        "ML510",
        f"compiled kernels cannot be kept: {root}: {_reason(error)}",
        why=[f"{_temporary()} either"],
        fix="free some space, or set MAXLAB_CACHE_DIR to a directory that can be written",
    )


# ---------------------------------------------------------------- the cache of the process

_caches: dict[Path, Cache] = {}
# With the process that made them: a fork has its parent's in its memory.
_building: set[tuple[int, Path]] = set()


def cache() -> Cache:
    """The cache at `config().cache_dir`."""
    root = config().cache_dir
    found = _caches.get(root)
    if found is None:
        found = _caches.setdefault(root, Cache(root))
    return found


@atexit.register
def _leave() -> None:
    """End the compilers of threads that are still compiling, and remove what they build in."""
    processes.stop_all()
    for owner, folder in _building:
        if owner == os.getpid():
            remove_folder(folder)


_INFO = "maxlab.cache().info()"
nearest(CacheInfo, "info")
elsewhere(
    Cache,
    "cache",
    {
        **dict.fromkeys(("size", "nbytes", "bytes"), f"{_INFO}.bytes"),
        **dict.fromkeys(("dir", "place", "folder", "directory"), f"{_INFO}.place"),
        **dict.fromkeys(("evict", "delete", "empty"), "maxlab.cache().clear()"),
    },
)
unlisted(Cache, "cache", f"{_INFO}.libraries counts what it holds")


__all__ = [
    "PARTS",
    "Artefact",
    "Cache",
    "CacheInfo",
    "Content",
    "Key",
    "PlanKey",
    "SeenKey",
    "cache",
    "content_of",
    "is_whole",
]
