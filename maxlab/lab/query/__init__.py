"""``find``: the operations of a graph that a query describes, ``op=matmul & time>1ms``.

``syntax``   reads a query
``finding``  looks for what it describes in a document
``hints``    says which of its values nothing can have
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

from maxlab.analysis.runs.shown import Recorded
from maxlab.engine import Model
from maxlab.engine.profile import Profile
from maxlab.engine.times import time_text
from maxlab.errors import QueryError, nearest
from maxlab.graph import Graph
from maxlab.lab import protocol
from maxlab.lab.query.finding import Rows, found_in, missing
from maxlab.lab.query.hints import hint_of
from maxlab.lab.query.syntax import fields_of, read
from maxlab.lab.snapshot import take
from maxlab.tabular import Field, Tabular, aligned


@dataclass(frozen=True)
class FoundOp:
    """One operation that a query found.

    Attributes:
        id: Its id, as ``view.select`` takes it.
        op: Its kind, such as ``matmul``.
        scope: The path of the module or function it is in.
        type: The types of its results, such as ``f32[batch, 64]``.
        time_ns: Nanoseconds that it takes of one run; None where nothing was timed.
        share: The part of the time of all kernels that this is, from 0 to 1; None likewise.
        is_split: True where a kernel computes it together with other operations: ``time_ns`` is
            then an estimate, ``protocol.SPLIT_MODEL``.
    """

    id: str
    op: str
    scope: str
    type: str
    time_ns: float | None
    share: float | None
    is_split: bool = False


class Found(Tabular, Sequence[FoundOp]):
    """The operations that a query found, in the order of the graph.

    Attributes:
        query: The query.
        hint: What a value of the query may have been meant as, where no operation has it and
            nothing was found; else None.
    """

    def __init__(self, query: str, ops: Sequence[FoundOp], hint: str | None = None) -> None:
        self.query, self.hint = query, hint
        self._ops = tuple(ops)

    @property
    def ids(self) -> list[str]:
        """The ids, for ``view.select(*found.ids)``."""
        return [op.id for op in self._ops]

    @overload
    def __getitem__(self, index: int) -> FoundOp: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[FoundOp]: ...

    def __getitem__(self, index: int | slice) -> FoundOp | Sequence[FoundOp]:
        return self._ops[index]

    def __len__(self) -> int:
        return len(self._ops)

    def __iter__(self) -> Iterator[FoundOp]:
        return iter(self._ops)

    def _heads(self) -> Sequence[str]:
        return ("id", "op", "scope", "type", "time [ns]", "share", "estimated")

    def _records(self) -> Iterator[Sequence[Field]]:
        for op in self._ops:
            yield op.id, op.op, op.scope, op.type, op.time_ns, op.share, op.is_split

    def table(self, rows: int | None = 20) -> str:
        """The operations as text, at most ``rows`` of them."""
        shown = self._ops[:rows]
        lines = [(op.id, op.op, op.scope, op.type, _time_text(op)) for op in shown]
        head = ("id", "op", "scope", "type", "time")
        text = aligned((head, *lines))
        if len(shown) < len(self):
            text.append(f"… and {len(self) - len(shown)} more")
        if any(op.is_split for op in shown):
            text.append(f"≈ part of a kernel that computes others too, by {protocol.SPLIT_MODEL}")
        return "\n".join(text)

    def __repr__(self) -> str:
        count = f"{len(self)} op{'' if len(self) == 1 else 's'}"
        head = f"{count} found by {self.query!r}"
        if not self:
            return head if self.hint is None else f"{head}: {self.hint}"
        return f"{head}\n{self.table()}"


def _time_text(op: FoundOp) -> str:
    if op.time_ns is None:
        return ""
    return f"{'≈' if op.is_split else ''}{time_text(op.time_ns)}"


def find(obj: Graph | Model | Profile | Recorded, query: str) -> Found:
    """The operations of ``obj`` that ``query`` describes.

    Raises:
        QueryError: ML910, the query cannot be read; ML911, it asks for times and nothing was
            timed.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType
        >>> with Graph("double", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        ...     graph.output(graph.inputs[0].tensor * 2)
        >>> find(graph, "op=mul & rank=1").ids
        ['n1']
        >>> find(graph, "op=mull")
        0 ops found by 'op=mull': no operation is called 'mull'; did you mean op=mul?
    """
    return find_in(take(obj, sources=False).document, query)


def find_in(
    document: protocol.GraphDocument, query: str, marks: protocol.Marks | None = None
) -> Found:
    """The operations of ``document`` that ``query`` describes; see ``find``."""
    test = read(query)
    lacking = missing(fields_of(test), document, marks is not None)
    if lacking:
        fix = "look in what model.profile returned, or in a view"
        raise QueryError("ML911", lacking, query, fix=fix)
    rows = Rows(document, marks)
    found = [_row(rows, node) for node in found_in(test, rows)]
    return Found(query, found, None if found else hint_of(test, document))


def _row(rows: Rows, node: protocol.Node) -> FoundOp:
    types = ", ".join(value["type"] for value in rows.results(node))
    return FoundOp(
        node["id"],
        node["op"],
        node["scope"],
        types,
        rows.time_ns(node),
        rows.share(node),
        rows.is_split(node),
    )


nearest(Found, "found")


__all__ = ["Found", "FoundOp", "find", "find_in"]
