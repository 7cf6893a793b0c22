"""The loaded kernels of a plan; better code may take the place of some while the model runs."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable
from typing import Protocol

from maxlab.toolchain import KernelSource, LoadedKernel
from maxlab.toolchain.sources import FIRST


class Table(Protocol):
    """Where the addresses of kernels are written down for an executor."""

    def put(self, number: int, address: int) -> None:
        """Let the step ``number`` run the code at ``address`` from now on, if it is in here."""


class StepKernels(dict[int, LoadedKernel]):
    """The loaded machine code of each step, by step number.

    Quick code, parts and optimised code of a kernel give the same results, and stay loaded; so an
    address may change between two runs, and while one goes on.
    """

    def __init__(self, kernels: Iterable[tuple[int, LoadedKernel]] = ()) -> None:
        super().__init__(kernels)
        self.tables: weakref.WeakSet[Table] = weakref.WeakSet()
        self._numbers: dict[KernelSource, list[int]] = {}
        self._early: dict[KernelSource, LoadedKernel] = {}  # better before it was needed
        self._lock = threading.Lock()

    def loaded(self, units: dict[int, KernelSource], kernels: list[LoadedKernel]) -> None:
        """Take ``kernels``, which are those of ``units``, or what is better already."""
        with self._lock:
            for (number, unit), kernel in zip(units.items(), kernels, strict=True):
                self[number] = self._early.get(unit, kernel)
                if kernel.tier in FIRST:
                    self._numbers.setdefault(unit, []).append(number)
            self._early.clear()

    @property
    def are_final(self) -> bool:
        """Whether no better code is expected."""
        return not any(kernel.tier in FIRST for kernel in self.values())

    def write_in(self, table: Table) -> None:
        """Let ``table`` have the newest addresses, now and from now on."""
        with self._lock:
            self.tables.add(table)
            for numbers in self._numbers.values():
                for number in numbers:
                    table.put(number, self[number].address)

    def improve(self, unit: KernelSource, kernel: LoadedKernel) -> None:
        """Run ``kernel`` instead of what ``unit`` began with."""
        with self._lock:
            if unit not in self._numbers:
                self._early[unit] = kernel
            for number in self._numbers.get(unit, ()):
                self[number] = kernel
                for table in list(self.tables):
                    table.put(number, kernel.address)
