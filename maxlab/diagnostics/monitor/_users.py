"""The processes of one user: what each takes of the machine, and which kernel started it.

Read from ``/proc``, one file a process: psutil opens three, and this runs beside the work that is
watched. Processes of other users are not looked at.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

MAX_PROCESSES = 32
"""Processes in a table, at most: those of the session first, then whoever takes most."""

# Of the processes outside of the session, those that take this much of a machine are worth a line.
_LEAST_BYTES = 32 << 20
_LEAST_PERCENT = 1.0

_KERNEL = re.compile(rb"kernel-([0-9a-fA-F-]{8,40})\.json")
_NOTEBOOK = b"JPY_SESSION_NAME="
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_TICK_S = 1.0 / (os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100)

Row = list[int | float | str | None]
"""Number, number of the kernel that it belongs to, share of all cores in percent (None when it is
not known yet), bytes in memory, bytes of GPU memory, and name. What belongs to the session and to
no kernel has the number of the session's own process; others have 0."""

Owners = dict[str, list[str]]
"""Of each kernel, by its number: its id, and the name of its notebook."""


@dataclass(slots=True)
class _Found:
    """A process as ``/proc`` has it now."""

    pid: int
    parent: int
    start: int
    spent_s: float
    rss: int
    name: str


class UserProcesses:
    """The processes of this user, and whose they are.

    Args:
        owner: the number of the process at the root of the session.
        cores: how many there are.
    """

    def __init__(self, owner: int, cores: int) -> None:
        self._owner = owner
        self._cores = max(cores, 1)
        self._user = os.getuid()
        self._mine = os.getpid()
        self._spent: dict[tuple[int, int], float] = {}
        self._kernels: dict[tuple[int, int], list[str] | None] = {}
        self._then_ns = 0

    def read(self, gpu_bytes: Mapping[int, int]) -> tuple[list[Row], Owners]:
        """The processes that take something, those of the session first, and its kernels.

        Args:
            gpu_bytes: what processes hold of the memory of all GPUs, by their numbers.
        """
        now_ns = time.monotonic_ns()
        elapsed_s = (now_ns - self._then_ns) / 1e9 if self._then_ns else None
        self._then_ns = now_ns
        found = {one.pid: one for one in _processes(self._user)}
        members = _below(self._owner, found)
        kernels = self._kernels_of(found, members)
        spent: dict[tuple[int, int], float] = {}
        rows: list[Row] = []
        for one in found.values():
            key = (one.pid, one.start)
            before = self._spent.get(key)
            spent[key] = one.spent_s
            share = None
            if before is not None and elapsed_s:
                share = 100.0 * (one.spent_s - before) / elapsed_s / self._cores
                share = round(min(share, 100.0), 1)
            held = gpu_bytes.get(one.pid, 0)
            if one.pid == self._mine:  # what watches is not what is watched, and says so
                one.name, whose = "maxlab monitor", 0
            elif one.pid in members:
                whose = _nearest(one.pid, found, kernels) or self._owner
            elif held or one.rss >= _LEAST_BYTES or (share or 0.0) >= _LEAST_PERCENT:
                whose = 0
            else:
                continue
            rows.append([one.pid, whose, share, one.rss, held, one.name])
        self._spent = spent

        def rank(row: Row) -> tuple[bool, float, float]:
            _, whose, share, rss, held, _ = row
            return (whose == 0, -float(held or 0), -(float(share or 0.0) * 1e8 + float(rss or 0)))

        rows.sort(key=rank)
        return rows[:MAX_PROCESSES], {str(pid): told for pid, told in kernels.items()}

    def _kernels_of(self, found: Mapping[int, _Found], members: set[int]) -> dict[int, list[str]]:
        """Id and notebook of each kernel among ``members``; each process is asked once."""
        known, self._kernels = self._kernels, {}
        kernels: dict[int, list[str]] = {}
        for pid in members:
            key = (pid, found[pid].start)
            told = known[key] if key in known else _kernel(pid)
            self._kernels[key] = told
            if told is not None:
                kernels[pid] = told
        return kernels


def _processes(user: int) -> Iterable[_Found]:
    """The processes of ``user``, but for those that end meanwhile."""
    try:
        entries = os.scandir("/proc")
    except OSError:  # a system without it
        return
    with entries:
        for entry in entries:
            if not entry.name.isdigit():
                continue
            try:
                if entry.stat().st_uid != user:
                    continue
                with open(f"/proc/{entry.name}/stat", "rb") as file:
                    text = file.read(4096)
            except OSError:
                continue
            # The name is in parentheses, and may hold any character.
            head, _, tail = text.rpartition(b")")
            fields = tail.split()
            if len(fields) < 22 or fields[0] == b"Z":
                continue
            yield _Found(
                pid=int(entry.name),
                parent=int(fields[1]),
                start=int(fields[19]),
                spent_s=(int(fields[11]) + int(fields[12])) * _TICK_S,
                rss=int(fields[21]) * _PAGE,
                name=head.partition(b"(")[2].decode("utf-8", "replace"),
            )


def _below(root: int, found: Mapping[int, _Found]) -> set[int]:
    """``root`` and what it started, and what that started."""
    is_member: dict[int, bool] = {root: True}

    def look(pid: int) -> bool:
        path = []
        while pid not in is_member:
            path.append(pid)
            is_member[pid] = False  # until it is known, and where a chain ends
            one = found.get(pid)
            if one is None:
                break
            pid = one.parent
        answer = is_member[pid]
        is_member.update(dict.fromkeys(path, answer))
        return answer

    return {pid for pid in found if look(pid)}


def _nearest(pid: int, found: Mapping[int, _Found], kernels: Mapping[int, list[str]]) -> int | None:
    """The kernel that ``pid`` is, or that started it."""
    for _ in range(len(found)):
        if pid in kernels:
            return pid
        one = found.get(pid)
        if one is None:
            return None
        pid = one.parent
    return None


def _kernel(pid: int) -> list[str] | None:
    """Id and notebook of the kernel ``pid``; None when it is none. The notebook is empty when
    Jupyter does not say."""
    match = _KERNEL.search(_content(pid, "cmdline"))
    if match is None:
        return None
    notebook = b""
    for entry in _content(pid, "environ").split(b"\0"):
        if entry.startswith(_NOTEBOOK):
            # The folders above it are nobody's business to whom a recording is sent.
            notebook = entry.removeprefix(_NOTEBOOK).rpartition(b"/")[2]
    return [match[1].decode(), notebook.decode("utf-8", "replace")]


def _content(pid: int, name: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read(1 << 17)
    except OSError:
        return b""


def pacer(period_ns: int) -> Callable[[int], bool]:
    """Says at which samples a table is due: every two seconds, or less often with a slower pace."""
    every_ns = max(period_ns, 2_000_000_000)
    next_ns = 0

    def is_due(now_ns: int) -> bool:
        nonlocal next_ns
        # The first table knows no shares yet: the next one follows soon.
        if now_ns < next_ns:
            return False
        next_ns = now_ns + (every_ns if next_ns else min(every_ns, 500_000_000)) - period_ns // 2
        return True

    return is_due
