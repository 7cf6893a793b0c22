"""Which graph a cell built, and what was done to it by hand since.

The first change by hand tells: until then the graph is what code made it. When code changes it
after that, there is no telling any more what the cells build.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from maxlab.graph import Graph
from maxlab.ir import Function
from maxlab.ir.edit import AddArgument, AddOp, SetName, SetNote, SetOperands, SetParameters
from maxlab.ir.edit_log import at_revision, changes_function
from maxlab.lab.code.refusing import CodeError

_BUILDING = (AddOp, AddArgument, SetName, SetNote, SetParameters, SetOperands)


@dataclass(slots=True)
class _Base:
    """The revision that code left, that of the newest change by hand, and whether code came
    between."""

    revision: int
    newest: int
    is_mixed: bool = False


_bases: weakref.WeakKeyDictionary[Graph, _Base] = weakref.WeakKeyDictionary()


@contextmanager
def by_hand(graph: Graph) -> Iterator[None]:
    """Marks the changes of ``graph`` inside of this as done by hand."""
    base = _look(graph)
    try:
        yield
    finally:
        base.newest = graph.log.revision


def _look(graph: Graph) -> _Base:
    """The state of ``graph``, with the changes that code has made since."""
    revision = graph.log.revision
    base = _bases.get(graph)
    if base is None:
        base = _bases[graph] = _Base(revision, revision)
    elif base.newest != revision:
        edits = graph.log.since(base.newest)
        if edits is None or changes_function(edits):
            was = graph.log.since(base.revision)
            is_edited = was is None or changes_function(was[: len(was) - len(edits or ())])
            if is_edited:
                base.is_mixed = True
            else:
                base.revision = revision
        base.newest = revision
    return base


def base_of(graph: Graph) -> Function:
    """``graph`` as code built it, before it was changed by hand.

    Raises:
        CodeError: ML880, code has changed it since, or its past is not known.
    """
    base = _look(graph)
    found = None if base.is_mixed else at_revision(graph.function, base.revision)
    if found is None:
        raise CodeError(
            "ML880",
            "code has changed the graph since it was edited by hand",
            fix="run the cell that builds the graph again, and edit what it builds",
        )
    return found


def is_plainly_built(graph: Graph) -> bool:
    """Whether code has only built the graph, and changed nothing of it."""
    edits = graph.log.edits()
    base = _look(graph)
    since = graph.log.since(base.revision)
    before = edits if since is None else edits[: len(edits) - len(since)]
    return all(isinstance(edit, _BUILDING) for edit in before)


__all__ = ["base_of", "by_hand", "is_plainly_built"]
