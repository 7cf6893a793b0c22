"""The operations that each line of the user's code made in one graph."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from maxlab.engine import Model
from maxlab.errors import Location
from maxlab.graph import Graph
from maxlab.ir import Op, Type, Value
from maxlab.ir.types import HandleType, Typed
from maxlab.lab import protocol
from maxlab.lab.hints.texts import Source, Span, Texts
from maxlab.lab.query.finding import Rows
from maxlab.lab.snapshot import take
from maxlab.lab.words import dims_text
from maxlab.opset import role_of
from maxlab.opset.custom import label_of

MOST_OPS = 8
"""Operations of a line that are told one by one."""
MOST_VALUES = 3
"""Values of a line that are told."""
MOST_TYPES = 4
"""Types of a value that are told."""

_EXECUTION = re.compile(r"cell \[(\d+)\]")


class Spent(NamedTuple):
    """The time that an operation takes of a run.

    Attributes:
        ns: Nanoseconds.
        share: Its part of the time of all kernels.
        is_split: Whether ``ns`` is an estimate.
        kernel: Id of the kernel that computes it.
        kernel_name: What that is called.
    """

    ns: float
    share: float
    is_split: bool
    kernel: str
    kernel_name: str


@dataclass(frozen=True, slots=True)
class Made:
    """The operations that a line made in one graph.

    Attributes:
        source: The text that the line is of.
        line: Its number there.
        run: The number of the execution that called it; 0 where it is not known.
        call: What is told of it but the cell and graph.
    """

    source: Source
    line: int
    run: int
    values: list[protocol.HintValue]
    turns: int
    time: protocol.HintTime | None
    ops: list[protocol.HintOp]
    count: int


def made_by_lines(
    graph: Graph, texts: Texts, spent: Mapping[str, Spent] | None = None
) -> list[Made]:
    """The operations that each line made in ``graph``, in the order in which the lines were first
    run.

    Args:
        graph: What to look at.
        texts: The texts that ran.
        spent: What each operation takes, by its id, where a model of the graph was profiled.
    """
    _, run = graph.made_in
    texts.look()
    placing = _Placing(texts, run)
    own: dict[_Line, list[tuple[Span, Op]]] = {}
    inside: dict[str, list[Op]] = {}  # by the scopes that calls have opened
    for op in list(graph.function.walk()):
        if op.id in graph.taken_over or op.ends_block or not any(map(_is_told, op.results)):
            continue
        found = placing.of(op.loc) if op.loc is not None else None
        if found is not None:
            own.setdefault(found[0], []).append((found[1], op))
        scope = op.scope
        while scope in graph.scope_calls:
            inside.setdefault(scope, []).append(op)
            scope = graph.scope_calls[scope][0]
    made = {line: _made_by_itself(line, placed, spent or {}) for line, placed in own.items()}
    called: dict[_Line, dict[Span, list[Sequence[Op]]]] = {}
    for scope, ops in inside.items():
        found = placing.of(graph.scope_calls[scope][1])
        if found is not None and found[0] not in own:
            called.setdefault(found[0], {}).setdefault(found[1], []).append(ops)
    made |= {line: _made_by_calls(line, turns, spent or {}) for line, turns in called.items()}
    return list(made.values())


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of a text that ran, as ``Made`` has it."""

    key: tuple[str, str]
    line: int
    run: int
    source: Source = field(compare=False)


class _Placing:
    """Finds lines of the texts that ran while a graph was built, in the execution ``run``."""

    def __init__(self, texts: Texts, run: int) -> None:
        self._texts, self._run = texts, run

    def of(self, at: Location) -> tuple[_Line, Span] | None:
        """The line and the expression that ``at`` means; None where they are not to be found."""
        source = self._texts.source_of(at, self._run)
        line = source.line_of(at) if source is not None else None
        if source is None or line is None:
            return None
        # A cell that adds to a graph of an earlier one made the line itself.
        by = max(self._run, source.run)
        return _Line(source.key, line, by, source), (line, at.column, at.end_column)


def spent_in(model: Model) -> dict[str, Spent]:
    """The time of each operation in the newest profile of ``model``, by its id; empty where there
    is none. The numbers are those of the view.
    """
    if model.last_profile is None:
        return {}
    rows = Rows(take(model, sources=False).document)
    kernels = {id: kernel for kernel in rows.document["kernels"] for id in kernel["nodes"]}
    found = {}
    for node in rows.document["nodes"]:
        ns, share, kernel = rows.time_ns(node), rows.share(node), kernels.get(node["id"])
        if ns is not None:
            found[node["id"]] = Spent(
                ns,
                share or 0.0,
                rows.is_split(node),
                kernel["id"] if kernel else "",
                kernel["name"] if kernel else "",
            )
    return found


def type_text(type: Type) -> str:
    """A type as a hint has it: ``float32[batch, 10]``, and ``float32`` without dims.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import TensorType
        >>> type_text(TensorType(DType.float32, ["batch", 10]))
        'float32[batch, 10]'
    """
    if not isinstance(type, Typed) or isinstance(type, HandleType):
        return str(type)
    return f"{type.dtype.name}{dims_text(type)}"


