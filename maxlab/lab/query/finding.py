"""Finds the operations of a document that a query describes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cached_property

from maxlab.lab import protocol
from maxlab.lab.protocol.query import QUERY_DTYPES, QUERY_ITEM_BYTES
from maxlab.lab.query.syntax import (
    FIELDS,
    All,
    Compare,
    Has,
    Inside,
    Not,
    Some,
    Test,
    Text,
    Words,
    starred,
)
from maxlab.lab.sizes import evaluated
from maxlab.lab.splitting import Spent, time_of_operations

_SHORT = {long: short for short, long in QUERY_DTYPES.items()}


class Rows:
    """The operations of a document, as queries ask about them.

    Args:
        document: What to look in.
        marks: What changed since the last run; None where that is not known.
    """

    def __init__(
        self, document: protocol.GraphDocument, marks: protocol.Marks | None = None
    ) -> None:
        self.document = document
        self._values = {value["id"]: value for value in document["values"]}
        profile = document["profile"]
        self._dims = profile["dims"] if profile is not None else {}
        self._added = frozenset(marks["added"] if marks is not None else ())
        self._changed = frozenset(marks["changed"] if marks is not None else ())
        self._kernels: dict[str, list[protocol.Kernel]] = {}
        for kernel in document["kernels"]:
            for id in kernel["nodes"]:
                self._kernels.setdefault(id, []).append(kernel)

    @cached_property
    def _times(self) -> dict[str, Spent]:
        return time_of_operations(self.document)

    @cached_property
    def _total(self) -> float:
        profile = self.document["profile"]
        return sum(k["ns"] for k in profile["kernels"]) if profile is not None else 0.0

    def time_ns(self, node: protocol.Node) -> float | None:
        """Nanoseconds that ``node`` takes; None where nothing was timed. Part of them are an
        estimate where ``is_split``."""
        spent = self._times.get(node["id"])
        return None if spent is None else spent.ns

    def is_split(self, node: protocol.Node) -> bool:
        """True where a kernel computes ``node`` together with other operations."""
        spent = self._times.get(node["id"])
        return spent is not None and spent.is_split

    def share(self, node: protocol.Node) -> float | None:
        """The part of the time of all kernels that ``time_ns`` is, from 0 to 1."""
        ns = self.time_ns(node)
        return None if ns is None or not self._total else ns / self._total

    def results(self, node: protocol.Node) -> list[protocol.Value]:
        """The values that ``node`` makes."""
        return [self._values[id] for id in node["results"] if id in self._values]

    def _operands(self, node: protocol.Node) -> list[protocol.Value]:
        return [self._values[id] for id in node["operands"] if id in self._values]

    def text(self, node: protocol.Node) -> str:
        """The text that words are looked for in. Of weights and constants it is their names: their
        types and scopes are those of the operations that read them.
        """
        results = self.results(node)
        is_fixed = not node["operands"] and bool(results)
        if is_fixed and all(value["kind"] in ("weight", "constant") for value in results):
            names = [value.get("name") or "" for value in results]
            return " ".join([node["id"], node["op"], node["name"], *names])
        about = [f"{v['type']} {v.get('name') or ''}" for v in (*results, *self._operands(node))]
        return " ".join([node["id"], node["op"], node["name"], node["scope"], *about])

    def texts(self, node: protocol.Node, field: str) -> list[str]:
        """The texts of a field; several are alternatives."""
        source = node["source"]
        match field:
            case "op":
                return [node["op"]]
            case "id":
                return [node["id"]]
            case "name":
                return [node["name"]]
            case "scope":
                return [node["scope"]]
            case "family":
                return [node.get("family", "other")]
            case "dtype":
                names = [value["dtype"] for value in self.results(node)]
                return [*names, *(_SHORT[name] for name in names if name in _SHORT)]
            case "file":
                if source is None:
                    return []
                whole = source["file"]
                return [whole, whole.replace("\\", "/").rpartition("/")[2]]
            case "source":
                return [] if source is None else [source["text"]]
            case "weight":
                return [
                    value.get("name") or ""
                    for value in self._operands(node)
                    if value["kind"] == "weight"
                ]
            case "kernel":
                kernels = self._kernels.get(node["id"], [])
                return [text for kernel in kernels for text in (kernel["id"], kernel["name"])]
            case "changed":
                if node["id"] in self._added:
                    return ["added"]
                return ["changed"] if node["id"] in self._changed else []
            case "error":
                failed = self.document["error"]
                if node["error"] is not None:
                    return [node["error"]]
                is_it = failed is not None and failed["node"] == node["id"]
                return [failed["message"]] if failed is not None and is_it else []
            case _:
                raise KeyError(field)

    def numbers(self, node: protocol.Node, field: str) -> list[float]:
        """The numbers of a field, in its own unit; none where it is not known."""
        found: float | None
        match field:
            case "rank":
                return [float(len(value["shape"])) for value in self.results(node)]
            case "time":
                found = self.time_ns(node)
            case "share":
                found = self.share(node)
            case "line":
                found = None if node["source"] is None else float(node["source"]["line"])
            case "flops":
                found = evaluated(node.get("flops"), self._dims)
            case "bytes":
                found = self._traffic(node)
            case _:
                raise KeyError(field)
        return [] if found is None else [found]

    def _traffic(self, node: protocol.Node) -> float | None:
        declared = evaluated(node.get("bytes"), self._dims)
        if declared:
            return declared
        total = 0.0
        values = [*self._operands(node), *self.results(node)]
        for value in values:
            known = value.get("nbytes")
            size = float(QUERY_ITEM_BYTES.get(value["dtype"], 0) if known is None else known)
            if known is None:
                for dim in value["shape"]:
                    length = evaluated(dim, self._dims)
                    if length is None:
                        return None
                    size *= length
            total += size
        return total if values else None


def _is_shape(pattern: Sequence[str], shape: Sequence[str]) -> bool:
    """Whether ``shape`` is as ``pattern`` says, in which ``*`` is any axis and ``...`` any number
    of them."""
    if not pattern:
        return not shape
    if pattern[0] == "...":
        return any(_is_shape(pattern[1:], shape[n:]) for n in range(len(shape) + 1))
    if not shape or pattern[0] not in ("*", shape[0]):
        return False
    return _is_shape(pattern[1:], shape[1:])


def _is_inside(text: Text, scope: str) -> bool:
    if text.how == "regex":
        return text.matches(scope)
    wanted, parts = text.pattern.split("."), scope.lower().split(".")
    for start in range(len(parts) - len(wanted) + 1):
        pairs = zip(wanted, parts[start : start + len(wanted)], strict=True)
        if all(starred(one, part) if text.stars else one == part for one, part in pairs):
            return scope != ""
    return False


_ORDER: dict[Compare, Callable[[float, float], bool]] = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a == b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def is_found(test: Test, rows: Rows, node: protocol.Node) -> bool:
    """Whether ``test`` finds ``node``, one of ``rows``."""
    match test:
        case All(tests=tests):
            return all(is_found(one, rows, node) for one in tests)
        case Some(tests=tests):
            return any(is_found(one, rows, node) for one in tests)
        case Not(test=inner):
            return not is_found(inner, rows, node)
        case Words(text=text):
            return text.matches(rows.text(node))
        case Inside(text=text):
            return _is_inside(text, node["scope"])
        case Has(field=field, compare=compare, value=value):
            return _has(rows, node, field, compare, value) != (compare == "!=")


def _has(
    rows: Rows,
    node: protocol.Node,
    field: str,
    compare: Compare,
    value: Text | float | tuple[str, ...],
) -> bool:
    """Whether a value of ``field`` compares; for ``!=`` whether one is equal."""
    if isinstance(value, Text):
        return any(value.matches(text) for text in rows.texts(node, field))
    if isinstance(value, tuple):
        shapes = ([str(dim) for dim in made["shape"]] for made in rows.results(node))
        return any(_is_shape(value, shape) for shape in shapes)
    return any(_ORDER[compare](number, value) for number in rows.numbers(node, field))


def missing(fields: Collection[str], document: protocol.GraphDocument, has_marks: bool) -> str:
    """The first of ``fields`` that is not known of ``document``, in words; empty when all is."""
    for name in FIELDS:
        if name in fields and name in ("time", "share") and document["profile"] is None:
            return f"{name} is not known: nothing was profiled"
        if name in fields and name == "changed" and not has_marks:
            return "changed is not known: only a view of a cell that ran twice knows it"
    return ""


def found_in(test: Test, rows: Rows) -> list[protocol.Node]:
    """The operations of ``rows`` that ``test`` finds, in their order."""
    return [node for node in rows.document["nodes"] if is_found(test, rows, node)]
