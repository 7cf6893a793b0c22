"""The changes of one side, held against the changes of the other side: item by item.

An *item* is one field of one part that ``theirs`` has otherwise than ``base`` and ``ours``. Where
``ours`` left it as it was, or both can be had at once, it has the value to take; else it is in
conflict. Items that only make sense together, such as an operation and what reads it, are one
*unit*, which is taken as a whole or not at all.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from maxlab.analysis.merging.identity import made_in
from maxlab.graph.grouped import joined
from maxlab.graph.parted import ATTR, Entity, Fields, Parted

QUIET_SECTIONS = frozenset({"fold", "scope"})
"""Of parts that matter little both sides are never asked about: one is taken."""
QUIET = frozenset({"types", "source", "origins", "attrs", "parameters"})
"""The same of fields: types follow from the inputs, sources say where a program stood."""
GROUPS = ("top", "groups")
"""Parts whose operations stay when a call does not hold them any more."""
GRAPH = frozenset({"graph", "op", "input", "subgraph"})
"""The sections that decide what is computed."""


@dataclass(slots=True)
class Item:
    """One field of one part, or all of it with no ``name``; see the module."""

    entity: Entity
    name: str
    base: Any
    ours: Any
    theirs: Any
    taken: Any = None
    kind: str = ""
    """Why it is in conflict; empty where it is not."""

    @property
    def is_quiet(self) -> bool:
        """Whether it only follows from others, or matters little."""
        return self.name in QUIET or self.entity[0] in QUIET_SECTIONS


@dataclass(slots=True)
class Unit:
    """Items that are taken together."""

    items: list[Item] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """Why it is in conflict; empty where it is not."""
        return next((item.kind for item in self.items if item.kind), "")

    @property
    def is_graph(self) -> bool:
        """Whether it changes what is computed."""
        return any(item.entity[0] in GRAPH for item in self.items)


def items_of(base: Parted, ours: Parted, theirs: Parted) -> list[Item]:
    """Changes that ``theirs`` made and ``ours`` does not have."""
    items = list(_items(base, ours, theirs))
    return [*items, *_regions(items, base, ours, theirs)]


def _regions(items: list[Item], base: Parted, ours: Parted, theirs: Parted) -> list[Item]:
    """The branches and loops that ``ours`` removed and inside of which ``theirs`` changed
    something, with all that stands inside; those, and the reverse, are in conflict."""
    known = {item.entity: item for item in items if item.entity[0] == "op"}
    kept: dict[str, None] = {}
    for (_, key), item in known.items():
        if item.theirs is not None:
            for owner in _owners(theirs, key):
                if ("op", owner) in base.parts and ("op", owner) not in ours.parts:
                    item.kind = "removed"
                    kept[owner] = None
    for (section, key), fields in ours.parts.items():
        if section == "op" and base.parts.get((section, key)) != fields:
            for owner in _owners(ours, key):
                gone = known.get(("op", owner))
                if gone is not None and gone.name == "" and gone.theirs is None:
                    gone.kind = "removed"
    more = []
    for entity in theirs.parts if kept else ():
        section, key = entity
        if section != "op" or entity in known or entity in ours.parts:
            continue
        if key in kept or any(owner in kept for owner in _owners(theirs, key)):
            whole = theirs.parts[entity]
            more.append(Item(entity, "", base.parts.get(entity), None, whole, whole, "removed"))
    return more


def _owners(side: Parted, key: str) -> Iterator[str]:
    """The operations in whose regions the operation ``key`` of ``side`` stands, from inside."""
    for _ in range(len(side.parts)):  # no document has more; a damaged one may have a circle
        block, mark, _number = str(side.parts.get(("op", key), {}).get("at", "")).partition("#")
        if not mark:
            return
        yield block
        key = block


def _items(base: Parted, ours: Parted, theirs: Parted) -> Iterator[Item]:
    for entity in dict.fromkeys([*base.parts, *theirs.parts]):
        was, mine, other = (side.parts.get(entity) for side in (base, ours, theirs))
        if other in (was, mine):
            continue
        if other is None or (was is None and mine is None):
            kind = "removed" if mine != was else ""
            if kind and _is_light(entity):
                continue  # what is there says more than what is gone
            yield Item(entity, "", was, mine, other, other, kind)
        elif mine is None:
            kind = "" if _is_light(entity) else "removed"
            yield Item(entity, "", was, None, other, other, kind)
        else:
            yield from _fields(entity, was or {}, mine, other)


def _is_light(entity: Entity) -> bool:
    """Whether nobody misses ``entity`` where one side took it away."""
    return entity[0] in QUIET_SECTIONS | {"place"} or entity == GROUPS


def _fields(entity: Entity, was: Fields, mine: Fields, other: Fields) -> Iterator[Item]:
    kind = "changed" if was else "added"
    for name in dict.fromkeys([*was, *mine, *other]):
        item = Item(entity, name, was.get(name), mine.get(name), other.get(name))
        if item.theirs in (item.base, item.ours):
            continue
        item.taken = item.theirs
        if item.ours != item.base:
            both = _both(item)
            item.taken = item.theirs if both is None else both
            item.kind = "" if both is not None else kind
        yield item


def _both(item: Item) -> Any:
    """The value that holds both sides' changes; None where there is none."""
    if item.is_quiet:
        return min(item.ours, item.theirs, key=lambda value: json.dumps(value, sort_keys=True))
    if item.entity == GROUPS:
        return joined(item.ours, item.theirs)
    sides = (item.base, item.ours, item.theirs)
    if item.name in ("operands", "names") and all(isinstance(side, list) for side in sides):
        return _each(*sides)
    return None


