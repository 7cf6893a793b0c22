"""Where two graphs differ, operation by operation, in words.

In: the documents of two graphs, and which operation is which. Out: one record for each operation,
input, output and note that came, went or is another one, in the order of the graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, cast

import numpy as np

from maxlab.analysis.runs.nodes import Part, match_parts, parts_of, sound_nodes
from maxlab.lab import protocol

Kind = Literal["added", "removed", "changed", "moved", "renamed"]

SIGNS: Final[Mapping[Kind, str]] = {
    "added": "+",
    "removed": "-",
    "changed": "~",
    "moved": ">",
    "renamed": "=",
}
"""The sign before a difference in a text."""

Contents = Mapping[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]]
"""The values of larger constants, by the ids of the operations that make them."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A place where two graphs differ.

    Attributes:
        kind: ``added``, ``removed``, ``changed``; ``moved`` where only its scope or its place on
            the canvas is another one, ``renamed`` where only its name is.
        before: The id in the first graph; empty where it has none.
        after: The id in the second graph.
        name: The op, or ``input 0``, ``output 0``, ``comment c0``, ``draft n7``.
        scope: The scopes that it stands in.
        what: What is another thing, such as ``axis: -1 → 0``.
    """

    kind: Kind
    before: str
    after: str
    name: str
    scope: str
    what: tuple[str, ...]

    def to_dict(self) -> dict[str, object]:
        """It as plain JSON."""
        return {
            "kind": self.kind,
            "before": self.before,
            "after": self.after,
            "name": self.name,
            "scope": self.scope,
            "what": list(self.what),
        }

    def __str__(self) -> str:
        scope = f"  in {self.scope}" if self.scope else ""
        ids = " → ".join(id for id in dict.fromkeys((self.before, self.after)) if id)
        told = f" ({ids})" if ids else ""
        lines = [f"{SIGNS[self.kind]} {self.name}{told}{scope}", *self.what]
        return "\n    ".join(lines)


def pairs_of(one: Side, other: Side) -> dict[str, str]:
    """For operations of the first graph that are also in the second, the id they have there."""
    here, there = list(one.nodes), list(other.nodes)
    found = match_parts(list(one.parts.values()), list(other.parts.values()))
    return {here[n]: there[m] for n, m in sorted(found.items())}


def differences_of(
    one: Side, other: Side, pairs: Mapping[str, str]
) -> list[protocol.GraphDifference]:
    """The differences, in the order of ``other``; what is gone stands where it stood."""
    back = {now: was for was, now in pairs.items()}
    found = [*_ends("input", one, other, pairs)]
    gone: dict[str, list[protocol.GraphDifference]] = {}
    last = ""
    for id, node in one.nodes.items():
        if id in pairs:
            last = pairs[id]
        else:
            told = [one.types(node)]
            gone.setdefault(last, []).append(_told("removed", id, "", node, told))
    found += gone.pop("", [])
    for id, node in other.nodes.items():
        was = back.get(id)
        if was is None:
            found.append(_told("added", "", id, node, [other.types(node)]))
        else:
            what = _changes(one, other, was, id, pairs)
            if what:
                found.append(_told("changed", was, id, node, what))
        found += gone.pop(id, [])
    return [*found, *_ends("output", one, other, pairs), *_notes(one, other, pairs)]


class Side:
    """A graph whose operations and values are looked up by their ids."""

    def __init__(self, document: protocol.GraphDocument, contents: Contents) -> None:
        self.document = document
        self.contents = contents
        nodes = cast("list[protocol.Node]", sound_nodes(document))
        self.nodes = {node["id"]: node for node in nodes}
        self.inputs = {id: n for n, id in enumerate(document["inputs"])}
        self.values = {value["id"]: value for value in document["values"]}
        self.parts: dict[str, Part] = dict(zip(self.nodes, parts_of(document), strict=True))
        self.makers = {id: node["id"] for node in self.nodes.values() for id in node["results"]}

    def types(self, node: protocol.Node) -> str:
        """The types of what ``node`` makes."""
        return "→ " + ", ".join(self.type(id) for id in node["results"])

    def type(self, id: str) -> str:
        """The type of a value."""
        value = self.values.get(id)
        return value["type"] if value is not None else "?"

    def origin(self, id: str) -> str:
        """Where a value comes from, in words."""
        maker = self.nodes.get(self.makers.get(id, ""))
        value = self.values.get(id)
        if maker is not None:
            return f"{maker['op']} {maker['id']}"
        return (value.get("name") or id) if value is not None else id


def _told(
    kind: str, before: str, after: str, node: protocol.Node, what: Sequence[str]
) -> protocol.GraphDifference:
    told = {
        "kind": kind_of(what) if kind == "changed" else kind,
        "before": before,
        "after": after,
        "name": node["op"],
        "scope": node["scope"],
        "what": list(what),
    }
    return cast("protocol.GraphDifference", told)


def _changes(one: Side, other: Side, was: str, now: str, pairs: Mapping[str, str]) -> list[str]:
    """The differences between an operation and its counterpart, in words."""
    before, after = one.nodes[was], other.nodes[now]
    parts = one.parts[was], other.parts[now]
    is_same = parts[0][:4] == parts[1][:4] and before["name"] == after["name"]
    if is_same and was not in one.contents:
        return _readings(one, other, before, after, pairs)
    found: list[str] = []
    found += _line("op", before["op"], after["op"])
    if _there(before["scope"], pairs) != after["scope"]:
        found += _line("scope", before["scope"] or "none", after["scope"] or "none")
    found += _line("name", _called(before), _called(after))
    old, new = before["attrs"], after["attrs"]
    for name in dict.fromkeys([*old, *new]):
        found += _line(name, old.get(name, "not set"), new.get(name, "not set"))
    for place, (left, right) in enumerate(zip(before["results"], after["results"], strict=False)):
        which = f" of result {place}" if len(after["results"]) > 1 else ""
        told = _typed(one.values.get(left), other.values.get(right), which)
        # An attribute may say it already, such as the dtype of a cast.
        names = {line.partition(":")[0] for line in found}
        found += [line for line in told if line.partition(":")[0] not in names]
    if len(before["results"]) != len(after["results"]):
        found += _line("results", str(len(before["results"])), str(len(after["results"])))
    found += _content(one, other, was, now)
    data = [part.attrs for part in (one.parts[was], other.parts[now])]
    if not found and data[0] != data[1]:
        data_names = [_data(side, node) for side, node in ((one, before), (other, after))]
        found += _line("data", data_names[0], data_names[1])
    return found + _readings(one, other, before, after, pairs)


def _there(scope: str, pairs: Mapping[str, str]) -> str:
    """The name of ``scope`` in the other graph: scopes of branches and loops have their ids."""
    if ":" not in scope:
        return scope
    parts = (part.partition(":") for part in scope.split("."))
    return ".".join(pairs.get(head, head) + mark + tail for head, mark, tail in parts)


def _readings(
    one: Side,
    other: Side,
    before: protocol.Node,
    after: protocol.Node,
    pairs: Mapping[str, str],
) -> list[str]:
    """Operands that come from somewhere else now."""
    found: list[str] = []
    if len(before["operands"]) != len(after["operands"]):
        found += _line("operands", str(len(before["operands"])), str(len(after["operands"])))
    inputs = one.inputs, other.inputs
    for place, (left, right) in enumerate(zip(before["operands"], after["operands"], strict=False)):
        makers = one.makers.get(left, ""), other.makers.get(right, "")
        if makers[0] and makers[1]:
            results = one.nodes[makers[0]]["results"], other.nodes[makers[1]]["results"]
            is_alike = pairs.get(makers[0]) == makers[1] and (
                results[0].index(left) == results[1].index(right)
            )
            # Of equal constants and weights any is as good as another.
            is_alike = is_alike or (
                one.parts[makers[0]][:4] == other.parts[makers[1]][:4]
                and not one.parts[makers[0]].reads
            )
        else:
            is_alike = makers == ("", "") and inputs[0].get(left) == inputs[1].get(right)
        if not is_alike:
            found += _line(f"operand {place}", one.origin(left), other.origin(right), force=True)
    return found


def kind_of(what: Sequence[str]) -> Kind:
    """The kind of difference of a thing that both graphs have, where ``what`` is said of it."""
    told = {line.partition(":")[0] for line in what}
    if told <= {"scope", "place"}:
        return "moved"
    return "renamed" if told == {"name"} else "changed"


def _called(node: protocol.Node) -> str:
    """The name that people gave to the operation, where it differs from the operation's own."""
    return node["name"] if node["name"] not in (node["op"], node["id"]) else "none"


