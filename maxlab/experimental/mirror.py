"""The graph of a trace, in which each operation is checked and split into those of the table.

Functions of ``graph.ops`` add operations to a graph. A step that no trace has taken before is made
by calling such a function in the `Mirror` of the trace, a graph with the same operations; what the
call adds is the step. An error is raised by the call, at the line of whoever made it, and leaves
graph and trace as they were.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from maxlab.driver import Tensor as Memory
from maxlab.dtype import DType
from maxlab.errors import Location, MaxlabError
from maxlab.experimental.kernels import library
from maxlab.experimental.places import located
from maxlab.experimental.tracing import Node, State, Trace, here
from maxlab.graph import Graph
from maxlab.graph.graph import LIVE
from maxlab.graph.operands import data_of, is_array, is_number, to_numpy
from maxlab.graph.value import TensorValue, Value, wrap
from maxlab.ir import DeviceRef, TensorType, user_location
from maxlab.ir import Value as IrValue
from maxlab.opset.builder import enter, leave

MOST_BAKED = 4096
"""The elements of the largest array that operations make of themselves and that becomes a constant
of a program; larger ones are inputs."""

_UNLIMITED = float("inf")


class Mirror(Graph):
    """The operations of ``trace`` as a graph.

    Attributes:
        values: The values of the graph by slot.
        slots: The slots of the values of the graph.
        followed: The steps of the trace that are in the graph.
        fresh: Inputs that the call that is going on has added, with what they are.
        number: The number that the call was given as an operand; None if there is none.
        taken: The value that the graph has for that number.
    """

    def __init__(self, trace: Trace) -> None:
        super().__init__("tensors", kernel_library=library if len(library) else None)
        LIVE.discard(self)
        self.trace = trace
        self.values: dict[int, Any] = {}
        self.slots: dict[IrValue, int] = {}
        self.followed = 0
        self.fresh: list[tuple[IrValue, Memory]] = []
        self.number: Any = None
        self.taken: IrValue | None = None

    # ------------------------------------------------------------ what operands become
    def literal(self, x: Any, dtype: DType, device: DeviceRef) -> TensorValue:
        """The number ``x`` as a constant, or the array ``x`` as an input."""
        if not is_number(x):
            return self.input(data_of(x, dtype), device)
        made = super().literal(x, dtype, device)
        if x is self.number and self.taken is None:
            self.taken = made.to_mlir()
        return made

    def tensor(self, x: Any, what: str = "the operand") -> TensorValue:
        """``x`` as a tensor of the graph; an array becomes an input."""
        if is_array(x):
            array = np.array(to_numpy(x), order="C")
            DType.from_numpy(array.dtype)
            return self.input(array, DeviceRef.CPU())
        return super().tensor(x, what)

    def op(self, name: str, operands: Sequence[Any], /, **attrs: Any) -> tuple[Any, ...]:
        """The results of a new op; a large constant becomes an input."""
        if name == "constant" and attrs["value"].array.size > MOST_BAKED:
            return (self.input(np.array(attrs["value"].array), attrs["device"]),)
        return super().op(name, operands, **attrs)

    def input(self, array: np.ndarray[Any, Any], device: DeviceRef) -> TensorValue:
        """A new input whose value is ``array``, on ``device``."""
        memory = memory_of(array)
        if device != DeviceRef.CPU():
            memory = memory.to(device.to_device())
        return self.known(memory)

    def known(self, memory: Memory) -> TensorValue:
        """A new input whose value is ``memory``."""
        type = type_of(memory)
        made = self.function.add_input(type)
        self.fresh.append((made, memory))
        found: TensorValue = wrap(made)
        return found

    # ------------------------------------------------------------ following the trace
    def follow(self) -> None:
        """Has all operations of the trace."""
        trace = self.trace
        if self.followed == trace.state.depth:
            return
        enter(self)
        try:
            for state in trace.state.path()[self.followed :]:
                with self.at(located(trace, state), ""):
                    self._add(state)
                self.followed = state.depth
        finally:
            leave(self)

    def _add(self, state: State) -> None:
        if state.input is not None:
            self._knows(wrap(self.function.add_input(state.input)), state.size - 1)
            return
        for node in state.nodes:
            if node.number >= 0:
                dtype = node.types[0].dtype  # type: ignore[attr-defined]  # numbers are tensors
                number = self.trace.numbers[node.number]
                made: Any = (Graph.literal(self, number, dtype, node.attrs["device"]),)
            else:
                operands = [self.values[slot] for slot in node.operands]
                made = Graph.op(self, node.name, operands, **node.attrs)
            for value, slot in zip(made, node.results, strict=True):
                self._knows(value, slot)

    def _knows(self, value: Value, slot: int) -> None:
        self.values[slot] = value
        self.slots[value.to_mlir()] = slot

    # ------------------------------------------------------------ a step that is new
    def record(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        number: Any,
    ) -> tuple[Any, State, bool]:
        """The result of ``function`` on ``args``, in which slots stand for tensors as `Slot`; as
        slots where it is values. Then the state before its step, and whether ``number``, one of
        ``args``, is data of the trace.

        Raises:
            MaxlabError: The operation cannot be done.
        """
        trace = self.trace
        place = user_location()
        self.number, self.taken = number, None
        enter(self)
        trace.calls += 1
        here.trace = None  # what the function does with tensors of its own is another trace
        try:
            self.follow()
            before = len(self.function.ops)
            self.fresh.clear()
            with self.at(place, ""), self.transaction():
                made = function(*self._values(args), **self._values(kwargs))
        except MaxlabError as error:
            _word(error)
            raise
        finally:
            leave(self)
            here.trace = trace
            trace.calls -= 1
            self.number = None
        return self._step(made, before, number, place)

    def _values(self, given: Any) -> Any:
        if given.__class__ is Slot:
            return self.values[given.slot]
        if isinstance(given, dict):
            return {key: self._values(one) for key, one in given.items()}
        if given.__class__ in (list, tuple):
            return given.__class__([self._values(one) for one in given])
        return given

    def _step(
        self, made: Any, before: int, number: Any, place: Location | None
    ) -> tuple[Any, State, bool]:
        trace = self.trace
        for value, memory in self.fresh:
            self._knows(wrap(value), trace.enter(memory, value.type))
        self.fresh.clear()
        start = trace.state
        size, count = start.size, start.numbers
        nodes: list[Node] = []
        numbers = []
        for op in self.function.ops[before:]:
            operands = tuple([self.slots[value] for value in op.operands])
            types = tuple([value.type for value in op.results])
            attrs, name, which = dict(op.attrs), op.name.removeprefix("mo."), -1
            if self.taken is not None and op.results[0] is self.taken:
                which, attrs = count, {"device": attrs["device"]}
                numbers.append(number)
            nodes.append(Node(name, operands, attrs, types, size, which))
            for value in op.results:
                self._knows(wrap(value), size)
                size += 1
        result = self._slots(made)
        trace.step(nodes, result, numbers, place)
        self.followed = trace.state.depth
        return result, start, bool(numbers)

    def _slots(self, made: Any) -> Any:
        """``made`` with slots in the place of values."""
        if isinstance(made, Value):
            return self.slots[made.to_mlir()]
        if isinstance(made, dict):
            return {key: self._slots(one) for key, one in made.items()}
        if made.__class__ in (list, tuple):
            return made.__class__([self._slots(one) for one in made])
        return Plain(made)


_UNBROADCAST = re.compile(r"(.*): the shapes \[(.*?)\] and \[(.*?)\] do not broadcast")
_INPUT = re.compile(r"is the input 'input\d+'")


def _word(error: MaxlabError) -> None:
    """Let ``error`` say of tensors what it says of values of a graph, and use NumPy's words."""
    found = _UNBROADCAST.match(error.what)
    if found is not None:
        name, *shapes = found.groups()
        both = " ".join(
            f"({shape},)" if "," not in shape and shape else f"({shape})" for shape in shapes
        )
        rest = error.what[found.end() :]
        error.what = f"{name}: operands could not be broadcast together with shapes {both}{rest}"
    error.what = error.what.replace("a tensor of the graph", "a tensor")
    error.why = tuple([_INPUT.sub("is a tensor with a value", line) for line in error.why])
    error.args = (str(error),)