def _is_told(value: Value) -> bool:
    return isinstance(value.type, Typed)


def _made_by_itself(
    line: _Line, placed: Sequence[tuple[Span, Op]], spent: Mapping[str, Spent]
) -> Made:
    """The part of a line that the operations ``placed`` at it tell."""
    told = [(span, op) for span, op in placed if not _is_source(op)] or placed
    groups: dict[Span, list[Op]] = {}
    for span, op in told:
        groups.setdefault(span, []).append(op)
    turns = {span: _turns(ops) for span, ops in groups.items()}
    return _made(line, turns, lambda turn: turn[-1].results, [op for _, op in told], spent)


def _made_by_calls(
    line: _Line, turns: Mapping[Span, Sequence[Sequence[Op]]], spent: Mapping[str, Spent]
) -> Made:
    """The operations of a line that does nothing but call functions of the user."""
    told = [op for found in turns.values() for ops in found for op in ops if not _is_source(op)]
    return _made(line, turns, _given, told, spent)


def _is_source(op: Op) -> bool:
    return role_of(op) in ("data", "weight")


def _given(ops: Sequence[Op]) -> list[Value]:
    """The values that a function that made ``ops`` gives: those that others read; where nobody
    does, those that it does not read itself.
    """
    inside = set(ops)
    made = [v for op in ops if not _is_source(op) for v in op.results if _is_told(v)]
    read = [v for v in made if not inside.issuperset(v.uses)]
    return read or [v for v in made if not v.uses]


def _made(
    line: _Line,
    turns: Mapping[Span, Sequence[Sequence[Op]]],
    gives: Callable[[Sequence[Op]], Sequence[Value]],
    told: Sequence[Op],
    spent: Mapping[str, Spent],
) -> Made:
    """The operations that the ``turns`` of a line made; ``gives`` tells the values of each turn."""
    values: list[protocol.HintValue] = []
    for span in _outermost(turns):
        ends = [gives(turn) for turn in turns[span]]
        names = line.source.code.names.get(span, ())
        if gives is _given and len(ends[-1]) != 1:
            names = ()  # the order in which a function gives several is not known
        for place, result in enumerate(ends[-1]):
            types = dict.fromkeys(
                type_text(given[place].type)
                for given in ends
                if place < len(given) and _is_told(given[place])
            )
            if _is_told(result):
                values.append(
                    {
                        "name": names[place] if place < len(names) else "",
                        "types": list(types)[:MOST_TYPES],
                    }
                )
    count = max(len(found) for found in turns.values())
    return Made(
        line.source,
        line.line,
        line.run,
        values[:MOST_VALUES],
        count,
        _time(turns, count, spent),
        [_told(op, spent.get(op.id)) for op in told[:MOST_OPS]],
        len(told),
    )


def _outermost(groups: Collection[Span]) -> list[Span]:
    """The expressions that are part of no other one, as they stand in the line."""

    def inside(inner: Span, outer: Span) -> bool:
        end, until = inner[2] or inner[1] + 1, outer[2] or float("inf")
        return inner != outer and outer[1] <= inner[1] and end <= until

    return sorted(span for span in groups if not any(inside(span, other) for other in groups))


def _turns(ops: Sequence[Op]) -> list[Sequence[Op]]:
    """``ops``, which one expression made, by the turns in which it made them: the shortest run of
    names that gives all of them when it is repeated."""
    names = [op.name for op in ops]
    for length in range(1, len(names) // 2 + 1):
        if len(names) % length == 0 and names[:length] * (len(names) // length) == names:
            return [ops[start : start + length] for start in range(0, len(ops), length)]
    return [ops]


def _time(
    turns: Mapping[Span, Sequence[Sequence[Op]]], count: int, spent: Mapping[str, Spent]
) -> protocol.HintTime | None:
    """The time of the turns of a line; None where none of it was timed."""
    sums = [0.0] * count
    share, is_split, is_timed = 0.0, False, False
    for found in turns.values():
        for number, ops in enumerate(found):
            for op in ops:
                one = spent.get(op.id)
                if one is not None:
                    sums[number * count // len(found)] += one.ns
                    share += one.share
                    is_split |= one.is_split
                    is_timed = True
    if not is_timed:
        return None
    return {
        "least_ns": float(f"{min(sums):.6g}"),
        "most_ns": float(f"{max(sums):.6g}"),
        "share": float(f"{share:.6g}"),
        "is_split": is_split,
    }


def _told(op: Op, spent: Spent | None) -> protocol.HintOp:
    return {
        "id": op.id,
        "op": label_of(op),
        "type": ", ".join(type_text(v.type) for v in op.results if _is_told(v)),
        "ns": None if spent is None else float(f"{spent.ns:.6g}"),
        "kernel": "" if spent is None else spent.kernel,
        "kernel_name": "" if spent is None else spent.kernel_name,
    }


__all__ = ["Made", "Spent", "made_by_lines", "spent_in", "type_text"]
