"""`CudaBackend`: whether there are NVIDIA GPUs, and if not, why; opens them."""

from __future__ import annotations

import os
import threading
import warnings
from typing import Any

from maxlab.driver.cuda.context import CudaContext
from maxlab.driver.cuda.faults import forked
from maxlab.errors import DeviceError
from maxlab.trace import emit

_INSTALL = "PyCUDA is not installed: pip install pycuda"
_NO_DRIVER = (
    "the NVIDIA driver is not installed: libcuda.so.1 was not found (in a container, start it "
    "with --gpus all)"
)


class CudaBackend:
    """All NVIDIA GPUs of this machine that the driver shows to this process.

    Example:
        >>> from maxlab.driver.cuda import backend
        >>> backend.name
        'cuda'
    """

    name = "cuda"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked = False
        self._driver: Any = None
        self._count = 0
        self._missing: list[str] = []
        self._process = 0
        self._contexts: dict[int, CudaContext] = {}

    def count(self) -> int:
        """How many devices there are; the first call starts the driver."""
        self._ask()
        return self._count

    def missing(self) -> list[str]:
        """Why there are none, a line each; empty if there are some."""
        self._ask()
        return list(self._missing)

    def open(self, id: int) -> CudaContext:
        """The context of device ``id``, opened once.

        Raises:
            DeviceError: ML410, there is no such device; ML444, this process is a fork of one that
                had started the driver; ML443, the driver refuses.
        """
        self._ask()
        if self._process != os.getpid() and self._driver is not None:
            raise forked(id)
        if not 0 <= id < self._count:
            raise DeviceError(
                "ML410",
                f"accelerator {id} was asked for, and there are {self._count}",
                why=self._missing,
                fix="count accelerators from 0; accelerator_count() says how many there are",
            )
        with self._lock:
            found = self._contexts.get(id)
            if found is None:
                found = self._contexts[id] = CudaContext(id, self._driver)
                emit("device", f"gpu:{id}", simulated=False, model=found.properties.name)
        return found

    def _ask(self) -> None:
        with self._lock:
            if self._asked:
                return
            self._asked = True
            self._process = os.getpid()
            try:
                with warnings.catch_warnings():
                    # What it warns of before it fails is told as the reason.
                    warnings.simplefilter("ignore")
                    import pycuda.driver as driver
            except ImportError as error:
                self._missing = _why_no_import(error)
                return
            try:
                driver.init()
                self._count = driver.Device.count()
            except driver.Error as error:
                self._missing = [f"the NVIDIA driver finds no GPU it can use: {error}"]
            else:
                self._driver = driver
                if not self._count:
                    self._missing = ["the NVIDIA driver shows no GPU to this process"]
            visible = os.environ.get("CUDA_VISIBLE_DEVICES")
            if self._missing and visible is not None:
                self._missing.append(f"CUDA_VISIBLE_DEVICES is {visible!r}")
            elif self._missing and not os.path.exists("/dev/nvidiactl"):
                self._missing.append("this machine shows no NVIDIA GPU (no /dev/nvidiactl)")


def _why_no_import(error: ImportError) -> list[str]:
    """Lines that say how to mend a PyCUDA that cannot be imported."""
    text = str(error)
    if "libcuda.so" in text:
        return [_NO_DRIVER]
    if isinstance(error, ModuleNotFoundError) and (error.name or "").split(".")[0] == "pycuda":
        return [_INSTALL]
    again = "pip install --force-reinstall --no-cache-dir pycuda"
    return [
        f"PyCUDA cannot be imported: {text}",
        f"if a symbol is undefined, it was built for another driver or Python: {again}",
    ]


backend = CudaBackend()