class Slot:
    """The value in a slot, as an argument."""

    __slots__ = ("slot",)

    def __init__(self, slot: int) -> None:
        self.slot = slot


class Plain:
    """A result that is no value of a graph; equal to another if both are the same object."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plain) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


# ---------------------------------------------------------------- memory and types
_types: dict[Any, TensorType] = {}


def type_of(memory: Memory) -> TensorType:
    """The type of ``memory``; the same object each time."""
    device = memory.device
    key = (memory.dtype, memory.shape, device)
    found = _types.get(key)
    if found is None:
        if len(_types) > 65536:
            _types.clear()
        found = _types[key] = TensorType(memory.dtype, memory.shape, DeviceRef.from_device(device))
    return found


def memory_of(array: np.ndarray[Any, Any]) -> Memory:
    """A tensor that shares the memory of ``array``, which nobody else changes."""
    dtype = DType.from_numpy(array.dtype)
    if array.dtype.isbuiltin == 1:
        return Memory.from_numpy(array)
    made = Memory(dtype, array.shape)
    made.to_ml_numpy()[...] = array
    return made


def limits(kind: type, dtype: DType) -> tuple[Any, Any] | None:
    """The least and the greatest number of the class ``kind`` that every operand of ``dtype`` takes
    as it is; None where each number has to be looked at."""
    if kind is float and dtype.is_float():
        return -_UNLIMITED, _UNLIMITED
    if kind is int and dtype.is_float():
        exact = {DType.float64: 53, DType.float32: 24, DType.float16: 11, DType.bfloat16: 8}
        bits = exact.get(dtype)
        return None if bits is None else (-(2**bits), 2**bits)
    if kind is int and dtype.is_integral():
        info = np.iinfo(dtype.ml_numpy)
        return int(info.min), int(info.max)
    return None


__all__ = ["Mirror", "Plain", "Slot", "limits", "memory_of", "type_of"]
