"""Notes that people laid beside a graph, in the form of a view: places, folds, comments, drafts and
conflicts.
"""

from __future__ import annotations

from typing import TypeVar

from maxlab.graph.conflicts import CONFLICTS, Conflicts, told
from maxlab.graph.notes import COMMENTS, DRAFTS, FOLDS, PLACES, Comments, Drafts, Folds, Places
from maxlab.ir import Function
from maxlab.lab import protocol

MOST_PARTS = 20
"""Of the things that a conflict is about, how many a view is told of."""


def noted(
    document: protocol.GraphDocument,
    function: Function,
    before: protocol.GraphDocument | None = None,
) -> protocol.GraphDocument:
    """``document`` with the notes of ``function``.

    Args:
        document: A document of the function.
        function: What has the notes.
        before: The document that it follows: what that has is named in this too, so that a
            difference leads from the one to the other.
    """
    if not function.notes and before is None:
        return document
    made: protocol.GraphDocument = {**document}
    places = _same(_places(function), before, "places")
    if places is not None:
        made["places"] = places
    folds = dict(Folds(function, FOLDS))
    if folds or (before is not None and "folds" in before):
        made["folds"] = folds
    comments = _same(_comments(function), before, "comments")
    if comments is not None:
        made["comments"] = comments
    drafts = _same(_drafts(function), before, "drafts")
    if drafts is not None:
        made["drafts"] = drafts
    conflicts = _same(_conflicts(function), before, "conflicts")
    if conflicts is not None:
        made["conflicts"] = conflicts
    return made


T = TypeVar("T")


def _same(found: list[T], before: protocol.GraphDocument | None, name: str) -> list[T] | None:
    """``found``; None where there is nothing, and was nothing before."""
    return found if found or (before is not None and name in before) else None


def _places(function: Function) -> list[protocol.Place]:
    return [
        {"key": key, "x": place.x, "y": place.y, "pinned": place.pinned}
        for key, place in Places(function, PLACES).items()
    ]


def _comments(function: Function) -> list[protocol.Comment]:
    return [
        {"id": one.id, "text": one.text, "on": one.on, "x": one.x, "y": one.y}
        for one in Comments(function, COMMENTS)
    ]


def _drafts(function: Function) -> list[protocol.Draft]:
    return [
        {
            "id": one.id,
            "name": one.name,
            "reason": one.reason,
            "operands": list(one.operands),
            "attrs": dict(one.attrs),
        }
        for one in Drafts(function, DRAFTS)
    ]


def _conflicts(function: Function) -> list[protocol.Conflict]:
    return [
        {
            "id": one.id,
            "kind": one.kind,
            "says": one.says,
            "on": list(one.on),
            "parts": [
                {
                    "what": part.what,
                    "base": told(part.base),
                    "ours": told(part.ours),
                    "theirs": told(part.theirs),
                }
                for part in one.parts[:MOST_PARTS]
            ],
        }
        for one in Conflicts(function, CONFLICTS)
    ]


__all__ = ["noted"]
