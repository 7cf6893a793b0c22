"""``InferenceSession``: from a graph to a model."""

from __future__ import annotations

import functools
import time
from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np

from maxlab import progress, trace
from maxlab.compiler import Compiled, Options, cached
from maxlab.compiler.options import OF_SESSION
from maxlab.config import MOST_THREADS, config
from maxlab.driver import CPU, Device, Tensor
from maxlab.driver.accelerator import accelerators_of
from maxlab.driver.device import device_named
from maxlab.engine.executable import Executable
from maxlab.engine.front_loader import LOADER
from maxlab.engine.kept.trusting import require_digest, require_trust
from maxlab.engine.loading import devices_of, with_kernels
from maxlab.engine.model import LIVE, Model
from maxlab.engine.session_settings import (
    AssertLevel,
    GPUProfilingMode,
    LogLevel,
    SplitKReductionPrecision,
    member_of,
)
from maxlab.engine.weights import prepare, weights_in
from maxlab.engine.whole import Whole
from maxlab.errors import (
    ArgumentError,
    ArgumentTypeError,
    DeviceError,
    InvalidPathError,
    MaxlabError,
    shown,
)
from maxlab.graph import Graph
from maxlab.graph.kernel_library import gathered
from maxlab.graph.tables import CONFLICTS
from maxlab.habits import fitting
from maxlab.ir import DeviceRef
from maxlab.opset import lookup
from maxlab.opset.custom import trust
from maxlab.toolchain import ended_with_its_caller, runtime, runtime_ahead

if TYPE_CHECKING:
    from maxlab.engine.guard import Guard, Guarding
    from maxlab.engine.kept.archive import Archive
    from maxlab.toolchain.child import Child


def _guard_of(given: Any) -> Guard | None:
    """As ``guard.guard_of``, which is imported where kernels are guarded.

    Raises:
        ArgumentTypeError: ML775, it is no bool and no ``Guard``.
    """
    if given is False:
        return None
    from maxlab.engine.guard import guard_of

    return guard_of(given)


