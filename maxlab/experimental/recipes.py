"""Recipes: what a function made of operands of certain types, wherever in a trace they stand.

``graph.ops`` checks operands, promotes them and splits an operation into those of the table. All of
it follows from the function, the types of its operands and its other arguments, so it is remembered
by them; a step that is new to a trace, but not to the process, is taken from here. What looks into
the data of an operand, a constant of the graph, is never kept, and neither is an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from maxlab.experimental.tracing import Node, State

MOST_RECIPES = 65536
"""The recipes that are kept; then all are forgotten."""


class Recipe(NamedTuple):
    """The step that a function makes.

    Attributes:
        nodes: Of each operation its name, where its operands come from, its attributes and the
            types of its results. An operand is an argument by its place, or, counted from -1 down,
            a result of the step.
        result: What the step gives, with the results counted from 0.
        number: Which of the operations is the number that the step is given; -1 if none is.
        limits: The least and the greatest number.
    """

    nodes: tuple[tuple[str, tuple[int, ...], dict[str, Any], tuple[Any, ...]], ...]
    result: Any
    number: int
    limits: tuple[Any, Any]


_recipes: dict[Any, Recipe] = {}


def key_of(key: tuple[Any, ...], types: Mapping[int, Any]) -> tuple[tuple[Any, ...], list[int]]:
    """``key`` of a step with types in the place of slots, and the slots in their order."""
    slots: list[int] = []

    def operand(slot: int) -> Any:
        if slot not in slots:
            slots.append(slot)
        return types[slot], slots.index(slot)

    if key[0].__class__ is str:  # an operator, of which ints are slots
        made = [operand(one) if one.__class__ is int else one for one in key[1:]]
        return (key[0], *made), slots
    return (
        tuple(
            [
                operand(one[0])
                if one.__class__ is tuple and len(one) == 1 and one[0].__class__ is int
                else one
                for one in key
            ]
        ),
        slots,
    )


def find(key: Any) -> Recipe | None:
    """The recipe of ``key``."""
    return _recipes.get(key)


def remember(
    key: Any, slots: Sequence[int], start: State, after: State, limits: tuple[Any, Any] | None
) -> None:
    """Keeps the step from ``start`` to ``after``, whose operands are ``slots``, by ``key``."""
    if not start.bare.isdisjoint(slots):
        return
    nodes, number = [], -1
    for place, node in enumerate(after.nodes):
        operands = []
        for slot in node.operands:
            if slot >= start.size:
                operands.append(start.size - slot - 1)
            elif slot in slots:
                operands.append(slots.index(slot))
            else:  # a tensor that the function had from elsewhere
                return
        if node.number >= 0:
            number = place
        nodes.append((node.name, tuple(operands), node.attrs, node.types))
    if len(_recipes) >= MOST_RECIPES:
        _recipes.clear()
    result = _moved(after.result, -start.size)
    _recipes[key] = Recipe(tuple(nodes), result, number, limits or (0, -1))


def applied(recipe: Recipe, slots: Sequence[int], state: State) -> tuple[list[Node], Any]:
    """The operations of ``recipe`` on ``slots``, as the next step after ``state``, and what that
    gives."""
    first = size = state.size
    nodes = []
    for place, (name, operands, attrs, types) in enumerate(recipe.nodes):
        where = tuple([slots[n] if n >= 0 else first - n - 1 for n in operands])
        number = state.numbers if place == recipe.number else -1
        nodes.append(Node(name, where, attrs, types, size, number))
        size += len(types)
    return nodes, _moved(recipe.result, first)


def _moved(result: Any, by: int) -> Any:
    if result.__class__ is int:
        return result + by
    if isinstance(result, dict):
        return {key: _moved(one, by) for key, one in result.items()}
    return result.__class__([_moved(one, by) for one in result])


def forget() -> None:
    """Forgets all recipes."""
    _recipes.clear()


__all__ = ["Recipe", "applied", "find", "forget", "key_of", "remember"]
