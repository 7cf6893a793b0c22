"""How operations on tensors are recorded: the quick way of steps that were taken before, and the
way through ``graph.ops`` of those that were not."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from maxlab.driver import Tensor as Memory
from maxlab.experimental import recipes
from maxlab.experimental.mirror import Mirror, Plain, Slot, limits, type_of
from maxlab.experimental.parts import part_of
from maxlab.experimental.programs import places_of
from maxlab.experimental.reading import lock, read
from maxlab.experimental.tracing import (
    MOST_STEPS,
    Made,
    Node,
    State,
    Trace,
    here,
    recording,
)
from maxlab.graph import TensorType
from maxlab.graph.value import Value
from maxlab.ir import Shape, user_frame

_frame = sys._getframe
_new = object.__new__
_ref = weakref.ref
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

remembering = True
"""Whether steps that were taken before are recorded the quick way. Tests turn it off: all steps go
through ``graph.ops`` then."""


class Recorded:
    """A tensor whose value is in memory, or recorded and not computed yet.

    Exactly one of two things holds it: ``_memory``, or the slot ``_slot`` of the trace ``_trace``.
    With memory, the two say in which slot of which trace it is an input, and ``_made``, which is
    set when it is computed, in which slot after which steps it was.
    """

    __slots__ = ("__weakref__", "_made", "_memory", "_slot", "_trace", "_type")
    _made: Made
    _memory: Memory | None
    _slot: int
    _trace: Trace | None
    _type: Any


kind: type[Any] = Recorded
"""The class of the tensors that are made: `tensor.Tensor`, which sets it."""


def made_of(memory: Memory) -> Any:
    """The tensor whose value is ``memory``."""
    trace = here.trace
    if trace is not None and not trace.is_wanted():
        here.trace = None  # what was recorded is dropped: its inputs are not kept for it
    tensor = _new(kind)
    tensor._memory = memory
    tensor._trace = None
    tensor._slot = -1
    tensor._type = None
    return tensor


def type_in(tensor: Any) -> TensorType:
    """The type of ``tensor``."""
    found = tensor._type
    if found is None:
        found = tensor._type = type_of(tensor._memory)
    return found  # type: ignore[no-any-return]


def made_by(tensor: Any) -> Made | None:
    """How ``tensor`` was made, since the last read before it; None if no operation has made it."""
    if tensor._memory is None:
        return Made(tensor._trace, tensor._slot)
    return getattr(tensor, "_made", None)


def slot_in(tensor: Any, trace: Trace) -> int:
    """The slot of ``tensor`` in ``trace``, which this thread records; it becomes an input of it
    where it has a value. What this thread has recorded in an older trace is recorded anew."""
    if tensor._trace is trace:
        return int(tensor._slot)
    if tensor._memory is None:
        bring(tensor, trace)
        if tensor._trace is trace:
            return int(tensor._slot)
    memory: Memory = tensor._memory
    if not memory.is_contiguous:
        memory = memory.contiguous()
    slot = trace.enter(memory, type_in(tensor))
    tensor._trace = trace
    tensor._slot = slot
    return slot


def bring(tensor: Any, trace: Trace) -> None:
    """Brings ``tensor``, which is recorded elsewhere, into ``trace``; or computes it, where another
    thread has recorded it, or so much is recorded that it would not fit."""
    old: Trace = tensor._trace
    if old.thread != threading.get_ident() or not _carry(old, trace):
        with lock:
            if tensor._memory is None:
                read(tensor._trace, (tensor._slot,))


def _carry(old: Trace, trace: Trace) -> bool:
    """Whether what users hold of ``old`` is now recorded in ``trace``."""
    with lock:
        alive = old.alive()
        part = part_of(old.state, alive, old.memory)
        if trace.state.depth + len(part.nodes) + len(part.inputs) >= MOST_STEPS:
            return False
        slots: dict[int, int] = {}
        for slot in part.inputs:
            slots[slot] = trace.enter(old.memory[slot], old.state.type_of(slot))
        for node, place in _with_places(old, part.nodes):
            first = trace.state.size
            which, numbers = -1, []
            if node.number >= 0:
                which = trace.state.numbers
                numbers = [old.numbers[node.number]]
            operands = tuple([slots[slot] for slot in node.operands])
            trace.brought += 1
            copy = Node(node.name, operands, node.attrs, node.types, first, which)
            trace.step([copy], first if len(copy.types) == 1 else copy.results, numbers, place)
            slots.update(zip(node.results, copy.results, strict=True))
        for slot in alive:
            tensor = old.handles.pop(slot)()
            if tensor is not None:
                tensor._trace = trace
                tensor._slot = slots[slot]
                trace.handles[slots[slot]] = _ref(tensor)
    return True


def _with_places(trace: Trace, nodes: Sequence[Node]) -> list[tuple[Node, Any]]:
    places = places_of(trace, nodes)
    return [(node, places[id(node)]) for node in nodes]


# ---------------------------------------------------------------- the quick way
def binary(name: str, function: Callable[..., Any], reflected: bool = False) -> Callable[..., Any]:
    """A function of two operands, the first of which is a tensor, that records ``function`` of
    ``graph.ops`` on them; on the second and the first where it is ``reflected``."""
    key = f"r{name}" if reflected else name

    def record(self: Any, other: Any) -> Any:
        trace = here.trace
        if trace is None:
            trace = recording()
        first = self._slot if self._trace is trace else slot_in(self, trace)
        sort = other.__class__
        if sort is kind:
            second = other._slot if other._trace is trace else slot_in(other, trace)
            after = trace.state.edges.get((key, first, second))
            if after is None or not remembering:
                return _slow((key, first, second), function, self, other, reflected, None)
        elif sort is float or sort is int:
            after = trace.state.edges.get((key, first, sort))
            if after is None or not after.low <= other <= after.high or not remembering:
                return _slow((key, first, sort), function, self, other, reflected, other)
            trace.numbers.append(other)
        else:
            return _slow(None, function, self, other, reflected, None)
        frame = _frame(1)
        code = frame.f_code
        if code.co_filename.startswith(_PACKAGE):
            frame = user_frame() or frame
            code = frame.f_code
        places = trace.places
        places.append(code)
        places.append(frame.f_lasti)
        trace.state = after
        tensor = _new(kind)
        tensor._memory = None
        tensor._trace = trace
        tensor._slot = slot = after.result
        tensor._type = after.type
        trace.handles[slot] = _ref(tensor)
        return tensor

    return record


def from_number(
    tensor: Any, number: int, function: Callable[..., Any], more: tuple[Any, ...]
) -> Any:
    """The result of ``function`` on ``tensor``, the number and ``more``, which are plain values.
    The number is one of the trace: other numbers are the same step.
    """
    trace = recording()
    slot = slot_in(tensor, trace)
    key = (function, (slot,), int, *more)
    after = trace.state.edges.get(key)
    if after is not None and remembering:
        trace.numbers.append(number)
        return again(trace, after)
    return recorded(key, function, (tensor, number, *more), {}, number)


def unary(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of a tensor that records ``function`` of ``graph.ops`` on it."""

    def record(self: Any) -> Any:
        trace = here.trace
        if trace is None:
            trace = recording()
        first = self._slot if self._trace is trace else slot_in(self, trace)
        after = trace.state.edges.get((name, first))
        if after is None or not remembering:
            return recorded((name, first), function, (self,), {})
        frame = _frame(1)
        code = frame.f_code
        if code.co_filename.startswith(_PACKAGE):
            frame = user_frame() or frame
            code = frame.f_code
        places = trace.places
        places.append(code)
        places.append(frame.f_lasti)
        trace.state = after
        tensor = _new(kind)
        tensor._memory = None
        tensor._trace = trace
        tensor._slot = slot = after.result
        tensor._type = after.type
        trace.handles[slot] = _ref(tensor)
        return tensor

    return record


