"""What a model costs, kernel by kernel, and the C that each kernel is.

Time belongs to kernels: the executor stamps the begin and the end of every step, and nothing here
splits a step's time over the ops it computes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from maxlab import trace
from maxlab.errors import ArgumentError, Location, UnsupportedError

if TYPE_CHECKING:
    from maxlab.compiler.plan import Step
    from maxlab.driver import Tensor
    from maxlab.engine.model import Model

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class KernelTime:
    """What one kernel cost, over all timed runs.

    Attributes:
        id: The kernel, ``"k4"``.
        name: What it computes, ``"matmul_add_gelu"``.
        kind: The kind of kernel, ``"contract"``.
        nodes: Ids of the ops of the graph that it computes; its time is all theirs together.
        ns: Nanoseconds of one launch, the median over the runs.
        ns_min: Nanoseconds of the fastest launch.
        ns_iqr: Nanoseconds between the first and the third quartile.
        flops: Arithmetic operations of one launch.
        nbytes: Bytes that its buffers hold, each read or written once.
        gflops: ``flops`` over ``ns``, in GFLOP/s.
        gbs: ``nbytes`` over ``ns``, in GB/s.
        share: ``ns`` as a fraction of the sum over all kernels.
    """

    id: str
    name: str
    kind: str
    nodes: tuple[str, ...]
    ns: float
    ns_min: int
    ns_iqr: float
    flops: int
    nbytes: int
    gflops: float
    gbs: float
    share: float


class Profile:
    """What a model cost on one set of inputs. ``Model.profile`` makes it.

    Attributes:
        model: The model.
        kernels: A ``KernelTime`` per kernel, in the order in which they run.
        dims: The size of every symbolic dim.
        device: ``"cpu"``.
        threads: Threads that the model may use.
        runs: Timed executions.
        wall_ns: Nanoseconds of one execution without timing, the median; what a caller waits for.
        wall_ns_min: Nanoseconds of the fastest execution without timing.
        timed_ns: Nanoseconds of one execution with every kernel timed, the median.

    Example:
        >>> import numpy as np
        >>> from maxlab import engine
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType
        >>> with Graph("double", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        ...     graph.output(graph.inputs[0].tensor * 2)
        >>> model = engine.InferenceSession().load(graph)
        >>> profile = model.profile(np.ones(1000, np.float32), runs=5)
        >>> profile
        Profile('double', 1 kernel, 5 runs)
        >>> profile.kernels[0].nbytes, profile.kernels[0].flops, profile.dims
        (8000, 1000, {'n': 1000})
    """

    def __init__(
        self,
        model: Model,
        kernels: Sequence[KernelTime],
        *,
        dims: Mapping[str, int],
        threads: int,
        walls_ns: Array,
        timed_ns: Array,
        inputs: Sequence[Tensor],
    ) -> None:
        self.model = model
        self.name = model.name
        self.kernels = list(kernels)
        self.dims = dict(dims)
        self.device = "cpu"
        self.threads = threads
        self.runs = len(timed_ns)
        self.wall_ns = float(np.median(walls_ns))
        self.wall_ns_min = int(walls_ns.min())
        self.timed_ns = float(np.median(timed_ns))
        self._inputs = tuple(inputs)

    @property
    def kernel_ns(self) -> float:
        """Nanoseconds of all kernels together; shares are fractions of it."""
        return sum(k.ns for k in self.kernels)

    @property
    def overhead(self) -> float:
        """How much longer an execution takes while its kernels are timed, as a fraction; noise can
        make it negative."""
        return self.timed_ns / self.wall_ns - 1 if self.wall_ns else 0.0

    @property
    def hottest(self) -> KernelTime | None:
        """The kernel that costs most; None when the model has no kernels."""
        return max(self.kernels, key=lambda k: k.ns, default=None)

    def kernel(self, id: str) -> KernelTime:
        """The times of the kernel ``id``, such as ``"k4"``.

        Raises:
            KeyError: There is no such kernel.
        """
        for kernel in self.kernels:
            if kernel.id == id:
                return kernel
        raise KeyError(id)

    def table(self, rows: int | None = 20) -> str:
        """The kernels as text, the most expensive first, below a line about the whole run.

        Args:
            rows: How many kernels to list; None lists all.
        """
        sizes = ", ".join(f"{name} = {size}" for name, size in self.dims.items())
        where = f"{self.name} on {self.device}, {_plural(self.threads, 'thread')}"
        walls = (
            f"one run {time_text(self.wall_ns)} (fastest {time_text(self.wall_ns_min)}), "
            f"its kernels {time_text(self.kernel_ns)}; timing them adds {self.overhead:+.1%}"
        )
        ordered = sorted(self.kernels, key=lambda k: -k.ns)
        shown = ordered if rows is None else ordered[: max(rows, 0)]
        cells = [("kernel", "name", "kind", "time", "± iqr", "share", "GFLOP/s", "GB/s")]
        cells += [
            (
                k.id,
                k.name if len(k.name) <= 40 else k.name[:39] + "…",
                k.kind,
                time_text(k.ns),
                time_text(k.ns_iqr),
                f"{k.share:.1%}",
                f"{k.gflops:.1f}" if k.flops else "",
                f"{k.gbs:.1f}" if k.nbytes else "",
            )
            for k in shown
        ]
        widths = [max(len(row[n]) for row in cells) for n in range(len(cells[0]))]
        lines = [
            "  ".join(
                text.ljust(width) if n < 3 else text.rjust(width)
                for n, (text, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in cells
        ]
        left = len(ordered) - len(shown)
        if left:
            rest = time_text(sum(k.ns for k in ordered[len(shown) :]))
            lines.append(f"… {left} more, {rest} together")
        return "\n".join([f"{where}, {sizes}" if sizes else where, walls, "", *lines])

    def to_html(self, path: Any = None) -> Any:
        """The profile as one HTML page that needs no network: its text, or, when ``path`` is given,
        the path it was written to.

        Raises:
            DocumentError: ML810, maxlab was installed without its front end.
        """
        return trace.export_html(self, path)

    def __repr__(self) -> str:
        kernels = _plural(len(self.kernels), "kernel")
        return f"Profile({self.name!r}, {kernels}, {_plural(self.runs, 'run')})"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        return trace.mimebundle(self, include, exclude)


def profile_model(model: Model, inputs: Sequence[Any], runs: int = 20, warmup: int = 3) -> Profile:
    """The ``Profile`` of ``model`` on ``inputs``; it becomes the model's ``last_profile``.

    Every timed execution is followed by one without timing, so that what timing costs is measured
    under the same conditions.

    Args:
        model: The model.
        inputs: As for ``Model.execute``.
        runs: Timed executions; as many without timing come between them.
        warmup: Executions before them that are not counted.

    Raises:
        ArgumentError: ML653, ``runs`` is less than 1 or ``warmup`` less than 0.
        InputError: Inputs that the model does not take.
    """
    if runs < 1 or warmup < 0:
        raise ArgumentError(
            "ML653",
            f"profile: runs must be 1 or more and warmup 0 or more, got {runs} and {warmup}",
            fix="leave them out for 20 runs after 3",
        )
    steps = model.compiled.plan.steps
    ffi = model._runtime.ffi
    buffer = ffi.new("i64[]", max(2 * len(steps), 1))
    stamps = np.frombuffer(ffi.buffer(buffer), np.int64)[: 2 * len(steps)].reshape(-1, 2)
    model._run(inputs, None)  # says what is wrong with the inputs before they are converted
    tensors = [model._convert(n, x) for n, x in enumerate(inputs)]
    for _ in range(warmup):
        model._run(tensors, buffer)
    spent = np.empty((runs, len(steps)), np.int64)
    timed = np.empty(runs, np.int64)
    walls = np.empty(runs, np.int64)
    with trace.span("profile", f"{model.name} runs", runs=runs):
        for run in range(runs):
            timed[run] = _wall(lambda: model._run(tensors, buffer))
            np.subtract(stamps[:, 1], stamps[:, 0], out=spent[run])
            walls[run] = _wall(lambda: model._run(tensors, None))
    env = model._bind(tuple(x._shape for x in tensors)).env
    profile = Profile(
        model,
        _kernel_times(steps, spent, env),
        dims=env,
        threads=model.num_threads,
        walls_ns=walls,
        timed_ns=timed,
        inputs=tensors,
    )
    model.last_profile = profile
    model.revision += 1
    # The id, not the model: events are kept, and must keep no weights alive.
    trace.emit("profile", model.name, model=id(model), runs=runs, wall_ns=profile.wall_ns)
    return profile


def _wall(call: Callable[[], object]) -> int:
    start = time.perf_counter_ns()
    call()
    return time.perf_counter_ns() - start


def _kernel_times(steps: Sequence[Step], spent: Array, env: Mapping[str, int]) -> list[KernelTime]:
    """A ``KernelTime`` for each step; ``spent`` holds nanoseconds as [runs, steps]."""
    if not steps:
        return []
    first, middle, third = np.percentile(spent, [25, 50, 75], axis=0)
    total = float(middle.sum())
    found = []
    for n, step in enumerate(steps):
        ns = float(middle[n])
        flops, nbytes = step.flops.evaluate(env), step.nbytes.evaluate(env)
        found.append(
            KernelTime(
                id=step.id,
                name=step.name,
                kind=step.kind,
                nodes=step.nodes,
                ns=ns,
                ns_min=int(spent[:, n].min()),
                ns_iqr=float(third[n] - first[n]),
                flops=flops,
                nbytes=nbytes,
                gflops=flops / ns if ns else 0.0,
                gbs=nbytes / ns if ns else 0.0,
                share=ns / total if total else 0.0,
            )
        )
    return found


class KernelView:
    """One kernel of a model to look at: ``model.kernels["k4"]``.

    Attributes:
        id: The kernel, ``"k4"``.
        name: What it computes.
        kind: The kind of kernel.
        nodes: Ids of the ops of the graph that it computes.
        flops: Arithmetic operations of one launch, a polynomial of the dims.
        nbytes: Bytes that its buffers hold, a polynomial of the dims.
        parallel: Items of the axis that threads share, as text.
    """

    def __init__(self, model: Model, step: Step) -> None:
        self._model = model
        self._step = step
        self.id = step.id
        self.name = step.name
        self.kind = step.kind
        self.nodes = step.nodes
        self.flops = step.flops
        self.nbytes = step.nbytes
        self.parallel = str(step.parallel)

    @property
    def symbol(self) -> str:
        """The name of the C function."""
        printed = self._step.printed
        return printed.symbol if printed is not None else self._step.builtin

    @property
    def source(self) -> str:
        """The generated C. Equal kernels of different layers have equal text."""
        return source_of(self._step)

    @property
    def cuda(self) -> str:
        """The same loops as CUDA, for comparison. In this version only the simulator of
        `maxlab.driver.sim` runs it.

        Raises:
            UnsupportedError: ML902, a product or attention, which is a call of a library on the CPU
                and has no CUDA kernel in this version.
        """
        from maxlab.compiler.codegen import cuda

        loops = self._step.loops
        if loops is None:
            raise UnsupportedError(
                "ML902",
                f"the kernel {self.id} ({self.kind}) has no CUDA text in this version",
                fix="look at .source, its C",
            )
        if loops.kernel.kind == "col":
            return cuda.print_columns(loops.kernel).text
        return cuda.print_rows(loops.kernel, loops.kept).text

    @property
    def lines(self) -> list[tuple[int, int, str]]:
        """(first line, last line, op id) for the lines of ``source`` that an op of the graph
        became; lines count from 1."""
        return user_lines(self._step, origins_of(self._model))

    def annotated(self) -> str:
        """The generated C with, behind the first line of each op, the op and where it was
        written."""
        ops = {op.id: op for op in self._model.compiled.source.ops}
        lines = self.source.splitlines()
        notes: dict[int, list[str]] = {}
        for first, _, node in self.lines:
            op = ops.get(node)
            if op is not None:
                note = f"{node} {op.name.removeprefix('mo.')}"
                place: Location | None = op.loc
                notes.setdefault(first, []).append(f"{note} {place}" if place else note)
        width = min(max((len(line) for line in lines), default=0), 72)
        return "\n".join(
            f"{line.ljust(width)}  // {'; '.join(notes[n])}" if n in notes else line
            for n, line in enumerate(lines, 1)
        )

    def __repr__(self) -> str:
        return f"Kernel({self.id}, {self.name!r}, {self.kind}, {_plural(len(self.nodes), 'op')})"


def origins_of(model: Model) -> Mapping[str, tuple[str, ...]]:
    """For each op that was compiled, the ids of the ops of the graph that it stands for."""
    return MappingProxyType({op.id: op.origins for op in model.compiled.function.ops})


def source_of(step: Step) -> str:
    """The C of ``step``; of a kernel that the runtime library brings, where to read it."""
    if step.printed is not None:
        return step.printed.text
    return (
        f"/* {step.builtin} is not generated: it is part of the runtime library,\n"
        " * in the folder kernels/c of maxlab. */\n"
    )


def user_lines(step: Step, origins: Mapping[str, tuple[str, ...]]) -> list[tuple[int, int, str]]:
    """The source map of ``step`` in terms of the graph's own ops.

    Only ops that the step is said to compute are named: a compiled op that stands for several of
    the user's is named by all of them.
    """
    if step.printed is None:
        return []
    known = set(step.nodes)
    found: dict[tuple[int, int, str], None] = {}
    for first, last, made in step.printed.lines:
        for node in origins.get(made, (made,)):
            if node in known:
                found[first, last, node] = None
    return list(found)


def time_text(ns: float) -> str:
    """``ns`` nanoseconds with three digits and a unit.

    Example:
        >>> time_text(1234567)
        '1.23 ms'
    """
    for limit, unit in ((1e3, "ns"), (1e6, "µs"), (1e9, "ms")):
        value = ns / limit * 1e3
        if value < 999.5:
            digits = 0 if unit == "ns" or value >= 99.95 else 1 if value >= 9.995 else 2
            return f"{value:.{digits}f} {unit}"
    return f"{ns / 1e9:.2f} s"


def _plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
