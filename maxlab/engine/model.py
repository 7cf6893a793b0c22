"""``Model``: a compiled graph that can be executed."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from maxlab import trace
from maxlab.compiler import Options
from maxlab.driver import CPU, Accelerator, Device, Tensor
from maxlab.driver.backend import Loaded
from maxlab.engine.arguments import Arguments
from maxlab.engine.dispatching import dispatch
from maxlab.engine.executable import Executable, Variant
from maxlab.engine.into import require_fitting
from maxlab.engine.model_habits import INSTEAD
from maxlab.engine.observing import Observer
from maxlab.engine.program import Program
from maxlab.engine.programs import Shapes
from maxlab.engine.runner import Runner
from maxlab.engine.spec import TensorSpec, spec_of
from maxlab.engine.times import plural
from maxlab.engine.weights import Prepared
from maxlab.engine.whole import AsModule, Named, Whole
from maxlab.habits import fitting
from maxlab.ir import DeviceRef

if TYPE_CHECKING:  # what few models need is imported where one asks for it
    from pathlib import Path

    from maxlab.compiler.plan import Plan, Step
    from maxlab.compiler.printed import Printed
    from maxlab.engine.device_kernel import Captured, DeviceKernelView
    from maxlab.engine.exporting import Exported
    from maxlab.engine.gpu_profiling import GpuProfiler
    from maxlab.engine.gpu_profiling import Mode as GpuMode
    from maxlab.engine.gpu_runs import GpuRun
    from maxlab.engine.guard import Guard
    from maxlab.engine.kept.manifest import Where
    from maxlab.engine.kernel_view import KernelView
    from maxlab.engine.timer import Timer
    from maxlab.files import AnyPath

LIVE: weakref.WeakSet[Model] = weakref.WeakSet()
"""The models of this process that are still referenced, for the notebook's list."""


class Loader(Protocol):
    """Questions of a model to the module that loaded it, which stands above all kinds of models."""

    def profile(self, model: Model, inputs: Sequence[Any], *, runs: int, warmup: int) -> Any:
        """The ``Profile`` of ``model``; see ``Model.profile``."""

    def load_again(self, model: Model, *, options: Options, num_threads: int) -> Model:
        """The graph of ``model`` as another model; see ``Model.reload``."""

    def save(self, model: Model, path: Any, weights: Any) -> str:
        """Writes ``model`` to a file; see ``Model.save``."""

    def pickled(self, model: Model) -> tuple[Any, ...]:
        """The function that pickle calls to make ``model`` again, and its arguments; see
        ``Model.__reduce__``."""


