"""Shapes, axes and the index at which a value is computed: the words the whole compiler shares."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from maxlab.ir.poly import ONE, ZERO, Poly
from maxlab.ir.types import Typed

if TYPE_CHECKING:
    from maxlab.ir import Value

Index = tuple[Poly, ...]
AXES = tuple(f"%{n}" for n in range(32))
"""The axes of a value in index polynomials; no symbolic dim can have such a name."""
MAX_OPS = 96
"""Ops of one group: a C compiler needs more than linear time for a function, and expressions nest
this deep."""


def shape_of(value: Value) -> Index:
    """The dims of ``value`` as polynomials."""
    typed = value.type
    assert isinstance(typed, Typed)
    return typed.sizes


@functools.lru_cache(maxsize=4096)
def own_index(shape: Index) -> Index:
    """The index at which a value of ``shape`` is computed: its axes, and 0 where the size is 1."""
    return tuple(ZERO if size == ONE else Poly.symbol(AXES[n]) for n, size in enumerate(shape))


def extents_of(shape: Index) -> dict[str, Poly]:
    """The extents of the axes of ``shape``."""
    return {AXES[n]: size for n, size in enumerate(shape)}
