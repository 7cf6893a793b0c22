"""The records that a reading of a GPU is made of."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MemoryStats:
    """Memory of one GPU in bytes: in all, free, in use, and held by the driver.

    The three required numbers are 0 on a GPU that reports no memory of its own, such as one that
    shares the host's; ``GPUDiagContext.problems`` names such a GPU.

    Attributes:
        total_bytes: memory of the GPU.
        free_bytes: memory that can be allocated now.
        used_bytes: memory that is allocated now. Without what the driver holds when that is
            reported on its own, with it otherwise.
        reserved_bytes: memory that the driver and the firmware hold; None when the vendor does
            not report it.

    Example:
        >>> memory = MemoryStats(1000, 700, 200, reserved_bytes=100)
        >>> memory.used_bytes / memory.total_bytes
        0.2
    """

    total_bytes: int
    free_bytes: int
    used_bytes: int
    reserved_bytes: int | None


@dataclass(frozen=True, slots=True)
class UtilizationStats:
    """How busy one GPU was over the vendor's last sampling window, in percent.

    Attributes:
        gpu_usage_percent: share of the time in which the GPU computed, 0 to 100. It is 0 on a GPU
            that does not report it (an NVIDIA GPU in MIG mode), which
            ``GPUDiagContext.problems`` then names.
        memory_activity_percent: share of the time in which its memory was read or written, 0 to
            100; None when the vendor does not report it.

    Example:
        >>> UtilizationStats(gpu_usage_percent=87, memory_activity_percent=None).gpu_usage_percent
        87
    """

    gpu_usage_percent: int
    memory_activity_percent: int | None


@dataclass(frozen=True, slots=True)
class GPUStats:
    """One GPU at one moment: its memory and how busy it is.

    Attributes:
        memory: bytes in all, free, in use and reserved.
        utilization: percent of the time in which it computed and moved memory.

    Example:
        >>> gpu = GPUStats(MemoryStats(1000, 750, 250, None), UtilizationStats(40, 12))
        >>> f"{gpu.memory.used_bytes} bytes used, {gpu.utilization.gpu_usage_percent} % busy"
        '250 bytes used, 40 % busy'
    """

    memory: MemoryStats
    utilization: UtilizationStats
