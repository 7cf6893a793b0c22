"""``maxlab.diff``: of two graphs, which operations came, went and changed; and of runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, cast, overload

from maxlab.analysis.runs.diff import Diff, Given
from maxlab.analysis.runs.diff import diff as diff_runs
from maxlab.analysis.runs.nodes import Part, match_nodes, parts_of, sound_nodes
from maxlab.analysis.runs.shown import Recorded
from maxlab.engine import Model
from maxlab.errors import ArgumentTypeError
from maxlab.graph import Graph
from maxlab.lab import protocol
from maxlab.lab.snapshot import take, without_times
from maxlab.tabular import Field

Kind = Literal["added", "removed", "changed"]

MOST_LISTED = 2000
"""Differences that a view is given; it counts the others."""

SIGNS: Mapping[Kind, str] = {"added": "+", "removed": "-", "changed": "~"}


class GraphDiff(Recorded):
    """What differs between two graphs. ``maxlab.diff`` makes it.

    In a notebook the two are drawn side by side above a list of the differences. ``print`` shows
    them as text.

    Attributes:
        differences: Each difference: its ``kind``, the id of the operation in each graph, its
            ``name``, ``scope`` and ``what`` changed, as plain JSON, in the order of the graphs.
        pairs: For operations of the first graph that are also in the second, the id they have
            there.
    """

    def __init__(
        self, before: protocol.GraphDocument, after: protocol.GraphDocument, labels: Sequence[str]
    ) -> None:
        self.name = after["name"]
        self.labels = tuple(labels)
        self.pairs = match_nodes(before, after)
        self.differences = _differences(before, after, self.pairs)
        listed = self.differences[:MOST_LISTED]
        beside: protocol.Beside = {
            "before": before,
            "labels": list(labels),
            "pairs": [[one, other] for one, other in self.pairs.items()],
            "differences": listed,
            "more": len(self.differences) - len(listed),
        }
        document: protocol.GraphDocument = {**after, "beside": beside}
        self.document = document

    def _heads(self) -> Sequence[str]:
        return ("kind", "before", "after", "name", "scope", "what")

    def _records(self) -> Iterator[Sequence[Field]]:
        for one in self.differences:
            what = "; ".join(one["what"])
            yield one["kind"], one["before"], one["after"], one["name"], one["scope"], what

    def table(self, rows: int | None = 20) -> str:
        """The differences as text: how many there are, and each with where and what.

        Args:
            rows: How many to list; None lists all.
        """
        shown = self.differences if rows is None else self.differences[: max(rows, 0)]
        lines = [f"{self.labels[0]} → {self.labels[1]}: {self._counted()}"]
        for one in shown:
            scope = f"  in {one['scope']}" if one["scope"] else ""
            ids = " → ".join(id for id in dict.fromkeys((one["before"], one["after"])) if id)
            lines.append(f"{SIGNS[one['kind']]} {one['name']} ({ids}){scope}")
            lines += [f"    {what}" for what in one["what"]]
        left = len(self.differences) - len(shown)
        return "\n".join([*lines, f"… {left} more"] if left else lines)

    def _counted(self) -> str:
        counts = Counter(one["kind"] for one in self.differences)
        told = [f"{counts[kind]} {kind}" for kind in SIGNS if counts[kind]]
        return ", ".join(told) or "no difference"

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        return f"GraphDiff({' → '.join(self.labels)}: {self._counted()})"


@overload
def diff(
    *given: Given | Sequence[Given],
    confidence: float = 0.95,
    least: float = 0.01,
    margin: float = 0.05,
) -> Diff: ...


@overload
def diff(before: Graph | Model, after: Graph | Model, /) -> GraphDiff: ...


def diff(
    *given: Given | Sequence[Given] | Graph | Model,
    confidence: float = 0.95,
    least: float = 0.01,
    margin: float = 0.05,
) -> Diff | GraphDiff:
    """The ``Diff`` of two or more runs: the first against each of the others, kernel by kernel; or
    the ``GraphDiff`` of two graphs or models: which operations were added, removed and changed.

    Args:
        *given: Two graphs or models; or runs, each a profile, a saved run, a path of one, a folder
            of them, or a list of such, which are then runs of the same program.
        confidence: Of intervals and p-values of runs.
        least: The smallest change of a time that matters, as a fraction of it.
        margin: Times are the same when their ratio is known to be within this of one.

    Raises:
        ArgumentError: ML846, fewer than two runs, an empty folder, or a fraction out of range;
            ML847, runs of one side are of different programs.
        ArgumentTypeError: ML844, something else than a run; ML898, a graph beside a run; ML899,
            more or fewer graphs than two.
        DocumentError: A file that is no saved run.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> def build(name, function):
        ...     with Graph(name, input_types=[TensorType(DType.float32, ["n"])]) as graph:
        ...         graph.output(function(ops.relu(graph.inputs[0].tensor)))
        ...     return graph
        >>> print(diff(build("one", ops.exp), build("two", lambda x: ops.exp(ops.tanh(x)))))
        one → two: 1 added, 1 changed
        + tanh (n1)
            → f32[n]
        ~ exp (n1 → n2)
            operand 0: relu n0 → tanh n1
    """
    graphs = [one for one in given if isinstance(one, (Graph, Model))]
    runs = [one for one in given if not isinstance(one, (Graph, Model))]
    if not graphs:
        return diff_runs(*runs, confidence=confidence, least=least, margin=margin)
    if runs:
        raise ArgumentTypeError(
            "ML898",
            f"a graph is compared with a graph, got a {type(graphs[0]).__name__} beside a "
            f"{type(runs[0]).__name__}",
            fix="diff(graph_a, graph_b), or diff(profile_a, profile_b)",
        )
    if len(graphs) != 2:
        raise ArgumentTypeError(
            "ML899",
            f"two graphs are compared, got {len(graphs)}",
            fix="diff(before, after)",
        )
    names = [str(one.name) for one in graphs]
    if names[0] == names[1]:
        names = [f"{names[0]} (before)", f"{names[1]} (after)"]
    before, after = (without_times(take(one, sources=False).document) for one in graphs)
    return GraphDiff(before, after, names)


def _differences(
    before: protocol.GraphDocument, after: protocol.GraphDocument, pairs: Mapping[str, str]
) -> list[protocol.GraphDifference]:
    """The differences, in the order of ``after``; what is gone stands where it stood."""
    one, other = _Side(before), _Side(after)
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
    return [*found, *_ends("output", one, other, pairs)]


class _Side:
    """A graph whose operations and values are looked up by their ids."""

    def __init__(self, document: protocol.GraphDocument) -> None:
        self.document = document
        nodes = cast("list[protocol.Node]", sound_nodes(document))
        self.nodes = {node["id"]: node for node in nodes}
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
        "kind": kind,
        "before": before,
        "after": after,
        "name": node["op"],
        "scope": node["scope"],
        "what": list(what),
    }
    return cast("protocol.GraphDifference", told)


def _changes(one: _Side, other: _Side, was: str, now: str, pairs: Mapping[str, str]) -> list[str]:
    """What differs between an operation and its counterpart, in words."""
    before, after = one.nodes[was], other.nodes[now]
    found: list[str] = []
    found += _line("op", before["op"], after["op"])
    found += _line("scope", before["scope"], after["scope"])
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
    data = [part.attrs for part in (one.parts[was], other.parts[now])]
    if not found and data[0] != data[1]:
        data_names = [_data(side, node) for side, node in ((one, before), (other, after))]
        found += _line("data", data_names[0], data_names[1])
    return found + _readings(one, other, before, after, pairs)


def _readings(
    one: _Side,
    other: _Side,
    before: protocol.Node,
    after: protocol.Node,
    pairs: Mapping[str, str],
) -> list[str]:
    """Operands that come from somewhere else now."""
    found: list[str] = []
    if len(before["operands"]) != len(after["operands"]):
        found += _line("operands", str(len(before["operands"])), str(len(after["operands"])))
    inputs = [{id: n for n, id in enumerate(s.document["inputs"])} for s in (one, other)]
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


def _data(side: _Side, node: protocol.Node) -> str:
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
    kind: str, one: _Side, other: _Side, pairs: Mapping[str, str]
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
                "kind": "changed" if left and right else "removed" if left else "added",
                "before": left,
                "after": right,
                "name": f"{kind} {place}",
                "scope": "",
                "what": what,
            }
            found.append(cast("protocol.GraphDifference", told))
    return found