class Model(trace.Displayed, AsModule, Whole):
    """A loaded graph, compiled and ready to execute. ``InferenceSession.load`` makes it.

    Its plan is bound to the sizes of the inputs, `Program`, and kept by them; where dims are
    computed while it runs, in stages. Outputs on a GPU may not be finished when a call returns:
    they belong to the default stream of their device, and whatever reads them waits for it. What a
    kernel there found wrong is raised by the first wait.

    Attributes:
        name: The name of its graph.
        compiled: The graph, its kernels and its plan.
        runner: What runs it.
        run: The outputs for inputs in their order, in the least time.
        last_profile: The newest profile of it.
        revision: How often what views show of it has changed.

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
    _again = "save it: model.save(path)"
    _instead = INSTEAD

    def __init__(
        self,
        executable: Executable,
        graph: Any,
        loader: Loader,
        read_graph: Callable[[], Any] | None = None,
    ) -> None:
        """A model that runs ``executable``. Without its ``graph``, ``read_graph`` reads that when
        somebody asks for it."""
        compiled = executable.compiled
        places = [x.device for x in compiled.plan.facts.inputs]
        streams = [executable.device_of(place).default_stream for place in places]
        arguments = Arguments(compiled, streams, not executable.placed, executable.handles)
        self.name = compiled.plan.facts.name
        self.compiled = compiled
        self.runner = Runner(executable, arguments)
        self.run = dispatch(self.runner)
        self._graph = graph
        self._read_graph = read_graph
        self._graph_revision: int = 0 if graph is None else graph.log.revision
        self._loader = loader
        self._gpu_profiler: GpuProfiler | None = None
        self.last_profile: Any = None
        self.revision = 0  # grows with every profile: views draw the model anew
        LIVE.add(self)

    @property
    def graph(self) -> Any:
        """The graph; of a model that was loaded with its plan, read now."""
        if self._graph is None and self._read_graph is not None:
            self._graph = self._read_graph()
            self._graph_revision = self._graph.log.revision
        return self._graph

    @property
    def graph_revision(self) -> int:
        """How many changes the graph had seen when it was loaded."""
        _ = self.graph
        return self._graph_revision

    @property
    def prepared(self) -> Prepared:
        """Its weights, as programs read them."""
        return self.runner.executable.prepared

    @property
    def num_threads(self) -> int:
        """Threads that run its steps on the host, the caller's included."""
        return self.runner.executable.threads

    @property
    def runtime(self) -> Any:
        """The runtime library that runs it."""
        return self.runner.executable.runtime

    @property
    def devices(self) -> dict[DeviceRef, Accelerator]:
        """The accelerators that it runs on, by the names that its graph has for them."""
        return self.runner.executable.devices

    def device_of(self, place: DeviceRef) -> Device:
        """The device that its graph calls ``place``."""
        return self.runner.executable.device_of(place)

    @property
    def chosen(self) -> dict[int, int]:
        """By the number of a step, which of its kernels it took last."""
        return self.runner.executable.chosen

    @property
    def gpu_kernels(self) -> dict[Variant, Loaded]:
        """The loaded kernels of GPUs, by the number of their step and which of its kernels."""
        return self.runner.executable.kernels

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
        return self.run(args)

    def execute_into(self, into: Sequence[Tensor], *args: Any) -> None:
        """Lets the outputs for the inputs ``args`` be in the memory of ``into``, which kernels of
        the host write themselves: nothing is copied.

        Args:
            into: A contiguous tensor for each output, of its dtype and shape.
            *args: As ``execute`` takes them.

        Raises:
            InputError: ML889, memory that does not fit; and as ``execute``.

        Example:
            >>> import numpy as np
            >>> from maxlab import engine
            >>> from maxlab.driver import Tensor
            >>> from maxlab.dtype import DType
            >>> from maxlab.graph import Graph, TensorType
            >>> graph = Graph("double", lambda x: x * 2, [TensorType(DType.float32, ["n"])])
            >>> into = np.zeros(3, np.float32)
            >>> engine.InferenceSession().load(graph).execute_into(
            ...     [Tensor.from_numpy(into)], np.ones(3, np.float32)
            ... )
            >>> into
            array([2., 2., 2.], dtype=float32)
        """
        if trace.run_watcher is not None or trace.run_recorder is not None:
            made = self._watched(args, trace.run_watcher, trace.run_recorder)
            require_fitting(self.name, into, [(x.dtype, x.shape) for x in made])
            for x, y in zip(into, made, strict=True):
                x.inplace_copy_from(y)
            return
        self.runner.run_into(into, args)

    def __call__(self, *args: Any, **kwargs: Any) -> list[Tensor]:
        """The outputs; inputs may be given by name (``input0``, ``input1`` …).

        Raises:
            InputTypeError: ML604, a missing, unknown or doubled input.
        """
        if kwargs or len(args) != self.runner.arguments.count:
            args = self.runner.arguments.bind(args, kwargs)
        if trace.run_watcher is not None or trace.run_recorder is not None:
            return self._watched(args, trace.run_watcher, trace.run_recorder)
        return self.run(args)

    def bind_arguments(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        """The inputs in their order, of which ``kwargs`` are given by name.

        Raises:
            InputTypeError: ML604, a missing, unknown or doubled input.
        """
        return self.runner.arguments.bind(args, kwargs)

    def _watched(
        self,
        args: Sequence[Any],
        tell: trace.RunWatcher | None,
        record: trace.RunRecorder | None,
    ) -> list[Tensor]:
        """The outputs, as somebody watches or records the runs."""
        start_ns = time.monotonic_ns()
        try:
            made: list[Tensor] = self.run(args) if record is None else record(self, args)
            return made
        finally:
            if tell is not None:
                tell(self.name, start_ns, time.monotonic_ns())

    def run_observed(self, args: Sequence[Any], *observers: Observer) -> list[Tensor]:
        """The outputs; ``observers`` see every step."""
        return self.runner.run_observed(args, *observers)

    def wait(self) -> None:
        """Return when its GPUs have done all that they were given.

        Raises:
            ExecutionError: A kernel found something wrong in an earlier call.
        """
        self.runner.executable.wait()

    def bind(self, shapes: Shapes) -> Program:
        """The program for inputs of ``shapes``; of a plan in stages, the first one.

        Raises:
            InputError: ML602 or ML603, sizes that the graph does not take.
        """
        return self.runner.programs[shapes]

    def unbind(self) -> None:
        """Forget all programs: the next run is bound anew, to what `compiled` has then."""
        self.runner.adopt(self.runner.executable)
        self.run = dispatch(self.runner)

    def programs_for(self, inputs: Sequence[Tensor]) -> list[Program]:
        """The programs of a run on ``inputs``, which is made when there are several."""
        return self.runner.programs_for(inputs)

    def printed(self, step: Step) -> Printed | None:
        """The text of the kernel that ``step`` took last, and before the first run the usual one;
        None when it is no generated text.
        """
        if step.gpu is None:
            return step.printed
        return step.gpu.printed(self.chosen.get(step.number, 0))

    # ------------------------------------------------------------ timing
    def profile_gpus(self, mode: GpuMode | None) -> None:
        """Record runs on GPUs from now on, or no more when ``mode`` is None. See
        ``InferenceSession.gpu_profiling``."""
        runner = self.runner
        recorded = mode if runner.executable.placed else None
        self._gpu_profiler = None
        if recorded is not None:
            from maxlab.engine.gpu_profiling import GpuProfiler

            self._gpu_profiler = GpuProfiler(runner, recorded)
        runner.instead = self._gpu_profiler.run if self._gpu_profiler is not None else None

    @property
    def gpu_profiling(self) -> str:
        """How much of its runs on GPUs is recorded: ``"off"``, ``"on"`` or ``"detailed"``."""
        return "off" if self._gpu_profiler is None else self._gpu_profiler.mode

    @property
    def gpu_runs(self) -> list[GpuRun]:
        """The newest runs that were recorded, the newest last; see
        ``InferenceSession.gpu_profiling``."""
        return [] if self._gpu_profiler is None else list(self._gpu_profiler.runs)

    @property
    def device_name(self) -> str:
        """The GPU's name, or that it is simulated; several are joined by ``+``. ``"cpu"``
        without one: virtual CPUs are cores of the same."""
        found = [d.context.properties for d in self.devices.values()]
        names = ["simulated GPU" if p.simulated else p.name for p in found]
        return " + ".join(names) or "cpu"

    def timer(self) -> Timer:
        """A timer that runs the model and times its steps."""
        threads = 0 if self.runner.executable.placed else self.num_threads
        from maxlab.engine.timer import Timer

        return Timer(self, threads)

    def run_to_the_end(self, *args: Any) -> None:
        """Run the model on the inputs ``args``, and return when all of its work has ended.

        Raises:
            ExecutionError: Something was found wrong while it ran; on a GPU too.
        """
        self.runner.run(args)
        self.wait()

    def placed(self, arrays: Sequence[Any]) -> list[Any]:
        """The inputs ``arrays``, which are on the host, on the devices that the model takes them
        on.
        """
        return self.runner.arguments.placed(arrays)

    @property
    def bound_shapes(self) -> list[Shapes]:
        """The shapes of inputs that the model has run with and remembers, the newest last."""
        return list(self.runner.programs)

    @property
    def last_sizes(self) -> dict[str, int]:
        """The size of every symbol in the newest of ``bound_shapes``, or in the last run when some
        are computed; empty before the first run."""
        if self.compiled.plan.cuts:
            return self.runner.last
        shapes = self.bound_shapes
        return self.runner.executable.rules.resolve(shapes[-1]) if shapes else {}

    def arenas(self, env: Mapping[str, int]) -> list[tuple[dict[int, int], int]] | None:
        """The arenas of runs with the sizes ``env``, each as the offsets of its slots and its
        bytes; None when no run had these sizes."""
        for program in list(self.runner.programs.values()):
            if program.env == env:
                return [(dict(arena.offsets), arena.nbytes) for arena in program.arenas]
        return None

    def inputs_of(self, args: Sequence[Any]) -> list[Tensor]:
        """The inputs as tensors on their devices, everything about them checked but their sizes."""
        return self.runner.arguments.accepted(args)[0]

    def sizes_of(self, tensors: Sequence[Tensor]) -> dict[str, int]:
        """The size of every symbol for these inputs."""
        return self.programs_for(tensors)[-1].env

    # ------------------------------------------------------------ looking
    @fitting("ML975", "model.profile(array, runs=20)")
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
        """The steps of the plan by id, with their C in ``.source``; those of a GPU with their CUDA,
        PTX, SASS and resources."""
        return Named(
            "model.kernels",
            {step.id: self._view(step) for step in self.compiled.plan.steps},
        )

    def _view(self, step: Step) -> KernelView | DeviceKernelView:
        if step.gpu is None:
            from maxlab.engine.kernel_view import KernelView

            return KernelView(self, step)
        from maxlab.engine.device_kernel import DeviceKernelView

        return DeviceKernelView(self, step)

    def capture(self, number: int, inputs: Sequence[Any]) -> Captured:
        """The memory of the GPU step ``number`` before and after it, in a run on ``inputs``."""
        from maxlab.engine.capturing import captured

        tensors = self.inputs_of(inputs)
        return captured(self, self.programs_for(tensors), number, tensors)

    @property
    def passes(self) -> dict[str, Any]:
        """The record of each pass, by name; ``.diff()`` lists the rewrites."""
        return Named("model.passes", {record.name: record for record in self.compiled.passes})

    @property
    def plan(self) -> Plan:
        """The slots and steps; it prints as a table."""
        return self.compiled.plan

    @property
    def options(self) -> Options:
        """The options that it was compiled with."""
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

    def export_c(self, folder: AnyPath) -> Exported:
        """The folder with the model as a program of C, which runs without Python: its kernels, the
        executor, its weights, a ``Makefile`` and a ``README.txt``.

        ``make && ./model in.npy out.npy`` there computes what the model does; ``model.h`` is the
        interface for programs of one's own. Dims with names stay open. Kernels that users wrote are
        exported, and not guarded there.

        Args:
            folder: Where to write: a folder that is not there, is empty, or has an earlier export,
                which is replaced.

        Raises:
            UnsupportedError: ML460, it runs on another device; ML461, it calls Python; ML462, it
                computes sizes while it runs; ML463, it passes opaque values; ML464, its kernels
                write messages.
            ArgumentError: ML465, the folder has other files.
            FileError: ML003, a file cannot be written.

        Example:
            >>> import tempfile
            >>> from maxlab import engine
            >>> from maxlab.dtype import DType
            >>> from maxlab.graph import Graph, TensorType
            >>> graph = Graph("double", lambda x: x * 2, [TensorType(DType.float32, ["n"])])
            >>> model = engine.InferenceSession().load(graph)
            >>> made = model.export_c(tempfile.mkdtemp())
            >>> "Makefile" in made.files, "model.h" in made.files
            (True, True)
        """
        from maxlab.engine.exporting import export_c

        return export_c(self, folder)

    def adopt(self, other: Model) -> None:
        """Run from now on what ``other`` runs: the same graph, compiled otherwise.

        Executions that are going on end as they began. The newest profile is forgotten, as it is of
        other kernels.

        Args:
            other: A model that ``reload`` of this one made.
        """
        self.wait()
        own, theirs = self.runner.executable, other.runner.executable
        theirs.chosen = {**own.chosen, **theirs.chosen}  # the steps are the same
        self.compiled = theirs.compiled
        self.runner.adopt(theirs)
        self.run = dispatch(self.runner)
        self.last_profile = None
        self.revision += 1

    def session_devices(self) -> list[Device]:
        """The devices that a session needs for the graph."""
        return [CPU(), *self.runner.executable.placed.values()]

    @property
    def weights(self) -> Mapping[str, Tensor]:
        """The graph's weights as tensors, by name."""
        return Named("model.weights", self.prepared.tensors)

    # ------------------------------------------------------------ keeping
    @fitting("ML975", "model.save('name.mlmodel')")
    def save(self, path: Path | str, *, weights: Where = "inside") -> str:
        """The SHA-256 of the file at ``path``, which now holds the model: its graph, plan, kernels
        as text and machine code, and weights.

        ``session.load(path)`` compiles the graph that is in it; with ``trusted=True`` it takes plan
        and machine code as they are, and is ready in milliseconds. See docs/how-to/save-a-model.md.

        Args:
            path: The file, ``.mlmodel``. It is replaced when all is written: a full disk leaves the
                old one.
            weights: ``"inside"`` keeps the numbers of weights in the file. ``"files"`` names the
                files of safetensors that they are mapped from, which then have to stay as they are;
                others are kept inside.

        Raises:
            ArgumentError: ML451, ``weights`` is something else.
            GraphError: ML450, a step calls a function of this process.
            FileError: ML001, ``path`` is there and is no regular file; ML003, it cannot be written.
            ToolchainError: Machine code was removed from the cache, and there is no compiler.
            WeightFileError: ML639 or ML641, the file of a weight has changed since it was mapped.

        Example:
            >>> import tempfile
            >>> import numpy as np
            >>> import maxlab
            >>> types = [maxlab.TensorType(maxlab.float32, ["n"])]
            >>> model = maxlab.load(maxlab.Graph("double", lambda x: x * 2, types))
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     _ = model.save(f"{folder}/double.mlmodel")
            ...     again = maxlab.load(f"{folder}/double.mlmodel", trusted=True)
            >>> again(np.ones(2, np.float32))[0].to_numpy()
            array([2., 2.], dtype=float32)
        """
        return self._loader.save(self, path, weights)

    def __reduce__(self) -> Any:
        """The parts that pickle and copy make the model of again: its graph and plan, and its
        weights, by name where they are mapped from files.

        The process that loads it needs these files, and takes kernels from its cache or compiles
        them.

        Raises:
            GraphError: ML450, a step calls a function of this process.
        """
        return self._loader.pickled(self)

    def __repr__(self) -> str:
        names = ", ".join(map(str, self.input_metadata))
        kernels = plural(len(self.compiled.plan.steps), "kernel")
        return f"Model({self.name!r}, [{names}], {kernels})"
