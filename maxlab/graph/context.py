"""Which graph is being built: a stack that each thread and task has for itself."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

from maxlab.errors import NoGraphError

if TYPE_CHECKING:
    from maxlab.graph.graph import Graph

_stack: ContextVar[tuple[Graph, ...]] = ContextVar("maxlab_graphs", default=())


def current_graph() -> Graph | None:
    """The innermost graph that is being built; None outside of any."""
    stack = _stack.get()
    return stack[-1] if stack else None


def push(graph: Graph) -> None:
    """Let ``graph`` be the one that is built."""
    _stack.set((*_stack.get(), graph))


def pop(graph: Graph) -> None:
    """Go back to the graph that was built before ``graph``."""
    stack = _stack.get()
    if graph in stack:
        index = len(stack) - 1 - stack[::-1].index(graph)
        _stack.set(stack[:index])


class CurrentGraph:
    """``Graph.current``: the graph that is being built."""

    def __get__(self, instance: object, owner: type | None = None) -> Graph:
        graph = current_graph()
        if graph is None:
            raise NoGraphError(
                "ML313",
                "no graph is being built",
                fix="write it inside of `with Graph(...):`",
            )
        return graph
