"""``sweep``: what a model costs at many sizes, kernel by kernel, and how that grows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxlab import progress, trace
from maxlab.analysis.runs.inputs import made_inputs, shapes_for, symbols
from maxlab.analysis.runs.shown import Recorded
from maxlab.analysis.told import SweepAnswer
from maxlab.engine import Model
from maxlab.engine.profile import Profile, measure_model
from maxlab.engine.times import plural, time_text
from maxlab.errors import ArgumentError, ArgumentTypeError
from maxlab.habits import fitting
from maxlab.tabular import Field, aligned, first_rows

Array = np.ndarray[Any, Any]
Inputs = Callable[..., Sequence[Any]]
Sizes = Mapping[str, Sequence[int]]

MOST_POINTS = 256
"""Combinations of sizes that one sweep measures."""

ROUNDS = 5
"""Times that a sweep goes over all sizes, so that what disturbs a machine for a while meets all."""

MOST_COLUMNS = 8
"""Sizes that a table lists; of more, the first, the last, and some between."""


@dataclass(frozen=True, slots=True)
class Point:
    """One combination of sizes, and what it cost.

    Attributes:
        sizes: The swept dims.
        dims: All symbolic dims.
        wall_ns: ``[runs]`` int64, nanoseconds of each run without timing.
        kernel_ns: ``[runs, kernels]`` int64, nanoseconds of each kernel in each timed run.
        flops: ``[kernels]`` float64, arithmetic operations.
        nbytes: ``[kernels]`` float64, bytes.
    """

    sizes: Mapping[str, int]
    dims: Mapping[str, int]
    wall_ns: Array
    kernel_ns: Array
    flops: Array
    nbytes: Array


@dataclass(frozen=True, slots=True)
class Growth:
    """How a cost grows with one dim: as its power ``time``.

    A kernel whose time grows slower than its work still pays for something that does not grow, such
    as its launch; one whose time grows faster has left a cache.

    Attributes:
        time: The exponent of the measured time; nan where there is nothing to compare.
        flops: The exponent of the counted arithmetic.
        nbytes: The exponent of the counted bytes.
    """

    time: float
    flops: float
    nbytes: float


@dataclass(frozen=True, slots=True)
class SweptKernel:
    """A kernel over all sizes.

    Attributes:
        id: The kernel, ``"k4"``.
        name: What it computes.
        kind: The kind of kernel.
        nodes: Ids of the ops of the graph that it computes.
        ns: ``[points]`` float64, nanoseconds of one launch, the median over the runs.
        low_ns: ``[points]`` float64, the first quartile.
        high_ns: ``[points]`` float64, the third quartile.
        growth: For each swept dim, how its cost grows with it.
    """

    id: str
    name: str
    kind: str
    nodes: tuple[str, ...]
    ns: Array
    low_ns: Array
    high_ns: Array
    growth: Mapping[str, Growth]


class Sweep(Recorded):
    """The cost of a model at many sizes. ``sweep`` makes it.

    In a notebook it is drawn as the graph at the largest sizes, above curves of its kernels.

    Attributes:
        name: The name of the graph.
        sizes: The swept dims and their sizes.
        points: A ``Point`` for each combination, the last dim running fastest.
        kernels: A ``SweptKernel`` for each kernel, in the order in which they run.
        growth: For each swept dim, how the time of a whole run grows with it, and the work of all
            kernels.
        document: The graph document that views draw.
    """

    def __init__(self, sizes: Sizes, points: Sequence[Point], profile: Profile) -> None:
        self.name = profile.name
        self.device = profile.device
        self.threads = profile.threads
        self.sizes = {name: tuple(values) for name, values in sizes.items()}
        self.points = list(points)
        cubes = [np.percentile(point.kernel_ns, [25, 50, 75], axis=0) for point in points]
        self.kernels = [
            SweptKernel(
                k.id,
                k.name,
                k.kind,
                k.nodes,
                ns=np.array([cube[1, n] for cube in cubes]),
                low_ns=np.array([cube[0, n] for cube in cubes]),
                high_ns=np.array([cube[2, n] for cube in cubes]),
                growth={
                    name: Growth(
                        self._exponent(name, [cube[1, n] for cube in cubes]),
                        self._exponent(name, [point.flops[n] for point in points]),
                        self._exponent(name, [point.nbytes[n] for point in points]),
                    )
                    for name in sizes
                },
            )
            for n, k in enumerate(profile.kernels)
        ]
        self.growth = {
            name: Growth(
                self._exponent(name, self.wall_ns),
                self._exponent(name, [point.flops.sum() for point in points]),
                self._exponent(name, [point.nbytes.sum() for point in points]),
            )
            for name in sizes
        }
        drawn = trace.reading("document_of")(profile)
        answers = {**drawn.get("answers", {}), "runs": self.data()}
        self.document = {**drawn, "answers": answers, "panel": "runs"}

    @property
    def wall_ns(self) -> Array:
        """``[points]`` float64, nanoseconds of one run without timing, the medians."""
        return np.array([float(np.median(point.wall_ns)) for point in self.points])

    def kernel(self, id: str) -> SweptKernel:
        """The kernel ``id``, such as ``"k4"``, over all sizes.

        Raises:
            KeyError: There is no such kernel.
        """
        for kernel in self.kernels:
            if kernel.id == id:
                return kernel
        raise KeyError(id)

    def _exponent(self, dim: str, costs: Any) -> float:
        """The power of ``dim`` that ``costs`` grow as: the median of the slopes between all points
        that differ in nothing else [1]_, which a few disturbed points do not move.

        .. [1] P. K. Sen, "Estimates of the regression coefficient based on Kendall's tau", Journal
           of the American Statistical Association 63, 1968.
        """
        slopes = []
        for (one, a), (other, b) in itertools.combinations(zip(self.points, costs, strict=True), 2):
            rest = all(one.sizes[name] == other.sizes[name] for name in one.sizes if name != dim)
            first, second = one.sizes[dim], other.sizes[dim]
            if rest and first != second and first > 0 and second > 0 and a > 0 and b > 0:
                slopes.append(math.log(b / a) / math.log(second / first))
        return float(np.median(slopes)) if slopes else math.nan

    # ------------------------------------------------------------ showing
    def _heads(self) -> Sequence[str]:
        return (*self.sizes, "kernel", "name", "time [ns]", "low [ns]", "high [ns]")

    def _records(self) -> Iterator[Sequence[Field]]:
        for n, point in enumerate(self.points):
            sizes = [point.sizes[name] for name in self.sizes]
            low, high = np.percentile(point.wall_ns, [25, 75])
            yield *sizes, "", "one run", float(self.wall_ns[n]), float(low), float(high)
            for k in self.kernels:
                numbers = (float(k.ns[n]), float(k.low_ns[n]), float(k.high_ns[n]))
                yield *sizes, k.id, k.name, *numbers

    def table(self, rows: int | None = 20) -> str:
        """The sweep as text: a column for each size, a line for whole runs and for each kernel, the
        most expensive at the last size first, with the power of each dim that it grows as, and the
        power that its work grows as in brackets.

        Args:
            rows: How many kernels to list; None lists all.
        """
        chosen = _spread(len(self.points))
        heads = [", ".join(map(str, self.points[n].sizes.values())) for n in chosen]
        title = " × ".join(self.sizes)
        cells = [("", f"{title} =", *heads, *(f"~ {name}^" for name in self.sizes))]
        walls = self.wall_ns
        cells.append(("", "one run", *(time_text(walls[n]) for n in chosen), *self._powers(self)))
        ordered = sorted(self.kernels, key=lambda k: -float(k.ns[-1]))
        shown = first_rows(ordered, rows)
        for k in shown:
            name = k.name if len(k.name) <= 30 else k.name[:29] + "…"
            cells.append((k.id, name, *(time_text(k.ns[n]) for n in chosen), *self._powers(k)))
        lines = aligned(cells, right=range(2, len(cells[0])))
        where = f"{self.name} on {self.device}, {plural(self.threads, 'thread')}"
        if len(ordered) > len(shown):
            lines.append(f"… {len(ordered) - len(shown)} more")
        return "\n".join([where, "", *lines])

    def _powers(self, of: SweptKernel | Sweep) -> list[str]:
        return [_power(of.growth[name]) for name in self.sizes]

    def data(self) -> SweepAnswer:
        """The sweep as plain JSON, as the panel of runs reads it."""
        quartiles = [np.percentile(point.wall_ns, [25, 75]) for point in self.points]
        return {
            "version": 1,
            "kind": "sweep",
            "dims": list(self.sizes),
            "points": [dict(point.sizes) for point in self.points],
            "wall": {
                "ns": _rounded(self.wall_ns),
                "low": _rounded([q[0] for q in quartiles]),
                "high": _rounded([q[1] for q in quartiles]),
                "growth": _growth_data(self.growth),
            },
            "kernels": [
                {
                    "id": k.id,
                    "name": k.name,
                    "kind": k.kind,
                    "nodes": list(k.nodes),
                    "ns": _rounded(k.ns),
                    "low": _rounded(k.low_ns),
                    "high": _rounded(k.high_ns),
                    "growth": _growth_data(k.growth),
                }
                for k in self.kernels
            ],
        }

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name} {_listed(values)}" for name, values in self.sizes.items())
        return f"Sweep({self.name!r}, {sizes}, {plural(len(self.kernels), 'kernel')})"


@fitting("ML975", "maxlab.sweep(model, batch=[1, 2, 4])")
def sweep(
    model: Model,
    inputs: Inputs | Sizes | None = None,
    *,
    runs: int = 10,
    **sizes: Sequence[int],
) -> Sweep:
    """The ``Sweep`` of ``model`` over all combinations of ``sizes``: the cost of each kernel at
    each, and the power of each dim that it grows as.

    Nothing is compiled: the model must have the dims as symbols. All sizes are measured in turns.

    Args:
        model: The model.
        inputs: A function that gets the swept dims by name and returns the inputs for them; or
            sizes, for dims with names that cannot be written as arguments. Left out, inputs are
            made up: noise, and ones where they may be indices.
        runs: Timed executions of each combination.
        **sizes: For each dim to sweep, its sizes.

    Raises:
        ArgumentError: ML848, no sizes, a dim that the model does not have as a symbol, a size that
            is not 1 or more, a dim whose size is not known, or more than 256 combinations.
        ArgumentTypeError: ML848, ``model`` is no model.
        InputError: The graph does not allow some of the sizes.

    Example:
        >>> import numpy as np
        >>> from maxlab import engine
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType
        >>> with Graph("double", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        ...     graph.output(graph.inputs[0].tensor * 2)
        >>> model = engine.InferenceSession().load(graph)
        >>> found = sweep(model, n=[1_000, 10_000, 100_000], runs=5)
        >>> found
        Sweep('double', n 1000 … 100000, 1 kernel)
        >>> found.kernel("k0").growth["n"].flops, found.kernel("k0").ns.shape
        (1.0, (3,))
    """
    if not isinstance(model, Model):
        raise ArgumentTypeError(
            "ML848",
            f"sweep takes a model, got {type(model).__name__}",
            fix="load the graph first: engine.InferenceSession().load(graph)",
        )
    if isinstance(inputs, Mapping):
        sizes, inputs = {**inputs, **sizes}, None
    wanted = _checked(model, sizes, runs)
    fixed = {} if inputs is not None else _fixed(model, wanted)
    names = list(wanted)
    combinations = [dict(zip(names, c, strict=True)) for c in itertools.product(*wanted.values())]
    given = [_inputs(model, inputs, one, fixed) for one in combinations]
    with progress.working(f"sweep {model.name}"):
        return _swept(model, wanted, combinations, given, runs)


def _swept(
    model: Model,
    wanted: Sizes,
    combinations: Sequence[dict[str, int]],
    given: Sequence[Sequence[Any]],
    runs: int,
) -> Sweep:
    """The sweep over ``combinations``, whose inputs are ``given``."""
    rounds = min(ROUNDS, runs)
    measured: list[list[Profile]] = [[] for _ in combinations]
    for turn in range(rounds):
        part = runs // rounds + (turn < runs % rounds)
        for n, args in enumerate(given):
            at = ", ".join(f"{name} {size}" for name, size in combinations[n].items())
            progress.outline("sweeping", turn * len(given) + n, rounds * len(given), at)
            measured[n].append(measure_model(model, args, runs=part, warmup=1))
    points = [_point(one, found) for one, found in zip(combinations, measured, strict=True)]
    progress.outline("")
    # The graph is drawn with times of its own: a round has too few runs to colour it by.
    return Sweep(wanted, points, measure_model(model, given[-1], runs=runs, warmup=1))


def _checked(model: Model, sizes: Sizes, runs: int) -> dict[str, list[int]]:
    """The sizes as lists of ints.

    Raises:
        ArgumentError: ML848, they cannot be swept.
    """
    known = symbols(model)
    listed = f"its symbolic dims are {', '.join(known)}" if known else "all its sizes are fixed"
    if not sizes or runs < 1:
        raise _wrong(
            "sweep needs sizes and one run or more, as in batch=[1, 2, 4]",
            f"{model.name}: {listed}",
        )
    found: dict[str, list[int]] = {}
    for name, values in sizes.items():
        if name not in known:
            raise _wrong(f"{model.name} has no symbolic dim {name!r}", listed)
        try:
            found[name] = sorted({int(value) for value in values})
            is_whole = all(int(value) == value and value >= 1 for value in values)
        except (TypeError, ValueError):
            is_whole = False
        if not is_whole or not found[name]:
            raise _wrong(
                f"the sizes of {name} must be whole numbers of 1 or more, got {values!r:.80}",
                f"write {name}=[1, 2, 4]",
            )
    count = math.prod(len(values) for values in found.values())
    if count > MOST_POINTS:
        raise _wrong(
            f"{count} combinations of sizes are more than {MOST_POINTS}",
            "give fewer sizes, or sweep one dim after the other",
        )
    return found


def _fixed(model: Model, wanted: Sizes) -> dict[str, int]:
    """The sizes of the dims that are not swept: those of the newest profile.

    Raises:
        ArgumentError: ML848, there is none.
    """
    last = model.last_profile
    found = {} if last is None else dict(last.dims)
    missing = [name for name in symbols(model) if name not in wanted and name not in found]
    if missing:
        raise _wrong(
            f"the size of {missing[0]} is not known",
            f"give it too, as in {missing[0]}=[64], or profile the model once",
        )
    return {name: size for name, size in found.items() if name not in wanted}


def _inputs(
    model: Model, inputs: Inputs | None, one: Mapping[str, int], fixed: Mapping[str, int]
) -> list[Any]:
    if inputs is None:
        return made_inputs(model, shapes_for(model, {**fixed, **one}))
    given = inputs(**one)
    return list(given) if isinstance(given, (tuple, list)) else [given]


def _point(sizes: Mapping[str, int], found: Sequence[Profile]) -> Point:
    """All rounds of one combination together."""
    first = found[0]
    return Point(
        sizes=sizes,
        dims=first.dims,
        wall_ns=np.concatenate([profile.wall_samples_ns for profile in found]),
        kernel_ns=np.concatenate([profile.kernel_samples_ns for profile in found]),
        flops=np.array([k.flops for k in first.kernels], np.float64),
        nbytes=np.array([k.nbytes for k in first.kernels], np.float64),
    )


def _wrong(what: str, fix: str) -> ArgumentError:
    return ArgumentError("ML848", what, fix=fix)


def _spread(count: int) -> list[int]:
    """At most ``MOST_COLUMNS`` of ``count`` indices, evenly, with the first and the last."""
    if count <= MOST_COLUMNS:
        return list(range(count))
    return sorted({round(n) for n in np.linspace(0, count - 1, MOST_COLUMNS)})


def _power(growth: Growth) -> str:
    if math.isnan(growth.time):
        return ""
    work = max((p for p in (growth.flops, growth.nbytes) if not math.isnan(p)), default=math.nan)
    return f"{growth.time:.2f}" + ("" if math.isnan(work) else f" ({work:.2f})")


def _listed(values: Sequence[int]) -> str:
    return " … ".join(map(str, dict.fromkeys([values[0], values[-1]])))


def _rounded(values: Any) -> list[float]:
    return [round(float(value), 1) for value in values]


def _growth_data(growth: Mapping[str, Growth]) -> dict[str, list[float | None]]:
    """For each dim the exponents of time, arithmetic and bytes."""
    return {
        name: [
            None if math.isnan(power) else round(power, 3)
            for power in (one.time, one.flops, one.nbytes)
        ]
        for name, one in growth.items()
    }
