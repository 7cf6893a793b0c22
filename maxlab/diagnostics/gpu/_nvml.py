"""NVIDIA GPUs through NVML, by the package ``nvidia-ml-py`` (module ``pynvml``)."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator
from typing import Any

from maxlab.diagnostics.gpu._vendor import Reading, VendorError, reading
from maxlab.diagnostics.gpu.stats import MemoryStats, UtilizationStats

# The driver's control device: there whenever an NVIDIA driver has GPUs, container or not.
_CONTROL = "/dev/nvidiactl"


class NVML:
    """The GPUs that the NVIDIA driver knows."""

    prefix = "nv"

    def __init__(self) -> None:
        self._nvml: Any = None
        self._count = 0
        self._handles: dict[int, Any] = {}
        # Error codes of a counter that this GPU, driver or user does not have. Any other error
        # is one of the GPU itself.
        self._absent: frozenset[int] = frozenset()
        self._outdated: frozenset[int] = frozenset()

    def open(self) -> bool:
        """Whether NVML runs now; False without its library, its driver or its package.

        Raises:
            VendorError: There is an NVIDIA driver and NVML cannot be used.
        """
        try:
            nvml = importlib.import_module("pynvml")
        except ImportError:
            if os.path.exists(_CONTROL):
                raise VendorError(
                    "the NVIDIA driver is here, and the package nvidia-ml-py is not installed; "
                    "pip install nvidia-ml-py"
                ) from None
            return False
        try:
            nvml.nvmlInit()
        except nvml.NVMLError as error:
            if error.value in (
                nvml.NVML_ERROR_LIBRARY_NOT_FOUND,
                nvml.NVML_ERROR_DRIVER_NOT_LOADED,
            ):
                return False
            raise VendorError(f"NVML does not start: {error}") from error
        self._nvml = nvml
        self._absent = frozenset(
            (
                nvml.NVML_ERROR_NOT_SUPPORTED,
                nvml.NVML_ERROR_NO_PERMISSION,
                nvml.NVML_ERROR_FUNCTION_NOT_FOUND,
            )
        )
        # 25 is NVML_ERROR_ARGUMENT_VERSION_MISMATCH, which older packages have no name for.
        self._outdated = self._absent | {nvml.NVML_ERROR_INVALID_ARGUMENT, 25}
        try:
            self._count = nvml.nvmlDeviceGetCount()
        except nvml.NVMLError as error:
            self.close()
            raise VendorError(f"NVML cannot count its GPUs: {error}") from error
        return True

    def close(self) -> None:
        """Shut NVML down, as often as it was opened here."""
        nvml, self._nvml = self._nvml, None
        self._handles.clear()
        self._count = 0
        if nvml is not None:
            try:
                nvml.nvmlShutdown()
            except nvml.NVMLError:
                pass  # the driver went away; there is nothing left to shut down

    def read(self) -> Iterator[Reading]:
        """Every GPU by its NVML index; one that is lost has no stats, and may come back."""
        for index in range(self._count):
            try:
                yield self._read(index)
            except self._nvml.NVMLError as error:
                # A handle may outlive its GPU: the next sample asks for a new one.
                self._handles.pop(index, None)
                yield Reading(index, None, f"cannot be read: {error}")

    def _read(self, index: int) -> Reading:
        handle = self._handles.get(index)
        if handle is None:
            handle = self._handles[index] = self._nvml.nvmlDeviceGetHandleByIndex(index)
        missing = []
        memory = self._or_none(self._memory, handle)
        utilization = self._or_none(self._nvml.nvmlDeviceGetUtilizationRates, handle)
        mig = (memory is None or utilization is None) and self._in_mig_mode(handle)
        if memory is None and mig:
            memory = self._memory_of_instances(handle)
        if memory is None:
            missing.append("memory")
        if utilization is None:
            missing.append("utilization" + (" (it is in MIG mode)" if mig else ""))
        return reading(
            index,
            memory,
            utilization and UtilizationStats(int(utilization.gpu), int(utilization.memory)),
            missing,
        )

    def _or_none(self, read: Callable[..., Any], *arguments: Any) -> Any:
        """The result of ``read``, or None when the GPU has no such counter."""
        try:
            return read(*arguments)
        except self._nvml.NVMLError as error:
            if error.value in self._absent:
                return None
            raise

    def _memory(self, handle: Any) -> MemoryStats:
        # The second version of the call tells the driver's part from the programs'.
        version = getattr(self._nvml, "nvmlMemory_v2", None)
        if version is not None:
            try:
                info = self._nvml.nvmlDeviceGetMemoryInfo(handle, version=version)
                return MemoryStats(info.total, info.free, info.used, info.reserved)
            except self._nvml.NVMLError as error:
                if error.value not in self._outdated:
                    raise
        info = self._nvml.nvmlDeviceGetMemoryInfo(handle)
        return MemoryStats(info.total, info.free, info.used, None)

    def _in_mig_mode(self, handle: Any) -> bool:
        mode = self._or_none(self._nvml.nvmlDeviceGetMigMode, handle)
        return mode is not None and mode[0] == 1

    def _memory_of_instances(self, handle: Any) -> MemoryStats | None:
        """The memory of all MIG instances together, or None when none can be read.

        A container may be given instances of a GPU and not be allowed to read the GPU itself.
        """
        found = []
        for index in range(self._or_none(self._nvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0):
            try:
                instance = self._nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
            except self._nvml.NVMLError:
                continue  # this slot holds no instance, or not one of ours
            memory = self._or_none(self._memory, instance)
            if memory is not None:
                found.append(memory)
        if not found:
            return None
        reserved = [memory.reserved_bytes for memory in found if memory.reserved_bytes is not None]
        return MemoryStats(
            sum(memory.total_bytes for memory in found),
            sum(memory.free_bytes for memory in found),
            sum(memory.used_bytes for memory in found),
            sum(reserved) if len(reserved) == len(found) else None,
        )