def _slow(
    key: Any,
    function: Callable[..., Any],
    self: Any,
    other: Any,
    reflected: bool,
    number: Any,
) -> Any:
    args = (other, self) if reflected else (self, other)
    return recorded(key, function, args, {}, number)


def of_one(function: Callable[..., Any], tensor: Any) -> Any:
    """The result of ``function`` of ``graph.ops`` on ``tensor`` alone."""
    trace = here.trace
    if trace is None:
        trace = recording()
    slot = tensor._slot if tensor._trace is trace else slot_in(tensor, trace)
    key = (function, (slot,))
    after = trace.state.edges.get(key)
    if after is None or not remembering:
        return recorded(key, function, (tensor,), {})
    return again(trace, after, 3)


def again(trace: Trace, after: State, depth: int = 2) -> Any:
    """The result of the step to ``after``, which is known; ``depth`` calls below the user's."""
    frame = _frame(depth)
    if frame.f_code.co_filename.startswith(_PACKAGE):
        frame = user_frame() or frame
    trace.places.append(frame.f_code)
    trace.places.append(frame.f_lasti)
    trace.state = after
    slot = after.result
    if slot.__class__ is not int:
        return _tensors(slot, trace, {})
    tensor = _new(kind)
    tensor._memory = None
    tensor._trace = trace
    tensor._slot = slot
    tensor._type = after.type
    trace.handles[slot] = _ref(tensor)
    return tensor


