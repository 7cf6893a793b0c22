"""Parts of an older document of a graph that are still right, and need not be made again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from maxlab.lab import protocol
from maxlab.lab.regions import Shown


class Known:
    """The entries of a document whose ops did not change since.

    Args:
        document: A document of the graph; without one nothing is known.
        touched: The ids of the ops that changed, and of values that got another name or type.

    Attributes:
        document: The document.
    """

    def __init__(
        self, document: protocol.GraphDocument | None = None, touched: Set[str] = frozenset()
    ) -> None:
        self.document = document
        self._nodes: dict[str, protocol.Node] = {}
        self._values: dict[str, protocol.Value] = {}
        self._scopes: Sequence[protocol.Scope] = ()
        self._all: Sequence[protocol.Node] = ()
        if document is not None:
            self._all = document["nodes"]
            self._nodes = {n["id"]: n for n in self._all if not _is_touched(n, touched)}
            self._values = {v["id"]: v for v in document["values"]}
            self._scopes = document["scopes"]

    def node(self, shown: Shown, path: str) -> protocol.Node | None:
        """The node of ``shown``, whose scope is ``path``; None when it has to be made."""
        node = self._nodes.get(shown.op.id)
        if node is None or node["scope"] != path:
            return None
        if shown.op.regions or shown.operands is not shown.op.operands:
            # What stands for the arguments of regions may change with the op that has them.
            gives = [[v.id for v in given] for given in shown.gives]
            if node["operands"] != [v.id for v in shown.operands] or gives != node.get("gives", []):
                return None
        return node

    def values_of(self, node: protocol.Node) -> list[protocol.Value]:
        """The values that a node which did not change makes."""
        values = self._values
        return [values[id] for id in node["results"]]

    def fingerprints(self, nodes: Sequence[protocol.Node]) -> Mapping[str, str]:
        """The fingerprints, by path, of scopes in which nothing changed up to ``nodes``."""
        if not self._scopes:
            return {}
        same = {id(node) for node in nodes if self._nodes.get(node["id"]) is node}
        changed = {node["scope"] for node in nodes if id(node) not in same}
        changed |= {node["scope"] for node in self._all if id(node) not in same}
        return {
            scope["path"]: scope["fingerprint"]
            for scope in self._scopes
            if not any(f"{path}.".startswith(f"{scope['path']}.") for path in changed)
        }


def _is_touched(node: protocol.Node, touched: Set[str]) -> bool:
    return (
        node["id"] in touched
        or not touched.isdisjoint(node["results"])
        or not touched.isdisjoint(node["operands"])
    )
