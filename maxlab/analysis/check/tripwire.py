"""``tripwire``: the first op that makes NaN or an infinity out of numbers."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from maxlab import trace
from maxlab.analysis.check.alone import Alone
from maxlab.analysis.check.compare import known_inputs
from maxlab.analysis.check.inside import run_inside
from maxlab.analysis.check.places import places_of
from maxlab.analysis.check.reference import Reference
from maxlab.analysis.check.rounding import exact
from maxlab.analysis.check.steps import StepFacts, facts_of
from maxlab.analysis.check.taps import read_scalars
from maxlab.analysis.target import model_behind
from maxlab.compiler.effects import has_effect
from maxlab.driver import Tensor
from maxlab.engine.host_steps import CONTROL
from maxlab.engine.model import Model
from maxlab.engine.profile import Profile
from maxlab.engine.stepping import Walk
from maxlab.errors import ExecutionError, Location, MaxlabError
from maxlab.habits import fitting
from maxlab.ir import ChainType, Op, Value
from maxlab.opset import is_constant

Array = np.ndarray[Any, Any]


Kind = Literal["NaN", "inf"]


@dataclass(frozen=True)
class Trip:
    """The first op that made NaN or an infinity.

    Attributes:
        kind: ``"NaN"`` or ``"inf"``.
        node: The op, ``"n12"``; the name of an input or weight that had it from the start.
        op: What that is, ``"log"``; ``"input"`` or ``"weight"``.
        kernel: The kernel that computes it; empty for inputs and weights.
        sure: Whether the op was seen to make it; otherwise one of the kernel's ops did.
        count: How many elements have it.
        at: Index of the first of them.
        place: Where in the user's code the op was written.
        inputs: What the op read, or its kernel, by value.
        operands: For each value that the op read, its element at ``at``, where it has one.
    """

    kind: Kind
    node: str
    op: str
    kernel: str
    sure: bool
    count: int
    at: tuple[int, ...]
    place: Location | None = None
    inputs: Mapping[str, Array] = field(default_factory=dict, repr=False)
    operands: Mapping[str, float] = field(default_factory=dict)

    def sentence(self) -> str:
        """A sentence that says what happened."""
        where = "[" + ", ".join(map(str, self.at)) + "]"
        if not self.kernel:
            return f"the {self.op} {self.node} has {self.count} {self.kind}, the first at {where}"
        line = f" at {self.place}" if self.place is not None else ""
        what = f"the {self.op} {self.node}{line} in {self.kernel}"
        if not self.sure:
            what = f"the kernel {self.kernel}, with {self.op} {self.node}{line},"
        read = ", ".join(f"{name} = {number:.6g}" for name, number in self.operands.items())
        return f"{what} makes {self.count} {self.kind}, the first at {where}" + (
            f" from {read}" if read else ""
        )

    def without_inputs(self) -> Trip:
        """It without the arrays that the op read."""
        return replace(self, inputs={})

    def __repr__(self) -> str:
        return f"Trip({self.sentence()!r})"


_newest: weakref.WeakKeyDictionary[Model, Trip] = weakref.WeakKeyDictionary()


def newest_trip(model: Model) -> Trip | None:
    """The finding of the newest search in ``model``, without the arrays that the op read; None
    where it found nothing, and before the first one.
    """
    return _newest.get(model)


def _remember(model: Model, trip: Trip | None) -> None:
    """Let `newest_trip` give ``trip``."""
    if trip is None:
        _newest.pop(model, None)
    else:
        _newest[model] = trip.without_inputs()
    trace.emit("check", model.name, model=id(model))


class NonFiniteError(ExecutionError):
    """Raised by a tripwire; ``trip`` says which op it was.

    Attributes:
        trip: The op, its kernel and what it read.
        outputs: What the model would have returned.
    """

    def __init__(self, name: str, trip: Trip, outputs: Sequence[Tensor]) -> None:
        self.trip = trip
        self.outputs = list(outputs)
        super().__init__(
            "ML663",
            f"{name}: {trip.sentence()}",
            at=trip.place,
            fix="look at .trip.inputs of this error, or see the op with "
            f"maxlab.values(model, {trip.node!r})",
        )


@fitting("ML975", "maxlab.first_nonfinite(model, array)")
def first_nonfinite(target: Model | Profile, *inputs: Any, infinities: bool = True) -> Trip | None:
    """The first op that makes NaN or an infinity when ``target`` runs on ``inputs``; None when none
    does.

    The model runs step by step, and what each kernel writes is looked at. An infinity that the
    graph itself has, such as the constant of a mask, is none that an op has made.

    Args:
        target: The model, or a profile of it.
        *inputs: As for ``Model.execute``; those of its newest profile when left out.
        infinities: Whether infinities count; NaN always does.

    Raises:
        InputError: Inputs that the model does not take.
        ArgumentTypeError: ML674, ``target`` is no model.

    Example:
        >>> import numpy as np
        >>> from maxlab import engine
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> with Graph("roots", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        ...     graph.output(ops.sqrt(graph.inputs[0].tensor - 1) + 3)
        >>> model = engine.InferenceSession().load(graph)
        >>> trip = first_nonfinite(model, np.array([4, 0], np.float32))
        >>> trip.node, trip.op, trip.kind, trip.at
        ('n2', 'sqrt', 'NaN', (1,))
    """
    model = model_behind(target, "first_nonfinite")
    trip = _Search(model, known_inputs(model, inputs), infinities).run()
    _remember(model, trip)
    return trip


@fitting("ML975", "with maxlab.tripwire(model): model(array)")
def tripwire(
    target: Model | Profile, *, every: bool = False, infinities: bool = True
) -> AbstractContextManager[None]:
    """Within the ``with`` block, a run of the model ``target`` that makes NaN or an infinity
    raises, with the op that did it.

    Args:
        target: The model, or a profile of it.
        every: Look at what every kernel writes. Otherwise only the outputs are looked at, which
            costs little, and the run is repeated step by step when one of them has it: NaN that
            never reaches an output stays unseen.
        infinities: Whether infinities count; NaN always does.

    Raises:
        NonFiniteError: ML663, in the call of the model.
        ArgumentTypeError: ML674, ``target`` is no model.

    Example:
        >>> import numpy as np
        >>> from maxlab import engine
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> with Graph("log", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        ...     graph.output(ops.log(graph.inputs[0].tensor))
        >>> model = engine.InferenceSession().load(graph)
        >>> with tripwire(model):
        ...     try:
        ...         model(np.zeros(2, np.float32))
        ...     except NonFiniteError as error:
        ...         print(error.trip.node, error.trip.op, error.trip.kind)
        n0 log inf
    """
    return _wired(model_behind(target, "tripwire"), every, infinities)


@contextmanager
def _wired(model: Model, every: bool, infinities: bool) -> Iterator[None]:
    def run(inputs: Sequence[Any]) -> list[Tensor]:
        outputs = model.run_observed(inputs)
        if every or any(_has(t.copied(), infinities) for t in outputs):
            trip = _Search(model, inputs, infinities).run()
            _remember(model, trip)
            if trip is not None:
                raise NonFiniteError(model.name, trip, outputs)
        return outputs

    with model.runner.replaced(run):
        yield


class _FoundError(Exception):
    """The op was found: the rest need not be run."""


def _has(array: Array, infinities: bool) -> bool:
    if array.dtype.kind in "biu":
        return False
    if array.dtype.kind != "f":  # of ml_dtypes
        array = array.astype(np.float32)
    return not np.isfinite(array).all() if infinities else bool(np.isnan(array).any())


def _marks(array: Array, kind: str) -> Array:
    """Where ``array`` has NaN, or infinities."""
    if array.dtype.kind in "biu":
        return np.zeros(array.shape, bool)
    wide = array if array.dtype.kind == "f" else array.astype(np.float32)
    return np.asarray(np.isnan(wide) if kind == "NaN" else np.isinf(wide))


class _Search:
    """One search."""

    def __init__(self, model: Model, inputs: Sequence[Any], infinities: bool) -> None:
        self._model = model
        self._kinds: tuple[Kind, ...] = ("NaN", "inf") if infinities else ("NaN",)
        self._walk = Walk(model, inputs)
        self._user = {op.id: op for op in model.compiled.source.walk()}

    def run(self) -> Trip | None:
        """The first op, in the order in which kernels run."""
        walk, compiled = self._walk, self._model.compiled
        for value, tensor in zip(compiled.source.inputs, walk.inputs, strict=True):
            found = self._given("input", value.name, tensor.copied())
            if found is not None:
                return found
        for name, array in walk.memory.weights().items():
            found = self._given("weight", name, array)
            if found is not None:
                return found
        for facts, _ in zip(facts_of(compiled), walk, strict=True):
            if facts.step.kind not in ("pack", "transfer"):
                trip = self._step(facts)
                if trip is not None:
                    return trip
        return None

    def _given(self, what: str, name: str, array: Array) -> Trip | None:
        for kind in self._kinds:
            if what == "weight" and kind == "inf":
                continue  # masks are stored like this
            marks = _marks(array, kind)
            if marks.any():
                at = tuple(int(n) for n in np.argwhere(marks)[0])
                return Trip(kind, name, what, "", True, int(marks.sum()), at)
        return None

    def _step(self, facts: StepFacts) -> Trip | None:
        walk = self._walk
        written = [(w.made, walk.memory.value(w.slot, w.value)) for w in facts.writes]
        kinds = [k for k in self._kinds if any(_marks(a, k).any() for _, a in written)]
        if not kinds:
            return None
        read = {v: walk.memory.value(s, v) for s, v in facts.reads.items() if walk.memory.known(s)}
        kinds = [k for k in kinds if not any(_marks(a, k).any() for a in read.values())]
        if not kinds:
            return None  # it came in
        found = self._in_body(facts, read) or self._inside(facts, read)
        if found is not None or (kinds == ["inf"] and self._is_masked(facts)):
            return found  # the infinities of a mask are in the graph, and no op makes them
        kind = kinds[0]
        value, array = next((v, a) for v, a in written if _marks(a, kind).any())
        op = facts.group.main or value.op
        if op is None:
            return None
        sure = len(facts.step.nodes) == 1
        return self._trip(facts, kind, op, _marks(array, kind), read, {}, sure)

    def _is_masked(self, facts: StepFacts) -> bool:
        """Whether an infinite constant of the graph is read by the kernel."""
        groups = [facts.group]
        groups += self._model.compiled.schedule.inliner.groups_in(facts.group)
        return any(
            is_constant(value.op) and _marks(value.op.attrs["value"].array, "inf").any()
            for group in groups
            for op in group.ops
            for value in op.operands
        )

    def _in_body(self, facts: StepFacts, read: Mapping[Value, Array]) -> Trip | None:
        """The first op that a branch, a loop or a call runs and that makes it, as the references
        compute it; None when they make none."""
        main, walk = facts.group.main, self._walk
        if facts.group.kind != "program" or main is None or has_effect(main):
            return None
        found: list[Trip] = []

        def seen(op: Op, given: Sequence[Array], made: Sequence[Array]) -> None:
            for kind in self._kinds:
                marks = next((m for m in (_marks(a, kind) for a in made) if m.any()), None)
                if marks is None or found or any(_marks(a, kind).any() for a in given):
                    continue
                call = main.attrs.get("call")
                node = op.origins[-1] if call is None else call.ids.get(op.id, "")
                if node not in self._user or op.regions:
                    continue
                operands = [v for v in op.operands if not isinstance(v.type, ChainType)]
                arrays = dict(zip(operands, given, strict=True))
                trip = self._trip(facts, kind, op, marks, arrays, arrays, True, node)
                found.append(trip)
                raise _FoundError

        weights = walk.memory.weights()
        reference = Reference(self._model.compiled.function, walk.env, weights)
        operands = [v for v in main.operands if not isinstance(v.type, ChainType)]
        try:
            known = reference.evaluate(operands, {v: exact(a) for v, a in read.items()})
            run_inside(main, [known[v].base for v in operands], walk.env, weights, seen)
        except (
            _FoundError,
            KeyError,
            ExecutionError,
        ):  # or a loop of more turns than references do
            pass
        return found[0] if found else None

    def _inside(self, facts: StepFacts, read: Mapping[Value, Array]) -> Trip | None:
        """The first op of the kernel that was seen to make it; None when none was."""
        model, step, walk = self._model, facts.step, self._walk
        variant = model.chosen.get(step.number, 0)
        written = facts.writes[0]
        places = places_of(model.compiled.schedule, facts.group, step, variant, written)
        alone = Alone.of(walk, step, {w.slot for w in facts.writes})
        if places is None or alone is None:
            return None
        try:
            reads = read_scalars(alone, places, walk.env)
        except MaxlabError:
            return None
        seen: dict[Value, Array] = {}
        for one in reads:
            scalar = places.scalars[one.number]
            array = one.array
            if array.dtype.itemsize > 1 and not one.written.all():
                array = np.where(one.written, array, np.zeros((), array.dtype))
            op = scalar.value.op
            if scalar.loaded or op is None:
                seen.setdefault(scalar.value, array)
                continue
            seen[scalar.value] = array
            for kind in self._kinds:
                marks = _marks(array, kind)
                if marks.any() and not _came_in(op, seen, kind):
                    return self._trip(facts, kind, op, marks, read, seen, True)
        return None

    def _trip(
        self,
        facts: StepFacts,
        kind: Kind,
        op: Op,
        marks: Array,
        arrays: Mapping[Value, Array],
        seen: Mapping[Value, Array],
        sure: bool,
        node: str = "",
    ) -> Trip:
        node = node or op.origins[-1]
        kernel = facts.step.id
        if facts.group.kind == "program":  # its last step says where the run goes on
            steps = self._model.compiled.plan.steps
            inside = (s for s in steps if node in s.nodes and s.kind not in CONTROL)
            kernel = next((s.id for s in inside), kernel)
        user = self._user.get(node)
        at = tuple(int(n) for n in np.argwhere(marks)[0])
        read = {v.id: seen[v] for v in op.operands if v in seen}
        numbers = {name: float(a[at]) for name, a in read.items() if a.shape == marks.shape}
        return Trip(
            kind,
            node,
            (user or op).name.removeprefix("mo."),
            kernel,
            sure,
            int(marks.sum()),
            at,
            user.loc if user is not None else op.loc,
            {n: np.array(a) for n, a in read.items()}
            or {v.id: np.array(a) for v, a in arrays.items()},
            numbers,
        )


def _came_in(op: Op, seen: Mapping[Value, Array], kind: str) -> bool:
    """Whether one of the operands of ``op`` has it already."""
    for value in op.operands:
        array = seen.get(value)
        if array is None and is_constant(value.op):
            array = value.op.attrs["value"].array
        if array is not None and _marks(array, kind).any():
            return True
    return False


__all__ = ["NonFiniteError", "Trip", "first_nonfinite", "newest_trip", "tripwire"]
