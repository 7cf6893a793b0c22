"""Connections that are possible: which operands take a value, and which values an operand takes.

A view asks when somebody begins to drag from a port, and marks what fits before the drop. So the
answer has to come at once, also for a thousand operations: nothing is changed and taken back for
each of them, but the types are followed from the operand to the outputs on paper. Operations alike
follow alike: where all that is changed so far is one value, what becomes of the rest is remembered
by that value and its type. Only what the types cannot say is tried in a copy of the graph.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from maxlab.errors import GraphError, MaxlabError
from maxlab.graph.editing import Editor
from maxlab.graph.graph import LIVE, Graph
from maxlab.graph.rearranging import short_name
from maxlab.ir import ChainType, Op, Type, Value
from maxlab.ir.types import Typed
from maxlab.lab.fields import type_text
from maxlab.opset import lookup
from maxlab.opset.dynamic import definitions
from maxlab.opset.verify import infer_types

State = Literal["fits", "refused", "same", "untried"]
"""Whether a value can be read there: it can, it cannot, it is read there now, or nobody had the
time to try."""

MOST_SECONDS = 0.2
"""That may be spent on trials in a copy of the graph, all together."""


class End(NamedTuple):
    """An operand and a value that it could read.

    Attributes:
        op: The id of the operation.
        operand: The number of its operand; chains are not counted.
        value: The id of the value.
        state: Whether it can be read there.
        says: The types of the operation's results then, of the value where it has none, or why it
            cannot be read.
    """

    op: str
    operand: int
    value: str
    state: State
    says: str


def takers(editor: Editor, value: Value) -> list[End]:
    """Every operand of the graph, with whether it takes ``value``.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Editor, Graph, TensorType, ops
        >>> from maxlab.lab.reaching import takers
        >>> types = [TensorType(DType.float32, [n, 4]) for n in ("n", 4)]
        >>> with Graph("g", input_types=types) as graph:
        ...     graph.output(graph.inputs[0].tensor @ graph.inputs[1].tensor)
        >>> editor = Editor(graph)
        >>> for end in takers(editor, editor.in_function("input0"))[:2]:
        ...     print(end.op, end.operand, end.state, end.says)
        n0 0 same float32[n, 4]
        n0 1 refused matmul: the inner dims differ, 4 ≠ n: [n, 4] @ [n, 4]
    """
    trier = _Trier(editor)
    makers = _makers([value])
    return [
        trier.end(op, number, value, makers)
        for op in editor.graph.function.ops
        for number in range(len(read_by(op)))
    ]


def taken(editor: Editor, op: Op, operand: int) -> list[End]:
    """Every value of the graph, with whether operand number ``operand`` of ``op`` takes it."""
    trier = _Trier(editor)
    behind = _readers(op)
    found = []
    for value in values_of(editor):
        makers = {op} if value.op in behind else set()
        found.append(trier.end(op, operand, value, makers))
    return found


def values_of(editor: Editor) -> Iterator[Value]:
    function = editor.graph.function
    yield from function.inputs
    for op in function.ops:
        yield from (value for value in op.results if not isinstance(value.type, ChainType))


def read_by(op: Op) -> list[Value]:
    """The operands of ``op``, without chains."""
    return [value for value in op.operands if not isinstance(value.type, ChainType)]


def _makers(values: Iterable[Value]) -> set[Op]:
    """The operations that ``values`` are made of."""
    found: set[Op] = set()
    waiting = [value.op for value in values]
    while waiting:
        op = waiting.pop()
        if op is not None and op not in found:
            found.add(op)
            waiting += [value.op for value in op.operands]
    return found


def _readers(op: Op) -> set[Op]:
    """``op``, and the operations that are made of it."""
    found: set[Op] = set()
    waiting = [op]
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += [reader for value in one.results for reader in value.uses]
    return found


class Readers:
    """Which operands take a value that is not there yet, by its type."""

    def __init__(self, editor: Editor) -> None:
        self._trier = _Trier(editor)

    def end(self, op: Op, operand: int, type: Type) -> tuple[State, str]:
        """Whether operand number ``operand`` of ``op`` takes a value of ``type``, and the types of
        the results of ``op`` then, or why not."""
        return self._trier.of_type(op, operand, type)


class _Unsure(Exception):  # noqa: N818 - it is no error
    """Types alone do not say it."""


class _Trier:
    """Says what becomes of a graph in which an operand reads something else, and remembers it."""

    def __init__(self, editor: Editor) -> None:
        self._editor = editor
        function = editor.graph.function
        self._block = function.block
        self._places = {op: place for place, op in enumerate(function.ops)}
        self._sizes = function.parameters.keys() | definitions(function).keys()
        self._first: dict[tuple[Op, int, Type], tuple[State, str]] = {}
        self._rest: dict[tuple[Value, Type], str] = {}
        self._copy: Editor | None = None
        self._until = 0.0

    def end(self, op: Op, number: int, value: Value, makers: set[Op]) -> End:
        """Whether operand ``number`` of ``op`` takes ``value``, which is made of ``makers``."""
        now = read_by(op)[number]
        if now is value:
            says = _told(result.type for result in op.results)
            return End(op.id, number, value.id, "same", says or type_text(value.type))
        if op in makers:
            return End(op.id, number, value.id, "refused", f"it is made of {_called(op)}")
        key = (op, number, value.type)
        known = self._first.get(key)
        if known is None:
            known = self._first[key] = self._found(op, number, value.type, value)
        return End(op.id, number, value.id, *known)

    def of_type(self, op: Op, number: int, type: Type) -> tuple[State, str]:
        """Whether operand ``number`` of ``op`` takes a value of ``type`` that is not there yet."""
        key = (op, number, type)
        known = self._first.get(key)
        if known is None:
            known = self._first[key] = self._found(op, number, type, None)
        return known

    def _found(self, op: Op, number: int, type: Type, value: Value | None) -> tuple[State, str]:
        if op.ends_block:
            return "fits", type_text(type)
        try:
            types = [v.type for v in read_by(op)]
            types[number] = type
            if op.regions:
                raise _Unsure
            made = self._typed(op, types)
            changed = {
                result: type
                for result, type in zip(op.results, made, strict=True)
                if result.type != type
            }
            wrong = self._follow(changed)
        except _Unsure:
            if value is None:
                return "untried", "only the step itself tells"
            state, says = self._tried(op, number, value)
            return state, says or type_text(type)
        except MaxlabError as error:
            return "refused", error.what
        return ("refused", wrong) if wrong else ("fits", _told(made) or type_text(type))

    def _typed(self, op: Op, reads: Sequence[Type]) -> list[Type]:
        """The types of the results of ``op`` where it reads ``reads``.

        Raises:
            MaxlabError: It does not take them.
            _Unsure: More than types follows from it.
        """
        if op.block is not self._block or op.regions or lookup(op.name).asserts:
            raise _Unsure
        try:
            made = infer_types(op, reads)
        except GraphError as error:
            cause = error.__cause__
            raise cause if isinstance(cause, MaxlabError) else error from None
        if len(made) != len(op.results):
            raise GraphError(
                "ML315",
                f"{_called(op)} would have {len(made)} results, it has {len(op.results)}",
                at=op.loc,
            )
        for type in made:
            for poly in type.sizes if isinstance(type, Typed) else ():
                for name in poly.symbols():
                    if name not in self._sizes:
                        raise _Unsure
        return made

    def _follow(self, changed: Mapping[Value, Type]) -> str:
        """Why the operations that read values with the new types ``changed`` cannot; empty where
        they can."""
        types = dict(changed)
        pending: list[tuple[int, Op]] = []
        waiting: dict[Value, int] = {}  # how many operations have yet to read it
        queued: set[Op] = set()

        def add(value: Value) -> None:
            readers = [reader for reader in value.uses if not reader.ends_block]
            if any(reader not in self._places for reader in readers):
                raise _Unsure  # one stands in a loop or branch
            if readers:
                waiting[value] = len(readers)
            for reader in readers:
                if reader not in queued:
                    queued.add(reader)
                    heapq.heappush(pending, (self._places[reader], reader))

        for value in changed:
            add(value)
        passed: list[tuple[Value, Type]] = []
        wrong = ""
        while pending:
            if len(waiting) == 1:
                (value,) = waiting
                key = (value, types[value])
                known = self._rest.get(key)
                if known is not None:
                    wrong = known
                    break
                passed.append(key)
            _, op = heapq.heappop(pending)
            reads = [types.get(v, v.type) for v in read_by(op)]
            try:
                made = self._typed(op, reads)
            except MaxlabError as error:
                wrong = f"{error.what} ({_called(op)} reads what follows)"
                break
            for value in dict.fromkeys(op.operands):
                if value in waiting:
                    waiting[value] -= 1
                    if not waiting[value]:
                        del waiting[value]
            for result, type in zip(op.results, made, strict=True):
                if result.type != type:
                    types[result] = type
                    add(result)
        for key in passed:
            self._rest[key] = wrong
        return wrong

    def _tried(self, op: Op, number: int, value: Value) -> tuple[State, str]:
        """The same, tried in a copy of the graph, as long as there is time."""
        if self._copy is None:
            copy = Graph(path=self._editor.graph.function.clone())
            LIVE.discard(copy)  # it is none of the user's
            self._copy = Editor(copy)
            self._until = time.monotonic() + MOST_SECONDS
        elif time.monotonic() > self._until:
            return "untried", "it was not tried: the graph is large"
        scratch = self._copy
        try:
            with scratch.step():
                scratch.connect(op.id, number, value.id)
                raise _Taken(_told(v.type for v in scratch.op(op.id).results))
        except _Taken as took:
            return "fits", took.types
        except MaxlabError as error:
            return "refused", error.what


class _Taken(Exception):  # noqa: N818 - it is no error
    """The operand took the value; raised so that it is taken back."""

    def __init__(self, types: str) -> None:
        super().__init__(types)
        self.types = types


def _told(types: Iterable[Type]) -> str:
    return ", ".join(type_text(type) for type in types if not isinstance(type, ChainType))


def _called(op: Op) -> str:
    return f"{short_name(op)} {op.id}"


__all__ = ["End", "Readers", "State", "read_by", "taken", "takers", "values_of"]
