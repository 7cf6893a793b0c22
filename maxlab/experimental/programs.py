"""Programs: the compiled graphs that reads run, each compiled once.

A program is found by what it computes: operations, the types of inputs, which slots are its
results. The numbers that steps were given are constants of it at first. When a second read gives
another number in the same place, the place becomes an input of a second program, and numbers there
never lead to a compilation again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from maxlab import trace as trace_of_events
from maxlab.driver import Tensor as Memory
from maxlab.engine import InferenceSession
from maxlab.engine.model import LIVE as MODELS
from maxlab.errors import Location, MaxlabError
from maxlab.experimental.parts import part_of
from maxlab.experimental.places import located
from maxlab.experimental.sizes import (
    Pattern,
    Sizes,
    common,
    frozen_without_sizes,
    without_sizes,
)
from maxlab.experimental.statistics import counts
from maxlab.experimental.tracing import Made, Node, Steps, Trace, forest, frozen
from maxlab.graph import Graph
from maxlab.graph.graph import LIVE as GRAPHS
from maxlab.ir import DeviceRef, TensorType

MOST_PROGRAMS = 1024
"""The programs that are kept; then all are forgotten."""

MOST_FAILURES = 2
"""How often programs for many sizes are tried of a structure that has none."""

_programs: dict[Any, Program] = {}
_families: dict[Any, Family] = {}
_sessions: dict[frozenset[DeviceRef], InferenceSession] = {}


class Program:
    """Computes some results of recorded operations.

    Attributes:
        pattern: The sizes that it takes, with names in them; None of a program for certain sizes.
        model: What runs; None before the first run.
        fixed: Of each number, the one that is a constant of the model; `FREE` where it is an input.
    """

    def __init__(self, pattern: Pattern | None = None) -> None:
        self.pattern = pattern
        self.model: Any = None
        self.fixed: list[Any] = []
        self.free: tuple[int, ...] = ()
        self._run: Any = None
        self._dtypes: tuple[Any, ...] = ()
        self._places: list[Location | None] = []

    def __call__(
        self, inputs: list[Memory], numbers: list[Any], trace: Trace, run: Any
    ) -> list[Memory]:
        """The results for ``inputs`` and ``numbers``.

        Raises:
            MaxlabError: It cannot be compiled, or a kernel found something wrong.
        """
        for given, known in zip(numbers, self.fixed, strict=False):
            if given is not known and known is not FREE and not _same(given, known):
                self._free(numbers, trace, run)
                break
        if self._run is None:
            self._compile(numbers, trace, run)
        for which, dtype in zip(self.free, self._dtypes, strict=True):
            inputs.append(Memory.scalar(numbers[which], dtype))
        counts.runs += 1
        try:
            if trace_of_events.run_watcher is None and trace_of_events.run_recorder is None:
                made: list[Memory] = self._run(inputs)
            else:  # somebody times the runs of models
                made = self.model.execute(*inputs)
        except MaxlabError as error:
            self._locate(error, trace, run)
            raise
        return made

    def _locate(self, error: MaxlabError, trace: Trace, run: Any) -> None:
        """Let ``error``, which names a line that the program was compiled from, name the one of
        ``trace``."""
        nodes = part_of(trace.state, run.outputs, trace.memory).nodes
        now = places_of(trace, nodes)
        found = {
            now[id(node)]
            for node, then in zip(nodes, self._places, strict=True)
            if then == error.at and then is not None
        }
        if len(found) == 1:
            error.at = found.pop()
            error.args = (str(error),)

    def _free(self, numbers: list[Any], trace: Trace, run: Any) -> None:
        """Let the places where ``numbers`` are others be inputs."""
        self.fixed = [
            FREE if known is FREE or not _same(given, known) else known
            for given, known in zip(numbers, self.fixed, strict=True)
        ]
        self._run = None

    def _compile(self, numbers: list[Any], trace: Trace, run: Any) -> None:
        why = "another size" if self.pattern is not None else "a new structure"
        if FREE in self.fixed:
            why = "another number"
        fixed = self.fixed or list(numbers)
        free = tuple(n for n, known in enumerate(fixed) if known is FREE)
        nodes = part_of(trace.state, run.outputs, trace.memory).nodes
        graph = graph_of(trace, nodes, run.inputs, run.outputs, set(free), self.pattern)
        model = session_for(graph).load(graph)
        MODELS.discard(model)
        counts.compiled(why)
        which = [node for node in nodes if node.number >= 0]
        self._dtypes = tuple(which[n].types[0].dtype for n in free)  # type: ignore[attr-defined]
        self.model, self.fixed, self.free = model, fixed, free
        now = places_of(trace, nodes)
        self._places = [now[id(node)] for node in nodes]
        self._run = model.run


class _Free:
    """The number in a place that is an input."""

    def __repr__(self) -> str:
        return "free"


FREE = _Free()


def _same(one: Any, other: Any) -> bool:
    """Whether two numbers are the same to the last bit."""
    if one.__class__ is not other.__class__ or one != other:
        return False
    return bool(one or not isinstance(one, float) or str(one) == str(other))  # -0.0 is not 0.0


def program_for(
    trace: Trace, nodes: Sequence[Node], inputs: Sequence[int], outputs: Sequence[int]
) -> Program:
    """The program that computes ``outputs`` by ``nodes`` from ``inputs``."""
    numbering: dict[int, int] = {slot: n for n, slot in enumerate(inputs)}
    rows: list[Any] = []
    attrs, others = [], []
    for node in nodes:
        operands = tuple([numbering[slot] for slot in node.operands])
        rows.append((node.name, operands, node.number >= 0, len(node.types)))
        attrs.append(frozen(node.attrs))
        others.append(frozen_without_sizes(node.attrs))
        for slot in node.results:
            numbering[slot] = len(numbering)
    types = [trace.state.type_of(slot) for slot in inputs]
    made = tuple([numbering[slot] for slot in outputs])
    key = (tuple(types), (*rows, *attrs), made)
    found = _programs.get(key)
    if found is None:
        if len(_programs) >= MOST_PROGRAMS:
            forget()
        family = _families.setdefault((without_sizes(types, (*rows, *others)), made), Family())
        found = _programs[key] = family.program(trace, nodes, inputs, outputs, types)
    return found


class Family:
    """The programs of one structure.

    Attributes:
        sizes: Those of a program that was compiled for them alone.
        programs: Those for many sizes.
        failures: How often no pattern served.
    """

    def __init__(self) -> None:
        self.sizes: Sizes | None = None
        self.programs: list[Program] = []
        self.failures = 0

    def program(
        self,
        trace: Trace,
        nodes: Sequence[Node],
        inputs: Sequence[int],
        outputs: Sequence[int],
        types: Sequence[Any],
    ) -> Program:
        """The program for the sizes of ``types`` and ``nodes``."""
        sizes = Sizes(types, nodes)
        for known in self.programs:
            if known.pattern is not None and known.pattern.fits(sizes) is not None:
                return known
        before, self.sizes = self.sizes, sizes
        if before is None or self.failures >= MOST_FAILURES:
            return Program()
        pattern = common(before, sizes)
        if pattern is None or not _serves(pattern, sizes, trace, nodes, inputs, outputs):
            self.failures += 1
            return Program()
        made = Program(pattern)
        self.programs.append(made)
        return made


def _serves(
    pattern: Pattern,
    sizes: Sizes,
    trace: Trace,
    nodes: Sequence[Node],
    inputs: Sequence[int],
    outputs: Sequence[int],
) -> bool:
    """Whether a graph with the sizes of ``pattern`` gives what ``nodes`` do for ``sizes``."""
    env = pattern.fits(sizes)
    if env is None:
        return False
    try:
        graph = graph_of(trace, nodes, inputs, outputs, (), pattern)
    except MaxlabError:
        return False
    for type, slot in zip(graph.output_types, outputs, strict=True):
        known = trace.state.type_of(slot)
        dims = [dim.evaluate(env) for dim in type.shape]  # type: ignore[attr-defined]
        if dims != known.shape.static_dims or type.dtype is not known.dtype:  # type: ignore[attr-defined]
            return False
    return True


def graph_of(
    trace: Steps,
    nodes: Sequence[Node],
    inputs: Sequence[int],
    outputs: Sequence[int],
    free: Collection[int] = (),
    pattern: Pattern | None = None,
) -> Graph:
    """A graph of ``nodes``, whose inputs are the slots ``inputs``, then those of the numbers of
    them that are ``free``; with the sizes of ``pattern``, if there is one.

    Raises:
        MaxlabError: With these sizes an operation cannot be done.
    """
    numbers = [node for node in nodes if node.number >= 0]
    freed = [numbers[n] for n in sorted(free)]
    types = [trace.state.type_of(slot) for slot in inputs]
    attrs = [node.attrs for node in nodes]
    if pattern is not None:
        types, attrs = pattern.types(types), pattern.attrs(nodes)
    types += [TensorType(node.types[0].dtype, []) for node in freed]  # type: ignore[attr-defined]
    graph = Graph("tensors", input_types=types)
    GRAPHS.discard(graph)
    values: dict[int, Any] = dict(zip(inputs, graph.inputs, strict=False))
    places = places_of(trace, nodes)
    with graph:
        for node, value in zip(freed, graph.inputs[len(inputs) :], strict=True):
            (values[node.results[0]],) = _moved(graph, value, node.attrs["device"])
        for node, given in zip(nodes, attrs, strict=True):
            if node.results[0] in values:
                continue
            with graph.at(places.get(id(node)), ""):
                if node.number >= 0:
                    dtype = node.types[0].dtype  # type: ignore[attr-defined]
                    number = trace.numbers[node.number]
                    made: Any = (graph.literal(number, dtype, node.attrs["device"]),)
                else:
                    operands = [values[slot] for slot in node.operands]
                    made = graph.op(node.name, operands, **given)
            values.update(zip(node.results, made, strict=True))
        graph.output(*[values[slot] for slot in outputs])
    return graph


def _moved(graph: Graph, value: Any, device: DeviceRef) -> tuple[Any, ...]:
    if device == DeviceRef.CPU():
        return (value,)
    return graph.op("transfer", [value], device=device)


def places_of(trace: Steps, nodes: Sequence[Node]) -> dict[int, Location | None]:
    """Where each of ``nodes`` was written, by its id."""
    wanted = set(map(id, nodes))
    found: dict[int, Location | None] = {}
    for state in trace.state.path():
        for node in state.nodes:
            if id(node) in wanted:
                found[id(node)] = located(trace, state)
    return found


def graph_made_by(made: Made) -> Graph:
    """The graph of what a value was made of."""
    steps, slot = made
    inputs = {state.size - 1 for state in steps.state.path() if state.input is not None}
    part = part_of(steps.state, [slot], inputs)
    return graph_of(steps, part.nodes, part.inputs, [slot])


def session_for(graph: Graph) -> InferenceSession:
    """A session with the devices that ``graph`` names."""
    function = graph.function
    found = {value.type.device for value in function.inputs}  # type: ignore[attr-defined]
    for op in function.ops:
        found |= {value.type.device for value in op.results}  # type: ignore[attr-defined]
    devices = frozenset(found - {DeviceRef.CPU()})
    session = _sessions.get(devices)
    if session is None:
        session = _sessions[devices] = InferenceSession([d.to_device() for d in devices])
    return session


def forget() -> None:
    """Forgets all programs, and the states that know some, as a new process has none."""
    _programs.clear()
    _families.clear()
    forest.forget()


__all__ = ["Program", "forget", "graph_made_by", "graph_of", "program_for"]