class InferenceSession(Whole):
    """Compiles graphs and holds what they share: devices, threads.

    Args:
        devices: The devices that models may use, in this order, each once; the CPU is always among
            them, and behind them when it is not named.
        num_threads: Threads of each model, the caller's included; by default
            ``MAXLAB_NUM_THREADS``, or all usable
            cores.
        custom_extensions: Kernel libraries: paths of files, folders or archives, ``KernelLibrary``
            objects, or texts with declarations. Custom ops of a graph that they declare are
            compiled as they declare them; others as the graph's own library does.

    Raises:
        ArgumentError: ML763, a path without a kernel library; ML616, fewer than one thread or
                more than 1024.
        DeviceError: ML617, a device that cannot run graphs.

    Example:
        >>> from maxlab import engine
        >>> engine.InferenceSession().devices
        [Device(type=cpu,id=0)]
    """

    _called = "session"
    _again = "make another: InferenceSession()"
    _instead: ClassVar[dict[str, str]] = {
        "run": "load a graph and call the model: session.load(graph)(array)[0]",
        "compile": "session.load(graph)",
        "device": "session.devices[0]",
        "threads": "session.num_threads",
        **dict.fromkeys(
            ("predict", "infer", "execute", "forward"), "session.load(graph)(array)[0]"
        ),
        "profile": "session.load(graph).profile(array)",
        **dict.fromkeys(("graph", "models"), "session.load(graph) returns the model; keep it"),
        **dict.fromkeys(
            ("get_inputs", "get_outputs"), "a model has them: session.load(graph).input_metadata"
        ),
        **dict.fromkeys(
            ("close", "__enter__", "eval"), "it needs no closing and no mode: session.load(graph)"
        ),
    }

    def __call__(self, *args: Any) -> NoReturn:
        """Raises: models are called.

        Raises:
            ArgumentTypeError: ML970, always.
        """
        raise ArgumentTypeError(
            "ML970",
            "a session cannot be called: it loads graphs",
            fix="session.load(graph)(array)[0]",
        )

    @fitting("ML618", "InferenceSession(devices=[driver.CPU()])")
    def __init__(
        self,
        devices: Iterable[Device | DeviceRef | str] | Device | DeviceRef | str | None = None,
        num_threads: int | None = None,
        *,
        custom_extensions: Any = None,
    ) -> None:
        self._kernel_library = gathered(custom_extensions)
        if isinstance(devices, (str, Device, DeviceRef)):
            devices = [devices]
        if isinstance(devices, Graph):
            raise ArgumentTypeError(
                "ML618",
                "a session is made of devices, got a graph",
                fix="load the graph: InferenceSession().load(graph)",
            )
        if devices is not None and not isinstance(devices, Iterable):
            raise ArgumentTypeError(
                "ML618", f"devices takes a list, got {shown(devices)}", fix="write devices=[device]"
            )
        try:
            named = list(devices) if devices is not None else []
        except Exception as error:
            raise ArgumentTypeError(
                "ML618",
                f"devices takes a list, and {shown(devices)} cannot be read as one",
                fix="write devices=[device]",
            ) from error
        given = [device_named(d) if isinstance(d, (str, DeviceRef)) else d for d in named]
        for device in given:
            if not isinstance(device, Device):
                raise ArgumentTypeError(
                    "ML618",
                    f"{shown(device)} is not a device",
                    fix="pass driver.CPU(), not a DeviceRef",
                )
            if not device.is_compatible:
                raise DeviceError(
                    "ML617",
                    f"graphs cannot run on {device} in this version",
                    fix="leave devices out, or pass [driver.CPU()]",
                )
        self._devices = list(dict.fromkeys([*given, CPU()]))
        is_int = isinstance(num_threads, (int, np.integer)) and not isinstance(num_threads, bool)
        if num_threads is not None and not (is_int and 1 <= num_threads <= MOST_THREADS):
            raise ArgumentError(
                "ML616",
                f"num_threads must be an int from 1 to {MOST_THREADS}, got {shown(num_threads)}",
                fix="leave it out for all usable cores",
            )
        chosen = config().num_threads if num_threads is None else int(num_threads)
        self.num_threads = chosen
        self._gpu_profiling = GPUProfilingMode.OFF
        self._options: dict[str, Any] = {}  # what models are compiled with, by OF_SESSION
        runtime_ahead()

    @functools.cached_property
    def beside(self) -> Child:
        """The process in which guarded kernels of all models run, one at a time."""
        from maxlab.toolchain.child import Child

        return Child()

    def _guarding(self, guard: Guard, compiled: Compiled) -> Guarding:
        """The runner of the kernels of users in ``compiled`` in another process."""
        from maxlab.engine.guard import Guarding

        return Guarding(guard, self.beside, compiled)

    def __repr__(self) -> str:
        names = ", ".join(map(repr, self._devices))
        return f"InferenceSession(devices=[{names}], num_threads={self.num_threads})"

    @property
    def devices(self) -> list[Device]:
        """The devices of the session."""
        return list(self._devices)

    # ------------------------------------------------------------ options
    def gpu_profiling(self, mode: GPUProfilingMode) -> None:
        """Records GPU runs of models that are loaded after this call.

        ``ON`` records when each run began and ended on each device, ``DETAILED`` each kernel and
        transfer too, by the clocks of the devices. A recorded run waits for its end. It is kept in
        ``model.gpu_runs``, tells the event stream, and draws NVTX ranges for NVIDIA's tools. Models
        of the CPU have no GPU to record.

        Args:
            mode: A ``GPUProfilingMode`` or its name, in any case.

        Raises:
            ArgumentTypeError: ML622, not a mode.

        Example:
            >>> from maxlab import engine
            >>> engine.InferenceSession().gpu_profiling(engine.GPUProfilingMode.ON)
        """
        self._gpu_profiling = member_of(GPUProfilingMode, mode, "the GPU profiling mode")

    def set_mojo_log_level(self, level: str | LogLevel) -> None:
        """Sets which messages of kernels, ``MX_LOG``, later loads compile in: those of ``level`` or
        above.

        Messages go to the logger ``maxlab.kernels``, or to ``sys.stderr`` where logging is not set
        up, in the order of kernels and of items, when the model has run. ``TRACE`` also says when
        each kernel begins. ``NOTSET``, as by default, means no messages.

        Args:
            level: A ``LogLevel`` or its name, in any case.

        Raises:
            ArgumentTypeError: ML622, not a level.

        Example:
            >>> from maxlab import engine
            >>> engine.InferenceSession().set_mojo_log_level("info")
        """
        self._options["log_level"] = member_of(LogLevel, level, "the log level").value

    def set_mojo_assert_level(self, level: str | AssertLevel) -> None:
        """Sets what kernels of models that are loaded after this call test.

        ===========  ==========================================================================
        ``NONE``     not even indices: one out of range reads or writes any memory
        ``SAFE``     indices, as by default; the run ends with an error
        ``ALL``      also ``MX_ASSERT`` in kernels of users, and that no kernel writes NaN
        ``WARN``     as ``ALL``, but what is found is logged as a warning and the run goes on;
                     an index out of range is 0
        ===========  ==========================================================================

        Args:
            level: An ``AssertLevel`` or its name, in any case.

        Raises:
            ArgumentTypeError: ML622, not a level.
        """
        self._options["assert_level"] = member_of(AssertLevel, level, "the assert level").value

    def set_split_k_reduction_precision(self, precision: str | SplitKReductionPrecision) -> None:
        """Sets the precision in which models that are loaded after this call add the parts of long
        products of float16 and bfloat16.

        ``ACCUM``, as by default: float32. ``OUTPUT``: a product over a static size of 2048 or more
        is made in parts, each rounded to the dtype of the result before they are added.

        Args:
            precision: A ``SplitKReductionPrecision`` or its name, in any case.

        Raises:
            ArgumentTypeError: ML622, not a precision.
        """
        chosen = member_of(SplitKReductionPrecision, precision, "the split-k precision")
        self._options["split_k"] = chosen.value.lower()

    def use_old_top_k_kernel(self, mode: str) -> None:
        """Sets whether ``top_k`` of models that are loaded after this call sorts whole rows (the
        old kernel), or selects the k largest (the new one, as by default).

        Args:
            mode: ``"false"``, ``"off"``, ``"no"`` or ``"0"`` in any case for the new kernel,
                anything else for the old one.

        Raises:
            ArgumentTypeError: ML622, not a string.
        """
        if not isinstance(mode, str):
            raise ArgumentTypeError(
                "ML622", f"the mode must be a string, got {mode!r}", fix="write 'false'"
            )
        self._options["old_top_k"] = mode.strip().lower() not in ("false", "off", "no", "0")

    # ------------------------------------------------------------ loading
    @fitting("ML618", "session.load(graph, weights_registry={})")
    def load(
        self,
        model: Any,
        *,
        custom_extensions: Any = None,
        custom_ops_path: str | None = None,
        weights_registry: Mapping[str, Any] | None = None,
        options: Options | None = None,
        guard: bool | Guard = False,
        trusted: bool | str = False,
    ) -> Model:
        """The compiled ``model``, ready to execute.

        Args:
            model: A ``Graph``, or the path of one, or of a model, that was saved.
            custom_extensions: Kernel libraries for this model, before those of the session.
            custom_ops_path: As ``custom_extensions``, one path.
            weights_registry: The data of the graph's weights by name, used in place and kept alive.
                Names the graph does not use are ignored. Anything array-like: ``driver.Tensor``,
                NumPy array, DLPack object. The right operands of products are packed now, and
                what depends on weights alone is computed: a later change of such an array is seen
                by the next ``load``, not by this model.
            options: What to fuse and keep, and how to compile; see ``maxlab.compiler.Options``.
            guard: Whether kernels that users wrote run in a process of their own, where a crash, a
                write outside of an argument and a loop that does not end become errors; a `Guard`
                says how long they may take, 10 seconds with ``True``. Results are the same bits.
                Each call of a kernel takes some tenths of a millisecond more, and copies its
                arguments. docs/how-to/write-a-kernel.md says what is found.
            trusted: Whether the file is trusted as a program of its author is. Of a saved model,
                plan and machine code are taken as they are where they fit this machine; otherwise
                its graph is compiled here. Custom kernels of a file are compiled only if it is
                trusted. The digest that ``model.save`` gave, a text of 64 digits, trusts that file
                and no other.

        Raises:
            ParseError: ML512 or ML514, a saved model that is damaged or was changed; ML513, a newer
                maxlab wrote it.
            ArgumentError: ML515, a saved model has custom kernels and is not trusted.
            WeightError: ML516 or ML517, a saved model names a file that it may not name, or that is
                not there or another one.
            ArgumentTypeError: ML518, ``trusted`` is neither a bool nor a digest.
            InvalidPathError: ML793 or what is wrong in the file; a ``RuntimeError`` and a
                ``ValueError``.
            WeightError: A weight is missing, or has another shape or dtype than declared.
            DeviceError: ML617, the graph uses a device that the session does not have.
            ToolchainError: No C or CUDA compiler was found, or it failed.
            ArgumentTypeError: ML625, ``options`` is no ``Options``.
            ArgumentError: ML626 or ML627, ``options`` name what the graph does not have; ML774,
                kernels with opaque handles are to be guarded. ML774 is a DeviceError where kernels
                of GPUs are.
            ArgumentTypeError: ML775, ``guard`` is no bool and no ``Guard``.
        """
        guarding = _guard_of(guard)
        chosen = options if options is not None else Options()
        if not isinstance(chosen, Options):
            raise ArgumentTypeError(
                "ML625",
                f"options must be compiler.Options, got {shown(options)}",
                fix="write options=compiler.Options(fuse=False)",
            )
        require_trust(trusted)
        kept = _archive_at(model, trusted) if isinstance(model, (str, Path)) else None
        if kept is not None and options is None:
            from maxlab.engine.kept.opening import options_of

            chosen = options_of(kept, is_trusted=bool(trusted))
        before, chosen = chosen, chosen.of_session(self._options)
        if chosen.at_load and not config().at_load:
            chosen = chosen.with_options(at_load=False)
        graph = model
        registry = weights_in(weights_registry)
        if kept is not None:
            from maxlab.engine.kept.loading import is_loadable
            from maxlab.engine.kept.opening import misfit
            from maxlab.engine.kept.reading import graph_in
            from maxlab.engine.kept.weights import Numbers

            own = custom_extensions is None and custom_ops_path is None and guarding is None
            own = own and options is None and chosen == before
            if trusted and own and not misfit(kept) and is_loadable(kept, registry):
                return self._kept(kept, chosen, registry)
            libraries = [custom_extensions, custom_ops_path, self._kernel_library]
            graph = graph_in(kept, libraries, is_trusted=bool(trusted))
            own_numbers: Any = Numbers(kept, is_trusted=bool(trusted))
            registry = ChainMap(dict(registry), own_numbers)
        elif isinstance(model, (str, Path)):
            graph = _graph_at(model, trusted)
        if not isinstance(graph, Graph):
            raise ArgumentTypeError(
                "ML619",
                f"load takes a Graph or a path, got {type(model).__name__}",
                fix=_loaded_by(model),
            )
        if graph.function.notes.get(CONFLICTS):
            from maxlab.graph.conflicts import warn_of_conflicts

            warn_of_conflicts(graph.function, "loaded")
        function = with_kernels(graph, [custom_extensions, custom_ops_path, self._kernel_library])
        devices = devices_of(function, self._devices)
        if guarding is not None:
            from maxlab.engine.guard import require_guardable

            require_guardable(function)
        with (
            progress.working(f"load {graph.name}"),
            ended_with_its_caller(),
            trace.span("load", graph.name),
        ):
            elsewhere = accelerators_of(devices)
            if any(
                lookup(op.name).kind == "contract" and op.result.tensor_type.device not in elsewhere
                for op in function.walk()
            ):
                runtime_ahead(products=True)
            compiled = cached.load(function, chosen)
            if guarding is not None and any(step.arguments for step in compiled.plan.steps):
                compiled.guard = self._guarding(guarding, compiled)
            own_weights = graph.kept_weights
            if own_weights:  # what is not given is what the document of the graph keeps
                registry = ChainMap(dict(registry), own_weights)
            return self._model(compiled, graph, registry, devices)

    def _kept(self, archive: Archive, options: Options, registry: Mapping[str, Any]) -> Model:
        """The model of ``archive``, which is trusted and fits: no pass and no compiler runs."""
        from maxlab.engine.kept.loading import load_kept

        return load_kept(
            archive,
            options,
            registry,
            devices=self._devices,
            threads=self.num_threads,
            profiling=self._gpu_profiling.value,
        )

    def _model(
        self,
        compiled: Compiled,
        graph: Graph | None,
        registry: Mapping[str, Any],
        devices: dict[DeviceRef, Device],
    ) -> Model:
        """The model that runs ``compiled`` with the weights of ``registry``."""
        progress.step("compiling", what="the runtime library")
        library = runtime()
        progress.step("weights")
        start = time.perf_counter_ns()
        computed = self.computed_ahead(compiled, registry, devices)
        if compiled.plan.facts.ahead is not None:
            compiled.timings_ns["ahead"] = time.perf_counter_ns() - start
        start = time.perf_counter_ns()
        prepared = prepare(compiled, registry, library, self.num_threads, devices, computed)
        compiled.timings_ns["weights"] = time.perf_counter_ns() - start
        if computed:
            weights = prepared.tensors
            prepared.again = lambda: self.computed_ahead(compiled, weights, devices)
            computed.clear()
        executable = Executable(compiled, prepared, self.num_threads, library, devices)
        made = Model(executable, graph, LOADER)
        if self._gpu_profiling is not GPUProfilingMode.OFF:
            made.profile_gpus(self._gpu_profiling.value)
        return made

    def computed_ahead(
        self,
        compiled: Compiled,
        registry: Mapping[str, Any],
        devices: dict[DeviceRef, Device],
    ) -> dict[str, Tensor]:
        """Tensors that are computed once from weights for ``compiled``, by the names that it has
        for them.

        Raises:
            MaxlabError: A weight is missing or wrong, as `load` says.
        """
        facts = compiled.plan.facts.ahead
        if facts is None:
            return {}
        with trace.span("ahead", compiled.plan.facts.name, ops=facts.count, nbytes=facts.nbytes):
            known = cached.load_ahead(compiled)
            if known is not None:
                part = self._model(known, None, registry, devices)
            else:
                ahead = compiled.ahead
                assert ahead is not None, "the plan says that there is something"
                graph = Graph(path=ahead.function)
                part = self.load(graph, weights_registry=registry, options=ahead.options)
            LIVE.discard(part)  # it is no model of the user's
            made = part.runner.run(())
        return dict(zip(facts.names, made, strict=True))


