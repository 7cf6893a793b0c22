"""The shared part of the programs of one compiled graph: its code, its weights and its devices."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from maxlab.compiler import Compiled
from maxlab.compiler.plan import Slot
from maxlab.driver import CPU, Accelerator, Device
from maxlab.driver.accelerator import accelerators_of
from maxlab.driver.backend import DeviceSource, Function, Loaded
from maxlab.engine.executor import Executor
from maxlab.engine.frame import Blocks
from maxlab.engine.handles import handles_of
from maxlab.engine.host_steps import Formulas
from maxlab.engine.launching import device_launch
from maxlab.engine.layout import ArenaEntry, Sizes, slot_uses, stage_slots
from maxlab.engine.size_rules import SizeRules
from maxlab.engine.weights import Prepared
from maxlab.ir import DeviceRef

Variant = tuple[int, int]
"""A kernel of a plan: the number of its step, and which of the step's kernels."""


def load_kernels(
    compiled: Compiled, devices: Mapping[DeviceRef, Accelerator], wanted: Iterable[Variant]
) -> dict[Variant, Loaded]:
    """The loaded kernels ``wanted``, what is new of them compiled together.

    Raises:
        ToolchainError: no CUDA compiler, or it refused a kernel.
    """
    rows: dict[DeviceRef, list[tuple[Variant, DeviceSource]]] = {}
    for number, variant in wanted:
        step = compiled.plan.steps[number]
        assert step.gpu is not None
        printed = step.gpu.printed(variant)
        accuracy = compiled.options.accuracy
        source = DeviceSource(printed.symbol, printed.text, printed.headers, accuracy)
        rows.setdefault(step.device, []).append(((number, variant), source))
    found: dict[Variant, Loaded] = {}
    for place, pairs in rows.items():
        loaded = devices[place].context.load([source for _, source in pairs])
        found.update(zip((key for key, _ in pairs), loaded, strict=True))
    return found


def known_kernels(compiled: Compiled, devices: Mapping[DeviceRef, Accelerator]) -> list[Variant]:
    """The kernels that a model needs whatever its sizes are: of steps that have one, and of those
    whose sizes are known. Which of several kernels another step takes is known only with its sizes.
    """
    found: list[Variant] = []
    for step in compiled.plan.steps:
        if step.gpu is None:
            continue
        if len(step.gpu) == 1:
            found.append((step.number, 0))
            continue
        try:
            launch = device_launch(step.gpu.launch, {}, devices[step.device].context.properties)
        except KeyError:  # a symbolic size
            continue
        found.append((step.number, launch.variant))
    return found


class Executable:
    """The code, weights and devices of one compiled graph. Programs keep it, so that a run that is
    going on ends as it began when the model gets other code.

    Attributes:
        compiled: The graph, its kernels and its plan.
        rules: How the sizes of the inputs give all others.
        prepared: The weights.
        threads: Threads of the host.
        runtime: The runtime library.
        placed: The devices that the graph names, by these names; every other CPU is the host.
        devices: Those that are accelerators.
        accelerators: The same without their names, each once.
        slot_uses: The first and the last step that use each slot.
        stage_slots: The slots of arenas and outputs that each stage is the first to use.
        stage_arenas: The same, by their devices, of which each stage has all.
        formulas: The formulas of the steps of the host.
        layouts: Layouts of arenas that were made, by the bytes of their slots.
        executor: What runs steps of the host.
        handles: Which inputs and outputs are opaque handles; None for a graph without any.
        blocks: Memory of the host that the stages of all runs share.
        chosen: By the number of a step, which of its kernels it took last.
        kernels: The loaded kernels of accelerators.
        functions: What is launched of each of them.
        lock: Held while a program is bound.
    """

    def __init__(
        self,
        compiled: Compiled,
        prepared: Prepared,
        threads: int,
        runtime: Any,
        placed: Mapping[DeviceRef, Device],
    ) -> None:
        self.compiled = compiled
        self.rules = SizeRules(compiled.plan)
        self.prepared = prepared
        self.threads = threads
        self.runtime = runtime
        self.placed = dict(placed)
        self.devices = accelerators_of(placed)
        self.accelerators = list(dict.fromkeys(self.devices.values()))
        self.handles = handles_of(compiled.plan, runtime)
        self.slot_uses = slot_uses(compiled)
        self.stage_slots = stage_slots(compiled)
        self.stage_arenas = [self._by_device(slots) for slots in self.stage_slots]
        self.formulas = Formulas(compiled.plan.steps)
        self.layouts: dict[Sizes, tuple[list[ArenaEntry], int]] = {}
        self.executor = Executor(compiled, prepared.watch, threads, runtime, self.handles)
        self.blocks = Blocks(runtime)
        self.chosen: dict[int, int] = {}
        self.kernels: dict[Variant, Loaded] = {}
        self.functions: dict[Variant, Function] = {}
        self.lock = threading.RLock()
        self.load(known_kernels(compiled, self.devices))

    def load(self, wanted: Iterable[Variant]) -> None:
        """Load those of the kernels ``wanted`` that are not there.

        Raises:
            ToolchainError: no CUDA compiler, or it refused a kernel.
        """
        new = [key for key in dict.fromkeys(wanted) if key not in self.kernels]
        if new:
            start = time.perf_counter_ns()
            loaded = load_kernels(self.compiled, self.devices, new)
            self.compiled.timings_ns["kernels"] += time.perf_counter_ns() - start
            self.kernels.update(loaded)
            self.functions.update({key: one.function for key, one in loaded.items()})

    def _by_device(self, slots: Sequence[Slot]) -> dict[Device, list[Slot]]:
        found: dict[Device, list[Slot]] = {}  # several names may mean the host
        for slot in self.compiled.plan.slots:
            found.setdefault(self.device_of(slot.device), [])
        for slot in slots:
            found[self.device_of(slot.device)].append(slot)
        return found

    def device_of(self, ref: DeviceRef) -> Device:
        """The device that the graph calls ``ref``."""
        return self.placed.get(ref, HOST)

    def wait(self) -> None:
        """Return when the accelerators have done all that they were given.

        Raises:
            ExecutionError: A kernel found something wrong in an earlier call.
        """
        for device in self.accelerators:
            device.default_stream.synchronize()


HOST = CPU()

__all__ = ["HOST", "Executable", "known_kernels", "load_kernels"]
