"""AMD GPUs through AMD SMI, by the package ``amdsmi``."""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from maxlab.diagnostics.gpu._vendor import Reading, VendorError, reading
from maxlab.diagnostics.gpu.stats import MemoryStats, UtilizationStats

_LIBRARY = "libamd_smi.so"
# The compute driver's device: there whenever an AMD driver has GPUs.
_CONTROL = "/dev/kfd"

# Status codes, which are part of the library's ABI.
_NO_DRIVER = frozenset({34, 51})  # DRIVER_NOT_LOADED, NO_DRV
_ABSENT = frozenset({2, 3, 10, 40})  # NOT_SUPPORTED, NOT_YET_IMPLEMENTED, NO_PERM, NO_DATA

# Unlike NVML, AMD SMI has not always counted how often it was started: we do.
_lock = threading.Lock()
_users = 0


class AMDSMI:
    """The GPUs that the AMD driver knows."""

    prefix = "amd"

    def __init__(self) -> None:
        self._smi: Any = None
        self._handles: list[Any] = []

    def open(self) -> bool:
        """Whether AMD SMI runs now; False without its library, its driver or its package.

        Raises:
            VendorError: There is an AMD driver and AMD SMI cannot be used.
        """
        spec = importlib.util.find_spec("amdsmi")
        if spec is None or not _library_loads(spec.origin):
            if os.path.exists(_CONTROL):
                missing = "package amdsmi" if spec is None else f"library {_LIBRARY}"
                raise VendorError(f"the AMD driver is here, and the {missing} is not installed")
            return False
        try:
            smi = importlib.import_module("amdsmi")
        except (ImportError, AttributeError, KeyError, OSError) as error:
            # The package looks up every function of its library as it is imported.
            raise VendorError(f"the package amdsmi does not fit its library: {error}") from error
        try:
            _start(smi)
        except smi.AmdSmiException as error:
            if _status(error) in _NO_DRIVER:
                return False
            raise VendorError(f"AMD SMI does not start: {_text(error)}") from error
        self._smi = smi
        try:
            self._handles = list(smi.amdsmi_get_processor_handles())
        except smi.AmdSmiException as error:
            self.close()
            raise VendorError(f"AMD SMI cannot list its GPUs: {_text(error)}") from error
        return True

    def close(self) -> None:
        """Shut AMD SMI down when nobody here uses it any more."""
        smi, self._smi = self._smi, None
        self._handles = []
        if smi is not None:
            _stop(smi)

    def read(self) -> Iterator[Reading]:
        """Every GPU in the order of the library; one that fails has no stats."""
        for index, handle in enumerate(self._handles):
            try:
                yield self._read(index, handle)
            except self._smi.AmdSmiException as error:
                yield Reading(index, None, f"cannot be read: {_text(error)}")

    def _read(self, index: int, handle: Any) -> Reading:
        smi = self._smi
        vram = smi.AmdSmiMemoryType.VRAM
        total = self._or_none(smi.amdsmi_get_gpu_memory_total, handle, vram)
        used = self._or_none(smi.amdsmi_get_gpu_memory_usage, handle, vram)
        activity = self._or_none(smi.amdsmi_get_gpu_activity, handle) or {}
        # A counter that one product lacks is the text "N/A".
        gpu, memory_activity = (
            value if isinstance(value := activity.get(key), int) else None
            for key in ("gfx_activity", "umc_activity")
        )
        missing = []
        memory = utilization = None
        if total is None or used is None:
            missing.append("memory")
        else:
            # Between the two calls memory may be freed, never more than there is.
            memory = MemoryStats(total, max(total - used, 0), used, None)
        if gpu is None:
            missing.append("utilization")
        if gpu is not None or memory_activity is not None:
            utilization = UtilizationStats(gpu or 0, memory_activity)
        return reading(index, memory, utilization, missing)

    def _or_none(self, read: Callable[..., Any], *arguments: Any) -> Any:
        """The result of ``read``, or None when the GPU has no such counter."""
        try:
            return read(*arguments)
        except self._smi.AmdSmiException as error:
            if _status(error) in _ABSENT:
                return None
            raise


def _library_loads(package: str | None) -> bool:
    """Whether the library is where the package looks for it.

    Asked first because ``import amdsmi`` prints to standard output where the library is missing.
    """
    rocm = os.environ.get("ROCM_HOME", os.environ.get("ROCM_PATH", "/opt/rocm"))
    places = [os.path.join(rocm, "lib", _LIBRARY), _LIBRARY]
    if package is not None:
        places.append(str(Path(package).with_name(_LIBRARY)))
    for place in places:
        try:
            ctypes.CDLL(place)
        except OSError:
            continue
        return True
    return False


def _start(smi: Any) -> None:
    global _users
    with _lock:
        if _users == 0:
            smi.amdsmi_init(smi.AmdSmiInitFlags.INIT_AMD_GPUS)
        _users += 1


def _stop(smi: Any) -> None:
    global _users
    with _lock:
        _users -= 1
        if _users == 0:
            try:
                smi.amdsmi_shut_down()
            except smi.AmdSmiException:
                pass  # the driver went away; there is nothing left to shut down


def _status(error: Exception) -> int | None:
    """The library's status code; None for an error that the package made itself."""
    status = getattr(error, "err_code", None)
    return status if isinstance(status, int) else None


def _text(error: Exception) -> str:
    """``error`` on one line; the package writes two."""
    return " ".join(str(error).split())
