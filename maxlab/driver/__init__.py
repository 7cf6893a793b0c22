"""Devices, streams and tensors: where data lives, and how it moves.

Stands on the toolchain, whose C interface it allocates with, and below the graph: it knows
dtypes and memory, not operations. Importing it compiles nothing and touches no GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from maxlab.collector import importing

with importing():
    from maxlab.driver.accelerator import (
        Accelerator,
        DeviceSpec,
        accelerator_api,
        accelerator_architecture_name,
        accelerator_count,
        devices_exist,
        load_devices,
        scan_available_devices,
        simulated,
        use_simulator,
    )
    from maxlab.driver.device import CPU, Device, DeviceStream
    from maxlab.driver.dlpack import DLPackArray, ExportError
    from maxlab.driver.memory import MemoryStats, live_blocks, memory_stats, name_block
    from maxlab.driver.tensor import Tensor, TensorIndexError
    from maxlab.driver.virtual import cpu_count, use_virtual_cpus, virtual_cpus
    from maxlab.errors import missing

__all__ = [
    "CPU",
    "Accelerator",
    "DLPackArray",
    "Device",
    "DeviceSpec",
    "DeviceStream",
    "ExportError",
    "MemoryStats",
    "Tensor",
    "TensorIndexError",
    "accelerator_api",
    "accelerator_architecture_name",
    "accelerator_count",
    "cpu_count",
    "devices_exist",
    "live_blocks",
    "load_devices",
    "memory_stats",
    "name_block",
    "scan_available_devices",
    "simulated",
    "use_simulator",
    "use_virtual_cpus",
    "virtual_cpus",
]

_INSTEAD = {
    **dict.fromkeys(
        ("devices", "device_count", "list_devices", "get_devices", "available_devices"),
        "driver.accelerator_count(), driver.scan_available_devices()",
    ),
    **dict.fromkeys(("GPU", "CUDA"), "driver.Accelerator(); driver.accelerator_count() tells"),
    **dict.fromkeys(("cpu", "Cpu"), "driver.CPU()"),
    "synchronize": "driver.CPU().synchronize(), and as much of an accelerator",
    **dict.fromkeys(
        ("empty_cache", "memory_allocated", "mem_get_info"), "driver.CPU().stats has the memory"
    ),
    **dict.fromkeys(("current_device", "get_device"), "maxlab.device('cpu'), tensor.device"),
    **dict.fromkeys(("zeros", "empty", "ones"), "driver.Tensor.zeros([2], DType.float32)"),
    **dict.fromkeys(("from_numpy", "array", "asarray"), "driver.Tensor.from_numpy(array)"),
    "is_available": "driver.accelerator_count() > 0",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Raises the error for a name that is not there, with the name to use instead."""
        raise missing("driver", name, __all__, _INSTEAD)
