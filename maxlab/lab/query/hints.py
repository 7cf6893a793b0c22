"""Which value of a query nothing can have, and what it may have been meant as."""

from __future__ import annotations

from collections.abc import Iterator

from maxlab.lab import protocol
from maxlab.lab.protocol.query import QUERY_DTYPES
from maxlab.lab.query.syntax import All, Has, Inside, Not, Some, Test, Text, near
from maxlab.opset import OPSET

_SAID = {
    "op": "no operation is called",
    "dtype": "no dtype is called",
    "family": "no family is called",
    "scope": "no scope is called",
}


def hint_of(test: Test, document: protocol.GraphDocument) -> str | None:
    """A hint about the first value of ``test`` that no operation of any graph, or no scope of
    ``document``, has; None where there is no such value.

    Patterns with ``*`` and regular expressions are taken as they are.
    """
    for field, sign, text in _named(test):
        if text.how != "whole" or text.stars:
            continue
        known = _known(field, document)
        if text.pattern in (name.lower() for name in known):
            continue
        close = near(text.pattern, sorted(known))
        meant = f"; did you mean {field}{sign}{close[0]}?" if close else ""
        return f"{_SAID[field]} {text.pattern!r}{meant}"
    return None


def _named(test: Test) -> Iterator[tuple[str, str, Text]]:
    """The fields of ``test`` whose values have names that are known, with sign and value."""
    match test:
        case All(tests=tests) | Some(tests=tests):
            for one in tests:
                yield from _named(one)
        case Not(test=inner):
            yield from _named(inner)
        case Has(field=field, compare=compare, value=Text() as text) if field in _SAID:
            yield field, compare, text
        case Inside(text=text):
            yield "scope", "=", text


def _known(field: str, document: protocol.GraphDocument) -> set[str]:
    """The names that values of ``field`` can have."""
    nodes = document["nodes"]
    if field == "op":
        return {node["op"] for node in nodes} | {name.rpartition(".")[2] for name in OPSET}
    if field == "dtype":
        return {*QUERY_DTYPES, *QUERY_DTYPES.values()}
    if field == "family":
        return {node.get("family", "other") for node in nodes} | {
            row.family for row in OPSET.values()
        }
    found = set()
    for path in {node["scope"] for node in nodes}:
        parts = path.split(".")
        for start in range(len(parts)):
            found |= {".".join(parts[start:end]) for end in range(start + 1, len(parts) + 1)}
    return found - {""}


__all__ = ["hint_of"]