# ---------------------------------------------------------------- the way through graph.ops
def recorded(
    key: Any,
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    number: Any = None,
) -> Any:
    """The recorded result of ``function`` of ``graph.ops`` on ``args``.

    Args:
        key: What the step is found by in the state that it is taken in; None if by nothing.
        function: A function of values of a graph.
        args: Its arguments, among which are tensors.
        kwargs: Its arguments by name.
        number: The one of ``args`` that is an operand and a number, if there is one.

    Raises:
        MaxlabError: The operation cannot be done.
    """
    tensors = found_in([*args, *kwargs.values()])
    if any(isinstance(x, Value) for x in every([*args, *kwargs.values()])):
        return function(*args, **kwargs)
    if any(tensor._memory is None and tensor._trace is None for tensor in tensors):
        return in_graph(function(*values_in(args), **values_in(kwargs)))
    trace = recording()
    if trace.state.depth >= MOST_STEPS:
        with lock:
            mine = tuple({t._slot: 0 for t in tensors if t._trace is trace and t._memory is None})
            read(trace, mine)
        here.trace = None
        trace, key = recording(), None
    slots = {id(tensor): slot_in(tensor, trace) for tensor in tensors}
    known = {slots[id(tensor)]: tensor for tensor in tensors}
    by_types: Any = None
    if key is not None and remembering:
        types = {slot: type_in(tensor) for slot, tensor in known.items()}
        by_types, operands = recipes.key_of(key, types)
        recipe = recipes.find(by_types)
        if recipe is not None and trace.state.bare.isdisjoint(operands):
            after = _taken(recipe, key, operands, number, trace)
            if after is not None:
                return _tensors(after.result, trace, known)
    mirror: Mirror | None = trace.mirror
    if mirror is None:
        mirror = trace.mirror = Mirror(trace)
    made, start, taken = mirror.record(function, _slots(args, slots), _slots(kwargs, slots), number)
    after = trace.state
    is_open = any(_is_open(node) for node in after.nodes)
    is_step = after.parent is start and not is_open and _is_new(made, start.size)
    if by_types is not None and is_step:
        bounds = _bounds(after, number, taken)
        if number is None or bounds is not None:
            start.edges[key] = after
            if bounds is not None:
                after.low, after.high = bounds
            recipes.remember(by_types, operands, start, after, bounds)
    tensor = _tensors(made, trace, known)
    if is_open:
        _read_now(tensor)
    return tensor


def _taken(
    recipe: recipes.Recipe, key: Any, operands: list[int], number: Any, trace: Trace
) -> State | None:
    """The state after the step of ``recipe``; None if ``number`` has to be looked at."""
    low, high = recipe.limits
    if number is not None and not low <= number <= high:
        return None
    start = trace.state
    nodes, result = recipes.applied(recipe, operands, start)
    frame = user_frame()
    place, offset = (None, 0) if frame is None else (frame.f_code, frame.f_lasti)
    after = trace.step(nodes, result, () if number is None else (number,), place, offset)
    after.low, after.high = low, high
    start.edges[key] = after
    return after


