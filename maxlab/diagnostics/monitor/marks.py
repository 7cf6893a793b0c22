"""Marks that a kernel adds to its session's recording: cells, steps of models, the memory of
tensors.

Marks are written as they begin and again as they end, so that a kernel that is killed leaves all of
them but the last tenth of a second of a row of runs. Nothing is written while no monitor runs.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from maxlab import trace
from maxlab.diagnostics.monitor import launching, line_format
from maxlab.diagnostics.monitor.places import Identity, me
from maxlab.diagnostics.monitor.segments import Writer, last_change_ns, matching

MAX_BYTES = 8 << 20
"""Bytes of marks that are kept of one kernel."""

KERNELS = 8
"""Kernels that have ended whose marks are kept; the newest."""

# Runs that follow each other more closely than this are one mark: no screen could part them.
_GAP_NS = 5_000_000
# How often a mark that grows is written again, memory is looked at, and the monitor is looked for.
_PACE_NS = 100_000_000
_LOOK_NS = 1_000_000_000

_EVENTS = frozenset({"load", "compile", "kernel", "profile"})
# What readies a model, or is asked of it, by the kind of its event: marked as phases.
_PHASES = {
    "import": "import",
    "bind": "lay out",
    "pack": "pack",
    "measure": "measure",
    "try": "try",
}
_COMPILE_PHASES = ("passes", "schedule", "plan", "kernels")

MAX_OPS = 200
"""Ops of a profiled run that are marked, at most; those that took longest."""


@dataclass(frozen=True, slots=True)
class _Cell:
    """The cell that runs."""

    id: str
    name: str
    start_ns: int
    cell: str
    line: str


class _Growing:
    """A mark of runs in close succession."""

    __slots__ = ("count", "end_ns", "id", "kind", "name", "start_ns", "written_ns")

    def __init__(self, id: str, kind: str, name: str, start_ns: int, end_ns: int) -> None:
        self.id = id
        self.kind = kind
        self.name = name
        self.start_ns = start_ns
        self.end_ns = end_ns
        self.count = 1
        self.written_ns = 0


class Marker:
    """Writes the marks of this process into the session's ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._pid = os.getpid()
        self._numbers = count()
        self._lock = threading.Lock()
        self._cell: _Cell | None = None
        self._growing: dict[str, _Growing] = {}
        self._held_ns = 0
        self._held: dict[str, list[int]] = {}
        self._looked_ns = 0
        self._is_wanted = False
        self._writer: Writer | None = None
        self._shell: Any = None

    # ------------------------------------------------------------ hooks
    def attach(self) -> None:
        """Hear of cells, runs and events from now on."""
        _remove_old(self.folder)
        trace.recorder().listen(self._heard)
        trace.run_watcher = self._ran
        trace.op_watcher = self._ops
        ipython = sys.modules.get("IPython")
        self._shell = ipython.get_ipython() if ipython is not None else None
        if self._is_kernel:
            self._shell.events.register("pre_run_cell", self._cell_begins)
            self._shell.events.register("post_run_cell", self._cell_ends)

    @property
    def _is_kernel(self) -> bool:
        return getattr(self._shell, "kernel", None) is not None

    def detach(self) -> None:
        """Hear of nothing more, and write what is left to write."""
        trace.recorder().unlisten(self._heard)
        if trace.run_watcher == self._ran:
            trace.run_watcher = None
        if trace.op_watcher == self._ops:
            trace.op_watcher = None
        if self._is_kernel:
            for name, hook in (
                ("pre_run_cell", self._cell_begins),
                ("post_run_cell", self._cell_ends),
            ):
                if hook in self._shell.events.callbacks[name]:
                    self._shell.events.unregister(name, hook)
        if self._pid != os.getpid():
            return  # a fork: what is left belongs to the process that it was forked from
        self._cell_ends(None)
        with self._lock:
            if self._writer is not None:
                self._append(line_format.line("a", time.monotonic_ns(), self._pid, {}))
                self._writer.close()
                self._writer = None

    def in_cell(self) -> None:
        """Mark the cell that runs now, which began before this process had a monitor."""
        self._looked_ns = 0
        with self._lock:
            cell = self._cell
            if cell is not None:
                self._mark_cell(cell, None)
        if cell is None and self._is_kernel:
            # Its inputs are stored by now, those of all cells before it too, and one that is none.
            inputs = self._shell.history_manager.input_hist_raw
            self._begin(len(inputs) - 1, _cell_now(self._shell), inputs[-1] if inputs else "")

    def _cell_begins(self, info: Any) -> None:
        # What a program runs without history has no number.
        has_number = getattr(info, "store_history", True)
        number = len(self._shell.history_manager.input_hist_parsed) if has_number else 0
        cell, text = getattr(info, "cell_id", None), getattr(info, "raw_cell", None)
        self._begin(number, str(cell or ""), str(text or ""))

    def _begin(self, number: int, cell: str, text: str) -> None:
        now_ns = time.monotonic_ns()
        self.memory(now_ns)
        with self._lock:
            name = f"In [{number}]" if number else "cell"
            line = next((one.strip() for one in text.splitlines() if one.strip()), "")
            self._cell = _Cell(self._id(), name, now_ns, cell, line)
            self._mark_cell(self._cell, None)

    def _cell_ends(self, _result: Any) -> None:
        now_ns = time.monotonic_ns()
        self.memory(now_ns)
        self.flush()
        with self._lock:
            cell, self._cell = self._cell, None
            if cell is not None:
                self._mark_cell(cell, now_ns)

    def _ran(self, name: str, start_ns: int, end_ns: int) -> None:
        self._grow("run", name, start_ns, end_ns)
        if end_ns - self._held_ns > _PACE_NS:
            self.memory(end_ns)

    def _heard(self, event: trace.Event) -> None:
        if event.kind in _EVENTS and event.dur_ns:
            self._grow(event.kind, event.name, event.start_ns, event.start_ns + event.dur_ns)
        elif event.kind in _PHASES and event.dur_ns:
            words = f"{_PHASES[event.kind]} {event.name}"
            self._grow("phase", words, event.start_ns, event.start_ns + event.dur_ns)
        elif event.kind == "compile":
            # It comes when all is done, and says how long each phase took.
            took = [int(event.data.get(phase, 0)) for phase in _COMPILE_PHASES]
            start_ns = event.start_ns - sum(took)
            for phase, phase_ns in zip(_COMPILE_PHASES, took, strict=True):
                if phase_ns:
                    self._grow("phase", f"{phase} {event.name}", start_ns, start_ns + phase_ns)
                start_ns += phase_ns

    def _ops(self, name: str, ops: Sequence[tuple[str, int, int]]) -> None:
        longest = sorted(ops, key=lambda op: op[1] - op[2])[:MAX_OPS]
        with self._lock:
            for op, start_ns, end_ns in sorted(longest, key=lambda op: op[1]):
                self._mark(self._id(), start_ns, end_ns - start_ns, "op", f"{op} of {name}", 1)

    # ------------------------------------------------------------ what is written
    def _grow(self, kind: str, name: str, start_ns: int, end_ns: int) -> None:
        with self._lock:
            mark = self._growing.get(kind)
            if mark is not None and mark.name == name and start_ns - mark.end_ns < _GAP_NS:
                mark.end_ns = max(end_ns, mark.end_ns)
                mark.count += 1
                if end_ns - mark.written_ns < _PACE_NS:
                    return
            else:
                if mark is not None:
                    self._write(mark)
                mark = self._growing[kind] = _Growing(self._id(), kind, name, start_ns, end_ns)
            self._write(mark)

    def _write(self, mark: _Growing) -> None:
        mark.written_ns = mark.end_ns
        took_ns = mark.end_ns - mark.start_ns
        self._mark(mark.id, mark.start_ns, took_ns, mark.kind, mark.name, mark.count)

    def flush(self) -> None:
        """Write the marks that still grow."""
        with self._lock:
            for mark in self._growing.values():
                self._write(mark)
            self._growing.clear()

    def memory(self, now_ns: int) -> None:
        """Write what tensors hold on each device, when that has changed."""
        held = dict(_held())
        with self._lock:
            self._held_ns = now_ns
            if held != self._held:
                self._held = held
                self._append(line_format.line("a", now_ns, self._pid, held))

    def _mark(
        self, id: str, start_ns: int, dur_ns: int | None, kind: str, name: str, runs: int
    ) -> None:
        name = name[: line_format.MAX_NAME]
        self._append(line_format.line("m", id, start_ns, dur_ns, kind, name, runs, self._pid))

    def _mark_cell(self, cell: _Cell, end_ns: int | None) -> None:
        took_ns = None if end_ns is None else end_ns - cell.start_ns
        self._mark(cell.id, cell.start_ns, took_ns, "cell", cell.name, 1)
        if end_ns is None and (cell.cell or cell.line):
            line = cell.line[: line_format.MAX_NAME]
            self._append(line_format.line("n", cell.id, cell.cell, line))

    def _append(self, line: bytes) -> None:
        now_ns = time.monotonic_ns()
        if now_ns - self._looked_ns > _LOOK_NS:
            self._looked_ns = now_ns
            self._is_wanted = launching.running(self.folder) is not None
        if not self._is_wanted:
            return
        try:
            if self._writer is None:
                self._writer = Writer(self.folder, f"marks-{me()}", MAX_BYTES, lambda _segment: b"")
            self._writer.write(line)
        except (
            OSError
        ):  # a full disk, or a folder that was removed: a program goes on without marks
            self._writer = None

    def _id(self) -> str:
        return f"{self._pid}.{next(self._numbers)}"


