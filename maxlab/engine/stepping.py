"""A model run one step at a time, with the memory of every step to look at: `Walk`.

It is the run that ``Model.execute`` makes, by the same kernels on the same memory; only between two
steps somebody may look. What a step has read is still there when it has ended, because the plan
gives no step memory that it reads as memory to write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from maxlab.compiler.plan import GpuLaunch, Step
from maxlab.driver import CPU, Accelerator, Tensor
from maxlab.driver.tensor import host_tensor
from maxlab.engine.binding import Binding, Frame, HostSteps, add_buffers
from maxlab.engine.device_binding import DeviceBinding, DeviceFrame, Kernel, Segment
from maxlab.engine.device_model import DeviceModel
from maxlab.engine.file_watch import settled
from maxlab.engine.handles import Made
from maxlab.engine.launching import host_launch
from maxlab.engine.model import Model
from maxlab.engine.staged_model import Blocks, Run, Stage, StagedModel
from maxlab.ir import DeviceRef, Value
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
        self._made = Made(model._runtime)  # what it makes lives as long as it is looked at
        self.outputs: list[Tensor] = []
        self._at: _HostWalk | _StagedWalk | _DeviceWalk
        if isinstance(model, DeviceModel):
            self._at = _DeviceWalk(model, self.inputs)
        elif isinstance(model, StagedModel):
            self._at = _StagedWalk(model, self.inputs)
        else:
            self._at = _HostWalk(model, self.inputs)
        self.env: dict[str, int] = self._at.env
        self.outputs = self._at.outputs
        self._data: dict[int, Array] = {}
        self._again: dict[str, Tensor] = {}
        self._sources: dict[str, Tensor] = {}

    def __iter__(self) -> Iterator[Step]:
        """Each step, when it has run and all of its work has ended; of an op with regions the last
        one, when all of its turns have.

        Raises:
            ExecutionError: What the step found wrong, such as an index out of range.
        """
        steps = self._at.run()
        while True:
            with self._made.taken():
                step = next(steps, None)
            if step is None:
                return
            yield step

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
            found = self._at.memory(slot, self.nbytes(slot))
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
        ahead = self.model.compiled.ahead
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
        return self._at.call_of(step)


def whole_steps(programs: Sequence[range], numbers: range) -> Iterator[tuple[int, int]]:
    """The first and the last of ``numbers`` of what is run in one go: a step, or all steps of an op
    that has regions."""
    ends = {steps.start: steps[-1] for steps in programs}
    at = numbers.start
    while at < numbers.stop:
        last = ends.get(at, at)
        yield at, last
        at = last + 1


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

    def shadow(args: Sequence[Any], times: Any) -> list[Tensor]:
        return run(args) if times is None else type(model)._run(model, args, times)

    # The attribute of the one model stands before the method of its class, so that models that
    # nobody watches do not ask for a watcher at every call.
    model.__dict__["_run"] = shadow
    try:
        yield
    finally:
        if before is None:
            del model.__dict__["_run"]
        else:
            model.__dict__["_run"] = before


def _poison(address: int, nbytes: int) -> None:
    ffi.buffer(ffi.cast("char *", address), nbytes)[:] = bytes([POISON]) * nbytes


class _HostWalk:
    """The steps of a model of the CPU."""

    def __init__(self, model: Model, inputs: Sequence[Tensor]) -> None:
        self._model = model
        self.binding: Binding = model._bind(tuple(x._shape for x in inputs))
        self.env = self.binding.env
        self._frame: Frame = self.binding._new_frame()
        self.outputs: list[Tensor] = []
        for dtype, shape, nbytes in self.binding.outputs:
            if dtype is None:  # a buffer, which nobody poisons
                self.outputs.append([*inputs, *self.outputs][nbytes])
                continue
            x = host_tensor(dtype, shape, nbytes)
            _poison(x.address, x.num_elements * x.element_size)
            self.outputs.append(x)
        _poison(int(ffi.cast("uintptr_t", self._frame.arena)), self.binding.arena_nbytes)
        for position, x in enumerate([*inputs, *self.outputs]):
            self._frame.io[position] = x.address
        slots = model.compiled.plan.slots
        self._addresses: dict[int, int] = {}
        for position, number in enumerate(self.binding._pointers):
            self._addresses[number] = int(self._frame.keep[position])
        for slot in slots:
            if slot.kind == "input":
                self._addresses[slot.number] = inputs[slot.index].address
            elif slot.kind == "output":
                self._addresses[slot.number] = self.outputs[slot.index].address
            elif slot.number in model.prepared.addresses:
                self._addresses[slot.number] = model.prepared.addresses[slot.number]

    def run(self) -> Iterator[Step]:
        model, binding, frame = self._model, self.binding, self._frame
        plan = model.compiled.plan
        for first, last in whole_steps(plan.programs, range(len(plan.steps))):
            execute = model._execute_program if last > first else model._execute_c
            code = execute(
                model._team,
                binding.steps + first,
                last - first + 1,
                frame.argp,
                binding.dims,
                binding.patches,
                binding.npatch,
                frame.pointers,
                binding.scratch,
                model._null,
                frame.info,
            )
            code = settled(code, model.prepared.watch, self._addresses.values())
            if code:
                info = list(frame.info)
                info[0] += first
                model._failed(code, info, binding.env)
            yield plan.steps[last]

    def memory(self, slot: int, nbytes: int) -> Array:
        return _bytes_at(self._addresses[slot], nbytes)

    def call_of(self, step: Step) -> HostCall:
        launch = self.binding.launches[step.number]
        sizes = [size.evaluate(self.binding.env) for size in step.sizes]
        return HostCall((*sizes, *launch.extra), launch.extent, launch.grain, launch.scratch)


class _StagedWalk:
    """The steps of a model of the CPU whose dims are in part computed."""

    def __init__(self, model: StagedModel, inputs: Sequence[Tensor]) -> None:
        self._model = model
        self._stages: list[Stage] = model.stages_of(inputs)
        self.env = self._stages[-1].env
        # Its memory is its own: nobody else gets it while the walk is looked at.
        self._run = Run(self._stages[0].program, inputs, Blocks(model._runtime))
        for stage in self._stages:
            self._run.enter(stage)
        for size, block in self._run.blocks:
            _poison(int(ffi.cast("uintptr_t", block)), size)
        for x in self._run.made.values():
            _poison(x.address, x.num_elements * x.element_size)
        self.outputs = self._run.outputs()  # and buffers, which nobody poisons

    def run(self) -> Iterator[Step]:
        plan = self._model.compiled.plan
        for stage in self._stages:
            numbers = plan.stages[stage.number]
            for first, last in whole_steps(plan.programs, numbers):
                at, count = first - numbers.start, last - first + 1
                self._model.execute_steps(stage.host, self._run.addresses, at, count, None)
                yield plan.steps[last]

    def memory(self, slot: int, nbytes: int) -> Array:
        return _bytes_at(self._run.addresses[slot], nbytes)

    def call_of(self, step: Step) -> HostCall:
        stage = next(stage for stage in self._stages if step in stage.host.walked)
        launch = stage.host.launches[stage.host.walked.index(step)]
        sizes = [size.evaluate(self.env) for size in step.sizes]
        return HostCall((*sizes, *launch.extra), launch.extent, launch.grain, launch.scratch)


class _DeviceWalk:
    """The steps of a model with GPUs."""

    def __init__(self, model: DeviceModel, inputs: Sequence[Tensor]) -> None:
        self._model = model
        self._stages: list[DeviceBinding] = model.stages_of(inputs)
        self.env = self._stages[-1].env
        self._frames: list[DeviceFrame] = []
        made: dict[int, Tensor] = {}
        for binding in self._stages:
            frame = DeviceFrame(binding)
            made.update(zip(binding.output_numbers, binding.new_outputs(), strict=True))
            binding.place(frame, self._frames[-1] if self._frames else None, inputs, made)
            self._frames.append(frame)
        add_buffers(model.compiled.plan, inputs, made)
        self.outputs = [made[n] for n in sorted(made)]
        self._addresses = self._frames[-1].addresses
        for slot in model.compiled.plan.slots:
            if slot.kind in ("output", "arena") and self._addresses[slot.number]:
                nbytes = slot.nbytes.evaluate(self.env)
                self._fill(self._addresses[slot.number], nbytes, slot.device)

    def _fill(self, address: int, nbytes: int, place: DeviceRef) -> None:
        if not nbytes:
            return
        if not place.is_gpu():
            _poison(address, nbytes)
            return
        device = self._model.devices[place]
        context, queue = device.context, device.default_stream.queue
        context.call(lambda: context.fill(queue, address, POISON, nbytes))

    def run(self) -> Iterator[Step]:
        for binding, frame in zip(self._stages, self._frames, strict=True):
            yield from self._stage(binding, frame)

    def _stage(self, binding: DeviceBinding, frame: DeviceFrame) -> Iterator[Step]:
        model = self._model
        watcher = _Nobody()
        plan = model.compiled.plan
        programs = {steps.start: steps for steps in plan.programs}
        at = 0
        while at < len(binding.segments):
            segment = binding.segments[at]
            program = programs.get(segment.first)
            here = segment.host.walked[-1].number if segment.host is not None else -1
            if program is not None and program[-1] > here:  # devices work in it
                end = binding.segment_at(program.stop)
                binding.run_part(frame, model._host_steps, watcher, at, end)
                model.wait()
                at = end
                yield plan.steps[program[-1]]
                continue
            at += 1
            if segment.transfer is not None:
                binding._transfer(segment.device, segment.transfer, frame, watcher)
                model.wait()
                yield segment.transfer.step
            elif segment.host is not None:
                walked = segment.host.walked
                numbers = range(walked[0].number, walked[-1].number + 1)
                for first, last in whole_steps(plan.programs, numbers):
                    some = HostSteps(
                        plan.steps[first : last + 1],
                        model.compiled,
                        binding.env,
                        binding.threads,
                        binding.runtime,
                        model._builtins,
                    )
                    model._host_steps(some, frame.addresses, None)
                    yield plan.steps[last]
            elif segment.device is not None:
                for kernel in segment.kernels:
                    part = replace(segment, kernels=[kernel])
                    binding._launch_segment(part, segment.device, frame, watcher)
                    model.wait()
                    if segment.device in frame.fault:
                        frame.fault[segment.device].check()
                    yield kernel.step

    def memory(self, slot: int, nbytes: int) -> Array:
        place = self._model.compiled.plan.slots[slot].device
        address = self._addresses[slot]
        if not place.is_gpu():
            return _bytes_at(address, nbytes)
        device = self._model.devices[place]
        made = np.empty(nbytes, np.uint8)
        if nbytes:
            context, queue = device.context, device.default_stream.queue
            context.call(lambda: context.download(queue, made.ctypes.data, address, nbytes))
        return made

    def call_of(self, step: Step) -> HostCall | DeviceCall | None:
        found = self._kernel(step)
        if found is not None:
            segment, kernel = found
            assert segment.device is not None
            if kernel.call is not None:
                return None
            return DeviceCall(kernel.launch, tuple(kernel.tail), segment.device)
        if step.kind == "transfer":
            return None
        env, binding = self.env, self._stages[0]
        launch = host_launch(step.launch, env, binding.threads, binding.runtime)
        sizes = [size.evaluate(env) for size in step.sizes]
        return HostCall((*sizes, *launch.extra), launch.extent, launch.grain, launch.scratch)

    def _kernel(self, step: Step) -> tuple[Segment, Kernel] | None:
        for binding in self._stages:
            for segment in binding.segments:
                for kernel in segment.kernels:
                    if kernel.step is step:
                        return segment, kernel
        return None


class _Nobody:
    """Sees the steps and does nothing: with an observer, no launch is a replay of a recording."""

    def begin(self, step: Step, context: Any, queue: Any, words: Sequence[int]) -> None:
        """Nothing."""

    def end(self, step: Step, context: Any, queue: Any) -> None:
        """Nothing."""

    def host(self, step: Step, begin_ns: int, end_ns: int) -> None:
        """Nothing."""


__all__ = ["DeviceCall", "HostCall", "Walk", "host_array", "intercepted"]
