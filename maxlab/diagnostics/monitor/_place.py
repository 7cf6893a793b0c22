"""Where recordings lie, and whose they are.

A *session* is what a recording belongs to: the Jupyter server that started this kernel, else this
process. Kernels come and go within a session; its folder, and what was recorded into it, stay.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from maxlab.errors import DeviceError

DEAD_SESSIONS = 3
"""Folders of ended sessions that are kept; the newest."""


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
    text = env.get("JPY_PARENT_PID", "")
    if text.isdigit() and int(text) > 1:
        server = identity(int(text))
        if server is not None:
            return server
    return me()


def base_folder(env: Mapping[str, str] | None = None) -> Path:
    """The folder of all sessions: beside Jupyter's own files about running servers, or where the
    system wants what a program keeps between runs."""
    env = os.environ if env is None else env
    if given := env.get("MAXLAB_MONITOR_DIR"):
        return Path(given).expanduser().absolute()
    if runtime := env.get("JUPYTER_RUNTIME_DIR"):
        return Path(runtime).expanduser().absolute() / "maxlab-monitor"
    state = env.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return Path(state) / "maxlab" / "monitor"


def session_folder(owner: Identity, base: Path | None = None) -> Path:
    """The folder of the session of ``owner``, whether or not it is there."""
    # A home may be shared by machines, and numbers of processes begin anew with each start of one.
    return (base or base_folder()) / f"{_boot()}-{owner}"


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip().replace("-", "")[:12]


def make_private(folder: Path) -> Path:
    """``folder``, there now, and readable by its owner alone.

    Raises:
        DeviceError: ML832, it cannot be made, or it is somebody else's.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.mkdir(exist_ok=True, mode=0o700)
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            raise PermissionError(f"{folder} is not a folder of this user")
        if found.st_mode & 0o077:
            folder.chmod(0o700)
    except OSError as error:
        raise DeviceError(
            "ML832",
            f"recordings cannot be kept in {folder}: {error.strerror or error}",
            fix="set MAXLAB_MONITOR_DIR to a folder of your own",
        ) from error
    return folder


def remove_dead(base: Path, keep: int = DEAD_SESSIONS) -> None:
    """Remove the folders of ended sessions, but for the newest ``keep``."""
    dead: list[tuple[float, Path]] = []
    try:
        folders = list(base.iterdir())
    except OSError:
        return
    for folder in folders:
        boot, _, rest = folder.name.partition("-")
        pid, _, start = rest.partition("-")
        if not (pid.isdigit() and start.isdigit()):
            continue  # not ours
        if boot == _boot() and Identity(int(pid), int(start)).is_alive():
            continue
        try:
            dead.append((folder.stat().st_mtime, folder))
        except OSError:
            continue
    for _, folder in sorted(dead, reverse=True)[keep:]:
        for file in list(folder.iterdir()):
            file.unlink(missing_ok=True)
        try:
            folder.rmdir()
        except OSError:
            continue  # somebody else is at it too