def _held() -> Iterator[tuple[str, list[int]]]:
    """Bytes in use and kept for reuse, of each device that this process has opened."""
    memory = sys.modules.get("maxlab.driver.memory")
    if memory is not None:
        host = memory.memory_stats()
        yield "host", [host.live, host.pooled]
    accelerator = sys.modules.get("maxlab.driver.accelerator")
    for device in accelerator.opened_accelerators() if accelerator is not None else ():
        try:
            stats = device.stats
        except Exception:  # a lost device tells nothing, and the program hears of it elsewhere
            continue
        yield f"{device.label}:{device.id}", [stats["used_memory"], stats["pooled_memory"]]


def _cell_now(shell: Any) -> str:
    """Id of the cell that the kernel of ``shell`` runs; empty when it does not say."""
    try:
        header = shell.get_parent()
        found = header.get("metadata", {}).get("cellId", "")
    except Exception:  # a shell of another kind
        return ""
    return found if isinstance(found, str) else ""


def _remove_old(folder: Path) -> None:
    """Remove the marks of kernels that have ended, but for the newest ``KERNELS``."""
    ended: dict[str, list[Path]] = {}
    for path in matching(folder, "marks"):
        who, _, _ = path.stem.removeprefix("marks-").rpartition("-")
        owner = Identity.parse(who)
        if owner is not None and not owner.is_alive():
            ended.setdefault(who, []).append(path)

    def age(files: list[Path]) -> float:
        return max((last_change_ns(file) for file in files), default=0)

    for files in sorted(ended.values(), key=age)[:-KERNELS]:
        for file in files:
            with contextlib.suppress(OSError):  # another kernel was faster
                file.unlink()


# ---------------------------------------------------------------- one a process

_marker: Marker | None = None


def attach(folder: Path, *, in_cell: bool) -> None:
    """Mark what this process does in the recording in ``folder`` from now on.

    Args:
        folder: of the session.
        in_cell: whether a notebook's cell calls this, which is then marked too.
    """
    global _marker
    if _marker is not None:
        if _marker.folder == folder:
            if in_cell:
                _marker.in_cell()
            return
        _marker.detach()
    else:
        atexit.register(detach)
        os.register_at_fork(after_in_child=detach)
    _marker = Marker(folder)
    _marker.attach()
    if in_cell:
        _marker.in_cell()


def detach() -> None:
    """Mark nothing more."""
    global _marker
    marker, _marker = _marker, None
    if marker is not None:
        marker.detach()


def flush() -> None:
    """Write what has not been written yet."""
    if _marker is not None:
        _marker.flush()