def _content(one: Side, other: Side, was: str, now: str) -> list[str]:
    """How the values of a larger constant differ."""
    left, right = one.contents.get(was), other.contents.get(now)
    if left is None or right is None or left.shape != right.shape or left.dtype != right.dtype:
        return []
    if left.tobytes() == right.tobytes():
        return []
    unlike = left != right
    count = int(np.count_nonzero(unlike))
    told = f"values: {count:,} of {left.size:,} differ" if count else "values: other bits"
    if left.dtype.kind in "iuf" and count:
        with np.errstate(all="ignore"):
            most = np.max(np.abs(left.astype(np.float64) - right.astype(np.float64))[unlike])
        told += f", by {most:.6g} at most"
    return [told]


def _notes(one: Side, other: Side, pairs: Mapping[str, str]) -> list[protocol.GraphDifference]:
    """The differences in the notes beside the graphs: places, comments and drafts."""
    found: list[protocol.GraphDifference] = []
    places = [{p["key"]: p for p in side.document.get("places", ())} for side in (one, other)]
    back = {now: was for was, now in pairs.items()}
    moved = {pairs.get(key, key): key for key in places[0]} | {
        key: back.get(key, key) for key in places[1]
    }
    for now, was in moved.items():
        left, right = places[0].get(was), places[1].get(now)
        is_there = now not in other.nodes or was in one.nodes  # else it came or went as a whole
        if left != right and is_there and (was not in one.nodes or was in pairs):
            node = other.nodes.get(now)
            what = [f"place: {_placed(left)} → {_placed(right)}"]
            if what[0] != f"place: {_placed(left)} → {_placed(left)}":
                name = node["op"] if node is not None else now
                scope = node["scope"] if node is not None else ""
                found.append(_note("moved", was, now, name, what, scope))
    names = _Renamed(one, other, pairs)
    comments = [
        {c["id"]: (c["text"], key(c["on"])) for c in side.document.get("comments", ())}
        for side, key in ((one, names.key), (other, str))
    ]
    drafts = [
        {d["id"]: (_drafted(d, value), "") for d in side.document.get("drafts", ())}
        for side, value in ((one, names.value), (other, str))
    ]
    return [*found, *_laid("comment", *comments), *_laid("draft", *drafts)]


