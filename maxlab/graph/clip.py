"""Clips: operations as a text that is copied from one graph and pasted into another.

A clip is JSON, written as documents are, one operation a line::

    {"format": "maxlab.clip", "version": 1, "from": {"graph": "…", "reads": ["v2"]},
     "graph": {"inputs": [{"id": "a0", "name": "x", "type": "…"}], "ops": […]},
     "layout": {"places": {"n0": {"x": 40, "y": 120}}}}

Its inputs are what the operations read from outside, with names and types; ``from`` says which
graph it was copied from, and what they were there. It has no lines of programs. Reading one runs
nothing and declares no kernel.
"""

from __future__ import annotations

import uuid
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from maxlab.errors import GraphError, MaxlabError, ParseError, shown
from maxlab.graph.document import contents
from maxlab.graph.document_json import dump, load, refusal
from maxlab.graph.excerpt import excerpt, read_by, with_inner
from maxlab.graph.files import functions_of
from maxlab.graph.graph import Graph
from maxlab.graph.notes import PLACES, Place, Places
from maxlab.ir import Function, Op
from maxlab.ir.function_json import Writer
from maxlab.opset.verify import verify

FORMAT: Final = "maxlab.clip"
VERSION: Final = 1
MOST_OPS: Final = 1 << 16
"""Operations, with those of regions, that are pasted at once."""
MOST_BYTES: Final = 64 << 20
_WHERE: Final = "what is pasted"

_tokens: weakref.WeakKeyDictionary[Graph, str] = weakref.WeakKeyDictionary()


def token_of(graph: Graph) -> str:
    """A token that no other graph has, in this process or another."""
    return _tokens.setdefault(graph, uuid.uuid4().hex)


class Clip(NamedTuple):
    """The content of a text that is pasted.

    Attributes:
        function: The operations; its inputs are what they read from outside.
        places: Where they were drawn, by their ids.
        graph: The token of the graph that they were copied from; empty where it does not tell.
        reads: The ids of what they read there.
    """

    function: Function
    places: Mapping[str, Place]
    graph: str = ""
    reads: Sequence[str] = ()


def written(graph: Graph, order: Sequence[Op]) -> str:
    """The clip of ``order``, operations of ``graph`` in their order.

    Raises:
        GraphError: ML355, one has an attribute that is of this process alone; ML819, the clip would
            be larger than what is read.
    """
    made = excerpt(order, graph.name)
    for op in with_inner(made.function.ops):
        op.set_source(origins=(op.id,))
        op.loc = None
    outside = read_by(order)
    for own, value in zip(made.function.inputs, outside, strict=True):
        own.name = value.name
    writer = Writer({})
    data: dict[str, Any] = {
        "format": FORMAT,
        "from": {"graph": token_of(graph), "reads": [value.id for value in outside]},
        "graph": writer.function(made.function),
        "version": VERSION,
    }
    if writer.constants:
        data["constants"] = writer.constants
    known = graph.document.places
    places = {
        new: {"x": known[old].x, "y": known[old].y, "pinned": known[old].pinned}
        for old, new in made.ids.items()
        if old in known
    }
    if places:
        data["layout"] = {"places": places}
    text = dump(data)
    if len(text) > MOST_BYTES:
        raise GraphError(
            "ML819",
            f"the clip would have {len(text):,} characters, and at most {MOST_BYTES:,} are pasted",
            fix="leave large constants out, or make them weights: their data is not copied",
        )
    return text


def read(text: str) -> Clip:
    """The clip that ``text`` is; of a graph that was saved, all of it.

    Raises:
        ParseError: ML819, it is neither, or of a newer version, or too large.
    """
    if not isinstance(text, str):
        raise _wrong(f"it is {shown(text)}, and no text")
    if len(text) > MOST_BYTES:
        raise _wrong(f"it has {len(text):,} characters, and at most {MOST_BYTES:,} are read")
    try:
        clip = _clip(text)
        if clip is None:
            found = functions_of(text, _WHERE)
            if len(found) != 1:
                raise _wrong(f"it has {len(found)} graphs, and one can be pasted")
            function, _ = found[0]
            clip = Clip(function, Places(function, PLACES))
            count = sum(1 for _ in function.walk())
            if count > MOST_OPS:
                raise _wrong(f"it has {count:,} operations, and at most {MOST_OPS:,} are read")
        else:
            verify(clip.function)
    except MaxlabError as error:
        if error.code == "ML819":
            raise
        what = error.what.removeprefix(f"{_WHERE} ").replace("the document", "the text")
        raise _wrong(what, at=error.at) from error
    return clip


def _clip(text: str) -> Clip | None:
    """The clip of ``text``; None where it is something else."""
    if text.lstrip()[:1] != "{":
        if text.lstrip().startswith("mo.graph @"):
            raise _wrong(
                "it is a listing, as print(graph) writes it, in which constants are cut short"
            )
        return None
    data = load(text, _WHERE)
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        return None
    version = data.get("version")
    if version.__class__ is not int or version < 1:
        raise refusal(text, _WHERE, f"the version is {shown(version)}", "version")
    if version > VERSION:
        raise _wrong(
            f"it is of version {shown(version)}; this maxlab reads versions up to {VERSION}",
            fix="pip install -U maxlab",
        )
    function, _ = contents(data, text, _WHERE, MOST_OPS)
    places = Places(function, PLACES)
    origin = data.get("from")
    told = origin if isinstance(origin, dict) else {}
    graph, reads = told.get("graph"), told.get("reads")
    if not isinstance(graph, str) or not isinstance(reads, list):
        return Clip(function, places)
    return Clip(function, places, graph, [id if isinstance(id, str) else "" for id in reads])


def _wrong(what: str, *, at: Any = None, fix: str = "") -> ParseError:
    return ParseError(
        "ML819",
        f"this cannot be pasted: {what}",
        at=at,
        fix=fix or "copy operations in a view, or with editor.copy, and paste them as they are",
    )


__all__ = ["FORMAT", "MOST_BYTES", "MOST_OPS", "VERSION", "Clip", "read", "token_of", "written"]
