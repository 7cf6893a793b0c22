"""A document with its scopes folded until it is small enough for a picture.

In: a document. Out: a ``Picture`` of at most ``most`` boxes: ops, folded scopes, and rows of equal
siblings folded to one box with a count. Wires inside of a box are gone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from maxlab.lab import protocol


@dataclass(slots=True)
class Box:
    """One box of the picture.

    Attributes:
        key: Unique in the picture.
        title: What stands in it.
        note: A second, quieter line: the type of the result, or what is inside.
        kind: ``op``, ``scope``, ``input``, ``output`` or ``error``.
        count: How many equal scopes it stands for.
        inside: Path of the open scope around it.
        nodes: Ids of the ops that it stands for.
    """

    key: str
    title: str
    note: str
    kind: str
    count: int = 1
    inside: str = ""
    nodes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Picture:
    """Boxes, the wires between them, and the open scopes (path → label) around them.

    ``turns`` are the wires from what a loop computes back to its next turn; ``more``
    counts boxes that were left out although everything is folded.
    """

    name: str
    boxes: list[Box]
    wires: list[tuple[str, str]]
    frames: dict[str, str]
    more: int = 0
    turns: list[tuple[str, str]] = field(default_factory=list)


class _Scope:
    def __init__(self, path: str, label: str, parent: _Scope | None) -> None:
        self.path = path
        self.label = label
        self.type = ""
        self.fingerprint = ""
        self.parent = parent
        self.children: list[_Scope] = []
        self.nodes: list[protocol.Node] = []

    def all_nodes(self) -> list[protocol.Node]:
        """The ops inside at any depth."""
        found = list(self.nodes)
        for child in self.children:
            found += child.all_nodes()
        return found


def fold(document: protocol.GraphDocument, most: int = 60) -> Picture:
    """The picture of ``document``: scopes are opened from the outside in while it stays within
    ``most`` boxes, the smaller ones first."""
    data = {v["id"] for v in document["values"] if v["kind"] in ("weight", "constant")}
    nodes = [n for n in document["nodes"] if not n["results"] or not set(n["results"]) <= data]
    root = _tree(document["scopes"], nodes)
    opened = _opened(root, most - len(document["inputs"]) - len(document["outputs"]))
    return _Drawing(document, nodes, root, opened).picture(most)


def _tree(scopes: Iterable[protocol.Scope], nodes: list[protocol.Node]) -> _Scope:
    root = _Scope("", "", None)
    known: dict[str, _Scope] = {"": root}
    for scope in sorted(scopes, key=lambda s: s["path"].count(".")):
        path = scope["path"]
        if path in known:  # the root again, or another one twice: a saved run may say anything
            continue
        made = _Scope(path, scope["label"], known[_above(path, known)])
        made.type, made.fingerprint = scope["type"], scope["fingerprint"]
        known[path] = made
    order: dict[str, int] = {}
    for n, node in enumerate(nodes):
        place = known.get(node["scope"]) or known[_above(node["scope"], known)]
        place.nodes.append(node)
        at: _Scope | None = place
        while at is not None:
            order.setdefault(at.path, n)
            at = at.parent
    for path, scope_ in known.items():
        if path and path in order and scope_.parent is not None:
            scope_.parent.children.append(scope_)
    for scope_ in known.values():
        scope_.children.sort(key=lambda s: order[s.path])
    return root


def _above(path: str, known: dict[str, _Scope]) -> str:
    while path:
        path = path.rpartition(".")[0]
        if path in known:
            return path
    return ""


def _runs(children: list[_Scope]) -> list[list[_Scope]]:
    """``children`` with neighbours of equal fingerprints together."""
    runs: list[list[_Scope]] = []
    for child in children:
        if child.fingerprint and runs and runs[-1][0].fingerprint == child.fingerprint:
            runs[-1].append(child)
        else:
            runs.append([child])
    return runs


def _opened(root: _Scope, budget: int) -> set[str]:
    def shown(scope: _Scope) -> int:
        return len(scope.nodes) + len(_runs(scope.children))

    opened = {""}
    total = shown(root)
    level = [root]
    while level:
        closed = [run[0] for s in level for run in _runs(s.children) if len(run) == 1]
        level = []
        for scope in sorted(closed, key=lambda s: (shown(s), s.path)):
            if total - 1 + shown(scope) <= budget:
                total += shown(scope) - 1
                opened.add(scope.path)
                level.append(scope)
    return opened


class _Drawing:
    def __init__(
        self,
        document: protocol.GraphDocument,
        nodes: list[protocol.Node],
        root: _Scope,
        opened: set[str],
    ) -> None:
        self.document = document
        self.values = {v["id"]: v for v in document["values"]}
        self.nodes = nodes
        self.opened = opened
        self.boxes: list[Box] = []
        self.frames: dict[str, str] = {}
        self.home: dict[str, str] = {}  # value id → box that makes it
        self.taken: dict[str, str] = {}  # op id → box
        for value in document["inputs"]:
            self._end(value, "input")
        self._enter(root)

    def _end(self, value: str, kind: str) -> None:
        info = self.values[value]
        title = info.get("name") or kind
        self.boxes.append(Box(f"{kind}:{value}", title, info["type"], kind))
        if kind == "input":
            self.home[value] = f"input:{value}"

    def _enter(self, scope: _Scope) -> None:
        for node in scope.nodes:
            types = [self.values[r]["type"] for r in node["results"] if r in self.values]
            kind = "op" if node["error"] is None else "error"
            note = ", ".join(types[:2]) if kind == "op" else _first(node["error"])
            box = Box(node["id"], node["op"], note, kind, inside=scope.path)
            self._hold(box, [node])
        for run in _runs(scope.children):
            first = run[0]
            if len(run) == 1 and first.path in self.opened:
                self.frames[first.path] = first.label
                self._enter(first)
                continue
            inner = [node for member in run for node in member.all_nodes()]
            title = first.label if len(run) == 1 else f"{first.label} … {_last(run[-1].label)}"
            words = [first.type, f"{len(inner) // len(run)} ops" + (" each" if run[1:] else "")]
            note = " · ".join(w for w in words if w)
            box = Box(first.path, title, note, "scope", len(run), scope.path)
            self._hold(box, inner)

    def _hold(self, box: Box, nodes: list[protocol.Node]) -> None:
        self.boxes.append(box)
        for node in nodes:
            box.nodes.append(node["id"])
            self.taken[node["id"]] = box.key
            for result in node["results"]:
                self.home[result] = box.key

    def picture(self, most: int) -> Picture:
        """The boxes in the order of the graph, cut after ``most``."""
        for value in dict.fromkeys(self.document["outputs"]):
            self._end(value, "output")
        wires: dict[tuple[str, str], None] = {}
        turns: dict[tuple[str, str], None] = {}
        for node in self.nodes:
            target = self.taken[node["id"]]
            given = [v for values in node.get("gives", ()) for v in values]
            found = turns if node["op"] == "while" else wires
            for made, ends in ((node["operands"], wires), (given, found)):
                for operand in made:
                    source = self.home.get(operand)
                    if source is not None and source != target:
                        ends[source, target] = None
        for value in dict.fromkeys(self.document["outputs"]):
            source = self.home.get(value)
            if source is not None:
                wires[source, f"output:{value}"] = None
        rank = {node["id"]: n for n, node in enumerate(self.nodes)}
        last = len(rank)
        self.boxes.sort(
            key=lambda b: -1 if b.kind == "input" else rank[b.nodes[0]] if b.nodes else last
        )
        kept = self.boxes[:most]
        keys = {b.key for b in kept}
        inner = {b.inside for b in kept}
        frames = {
            path: label
            for path, label in self.frames.items()
            if any(p == path or p.startswith(path + ".") for p in inner)
        }
        drawn = [w for w in wires if w[0] in keys and w[1] in keys]
        back = [w for w in turns if w[0] in keys and w[1] in keys and w not in wires]
        more = len(self.boxes) - len(kept)
        return Picture(self.document["name"], kept, drawn, frames, more, back)


def _first(text: str | None) -> str:
    return (text or "").partition("\n")[0]


def _last(label: str) -> str:
    return label.rpartition(".")[2]
