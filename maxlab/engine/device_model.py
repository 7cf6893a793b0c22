"""A model whose graph names GPUs, or several CPUs: the same compiled plan, walked over queues of
devices. Steps of all CPUs are walked by the C executor, each in the memory of its own.

What such a model gives back may not be finished: tensors on a GPU belong to its default stream,
and whoever reads them waits for it. An index that a kernel found out of range is therefore raised
by the first wait, which is not in the call unless something comes back to the host.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from maxlab import trace
from maxlab.compiler import Compiled
from maxlab.compiler.plan import Step
from maxlab.compiler.printed import Printed
from maxlab.driver import CPU, Accelerator, Device, Tensor
from maxlab.driver.backend import Context, DeviceSource, Function, Loaded, Queue
from maxlab.driver.gpu_memory import DeviceBlock
from maxlab.driver.gpu_stream import AcceleratorStream
from maxlab.driver.mapped import require_read
from maxlab.engine.binding import HostSteps, add_buffers, refused_steps
from maxlab.engine.device_binding import DeviceBinding, DeviceFrame, Devices, Hosts
from maxlab.engine.device_kernel import Captured, DeviceKernelView
from maxlab.engine.device_timer import DeviceTimer
from maxlab.engine.file_watch import settled
from maxlab.engine.gpu_profiling import GpuProfiler, GpuRun
from maxlab.engine.gpu_profiling import Mode as GpuMode
from maxlab.engine.kernel_view import KernelView
from maxlab.engine.launching import device_launch
from maxlab.engine.model import LIVE, MAX_BINDINGS, Loader, Model
from maxlab.engine.observing import Observer
from maxlab.engine.staged_model import MAX_LATER
from maxlab.engine.weights import Prepared
from maxlab.engine.whole import Outputs
from maxlab.errors import DeviceError, InputError
from maxlab.ir import DeviceRef
from maxlab.opset.effects import silent

Array = np.ndarray[Any, Any]
_HOST = CPU().default_stream

Variant = tuple[int, int]
"""A kernel of a plan: the number of its step, and which of the step's kernels."""


