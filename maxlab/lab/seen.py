"""Which state of a graph a view shows, and what was changed since.

The log of a graph (``ir.edit_log``) says which ops every change was about. With it, the next
document of the graph shares all others with the one before; without it, the graph is read anew.
"""

from __future__ import annotations

from maxlab.graph import Graph
from maxlab.ir.edit import SetAttr, SetNote, SetOperands
from maxlab.ir.edit_log import Log, listen, touched
from maxlab.lab.overlays import dressed
from maxlab.lab.snapshot import Snapshot, retaken, rewritten, take


class Seen:
    """The newest state of a graph that was looked at; its changes are logged from then on.

    Args:
        graph: The graph, of which a snapshot is taken at this moment.
    """

    def __init__(self, graph: Graph) -> None:
        self._look(graph)

    def _look(self, graph: Graph) -> None:
        self._log: Log = listen(graph.function)
        self._revision = self._log.revision
        self._of_graph = graph.revision, graph._error

    def is_old(self, graph: Graph) -> bool:
        """Whether ``graph`` was changed since."""
        return (
            graph.function.log is not self._log
            or self._log.revision != self._revision
            or (graph.revision, graph._error) != self._of_graph
        )

    def retake(self, graph: Graph, before: Snapshot) -> Snapshot:
        """A snapshot of ``graph`` as it is now; ``before`` is that of the state that was seen."""
        is_same = graph.function.log is self._log
        edits = self._log.since(self._revision) if is_same else None
        self._look(graph)
        before.grow()  # it is compared with the next one, too, which shares what did not change
        if edits is None:
            return take(graph)
        ids = touched(edits)
        if all(isinstance(edit, (SetOperands, SetAttr, SetNote)) for edit in edits):
            ops = {id: op for id in ids if (op := self._log.op(id)) is not None}
            document = rewritten(graph, before.document, ops) if len(ops) == len(ids) else None
            if document is not None:
                return Snapshot(dressed(document, graph))
        return Snapshot(dressed(retaken(graph, before.document, ids), graph))
