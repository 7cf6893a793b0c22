"""Parts of a trace: the operations that some of its values depend on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from maxlab.experimental.tracing import Node, State


class Part:
    """The operations that some slots depend on.

    Attributes:
        nodes: The operations in their order.
        inputs: The slots that they read and that have a value.
        made: The slots that they give.
    """

    __slots__ = ("inputs", "made", "nodes")

    def __init__(self, nodes: list[Node], inputs: list[int]) -> None:
        self.nodes = nodes
        self.inputs = inputs
        self.made = {slot for node in nodes for slot in node.results}


def part_of(state: State, wanted: Iterable[int], known: Any) -> Part:
    """The operations of a trace in ``state`` that ``wanted`` depend on, where the slots ``known``
    have values."""
    needed = {slot for slot in wanted if slot not in known}
    inputs: set[int] = set(wanted) - needed
    nodes: list[Node] = []
    at: State | None = state
    while at is not None and at.parent is not None:
        for node in reversed(at.nodes):
            if not needed.isdisjoint(node.results):
                nodes.append(node)
                for slot in node.operands:
                    (inputs if slot in known else needed).add(slot)
        at = at.parent
    nodes.reverse()
    return Part(nodes, sorted(inputs))


__all__ = ["Part", "part_of"]