CustomExtensionsType = list[str | Path | Any] | str | Path | Any
"""Names of kernel libraries: paths, library objects, or a list of them."""


def computed_again(
    compiled: Compiled, weights: Mapping[str, Any], devices: Sequence[Device], num_threads: int
) -> dict[str, Tensor]:
    """The tensors that ``compiled`` reads and that are computed once of ``weights``, by their names
    in it."""
    return InferenceSession(devices, num_threads).computed_ahead(compiled, weights, {})


def load_again(model: Model, *, options: Options, num_threads: int) -> Model:
    """The graph and weights of ``model`` as another model, loaded as it was."""
    session = session_like(model, num_threads)
    return session.load(
        model.graph,
        weights_registry=model.weights,
        options=options,
        guard=model.guard,
    )


def session_like(model: Model, num_threads: int) -> InferenceSession:
    """A session with the devices and the settings of the one that loaded ``model``."""
    session = InferenceSession(model.session_devices(), num_threads)
    session._options = {name: getattr(model.options, name) for name in OF_SESSION}
    session.gpu_profiling(GPUProfilingMode(model.gpu_profiling))
    return session


def _archive_at(path: str | Path, trusted: bool | str) -> Archive | None:
    """The kept model at ``path``; None where it is none.

    Raises:
        ParseError: ML512, it is damaged; ML514, it is not the one that is trusted.
    """
    from maxlab.engine.kept.archive import Archive, is_archive

    if not is_archive(path):
        return None
    found = Archive(path)
    require_digest(found, trusted)
    return found


def _graph_at(path: str | Path, trusted: bool | str) -> Graph:
    """The graph in the file at ``path``, whose kernels are declared where it is trusted.

    Raises:
        InvalidPathError: There is none that can be read.
    """
    try:
        graph = Graph(path=Path(path))
        if trusted:
            trust(graph.function)
    except InvalidPathError:
        raise
    except MaxlabError as error:
        raise InvalidPathError(
            error.code, error.what, at=error.at, why=error.why, fix=error.fix
        ) from error
    return graph


def _loaded_by(model: object) -> str:
    """The code to write where ``model``, which is no graph, was to be loaded."""
    if isinstance(model, Model):
        return "it is loaded: call it, model(array)[0]; with other options: model.reload()"
    if any(kind.__module__.startswith("torch.") for kind in type(model).__mro__):
        return "a module of PyTorch is imported: maxlab.torch.load(module, x)"
    if any(kind.__module__ == "maxlab.experimental.nn.module" for kind in type(model).__mro__):
        return "a module of tensors is compiled: model.compile(*model.input_types())"
    if callable(model):
        return "a function or layer is traced first: maxlab.Graph(name, function, input_types)"
    return "maxlab.load(graph), or the path of a file that graph.save wrote"
