"""Programs for many sizes: what two structures have in common that differ in sizes alone.

A program is compiled for the sizes that it first meets. When the same operations come with others,
the sizes that differ become names, and those that differ alike one name. A size that an operation
was given, as ``reshape`` is, becomes the multiple or the sum of names that it is in both cases.
Nothing is guessed: a pattern serves other sizes only if all that it says of them is so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from maxlab.experimental.tracing import Node, frozen
from maxlab.ir import Dim, Shape, StaticDim, TensorType

_SIZE = object()


class Sizes:
    """The sizes of a structure: of its inputs, and those that operations were given.

    Attributes:
        inputs: The sizes of each input.
        given: What operations were given, in their order.
    """

    __slots__ = ("given", "inputs")

    def __init__(self, types: Sequence[TensorType], nodes: Sequence[Node]) -> None:
        self.inputs = [tuple(type.shape.static_dims) for type in types]
        self.given = [size for node in nodes for size in _sizes_in(node.attrs)]


def without_sizes(types: Sequence[TensorType], rows: Sequence[Any]) -> Any:
    """The key of a structure whose inputs have ``types`` and whose operations are ``rows``, for all
    sizes."""
    inputs = tuple([(type.dtype, len(type.shape), type.device) for type in types])
    return inputs, tuple(rows)


def frozen_without_sizes(value: Any) -> Any:
    """``value`` as a key, with one mark for all sizes."""
    if isinstance(value, StaticDim):
        return _SIZE
    kind = value.__class__
    if kind is dict:
        return tuple([(name, frozen_without_sizes(one)) for name, one in value.items()])
    if isinstance(value, (tuple, list)):
        return (kind, *[frozen_without_sizes(one) for one in value])
    return frozen(value)


def _sizes_in(value: Any) -> Iterator[int]:
    if isinstance(value, StaticDim):
        yield value.dim
    elif isinstance(value, dict):
        for one in value.values():
            yield from _sizes_in(one)
    elif isinstance(value, (tuple, list)):
        for one in value:
            yield from _sizes_in(one)


def _with_sizes(value: Any, sizes: Iterator[Dim]) -> Any:
    if isinstance(value, StaticDim):
        return next(sizes)
    if value.__class__ is dict:
        return {name: _with_sizes(one, sizes) for name, one in value.items()}
    if isinstance(value, Shape):
        return Shape([_with_sizes(one, sizes) for one in value])
    if value.__class__ in (tuple, list):
        return value.__class__([_with_sizes(one, sizes) for one in value])
    return value


class Pattern:
    """The sizes of a structure with names in them.

    Attributes:
        inputs: The dims of each input.
        given: The dims that operations were given.
    """

    def __init__(self, inputs: list[list[Dim]], given: list[Dim]) -> None:
        self.inputs = inputs
        self.given = given

    def fits(self, sizes: Sizes) -> dict[str, int] | None:
        """The names of the pattern as they are in ``sizes``; None if it does not have these."""
        env: dict[str, int] = {}
        for dims, found in zip(self.inputs, sizes.inputs, strict=True):
            for dim, size in zip(dims, found, strict=True):
                if isinstance(dim, StaticDim):
                    if dim.dim != size:
                        return None
                elif env.setdefault(str(dim), size) != size:
                    return None
        if all(d.evaluate(env) == s for d, s in zip(self.given, sizes.given, strict=True)):
            return env
        return None

    def types(self, types: Sequence[TensorType]) -> list[TensorType]:
        """``types`` with the dims of the pattern."""
        return [type.with_shape(dims) for type, dims in zip(types, self.inputs, strict=True)]

    def attrs(self, nodes: Sequence[Node]) -> list[dict[str, Any]]:
        """The attributes of ``nodes`` with the dims of the pattern."""
        sizes = iter(self.given)
        return [_with_sizes(node.attrs, sizes) for node in nodes]


def common(one: Sizes, other: Sizes) -> Pattern | None:
    """The pattern that both have; None if a size that operations were given does not follow from
    those of the inputs."""
    names: dict[tuple[int, int], Dim] = {}

    def dim(pair: tuple[int, int]) -> Dim:
        if pair[0] == pair[1]:
            return Dim(pair[0])
        return names.setdefault(pair, Dim(f"s{len(names)}"))

    inputs = [
        [dim(pair) for pair in zip(a, b, strict=True)]
        for a, b in zip(one.inputs, other.inputs, strict=True)
    ]
    given = []
    for pair in zip(one.given, other.given, strict=True):
        found = Dim(pair[0]) if pair[0] == pair[1] else _expressed(pair, names)
        if found is None:
            return None
        given.append(found)
    return Pattern(inputs, given)


def _expressed(pair: tuple[int, int], names: dict[tuple[int, int], Dim]) -> Dim | None:
    """The expression of names that is ``pair`` in both: a multiple, a product of two, or a multiple
    with a number added; None if there is none."""
    first, second = pair
    sums = []
    for (a, b), name in names.items():
        factor, rest = divmod(second - first, b - a)
        if rest == 0 and factor:
            more = first - factor * a
            if more == 0:
                return name * factor
            sums.append((abs(more), name * factor + more))
    for (a, b), name in names.items():
        for (c, d), other in names.items():
            if (a * c, b * d) == pair:
                return name * other
    return min(sums, key=lambda found: found[0])[1] if sums else None


__all__ = ["Pattern", "Sizes", "common", "frozen_without_sizes", "without_sizes"]
