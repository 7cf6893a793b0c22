"""Documents for those below the notebook side, and documents that came from elsewhere.

The declarations of ``protocol`` are what a document is checked against, so a document that passes
has every field, of the declared type, that views and listings read.
"""

from __future__ import annotations

import math
import types
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Literal, NoReturn, NotRequired, Union, get_args, get_origin, get_type_hints
from typing import is_typeddict as is_record

from maxlab.engine import Model
from maxlab.engine.profile import Profile
from maxlab.errors import DocumentError
from maxlab.graph import Graph
from maxlab.lab import protocol
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
    _check("the document", value, protocol.GraphDocument)
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


@cache
def _fields(record: Any) -> tuple[tuple[str, Any, bool], ...]:
    """The fields of a declaration: name, type, and whether it may be missing."""
    found = []
    for name, kind in get_type_hints(record, include_extras=True).items():
        is_optional = get_origin(kind) is NotRequired
        found.append((name, get_args(kind)[0] if is_optional else kind, is_optional))
    return tuple(found)


def _check(where: str, value: Any, kind: Any) -> None:
    """Refuse ``value`` unless it is of the declared type ``kind``."""
    if kind is object or kind is Any:
        return
    if is_record(kind):
        if not isinstance(value, dict):
            _mismatch(where, "an object", value)
        for name, inner, is_optional in _fields(kind):
            if name in value:
                _check(f"{name} of {where}" if len(where) < 80 else where, value[name], inner)
            elif not is_optional:
                _refuse(f"{where} has no {name!r}")
        return
    origin, inside = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if not any(_fits(value, one) for one in inside):
            _mismatch(where, "something else", value)
        for one in inside:
            if _fits(value, one):
                _check(where, value, one)
                return
    elif origin is Literal:
        if value not in inside:
            _mismatch(where, " or ".join(repr(one) for one in inside), value)
    elif origin is list:
        if not isinstance(value, (list, tuple)):
            _mismatch(where, "a list", value)
        for one in value:
            _check(where, one, inside[0])
    elif origin is tuple:
        if not isinstance(value, (list, tuple)) or len(value) != len(inside):
            _mismatch(where, f"a list of {len(inside)}", value)
        for one, part in zip(value, inside, strict=True):
            _check(where, one, part)
    elif origin is dict:
        if not isinstance(value, Mapping):
            _mismatch(where, "an object", value)
        for one in value.values():
            _check(where, one, inside[1])
    elif not _fits(value, kind):
        _mismatch(where, getattr(kind, "__name__", str(kind)), value)


def _fits(value: Any, kind: Any) -> bool:
    """Whether the outermost of ``value`` is of the type ``kind``."""
    if kind is None or kind is type(None):
        return value is None
    if kind is float:
        return isinstance(value, (int, float)) and type(value) is not bool and _is_finite(value)
    if kind is int:
        return type(value) is int and _is_finite(value)
    if isinstance(kind, type) and not is_record(kind):
        return isinstance(value, kind)
    if is_record(kind) or get_origin(kind) is dict:
        return isinstance(value, dict)
    if get_origin(kind) in (list, tuple):
        return isinstance(value, (list, tuple))
    return kind in (object, Any)


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _mismatch(where: str, wanted: str, value: Any) -> NoReturn:
    _refuse(f"{where} is {type(value).__name__}, expected {wanted}")


def _refuse(why: str) -> NoReturn:
    raise DocumentError(
        "ML845",
        f"this is no graph document: {why}",
        fix="save the run again with profile.save, and leave the file as it is",
    )
