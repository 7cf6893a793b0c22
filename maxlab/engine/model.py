"""``Model``: a compiled graph that can be executed."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from maxlab import progress, trace
from maxlab.compiler import Compiled, Options
from maxlab.driver import CPU, Device, Tensor
from maxlab.driver.tensor import host_tensor
from maxlab.engine.arguments import HOST, Arguments
from maxlab.engine.binding import Binding, out_of_range
from maxlab.engine.file_watch import LOST, settled
from maxlab.engine.guard import FAILED, Guard
from maxlab.engine.host_calls import HostCalls
from maxlab.engine.kernel_log import assertion_error, log_of, nan_error, place_of
from maxlab.engine.kernel_view import KernelView
from maxlab.engine.size_rules import SizeRules
from maxlab.engine.spec import TensorSpec, spec_of
from maxlab.engine.stamps import StepTimer
from maxlab.engine.times import plural
from maxlab.engine.weights import Prepared
from maxlab.engine.whole import AsModule, Outputs, Whole
from maxlab.errors import ExecutionError
from maxlab.toolchain.interrupts import STOPPED, raised

if TYPE_CHECKING:
    from maxlab.compiler.plan import Plan, Step
    from maxlab.compiler.printed import Printed

LIVE: weakref.WeakSet[Model] = weakref.WeakSet()
"""The models of this process that are still referenced, for the notebook's list."""

PAUSED = 4
"""The executor's code for a program that has used up its slice (mx_abi.h)."""
SLICE_NS = 50_000_000
"""How long a program runs before signals are looked at."""
REFUSED = 3
"""The code of the kernel that stands for a condition that does not hold (mx_abi.h)."""

MAX_BINDINGS = 64
"""Tuples of sizes whose memory and plans a model keeps; the oldest goes first."""


class Loader(Protocol):
    """What a model asks of the module that loaded it, which stands above all kinds of models."""

    def profile(self, model: Model, inputs: Sequence[Any], *, runs: int, warmup: int) -> Any:
        """The ``Profile`` of ``model``; see ``Model.profile``."""

    def load_again(self, model: Model, *, options: Options, num_threads: int) -> Model:
        """The graph of ``model`` as another model; see ``Model.reload``."""


