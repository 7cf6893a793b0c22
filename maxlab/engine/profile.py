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
from maxlab.engine.binding import CONTROL
from maxlab.engine.stamps import Stamps, imbalance, stacked
from maxlab.engine.times import Times, plural, time_text
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
        ns: Nanoseconds in one run, the median over the runs; of a kernel in a loop all turns
            together.
        ns_min: Nanoseconds in the fastest run.
        ns_iqr: Nanoseconds between the first and the third quartile.
        flops: Arithmetic operations in one run.
        nbytes: Bytes that its buffers hold, each read or written once in each turn.
        gflops: ``flops`` over ``ns``, in GFLOP/s.
        gbs: ``nbytes`` over ``ns``, in GB/s.
        share: ``ns`` as a fraction of the sum over all kernels.
        busy_ns: Nanoseconds of one run that each thread was busy, the medians over the runs; the
            rest of ``ns`` it waited for the others. Empty on a GPU, and for what torch runs.
        imbalance: How much shorter the launch could be if all threads had equal shares of it, as a
            fraction of the busiest thread's time: 0.5 where one of two threads does it all.
        turns: How often it was launched in one run, the median over the runs: more than once in a
            loop, and not at all in a branch that was not taken.
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
    busy_ns: tuple[float, ...] = ()
    imbalance: float = 0.0
    turns: int = 1


