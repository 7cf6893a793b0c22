"""A loaded kernel of the simulator that takes its arguments as 64-bit words, as generated kernels
do; `SimModule` is for kernels of any signature.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from maxlab.config import config
from maxlab.driver.backend import FunctionFacts
from maxlab.driver.sim.module import (
    ANCHOR,
    MAX_SHARED,
    lines_of,
    raws_of,
    reports_of,
    runtime_api,
)
from maxlab.driver.sim.reports import Decoder, Place, Report
from maxlab.errors import DeviceError, ExecutionError
from maxlab.toolchain import gxx
from maxlab.toolchain.cffi_abi import ffi
from maxlab.toolchain.simkernels import SimKernel

MAX_WORKERS = 16
SLICE_MS = 50
"""How long a launch is waited for before Python may see Ctrl-C."""

Size3 = tuple[int, int, int]


class SimFunction:
    """A kernel ready to run."""

    def __init__(self, kernel: SimKernel, check: bool) -> None:
        self._kernel = kernel
        self._check = check
        self._api = runtime_api(kernel.runtime)
        self._entry = ffi.cast("void *", kernel.entry)
        self._shared: list[tuple[int, int]] | None = None
        self._anchor = ffi.cast("void *", kernel.anchor)

    @property
    def name(self) -> str:
        """The entry name."""
        return self._kernel.source.name

    @property
    def facts(self) -> FunctionFacts:
        """Facts without numbers: a GPU's compiler is not asked here."""
        return FunctionFacts(None, None, None)

    def run(
        self,
        grid: Size3,
        block: Size3,
        shared_bytes: int,
        arguments: Sequence[int],
        regions: Sequence[tuple[int, int]],
    ) -> None:
        """Run the kernel to its end.

        Args:
            grid: the number of blocks along each axis.
            block: the number of threads along each axis.
            shared_bytes: the size of the dynamic shared memory.
            arguments: a word for each parameter.
            regions: address and bytes of all memory that the kernel may touch; for checks.

        Raises:
            DeviceError: ML440 (a ValueError), more shared memory than a block has.
            ExecutionError: ML656 a fault or, with checks, the first thing that is wrong; ML657
                threads that wait for ever.
        """
        if not 0 <= shared_bytes <= MAX_SHARED:
            raise DeviceError(
                "ML440",
                f"{self.name} was launched with {shared_bytes} bytes of shared memory, a block "
                f"has {MAX_SHARED}",
                fix="use smaller tiles",
            )
        words = np.array(arguments, np.uint64)
        base = words.ctypes.data
        places = [ffi.cast("void *", base + 8 * n) for n in range(len(words))]
        pointers = ffi.new("void *[]", places or 1)  # read until the job has ended
        api = self._api
        job = api["cs_job_new"](
            self._entry,
            self._anchor,
            pointers,
            ffi.new("long long[]", [*grid, *block, shared_bytes, self._check]),
        )
        if self._check:
            for address, nbytes in regions:
                # Memory of any type: accesses are told apart byte by byte.
                api["cs_job_region"](job, address, nbytes, 1, 0)
            for offset, nbytes in self._shared_arrays():
                api["cs_job_region"](job, offset, nbytes, 1, 1)
            api["cs_job_dynamic"](job, 1)
        blocks = grid[0] * grid[1] * grid[2]
        workers = 1 if self._check else min(config().num_threads, blocks, MAX_WORKERS)
        api["cs_job_start"](job, workers)
        ended = False
        try:
            while not api["cs_job_wait"](job, SLICE_MS):
                pass
            ended = True
        finally:
            # Whatever happens, the job's memory is in use until its threads have left it.
            while not api["cs_job_wait"](job, 0 if ended else 1):
                api["cs_job_cancel"](job)
            try:
                reports = self._reports(job, grid, block)
            finally:
                api["cs_job_free"](job)
        if reports:
            first = reports[0]
            raise ExecutionError(
                "ML657" if first.kind == "divergent-barrier" else "ML656",
                f"{first.kind} in kernel {self.name}: {first.message}",
                why=str(first).splitlines()[1:],
                fix=first.fix,
            )

    def _shared_arrays(self) -> list[tuple[int, int]]:
        """Where the library's shared arrays are, from the anchor, and their bytes."""
        if self._shared is None:
            symbols = gxx.thread_local_symbols(self._kernel.path)
            base = next(s.offset for s in symbols if s.name == ANCHOR)
            self._shared = [(s.offset - base, s.nbytes) for s in symbols if s.name != ANCHOR]
        return self._shared

    def _reports(self, job: Any, grid: Size3, block: Size3) -> list[Report]:
        """The findings of the launch, in words."""
        raws = raws_of(self._api, job)
        kernel = self._kernel
        lines = lines_of(raws, kernel.path, f"{self.name}.cu")
        decoder = Decoder(self.name, kernel.source.text, grid, block, lines)
        return reports_of(raws, decoder, lambda _: Place("", None, None))


__all__ = ["SimFunction"]
