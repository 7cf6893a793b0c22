"""The GPUs of this machine, read once at a time, whoever made them."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import TracebackType
from typing import Self

from maxlab import trace
from maxlab.diagnostics.gpu._amdsmi import AMDSMI
from maxlab.diagnostics.gpu._nvml import NVML
from maxlab.diagnostics.gpu._vendor import Vendor, VendorError
from maxlab.diagnostics.gpu.stats import GPUStats
from maxlab.errors import DeviceError


class GPUDiagContext(AbstractContextManager["GPUDiagContext"]):
    """A context manager that reads all GPUs of this machine, of NVIDIA and of AMD alike.

    Entering it starts the vendors' libraries that are there, leaving it lets go of them. It may be
    entered again after it was left, and other contexts may be open at the same time.

    Nothing of a GPU stops the program that watches it: a GPU that is lost is left out until it
    comes back, a counter that is missing is None (0 where a number is required), and
    :attr:`problems` says which and why. Each new problem is also a ``"warning"`` event.

    Example:
        >>> from maxlab.diagnostics.gpu import GPUDiagContext
        >>> with GPUDiagContext() as ctx:
        ...     stats = ctx.get_stats()
        >>> used = {gpu_id: gpu.memory.used_bytes for gpu_id, gpu in stats.items()}
        >>> all(gpu_id.startswith(("nv", "amd")) for gpu_id in used)
        True
    """

    def __init__(self) -> None:
        self._open: list[Vendor] | None = None
        self._unusable: dict[str, str] = {}
        self._problems: dict[str, str] = {}

    def __enter__(self) -> Self:
        """This context, with the vendors' libraries started.

        Raises:
            DeviceError: ML430 (a RuntimeError), it is open already.
        """
        if self._open is not None:
            raise DeviceError(
                "ML430",
                "this GPUDiagContext is open already",
                fix="make a second GPUDiagContext(); any number may be open at once",
            )
        self._open = []
        self._unusable = {}
        self._problems = {}
        vendors: tuple[Vendor, ...] = (NVML(), AMDSMI())
        for vendor in vendors:
            try:
                if vendor.open():
                    self._open.append(vendor)
            except VendorError as error:
                self._unusable[vendor.prefix] = str(error)
        self._report(dict(self._unusable))
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        """Let go of the vendors' libraries; exceptions of the block go on."""
        vendors, self._open = self._open, None
        for vendor in vendors or ():
            vendor.close()

    def get_stats(self) -> dict[str, GPUStats]:
        """All GPUs by identifier: ``nv0``, ``nv1``… of NVIDIA, ``amd0``, ``amd1``… of AMD.

        Memory is in bytes, utilisation in percent. Empty on a machine without GPUs. A GPU that
        cannot be read now is left out; the others keep their identifiers.

        Raises:
            DeviceError: ML430 (a RuntimeError), the context is not open.
        """
        if self._open is None:
            raise DeviceError(
                "ML430",
                "GPU statistics were asked of a GPUDiagContext that is not open",
                fix="call get_stats() inside `with GPUDiagContext() as ctx:`",
            )
        stats: dict[str, GPUStats] = {}
        problems = dict(self._unusable)
        for vendor in self._open:
            for reading in vendor.read():
                gpu_id = f"{vendor.prefix}{reading.index}"
                if reading.stats is not None:
                    stats[gpu_id] = reading.stats
                if reading.problem is not None:
                    problems[gpu_id] = reading.problem
        self._report(problems)
        return stats

    @property
    def problems(self) -> dict[str, str]:
        """Statistics that could not be read at the last :meth:`get_stats`, and why.

        The key is the identifier of a GPU, or ``nv`` or ``amd`` when a vendor's library as a whole
        cannot be used though its driver is there. Empty when all is well, and also on a machine
        that simply has no GPU.

        Example:
            >>> with GPUDiagContext() as ctx:
            ...     stats = ctx.get_stats()
            ...     unreadable = sorted(set(ctx.problems) - set(stats))
            >>> isinstance(unreadable, list)
            True
        """
        return dict(self._problems)

    def _report(self, problems: dict[str, str]) -> None:
        for gpu_id, reason in problems.items():
            if self._problems.get(gpu_id) != reason:
                trace.emit("warning", "gpu", gpu=gpu_id, message=reason)
        self._problems = problems
