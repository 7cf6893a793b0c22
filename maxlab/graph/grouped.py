"""The subgraphs that a graph calls, in its document: what is one subgraph, and called several
times, is one still when the document is opened.

The operations of a call are written into the graph, so a document says what they are a call *of*:
the bodies of the subgraphs, each once, those that others call first, and for each call which
operations are those of which body. A call whose operations are not those of its body any more, as
when somebody changed one of them in the text, is none: its operations stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from maxlab.errors import shown
from maxlab.graph.calling import apart, holding_now
from maxlab.graph.notes import Refuse, is_texts
from maxlab.ir import Call, Function
from maxlab.ir.function_json import Json, Reader, Writer

_PATH = "groups/"


@dataclass(frozen=True, slots=True)
class SavedCall:
    """A call as a document has it, of the body number ``of``."""

    of: int
    ids: dict[str, str]
    weights: dict[str, str]
    operands: tuple[str, ...]
    results: tuple[str, ...]
    scope: str


@dataclass(frozen=True, slots=True)
class Groups:
    """The subgraphs of a document: their bodies, the calls of each of them, the classes of the
    modules in each of them by their scopes, and the calls of the graph.
    """

    bodies: tuple[Function, ...]
    inner: tuple[tuple[SavedCall, ...], ...]
    scopes: tuple[Mapping[str, str], ...]
    calls: tuple[SavedCall, ...]


# ---------------------------------------------------------------- writing
def groups_data(
    function: Function, writer: Writer, scopes: Mapping[Function, Mapping[str, str]]
) -> Json | None:
    """The subgraphs that ``function`` calls, as they stand in a document; None without any.

    Args:
        function: The operations of a graph.
        writer: Writes the bodies.
        scopes: The classes of the modules in each body, by their scopes.
    """
    if not function.calls:
        return None
    numbers: dict[Function, int] = {}
    _gather(function, numbers)
    bodies = [
        {
            **writer.function(body, f"{_PATH}{number}/"),
            **({"calls": _calls_data(_in_order(body), numbers)} if body.calls else {}),
            **({"scopes": dict(scopes[body])} if scopes.get(body) else {}),
        }
        for body, number in numbers.items()
    ]
    return {"calls": _calls_data(_in_order(function), numbers), "subgraphs": bodies}


def _gather(function: Function, numbers: dict[Function, int]) -> None:
    for call in _in_order(function):
        if call.body not in numbers:
            _gather(call.body, numbers)
            numbers[call.body] = len(numbers)


def _in_order(function: Function) -> list[Call]:
    """The calls of ``function`` by where they stand: undo may know them in another order."""
    places = {op.id: place for place, op in enumerate(function.walk())}
    return sorted(
        apart(function.calls),
        key=lambda call: min((places.get(id, 0) for id in call.ids.values()), default=0),
    )


def _calls_data(calls: Iterable[Call], numbers: dict[Function, int]) -> list[Json]:
    made = []
    for call in calls:
        data: Json = {"ids": call.ids, "of": numbers[call.body], "operands": list(call.operands)}
        data["results"] = list(call.results)
        if call.weights:
            data["weights"] = call.weights
        if call.scope:
            data["scope"] = call.scope
        made.append(data)
    return made


def joined(ours: Json, theirs: Json) -> Json:
    """The subgraphs of both of two documents: each body once, and each call."""
    made: Json = {**theirs, **ours}
    made["subgraphs"] = bodies = list(ours.get("subgraphs", []))
    numbers: list[int] = []

    def moved(calls: Iterable[Json]) -> list[Json]:
        return [{**call, "of": numbers[call["of"]]} for call in calls]

    for body in theirs.get("subgraphs", []):
        own = {**body, "calls": moved(body["calls"])} if "calls" in body else body
        if own not in bodies:
            bodies.append(own)
        numbers.append(bodies.index(own))
    calls = list(ours.get("calls", []))
    made["calls"] = calls + [call for call in moved(theirs.get("calls", [])) if call not in calls]
    return made


# ---------------------------------------------------------------- reading
def read_groups(data: Any, reader: Reader, refuse: Refuse) -> Groups:
    """The subgraphs in ``data``, the groups of a document. The bodies are not verified yet."""
    if not isinstance(data, dict):
        refuse(f"the groups are {shown(data)}, expected an object", "groups")
    entries = data.get("subgraphs", [])
    if not isinstance(entries, list):
        refuse(f"the subgraphs of the groups are {shown(entries)}, expected a list", "groups")
    bodies: list[Function] = []
    inner, scopes = [], []
    for number, entry in enumerate(entries):
        if not isinstance(entry, dict):
            refuse(f"a subgraph of the groups is {shown(entry)}, expected an object", "groups")
        own = {key: value for key, value in entry.items() if key not in ("calls", "scopes")}
        bodies.append(reader.function(own, f"{_PATH}{number}/"))
        inner.append(_read_calls(entry.get("calls", []), number, refuse))
        classes = entry.get("scopes", {})
        if not is_texts(classes):
            refuse(f"the scopes of a subgraph are {shown(classes)}, expected texts", "groups")
        scopes.append(classes)
    calls = _read_calls(data.get("calls", []), len(bodies), refuse)
    return Groups(tuple(bodies), tuple(inner), tuple(scopes), calls)


def _read_calls(data: Any, known: int, refuse: Refuse) -> tuple[SavedCall, ...]:
    """The calls of ``data``, of one of the first ``known`` bodies each."""
    if not isinstance(data, list):
        refuse(f"the calls of the groups are {shown(data)}, expected a list", "groups")
    made = []
    for entry in data:
        if not isinstance(entry, dict):
            refuse(f"a call of the groups is {shown(entry)}, expected an object", "groups")
        of = entry.get("of")
        if of.__class__ is not int or not 0 <= of < known:
            refuse(f"a call is of the subgraph {shown(of)}, and {known} are before it", "groups")
        for name in ("ids", "weights"):
            if not is_texts(entry.get(name, {})):
                refuse(f"the {name} of a call are {shown(entry[name])}, expected texts", "groups")
        for name in ("operands", "results"):
            if not _are_texts(entry.get(name, [])):
                refuse(f"the {name} of a call are {shown(entry[name])}, expected ids", "groups")
        scope = entry.get("scope", "")
        if not isinstance(scope, str):
            refuse(f"the scope of a call is {shown(scope)}, expected a text", "groups")
        made.append(
            SavedCall(
                of,
                dict(entry.get("ids", {})),
                dict(entry.get("weights", {})),
                tuple(entry.get("operands", [])),
                tuple(entry.get("results", [])),
                scope,
            )
        )
    return tuple(made)


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def calls_of(
    function: Function, saved: Sequence[SavedCall], bodies: Sequence[Function]
) -> list[Call]:
    """Those of ``saved`` whose operations in ``function`` are those of their body in ``bodies``."""
    known = {value.id: value for value in function.inputs}
    known.update((value.id, value) for op in function.ops for value in op.results)
    made = []
    for one in saved:
        body = bodies[one.of]
        given = [known.get(id) for id in one.operands]
        fits = len(given) == len(body.inputs) and all(
            value is not None and value.type == wanted.type
            for value, wanted in zip(given, body.inputs, strict=True)
        )
        if fits:
            made.append(Call(body, one.ids, one.weights, one.operands, one.results, one.scope))
    return holding_now(function, made)


__all__ = ["Groups", "SavedCall", "calls_of", "groups_data", "joined", "read_groups"]
