"""Counters of the host, and of the processes of one session, through psutil."""

from __future__ import annotations

import os
import time

import psutil

from maxlab.diagnostics.monitor.line_format import Column

_MEMBERS_NS = 2_000_000_000
"""How often the members of the session are looked for anew: that reads every process's state."""


class Host:
    """This machine, and the tree of processes below ``owner``.

    Args:
        owner: the number of the process at the root of the tree.
    """

    def __init__(self, owner: int) -> None:
        self._owner = owner
        self._members: dict[int, psutil.Process] = {}
        self._members_ns = 0
        self._spent: dict[int, float] = {}
        self._then_ns = time.monotonic_ns()
        self._is_first = True
        self._counts: list[int | None] = [None] * 4
        # The first calls start the window.
        psutil.cpu_percent(None)
        self._cores = len(psutil.cpu_percent(None, percpu=True))
        self.session: frozenset[int] = frozenset()
        memory = psutil.virtual_memory()
        self.columns = [
            Column("cpu", "host", "cpu", "%", "all cores", 100.0, average=True),
            *(
                Column(f"cpu.{n}", "host", "core", "%", f"core {n}", 100.0, average=True)
                for n in range(self._cores)
            ),
            Column("mem", "host", "host_memory", "B", "whole machine", float(memory.total)),
            Column("disk.read", "host", "disk", "B/s", "read", average=True),
            Column("disk.write", "host", "disk", "B/s", "written", average=True),
            Column("net.rx", "host", "network", "B/s", "received", average=True),
            Column("net.tx", "host", "network", "B/s", "sent", average=True),
            Column("tree.cpu", "tree", "cpu", "%", "this session", 100.0, average=True),
            Column("tree.rss", "tree", "host_memory", "B", "this session", float(memory.total)),
        ]

    def read(self) -> list[float | None]:
        """A value for each of ``columns``."""
        cores: list[float | None] = list(psutil.cpu_percent(None, percpu=True))
        if len(cores) != self._cores:  # a core went on- or offline
            cores = (cores + [None] * self._cores)[: self._cores]
        memory = psutil.virtual_memory()
        rates = self._rates(time.monotonic_ns() - self._then_ns)
        rss, busy = self._tree()
        total: float | None = psutil.cpu_percent(None)
        if self._is_first:
            # The window began milliseconds ago, in the clock's ticks of 10: it says nothing.
            self._is_first, total, cores = False, None, [None] * self._cores
        return [total, *cores, memory.total - memory.available, *rates, busy, rss]

    @property
    def cores(self) -> int:
        """How many there were at the start."""
        return self._cores

    def _rates(self, elapsed_ns: int) -> list[float | None]:
        """Bytes a second since the last call: read from disks and written, received and sent over
        networks; None where the system does not count."""
        before, self._counts = self._counts, [*_disk_bytes(), *_network_bytes()]
        return [
            (now - then) * 1e9 / elapsed_ns
            # A count that went back belongs to a disk or a network that is gone.
            if now is not None and then is not None and now >= then and elapsed_ns > 0
            else None
            for now, then in zip(self._counts, before, strict=True)
        ]

    def _tree(self) -> tuple[int, float | None]:
        """Bytes that the session holds in memory; its share of all cores since the last call."""
        now_ns = time.monotonic_ns()
        if now_ns - self._members_ns > _MEMBERS_NS:
            self._find_members()
            self._members_ns = now_ns
        rss = 0
        busy_s = 0.0
        spent: dict[int, float] = {}
        for pid, process in list(self._members.items()):
            try:
                with process.oneshot():
                    rss += process.memory_info().rss
                    times = process.cpu_times()
            except psutil.Error:
                del self._members[pid]
                continue
            spent[pid] = times.user + times.system
            # A process that was not known at the last call counts from the next one on.
            busy_s += spent[pid] - self._spent.get(pid, spent[pid])
        elapsed_s = (now_ns - self._then_ns) / 1e9
        is_first = not self._spent
        self._spent, self._then_ns = spent, now_ns
        if is_first or elapsed_s <= 0:
            return rss, None
        return rss, min(100.0 * busy_s / elapsed_s / max(self._cores, 1), 100.0)

    def _find_members(self) -> None:
        mine = os.getpid()
        try:
            root = self._members.get(self._owner) or psutil.Process(self._owner)
            found = [root, *root.children(recursive=True)]
        except psutil.Error:
            return
        known = self._members
        # What the monitor itself takes is not the session's.
        self._members = {p.pid: known.get(p.pid, p) for p in found if p.pid != mine}
        self.session = frozenset(self._members)


def _disk_bytes() -> tuple[int | None, int | None]:
    """Bytes that were read from and written to all disks."""
    try:
        found = psutil.disk_io_counters(nowrap=False)
    except (OSError, RuntimeError, ValueError):  # a container may hide them
        found = None
    return (None, None) if found is None else (found.read_bytes, found.write_bytes)


def _network_bytes() -> tuple[int | None, int | None]:
    """Bytes that all networks brought and took. What a machine sends to itself is left out: a page
    that shows a dashboard would be most of it."""
    try:
        found = psutil.net_io_counters(pernic=True, nowrap=False)
    except (OSError, RuntimeError, ValueError):
        found = {}
    outer = [one for name, one in found.items() if name != "lo"]
    if not outer:
        return None, None
    return sum(one.bytes_recv for one in outer), sum(one.bytes_sent for one in outer)
