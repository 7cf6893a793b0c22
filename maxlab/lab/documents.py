"""Documents for those below the notebook side, and documents that came from elsewhere.

The declarations of ``protocol`` are what a document is checked against, so a document that passes
has every field, of the declared type, that views and listings read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from maxlab.engine import Model
from maxlab.engine.profile import Profile
from maxlab.errors import DocumentError
from maxlab.graph import Graph
from maxlab.lab import protocol
from maxlab.lab.protocol import reader
from maxlab.lab.snapshot import take, without_times


def document_of(shown: Graph | Model | Profile) -> protocol.GraphDocument:
    """The document of ``shown`` with all generated text."""
    return without_times(take(shown, sources=True).document)


def checked_document(value: Any) -> protocol.GraphDocument:
    """``value``, a graph document read from JSON, when it is one.

    Raises:
        DocumentError: ML845, it is not: a field is missing or of another type, or something is
            named that is not there.
    """
    try:
        reader.check(value, protocol.GraphDocument, closed=False)
    except reader.MismatchError as mismatch:
        _refuse(str(mismatch))
    document: protocol.GraphDocument = value
    if document["format"] != protocol.FORMAT or document["version"] > protocol.VERSION:
        _refuse(f"it is of the version {document['version']} of {document['format']}")
    values = _unique("value", (v["id"] for v in document["values"]))
    nodes = _unique("op", (n["id"] for n in document["nodes"]))
    for node in document["nodes"]:
        _known(f"the op {node['id']}", (*node["operands"], *node["results"]), values)
    _known("the graph", (*document["inputs"], *document["outputs"]), values)
    for kernel in document["kernels"]:
        _known(f"the kernel {kernel['id']}", kernel["nodes"], nodes)
    profile = document["profile"]
    for timed in profile["kernels"] if profile is not None else []:
        _known(f"the profile of {timed['id']}", timed["nodes"], nodes)
    return document


def _unique(what: str, ids: Iterable[str]) -> set[str]:
    found: set[str] = set()
    for id in ids:
        if id in found:
            _refuse(f"two of the {what}s have the id {id[:40]!r}")
        found.add(id)
    return found


def _known(what: str, ids: Iterable[str], known: set[str]) -> None:
    for id in ids:
        if id not in known:
            _refuse(f"{what[:60]} names {id[:40]!r}, which is not there")


def _refuse(why: str) -> NoReturn:
    raise DocumentError(
        "ML845",
        f"this is no graph document: {why}",
        fix="save the run again with profile.save, and leave the file as it is",
    )