class Model(Arguments, trace.Displayed, AsModule, Whole):
    """A loaded graph, compiled and ready to execute. ``InferenceSession.load`` makes it.

    Example:
        >>> import numpy as np
        >>> from maxlab import engine
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType
        >>> with Graph("double", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        ...     graph.output(graph.inputs[0].tensor * 2)
        >>> model = engine.InferenceSession().load(graph)
        >>> model(np.ones(3, np.float32))[0].to_numpy()
        array([2., 2., 2.], dtype=float32)
    """

    _called = "model"
    _listed = (
        'model.kernels["k0"] is a kernel, model.weights has the weights; model(array)[0] runs it'
    )
    _again = "save the graph, graph.save(path), and load it again: session.load(graph)"
    _instead: ClassVar[dict[str, str]] = {
        "predict": "call it: model(array)[0]",
        "run": "call it: model(array)[0]",
        "save": "save its graph: graph.save(path)",
        **dict.fromkeys(("export", "to_onnx"), "save its graph: graph.save(path)"),
        **dict.fromkeys(("source", "code", "text", "asm"), 'model.kernels["k0"].source'),
        **dict.fromkeys(("benchmark", "timeit", "time"), "model.profile(array)"),
        **dict.fromkeys(("plot", "show", "draw", "visualize"), "model.to_svg(path)"),
        "summary": "print(model.graph)",
        "check": "maxlab.compare(model, array)",
        "parameters": "model.weights has the weights by name",
        **dict.fromkeys(
            ("inputs", "input_names", "get_inputs"), "model.input_metadata has a type per input"
        ),
        **dict.fromkeys(
            ("outputs", "output_names", "get_outputs"),
            "model.output_metadata has a type per output",
        ),
        **dict.fromkeys(
            ("to", "cuda", "cpu", "device"),
            "the graph's types name devices: TensorType(dtype, shape, 'gpu')",
        ),
        **dict.fromkeys(
            ("half", "float", "double", "bfloat16", "dtype"),
            "the graph's types name dtypes: TensorType('float16', shape), or ops.cast in the graph",
        ),
        **dict.fromkeys(("apply", "numpy"), "call it: model(array)[0]"),
        **dict.fromkeys(("compile", "jit"), "it is compiled; call it: model(array)[0]"),
        **dict.fromkeys(("modules", "children", "layers"), "model.graph has the operations"),
        **dict.fromkeys(
            ("load_state_dict", "load_weights"),
            "give them when the graph is loaded: session.load(graph, weights_registry=weights)",
        ),
        "named_parameters": "model.weights has the weights by name",
        "state_dict": "model.weights has the weights by name",
    }

    def __init__(
        self,
        compiled: Compiled,
        prepared: Prepared,
        threads: int,
        runtime: Any,
        graph: Any,
        loader: Loader,
    ) -> None:
        super().__init__(compiled)
        self.graph = graph
        self._loader = loader
        self.num_threads = threads
        self.prepared = prepared
        self._runtime = runtime
        self._rules = SizeRules(compiled.plan)
        self._team = runtime.team(threads)
        watch = prepared.watch
        self._execute_c: Any = runtime.lib.mx_execute if watch is None else watch.execute
        self._execute_slice: Any = (
            runtime.lib.mx_execute_program if watch is None else watch.execute_program
        )
        log = log_of(compiled)
        if log is not None:
            self._execute_c = log.around(self._execute_c)
            self._execute_slice = log.around(self._execute_slice)
        self._null = runtime.ffi.NULL
        self._bindings: dict[Any, Binding] = {}
        self._lock = threading.Lock()
        tell = None if log is None else log.tell
        self._host_calls = HostCalls(compiled.plan.steps, runtime.ffi, tell)
        self._builtins = self._host_calls.addresses | {
            step.builtin: runtime.address(step.builtin)
            for step in compiled.plan.steps
            if step.builtin and step.call is None
        }
        self.last_profile: Any = None
        self.revision = 0  # grows with every profile: views draw the model anew
        LIVE.add(self)

    # ------------------------------------------------------------ metadata
    @property
    def input_metadata(self) -> list[TensorSpec]:
        """The names, shapes and dtypes of the inputs; a handle is a ``uint64`` of rank 0."""
        return [spec_of(x.name, x.shape, x.dtype) for x in self.compiled.plan.facts.inputs]

    @property
    def output_metadata(self) -> list[TensorSpec]:
        """The names, shapes and dtypes of the outputs; a handle is a ``uint64`` of rank 0."""
        outputs = self.compiled.plan.facts.outputs
        return [spec_of(f"output{n}", x.declared, x.dtype) for n, x in enumerate(outputs)]

    # ------------------------------------------------------------ running
    def execute(self, *args: Any) -> list[Tensor]:
        """The outputs for the inputs ``args``, always as a list.

        A graph that stores into buffers changes the memory of its inputs in place; an output that
        is such an input is the same memory.

        Ctrl-C ends the run within a fraction of a second, in the middle of a kernel too, and leaves
        such memory half changed. As long as the main thread runs a model, Python's handlers of
        signals run ten times a second: one that raises ends the run, one that returns lets it go
        on. What other threads run is not ended, nor is a kernel that a user wrote and that takes
        long over one item; ``InferenceSession.load`` can guard these.

        Args:
            *args: A ``driver.Tensor``, NumPy array, or DLPack object for each input, contiguous and
            of its dtype; a
                number for an input of rank 0. Inputs are read in place, not copied.

        Raises:
            InputError: A wrong number of inputs, or one of the wrong dtype, rank or size, or not
                contiguous.
            InputTypeError: An input of a type that is no tensor.
            ExecutionError: Something was found wrong while it ran, such as an index out of range.
            WeightFileError: ML639 or ML641, a file that weights are mapped from has changed.
        """
        if trace.run_watcher is not None or trace.run_recorder is not None:
            return self._watched(args, trace.run_watcher, trace.run_recorder)
        return self._run(args, None)

    def __call__(self, *args: Any, **kwargs: Any) -> list[Tensor]:
        """The outputs; inputs may be given by name (``input0``, ``input1`` …).

        Raises:
            InputTypeError: ML604, a missing, unknown or doubled input.
        """
        if kwargs or len(args) != self._count:
            args = tuple(self.bind_arguments(args, kwargs))
        if trace.run_watcher is not None or trace.run_recorder is not None:
            return self._watched(args, trace.run_watcher, trace.run_recorder)
        return self._run(args, None)

    def _watched(
        self,
        args: Sequence[Any],
        tell: trace.RunWatcher | None,
        record: trace.RunRecorder | None,
    ) -> list[Tensor]:
        """The outputs, as somebody watches or records the runs."""
        start_ns = time.monotonic_ns()
        try:
            made: list[Tensor] = self._run(args, None) if record is None else record(self, args)
            return made
        finally:
            if tell is not None:
                tell(self.name, start_ns, time.monotonic_ns())

    def _run(self, args: Sequence[Any], times: Any) -> list[Tensor]:
        if len(args) != self._count:
            self._refuse_count(args)
        tensors = []
        shapes = []
        for position, given in enumerate(args):
            x = given if given.__class__ is Tensor else self._convert(position, given)
            if (
                x._dtype is not self._fast_dtypes[position]
                or len(x._shape) != self._ranks[position]
                or x._strides is not None
                or x._stream is not HOST
                or x.address & self._unaligned[position]
            ):
                self._refuse(position, x)
            tensors.append(x)
            shapes.append(x._shape)
        if self._written:
            self._require_own(args, tensors)
        key = tuple(shapes)
        binding = self._bindings.get(key)
        if binding is None:
            binding = self._bind(key)
        frame = binding.frame()
        io = frame.io
        for position, x in enumerate(tensors):
            io[position] = x.address
        position = len(tensors)
        outputs: list[Tensor] = Outputs()
        for dtype, shape, nbytes in binding.outputs:
            if dtype is not None:
                made = host_tensor(dtype, shape, nbytes)
            else:  # a buffer: the tensor of an input, or of another output
                made = (*tensors, *outputs)[nbytes]
            io[position] = made.address
            position += 1
            outputs.append(made)
        run = self._execute_program if binding.is_program else self._execute_c
        code = run(
            self._team,
            binding.steps,
            binding.nsteps,
            frame.argp,
            binding.dims,
            binding.patches,
            binding.npatch,
            frame.pointers,
            binding.scratch,
            self._null if times is None else times,
            frame.info,
        )
        if code:
            info = list(frame.info)
            if code & ~LOST != STOPPED:  # whoever ends a run wants its memory back
                binding.free.append(frame)
            code = settled(code, self.prepared.watch, (x.address for x in tensors))
            if code:
                self._failed(code, info, binding.env)
            return outputs
        binding.free.append(frame)
        return outputs

    def _execute_program(self, *args: Any) -> int:
        """What ``mx_execute`` gives, for steps with branches and jumps: the thread comes back now
        and then, so that a loop that does not end can be interrupted.
        """
        at = self._runtime.ffi.new("i64[1]")
        code: int = self._execute_slice(*args, at, SLICE_NS)
        if code & ~LOST == PAUSED:  # a loop may have exchanged what is patched: that is done once
            args = (*args[:6], 0, *args[7:])
        while code & ~LOST == PAUSED:  # Python handles signals between two slices
            settled(code, self.prepared.watch, ())
            progress.check()
            code = self._execute_slice(*args, at, SLICE_NS)
        return code

    def printed(self, step: Step) -> Printed | None:
        """The text of the kernel that ``step`` runs; None when it is no generated text."""
        return step.printed

    # ------------------------------------------------------------ timing
    @property
    def gpu_profiling(self) -> Any:
        """How much of its runs on GPUs is recorded: ``"off"``, for it has none."""
        return "off"

    @property
    def device_name(self) -> str:
        """What it runs on: ``"cpu"``."""
        return "cpu"

    def timer(self) -> Any:
        """What runs the model and times its steps."""
        return StepTimer(self)

    def run_to_the_end(self, *args: Any) -> None:
        """Run the model on the inputs ``args``, and return when all of its work has ended.

        Raises:
            ExecutionError: Something was found wrong while it ran; on a GPU too.
        """
        self._run(args, None)

    def placed(self, arrays: Sequence[Any]) -> list[Any]:
        """The inputs ``arrays``, which are on the host, on the devices that the model takes them
        on.
        """
        return list(arrays)

    @property
    def bound_shapes(self) -> list[tuple[tuple[int, ...], ...]]:
        """The shapes of inputs that the model has run with and remembers, the newest last."""
        return list(self._bindings)

    @property
    def last_sizes(self) -> dict[str, int]:
        """The size of every symbol in the newest of ``bound_shapes``; empty before the first
        run."""
        shapes = self.bound_shapes
        return self._rules.resolve(shapes[-1]) if shapes else {}

    def arenas(self, env: Mapping[str, int]) -> list[tuple[dict[int, int], int]] | None:
        """The arenas of runs with the sizes ``env``, each as the offsets of its slots and its
        bytes; None when no run had these sizes."""
        for binding in self._bindings.values():
            if binding.env == env:
                return [({e.slot: e.offset for e in binding.arena}, binding.arena_nbytes)]
        return None

    def inputs_of(self, args: Sequence[Any]) -> list[Tensor]:
        """The inputs as tensors."""
        return self._accepted(args)

    def sizes_of(self, tensors: Sequence[Tensor]) -> dict[str, int]:
        """The size of every symbol for these inputs."""
        return self._bind(tuple(x._shape for x in tensors)).env

    def _bind(self, key: tuple[tuple[int, ...], ...]) -> Binding:
        """The binding for inputs of the shapes ``key``."""
        with self._lock:
            found = self._bindings.get(key)
            if found is not None:
                return found
            env = self._rules.resolve(key)
            start = time.perf_counter_ns()
            with trace.span("bind", self.name, dims=dict(env)):
                made = Binding(
                    self.compiled,
                    env,
                    self.prepared.addresses,
                    self.num_threads,
                    self._runtime,
                    self._builtins,
                )
            self.compiled.timings_ns["bind"] = time.perf_counter_ns() - start
            if len(self._bindings) >= MAX_BINDINGS:
                del self._bindings[next(iter(self._bindings))]
            self._bindings[key] = made
            return made

    # ------------------------------------------------------------ errors
    def _failed(self, code: int, info: Any, env: Mapping[str, int]) -> None:
        """Raise what a kernel found wrong, where dims have the sizes ``env``."""
        step_number, kernel_code, value, limit = info[0], info[1], info[2], info[3]
        if code == STOPPED:
            raise raised()
        if code != 1:
            raise ExecutionError(
                "ML651",
                f"{self.name} could not run: the executor's code is {code}",
                fix="free some memory and try again",
            )
        step = self.compiled.plan.steps[step_number]
        if kernel_code == FAILED:
            raise self.compiled.guard.failure()
        if step.call is not None:
            raise self._host_calls.failure(step, self.compiled.plan.facts)
        if step.guard is not None and kernel_code == REFUSED:
            step.guard.test(env)
        checked = step.printed.checked if step.printed is not None else []
        if kernel_code == 2:
            raise assertion_error(value, limit, place_of(self.compiled.plan, step))
        if kernel_code == 3:
            raise nan_error(self.compiled.plan, step, info[4], value)
        if kernel_code == 1:
            node = checked[info[4]] if info[4] < len(checked) else ""
            node = next(iter(step.nodes_of(node)), "")
            raise out_of_range(self.compiled.plan, node, value, limit)
        raise ExecutionError(
            "ML651",
            f"the kernel {step.id} ({step.name}) failed with code {kernel_code}",
            fix="please report it with this message",
        )

    # ------------------------------------------------------------ looking
    def profile(self, *inputs: Any, runs: int = 20, warmup: int = 3) -> Any:
        """A ``Profile``: what each kernel costs on ``inputs``.

        The model runs ``warmup + runs`` times, and a few times more: what it stores into buffers,
        and prints, happens as often. Pass copies where that matters.

        Args:
            *inputs: As for ``execute``.
            runs: Timed executions.
            warmup: Executions before them that are not counted.
        """
        self.last_profile = self._loader.profile(self, inputs, runs=runs, warmup=warmup)
        return self.last_profile

    @property
    def kernels(self) -> dict[str, Any]:
        """The steps of the plan by id, with their C in ``.source``."""
        return {step.id: KernelView(self, step) for step in self.compiled.plan.steps}

    @property
    def passes(self) -> dict[str, Any]:
        """What each pass did, by name; ``.diff()`` lists the rewrites."""
        return {record.name: record for record in self.compiled.passes}

    @property
    def plan(self) -> Plan:
        """The slots and steps; it prints as a table."""
        return self.compiled.plan

    @property
    def options(self) -> Options:
        """What it was compiled with."""
        return self.compiled.options

    @property
    def guard(self) -> bool | Guard:
        """How kernels that users wrote are guarded; False for a model without a guard, or without
        such kernels."""
        return False if self.compiled.guard is None else self.compiled.guard.guard

    def reload(self, *, options: Options | None = None, num_threads: int | None = None) -> Model:
        """The same graph and weights as another model; this one stays as it is.

        Weights are the same memory, and what was packed of them is shared.

        Args:
            options: What to compile it with; by default what this model was compiled with.
            num_threads: Threads of the new model; by default as many as this one has.

        Raises:
            ArgumentError: ML616, fewer than one thread; ML626 or ML627, ``options`` name what the
                graph does not have.
            ToolchainError: No compiler was found, or it failed.

        Example:
            >>> from maxlab import engine
            >>> from maxlab.compiler import Options
            >>> from maxlab.dtype import DType
            >>> from maxlab.graph import Graph, TensorType, ops
            >>> with Graph("f", input_types=[TensorType(DType.float32, ["n"])]) as graph:
            ...     graph.output(ops.tanh(graph.inputs[0].tensor * 2))
            >>> model = engine.InferenceSession().load(graph)
            >>> len(model.kernels), len(model.reload(options=Options(fuse=False)).kernels)
            (1, 2)
        """
        return self._loader.load_again(
            self,
            options=self.options if options is None else options,
            num_threads=self.num_threads if num_threads is None else num_threads,
        )

    def adopt(self, other: Model) -> None:
        """Run from now on what ``other`` runs: the same graph, compiled otherwise.

        Executions that are going on end as they began. The newest profile is forgotten, as it is of
        other kernels.

        Args:
            other: A model that ``reload`` of this one made.
        """
        with self._lock:
            self._take_over(other)
        self.revision += 1

    def _take_over(self, other: Model) -> None:
        """Have what ``other`` has; the lock is held."""
        for binding in self._bindings.values():
            binding.held = self.prepared  # whoever runs one now reads its weights to the end
        self.prepared = other.prepared
        self._builtins = other._builtins
        self._rules = other._rules
        self.compiled = other.compiled
        self._execute_c = other._execute_c
        self._execute_slice = other._execute_slice
        self._bindings = {}
        self.last_profile = None

    def session_devices(self) -> list[Device]:
        """The devices that a session needs for the graph."""
        return [CPU()]

    @property
    def weights(self) -> Mapping[str, Tensor]:
        """The graph's weights as tensors, by name."""
        return self.prepared.tensors

    def __repr__(self) -> str:
        names = ", ".join(map(str, self.input_metadata))
        kernels = plural(len(self.compiled.plan.steps), "kernel")
        return f"Model({self.name!r}, [{names}], {kernels})"
