"""Notes on boxes follow what is in them: a box has another path when groups are made or dissolved
around it, or when another of its name is made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from maxlab.graph import Editor, Graph, Place
from maxlab.lab.protocol.document import Place as Given
from maxlab.lab.regions import listed
from maxlab.lab.scopes import Paths

_BOX = "box:"

Members = Mapping[str, frozenset[str]]
"""The ids of the operations in each box, by the path of the box in a view."""


def members(graph: Graph) -> Members:
    """The operations in each box of a view of ``graph``."""
    found = listed(graph.function, graph.scope_types)
    paths = Paths([one.scope for one in found.ops], {**found.functions, **found.modules})
    made: dict[str, set[str]] = {}
    for one in found.ops:
        parts = paths.of(one.scope).split(".")
        for count in range(1, len(parts) + 1):
            made.setdefault(".".join(parts[:count]), set()).add(one.op.id)
    made.pop("", None)
    return {path: frozenset(ids) for path, ids in made.items()}


@contextmanager
def followed(editor: Editor) -> Iterator[Members]:
    """A ``with`` block whose changes are one step, in which boxes get other paths: their places,
    comments and folds go with them. Of a box that is no more, comments go to its first operation.
    """
    document = editor.graph.document
    before = members(editor.graph)
    with editor.step():
        yield before
        noted = [key[len(_BOX) :] for key in document.places if key.startswith(_BOX)]
        noted += [c.on[len(_BOX) :] for c in document.comments if c.on.startswith(_BOX)]
        noted += list(document.folds)
        if not noted:
            return
        after = members(editor.graph)
        now = {path: _same(path, before, after) for path in noted if path in before}
        moved = {path: to for path, to in now.items() if path != to}
        places = {path: document.places.pop(_BOX + path, None) for path in moved}
        folds = {path: document.folds.pop(path, None) for path in moved}
        for path, to in moved.items():
            place, fold = places[path], folds[path]
            if to and place is not None:
                document.places[_BOX + to] = place
            if to and fold is not None:
                document.folds[to] = fold
        first = _first(editor.graph, (before[path] for path in moved))
        for number, comment in enumerate(document.comments):
            path = comment.on.removeprefix(_BOX)
            if comment.on.startswith(_BOX) and path in moved:
                on = _BOX + moved[path] if moved[path] else first.get(before[path], "")
                document.comments[number] = replace(comment, on=on)


def put(editor: Editor, places: Iterable[Given], box: str = "") -> None:
    """Draw things where a view says that they stand; a place without a key is that of ``box``.

    To be called in the block of `followed`: boxes go by the paths that they had before.
    """
    made = {}
    for one in places:
        key = one["key"] or f"{_BOX}{box}"
        if key != _BOX:
            made[key] = Place(x=one["x"], y=one["y"], pinned=one["pinned"])
    if made:
        editor.place_all(made)


def _same(path: str, before: Members, after: Members) -> str:
    """The path that the box ``path`` has now; empty where there is none."""
    if after.get(path) == before[path]:
        return path
    found = [other for other, ids in after.items() if ids == before[path]]
    label = path.rpartition(".")[2]
    alike = [other for other in found if label in other.split(".")[-2:]]
    return (alike or found or [""])[0]


def _first(graph: Graph, sets: Iterable[frozenset[str]]) -> dict[frozenset[str], str]:
    order = [op.id for op in graph.function.ops]
    return {ids: next((id for id in order if id in ids), "") for ids in sets}


__all__ = ["Members", "followed", "members", "put"]
