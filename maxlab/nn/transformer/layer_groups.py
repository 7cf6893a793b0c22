"""Groups of like layers, each of which is one subgraph that is called for all of its layers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from maxlab.errors import ArgumentError, shown
from maxlab.graph import Graph, Value, ops
from maxlab.nn import states
from maxlab.nn.module import Module


def check_groups(what: str, groups: Sequence[Sequence[int]], count: int) -> list[list[int]]:
    """``groups``, lists of numbers of ``count`` layers, each at most once.

    Raises:
        ArgumentError: ML468 (a ValueError), a number that is not of a layer, or one twice.
    """
    made: list[list[int]] = []
    seen: set[int] = set()
    for group in groups:
        made.append(list(group))
        for number in group:
            is_number = isinstance(number, int) and not isinstance(number, bool)
            if not is_number or not 0 <= number < count or number in seen:
                raise ArgumentError(
                    "ML468",
                    f"{what}: subgraph_layer_groups must have numbers from 0 to {count - 1}, each "
                    f"at most once, got {shown(number)} in {shown(list(group))}",
                    fix="leave it out for one group of all layers",
                )
            seen.add(number)
    return made


def subgraph_of(layer: Module, given: Sequence[Any]) -> Graph:
    """A subgraph of the current graph with what ``layer`` computes of values of the types of
    ``given``, to be called with `called`.

    Args:
        layer: One of several like layers.
        given: Its arguments: values, lists of values, or None for an empty list.

    Raises:
        NoGraphError: ML313, no graph is being built.
    """
    types: list[Any] = [
        one.type if isinstance(one, Value) else [value.type for value in one or ()] for one in given
    ]
    prefix, taken = _prefix(layer), Graph.current.subgraphs
    stem = prefix.replace(".", "_").strip("_") or "layer"
    name, number = stem, 1
    while name in taken:
        number += 1
        name = f"{stem}_{number}"
    return layer.build_subgraph(name, types, weight_prefix=prefix)


def called(subgraph: Graph, layer: Module, given: Sequence[Any]) -> list[Value]:
    """The results of ``subgraph`` for ``given``, with the weights of ``layer``."""
    return ops.call(subgraph, *_flat(given), prefix=_prefix(layer))


def _flat(given: Sequence[Any]) -> Iterator[Value]:
    """The values of ``given``, one by one."""
    for one in given:
        if isinstance(one, Value):
            yield one
        else:
            yield from one or ()


def _prefix(layer: Module) -> str:
    """The path of ``layer`` that the names of its weights begin with in the model that is being
    built, such as ``"layers.0."``. The names become final: subgraphs find weights by them."""
    prefix: str | None = None
    for local, weight in layer._named_weights():
        states.slot_of(weight).final = True
        if prefix is None and weight.name.endswith(local):
            prefix = weight.name.removesuffix(local)
    return prefix or ""


__all__ = ["called", "check_groups", "subgraph_of"]
