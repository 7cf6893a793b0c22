"""Which operation of a version is which of the version before it.

A document that is edited keeps its ids. A graph that a program builds anew has others, so there
operations are matched by what they compute. Each version gets the ids of the one that both come
from, and what two sides added gets ids that differ.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from maxlab.analysis.runs.nodes import Part, match_parts
from maxlab.graph.parted import ATTR, Entity, Fields, Parted
from maxlab.ir.core import ends_block

_NUMBERED = ("op", "draft")
_MOSTLY = 0.95
"""When so many operations are the same by their ids, no other way to match them is looked for."""


def like(base: Parted, side: Parted) -> Parted:
    """``side`` with the ids that its operations have in ``base``."""
    if _is_edited(base, side):
        mine, theirs = _end(base, side), _end(side, base)
        return renamed(side, {theirs: mine}, {}) if mine and theirs else side
    found = _Matched(base, side)
    ops, values = found.ops, found.values
    fresh = _Fresh(base, side)
    for (section, id), fields in side.parts.items():
        if section == "op":
            if id not in ops:
                ops[id] = fresh.op()
            for value in made_in(section, fields):
                if value not in values:
                    values[value] = fresh.value(ops[id])
    for value in side.orders["inputs"]:
        if value not in values:
            values[value] = fresh.input()
    return renamed(side, ops, values)


def _end(parted: Parted, other: Parted) -> str:
    """The operation with the outputs of ``parted``; empty where ``other`` has it, too."""
    ids = _ids(parted, "ops")[-1:]
    is_alone = ids and ("op", ids[0]) not in other.parts
    return ids[0] if is_alone and ends_block(parted.parts["op", ids[0]]["name"]) else ""


def _is_edited(base: Parted, side: Parted) -> bool:
    """Whether ``side`` has the ids of ``base``: more operations are the same by their ids than by
    what they compute."""
    known = [key for one, key in base.parts if one == "op" and (one, key) in side.parts]
    if not known:
        return not any(one == "op" for one, _ in base.parts)
    same = sum(_same(base.parts["op", key], side.parts["op", key]) for key in known)
    if same >= _MOSTLY * len(known):
        return True
    return same >= _Matched(base, side).same


class _Matched:
    """The operations and values of ``base`` and ``side`` that compute the same, also those inside
    of branches and loops that do.

    Attributes:
        ops: Of each operation of ``side`` the one of ``base``.
        values: Of each value of ``side`` the one of ``base``.
        same: How many operations say the same of themselves in both.
    """

    def __init__(self, base: Parted, side: Parted) -> None:
        self._base, self._side = base, side
        self.ops: dict[str, str] = {}
        self.values = dict(zip(side.orders["inputs"], base.orders["inputs"], strict=False))
        self.same = 0
        self._numbers: dict[str, int] = {}
        blocks = [("ops", "ops")]
        while blocks:
            blocks += self._match(*blocks.pop())

    def _match(self, here: str, there: str) -> Iterator[tuple[str, str]]:
        """Match the operations of one block of each; gives the blocks inside of those."""
        mine, theirs = _ids(self._base, here), _ids(self._side, there)
        one = _parts(self._base, mine, self._number)
        other = _parts(
            self._side, theirs, lambda value: self._number(self.values.get(value, value))
        )
        pairs = match_parts(one, other)
        last = len(mine) - 1, len(theirs) - 1
        if min(last) >= 0 and last[0] not in pairs and last[1] not in pairs.values():
            ends = ((self._base, mine[-1]), (self._side, theirs[-1]))
            if all(ends_block(parted.parts["op", id]["name"]) for parted, id in ends):
                pairs[last[0]] = last[1]  # a block has one end, whatever it gives
        for number, match in pairs.items():
            was = self._base.parts["op", mine[number]]
            now = self._side.parts["op", theirs[match]]
            self.same += one[number][:-2] == other[match][:-2]
            self.ops[theirs[match]] = mine[number]
            self.values.update(zip(now.get("results", []), was.get("results", []), strict=False))
            if was.get("regions", 0) == now.get("regions", 0):
                for region in range(now.get("regions", 0)):
                    inputs = [p.get(f"inputs {region}", ()) for p in (now, was)]
                    for new, old in zip(*inputs, strict=False):
                        self.values[new["id"]] = old["id"]
                    yield f"{mine[number]}#{region}", f"{theirs[match]}#{region}"

    def _number(self, value: str) -> int:
        """A number for a value that is not made in the block that reads it."""
        return self._numbers.setdefault(value, len(self._numbers))


def _same(one: Fields, other: Fields) -> bool:
    """Whether two operations say the same of themselves, but for what they read."""
    if one == other:
        return True
    return all(one.get(key) == other.get(key) for key in ("name", "scope", "types")) and (
        {k: v for k, v in one.items() if k.startswith(ATTR)}
        == {k: v for k, v in other.items() if k.startswith(ATTR)}
    )


def _ids(parted: Parted, block: str) -> list[str]:
    return [id for id in parted.orders.get(block, ()) if ("op", id) in parted.parts]


def _parts(parted: Parted, ids: list[str], outer: Callable[[str], int]) -> list[Part]:
    makers: dict[str, tuple[int, int]] = {}
    for place, id in enumerate(ids):
        for number, value in enumerate(parted.parts["op", id].get("results", ())):
            makers[value] = place, number
    found = []
    for id in ids:
        fields = parted.parts["op", id]
        attrs = sorted((k, str(v)) for k, v in fields.items() if k.startswith(ATTR))
        source = fields.get("source", {})
        reads = [makers.get(value) or (outer(value), -1) for value in fields.get("operands", ())]
        found.append(
            Part(
                fields["name"],
                fields.get("scope", ""),
                tuple(attrs),
                tuple(fields.get("types", ())),
                str(source.get("text", "")).strip(),
                tuple(reads),
                (),
            )
        )
    return found


# ---------------------------------------------------------------- ids of their own
class _Fresh:
    """Numbers that no id of some documents has."""

    def __init__(self, *known: Parted) -> None:
        ids = [id for parted in known for id in _all_ids(parted)]
        self._next = 1 + max((_number(id) for id in ids if id[:1] != "a"), default=-1)
        self._input = 1 + max((_number(id) for id in ids if id[:1] == "a"), default=-1)
        self._given: set[str] = set()

    def op(self) -> str:
        self._next += 1
        return f"n{self._next - 1}"

    def input(self) -> str:
        self._input += 1
        return f"a{self._input - 1}"

    def value(self, op: str) -> str:
        """An id for one more result of ``op``."""
        number, place = op[1:], 0
        id = f"v{number}"
        while id in self._given:
            place += 1
            id = f"v{number}_{place}"
        self._given.add(id)
        return id


def _number(id: str) -> int:
    found = re.match(r"[anvb](\d{1,18})", id)
    return int(found[1]) if found else -1


def _all_ids(parted: Parted) -> Iterator[str]:
    for (section, key), fields in parted.parts.items():
        if section in (*_NUMBERED, "input"):
            yield key
            yield from made_in(section, fields)


def made_in(section: str, fields: Fields) -> Iterator[str]:
    """The values that an operation makes, those of its regions' inputs too."""
    if section == "op":
        yield from fields.get("results", ())
        for number in range(fields.get("regions", 0)):
            for value in fields.get(f"inputs {number}", ()):
                yield value["id"]


