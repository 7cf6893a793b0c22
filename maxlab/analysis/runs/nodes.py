"""Which op of one graph is which op of another.

Ids number the ops of a graph in the order in which they were built, so one line more gives every
later op another id. Ops are matched by what they compute instead: two are the same when they do
the same to operands that are the same, back to the inputs; or, counted from the other end, when
the same becomes of their results, up to the outputs. An edit in the middle of a graph breaks the
first behind it and the second before it, and only what was edited itself is left over. That is
matched by the line that it was written in, in order.

Types, attributes and scopes count first and are dropped one after the other, so that a graph in
another dtype, or one that moved into a module, is still matched op by op.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

Node = Mapping[str, Any]
Document = Mapping[str, Any]
Label = Callable[[Node], str]

MOST_ALIGNED = 1500
"""Ops that are left over above which they are matched by occurrence: aligning takes the square."""


def match_nodes(before: Document, after: Document) -> dict[str, str]:
    """For ops of the document ``before`` that are also in ``after``, the id they have there.

    Example:
        >>> def graph(*ops):
        ...     nodes = [
        ...         {"id": f"n{i}", "op": op, "operands": [f"v{i - 1}"], "results": [f"v{i}"],
        ...          "scope": "", "attrs": {}, "source": None}
        ...         for i, op in enumerate(ops, 1)
        ...     ]
        ...     return {"nodes": nodes, "values": [], "inputs": ["v0"], "outputs": [f"v{len(ops)}"]}
        >>> match_nodes(graph("exp", "neg", "abs"), graph("exp", "sqrt", "neg", "abs"))
        {'n1': 'n1', 'n2': 'n3', 'n3': 'n4'}
    """
    matching = _Matching(_Graph(before), _Graph(after))
    for label in (_full, _unplaced, _untyped, _bare):
        matching.by_hash(label, down=True)
        matching.by_hash(label, down=False)
    matching.by_place(lambda node: (node["scope"], node["op"], _line(node)))
    matching.by_place(lambda node: (node["scope"], node["op"]))
    order = {node["id"]: n for n, node in enumerate(matching.before.nodes)}
    return dict(sorted(matching.found.items(), key=lambda pair: order[pair[0]]))


class _Graph:
    """The ops of a document, what they read, and what reads them."""

    def __init__(self, document: Document) -> None:
        self.nodes: list[Node] = [n for n in document["nodes"] if not n.get("error")]
        self.values: dict[str, Mapping[str, Any]] = {v["id"]: v for v in document["values"]}
        self.inputs = {value: n for n, value in enumerate(document["inputs"])}
        self.outputs: dict[str, list[int]] = defaultdict(list)
        for n, value in enumerate(document["outputs"]):
            self.outputs[value].append(n)
        self.maker = {
            value: (index, place)
            for index, node in enumerate(self.nodes)
            for place, value in enumerate(node["results"])
        }
        self.readers: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for index, node in enumerate(self.nodes):
            for place, value in enumerate(node["operands"]):
                self.readers[value].append((index, place))
        self.order = self._order()

    def _order(self) -> list[int]:
        """The ops, each behind those it reads; those of a cycle, which only a damaged document
        has, in the order in which they stand."""
        waits = [
            len({self.maker[v][0] for v in n["operands"] if v in self.maker}) for n in self.nodes
        ]
        ready = [index for index, count in enumerate(waits) if count == 0]
        order: list[int] = []
        while ready:
            index = ready.pop()
            order.append(index)
            for follower in {f for v in self.nodes[index]["results"] for f, _ in self.readers[v]}:
                waits[follower] -= 1
                if waits[follower] == 0:
                    ready.append(follower)
        placed = set(order)
        return order + [n for n in range(len(self.nodes)) if n not in placed]

    def label(self, node: Node, label: Label) -> str:
        """``label`` of an op, with the names of the weights and the values of the constants that
        it makes: they are its data."""
        made = [self.values.get(v, {}) for v in node["results"]]
        data = [v.get("name", "") for v in made if v.get("kind") in ("weight", "constant")]
        types = [v.get("type", "") for v in made] if label in (_full, _unplaced) else []
        return f"{label(node)}|{data}|{types}"

    def hashes(self, label: Label, down: bool) -> list[str]:
        """For each op the digest of itself and all that leads to it, or, when ``down`` is False,
        of all that it leads to."""
        found = [""] * len(self.nodes)
        for index in self.order if down else reversed(self.order):
            node = self.nodes[index]
            around = self._above(node, found) if down else self._below(node, found)
            text = "\0".join([self.label(node, label), *around])
            found[index] = hashlib.blake2b(
                text.encode("utf-8", "surrogatepass"), digest_size=12
            ).hexdigest()
        return found

    def _above(self, node: Node, found: Sequence[str]) -> list[str]:
        parts = []
        for value in node["operands"]:
            if value in self.maker:
                index, place = self.maker[value]
                parts.append(f"{found[index]}.{place}")
            else:
                parts.append(f"input {self.inputs.get(value, -1)}")
        return parts

    def _below(self, node: Node, found: Sequence[str]) -> list[str]:
        parts = []
        for value in node["results"]:
            ends = [f"output {n}" for n in self.outputs.get(value, ())]
            parts.append(
                ",".join(sorted([f"{found[f]}.{place}" for f, place in self.readers[value]] + ends))
            )
        return parts


class _Matching:
    """What is matched so far, and what is left."""

    def __init__(self, before: _Graph, after: _Graph) -> None:
        self.before = before
        self.after = after
        self.found: dict[str, str] = {}
        self._left = list(range(len(before.nodes)))
        self._right = list(range(len(after.nodes)))

    def by_hash(self, label: Label, down: bool) -> None:
        """Match ops that are the same, and all above them or below them."""
        if not self._left or not self._right:
            return
        left, right = self.before.hashes(label, down), self.after.hashes(label, down)
        places: dict[str, list[int]] = defaultdict(list)
        for index in self._right:
            places[right[index]].append(index)
        sought: dict[str, list[int]] = defaultdict(list)
        for index in self._left:
            sought[left[index]].append(index)
        for digest, mine in sought.items():
            theirs = places.get(digest, [])
            # Equal ones, such as two branches that do the same, in the order they were written.
            # With one more on a side there is no telling which it is; a later rule may know.
            if len(mine) == len(theirs):
                for one, other in zip(mine, theirs, strict=True):
                    self._keep(one, other)
        self._settle()

    def by_place(self, key: Callable[[Node], Hashable]) -> None:
        """Match ops with the same ``key`` so that their order is kept."""
        left = [key(self.before.nodes[n]) for n in self._left]
        right = [key(self.after.nodes[n]) for n in self._right]
        if max(len(left), len(right)) <= MOST_ALIGNED:
            blocks = SequenceMatcher(None, left, right, autojunk=False).get_matching_blocks()
            pairs = [(b.a + n, b.b + n) for b in blocks for n in range(b.size)]
        else:
            places: dict[Hashable, list[int]] = defaultdict(list)
            for n, one in enumerate(right):
                places[one].append(n)
            ends = {one: iter(found) for one, found in places.items()}
            pairs = [
                (n, m)
                for n, one in enumerate(left)
                if one in ends and (m := next(ends[one], -1)) >= 0
            ]
        mine, theirs = self._left, self._right
        for n, m in pairs:
            self._keep(mine[n], theirs[m])
        self._settle()

    def _keep(self, one: int, other: int) -> None:
        self.found[self.before.nodes[one]["id"]] = self.after.nodes[other]["id"]

    def _settle(self) -> None:
        taken = set(self.found.values())
        self._left = [n for n in self._left if self.before.nodes[n]["id"] not in self.found]
        self._right = [n for n in self._right if self.after.nodes[n]["id"] not in taken]


# ---------------------------------------------------------------- what counts of an op


def _full(node: Node) -> str:
    return f"{node['op']}|{_attrs(node)}|{node['scope']}"


def _unplaced(node: Node) -> str:
    return f"{node['op']}|{_attrs(node)}"


def _untyped(node: Node) -> str:
    return f"{node['op']}|{node['scope']}"


def _bare(node: Node) -> str:
    return str(node["op"])


def _attrs(node: Node) -> str:
    return repr(sorted(node["attrs"].items()))


def _line(node: Node) -> str:
    source = node.get("source")
    return str(source.get("text", "")).strip() if source else ""
