"""The code of a graph: the Python program that a person would have written to build it."""

from __future__ import annotations

from maxlab.graph.code.canonical import are_equal, canonical
from maxlab.graph.code.whole import to_python

__all__ = ["are_equal", "canonical", "to_python"]