def apart(base: Parted, ours: Parted, theirs: Parted) -> tuple[Parted, Parted]:
    """Both sides, with other ids for what they added under the same ones.

    Which side gets others does not depend on which is called ours.
    """
    new = [_added(base, side) for side in (ours, theirs)]
    clash = {id for id in new[0].keys() & new[1].keys() if new[0][id] != new[1][id]}
    while True:  # what reads a value that is another one now is another operation
        values = {
            value
            for id in clash
            for side in new
            for value in (id, *made_in(*side[id]))
            if id in side
        }
        more = {
            id
            for id in new[0].keys() & new[1].keys() - clash
            if not values.isdisjoint(new[0][id][1].get("operands", ()))
        }
        if not more:
            break
        clash |= more
    defined = [{v: id for id, one in side.items() for v in made_in(*one)} for side in new]
    twice = {v for v in defined[0].keys() & defined[1].keys() if defined[0][v] != defined[1][v]}
    if not clash and not twice:
        return ours, theirs
    texts = [json.dumps([side[id] for id in sorted(side)], sort_keys=True) for side in new]
    which = 0 if texts[0] > texts[1] else 1
    fresh = _Fresh(base, ours, theirs)
    numbers: dict[str, str] = {}
    ops: dict[str, str] = {}
    names: dict[str, str] = {}
    for id, (section, fields) in new[which].items():
        if id in clash and section == "input":
            names[id] = fresh.input()
        elif id in clash:
            ops[id] = numbers[id] = fresh.op()
        for value in made_in(section, fields):
            if id in clash or value in twice:
                if id not in numbers:
                    numbers[id] = fresh.op()
                names[value] = fresh.value(numbers[id])
    for id, (section, _) in new[which].items():
        if section == "draft" and id in clash:
            names[f"v{id[1:]}"] = f"v{ops[id][1:]}"
    changed = renamed((ours, theirs)[which], ops, names)
    return (changed, theirs) if which == 0 else (ours, changed)


