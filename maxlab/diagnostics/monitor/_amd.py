"""Counters of AMD GPUs beyond those of ``GPUStats``: clocks, power, temperature, processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from maxlab.diagnostics.gpu._amdsmi import AMDSMI
from maxlab.diagnostics.monitor.line_format import Column

# The reference of AMD SMI: the activity is averaged by the firmware, over a second at most.
_WINDOW_NS = 1_000_000_000


class AMDCounters(AMDSMI):
    """The GPUs that the AMD driver knows, with all that a dashboard shows.

    AMD SMI measures traffic over PCIe by holding its caller for a second, so it is left out.
    """

    def columns(self, index: int) -> list[Column]:
        """The counters that GPU ``index`` may have.

        Raises:
            AmdSmiException: The GPU cannot be read.
        """
        smi, handle, gpu = self._smi, self._handles[index], f"{self.prefix}{index}"
        found = self._or_none(smi.amdsmi_get_gpu_memory_total, handle, smi.AmdSmiMemoryType.VRAM)
        total = None if found is None else float(found)
        tops = [
            _number(self._field(smi.amdsmi_get_clock_info, "max_clk", handle, kind), 1e6)
            for kind in (smi.AmdSmiClkType.GFX, smi.AmdSmiClkType.MEM)
        ]
        limit = _number(self._field(smi.amdsmi_get_power_info, "power_limit", handle), 1e-6)
        window: dict[str, Any] = {"average": True, "window_ns": _WINDOW_NS}
        return [
            Column(f"{gpu}.util", gpu, "utilization", "%", "compute", 100.0, **window),
            Column(f"{gpu}.memutil", gpu, "memory_activity", "%", "memory", 100.0, **window),
            Column(f"{gpu}.mem", gpu, "memory", "B", "in use", total),
            Column(f"{gpu}.mem.session", gpu, "memory", "B", "this session", total),
            Column(f"{gpu}.clock.sm", gpu, "clock", "Hz", "graphics", tops[0]),
            Column(f"{gpu}.clock.mem", gpu, "clock", "Hz", "memory", tops[1]),
            Column(f"{gpu}.power", gpu, "power", "W", "socket", limit),
            Column(f"{gpu}.temp", gpu, "temperature", "°C", "hot spot"),
        ]

    def name(self, index: int) -> str:
        """The name of the GPU; empty when it does not say."""
        smi = self._smi
        found = self._field(smi.amdsmi_get_gpu_asic_info, "market_name", self._handles[index])
        return "" if found in (None, "N/A") else str(found)

    def counters(self, index: int) -> tuple[list[float | None], list[tuple[int, int]]]:
        """Clocks of graphics and memory, power, temperature; and processes with their bytes.

        Raises:
            AmdSmiException: The GPU cannot be read.
        """
        smi, handle = self._smi, self._handles[index]
        clocks = [
            _number(self._field(smi.amdsmi_get_clock_info, "clk", handle, kind), 1e6)
            for kind in (smi.AmdSmiClkType.GFX, smi.AmdSmiClkType.MEM)
        ]
        power = _number(self._field(smi.amdsmi_get_power_info, "current_socket_power", handle))
        if power is None:
            power = _number(self._field(smi.amdsmi_get_power_info, "average_socket_power", handle))
        temperature = self._or_none(
            smi.amdsmi_get_temp_metric,
            handle,
            smi.AmdSmiTemperatureType.HOTSPOT,
            smi.AmdSmiTemperatureMetric.CURRENT,
        )
        held = {
            int(process["pid"]): int(process["memory_usage"]["vram_mem"])
            for process in self._or_none(smi.amdsmi_get_gpu_process_list, handle) or ()
        }
        values = [*clocks, power, _number(temperature)]
        return values, sorted(held.items(), key=lambda item: -item[1])

    def _field(self, read: Callable[..., Any], field: str, *arguments: Any) -> Any:
        found = self._or_none(read, *arguments)
        return None if found is None else found.get(field)


def _number(value: Any, scale: float = 1.0) -> float | None:
    """``value`` times ``scale``; None for the text "N/A", by which the package says that there is
    none, and for what is not there at all."""
    return value * scale if isinstance(value, int | float) and value >= 0 else None
