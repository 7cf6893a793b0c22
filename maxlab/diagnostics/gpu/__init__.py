"""Memory and utilisation of the GPUs of this machine, now or over time.

:class:`GPUDiagContext` reads them once; :class:`BackgroundRecorder` samples them from a process of
its own while a ``with`` block runs. NVIDIA GPUs are read with NVML (package ``nvidia-ml-py``), AMD
GPUs with AMD SMI (package ``amdsmi``). Each is used when its package and its library are there;
with neither, a machine simply has no GPUs and every snapshot is ``{}``.

The numbers are the vendors' samples: NVML's utilisation is the share of the last sampling window
(1/6 s to 1 s, by product) in which a kernel ran. How long one model took is told by events.
All GPUs of the machine are read, whatever ``CUDA_VISIBLE_DEVICES`` says, in the vendor's order.
"""

from __future__ import annotations

from maxlab.diagnostics.gpu.context import GPUDiagContext
from maxlab.diagnostics.gpu.recorder import BackgroundRecorder
from maxlab.diagnostics.gpu.stats import GPUStats, MemoryStats, UtilizationStats

__all__ = [
    "BackgroundRecorder",
    "GPUDiagContext",
    "GPUStats",
    "MemoryStats",
    "UtilizationStats",
]
