"""Numbers of the user's own, by which views colour a graph.

An overlay belongs to a graph: all views of it, of its models and of their profiles offer it, and
whatever is saved or exported of them has it. The user names operations; a document has their ids,
found anew for each document, because a graph may lose operations after it got an overlay.

A file is JSON: ``{"format": "maxlab.overlay", "version": 1, "title": "error", "values": {"mul":
0.7}}``, and, where wanted, ``unit``, ``low``, ``high``, ``colors`` and ``combine``.
"""

from __future__ import annotations

import difflib
import json
import math
import os
import weakref
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn, cast

from maxlab.analysis.runs.shown import Recorded
from maxlab.engine import Model
from maxlab.engine.profile import Profile
from maxlab.errors import ArgumentError, DocumentError
from maxlab.graph import Graph
from maxlab.ir.cells import running_cell
from maxlab.lab import protocol

Shown = Graph | Model | Profile | Recorded
Colors = Literal["sequential", "diverging"]
Combine = Literal["sum", "max"]

FORMAT = "maxlab.overlay"
VERSION = 1

MOST_BYTES = 64 << 20
"""Of a file with an overlay."""

RECENT = 64
"""Cells whose overlays are remembered for their next run."""

FIELDS = ("title", "unit", "low", "high", "colors", "combine")
"""Of an overlay, besides its values."""


@dataclass(frozen=True)
class Overlay:
    """An overlay as the user gave it.

    Attributes:
        title: What the numbers are.
        values: A number by the name of an operation or scope.
        unit: What follows each number.
        low: The number at the lower end of the colours; None for what fits the numbers.
        high: The number at the upper end; None likewise.
        colors: Those of heat, or two hues around zero.
        combine: What a folded box shows of the numbers in it.
    """

    title: str
    values: Mapping[str, float]
    unit: str = ""
    low: float | None = None
    high: float | None = None
    colors: Colors = "sequential"
    combine: Combine = "sum"


@dataclass(eq=False)
class _Kept:
    """The overlays of one graph, by title, the newest last."""

    by_title: dict[str, Overlay] = field(default_factory=dict)


_kept: dict[int, _Kept] = {}
_cells: OrderedDict[tuple[str, str], tuple[str, _Kept]] = OrderedDict()
_listeners: list[Callable[[Any], None]] = []


def on_change(listener: Callable[[Any], None]) -> None:
    """Call ``listener(owner)`` whenever ``owner``, as ``owner_of`` says, gets an overlay."""
    _listeners.append(listener)


def owner_of(shown: Shown) -> Any:
    """The owner of the overlays of ``shown``: its graph, or the saved thing without one."""
    if isinstance(shown, Profile):
        return shown.model.graph
    return shown.graph if isinstance(shown, Model) else shown


def _kept_of(shown: Shown) -> _Kept:
    owner = owner_of(shown)
    found = _kept.get(id(owner))
    if found is None:
        found = _kept[id(owner)] = _Kept()
        weakref.finalize(owner, _kept.pop, id(owner), None)
    return found


def keep(shown: Shown, overlay: Overlay) -> None:
    """Let ``shown``, and all that is of the same graph, have ``overlay``."""
    kept = _kept_of(shown).by_title
    kept.pop(overlay.title, None)
    kept[overlay.title] = overlay
    for listener in _listeners:
        listener(owner_of(shown))


def of_text(text: str, name: str) -> Overlay:
    """The overlay in ``text``, that of the file ``name``.

    Raises:
        DocumentError: ML896, it is none.
    """
    try:
        read = json.loads(text)
    except ValueError as error:
        _refuse_file(name, f"it is not JSON: {error}")
    if not isinstance(read, dict) or read.get("format") != FORMAT:
        _refuse_file(name, f'it does not say "format": "{FORMAT}"')
    if read.get("version") != VERSION:
        _refuse_file(name, f"it is of version {read.get('version')!r}, and {VERSION} is known")
    unknown = sorted(set(read) - {"format", "version", "values", *FIELDS})
    if unknown:
        _refuse_file(name, f"{unknown[0]!r} is no field of an overlay")
    fields = {key: read[key] for key in FIELDS if key in read}
    fields.setdefault("title", os.path.basename(name).removesuffix(".json"))
    try:
        return checked(fields, read.get("values"))
    except ArgumentError as error:
        _refuse_file(name, error.what)


def checked(fields: Mapping[str, Any], values: Any) -> Overlay:
    """The overlay of ``fields`` and ``values``.

    Raises:
        ArgumentError: ML895, they make none.
    """
    if not isinstance(values, Mapping) or not values:
        _refuse(f"numbers by the names of operations are wanted, got {values!r:.60}")
    numbers = {str(name): _number(f"the number of {name!r}", n) for name, n in values.items()}
    made = dict(fields)
    for key in ("title", "unit"):
        if not isinstance(made.get(key, ""), str):
            _refuse(f"the {key} is a text, got {made[key]!r:.60}")
    for key, known in (("colors", ("sequential", "diverging")), ("combine", ("sum", "max"))):
        if made.get(key, known[0]) not in known:
            _refuse(f"{key} is {known[0]!r} or {known[1]!r}, got {made[key]!r:.60}")
    for key in ("low", "high"):
        if made.get(key) is not None:
            made[key] = _number(key, made[key])
    overlay = Overlay(values=numbers, **made)
    low, high = _range(overlay, list(numbers.values()))
    if low >= high and (overlay.low is not None or overlay.high is not None):
        _refuse(f"the range ends below its beginning: from {low:g} to {high:g}")
    return overlay


