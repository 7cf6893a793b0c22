"""``record``: every run of a model inside of a block of somebody's own code, kernel by kernel.

Nothing is run again: the runs that the code makes are timed as they happen, and those of a model
are put together by the sizes of its inputs.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from maxlab import profiler, trace
from maxlab.analysis.timeline import Timeline, of_profiles
from maxlab.config import config
from maxlab.engine import Model
from maxlab.engine.profile import Profile, announce, profile_of_calls
from maxlab.engine.stamps import Stamps, Taken, stacked
from maxlab.engine.times import plural, time_text
from maxlab.errors import ArgumentError
from maxlab.habits import fitting

MOST_RUNS = 512
"""Runs of one model and size whose stamps are kept; of more, every second one, and so on."""

Shapes = tuple[tuple[int, ...], ...]
_start_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class RecordedModel:
    """The runs of one model with inputs of the same sizes.

    Attributes:
        profile: Their times: medians over the calls.
        calls: How many there were.
        call_ns: Nanoseconds of all of them, as the caller saw them.
        kernel_ns: Nanoseconds of all their kernels.
    """

    profile: Profile
    calls: int
    call_ns: int
    kernel_ns: int


@dataclass(slots=True)
class _Runs:
    """The stamps of the runs of one model and size, thinned out as they become many."""

    calls: int = 0
    call_ns: int = 0
    dropped_ns: int = 0
    every: int = 1
    rows: list[Taken] = field(default_factory=list)
    args: Sequence[Any] = ()

    def add(self, row: Taken, args: Sequence[Any]) -> None:
        if self.calls % self.every == 0:
            self.rows.append(row)
            if len(self.rows) == MOST_RUNS:
                self.dropped_ns += sum(dropped.spent_ns for dropped in self.rows[1::2])
                self.rows = self.rows[::2]
                self.every *= 2
        else:
            self.dropped_ns += row.spent_ns
        self.calls += 1
        self.call_ns += row.call[1] - row.call[0]
        self.args = args

    @property
    def kernel_ns(self) -> int:
        """Nanoseconds of all steps of all runs."""
        return self.dropped_ns + sum(row.spent_ns for row in self.rows)

    def stamps(self) -> Stamps:
        """The stamps that were kept."""
        return stacked(self.rows)


class Recording:
    """The result of ``record``; complete when its block has ended.

    Attributes:
        models: What each model and size took, those that took most first.
        wall_ns: Nanoseconds of the block.
        load_ns: Nanoseconds of them in which sessions loaded models, the compiler's work.
    """

    def __init__(self) -> None:
        self.models: list[RecordedModel] = []
        self.wall_ns = 0
        self.load_ns = 0
        self._own_ns = 0
        self._runs: dict[tuple[int, Shapes], _Runs] = {}
        self._seen: dict[int, Model] = {}
        self._timers: dict[tuple[int, int], Any] = {}
        self._events: deque[trace.Event] = deque(maxlen=config().trace_events)
        self._lock = threading.Lock()
        self._spans_before = False
        self._began_ns = 0

    @property
    def profile(self) -> Profile | None:
        """The profile of the model and size that took most; None when no model ran."""
        return self.models[0].profile if self.models else None

    @property
    def timeline(self) -> Timeline:
        """The whole block on one axis: all runs of all models, compilations, and the user's own
        spans. Kernels of different models are told apart by name, as in ``"minilm/k4"``."""
        profiles = [model.profile for model in self.models]
        return of_profiles("recording", profiles, self._events)

    @property
    def calls(self) -> int:
        """How many runs of models there were."""
        return sum(model.calls for model in self.models)

    @property
    def kernel_ns(self) -> int:
        """Nanoseconds of all kernels."""
        return sum(model.kernel_ns for model in self.models)

    @property
    def call_ns(self) -> int:
        """Nanoseconds of all runs of models, as their callers saw them."""
        return sum(model.call_ns for model in self.models)

    @property
    def python_ns(self) -> int:
        """Nanoseconds of the block in which no model ran and none was loaded: the user's own code.
        Recording itself is not counted. 0 where models ran side by side for longer than the block
        lasted.
        """
        return max(self.wall_ns - self._own_ns - self.load_ns - self.call_ns, 0)

    def table(self) -> str:
        """A line about the block, and one per model and size."""
        head = f"{time_text(self.wall_ns)}: "
        if not self.models:
            return f"{head}no model ran"
        parts = [
            f"{time_text(self.kernel_ns)} in kernels of {plural(self.calls, 'run')}",
            f"{time_text(max(self.call_ns - self.kernel_ns, 0))} around them",
        ]
        if self.load_ns:
            parts.append(f"{time_text(self.load_ns)} loading models")
        parts.append(f"{time_text(self.python_ns)} in Python")
        lines = [head + ", ".join(parts)]
        for model in self.models:
            profile, hottest = model.profile, model.profile.hottest
            sizes = ", ".join(f"{name} = {size}" for name, size in profile.dims.items())
            line = (
                f"  {profile.name}{f' ({sizes})' if sizes else ''}: {plural(model.calls, 'run')} "
                f"of {time_text(profile.timed_ns)}, kernels {time_text(profile.kernel_ns)}"
            )
            if hottest is not None:
                line += f", most in {hottest.id} {hottest.name} ({hottest.share:.0%})"
            lines.append(line)
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Recording({plural(len(self.models), 'model')}, {plural(self.calls, 'run')})"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        """The view of the profile that took most; None, so that the text is shown, without one."""
        profile = self.profile
        return None if profile is None else trace.mimebundle(profile, include, exclude)

    # ------------------------------------------------------------ recording
    def __enter__(self) -> Recording:
        with _start_lock:
            if trace.run_recorder is not None:
                raise ArgumentError(
                    "ML852",
                    "runs are being recorded already",
                    fix="end the other block first; it records what this one would",
                )
            if self._began_ns:
                raise ArgumentError(
                    "ML852", "this recording is over", fix="start another one with record()"
                )
            trace.run_recorder = self._run
        self._spans_before = profiler.enable()
        trace.recorder().listen(self._heard)
        self._began_ns = time.monotonic_ns()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.wall_ns = time.monotonic_ns() - self._began_ns
        trace.run_recorder = None
        trace.recorder().unlisten(self._heard)
        profiler.enable(self._spans_before)
        self.load_ns = sum(event.dur_ns for event in self._events if event.kind == "load")
        self._finish()

    def _heard(self, event: trace.Event) -> None:
        self._events.append(event)

    def _run(self, model: Model, args: Sequence[Any]) -> Any:
        """The outputs of ``model`` on ``args``, timed; called in place of the model's own run, on
        any thread."""
        key = id(model), threading.get_ident()
        timer = self._timers.get(key)
        if timer is None:
            with self._lock:
                self._seen[id(model)] = model  # so that no other gets its id
                timer = self._timers[key] = model.timer()
        made = timer.run(args)
        row = timer.taken()
        shapes = tuple(_shape(x) for x in args)
        with self._lock:
            runs = self._runs.get((id(model), shapes))
            if runs is None:
                runs = self._runs[id(model), shapes] = _Runs()
            runs.add(row, args)
            self._own_ns += time.monotonic_ns() - row.call[1]
        return made

    def _finish(self) -> None:
        """Make profiles of the runs, and show each model's in its views."""
        for (key, _), runs in self._runs.items():
            model = self._seen[key]
            inputs = model.inputs_of(runs.args)
            env = model.sizes_of(inputs)
            profile = profile_of_calls(model, runs.stamps(), env, inputs)
            self.models.append(RecordedModel(profile, runs.calls, runs.call_ns, runs.kernel_ns))
        self.models.sort(key=lambda model: -model.call_ns)
        told: set[int] = set()
        for found in self.models:
            if id(found.profile.model) not in told:
                told.add(id(found.profile.model))
                announce(found.profile)
        self._runs.clear()
        self._timers.clear()
        self._seen.clear()


@fitting("ML975", "with maxlab.record() as recording: ...; maxlab.record() takes nothing")
def record() -> Recording:
    """A ``Recording`` of all runs of models in a ``with`` block, and of the spans of
    ``maxlab.profiler`` in it, which it turns on.

    Runs on a GPU are waited for, one by one: kernels cannot be timed otherwise. Runs that a model's
    own ``profile`` makes are not recorded.

    Raises:
        ArgumentError: ML852, another block is recording.

    Example:
        >>> import numpy as np
        >>> from maxlab import engine
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType
        >>> with Graph("double", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        ...     graph.output(graph.inputs[0].tensor * 2)
        >>> model = engine.InferenceSession(num_threads=1).load(graph)
        >>> with record() as recorded:
        ...     for size in (10, 10, 20):
        ...         _ = model(np.ones(size, np.float32))
        >>> recorded
        Recording(2 models, 3 runs)
        >>> sorted((m.profile.dims["n"], m.calls) for m in recorded.models)
        [(10, 2), (20, 1)]
    """
    return Recording()


def _shape(x: Any) -> tuple[int, ...]:
    return tuple(int(size) for size in getattr(x, "shape", ()))