class _Renamed:
    """The names in the second graph of things of the first."""

    def __init__(self, one: Side, other: Side, pairs: Mapping[str, str]) -> None:
        self._pairs = pairs
        ends = zip(one.document["inputs"], other.document["inputs"], strict=False)
        self._values = dict(ends)
        for was, now in pairs.items():
            results = one.nodes[was]["results"], other.nodes[now]["results"]
            self._values.update(zip(*results, strict=False))

    def value(self, id: str) -> str:
        """A value."""
        return self._values.get(id, id)

    def key(self, key: str) -> str:
        """The key of the thing that a comment is on."""
        head, mark, id = key.partition(":")
        is_end = mark and head in ("in", "out")
        return f"{head}:{self.value(id)}" if is_end else self._pairs.get(key, key)


def _drafted(draft: protocol.Draft, called: Callable[[str], str]) -> str:
    reads = ", ".join("?" if id is None else called(id) for id in draft["operands"])
    attrs = "".join(f", {name}={value}" for name, value in draft["attrs"].items())
    return f"{draft['name'].removeprefix('mo.')}({reads}{attrs})"


def _laid(
    name: str, before: Mapping[str, tuple[str, str]], after: Mapping[str, tuple[str, str]]
) -> list[protocol.GraphDifference]:
    """The differences of notes with ids: of each what it says, and what it is on."""
    left = dict(before)
    new: dict[str, tuple[str, str]] = {}
    for id, note in after.items():  # the same under another id is the same
        same = id if left.get(id) == note else next((k for k, n in left.items() if n == note), None)
        if same is None:
            new[id] = note
        else:
            del left[same]
    found = []
    for id in dict.fromkeys([*left, *new]):
        was, now = left.get(id), new.get(id)
        if was is not None and now is not None:
            told = zip(("text", "on"), was, now, strict=True)
            what = [f"{part}: {a or 'none'} → {b or 'none'}" for part, a, b in told if a != b]
            found.append(_note("changed", was[1], now[1], f"{name} {id}", what))
        elif was is not None:
            found.append(_note("removed", was[1], "", f"{name} {id}", list(filter(None, was))))
        elif now is not None:
            found.append(_note("added", "", now[1], f"{name} {id}", list(filter(None, now))))
    return found


