"""Recorded operations that nothing has computed yet.

A `Trace` is a row of operations that a thread has recorded since it last read a value. Each value
in it has a number, its *slot*: what was there before, such as a tensor with memory, and then each
result. `State` is what a trace looks like after so many steps, without any data. Traces that have
taken the same steps share their states, so what is known of one of them, its types and its
programs, is found by the next one without looking at any type or attribute.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from maxlab.driver import Tensor as Memory
from maxlab.experimental.statistics import Counts, Stats, counts
from maxlab.ir import Type

MOST_STEPS: Final = 256
"""The steps of the longest trace. A longer one computes what its next step needs first."""

MOST_STATES: Final = 50_000
"""The states that are remembered; then all are forgotten, and each trace goes on with its own."""


class Node:
    """One operation of a step.

    Attributes:
        name: The name of the operation, without ``mo.``.
        operands: The slots that it reads.
        attrs: Its attributes; of a number only the device, since the number is data of the trace.
        types: The types of its results.
        results: The slots of its results.
        number: Of a number that a step was given: which one of the trace; else -1.
    """

    __slots__ = ("attrs", "name", "number", "operands", "results", "types")

    def __init__(
        self,
        name: str,
        operands: tuple[int, ...],
        attrs: dict[str, Any],
        types: tuple[Type, ...],
        first: int,
        number: int = -1,
    ) -> None:
        self.name = name
        self.operands = operands
        self.attrs = attrs
        self.types = types
        self.results = tuple(range(first, first + len(types)))
        self.number = number


class State:
    """A trace after its first ``depth`` steps, as far as steps say.

    Attributes:
        parent: The state before the last step; None at the beginning.
        bare: The slots whose values follow from the structure alone, such as constants.
        depth: The number of steps.
        operations: The number of steps that are operations.
        size: The number of slots.
        numbers: How many numbers the steps were given.
        input: The type of the value that the last step brought in; None if it was operations.
        nodes: The operations of the last step.
        result: What the last step gives: a slot, or slots in lists, tuples and dicts.
        type: The type of that slot.
        low: The least number that the last step may be given, and ``high`` the greatest.
        edges: The states after one more step, by what that is.
        runs: What was found out about reading values here.
    """

    __slots__ = (
        "__weakref__",
        "bare",
        "depth",
        "edges",
        "high",
        "input",
        "low",
        "nodes",
        "numbers",
        "operations",
        "parent",
        "result",
        "runs",
        "size",
        "type",
    )

    def __init__(
        self,
        parent: State | None,
        nodes: Sequence[Node] = (),
        input: Type | None = None,
        result: Any = None,
    ) -> None:
        self.parent = parent
        self.nodes = tuple(nodes)
        self.input = input
        self.result = result
        self.type: Any = None
        self.low: Any = 0
        self.high: Any = -1
        self.edges: dict[Any, State] = {}
        self.runs: dict[Any, Any] = {}
        self.bare: frozenset[int] = frozenset() if parent is None else parent.bare
        for node in nodes:
            if self.bare.issuperset(node.operands):
                self.bare = self.bare.union(node.results)
        if parent is None:
            self.depth = self.size = self.numbers = self.operations = 0
        else:
            self.operations = parent.operations + (input is None)
            self.depth = parent.depth + 1
            made = sum(len(node.types) for node in nodes) + (input is not None)
            self.size = parent.size + made
            self.numbers = parent.numbers + sum(node.number >= 0 for node in nodes)

    def path(self) -> list[State]:
        """The states from the first step to this one."""
        found: list[State] = []
        at: State | None = self
        while at is not None and at.parent is not None:
            found.append(at)
            at = at.parent
        found.reverse()
        return found

    def type_of(self, slot: int) -> Any:
        """The type of the value in ``slot``."""
        at: State = self
        while at.parent is not None and at.parent.size > slot:
            at = at.parent
        if at.input is not None:
            return at.input
        for node in at.nodes:
            if slot in node.results:
                return node.types[node.results.index(slot)]
        raise AssertionError("every slot has a type")


class _Forest:
    """The states that are known; the first one is that of an empty trace."""

    def __init__(self) -> None:
        self.root = State(None)
        self.count = 0

    def grown(self) -> None:
        """Counts one more state, and begins anew when there are too many."""
        self.count += 1
        if self.count > MOST_STATES:
            self.forget()

    def forget(self) -> None:
        """Begins anew: what was recorded is a structure that nobody has seen."""
        self.root = State(None)
        self.count = 0


forest = _Forest()


class Steps:
    """The record of a trace, without any tensor.

    Attributes:
        state: The steps that were taken.
        numbers: The numbers that steps were given.
        places: Of each step, where the user wrote it: the code, and where in it; or a `Location`
            and 0, or None and 0.
    """

    __slots__ = ("numbers", "places", "state")

    def __init__(self, state: State, numbers: list[Any], places: list[Any]) -> None:
        self.state = state
        self.numbers = numbers
        self.places = places


class Made(NamedTuple):
    """How a value was made.

    Attributes:
        steps: What was recorded.
        slot: The slot of the value.
    """

    steps: Steps
    slot: int


class Trace(Steps):
    """Operations that a thread has recorded since it last read a value.

    Attributes:
        memory: By slot, the values that there are: inputs, and what was computed since.
        handles: By slot, the tensor that a user may still hold.
        thread: The thread that records it.
        mirror: The same operations as a graph, as far as one was needed.
        brought: How many of the steps were recorded by another trace before.
        calls: How many functions are being called in the mirror.
    """

    __slots__ = ("__weakref__", "brought", "calls", "handles", "memory", "mirror", "thread")

    def __init__(self) -> None:
        self.state = forest.root
        self.memory: dict[int, Memory] = {}
        self.numbers: list[Any] = []
        self.handles: dict[int, Any] = {}
        self.places: list[Any] = []
        self.thread = threading.get_ident()
        self.mirror: Any = None
        self.brought = self.calls = 0
        _noted(self)

    def __del__(self, counts: Counts = counts) -> None:  # the process may be ending
        counts.recorded += self.state.operations - self.brought

    def enter(self, memory: Memory, type: Type) -> int:
        """The slot of a new input of this trace, whose value is ``memory``."""
        state = self.state
        after = state.edges.get(type)
        if after is None:
            after = State(state, input=type, result=state.size)
            after.type = type
            after = state.edges.setdefault(type, after)
            forest.grown()
        self.state = after
        self.places.append(None)
        self.places.append(0)
        self.memory[state.size] = memory
        return state.size

    def step(
        self,
        nodes: Sequence[Node],
        result: Any,
        numbers: Sequence[Any],
        place: Any,
        offset: int = 0,
    ) -> State:
        """The state after ``nodes``, which are the next step and were given ``numbers``. For
        ``place`` and ``offset`` see `places`."""
        state = self.state
        key = (
            tuple((n.name, n.operands, n.number, n.types, frozen(n.attrs)) for n in nodes),
            tuple(map(type, numbers)),
            frozen(result),
        )
        after = state.edges.get(key)
        if after is None:
            after = State(state, nodes, result=result)
            if type(result) is int:
                after.type = next(
                    (n.types[n.results.index(result)] for n in nodes if result in n.results), None
                )
            after = state.edges.setdefault(key, after)
            forest.grown()
        self.state = after
        self.numbers.extend(numbers)
        self.places.append(place)
        self.places.append(offset)
        return after

    def end(self) -> None:
        """Lets go of all memory: nobody reads anything of it any more."""
        self.memory.clear()
        self.handles.clear()
        self.mirror = None

    def is_wanted(self) -> bool:
        """Whether a user holds a tensor of what is recorded."""
        return any(handle() is not None for handle in reversed(self.handles.values()))

    def alive(self) -> tuple[int, ...]:
        """The slots without a value that a user holds a tensor of."""
        return tuple([slot for slot, handle in self.handles.items() if handle() is not None])


def frozen(value: Any) -> Any:
    """``value`` as a key: equal values of other classes, such as 1 and True, have other keys."""
    kind = value.__class__
    if kind is dict:
        return tuple([(name, frozen(one)) for name, one in value.items()])
    if kind is tuple or kind is list:
        return (kind, *[frozen(one) for one in value])
    if kind is float:
        return (kind, value.hex())
    return (kind, value)


class _Thread(threading.local):
    """The trace that a thread records into; None after it has read a value."""

    trace: Trace | None = None


here = _Thread()


def recording() -> Trace:
    """The trace that this thread records into."""
    trace = here.trace
    if trace is None:
        trace = here.trace = Trace()
    return trace


_traces: dict[int, weakref.ref[Trace]] = {}
_MANY = 256


def _noted(trace: Trace) -> None:
    """Keeps a weak reference to ``trace``."""
    if len(_traces) >= _MANY:
        for key, known in list(_traces.items()):
            if known() is None:
                _traces.pop(key, None)
    _traces[id(trace)] = weakref.ref(trace)


def traces() -> list[Trace]:
    """The traces with operations that somebody may still read."""
    found = [known() for known in list(_traces.values())]
    return [trace for trace in found if trace is not None]


def stats() -> Stats:
    """Counts of the operations that were recorded, run and compiled in this process, and why they
    were compiled.

    Example:
        >>> from maxlab.experimental.tensor import Tensor, stats
        >>> before = stats()
        >>> x = Tensor.ones((3,))
        >>> total = [(x * 0.125 + 8).realize for _ in range(10)]
        >>> made = stats() - before
        >>> made.recorded, made.runs, made.compiled
        (20, 10, 1)
    """
    recorded = sum(trace.state.operations - trace.brought for trace in traces())
    why = dict(counts.compilations)
    return Stats(counts.recorded + recorded, counts.runs, sum(why.values()), MappingProxyType(why))


__all__ = [
    "MOST_STEPS",
    "Made",
    "Node",
    "State",
    "Steps",
    "Trace",
    "forest",
    "frozen",
    "here",
    "recording",
    "stats",
    "traces",
]