def _each(base: Sequence[Any], ours: Sequence[Any], theirs: Sequence[Any]) -> list[Any] | None:
    """The lists entry by entry; None where an entry is in conflict, or the lengths differ."""
    if not len(base) == len(ours) == len(theirs):
        return None
    made: list[Any] = []
    for was, mine, other in zip(base, ours, theirs, strict=True):
        if was != mine != other != was:
            return None
        made.append(other if mine == was else mine)
    return made


# ---------------------------------------------------------------- units
def units_of(items: Sequence[Item], base: Parted, theirs: Parted) -> list[Unit]:
    """The units of ``items``, those that change the graph in the order of the graph."""
    group = list(range(len(items)))

    def root(n: int) -> int:
        while group[n] != n:
            group[n] = group[group[n]]
            n = group[n]
        return n

    known: dict[str, int] = {}
    for n, item in enumerate(items):
        if item.name == "":
            for key in _made(item, base, theirs):
                known[key] = n
    for n, item in enumerate(items):
        for key in _named(item, base, theirs):
            if key in known:
                group[root(n)] = root(known[key])
    units: dict[int, Unit] = {}
    for n, item in enumerate(items):
        units.setdefault(root(n), Unit()).items.append(item)
    found: list[Unit] = []
    for unit in units.values():
        # A field in conflict says nothing of the others of its operation, unless something came
        # or went with it.
        if unit.kind and not any(
            item.name == "" and item.entity[0] in GRAPH for item in unit.items
        ):
            found += [Unit([item]) for item in unit.items if not item.kind]
            found += [Unit([item for item in unit.items if item.kind])]
        else:
            found.append(unit)
    return found


def _made(item: Item, base: Parted, theirs: Parted) -> Iterator[str]:
    """Names that come or go with ``item``: its id, and the values that it makes."""
    section, key = item.entity
    if section not in ("op", "input", "draft"):
        return
    yield key
    for side in (base, theirs):
        fields = side.parts.get(item.entity, {})
        yield from made_in(section, fields)
    if section == "draft":
        yield f"v{key[1:]}"


def _named(item: Item, base: Parted, theirs: Parted) -> Iterator[str]:
    """Names that ``item`` is about, or reads on either side."""
    section, key = item.entity
    if section == "place":
        yield key.partition(":")[2] if key.startswith(("in:", "out:")) else key
    for side in (base, theirs):
        fields = side.parts.get(item.entity, {})
        if section in ("op", "draft") and item.name in ("", "operands"):
            yield from (value for value in fields.get("operands", ()) if value is not None)
            block, mark, _ = str(fields.get("at", "")).partition("#")
            if mark:
                yield block
        elif section == "comment":
            on = str(fields.get("on", ""))
            yield on.partition(":")[2] if on.startswith(("in:", "out:")) else on
    if section == "op" and item.name.startswith((ATTR, "regions", "inputs ")):
        yield f"{key}!"


__all__ = ["GRAPH", "Item", "Unit", "items_of", "units_of"]