def load_kernels(
    compiled: Compiled, devices: Devices, wanted: Iterable[Variant]
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
        fast = compiled.options.fast_math
        source = DeviceSource(printed.symbol, printed.text, printed.headers, fast)
        rows.setdefault(step.device, []).append(((number, variant), source))
    found: dict[Variant, Loaded] = {}
    for place, pairs in rows.items():
        loaded = devices[place].context.load([source for _, source in pairs])
        found.update(zip((key for key, _ in pairs), loaded, strict=True))
    return found


def known_kernels(compiled: Compiled, devices: Devices) -> list[Variant]:
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


class DeviceModel(Model):
    """A loaded graph with operations on GPUs, or on several CPUs. ``InferenceSession.load`` makes
    it.

    Example:
        >>> import numpy as np
        >>> from maxlab import driver, engine
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import DeviceRef, Graph, TensorType
        >>> type = TensorType(DType.float32, ["n"], DeviceRef.GPU())
        >>> with Graph("double", input_types=[type]) as graph:
        ...     graph.output(graph.inputs[0].tensor * 2)
        >>> with driver.simulated():
        ...     gpu = driver.Accelerator()
        ...     model = engine.InferenceSession(devices=[gpu]).load(graph)
        ...     (y,) = model(driver.Tensor.from_numpy(np.ones(3, np.float32)).to(gpu))
        ...     y.to(driver.CPU()).to_numpy()
        array([2., 2., 2.], dtype=float32)
    """

    _inputs_on_host = False

    def __init__(
        self,
        compiled: Compiled,
        prepared: Prepared,
        threads: int,
        runtime: Any,
        graph: Any,
        loader: Loader,
        devices: Mapping[DeviceRef, Device],
    ) -> None:
        super().__init__(compiled, prepared, threads, runtime, graph, loader)
        self.devices = {ref: d for ref, d in devices.items() if isinstance(d, Accelerator)}
        self.hosts: Hosts = {ref: d for ref, d in devices.items() if isinstance(d, CPU)}
        self.chosen: dict[int, int] = {}  # which of its kernels a step took last
        self.gpu_kernels: dict[Variant, Loaded] = {}
        self._functions: dict[Variant, Function] = {}
        self._load(known_kernels(compiled, self.devices))
        places = (x.device for x in compiled.plan.facts.inputs)
        self._streams = [devices.get(place, _HOST.device).default_stream for place in places]
        self._device_bindings: dict[Any, DeviceBinding] = {}
        self._last: dict[str, int] = {}
        self._gpu_profiler: GpuProfiler | None = None

    def _load(self, wanted: Iterable[Variant]) -> None:
        new = [key for key in dict.fromkeys(wanted) if key not in self.gpu_kernels]
        if new:
            start = time.perf_counter_ns()
            loaded = load_kernels(self.compiled, self.devices, new)
            self.compiled.timings_ns["kernels"] += time.perf_counter_ns() - start
            self.gpu_kernels.update(loaded)
            self._functions.update({key: one.function for key, one in loaded.items()})

    def _take_over(self, other: Model) -> None:
        assert isinstance(other, DeviceModel)
        self.wait()
        for binding in _all_stages(self._device_bindings.values()):
            binding.held = self.prepared
        self.gpu_kernels = other.gpu_kernels
        self._functions = other._functions
        self._device_bindings = {}  # ``chosen`` stays: the steps are the same
        super()._take_over(other)

    def session_devices(self) -> list[Device]:
        return [CPU(), *self.hosts.values(), *self.devices.values()]

    # ------------------------------------------------------------ running
    def _run(self, args: Sequence[Any], times: Any) -> list[Tensor]:
        if self._gpu_profiler is not None:
            return self._gpu_profiler.run(args)
        return self.run_observed(args, None)

    def profile_gpus(self, mode: GpuMode | None) -> None:
        """Nothing; runs are recorded from now on, or no more when ``mode`` is None. See
        ``InferenceSession.gpu_profiling``."""
        self._gpu_profiler = GpuProfiler(self, mode) if mode is not None else None

    @property
    def gpu_profiling(self) -> str:
        """How much of its runs is recorded: ``"off"``, ``"on"`` or ``"detailed"``."""
        return "off" if self._gpu_profiler is None else self._gpu_profiler.mode

    @property
    def gpu_runs(self) -> list[GpuRun]:
        """The newest runs that were recorded, the newest last; see
        ``InferenceSession.gpu_profiling``."""
        return [] if self._gpu_profiler is None else list(self._gpu_profiler.runs)

    def run_observed(self, args: Sequence[Any], observer: Observer | None) -> list[Tensor]:
        """The outputs; ``observer`` sees every step."""
        return self._stages(self._tensors(args), observer)[0]

    def _stages(
        self, tensors: Sequence[Tensor], observer: Observer | None
    ) -> tuple[list[Tensor], list[DeviceBinding]]:
        """The outputs, and the stages of the plan that made them."""
        watch = self.prepared.watch
        if watch is not None:
            watch.look()
        binding = self.bind_devices(tuple(x._shape for x in tensors))
        passed: list[tuple[DeviceBinding, DeviceFrame]] = []
        made: dict[int, Tensor] = {}
        frame: DeviceFrame | None = None
        logged = False
        with trace.span("execute", self.name, device=str(self.session_devices()[-1])):
            while True:
                before = frame
                frame, outputs = self._memory(binding)
                made.update(zip(binding.output_numbers, outputs, strict=True))
                binding.place(frame, before, tensors, made)
                binding.run(frame, self._host_steps, observer)
                for device, faults in frame.fault.items():
                    device.default_stream.add_check(faults.check)
                    logged = logged or faults.writes_messages
                passed.append((binding, frame))
                if binding.is_last:
                    break
                binding = self._next(binding, binding.sizes(frame))
        if watch is not None:  # transfers read files too
            watch.require_read()
        for x in tensors:
            if x.is_host:
                require_read(x.address)
        if logged:  # a run tells its own messages
            for device in self.devices.values():
                device.context.call(device.default_stream.queue.synchronize)
            for _, used in passed:
                for faults in used.fault.values():
                    faults.tell()
        for x in tensors:
            if isinstance(x.owner, DeviceBlock) and isinstance(x._stream, AcceleratorStream):
                x.owner.used_by(x._stream)  # its memory is not given away before
        for stage, used in passed:
            stage.free.append(used)
        self._last = binding.env
        add_buffers(self.compiled.plan, tensors, made)
        return Outputs(made[n] for n in sorted(made)), [stage for stage, _ in passed]

    def _memory(self, binding: DeviceBinding) -> tuple[DeviceFrame, list[Tensor]]:
        """Memory for one run. Where a device is short of it, frames that models keep for their
        next runs are given back first.

        Raises:
            DeviceError: ML403, that is not enough.
        """
        try:
            return binding.frame(), binding.new_outputs()
        except DeviceError as error:
            if error.code != "ML403":
                raise
        for model in list(LIVE):
            if isinstance(model, DeviceModel):
                for other in _all_stages(model._device_bindings.values()):
                    other.free.clear()
        return binding.frame(), binding.new_outputs()

    def _tensors(self, args: Sequence[Any]) -> list[Tensor]:
        """The inputs as tensors on their devices, everything about them checked."""
        if len(args) != self._count:
            self._refuse_count(args)
        tensors = []
        for position, given in enumerate(args):
            x = given if given.__class__ is Tensor else self._convert(position, given)
            stream = self._streams[position]
            if x._stream is not stream:
                x = self._placed(position, x, given)
            if (
                x._dtype is not self._fast_dtypes[position]
                or len(x._shape) != self._ranks[position]
                or x._strides is not None
                or x.address & self._unaligned[position]
            ):
                self._refuse(position, x)
            tensors.append(x)
        if self._written:
            self._require_own(args, tensors)
        return tensors

    def _placed(self, position: int, x: Tensor, given: Any) -> Tensor:
        """Input ``position`` in the order of the model's stream.

        Raises:
            InputError: ML608, it is on another device.
        """
        stream = self._streams[position]
        if x.device is stream.device:
            return x.to(stream)  # the same memory; the model waits for what still writes it
        if not isinstance(given, Tensor) and not x.shape:
            return x.to(stream.device)  # a number
        name = self.compiled.plan.facts.inputs[position].name
        number = stream.device.id
        place = f"driver.Accelerator({number})"
        if stream.device.is_host:
            place = f"driver.CPU({number or ''})"
        raise InputError(
            "ML608",
            f"input {position} ({name}) lives on {x.device}, the graph takes it on {stream.device}",
            why=["they were opened before and after devices were chosen anew, and are two devices"]
            if str(x.device) == str(stream.device)
            else [],
            fix=f"copy it there: driver.Tensor.from_numpy(x).to({place})"
            if not isinstance(given, Tensor)
            else f"copy it there: x.to({place})",
        )

    def bind_devices(self, key: tuple[tuple[int, ...], ...]) -> DeviceBinding:
        """The binding for inputs of the shapes ``key``."""
        found = self._device_bindings.get(key)
        if found is not None:
            return found
        with self._lock:
            found = self._device_bindings.get(key)
            if found is not None:
                return found
            made = self._bound(self._rules.resolve(key), 0)
            if len(self._device_bindings) >= MAX_BINDINGS:
                del self._device_bindings[next(iter(self._device_bindings))]
            self._device_bindings[key] = made
            return made

    def _next(self, binding: DeviceBinding, sizes: tuple[int, ...]) -> DeviceBinding:
        """The stage behind ``binding``, which computed ``sizes``.

        Raises:
            InputError: ML603, a condition that an op states.
            ExecutionError: ML726, a dim has another size already; ML727, a size is negative.
        """
        found = binding.later.get(sizes)
        if found is not None:
            return found
        with self._lock:
            found = binding.later.get(sizes)
            if found is not None:
                return found
            env = self._rules.bind(binding.env, binding.stage, sizes)
            made = self._bound(env, binding.stage + 1)
            if len(binding.later) >= MAX_LATER:
                del binding.later[next(iter(binding.later))]
            binding.later[sizes] = made
            return made

    def _bound(self, env: dict[str, int], stage: int) -> DeviceBinding:
        """One stage of the plan for the sizes ``env``; the lock is held."""
        plan = self.compiled.plan
        steps = [plan.steps[n] for n in plan.stages[stage]]
        refused = refused_steps(steps, env)
        with trace.span("bind", self.name, dims=dict(env)):
            self._load(
                (
                    step.number,
                    device_launch(
                        step.gpu.launch, env, self.devices[step.device].context.properties
                    ).variant,
                )
                for step in steps
                if step.gpu is not None and step.number not in refused
            )
            start = time.perf_counter_ns()
            made = DeviceBinding(
                self.compiled,
                env,
                self.prepared.addresses,
                self.num_threads,
                self._runtime,
                self._builtins,
                self.devices,
                self._functions,
                stage,
                self.hosts,
            )
        self.compiled.timings_ns["bind"] = time.perf_counter_ns() - start
        for segment in made.segments:
            for kernel in segment.kernels:
                self.chosen[kernel.step.number] = kernel.launch.variant
        return made

    def _host_steps(self, host: HostSteps, addresses: list[int], observer: Observer | None) -> None:
        ffi = self._runtime.ffi
        count = len(host.walked)
        table = ffi.new("uintptr_t[]", [addresses[n] for n in host.pointers] or [0])
        info = ffi.new("i64[6]")
        stamps = ffi.new("i64[]", 2 * count)
        times = ffi.new("mx_times *", {"steps": stamps}) if observer is not None else self._null
        run = self._execute_program if host.is_program else self._execute_c
        begin_ns = time.monotonic_ns()
        code = run(
            self._team,
            host.steps,
            count,
            ffi.cast("void **", table),
            host.dims,
            self._null,
            0,
            self._null,
            host.scratch,
            times,
            info,
        )
        code = settled(code, self.prepared.watch, addresses)
        if code:
            info[0] = host.walked[info[0]].number
            self._failed(code, list(info), host.env)
        if observer is not None:
            for n, step in enumerate(host.walked):
                first, last = int(stamps[2 * n]), int(stamps[2 * n + 1])
                if host.is_program:  # its stamps are sums
                    first, last = begin_ns, begin_ns + last
                    begin_ns = last
                observer.host(step, first, last)

    # ------------------------------------------------------------ timing
    @property
    def device_name(self) -> str:
        """The GPU's name, or that it is simulated; several are joined by ``+``. ``"cpu"``
        without one: virtual CPUs are cores of the same."""
        found = [d.context.properties for d in self.devices.values()]
        names = ["simulated GPU" if p.simulated else p.name for p in found]
        return " + ".join(names) or "cpu"

    def timer(self) -> DeviceTimer:
        return DeviceTimer(self)

    def run_to_the_end(self, *args: Any) -> None:
        """Run the model on the inputs ``args``, and return when all of its work has ended.

        Raises:
            ExecutionError: Something was found wrong while it ran.
        """
        self._run(args, None)
        self.wait()

    def placed(self, arrays: Sequence[Any]) -> list[Any]:
        """The inputs ``arrays``, which are on the host, on the devices that the model takes them
        on.
        """
        return [
            x if stream is _HOST else self._convert(n, x).to(stream)
            for n, (x, stream) in enumerate(zip(arrays, self._streams, strict=True))
        ]

    @property
    def bound_shapes(self) -> list[tuple[tuple[int, ...], ...]]:
        """The shapes of inputs that the model has run with and remembers, the newest last."""
        return list(self._device_bindings)

    def arenas(self, env: Mapping[str, int]) -> list[tuple[dict[int, int], int]] | None:
        """The arenas of runs with the sizes ``env``, each as the offsets of its slots and its
        bytes; None when no run had these sizes."""
        for binding in self._device_bindings.values():
            if binding.env == env:
                return [(made, nbytes) for made, nbytes, _ in binding.arenas.values()]
        return None

    def inputs_of(self, args: Sequence[Any]) -> list[Tensor]:
        return self._tensors(args)

    def sizes_of(self, tensors: Sequence[Tensor]) -> dict[str, int]:
        return self.stages_of(tensors)[-1].env

    @property
    def last_sizes(self) -> dict[str, int]:
        """The size of every symbol in the newest of ``bound_shapes``, or in the last run when some
        are computed; empty before the first run."""
        return self._last if self.compiled.plan.cuts else super().last_sizes

    def stages_of(self, inputs: Sequence[Tensor]) -> list[DeviceBinding]:
        """The stages of a run on ``inputs``, which is made when there are several."""
        if self.compiled.plan.cuts:
            with silent():  # the caller's buffers stay as they are
                return self._stages(self._copies(inputs), None)[1]
        return [self.bind_devices(tuple(x._shape for x in inputs))]

    def wait(self) -> None:
        """Return when the devices have done all that they were given.

        Raises:
            ExecutionError: ML652, an index was out of range in an earlier call.
        """
        for device in self.devices.values():
            device.default_stream.synchronize()

    # ------------------------------------------------------------ looking
    def printed(self, step: Step) -> Printed | None:
        """The text of the kernel that ``step`` took last, and before the first run the usual one;
        None when it is no generated text.
        """
        if step.gpu is None:
            return step.printed
        return step.gpu.printed(self.chosen.get(step.number, 0))

    @property
    def kernels(self) -> dict[str, KernelView]:
        """The steps of the plan by id; those of a GPU with their CUDA, PTX, SASS and resources."""
        return {
            step.id: KernelView(self, step) if step.gpu is None else DeviceKernelView(self, step)
            for step in self.compiled.plan.steps
        }

    def capture(self, number: int, inputs: Sequence[Any]) -> Captured:
        """The memory of the GPU step ``number`` before and after it, in a run on ``inputs``."""
        tensors = self._tensors(inputs)
        stages = self.stages_of(tensors)
        step = self.compiled.plan.steps[number]
        slots = self.compiled.plan.slots
        env = stages[-1].env
        found = _Capture(self, number, [slots[n].nbytes.evaluate(env) for n in step.pointers])
        self.run_observed(tensors, found)
        self.wait()
        segments = [segment for stage in stages for segment in stage.segments]
        kernel = next(k for s in segments for k in s.kernels if k.step is step)
        assert step.gpu is not None
        written = step.gpu.printed(kernel.launch.variant).written
        return Captured(
            kernel.launch,
            kernel.tail,
            found.before,
            [a if w else None for a, w in zip(found.after, written, strict=True)],
        )


def _all_stages(bindings: Iterable[DeviceBinding]) -> Iterator[DeviceBinding]:
    """``bindings`` and all stages behind them."""
    for binding in list(bindings):
        yield binding
        yield from _all_stages(binding.later.values())


class _Capture:
    """Copies the memory of one step before and after it runs."""

    def __init__(self, model: DeviceModel, number: int, nbytes: Sequence[int]) -> None:
        self._step = model.compiled.plan.steps[number]
        self._nbytes = nbytes
        self._words: Sequence[int] = ()
        self.before: list[Array] = []
        self.after: list[Array] = []

    def begin(self, step: Step, context: Context, queue: Queue, words: Sequence[int]) -> None:
        """Copy what the step will read, and what it will write over."""
        if step is self._step:
            self._words = list(words)
            self.before = self._memory(context, queue)

    def end(self, step: Step, context: Context, queue: Queue) -> None:
        """Copy what it has written."""
        if step is self._step:
            self.after = self._memory(context, queue)

    def host(self, step: Step, begin_ns: int, end_ns: int) -> None:
        """Nothing: steps of the host are not captured."""

    def _memory(self, context: Context, queue: Queue) -> list[Array]:
        made = []
        for address, nbytes in zip(self._words, self._nbytes, strict=False):
            array = np.empty(nbytes, np.uint8)
            context.download(queue, array.ctypes.data, address, nbytes)
            made.append(array)
        return made


__all__ = ["DeviceModel", "known_kernels", "load_kernels"]
