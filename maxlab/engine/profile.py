"""The cost of a model, kernel by kernel, and the C of each kernel.

Time belongs to kernels: the executor stamps the begin and the end of every step, and nothing here
splits a step's time over the ops it computes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np

from maxlab import progress, trace
from maxlab.engine.stamps import Stamps, imbalance, stacked
from maxlab.engine.times import KernelTime, Times, plural, time_text
from maxlab.engine.whole import Numbered, Whole
from maxlab.errors import ArgumentError, ArgumentTypeError
from maxlab.habits import fitting, is_count

if TYPE_CHECKING:
    from maxlab.compiler.plan import Step
    from maxlab.driver import Tensor
    from maxlab.engine.model import Model

Array = np.ndarray[Any, Any]


class Profile(Times, trace.Displayed, Whole):
    """The cost of a model on one set of inputs. ``Model.profile`` makes it.

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

    _called = "profile"
    _listed = 'profile.kernels[0] has the times of a kernel, profile.model.kernels["k0"] its source'
    _again = "save the run: profile.save(path); maxlab.load_run(path) reads it"
    _instead: ClassVar[dict[str, str]] = {
        **dict.fromkeys(
            ("show", "plot", "draw"),
            "the profile itself, as the last value of a cell, is drawn; profile.to_html(path)",
        ),
        **dict.fromkeys(
            ("summary", "print_stats", "key_averages", "total_average"), "print(profile.table())"
        ),
        **dict.fromkeys(("total", "time", "duration"), "profile.wall_ns, of one run"),
        **dict.fromkeys(
            ("sort", "top", "hottest", "sort_by"),
            "sorted(profile.kernels, key=lambda one: one.ns, reverse=True)",
        ),
        **dict.fromkeys(
            ("mean", "median", "times", "timings", "min", "max", "average"),
            "profile.wall_ns, of one run; profile.kernels[0].ns, of a kernel",
        ),
        **dict.fromkeys(
            ("to_pandas", "to_frame", "to_dict", "to_list", "rows"),
            "[(k.name, k.ns) for k in profile.kernels]",
        ),
        "export_chrome_trace": "profile.timeline.to_chrome(path)",
    }

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
        self.kernels = Numbered("profile.kernels", kernels)
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
        self.inputs = tuple(inputs)

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

    def _not_compared(self, other: object) -> NoReturn:
        raise ArgumentTypeError(
            "ML973",
            "profiles are neither subtracted nor ordered: their times are noisy",
            fix="compare them: maxlab.diff(profile, profile)",
        )

    __sub__ = __add__ = __truediv__ = __lt__ = __le__ = __gt__ = __ge__ = _not_compared

    @fitting("ML975", "profile.save(path)")
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
    """Make ``profile`` the newest one of its model, to be compared with those before, and tell the
    views of it."""
    model = profile.model
    model.last_profile = profile
    trace.reading("remember_run")(profile)
    model.revision += 1
    # The id, not the model: events are kept, and must keep no weights alive.
    data = {"model": id(model), "runs": profile.runs, "wall_ns": profile.wall_ns}
    trace.emit("profile", model.name, **data)
    if trace.op_watcher is not None:
        steps = model.compiled.plan.steps
        one = profile.stamps.steps[profile.stamps.representative].tolist() if steps else []
        named = [(s.name, b, e) for s, (b, e) in zip(steps, one, strict=True) if e > b]
        trace.op_watcher(model.name, named)


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
    if not is_count(runs, 1) or not is_count(warmup, 0):
        raise ArgumentError(
            "ML653",
            f"profile: runs must be 1 or more and warmup 0 or more, got {runs} and {warmup}",
            fix="give ints, model.profile(array, runs=20), or leave them out: 20 runs after 3",
        )
    with progress.working(f"profile {model.name}"):
        return _measured(model, inputs, runs, warmup)


def _measured(model: Model, inputs: Sequence[Any], runs: int, warmup: int) -> Profile:
    """As `measure_model`."""
    steps = model.compiled.plan.steps
    timer = model.timer()
    progress.step("first run")
    model.runner.run(inputs)  # says what is wrong with the inputs before they are converted
    tensors = model.inputs_of(inputs)
    for number in range(warmup):
        progress.step("warming up", number, warmup)
        timer.run(tensors)
    rows = []
    timed = np.empty(runs, np.int64)
    walls = np.empty(runs, np.int64)
    with trace.span("profile", f"{model.name} runs", runs=runs):
        for run in range(runs):
            progress.step("running", run, runs)
            timed[run] = _wall(lambda: timer.run(tensors))
            rows.append(timer.taken())
            walls[run] = _wall(lambda: model.run_to_the_end(*tensors))
    env = model.sizes_of(tensors)
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


__all__ = [
    "Profile",
    "announce",
    "measure_model",
    "profile_model",
    "profile_of_calls",
    "time_text",
]
