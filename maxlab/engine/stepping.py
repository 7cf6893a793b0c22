"""A model run one step at a time, with the memory of every step to look at: `Walk`.

It is the run that ``Model.execute`` makes, by the same kernels on the same memory; only between two
steps somebody may look. What a step has read is still there when it has ended, because the plan
gives no step memory that it reads as memory to write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from maxlab.compiler.plan import GpuLaunch, Step
from maxlab.driver import CPU, Accelerator, Tensor
from maxlab.engine.frame import Frame
from maxlab.engine.handles import Made
from maxlab.engine.launching import host_launch
from maxlab.engine.layout import add_buffers
from maxlab.engine.model import Model
from maxlab.ir import Value
from maxlab.toolchain.cffi_abi import ffi

Array = np.ndarray[Any, Any]
POISON = 0xFF
"""The bytes of memory that no step has written yet: NaN as floats, so that what a step leaves out
is seen, and not what an earlier run left there."""


@dataclass(frozen=True, slots=True)
class HostCall:
    """How a step of the CPU is called: its numbers, and the chunks it is cut into."""

    dims: tuple[int, ...]
    extent: int
    grain: int
    scratch: int


@dataclass(frozen=True, slots=True)
class DeviceCall:
    """How a step of a GPU is launched: its launch, and the words behind its pointers."""

    launch: GpuLaunch
    tail: tuple[int, ...]
    device: Accelerator = field(repr=False)


class Walk:
    """One run of ``model`` on ``inputs``, a step at a time.

    Attributes:
        model: The model.
        env: The size of every symbolic dim.
        inputs: The inputs as tensors.

    Raises:
        InputError: Inputs that the model does not take.

    Example:
        >>> import numpy as np
        >>> from maxlab import engine
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType
        >>> with Graph("double", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        ...     graph.output(graph.inputs[0].tensor * 2)
        >>> walk = Walk(engine.InferenceSession().load(graph), [np.ones(3, np.float32)])
        >>> for step in walk:
        ...     print(step.id, [walk.array(slot) for slot in step.pointers])
        k0 [array([1., 1., 1.], dtype=float32), array([2., 2., 2.], dtype=float32)]
    """

    def __init__(self, model: Model, inputs: Sequence[Any]) -> None:
        self.model = model
        self.inputs = model.inputs_of(inputs)  # refuses wrong inputs
        self._made = Made(model.runtime)  # what it makes lives as long as it is looked at
        self._programs = model.programs_for(self.inputs)
        self._executable = self._programs[0].executable
        self.env: dict[str, int] = self._programs[-1].env
        # Its memory is its own: nobody else gets it while the walk is looked at.
        self._frames: list[Frame] = []
        made: dict[int, Tensor] = {}
        for program in self._programs:
            frame = program.new_frame()
            program.place(frame, self._frames[-1] if self._frames else None, self.inputs, made)
            self._frames.append(frame)
        self._addresses = self._frames[-1].addresses
        self._poison()
        add_buffers(model.compiled.plan, self.inputs, made)  # which nobody poisons
        self.outputs: list[Tensor] = [made[n] for n in sorted(made)]
        self._data: dict[int, Array] = {}
        self._again: dict[str, Tensor] = {}
        self._sources: dict[str, Tensor] = {}

    def __iter__(self) -> Iterator[Step]:
        """Each step, when it has run and all of its work has ended; of an op with regions the last
        one, when all of its turns have.

        Raises:
            ExecutionError: What the step found wrong, such as an index out of range.
        """
        steps = self._steps()
        while True:
            with self._made.taken():
                step = next(steps, None)
            if step is None:
                return
            yield step

    def _steps(self) -> Iterator[Step]:
        for program, frame in zip(self._programs, self._frames, strict=True):
            for run, step in program.pieces():
                run(frame, ())
                self._executable.wait()
                for faults in frame.fault.values():
                    faults.check()
                yield step

    def _poison(self) -> None:
        """Fill the memory that steps write."""
        for slot in self.model.compiled.plan.slots:
            address = self._addresses[slot.number]
            if slot.kind in ("output", "arena") and address:
                stream = self._executable.device_of(slot.device).default_stream
                stream.fill_bytes(address, POISON, slot.nbytes.evaluate(self.env))

    def nbytes(self, slot: int) -> int:
        """The bytes of the slot for these sizes."""
        return self.model.compiled.plan.slots[slot].nbytes.evaluate(self.env)

    def memory(self, slot: int) -> Array:
        """The bytes of a slot as they are now: the host's own memory, or a copy of a device's."""
        known = self._data.get(slot)
        if known is not None:
            return known
        slots = self.model.compiled.plan.slots
        prepared = self.model.prepared
        if slots[slot].kind == "weight" and slot not in prepared.addresses:
            found = self._computed_again(slots[slot].name, self.nbytes(slot))
        else:
            stream = self._executable.device_of(slots[slot].device).default_stream
            found = stream.bytes_at(self._addresses[slot], self.nbytes(slot))
        if slots[slot].kind in ("weight", "constant", "packed"):
            self._data[slot] = found  # nobody writes it
        return found

    def _computed_again(self, name: str, nbytes: int) -> Array:
        """The bytes of what was computed of weights and only packed."""
        again = self.model.prepared.again
        assert again is not None
        if not self._again:
            self._again = {key: x.to(CPU()) for key, x in again().items()}
        return _bytes_at(self._again[name].address, nbytes)

    def array(self, slot: int) -> Array:
        """What a slot holds, in the shape of its value and in the order in which it is stored."""
        place = self.model.compiled.plan.slots[slot]
        shape = [size.evaluate(self.env) for size in place.shape]
        flat: Array = self.memory(slot).view(place.dtype.ml_numpy)
        return flat.reshape(shape)

    def value(self, slot: int, value: Value) -> Array:
        """``value``, which the slot holds, with its dims in their order."""
        shape = tuple(d.evaluate(self.env) for d in value.tensor_type.shape)
        flat: Array = self.memory(slot).view(value.tensor_type.dtype.ml_numpy)
        order = self.model.compiled.schedule.layouts.get(value)
        if order is None or self.model.compiled.plan.slots[slot].kind == "output":
            return flat.reshape(shape)
        return flat.reshape([shape[n] for n in order]).transpose(np.argsort(order))

    def weights(self) -> dict[str, Array]:
        """The data of the weights that kernels read, flat, by name; before them, of those that were
        read when the model was loaded, as they are now."""
        found: dict[str, Array] = {}
        ahead = self.model.compiled.plan.facts.ahead
        for name in ahead.sources if ahead is not None else ():
            tensor = self.model.weights[name].to(CPU())
            self._sources[name] = tensor  # whose memory it is
            nbytes = tensor.num_elements * tensor.element_size
            found[name] = _bytes_at(tensor.address, nbytes).view(tensor.dtype.ml_numpy)
        for slot in self.model.compiled.plan.slots:
            if slot.kind == "weight" and slot.name not in found:
                found[slot.name] = self.memory(slot.number).view(slot.dtype.ml_numpy)
        return found

    def known(self, slot: int) -> bool:
        """Whether what the slot held is still there: weights that only kernels of the library read
        are packed, and what was packed while the model runs may be written over.
        """
        place = self.model.compiled.plan.slots[slot]
        return place.kind != "packed" and bool(place.value)

    def call_of(self, step: Step) -> HostCall | DeviceCall | None:
        """How ``step`` is called for these sizes; None for a transfer or a vendor's library."""
        for program in self._programs:
            for segment in program.segments:
                for kernel in segment.kernels:
                    if kernel.step is step:
                        if kernel.call is not None or segment.device is None:
                            return None
                        return DeviceCall(kernel.launch, tuple(kernel.tail), segment.device)
        if step.kind == "transfer":
            return None
        executable, env = self._executable, self.env
        launch = host_launch(step.launch, env, executable.threads, executable.runtime)
        sizes = [size.evaluate(env) for size in step.sizes]
        return HostCall((*sizes, *launch.extra), launch.extent, launch.grain, launch.scratch)


def host_array(tensor: Tensor) -> Array:
    """A copy of ``tensor`` as an array, of an ml_dtypes type where NumPy has none."""
    here = tensor if tensor.is_host else tensor.to(CPU())
    flat: Array = np.array(_bytes_at(here.address, here.num_elements * here.element_size))
    return flat.view(here.dtype.ml_numpy).reshape(tuple(here.shape))


def _bytes_at(address: int, nbytes: int) -> Array:
    if not nbytes:
        return np.zeros(0, np.uint8)
    return np.frombuffer(ffi.buffer(ffi.cast("char *", address), nbytes), np.uint8)


@contextmanager
def intercepted(model: Model, run: Callable[[Sequence[Any]], list[Tensor]]) -> Iterator[None]:
    """Let every execution of ``model`` be ``run(inputs)``, which gives its outputs, while the
    ``with`` block lasts. Runs whose steps are timed are the model's own.
    """
    before = model.__dict__.get("_run")

    # The attribute of the one model stands before the method of its class, so that models that
    # nobody watches do not ask for a watcher at every call.
    model.__dict__["_run"] = run
    try:
        yield
    finally:
        if before is None:
            del model.__dict__["_run"]
        else:
            model.__dict__["_run"] = before


__all__ = ["DeviceCall", "HostCall", "Walk", "host_array", "intercepted"]
