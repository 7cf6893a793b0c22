"""The text that a notebook stores as ``text/plain``: a listing that is the same in every run.

It names no cell numbers, no addresses and no times, so that strict nbval can compare it.
"""

from __future__ import annotations

from maxlab.lab import protocol
from maxlab.lab.regions import PARTS, operations_of, readable
from maxlab.markup import visible
from maxlab.opset import OPSET

MOST_LINES = 40
"""Ops and inputs that are listed; the rest is counted."""

WIDEST = 110
"""Characters of a line."""


def listing(document: protocol.GraphDocument) -> str:
    """The graph in ``document``: inputs, ops with their types, outputs.

    Weights and constants are named where they are used.
    """
    types = {v["id"]: v["type"] for v in document["values"]}
    names = {v["id"]: _name(v) for v in document["values"]}
    ops = operations_of(document)
    inputs = document["inputs"]
    head = (
        f"Graph {document['name']!r}: {_plural(len(inputs), 'input')}, "
        f"{_plural(len(ops), 'op')}, {_plural(len(document['outputs']), 'output')}"
    )
    body = [f"{names[i]}: {types[i]}" for i in inputs]
    scope = ""
    for node in ops:
        if node["scope"] != scope:
            scope = node["scope"]
            body.append(f"# {readable(scope) or document['name']}")
        body.append(_op(node, names, types))
    tail = []
    if document["outputs"]:
        tail = ["output " + ", ".join(names[i] for i in document["outputs"])]
    if len(body) > MOST_LINES:
        left = sum(not line.startswith("#") for line in body[MOST_LINES:])
        body = [*body[:MOST_LINES], f"… {left} more"]
    error = document["error"]
    if error is not None:
        tail.append(f"error [{error['code']}] {error['message'].splitlines()[0]}")
    return "\n".join([_line(head), *("  " + _line(line) for line in [*body, *tail])])


def _op(node: protocol.Node, names: dict[str, str], types: dict[str, str]) -> str:
    if node["error"] is not None:
        return f"✗ {node['op']}({', '.join(names[i] for i in node['operands'])})"
    words = [names[i] for i in node["operands"]]
    words += [f"{key}={text}" for key, text in node["attrs"].items()]
    row = OPSET.get(f"mo.{node['op']}")
    parts = PARTS.get(row.role, ()) if row is not None else ()
    for part, given in zip(parts, node.get("gives", ()), strict=False):
        words.append(f"{part}=[{', '.join(names[i] for i in given)}]")
    text = f"{node['op']}({', '.join(words)})"
    if node["results"]:
        made = ", ".join(names[i] for i in node["results"])
        kinds = ", ".join(types[i] for i in node["results"])
        text = f"{_clip(f'{made} = {text}', max(WIDEST - len(kinds) - 2, 40))}: {kinds}"
    return text


def _name(value: protocol.Value) -> str:
    """How the listing calls a value: data by its contents or name, inputs by name, the rest by
    id."""
    name = value.get("name") or ""
    if value["kind"] in ("weight", "input") and name:
        return name
    if value["kind"] == "constant":
        return name or value["type"]
    return "%" + value["id"]


def _plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _line(text: str) -> str:
    """One line of the listing: names may have more than one, and what no terminal should get."""
    return _clip(visible(text).replace("\n", "⏎").replace("\r", "⏎"))


def _clip(line: str, most: int = WIDEST) -> str:
    return line if len(line) <= most else line[: most - 1] + "…"
