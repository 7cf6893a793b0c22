"""Graphs of texts and of functions that were read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from maxlab.graph.files import functions_of, unknown_graph
from maxlab.graph.graph import Graph
from maxlab.ir import Function

if TYPE_CHECKING:
    from maxlab.graph.document import Notes


def graph_of(text: str, where: str) -> Graph:
    """The graph of ``text``, a document or a graph in generic form; ``where`` is the place of the
    text in messages.

    Raises:
        ParseError: The text has no graph.
        ArgumentError: ML366, it has several.
    """
    found = functions_of(text, where)
    if len(found) != 1:
        raise unknown_graph(where, "", [function.name for function, _ in found])
    ((function, notes),) = found
    made = Graph(path=function)
    if notes is not None:
        made._know(notes)
    return made


def graph_with(function: Function, notes: Notes) -> Graph:
    """The graph that ``function`` is, which is well formed, with ``notes`` beside it."""
    made = Graph(path=function)
    made._know(notes)
    return made
