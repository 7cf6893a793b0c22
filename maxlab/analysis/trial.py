"""Trying an action: the model with one thing changed, run in turns with the model as it is.

Runs alternate, so that whatever else the machine does falls on both. The saving is the median of
the differences of neighbouring runs, with the interval in which the median of so many differences
lies nineteen times in twenty, from their order statistics (Conover, *Practical Nonparametric
Statistics*, 1999, section 3.2); nothing is assumed of how times are spread.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from maxlab import progress, trace
from maxlab.analysis import rewrites
from maxlab.analysis.advice import Action
from maxlab.analysis.advice.action import Recipe
from maxlab.analysis.runs.noise import median_interval
from maxlab.driver import Tensor
from maxlab.dtype import DType
from maxlab.engine import InferenceSession, Model
from maxlab.engine.times import plural, time_text
from maxlab.errors import ArgumentError, ArgumentTypeError, UnsupportedError
from maxlab.habits import fitting

if TYPE_CHECKING:
    from maxlab.engine.profile import Profile

Array = np.ndarray[Any, Any]
RUNS, WARMUP = 31, 3
MOST_NS = 2_000_000_000
"""Nanoseconds after which no further pair of runs begins, if there are a few already."""
FEWEST = 7


@dataclass(frozen=True, slots=True)
class Trial:
    """A model before and after one change.

    Attributes:
        action: What was changed.
        before_ns: Nanoseconds of a run before, the median.
        after_ns: The same after; of one part, where a run has several.
        saved_ns: Nanoseconds saved, the median of the differences of neighbouring runs.
        low_ns: The lower end of its interval.
        high_ns: The upper end of its interval.
        runs: Runs of each.
        before_bytes: Bytes that all kernels read and write, before.
        after_bytes: The same after, of one part.
        before_kernels: Kernels before.
        after_kernels: Kernels after.
        max_ulp: The largest distance of an output before and after, in units of the last place of
            the output's largest number, in the narrower of the two dtypes: a small number that is
            left of large ones has no digits of its own. None where outputs are no floats or one is
            NaN alone.
        max_abs: The largest absolute difference; None where one is NaN alone.
        relative: The largest difference of an output as a fraction of its largest number; None
            where one is NaN alone.
        model: The model after the change, to be used instead.
    """

    action: Action
    before_ns: float
    after_ns: float
    saved_ns: float
    low_ns: float
    high_ns: float
    runs: int
    before_bytes: int
    after_bytes: int
    before_kernels: int
    after_kernels: int
    max_ulp: float | None
    max_abs: float | None
    relative: float | None
    model: Model = field(repr=False)

    @property
    def predicted_ns(self) -> float | None:
        """The predicted saving; None where nothing could be predicted."""
        return self.action.predicted_ns

    @property
    def is_clear(self) -> bool:
        """Whether the interval of the saving leaves out 0."""
        return self.low_ns > 0 or self.high_ns < 0

    def __str__(self) -> str:
        change = -self.saved_ns / self.before_ns if self.before_ns else 0.0
        sure = "" if self.is_clear else ", which may be noise"
        predicted = self.action.prediction.removeprefix("no prediction: ")
        return (
            f"{self.action.title}: {time_text(self.before_ns)} → {time_text(self.after_ns)} "
            f"({change:+.1%}{sure}; medians of {plural(self.runs, 'run')}); "
            f"saved {_signed(self.saved_ns)} "
            f"[{_signed(self.low_ns)} … {_signed(self.high_ns)}], the median of differences "
            f"between neighbouring runs; "
            f"predicted: {predicted}; "
            f"{self.before_kernels} → {plural(self.after_kernels, 'kernel')}; "
            f"outputs {self.outputs}"
        )

    @property
    def outputs(self) -> str:
        """How far outputs before and after are apart, in words."""
        if self.max_abs is None:
            return "NaN in one of the two alone"
        if self.max_abs == 0:
            return "bit for bit the same"
        of = f", {self.relative:.1g} of the largest number" if self.relative is not None else ""
        return f"at most {self.max_abs:.2g} apart{of}"


@fitting(
    "ML975",
    "maxlab.try_action(profile, action), where maxlab.advice(profile) has the actions",
)
def try_action(profile: Profile, action: Action, *, runs: int = RUNS) -> Trial:
    """The model of ``profile`` beside the same with ``action`` done, on the profile's inputs.

    Args:
        profile: The profile that the action was advised for.
        action: What to change.
        runs: Runs of each, at most; slow models have fewer.

    Raises:
        ArgumentError: ML653, fewer than one run.
        UnsupportedError: ML903, maxlab cannot make this change.

    Example:
        >>> import numpy as np
        >>> from maxlab import engine
        >>> from maxlab.analysis.advice import experiments
        >>> from maxlab.analysis.trial import try_action
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType
        >>> with Graph("f", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        ...     graph.output(graph.inputs[0].tensor * 2.0 + 1.0)
        >>> model = engine.InferenceSession(num_threads=1).load(graph)
        >>> profile = model.profile(np.ones(1000, np.float32), runs=3)
        >>> trial = try_action(profile, experiments(profile)[0], runs=5)
        >>> trial.before_kernels, trial.after_kernels, trial.after_bytes, trial.max_ulp
        (1, 2, 16000, 0.0)
    """
    if runs < 1:
        raise ArgumentError(
            "ML653",
            f"try_action: runs must be 1 or more, got {runs}",
            fix=f"leave it out for {RUNS}",
        )
    if not isinstance(action, Action):
        raise ArgumentTypeError(
            "ML671",
            f"try_action takes an action, got {type(action).__name__}",
            fix="maxlab.advice(profile) has the actions: maxlab.advice(profile)[0]",
        )
    if action.recipe is None:
        raise UnsupportedError(
            "ML903",
            f"this cannot be tried: {action.title!r} is a change to the graph",
            fix=f"make it and profile again: {action.how.splitlines()[0]}",
        )
    inputs = list(profile.inputs)
    model = profile.model
    title = f"try: {action.title}"
    with progress.working(title), trace.span("try", action.id, model=model.name):
        after, others, parts = _changed(profile, action.recipe, inputs)
        ulp, apart, relative = _distance(model.execute(*inputs), after.execute(*others))
        times = _in_turns(model, inputs, after, others, runs)
    before_ns, after_ns = times[:, 0], times[:, 1] / parts
    saved, low, high = median_interval(before_ns - after_ns)
    return Trial(
        action,
        float(np.median(before_ns)),
        float(np.median(after_ns)),
        saved,
        low,
        high,
        len(times),
        _bytes(model, inputs),
        _bytes(after, others) // parts,
        len(model.plan.steps),
        len(after.plan.steps),
        ulp,
        apart,
        relative,
        after,
    )


def _changed(
    profile: Profile, recipe: Recipe, inputs: Sequence[Tensor]
) -> tuple[Model, list[Tensor], int]:
    """The model with ``recipe`` carried out, its inputs, and how many parts a run then has."""
    model = profile.model
    if recipe.repeat is not None:
        name, factor = recipe.repeat
        return model, rewrites.tiled(model, inputs, {name: factor}), factor
    if not recipe.rewrite:
        made = model.reload(options=recipe.options, num_threads=recipe.threads)
        return made, list(inputs), 1
    chosen = list(inputs)
    if recipe.rewrite == "hoist":
        graph, registry = rewrites.hoisted(model)
    elif recipe.rewrite == "freeze":
        graph, registry = rewrites.frozen(model, recipe.inputs, inputs)
        chosen = [x for n, x in enumerate(inputs) if n not in recipe.inputs]
    else:
        wide = {"float32": DType.float64, "bfloat16": DType.float32}[recipe.rewrite]
        narrow = DType[recipe.rewrite]
        graph, registry = rewrites.retyped(model, wide, narrow)
        chosen = [rewrites.converted(x, narrow) if x.dtype is wide else x for x in inputs]
    session = InferenceSession(model.session_devices(), model.num_threads)
    made = session.load(graph, weights_registry=registry, options=model.options)
    return made, chosen, 1


def _in_turns(
    before: Model, x: Sequence[Tensor], after: Model, y: Sequence[Tensor], runs: int
) -> Array:
    """Nanoseconds of runs of the two models, [runs, 2]; each goes first every other time."""
    for _ in range(WARMUP):
        before.run_to_the_end(*x)
        after.run_to_the_end(*y)
    rows = np.zeros((runs, 2), np.float64)
    deadline = time.perf_counter_ns() + MOST_NS
    done = 0
    for number in range(runs):
        if done >= FEWEST and time.perf_counter_ns() > deadline:
            break
        progress.step("running in turns", number, runs)
        order = ((0, before, x), (1, after, y))
        for column, model, inputs in order if number % 2 else order[::-1]:
            start = time.perf_counter_ns()
            model.run_to_the_end(*inputs)
            rows[number, column] = time.perf_counter_ns() - start
        done += 1
    return rows[:done]


def _bytes(model: Model, inputs: Sequence[Tensor]) -> int:
    env = model.sizes_of(list(inputs))
    return sum(step.nbytes.evaluate(env) for step in model.plan.steps)


# ---------------------------------------------------------------- how far apart
def _distance(
    before: Sequence[Tensor], after: Sequence[Tensor]
) -> tuple[float | None, float | None, float | None]:
    """The largest distance of outputs in units of the last place, the largest difference, and the
    largest as a fraction of the output's largest number. Of an output that has several parts after
    the change, the first is compared.
    """
    relative = 0.0
    ulp: float | None = 0.0
    apart: float | None = 0.0
    for one, two in zip(before, after, strict=True):
        x, y = rewrites.as_array(one), rewrites.as_array(two)
        y = y[tuple(slice(0, n) for n in x.shape)]
        if x.dtype.kind in "biu":
            wide = x.astype(np.float64) - y.astype(np.float64)
            largest = float(np.max(np.abs(wide), initial=0.0))
            apart = _larger(apart, largest)
            relative = max(relative, _fraction(largest, np.abs(x.astype(np.float64))))
            ulp = ulp if not np.any(wide) else None
            continue
        narrow = x.dtype if x.dtype.itemsize <= y.dtype.itemsize else y.dtype
        wide_x, wide_y = x.astype(np.float64), y.astype(np.float64)
        if np.any(np.isnan(wide_x) != np.isnan(wide_y)):
            return None, None, None
        same = (wide_x == wide_y) | np.isnan(wide_x)
        with np.errstate(invalid="ignore"):
            difference = np.where(same, 0.0, np.abs(wide_x - wide_y))
        apart = _larger(apart, float(np.max(difference, initial=0.0)))
        finite = np.abs(wide_x[np.isfinite(wide_x)])
        relative = max(relative, _fraction(float(np.max(difference, initial=0.0)), finite))
        unit = _ulp(float(finite.max(initial=0.0)), narrow)
        ulp = _larger(ulp, float(np.max(difference, initial=0.0)) / unit)
    return ulp, apart, relative


def _fraction(difference: float, of: Array) -> float:
    """``difference`` as a fraction of the largest element of ``of``; of 0 it is all."""
    largest = float(of.max(initial=0.0))
    return difference / largest if largest else float(difference > 0)


_PRECISION = {"float64": (52, -1022), "float32": (23, -126), "float16": (10, -14)}
"""Bits behind the point, and the least exponent, by dtype; others are taken to be bfloat16."""


def _ulp(value: float, dtype: np.dtype[Any]) -> float:
    """The distance from ``value`` to the next number of ``dtype``."""
    bits, least = _PRECISION.get(dtype.name, (7, -126))
    return math.ldexp(1.0, max(math.frexp(value)[1] - 1, least) - bits)


def _larger(known: float | None, other: float) -> float | None:
    return None if known is None else max(known, other)


def _signed(ns: float) -> str:
    return f"-{time_text(-ns)}" if ns < 0 else time_text(ns)
