"""Where recordings lie, and whose they are.

A *session* is what a recording belongs to: the Jupyter server that started this kernel, else this
process. Kernels come and go within a session; its folder, and what was recorded into it, stay.

The folder above the sessions may be one that the user named, with files of the user's own in it. So
each folder of a session carries a *marker*, a file that says which session it is, and on which
machine; only a folder with its own marker, and with maxlab's files alone, is ever removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import stat
import struct
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maxlab.diagnostics.monitor import _own
from maxlab.errors import DeviceError

DEAD_SESSIONS = 3
"""Folders of ended sessions that are kept; the newest."""

FOREIGN_AGE_S = 14 * 86_400.0
"""Seconds without a change after which a session of another machine, or of another start of this
one, counts as ended: nobody here can ask whether its owner runs."""

MARKER = "session.json"
LOCK = "lock"
STARTING = "starting"
STATE = "monitor.json"
LOG = "monitor.log"

_FORMAT = "maxlab.session"
# All names that maxlab gives to files of a session.
_OURS = re.compile(
    rf"{re.escape(MARKER)}|{LOCK}|{STARTING}|{re.escape(LOG)}"
    rf"|({re.escape(MARKER)}|{re.escape(STATE)})(\.[0-9a-f]{{8}}\.new)?"
    r"|samples-[0-9]{6,}\.mlrec|marks-[0-9]+-[0-9]+-[0-9]{6,}\.mlrec"
)


@dataclass(frozen=True, slots=True)
class Identity:
    """A process that no other is taken for: numbers of processes are used again, and the tick of
    the machine's clock at which one started tells it from an earlier owner of its number."""

    pid: int
    start: int

    def is_alive(self) -> bool:
        """Whether the process runs. One that has ended and was not reaped yet does not."""
        found = _stat(self.pid)
        return found is not None and found == ("run", self.start)

    def __str__(self) -> str:
        return f"{self.pid}-{self.start}"

    @classmethod
    def parse(cls, text: str) -> Identity | None:
        """The process that ``str`` made ``text`` of; None when it did not."""
        pid, _, start = text.partition("-")
        if (number := small(pid)) is None or (tick := small(start)) is None:
            return None
        return cls(number, tick)


def small(text: str) -> int | None:
    """The number that the ASCII digits ``text`` write; None when it is not one below 10**18."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


def identity(pid: int) -> Identity | None:
    """The process that has the number ``pid`` now; None when there is none."""
    found = _stat(pid)
    return None if found is None or found[0] == "zombie" else Identity(pid, found[1])


def _stat(pid: int) -> tuple[str, int] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return None
    # The name stands in parentheses and may hold any character; state is the 1st field behind it,
    # the start in clock ticks since boot the 20th.
    fields = text[text.rfind(")") + 2 :].split()
    return ("zombie" if fields[0] in "ZX" else "run"), int(fields[19])


def me() -> Identity:
    """This process."""
    found = identity(os.getpid())
    assert found is not None, "a process that reads /proc is in it"
    return found


def session_owner(env: Mapping[str, str] | None = None) -> Identity:
    """The process that the session lives and ends with."""
    env = os.environ if env is None else env
    # jupyter_client tells each kernel who started it; a program that a kernel starts inherits it.
    pid = small(env.get("JPY_PARENT_PID", ""))
    if pid is not None and pid > 1:
        server = identity(pid)
        if server is not None:
            return server
    return me()


def base_folder(env: Mapping[str, str] | None = None) -> Path:
    """The folder of all sessions: beside Jupyter's own files about running servers, or where the
    system wants what a program keeps between runs.

    Raises:
        DeviceError: ML832, the setting names a user's home, or a current folder, that is not there.
    """
    env = os.environ if env is None else env
    given = env.get("MAXLAB_MONITOR_DIR")
    runtime = env.get("JUPYTER_RUNTIME_DIR")
    state = env.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    try:
        if given:
            return Path(given).expanduser().absolute()
        if runtime:
            return Path(runtime).expanduser().absolute() / "maxlab-monitor"
        return (Path(state) / "maxlab" / "monitor").absolute()
    except (OSError, RuntimeError) as error:  # RuntimeError: the home of nobody
        raise no_place(given or runtime or state, error) from error


def session_folder(owner: Identity, base: Path | None = None) -> Path:
    """The folder of the session of ``owner``, whether or not it is there."""
    # A home may be shared by machines, and numbers of processes begin anew with each start of one.
    return (base or base_folder()) / f"{_boot()[:12]}-{owner}"


def _boot() -> str:
    """The name of this start of this machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip().replace("-", "")


def _processes() -> str:
    """The name of the numbering of processes that this process lives in: each container of a
    machine has its own.
    """
    try:
        found = os.stat("/proc/self/ns/pid")
    except OSError:
        return ""
    return f"{found.st_dev}:{found.st_ino}"


# ---------------------------------------------------------------- making folders


def no_place(folder: str | Path, error: Exception) -> DeviceError:
    """The error for a ``folder`` that recordings cannot be kept in."""
    reason = getattr(error, "strerror", None) or str(error)
    return DeviceError(
        "ML832",
        f"recordings cannot be kept in {folder}: {reason}",
        fix="set MAXLAB_MONITOR_DIR to a folder of your own",
    )


