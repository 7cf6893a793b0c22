"""Counters of NVIDIA GPUs beyond ``GPUStats``: clocks, power, temperature, links, processes."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

from maxlab.diagnostics.gpu._nvml import NVML
from maxlab.diagnostics.monitor.line_format import Column

# nvmlValueType_t
_UNSIGNED_LONG, _UNSIGNED_LONG_LONG = 2, 3
_ALL_LINKS = 0xFFFFFFFF
# What NVML's reference gives for utilisation: "between 1 second and 1/6 second, depending on the
# product". Its own samples tell which; this is for GPUs that do not keep any.
_LONGEST_WINDOW_NS = 1_000_000_000
# nvmlDeviceGetPcieThroughput counts for 20 ms, and holds its caller for as long.
_THROUGHPUT_NS = 20_000_000

Process = tuple[int, int]
"""Number of a process, and the bytes that it holds on a GPU."""


class NVIDIACounters(NVML):
    """The GPUs that the NVIDIA driver knows, with all that a dashboard shows.

    Args:
        may_wait: whether counters may be read whose reading takes tens of milliseconds.
    """

    def __init__(self, may_wait: bool) -> None:
        super().__init__()
        self._may_wait = may_wait
        # Counters that a GPU once said it does not have, which are not asked for again.
        self._without: set[tuple[int, str]] = set()
        self._totals: dict[tuple[int, str], tuple[int, int]] = {}
        self._pcie_counts: dict[int, bool] = {}

    def open(self) -> bool:
        """Whether NVML runs now."""
        self._without.clear()
        self._totals.clear()
        self._pcie_counts.clear()
        return super().open()

    # ------------------------------------------------------------ what there is
    def columns(self, index: int) -> list[Column]:
        """The counters that GPU ``index`` may have, in the order of ``counters``.

        Raises:
            NVMLError: The GPU cannot be read.
        """
        handle, nvml, gpu = self._handle(index), self._nvml, f"{self.prefix}{index}"
        window_ns = self._utilization_window_ns(index, handle)
        arch = self._ask(index, "architecture", nvml.nvmlDeviceGetArchitecture, handle)
        # From Ampere on the power is the mean of a second, but for the A100 and A30 (NVML's
        # reference); before, it is that of the moment.
        is_mean = arch is not None and (
            arch > nvml.NVML_DEVICE_ARCH_AMPERE
            or (arch == nvml.NVML_DEVICE_ARCH_AMPERE and not self._is_ga100(index))
        )
        limit = self._ask(index, "limit", nvml.nvmlDeviceGetEnforcedPowerLimit, handle)
        memory = self._or_none(self._memory, handle)
        total = float(memory.total_bytes) if memory is not None else None
        clocks = [
            self._ask(index, f"top clock {kind}", nvml.nvmlDeviceGetMaxClockInfo, handle, kind)
            for kind in (nvml.NVML_CLOCK_SM, nvml.NVML_CLOCK_MEM)
        ]
        sm, mem = (None if clock is None else clock * 1e6 for clock in clocks)
        window: dict[str, Any] = {"average": True, "window_ns": window_ns}
        return [
            Column(f"{gpu}.util", gpu, "utilization", "%", "compute", 100.0, **window),
            Column(f"{gpu}.memutil", gpu, "memory_activity", "%", "memory", 100.0, **window),
            Column(f"{gpu}.mem", gpu, "memory", "B", "in use", total),
            Column(f"{gpu}.mem.session", gpu, "memory", "B", "this session", total),
            Column(f"{gpu}.clock.sm", gpu, "clock", "Hz", "SM", sm),
            Column(f"{gpu}.clock.mem", gpu, "clock", "Hz", "memory", mem),
            Column(
                f"{gpu}.power", gpu, "power", "W", "power", None if limit is None else limit / 1e3,
                average=is_mean, window_ns=1_000_000_000 if is_mean else None,
            ),
            Column(f"{gpu}.temp", gpu, "temperature", "°C", "GPU"),
            *self._link_columns(index, handle, gpu),
        ]  # fmt: skip

    def _link_columns(self, index: int, handle: Any, gpu: str) -> Iterator[Column]:
        window_ns = None if self._counts_pcie(index, handle) else _THROUGHPUT_NS
        for key, way in (("tx", "from the GPU"), ("rx", "to the GPU")):
            yield Column(
                f"{gpu}.pcie.{key}", gpu, "pcie", "B/s", way, average=True, window_ns=window_ns
            )
        for key, way in (("tx", "from the GPU"), ("rx", "to the GPU")):
            yield Column(f"{gpu}.nvlink.{key}", gpu, "nvlink", "B/s", way, average=True)

    def name(self, index: int) -> str:
        """The name of the GPU, such as ``"NVIDIA H200"``; empty when it does not say."""
        found = self._ask(index, "name", self._nvml.nvmlDeviceGetName, self._handle(index))
        return found.decode(errors="replace") if isinstance(found, bytes) else str(found or "")

    # ------------------------------------------------------------ what it says
    def counters(self, index: int) -> tuple[list[float | None], list[Process]]:
        """Clocks of the SMs and of the memory, power, temperature, bytes a second over PCIe from
        and to the GPU, and over NVLink, None where a counter is missing; and the processes.

        Raises:
            NVMLError: The GPU cannot be read.
        """
        handle, nvml = self._handle(index), self._nvml
        sm = self._ask(index, "sm", nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM)
        mem = self._ask(index, "memclock", nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_MEM)
        power = self._ask(index, "power", nvml.nvmlDeviceGetPowerUsage, handle)
        temperature = self._ask(
            index, "temp", nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU
        )
        values: list[float | None] = [
            None if sm is None else sm * 1e6,
            None if mem is None else mem * 1e6,
            None if power is None else power / 1e3,
            None if temperature is None else float(temperature),
            *self._pcie(index, handle),
            *self._nvlink(index, handle),
        ]
        return values, self._processes(index, handle)

    def _pcie(self, index: int, handle: Any) -> list[float | None]:
        nvml = self._nvml
        if self._counts_pcie(index, handle):
            fields = (nvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, nvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES)
            return self._rates(index, handle, "pcie", fields, 1)
        if not self._may_wait:
            return [None, None]
        found = [
            self._ask(index, f"pcie {way}", nvml.nvmlDeviceGetPcieThroughput, handle, way)
            for way in (nvml.NVML_PCIE_UTIL_TX_BYTES, nvml.NVML_PCIE_UTIL_RX_BYTES)
        ]
        return [None if kilobytes is None else kilobytes * 1e3 for kilobytes in found]

    def _nvlink(self, index: int, handle: Any) -> list[float | None]:
        nvml = self._nvml
        fields = (
            (nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, _ALL_LINKS),
            (nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, _ALL_LINKS),
        )
        return self._rates(index, handle, "nvlink", fields, 1024)

    def _counts_pcie(self, index: int, handle: Any) -> bool:
        """Whether the GPU counts its bytes over PCIe from its start on, in 64 bits: 32 of them
        overflow several times between two samples."""
        known = self._pcie_counts.get(index)
        if known is None:
            field = getattr(self._nvml, "NVML_FI_DEV_PCIE_COUNT_TX_BYTES", None)
            found = None if field is None else self._fields(index, handle, "pcie", (field,))
            known = self._pcie_counts[index] = found is not None and found[0] is not None
        return known

    def _rates(
        self, index: int, handle: Any, name: str, fields: tuple[Any, ...], unit: int
    ) -> list[float | None]:
        """Bytes a second since the last call, by counters that only grow."""
        found = self._fields(index, handle, name, fields)
        now_ns = time.monotonic_ns()
        rates: list[float | None] = []
        for number, count in enumerate(found or [None] * len(fields)):
            key = (index, f"{name} {number}")
            before = self._totals.pop(key, None)
            if count is None:
                rates.append(None)
                continue
            self._totals[key] = (now_ns, count)
            # A count that went back is one that was set to 0 anew.
            known = before is not None and before[0] < now_ns and before[1] <= count
            rates.append(
                (count - before[1]) * unit * 1e9 / (now_ns - before[0])
                if known and before is not None
                else None
            )
        return rates

    def _fields(
        self, index: int, handle: Any, name: str, fields: tuple[Any, ...]
    ) -> list[int | None] | None:
        found = self._ask(index, name, self._nvml.nvmlDeviceGetFieldValues, handle, list(fields))
        if found is None:
            return None
        wide = (_UNSIGNED_LONG, _UNSIGNED_LONG_LONG)
        return [
            int(value.value.ullVal) if value.nvmlReturn == 0 and value.valueType in wide else None
            for value in found
        ]

    def _processes(self, index: int, handle: Any) -> list[Process]:
        held: dict[int, int] = {}
        for name in ("Compute", "Graphics"):
            read = getattr(self._nvml, f"nvmlDeviceGet{name}RunningProcesses")
            for process in self._ask(index, f"processes {name}", read, handle) or ():
                if process.usedGpuMemory is not None:
                    # One that both computes and draws is in both lists, with the same memory.
                    held[process.pid] = max(held.get(process.pid, 0), int(process.usedGpuMemory))
        return sorted(held.items(), key=lambda item: -item[1])

    def _utilization_window_ns(self, index: int, handle: Any) -> int:
        """The window of the utilisation: what lies between the driver's own samples of it."""
        nvml = self._nvml
        kind = nvml.NVML_GPU_UTILIZATION_SAMPLES
        found = self._ask(index, "samples", nvml.nvmlDeviceGetSamples, handle, kind, 0)
        times = [sample.timeStamp for sample in found[1]] if found else []
        steps = sorted(b - a for a, b in itertools.pairwise(times) if b > a)
        if not steps:
            return _LONGEST_WINDOW_NS
        return min(int(steps[len(steps) // 2]) * 1000, _LONGEST_WINDOW_NS)

    def _is_ga100(self, index: int) -> bool:
        name = self.name(index)
        return "A100" in name or "A30" in name.split()

    def _handle(self, index: int) -> Any:
        handle = self._handles.get(index)
        if handle is None:
            handle = self._handles[index] = self._nvml.nvmlDeviceGetHandleByIndex(index)
        return handle

    def _ask(self, index: int, name: str, read: Callable[..., Any], *arguments: Any) -> Any:
        """The result of ``read``; None if the GPU lacks the counter, which is not asked again."""
        key = (index, name)
        if key in self._without:
            return None
        try:
            return read(*arguments)
        except self._nvml.NVMLError as error:
            if error.value in self._outdated or error.value == self._nvml.NVML_ERROR_NOT_FOUND:
                self._without.add(key)
                return None
            raise