def _number(what: str, value: Any) -> float:
    try:
        number = float(value) if not isinstance(value, (str, bytes, bool)) else math.nan
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        _refuse(f"{what} is finite, got {value!r:.60}")
    return number


def _refuse(why: str) -> NoReturn:
    fix = "see help(graph.overlay)"
    raise ArgumentError("ML895", f"this is no overlay: {why}", fix=fix)


def _refuse_file(name: str, why: str) -> NoReturn:
    raise DocumentError(
        "ML896",
        f"the file {os.path.basename(name)!r} holds no overlay: {why}",
        fix='write {"format": "maxlab.overlay", "version": 1, "title": …, "values": {…}}',
    )


def _range(overlay: Overlay, numbers: list[float]) -> tuple[float, float]:
    least, most = min(numbers, default=0.0), max(numbers, default=0.0)
    if overlay.colors == "diverging":
        away = max(abs(least), abs(most))
        low = -away if overlay.low is None else overlay.low
        return low, away if overlay.high is None else overlay.high
    low = min(0.0, least) if overlay.low is None else overlay.low
    return low, most if overlay.high is None else overlay.high


# ---------------------------------------------------------------- names


class _Names:
    """The objects behind the names of a document's operations and scopes."""

    def __init__(self, document: protocol.GraphDocument) -> None:
        self.scopes = {scope["path"] for scope in document["scopes"]}
        self.ids = {node["id"] for node in document["nodes"]}
        self._named: dict[str, list[str]] = defaultdict(list)
        for node in document["nodes"]:
            inside = f"{node['scope']}." if node["scope"] else ""
            names = {node["name"], node["op"], inside + node["name"], inside + node["op"]}
            source = node["source"]
            if source is not None:
                file, line = source["file"].replace("\\", "/"), source["line"]
                names |= {f"{file}:{line}", f"{file.rpartition('/')[2]}:{line}"}
            for name in names:
                self._named[name].append(node["id"])

    def found(self, name: str) -> tuple[Literal["node", "scope"], list[str]]:
        """The kind and the ids, or the path, of what is called ``name``."""
        if name in self.ids:
            return "node", [name]
        if name in self.scopes:
            return "scope", [name]
        return "node", self._named.get(name, [])

    def nearest(self, name: str) -> list[str]:
        """Names that look like ``name``."""
        return difflib.get_close_matches(name, [*self._named, *self.scopes, *self.ids], 3)


def resolved(
    document: protocol.GraphDocument, overlay: Overlay, *, is_strict: bool = False
) -> protocol.Overlay:
    """``overlay`` with the ids of ``document``. What is no longer there is left out.

    Raises:
        ArgumentError: ML893 or ML894, with ``is_strict``: a name is that of nothing, or of several.
    """
    names = _Names(document)
    values: dict[str, float] = {}
    scopes: dict[str, float] = {}
    for name, number in overlay.values.items():
        kind, ids = names.found(name)
        if len(ids) == 1:
            (scopes if kind == "scope" else values)[ids[0]] = number
        elif is_strict:
            raise _unknown(document, names, name, ids)
    low, high = _range(overlay, [*values.values(), *scopes.values()])
    return {
        "title": overlay.title,
        "unit": overlay.unit,
        "values": values,
        "scopes": scopes,
        "low": low,
        "high": high,
        "colors": overlay.colors,
        "combine": overlay.combine,
    }


def _unknown(
    document: protocol.GraphDocument, names: _Names, name: str, ids: list[str]
) -> ArgumentError:
    graph = document["name"]
    if not ids:
        near = ", ".join(repr(one) for one in names.nearest(name))
        fix = f"the nearest names are {near}" if near else "print(graph) lists the ids"
        return ArgumentError("ML893", f"the graph {graph!r} has no op {name!r:.80}", fix=fix)
    listed = ", ".join(repr(one) for one in ids[:3]) + (", …" if len(ids) > 3 else "")
    return ArgumentError(
        "ML894",
        f"{name!r:.80} names {len(ids)} ops of the graph {graph!r}, and one is wanted",
        fix=f"name one of them by its id: {listed}",
    )


# ---------------------------------------------------------------- documents


def dressed(document: protocol.GraphDocument, shown: Shown) -> protocol.GraphDocument:
    """``document``, one of ``shown``, with the overlays that ``shown`` has now."""
    kept = _kept.get(id(owner_of(shown)))
    if kept is None or not kept.by_title:
        return document
    found = [resolved(document, overlay) for overlay in kept.by_title.values()]
    if found == document.get("overlays"):
        return document
    made = dict(document)
    made["overlays"] = found
    return cast("protocol.GraphDocument", made)


def carried(shown: Shown, name: str) -> bool:
    """Whether ``shown``, called ``name``, which the running cell shows, took over the overlays of
    what the cell showed under that name in the run before. It does when it has none of its own."""
    cell, run = running_cell()
    if not cell:
        return False
    key = (cell, name)
    before_run, before = _cells.pop(key, (run, _Kept()))
    now = _kept_of(shown)
    took = before_run != run and not now.by_title and bool(before.by_title)
    if took:
        now.by_title.update(before.by_title)
    _cells[key] = (run, now)
    while len(_cells) > RECENT:
        _cells.popitem(last=False)
    return took