def _is_new(made: Any, size: int) -> bool:
    """Whether all that a step gives are values that it made."""
    if made.__class__ is int:
        return bool(made >= size)
    if isinstance(made, dict):
        return all(_is_new(one, size) for one in made.values())
    return made.__class__ in (list, tuple) and all(_is_new(one, size) for one in made)


def _bounds(after: State, number: Any, taken: bool) -> tuple[Any, Any] | None:
    """The least and the greatest number that the last step may be given without looking at it; None
    if each one has to be looked at, or there is none."""
    if number is None or not taken:
        return None
    node = next(node for node in after.nodes if node.number >= 0)
    return limits(type(number), node.types[0].dtype)  # type: ignore[attr-defined]


def _is_open(node: Node) -> bool:
    """Whether only a run tells the sizes of what ``node`` gives."""
    return any(
        isinstance(type, TensorType) and not Shape.is_static(type.shape) for type in node.types
    )


def _read_now(made: Any) -> None:
    for tensor in found_in([made]):
        if tensor._memory is None:
            read(tensor._trace, (tensor._slot,))
        tensor._type = None


def every(given: Any) -> list[Any]:
    """``given``, a list, with what is in its lists, tuples and dicts."""
    found = []
    for one in given:
        if one.__class__ in (list, tuple):
            found += every(one)
        elif one.__class__ is dict:
            found += every(list(one.values()))
        else:
            found.append(one)
    return found


def found_in(given: Any) -> list[Any]:
    """The tensors in ``given``, a list, and in its lists, tuples and dicts."""
    return [one for one in every(given) if isinstance(one, Recorded)]


def values_in(given: Any) -> Any:
    """``given`` with values of the graph that is being built in the place of tensors."""
    if isinstance(given, Recorded):
        return given.__tensorvalue__()  # type: ignore[attr-defined]  # of `tensor.Tensor`
    if isinstance(given, dict):
        return {key: values_in(one) for key, one in given.items()}
    if given.__class__ in (list, tuple):
        return given.__class__([values_in(one) for one in given])
    return given


def in_graph(made: Any) -> Any:
    """``made`` with tensors that stand for them in the place of values of a graph."""
    if isinstance(made, Value):
        return kind(value=made)
    if isinstance(made, dict):
        return {key: in_graph(one) for key, one in made.items()}
    if made.__class__ in (list, tuple):
        return made.__class__([in_graph(one) for one in made])
    return made


def _slots(given: Any, slots: dict[int, int]) -> Any:
    if isinstance(given, Recorded):
        return Slot(slots[id(given)])
    if isinstance(given, dict):
        return {key: _slots(one, slots) for key, one in given.items()}
    if given.__class__ in (list, tuple):
        return given.__class__([_slots(one, slots) for one in given])
    return given


def _tensors(made: Any, trace: Trace, known: dict[int, Any]) -> Any:
    """``made`` with tensors in the place of slots; those that were arguments are themselves."""
    if made.__class__ is int:
        found = known.get(made)
        return _handle(made, trace) if found is None else found
    if isinstance(made, Plain):
        return made.value
    if isinstance(made, dict):
        return {key: _tensors(one, trace, known) for key, one in made.items()}
    return made.__class__([_tensors(one, trace, known) for one in made])


def _handle(slot: int, trace: Trace) -> Any:
    memory = trace.memory.get(slot)
    tensor = _new(kind)
    tensor._memory = memory
    tensor._trace = trace
    tensor._slot = slot
    tensor._type = trace.state.type_of(slot)
    if memory is None:
        trace.handles[slot] = _ref(tensor)
    return tensor


__all__ = [
    "Recorded",
    "again",
    "binary",
    "bring",
    "every",
    "from_number",
    "found_in",
    "made_by",
    "of_one",
    "in_graph",
    "made_of",
    "recorded",
    "remembering",
    "slot_in",
    "type_in",
    "unary",
    "values_in",
]
