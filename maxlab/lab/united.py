"""Two graphs in one drawing: the second one, with what only the first one has in its place.

What is gone gets its id with ``~`` behind it, so that it is another operation than one of the same
id in the second graph. Operations that read something else now read both there, and the document
says which of these edges is of the first graph alone, and which of the second.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from maxlab.analysis.runs.nodes import sound_nodes
from maxlab.lab import protocol

GONE = "~"


def united(
    before: protocol.GraphDocument, after: protocol.GraphDocument, pairs: Mapping[str, str]
) -> protocol.United:
    """The drawing of both graphs, whose operations are the same ones by ``pairs``."""
    return _Union(before, after, pairs).made()


class _Union:
    def __init__(
        self,
        before: protocol.GraphDocument,
        after: protocol.GraphDocument,
        pairs: Mapping[str, str],
    ) -> None:
        self._before = before
        self._after = after
        self._pairs = pairs
        self._one = cast("list[protocol.Node]", sound_nodes(before))
        self._other = cast("list[protocol.Node]", sound_nodes(after))
        self._values: dict[str, str] = {}
        self._new: list[protocol.Value] = []
        self._inputs: list[str] = list(after["inputs"])

    def made(self) -> protocol.United:
        """The document, and which edges are of one graph alone."""
        self._find_values()
        nodes = self._placed()
        places = {node["id"]: n for n, node in enumerate(nodes)}
        makers = {v: places[node["id"]] for node in nodes for v in node["results"]}
        lost: list[list[str]] = []
        gained: list[list[str]] = []
        old = {node["id"]: node for node in self._one}
        back = {now: was for was, now in self._pairs.items()}
        for place, node in enumerate(nodes):
            id = node["id"]
            if id.endswith(GONE):
                lost += [[value, id] for value in node["operands"]]
            elif id not in back:
                gained += [[value, id] for value in node["operands"]]
            else:
                had = dict.fromkeys(self._values[v] for v in old[back[id]]["operands"])
                gained += [[v, id] for v in dict.fromkeys(node["operands"]) if v not in had]
                # What stands behind its reader would close a circle: the list has it.
                left = [v for v in had if v not in node["operands"] and makers.get(v, -1) < place]
                lost += [[value, id] for value in left]
                if left:
                    nodes[place] = {**node, "operands": [*node["operands"], *left]}
        outputs = list(after_outputs := self._after["outputs"])
        outputs += [
            v for v in (self._values[v] for v in self._before["outputs"]) if v not in after_outputs
        ]
        known = {scope["path"] for scope in self._after["scopes"]}
        scopes = [scope for scope in self._before["scopes"] if scope["path"] not in known]
        document: protocol.GraphDocument = {
            "format": self._after["format"],
            "version": self._after["version"],
            "name": self._after["name"],
            "revision": 0,
            "nodes": nodes,
            "values": [*self._after["values"], *self._new],
            "inputs": self._inputs,
            "outputs": list(dict.fromkeys(outputs)),
            "scopes": [*self._after["scopes"], *scopes],
            "kernels": [],
            "passes": [],
            "profile": None,
            "error": None,
        }
        return {"document": document, "lost": lost, "gained": gained}

    def _find_values(self) -> None:
        """Finds which value of the drawing each of the first graph's is."""
        values = {value["id"]: value for value in self._before["values"]}
        other = {node["id"]: node for node in self._other}
        for place, id in enumerate(self._before["inputs"]):
            if place < len(self._after["inputs"]):
                self._values[id] = self._after["inputs"][place]
            else:
                self._inputs.append(self._gone(values[id]))
        for node in self._one:
            twin = other.get(self._pairs.get(node["id"], ""))
            for place, id in enumerate(node["results"]):
                if twin is not None and place < len(twin["results"]):
                    self._values[id] = twin["results"][place]
                else:
                    self._gone(values[id])
        for id, value in values.items():
            if id not in self._values:
                self._gone(value)

    def _gone(self, value: protocol.Value) -> str:
        id = value["id"] + GONE
        self._values[value["id"]] = id
        self._new.append({**value, "id": id})
        return id

    def _placed(self) -> list[protocol.Node]:
        """The operations of both, each behind what it reads: what is gone stands behind what stood
        before it."""
        places = {node["id"]: n for n, node in enumerate(self._other)}
        makers = {v: n for n, node in enumerate(self._other) for v in node["results"]}
        behind: dict[int, list[protocol.Node]] = {}
        last = -1
        for node in self._one:
            twin = self._pairs.get(node["id"])
            if twin is not None:
                last = places[twin]
                continue
            made: protocol.Node = {
                **node,
                "id": node["id"] + GONE,
                "operands": [self._values[v] for v in node["operands"]],
                "results": [self._values[v] for v in node["results"]],
            }
            if "gives" in node:
                made["gives"] = [[self._values[v] for v in given] for given in node["gives"]]
            place = max([last, *(makers.get(v, -1) for v in made["operands"])])
            makers.update(dict.fromkeys(made["results"], place))
            behind.setdefault(place, []).append(made)
        nodes = [*behind.get(-1, ())]
        for n, node in enumerate(self._other):
            nodes.append(node)
            nodes += behind.get(n, ())
        return nodes


__all__ = ["GONE", "united"]