def _placed(place: protocol.Place | None) -> str:
    if place is None:
        return "none"
    return f"({place['x']:g}, {place['y']:g})" + (" pinned" if place["pinned"] else "")


def _note(
    kind: Kind, before: str, after: str, name: str, what: Sequence[str], scope: str = ""
) -> protocol.GraphDifference:
    return {
        "kind": kind,
        "before": before,
        "after": after,
        "name": name,
        "scope": scope,
        "what": list(what),
        "note": True,
    }


def _data(side: Side, node: protocol.Node) -> str:
    return ", ".join(side.values[id].get("name") or "" for id in node["results"])


def _typed(old: protocol.Value | None, new: protocol.Value | None, which: str = "") -> list[str]:
    if old is None or new is None or old["type"] == new["type"]:
        return []
    dtypes = old.get("dtype") or "", new.get("dtype") or ""
    shapes = [
        "[" + ", ".join(str(dim) for dim in (value.get("shape") or [])) + "]"
        for value in (old, new)
    ]
    found = [
        *_line(f"dtype{which}", dtypes[0], dtypes[1]),
        *_line(f"shape{which}", shapes[0], shapes[1]),
    ]
    return found or _line(f"type{which}", old["type"], new["type"])


def _line(name: str, old: str, new: str, force: bool = False) -> list[str]:
    return [f"{name}: {old} → {new}"] if force or old != new else []


def _ends(
    kind: str, one: Side, other: Side, pairs: Mapping[str, str]
) -> list[protocol.GraphDifference]:
    """The differences of what goes into the graphs, or comes out of them."""
    ids = [
        side.document["inputs"] if kind == "input" else side.document["outputs"]
        for side in (one, other)
    ]
    found = []
    for place in range(max(map(len, ids))):
        left, right = (side[place] if place < len(side) else "" for side in ids)
        what: list[str] = []
        if left and right:
            old, new = one.values.get(left), other.values.get(right)
            what = _typed(old, new)
            if kind == "input" and old is not None and new is not None:
                what = [*_line("name", old.get("name") or "", new.get("name") or ""), *what]
            makers = one.makers.get(left, ""), other.makers.get(right, "")
            if pairs.get(makers[0], "") != makers[1]:
                what.append(f"comes from: {one.origin(left)} → {other.origin(right)}")
        else:
            what = [f"→ {one.type(left) if left else other.type(right)}"]
        if what:
            told = {
                "kind": kind_of(what) if left and right else "removed" if left else "added",
                "before": left,
                "after": right,
                "name": f"{kind} {place}",
                "scope": "",
                "what": what,
            }
            found.append(cast("protocol.GraphDifference", told))
    return found


__all__ = ["SIGNS", "Contents", "Difference", "Kind", "Side", "differences_of", "pairs_of"]
