"""Kernels on the device: cubins of the toolchain as modules, and `CudaFunction`."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from maxlab.driver.backend import DeviceSource, FunctionFacts, Loaded
from maxlab.driver.cuda.opened import Opened
from maxlab.toolchain.cuda import CudaFlags, CudaUnit, compile_cuda
from maxlab.toolchain.flags import ACCURACIES, Accuracy

_WITHOUT_OPT_IN = 48 << 10  # shared memory that every block can have
_WORD = (1 << 64) - 1
_PACKERS = [struct.Struct(f"{count}Q") for count in range(33)]


class CudaFunction:
    """A loaded kernel.

    Attributes:
        name: its entry name.
        facts: what the compiler made of it; spilled bytes as ptxas counts them.
    """

    __slots__ = ("_dynamic", "_kernel", "_opt_in", "facts", "name")

    def __init__(self, name: str, kernel: Any, attributes: Any, unit: CudaUnit) -> None:
        self.name = name
        self._kernel = kernel
        shared = int(kernel.get_attribute(attributes.SHARED_SIZE_BYTES))
        local = int(kernel.get_attribute(attributes.LOCAL_SIZE_BYTES))
        self.facts = FunctionFacts(
            registers=int(kernel.get_attribute(attributes.NUM_REGS)),
            shared_bytes=shared,
            spill_bytes=local if unit.usage is None else unit.usage.spill_store_bytes,
        )
        # Most dynamic shared memory that a launch may ask for before the next opt-in.
        self._dynamic = _WITHOUT_OPT_IN - shared
        self._opt_in = attributes.MAX_DYNAMIC_SHARED_SIZE_BYTES

    def launch(
        self,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
        arguments: Sequence[int],
        stream: Any,
    ) -> None:
        """Start it; called by the owner."""
        kernel = self._kernel
        if shared_bytes > self._dynamic:
            kernel.set_attribute(self._opt_in, shared_bytes)
            self._dynamic = shared_bytes
        # What prepared_async_call does, without its search for the type of every argument.
        kernel._launch_kernel(grid, block, _packed(arguments), shared_bytes, stream)

    def forget(self) -> None:
        """Let PyCUDA's object go; the kernel cannot be launched any more."""
        self._kernel = None

    def __repr__(self) -> str:
        return f"CudaFunction({self.name}: {self.facts.registers} registers)"


class Kernels:
    """The kernels that a device has loaded, each once."""

    def __init__(self, context: Opened, driver: Any) -> None:
        self._context = context
        self._driver = driver
        self._modules: dict[bytes, Any] = {}
        self._functions: dict[tuple[str, Path], CudaFunction] = {}
        self._memo: dict[DeviceSource, CudaFunction] = {}

    def load(self, sources: Sequence[DeviceSource]) -> list[Loaded]:
        """See `CudaContext.load`."""
        fresh = list(dict.fromkeys(s for s in sources if s not in self._memo))
        found: dict[DeviceSource, Loaded] = {}
        if fresh:
            fresh.sort(key=lambda source: ACCURACIES.index(source.accuracy))  # as the units come
            units = [unit for one in ACCURACIES for unit in self._compiled(fresh, one)]
            functions = self._context.call(lambda: [self._open(unit) for unit in units])
            for source, unit, function in zip(fresh, units, functions, strict=True):
                self._memo[source] = function
                found[source] = Loaded(function, unit.hit, unit.why_miss, unit.ms)
        return [found.get(s) or Loaded(self._memo[s], True, None, 0.0) for s in sources]

    def _compiled(self, sources: Sequence[DeviceSource], accuracy: Accuracy) -> list[CudaUnit]:
        wanted = [source for source in sources if source.accuracy == accuracy]
        if not wanted:
            return []
        return compile_cuda(wanted, self._context.target, flags=CudaFlags(accuracy=accuracy))

    def forget(self) -> None:
        """Let all of PyCUDA's objects go; called by the owner at the end."""
        for function in self._functions.values():
            function.forget()
        self._modules.clear()

    def _open(self, unit: CudaUnit) -> CudaFunction:
        """The function of a compiled kernel; called by the owner."""
        found = self._functions.get((unit.name, unit.path))
        if found is None:
            driver = self._driver
            module = self._modules.get(unit.cubin)
            try:
                if module is None:
                    module = driver.module_from_buffer(unit.cubin)
                    self._modules[unit.cubin] = module
                    self._context.keep_module(module)
                kernel = module.get_function(unit.name)
            except driver.Error as error:
                raise self._context.translate(error, f"to load {unit.name}") from error
            made = CudaFunction(unit.name, kernel, driver.function_attribute, unit)
            found = self._functions[unit.name, unit.path] = made
        return found


def _packed(arguments: Sequence[int]) -> bytes:
    """The words of a launch as the driver takes them."""
    count = len(arguments)
    packer = _PACKERS[count] if count < len(_PACKERS) else struct.Struct(f"{count}Q")
    try:
        return packer.pack(*arguments)
    except struct.error:  # a negative number is the same word
        return packer.pack(*(argument & _WORD for argument in arguments))
