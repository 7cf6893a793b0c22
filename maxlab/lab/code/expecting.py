"""Graphs that the next run of a cell is expected to build: edits by hand were written to it."""

from __future__ import annotations

from maxlab.graph import Graph
from maxlab.ir import Function

_expected: dict[tuple[str, str], Function] = {}


def expect(cell: str, graph: Graph) -> None:
    """Compare the next run of ``cell`` with ``graph`` as it is now."""
    _expected[cell, graph.name] = graph.function.clone()


def expected(cell: str, name: str) -> Function | None:
    """The function that ``cell`` was to build under ``name``; told once."""
    return _expected.pop((cell, name), None)


__all__ = ["expect", "expected"]
