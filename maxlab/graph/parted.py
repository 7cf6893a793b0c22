"""A document in parts: each operation, input and note by its id, field by field.

Two documents are compared, and three are merged, part by part; what is made of parts is a document
again. Parts are plain JSON. ``join(split(data))`` is ``data``, but for subgraphs that stand in
another order.

====================  ====================  =====================================================
section               key                   fields
====================  ====================  =====================================================
``graph``             (empty)               name, parameters
``op``                id                    name, at, operands, results, types, names, ``attr …``,
                                            attrs, regions, ``inputs …``, scope, origins, source
``input``             id                    type, name, called
``subgraph``          name                  all
``place``             structural key        at, pinned
``fold``, ``scope``   path                  all
``weight``            name                  all
``comment``           id                    text, on, at
``draft``             id                    name, reason, operands, attrs
``conflict``          id                    all
``top``, ``layout``,  field                 all: what has no fields of its own, or is not known
``names``
====================  ====================  =====================================================
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from maxlab.errors import GraphError
from maxlab.graph.document import FORMAT, VERSION
from maxlab.graph.kept import WEIGHTS
from maxlab.ir.core import ends_block
from maxlab.ir.function_json import Json

Entity = tuple[str, str]
Fields = dict[str, Any]

ALL: Final = "all"
"""The one field of a part that is taken as a whole."""
ATTR: Final = "attr "
_MORE: Final = "+"
"""Before the name of a field that is not known."""
_OP: Final = frozenset(
    {"attrs", "id", "name", "operands", "origins", "regions", "results", "scope"}
)
_FUNCTION: Final = frozenset({"inputs", "name", "ops", "parameters", "sources", "subgraphs"})
_WHOLE: Final = ("goal", "lesson")
_TOP: Final = frozenset(
    {"comments", "conflicts", "constants", "drafts", "format", "graph", "layout", "names"}
    | {"version", WEIGHTS}
)


@dataclass(slots=True)
class Parted:
    """A document in parts.

    Attributes:
        parts: The fields of each part.
        orders: The keys of what stands in order: ``ops`` and an operation's ``n5#0`` for the first
            region of ``n5``, ``inputs``, ``subgraphs``, ``comments``, ``drafts``, ``conflicts``.
        constants: The bytes of larger constants as base64, by their hash.
    """

    parts: dict[Entity, Fields] = field(default_factory=dict)
    orders: dict[str, list[str]] = field(default_factory=dict)
    constants: dict[str, str] = field(default_factory=dict)

    def copy(self) -> Parted:
        """Another one with the same parts, which are not changed in place."""
        return Parted(dict(self.parts), dict(self.orders), dict(self.constants))

    def put(self, entity: Entity, name: str, value: Any) -> None:
        """Lets the field ``name`` of a part be ``value``; all of the part with no name. None takes
        it away."""
        if name == "":
            if value is None:
                self.parts.pop(entity, None)
            else:
                self.parts[entity] = value
            return
        fields = dict(self.parts.get(entity, {}))
        if value is None:
            fields.pop(name, None)
        else:
            fields[name] = value
        if entity[0] == "place" and "at" not in fields:
            self.parts.pop(entity, None)
        else:
            self.parts[entity] = fields


# ---------------------------------------------------------------- splitting
def split(data: Json) -> Parted:
    """The parts of ``data``, which ``Document.data`` gave."""
    made = Parted(constants=dict(data.get("constants", {})))
    graph = data["graph"]
    parts, orders = made.parts, made.orders
    names = data.get("names", {})
    parts["graph", ""] = {
        "name": graph["name"],
        "parameters": graph.get("parameters", []),
        **_unknown(graph, _FUNCTION),
    }
    called = names.get("inputs", [])
    for place, value in enumerate(graph.get("inputs", [])):
        fields = {**value}
        del fields["id"]
        if place < len(called):
            fields["called"] = called[place]
        parts["input", value["id"]] = fields
    orders["inputs"] = [value["id"] for value in graph.get("inputs", [])]
    sources = {
        id: {key: value for key, value in entry.items() if key != "of"}
        for entry in graph.get("sources", [])
        for id in entry["of"]
    }
    _split_ops(graph.get("ops", []), "ops", made, sources)
    for sub in graph.get("subgraphs", []):
        parts["subgraph", sub["name"]] = {ALL: sub}
    orders["subgraphs"] = [sub["name"] for sub in graph.get("subgraphs", [])]
    layout = data.get("layout", {})
    for key, place in layout.get("places", {}).items():
        parts["place", key] = _pointed(place)
    for path, folded in layout.get("folds", {}).items():
        parts["fold", path] = {ALL: folded}
    for path, kind in names.get("scopes", {}).items():
        parts["scope", path] = {ALL: kind}
    for name, entry in data.get(WEIGHTS, {}).items():
        parts["weight", name] = {ALL: entry}
    for section in ("comment", "draft"):
        entries = data.get(f"{section}s", [])
        orders[f"{section}s"] = [entry["id"] for entry in entries]
        for entry in entries:
            fields = _pointed(entry) if section == "comment" else dict(entry)
            del fields["id"]
            parts[section, entry["id"]] = fields
    orders["conflicts"] = [entry["id"] for entry in data.get("conflicts", [])]
    for entry in data.get("conflicts", []):
        parts["conflict", entry["id"]] = {ALL: entry}
    for section, found, known in (
        ("top", data, _TOP),
        ("layout", layout, {"folds", "places"}),
        ("names", names, {"inputs", "scopes"}),
    ):
        for key, value in found.items():
            if key not in known:
                parts[section, key] = {ALL: value}
    return made


def _unknown(data: Json, known: frozenset[str]) -> Fields:
    return {f"{_MORE}{key}": value for key, value in data.items() if key not in known}


def _pointed(entry: Json) -> Fields:
    """The fields of ``entry``, its coordinates as one."""
    fields = {key: value for key, value in entry.items() if key not in ("x", "y")}
    if "x" in entry or "y" in entry:
        fields["at"] = [entry.get("x", 0), entry.get("y", 0)]
    return fields


def _split_ops(ops: list[Json], block: str, made: Parted, sources: Mapping[str, Json]) -> None:
    made.orders[block] = [op["id"] for op in ops]
    for op in ops:
        id, results = op["id"], op.get("results", [])
        fields: Fields = {"name": op["name"], "at": block}
        if op.get("operands"):
            fields["operands"] = op["operands"]
        if results:
            fields["results"] = [value["id"] for value in results]
            fields["types"] = [value["type"] for value in results]
            more = [{k: v for k, v in r.items() if k not in ("id", "type")} for r in results]
            if any(more):
                fields["names"] = more
        attrs = op.get("attrs", [])
        if attrs:
            fields["attrs"] = [key for key, _ in attrs]
            fields.update((f"{ATTR}{key}", value) for key, value in attrs)
        for key in ("scope", "origins"):
            if key in op:
                fields[key] = op[key]
        if id in sources:
            fields["source"] = sources[id]
        if not op.keys() <= _OP:
            fields.update(_unknown(op, _OP))
        made.parts["op", id] = fields
        regions = op.get("regions", [])
        if regions:
            fields["regions"] = len(regions)
        for number, region in enumerate(regions):
            fields[f"inputs {number}"] = region.get("inputs", [])
            _split_ops(region.get("ops", []), f"{id}#{number}", made, sources)


# ---------------------------------------------------------------- joining
def join(parted: Parted) -> Json:
    """The document that the parts are: operations stand behind what they read.

    Raises:
        GraphError: ML859, operations read each other in a circle.
    """
    parts = parted.parts
    blocks: dict[str, list[str]] = {}
    for (section, key), fields in parts.items():
        if section == "op":
            blocks.setdefault(fields["at"], []).append(key)
    joiner = _Joiner(parted, blocks)
    graph: Json = {"name": parts["graph", ""]["name"], "ops": joiner.block("ops")}
    inputs = _in_order(parted, "input", "inputs")
    graph["inputs"] = [
        {"id": id, **{k: v for k, v in parts["input", id].items() if k != "called"}}
        for id in inputs
    ]
    graph.update(_known_again(parts["graph", ""]))
    if parts["graph", ""].get("parameters"):
        graph["parameters"] = parts["graph", ""]["parameters"]
    subgraphs = [parts["subgraph", key][ALL] for key in _in_order(parted, "subgraph", "subgraphs")]
    if subgraphs:
        graph["subgraphs"] = subgraphs
    if joiner.sources:
        graph["sources"] = [{**loc, "of": ids} for loc, ids in joiner.sources.values()]
    made: Json = {"format": FORMAT, "version": VERSION, "graph": graph}
    for section in ("top", "layout", "names"):
        found = {key: parts[one, key][ALL] for one, key in parts if one == section}
        if section == "top":
            made.update(found)
        elif found:
            made[section] = found
    called = [parts["input", id].get("called") for id in inputs]
    if called and all(isinstance(name, str) for name in called):
        made.setdefault("names", {})["inputs"] = called
    for section, outer, name in (
        ("place", "layout", "places"),
        ("fold", "layout", "folds"),
        ("scope", "names", "scopes"),
    ):
        for one, key in parts:
            if one == section:
                fields = parts[one, key]
                value = fields[ALL] if ALL in fields else _unpointed(fields)
                made.setdefault(outer, {}).setdefault(name, {})[key] = value
    for section in ("comment", "draft"):
        keys = _in_order(parted, section, f"{section}s")
        if keys:
            made[f"{section}s"] = [{"id": k, **_unpointed(parts[section, k])} for k in keys]
    weights = {key: fields[ALL] for (one, key), fields in parts.items() if one == "weight"}
    if weights:
        made[WEIGHTS] = weights
    conflicts = _in_order(parted, "conflict", "conflicts")
    if conflicts:
        made["conflicts"] = [parts["conflict", key][ALL] for key in conflicts]
    if parted.constants:
        made["constants"] = parted.constants
    return made


def _in_order(parted: Parted, section: str, order: str) -> list[str]:
    """The keys of ``section``: those that the order has first, then the others."""
    keys = [k for k in parted.orders.get(order, ()) if (section, k) in parted.parts]
    known = set(keys)
    return keys + sorted(k for one, k in parted.parts if one == section and k not in known)


def _known_again(fields: Fields) -> Fields:
    return {key[1:]: value for key, value in fields.items() if key.startswith(_MORE)}


def _unpointed(fields: Fields) -> Fields:
    made = {key: value for key, value in fields.items() if key != "at"}
    at = fields.get("at")
    if isinstance(at, list) and len(at) == 2:
        made["x"], made["y"] = at
    return made


class _Joiner:
    def __init__(self, parted: Parted, blocks: Mapping[str, list[str]]) -> None:
        self._parted = parted
        self._blocks = blocks
        self.sources: dict[str, tuple[Json, list[str]]] = {}
        self._inside: dict[str, list[str]] = {}

    def block(self, name: str) -> list[Json]:
        """The operations of a block, each behind what it reads."""
        return [self._op(id) for id in self._sorted(name)]

    def _op(self, id: str) -> Json:
        fields = self._parted.parts["op", id]
        made: Json = {"id": id, "name": fields["name"], **_known_again(fields)}
        if fields.get("operands"):
            made["operands"] = fields["operands"]
        if fields.get("results"):
            ids, types = fields["results"], fields.get("types", [])
            names = fields.get("names", [])
            made["results"] = [
                {"id": v, "type": t, **(names[n] if n < len(names) else {})}
                for n, (v, t) in enumerate(zip(ids, types, strict=False))
            ]
        order = [key for key in fields.get("attrs", ()) if f"{ATTR}{key}" in fields]
        listed = set(order)
        order += sorted(
            key[len(ATTR) :]
            for key in fields
            if key.startswith(ATTR) and key[len(ATTR) :] not in listed
        )
        if order:
            made["attrs"] = [[key, fields[f"{ATTR}{key}"]] for key in order]
        for key in ("scope", "origins"):
            if key in fields:
                made[key] = fields[key]
        if "source" in fields:
            loc = fields["source"]
            self.sources.setdefault(repr(sorted(loc.items())), (loc, []))[1].append(id)
        if fields.get("regions"):
            made["regions"] = [
                {"inputs": fields.get(f"inputs {n}", []), "ops": self.block(f"{id}#{n}")}
                for n in range(fields["regions"])
            ]
        return made

    def _reads(self, id: str) -> Iterator[str]:
        """The values that ``id``, or something inside of it, reads."""
        fields = self._parted.parts["op", id]
        yield from fields.get("operands", ())
        for number in range(fields.get("regions", 0)):
            for inner in self._blocks.get(f"{id}#{number}", ()):
                yield from self._reads(inner)

    def _sorted(self, name: str) -> list[str]:
        parts = self._parted.parts
        ids = self._blocks.get(name, [])
        makers = {v: id for id in ids for v in parts["op", id].get("results", ())}
        place = {id: (float(n), "") for n, id in enumerate(self._parted.orders.get(name, ()))}
        for id in ids:  # what no order has stands behind what it reads
            if id not in place:
                behind = [place.get(makers.get(v, ""), (-1.0, "")) for v in self._reads(id)]
                place[id] = (max(behind, default=(-1.0, ""))[0] + 0.5, id)
            if ends_block(parts["op", id]["name"]):
                place[id] = (float("inf"), "")
        waits: dict[str, int] = {}
        readers: dict[str, list[str]] = {}
        for id in ids:
            found = {makers[v] for v in self._reads(id) if v in makers}
            waits[id] = len(found)
            for maker in found:
                readers.setdefault(maker, []).append(id)
        ready = [(place[id], id) for id in ids if waits[id] == 0]
        heapq.heapify(ready)
        order: list[str] = []
        while ready:
            _, id = heapq.heappop(ready)
            order.append(id)
            for reader in readers.get(id, ()):
                waits[reader] -= 1
                if waits[reader] == 0:
                    heapq.heappush(ready, (place[reader], reader))
        if len(order) < len(ids):
            known = set(order)
            left = ", ".join(id for id in ids if id not in known)
            raise GraphError("ML859", f"{left[:80]} would read each other in a circle")
        return order


__all__ = ["ALL", "ATTR", "Entity", "Fields", "Parted", "join", "split"]