class Profile(Times):
    """What a model cost on one set of inputs. ``Model.profile`` makes it.

    Attributes:
        model: The model.
        kernels: A ``KernelTime`` per kernel, in the order in which they run.
        dims: The size of every symbolic dim.
        device: Where it ran: ``"cpu"``, a GPU by its name, or ``"simulated GPU"``, whose times are
            those of the CPU that plays it.
        threads: Threads that the model may use.
        runs: Timed executions.
        wall_ns: Nanoseconds of one execution without timing, the median; what a caller waits for.
        wall_ns_min: Nanoseconds of the fastest execution without timing.
        timed_ns: Nanoseconds of one execution with every kernel timed, the median.
        stamps: When each kernel of each timed run began and ended, and on which threads.
        kernel_samples_ns: ``[runs, kernels]`` int64, nanoseconds of each kernel in each timed run.
        timed_samples_ns: ``[runs]`` int64, nanoseconds of each timed run, of which ``timed_ns`` is
            the median.
        wall_samples_ns: ``[runs]`` int64, the same of the runs without timing between them; of
            the timed ones where there are no others.

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
        stamps: Stamps,
        walls_ns: Array,
        timed_ns: Array,
        inputs: Sequence[Tensor],
    ) -> None:
        self.model = model
        self.name = model.name
        self.kernels = list(kernels)
        self.dims = dict(dims)
        self.device = model.device_name
        self.threads = threads
        self.runs = len(timed_ns)
        self.wall_ns = float(np.median(walls_ns))
        self.wall_ns_min = int(walls_ns.min())
        self.timed_ns = float(np.median(timed_ns))
        self.stamps = stamps
        self.kernel_samples_ns = stamps.spent
        self.timed_samples_ns = timed_ns
        self.wall_samples_ns = walls_ns
        self._inputs = tuple(inputs)

    @property
    def accounted(self) -> float:
        """The part of a timed run in which its kernels ran, as a fraction, the median over the
        runs; in the rest inputs are checked and outputs allocated.

        ``kernel_ns / wall_ns`` says the same of a quiet machine only: on a busy one, the sum of
        medians is less than the median of sums.
        """
        calls = self.stamps.calls[:, 1] - self.stamps.calls[:, 0]
        return float(np.median(self.stamps.spent.sum(axis=1) / calls))

    @property
    def timeline(self) -> Any:
        """The ``maxlab.analysis.timeline.Timeline`` of the timed runs: which kernel ran when, on
        which thread or stream."""
        return trace.reading("timeline")(self)

    def to_html(self, path: Any = None) -> Any:
        """The profile as one HTML page that needs no network: its text, or, when ``path`` is given,
        the path it was written to.

        Raises:
            DocumentError: ML810, maxlab was installed without its front end.
        """
        return trace.export_html(self, path)

    def save(self, path: Any, *, label: str = "") -> Any:
        """The path of the file that the run was saved to, with its graph, its times of every run,
        and the machine; ``maxlab.load_run`` reads it again, anywhere.

        Args:
            path: Where to write it, usually ``name.mlprof``. A file that is there is replaced when
                the new one is complete.
            label: What to call the run in comparisons; the name of the file by default.

        Raises:
            OSError: ``path`` cannot be written.
        """
        return trace.reading("save_run")(self, path, label=label)

    def __repr__(self) -> str:
        kernels = plural(len(self.kernels), "kernel")
        return f"Profile({self.name!r}, {kernels}, {plural(self.runs, 'run')})"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        return trace.mimebundle(self, include, exclude)


def profile_model(model: Model, inputs: Sequence[Any], runs: int = 20, warmup: int = 3) -> Profile:
    """The ``Profile`` of ``model`` on ``inputs``; it becomes the model's ``last_profile``.

    Args:
        model: The model.
        inputs: As for ``Model.execute``.
        runs: Timed executions; as many without timing come between them.
        warmup: Executions before them that are not counted.

    Raises:
        ArgumentError: ML653, ``runs`` is less than 1 or ``warmup`` less than 0.
        InputError: Inputs that the model does not take.
    """
    profile = measure_model(model, inputs, runs, warmup)
    announce(profile)
    return profile


def announce(profile: Profile) -> None:
    """Make ``profile`` the newest one of its model, and tell the views of it."""
    model = profile.model
    model.last_profile = profile
    model.revision += 1
    # The id, not the model: events are kept, and must keep no weights alive.
    data = {"model": id(model), "runs": profile.runs, "wall_ns": profile.wall_ns}
    trace.emit("profile", model.name, **data)


def profile_of_calls(
    model: Model, stamps: Stamps, env: Mapping[str, int], inputs: Sequence[Tensor]
) -> Profile:
    """The ``Profile`` of calls that somebody else made, all of which were timed: what timing costs
    is not known of them.

    Args:
        model: The model.
        stamps: Of calls with inputs of the same sizes.
        env: The size of every symbolic dim in them.
        inputs: The inputs of one of the calls, as tensors.
    """
    calls_ns = stamps.calls[:, 1] - stamps.calls[:, 0]
    return Profile(
        model,
        _kernel_times(model.compiled.plan.steps, stamps, env),
        dims=env,
        threads=model.num_threads,
        stamps=stamps,
        walls_ns=calls_ns,
        timed_ns=calls_ns,
        inputs=inputs,
    )


def measure_model(model: Model, inputs: Sequence[Any], runs: int = 20, warmup: int = 3) -> Profile:
    """The ``Profile`` of ``model`` on ``inputs``, without telling the model or anybody else.

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
    timer = model._timer()
    model._run(inputs, None)  # says what is wrong with the inputs before they are converted
    tensors = model._inputs_of(inputs)
    for _ in range(warmup):
        timer.run(tensors)
    rows = []
    timed = np.empty(runs, np.int64)
    walls = np.empty(runs, np.int64)
    with trace.span("profile", f"{model.name} runs", runs=runs):
        for run in range(runs):
            timed[run] = _wall(lambda: timer.run(tensors))
            rows.append(timer.taken())
            walls[run] = _wall(lambda: model.run_to_the_end(*tensors))
    env = model._sizes_of(tensors)
    stamps = stacked(rows)
    return Profile(
        model,
        _kernel_times(steps, stamps, env),
        dims=env,
        threads=model.num_threads,
        stamps=stamps,
        walls_ns=walls,
        timed_ns=timed,
        inputs=tensors,
    )


def _wall(call: Callable[[], object]) -> int:
    start = time.perf_counter_ns()
    call()
    return time.perf_counter_ns() - start