def _added(base: Parted, side: Parted) -> dict[str, tuple[str, Fields]]:
    return {
        key: (section, fields)
        for (section, key), fields in side.parts.items()
        if section in (*_NUMBERED, "input") and (section, key) not in base.parts
    }


def notes_apart(base: Parted, ours: Parted, theirs: Parted) -> tuple[Parted, Parted]:
    """Both sides, with other ids for comments and conflicts that they added under the same ones."""
    sides = [ours.copy(), theirs.copy()]
    for section, letter in (("comment", "c"), ("conflict", "m")):
        keys = [
            {key for one, key in side.parts if one == section and (one, key) not in base.parts}
            for side in sides
        ]
        clash = sorted(
            key
            for key in keys[0] & keys[1]
            if sides[0].parts[section, key] != sides[1].parts[section, key]
        )
        taken = {key for parted in (base, *sides) for one, key in parted.parts if one == section}
        number = 1 + max((_tail(key) for key in taken), default=-1)
        for key in clash:
            texts = [json.dumps(side.parts[section, key], sort_keys=True) for side in sides]
            side = sides[0 if texts[0] > texts[1] else 1]
            new = f"{letter}{number}"
            number += 1
            fields = side.parts.pop((section, key))
            if section == "conflict":
                fields = {**fields, "all": {**fields["all"], "id": new}}
            side.parts[section, new] = fields
            order = f"{section}s"
            side.orders[order] = [new if one == key else one for one in side.orders[order]]
    return sides[0], sides[1]


def _tail(key: str) -> int:
    return int(key[1:]) if key[1:].isdecimal() and len(key) < 19 else -1


# ---------------------------------------------------------------- renaming
def renamed(parted: Parted, ops: Mapping[str, str], values: Mapping[str, str]) -> Parted:
    """``parted`` with other ids for some operations and values, everywhere they are named."""
    made = Parted(constants=parted.constants)
    names = _Names(ops, values)
    for (section, key), fields in parted.parts.items():
        entity: Entity = section, key
        if section in _NUMBERED:
            entity = section, ops.get(key, key)
        elif section == "input":
            entity = section, values.get(key, key)
        elif section == "place":
            entity = section, names.key(key)
        made.parts[entity] = names.fields(section, fields)
    for order, keys in parted.orders.items():
        block, mark, number = order.partition("#")
        if order == "inputs":
            made.orders[order] = [values.get(key, key) for key in keys]
        elif order in ("ops", "drafts") or mark:
            made.orders[ops.get(block, block) + mark + number] = [ops.get(k, k) for k in keys]
        else:
            made.orders[order] = keys
    return made


class _Names:
    def __init__(self, ops: Mapping[str, str], values: Mapping[str, str]) -> None:
        self._ops = ops
        self._values = values

    def key(self, key: str) -> str:
        """A structural key."""
        head, mark, id = key.partition(":")
        if mark and head in ("in", "out"):
            return f"{head}:{self._values.get(id, id)}"
        return self._ops.get(key, key)

    def fields(self, section: str, fields: Fields) -> Fields:
        """The fields of a part of ``section``."""
        made = dict(fields)
        if section in _NUMBERED:
            for name in ("operands", "results"):
                if name in made:
                    made[name] = [None if v is None else self._values.get(v, v) for v in made[name]]
        if section == "op":
            block, mark, number = made["at"].partition("#")
            made["at"] = self._ops.get(block, block) + mark + number if mark else block
            if "origins" in made:
                made["origins"] = [self._ops.get(id, id) for id in made["origins"]]
            for number in range(made.get("regions", 0)):
                made[f"inputs {number}"] = [
                    {**value, "id": self._values.get(value["id"], value["id"])}
                    for value in made.get(f"inputs {number}", ())
                ]
        if section == "comment" and "on" in made:
            made["on"] = self.key(made["on"])
        return made


def ids_in(value: Any) -> Iterator[str]:
    """The texts in a list, which may have None."""
    for one in value if isinstance(value, list) else ():
        if isinstance(one, str):
            yield one


__all__ = ["apart", "ids_in", "like", "notes_apart", "renamed"]
