"""All GPUs of this machine as columns of a recording."""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Iterable
from typing import Any

from maxlab.diagnostics.gpu import _amdsmi, _nvml
from maxlab.diagnostics.gpu._vendor import Reading, VendorError
from maxlab.diagnostics.monitor._amd import AMDCounters
from maxlab.diagnostics.monitor._nvidia import NVIDIACounters
from maxlab.diagnostics.monitor.line_format import Column

Vendor = NVIDIACounters | AMDCounters
Processes = dict[str, list[list[Any]]]
"""Of each GPU, the number, name and bytes of each process that holds its memory."""


class GPUs:
    """The GPUs of all vendors that are there.

    Args:
        may_wait: whether a reading may take tens of milliseconds.
    """

    def __init__(self, may_wait: bool) -> None:
        self._unusable: dict[str, str] = {}
        self._open: list[Vendor] = []
        self._columns: dict[str, list[Column]] = {}
        self.names: dict[str, str] = {}
        vendors: tuple[Vendor, ...] = (NVIDIACounters(may_wait), AMDCounters())
        for vendor in vendors:
            try:
                if vendor.open():
                    self._open.append(vendor)
            except VendorError as error:
                self._unusable[vendor.prefix] = str(error)
        self.problems: dict[str, str] = {}
        self.processes: Processes = {}

    @property
    def columns(self) -> list[Column]:
        """The columns of every GPU that was read so far."""
        return [column for columns in self._columns.values() for column in columns]

    def read(self, session: Iterable[int]) -> list[float | None]:
        """A value for each of ``columns``; ``problems`` and ``processes`` are of this moment then.

        Args:
            session: numbers of the processes whose memory counts as the session's.
        """
        members = frozenset(session)
        problems = dict(self._unusable)
        values: dict[str, list[float | None]] = {}
        processes: Processes = {}
        for vendor in self._open:
            for reading in vendor.read():
                gpu = f"{vendor.prefix}{reading.index}"
                if reading.problem is not None:
                    problems[gpu] = reading.problem
                if reading.stats is None:
                    continue
                try:
                    row, held = self._row(vendor, gpu, reading, members)
                except Exception as error:  # each vendor has its own type, and none may end us
                    problems[gpu] = f"cannot be read: {' '.join(str(error).split())}"
                    continue
                values[gpu] = row
                if held:
                    processes[gpu] = [[pid, _name(pid), nbytes] for pid, nbytes in held]
        if not self._columns and not self._unusable and not problems:
            problems["gpu"] = why_none()
        self.problems, self.processes = problems, processes
        return [
            value
            for gpu, columns in self._columns.items()
            for value in values.get(gpu, [None] * len(columns))
        ]

    def _row(
        self, vendor: Vendor, gpu: str, reading: Reading, members: frozenset[int]
    ) -> tuple[list[float | None], list[tuple[int, int]]]:
        stats = reading.stats
        assert stats is not None, "only GPUs that were read have a row"
        if gpu not in self._columns:
            self._columns[gpu] = vendor.columns(reading.index)
            self.names[gpu] = vendor.name(reading.index)
        extra, held = vendor.counters(reading.index)
        # A number that the vendor does not have is 0 in GPUStats, which a chart must not draw.
        missing = reading.problem or ""
        no_use, no_memory = "utilization" in missing, "memory" in missing
        session = sum(nbytes for pid, nbytes in held if pid in members)
        activity = stats.utilization.memory_activity_percent
        return [
            None if no_use else float(stats.utilization.gpu_usage_percent),
            None if activity is None else float(activity),
            None if no_memory else float(stats.memory.used_bytes),
            float(session) if held else None,
            *extra,
        ], held

    def close(self) -> None:
        """Let go of the vendors' libraries."""
        for vendor in self._open:
            vendor.close()


def _name(pid: int) -> str:
    """The program of a process of this user; empty when it is another user's, not of this
    container, or gone."""
    try:
        if os.stat(f"/proc/{pid}").st_uid != os.getuid():
            return ""
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def why_none() -> str:
    """Why this machine shows no GPU, for its user to read."""
    return f"no GPU was found. NVIDIA: {_why_no_nvidia()}. AMD: {_why_no_amd()}."


def _why_no_nvidia() -> str:
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError:
        return "the package nvidia-ml-py is not installed"
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        driver = "" if os.path.exists(_nvml._CONTROL) else f", and there is no {_nvml._CONTROL}"
        return f"NVML says {str(error)!r}{driver}"
    try:
        count = nvml.nvmlDeviceGetCount()
    except nvml.NVMLError as error:
        return f"NVML says {str(error)!r}"
    finally:
        nvml.nvmlShutdown()
    return "the driver has none" if count == 0 else f"none of {count} can be read"


def _why_no_amd() -> str:
    if not os.path.exists(_amdsmi._CONTROL):
        return f"there is no {_amdsmi._CONTROL}"
    if importlib.util.find_spec("amdsmi") is None:
        return "the package amdsmi is not installed"
    return "AMD SMI lists none"