def _kernel_times(
    steps: Sequence[Step], stamps: Stamps, env: Mapping[str, int]
) -> list[KernelTime]:
    """A ``KernelTime`` for each step."""
    if not steps:
        return []
    spent = stamps.spent
    first, middle, third = np.percentile(spent, [25, 50, 75], axis=0)
    busy = np.median(stamps.busy, axis=0)
    turns = np.median(stamps.turns, axis=0)
    total = float(middle.sum())
    found = []
    for n, step in enumerate(steps):
        ns, count = float(middle[n]), int(turns[n])
        # Whoever is called from the plan has threads of its own, and nobody knows what they do.
        known = busy[:, n].tolist() if step.call is None else []
        flops, nbytes = (count * work.evaluate(env) for work in (step.flops, step.nbytes))
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
                busy_ns=tuple(known),
                imbalance=imbalance(known),
                turns=count,
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
        printed = self._model.printed(self._step)
        return printed.symbol if printed is not None else self._step.callee

    @property
    def source(self) -> str:
        """The generated C. Equal kernels of different layers have equal text."""
        return source_of(self._model, self._step)

    @property
    def cuda(self) -> str:
        """The same loops as CUDA: what a GPU would run.

        Raises:
            UnsupportedError: ML902, a product or attention on the CPU, which is a call of a library
                there; build the graph on a GPU to see its CUDA.
        """
        from maxlab.compiler.steps_gpu import cuda_of

        loops = self._step.loops
        if loops is None:
            raise UnsupportedError(
                "ML902",
                f"the kernel {self.id} ({self.kind}) is a call of a library on the CPU",
                fix="look at .source, its C, or load the graph on a GPU: DeviceRef.GPU()",
            )
        return cuda_of(loops).text

    @property
    def lines(self) -> list[tuple[int, int, str]]:
        """(first line, last line, op id) for the lines of ``source`` that an op of the graph
        became; lines count from 1."""
        return user_lines(self._model, self._step, origins_of(self._model))

    def edit(self, source: str, *inputs: Any, runs: int = 20) -> Any:
        """An ``Edit``: what becomes of the kernel with the text ``source``. It is compiled, tried
        in a process of its own, checked against the references and timed beside this one; its
        ``keep()`` lets the model run it, ``discard()`` forgets it.

        Args:
            source: The text: a function of the same name and arguments.
            *inputs: As for ``Model.execute``; those of the newest profile when left out.
            runs: Timed runs of each.

        Raises:
            ArgumentError: ML638, the kernel is no generated text.
            InputError: ML662, no inputs are given and none are known.
        """
        return trace.reading("edit_kernel")(self._model, self.id, source, *inputs, runs=runs)

    def annotated(self) -> str:
        """The generated C with, behind the first line of each op, the op and where it was
        written."""
        ops = {op.id: op for op in self._model.compiled.source.walk()}
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
        return f"Kernel({self.id}, {self.name!r}, {self.kind}, {plural(len(self.nodes), 'op')})"


def origins_of(model: Model) -> Mapping[str, tuple[str, ...]]:
    """For each op that was compiled, the ids of the ops of the graph that it stands for."""
    compiled = model.compiled
    functions = (compiled.function, *compiled.bodies)
    return MappingProxyType({op.id: op.origins for one in functions for op in one.walk()})


def source_of(model: Model, step: Step) -> str:
    """The C or CUDA of ``step``; of a kernel that the runtime library brings, where to read it."""
    printed = model.printed(step)
    if printed is not None:
        return printed.text
    if step.call is not None:
        return step.call.text
    if step.exchange is not None and step.kind in CONTROL:
        became = ", ".join(f"b{to} is b{source}" for to, source in step.exchange.moves)
        return f"/* in the steps of the loop, from here on: {became} */\n"
    if step.kind in CONTROL:
        where = f"k{step.number + step.jump}"
        when = " when its flag is false" if step.kind == "branch" else ""
        return f"/* the run goes on at {where}{when} */\n"
    if step.kind == "transfer":
        return f"/* a copy to {step.device}, by the device's driver */\n"
    return (
        f"/* {step.builtin} is not generated: it is part of the runtime library,\n"
        " * in the folder kernels/c of maxlab. */\n"
    )


def user_lines(
    model: Model, step: Step, origins: Mapping[str, tuple[str, ...]]
) -> list[tuple[int, int, str]]:
    """The source map of ``step`` in terms of the graph's own ops.

    Only ops that the step is said to compute are named: a compiled op that stands for several of
    the user's is named by all of them.
    """
    printed = model.printed(step)
    if printed is None:
        return []
    nodes = step.nodes
    known = set(nodes)
    found: dict[tuple[int, int, str], None] = {}
    for first, last, made in printed.lines:
        renamed = step.renamed
        for node in origins.get(made, (made,)) if renamed is None else renamed.get(made, ()):
            if node in known:
                found[first, last, node] = None
    return list(found)


__all__ = [
    "KernelTime",
    "KernelView",
    "Profile",
    "announce",
    "measure_model",
    "origins_of",
    "profile_model",
    "profile_of_calls",
    "source_of",
    "time_text",
    "user_lines",
]
