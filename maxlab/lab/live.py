"""Which graphs and models live in this process: what the side panel of JupyterLab lists."""

from __future__ import annotations

import base64
import json
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal

from maxlab.engine import Model
from maxlab.engine.model import LIVE as MODELS
from maxlab.errors import ArgumentError
from maxlab.graph import Graph
from maxlab.graph.graph import LIVE as GRAPHS
from maxlab.lab.protocol import LiveListing
from maxlab.opset import operations

_numbers = count(1)
_ids: weakref.WeakKeyDictionary[Graph | Model, str] = weakref.WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class LiveObject:
    """A graph or model that something still refers to.

    Attributes:
        id: Stays the same for the life of the object, and is never given to another one.
        kind: ``"Graph"`` or ``"Model"``.
        title: The name that it was built with.
        names: The variables that hold it, sorted.
        stamp: Changes whenever a view of it would: with its revision, and with a new profile.
        ops: Ops of the graph.
    """

    id: str
    kind: Literal["Graph", "Model"]
    title: str
    names: tuple[str, ...]
    stamp: str
    ops: int


def listing(namespace: Mapping[str, Any] | None = None) -> list[LiveObject]:
    """The graphs and models of this process, the oldest first.

    Args:
        namespace: Where to look for the names of variables, such as ``globals()``; names that start
            with an underscore do not count.
    """
    names: dict[int, list[str]] = {}
    for name, value in list((namespace or {}).items()):
        if not name.startswith("_") and isinstance(value, (Graph, Model)):
            names.setdefault(id(value), []).append(name)
    found = []
    for obj in _alive():
        function = obj.function if isinstance(obj, Graph) else obj.compiled.source
        found.append(
            LiveObject(
                id=id_of(obj),
                kind="Graph" if isinstance(obj, Graph) else "Model",
                title=str(obj.name),
                names=tuple(sorted(names.get(id(obj), []))),
                stamp=f"{id_of(obj)}.{obj.revision}",
                ops=operations(function),
            )
        )
    return sorted(found, key=lambda item: int(item.id[1:]))


def _alive() -> list[Graph | Model]:
    """All live graphs and models. Those of subgraphs are part of their graph."""
    return [*GRAPHS, *MODELS]


def id_of(obj: Graph | Model) -> str:
    """The id of ``obj`` in this process, for its life."""
    known = _ids.get(obj)
    if known is None:
        known = _ids[obj] = f"{'g' if isinstance(obj, Graph) else 'm'}{next(_numbers)}"
    return known


def find(id: str) -> Graph | Model:
    """The live object with this id.

    Raises:
        ArgumentError: ML807, there is none any more.
    """
    for obj in _alive():
        if _ids.get(obj) == id:
            return obj
    raise ArgumentError(
        "ML807",
        f"no live graph or model has the id {id!r}",
        fix="list what is live again; what was deleted is gone",
    )


def answer(namespace: Mapping[str, Any] | None = None) -> str:
    """``listing`` as base64 of JSON: text whose ``repr`` a front end can read without unquoting."""
    told: LiveListing = [
        {
            "id": item.id,
            "kind": item.kind,
            "title": item.title,
            "names": list(item.names),
            "stamp": item.stamp,
            "ops": item.ops,
        }
        for item in listing(namespace)
    ]
    return _encoded(told)


def mark_cells() -> str:
    """Mark this kernel's cells and runs in its session's recording from now on; empty text, for the
    front end that asks. Nothing is written while nothing records."""
    from maxlab.diagnostics.monitor import Monitor, marks

    marks.attach(Monitor().folder, in_cell=False)
    return ""


def _encoded(value: Any) -> str:
    return base64.b64encode(json.dumps(value).encode()).decode()
