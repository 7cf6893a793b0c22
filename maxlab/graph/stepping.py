"""Steps of an editor: whole or not at all, and what follows from each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType

from maxlab.errors import MaxlabError
from maxlab.graph.document import Document
from maxlab.graph.finding import Finder
from maxlab.graph.graph import Graph
from maxlab.graph.notes import Draft
from maxlab.ir.edit import OWN, Edit, RemoveArgument, RemoveOp
from maxlab.ir.edit_log import changes_function


class Step:
    """The result of `Editor.step`. A generator would put a frame of Python's between an error and
    the user's line.
    """

    __slots__ = ("_error", "_graph", "_mark", "_transaction")

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._transaction = graph.transaction()
        self._mark = 0
        self._error: MaxlabError | None = None

    def __enter__(self) -> None:
        self._mark = self._graph.log.mark()
        self._graph.calls.leave()
        self._error = self._graph.error
        self._graph.__enter__()
        self._transaction.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                edits = self._graph.log.edits(self._mark)
                if changes_function(edits):
                    self._graph.reread(edits)
                    follow_removals(self._graph, edits)
            self._transaction.__exit__(kind, error, trace)
        finally:
            if kind is not None:  # who asked for the step is told; the graph is as it was
                self._graph.error = self._error
            self._graph.__exit__(kind, error, trace)


class Stepping(Finder):
    """The common part of an editor's steps."""

    def step(self) -> Step:
        """A ``with`` block whose changes are one step; an exception takes them all back.

        Inside of it, operations can be added as when a graph is built.

        Example:
            >>> from maxlab.dtype import DType
            >>> from maxlab.graph import Editor, Graph, TensorType, ops
            >>> with Graph("g", input_types=[TensorType(DType.float32, ["n"])]) as graph:
            ...     graph.output(graph.inputs[0].tensor)
            >>> editor = Editor(graph)
            >>> with editor.step():
            ...     editor.set_outputs(ops.tanh(ops.relu(graph.inputs[0].tensor)))
            >>> editor.undo(), len(graph.function.ops)
            (True, 1)
        """
        return Step(self.graph)


def follow_removals(graph: Graph, edits: Sequence[Edit]) -> None:
    """Takes out the notes of what ``edits`` removed: its places and comments. Drafts that read it
    lack an operand then."""
    function = graph.function
    if not any(function.notes.values()):
        return
    gone: set[str] = set()
    values: set[str] = set()
    for edit in edits:
        if isinstance(edit, RemoveOp) and edit.block == OWN:
            op = graph.log.op(edit.op.id)
            if op is None or op.block is None:
                gone.update([edit.op.id, *(f"out:{value.id}" for value in edit.op.results)])
                values.update(value.id for value in edit.op.results)
        elif isinstance(edit, RemoveArgument) and edit.block == OWN:
            gone.update([edit.value.id, f"in:{edit.value.id}", f"out:{edit.value.id}"])
            values.add(edit.value.id)
    if not gone:
        return
    document: Document = graph.document
    for key in gone.intersection(document.places):
        del document.places[key]
    for comment in document.comments:
        if comment.on in gone:
            document.comments.remove(comment)
    for draft in document.drafts:
        if not values.isdisjoint(id for id in draft.operands if id is not None):
            place = document.drafts.index(draft)
            document.drafts[place] = without(draft, values)


def without(draft: Draft, values: set[str]) -> Draft:
    """``draft`` without the operands that are in ``values``, and with that as a reason more."""
    lost = [n for n, id in enumerate(draft.operands) if id in values]
    reasons = [draft.reason, *(f"operand {n} is missing" for n in lost)]
    return replace(
        draft,
        operands=tuple(None if id in values else id for id in draft.operands),
        reason="; ".join(dict.fromkeys(reason for reason in reasons if reason)),
    )


__all__ = ["Step", "Stepping", "follow_removals"]