def make_base(folder: Path) -> Path:
    """``folder``, there now. One that is there already stays as it is; a new one is private.

    Raises:
        DeviceError: ML832, it cannot be made, or it is somebody else's.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if folder.stat().st_uid != os.getuid():
            raise PermissionError(f"{folder} is not a folder of this user")
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise no_place(folder, error) from error
    return folder


def make_private(folder: Path) -> Path:
    """``folder``, there now, and readable by its owner alone.

    Raises:
        DeviceError: ML832, it cannot be made, it is a link, or it is somebody else's.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            raise PermissionError(f"{folder} is not a folder of this user")
        if found.st_mode & 0o077:
            folder.chmod(0o700)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise no_place(folder, error) from error
    return folder


def make_session(folder: Path) -> Path:
    """``folder``, there now, private, and marked as that of a session of this machine.

    Raises:
        DeviceError: ML832, it cannot be made or marked, or it is somebody else's.
    """
    make_private(folder)
    facts = {
        "format": _FORMAT,
        "version": 1,
        "folder": folder.name,
        "boot": _boot(),
        "processes": _processes(),
    }
    try:
        if _marked(folder) != facts:
            _own.replace(folder / MARKER, json.dumps(facts))
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise no_place(folder, error) from error
    return folder


def _marked(folder: Path) -> dict[str, Any] | None:
    """The content of the marker of ``folder``; None when it has none that is about this folder."""
    try:
        facts = json.loads(_own.content(folder / MARKER, 4096))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(facts, dict) or facts.get("format") != _FORMAT:
        return None
    return facts if facts.get("folder") == folder.name else None


# ---------------------------------------------------------------- who records


def hold(folder: Path) -> int | None:
    """A descriptor that holds the lock of the monitor of ``folder`` until it is closed, or until
    this process ends; None when another process holds it.

    Raises:
        OSError: There is no lock to be had here.
    """
    handle = _own.opened(folder / LOCK, os.O_RDWR | os.O_CREAT)
    try:
        # A lock of this kind belongs to a process, so that others can ask which one it is.
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        os.close(handle)
        return None
    except BaseException:
        os.close(handle)
        raise
    return handle


def holder(folder: Path) -> Identity | None:
    """The other process that holds the lock of the monitor of ``folder``, as the system knows it;
    None when none does. No file's content has a say in it."""
    layout = "hhqqi0q"  # struct flock: kind, whence, start, length, process
    try:
        handle = _own.opened(folder / LOCK)
    except OSError:
        return None
    try:
        asked = struct.pack(layout, fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, pid = struct.unpack(layout, fcntl.fcntl(handle, fcntl.F_GETLK, asked))
    except OSError:
        return None
    finally:
        os.close(handle)
    return identity(pid) if kind != fcntl.F_UNLCK and pid > 0 else None


# ---------------------------------------------------------------- removing what is old


def remove_dead(base: Path, keep: int = DEAD_SESSIONS) -> None:
    """Remove the folders of ended sessions, but for the newest ``keep``.

    A folder without maxlab's marker, a link, and a folder with anything else in it stay untouched.
    """
    dead: list[tuple[float, Path]] = []
    try:
        folders = list(base.iterdir())
    except OSError:
        return
    for folder in folders:
        with contextlib.suppress(OSError):
            if (changed := _ended(folder)) is not None:
                dead.append((changed, folder))
    for _, folder in sorted(dead, reverse=True)[keep:]:
        with contextlib.suppress(OSError), _alone_in(folder) as is_alone:
            # Asked again: a lot may have happened before the locks were got.
            if is_alone and _ended(folder) is not None:
                _empty(folder)
                folder.rmdir()


def _empty(folder: Path) -> None:
    """Remove maxlab's files from ``folder``, the marker last, so that half a removal is resumed."""
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        for name in sorted(filter(_OURS.fullmatch, os.listdir(place)), key=MARKER.__eq__):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=place)
    finally:
        os.close(place)


def _ended(folder: Path) -> float | None:
    """When the session of ``folder`` last changed anything; None when ``folder`` is not that of a
    session, when the session may still go on, and when there is anything else in it."""
    name = re.fullmatch(r"[0-9a-f]{12}-([0-9]+-[0-9]+)", folder.name)
    owner = Identity.parse(name[1]) if name else None
    if owner is None:
        return None
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        return None
    facts = _marked(folder)
    if facts is None:
        return None
    changed = found.st_mtime
    with os.scandir(folder) as entries:
        for entry in entries:
            if not _OURS.fullmatch(entry.name) or not entry.is_file(follow_symlinks=False):
                return None
            changed = max(changed, entry.stat(follow_symlinks=False).st_mtime)
    is_here = facts.get("boot") == _boot() and facts.get("processes") == _processes()
    if is_here:
        return None if owner.is_alive() else changed
    return changed if time.time() - changed > FOREIGN_AGE_S else None


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[bool]:
    """Whether no monitor is at work, starting or stopping in ``folder``, nor can begin to."""
    with contextlib.ExitStack() as locks:
        try:
            turn = _own.opened(folder / STARTING, os.O_RDWR)
            locks.callback(os.close, turn)
            fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            pass  # no monitor ever started here
        except BlockingIOError:
            yield False
            return
        held = hold(folder) if os.path.lexists(folder / LOCK) else -1
        if held is not None and held >= 0:
            locks.callback(os.close, held)
        yield held is not None
