"""Sizes of new tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxlab.errors import ArgumentError
from maxlab.ir import Dim, Shape, StaticDim, user_location


def static_sizes(what: str, shape: Any) -> tuple[int, ...]:
    """The sizes ``shape``, a list of sizes or one size, as ints.

    Raises:
        ArgumentError: ML813, one of them is the name of a size.
    """
    alone = isinstance(shape, (int, np.integer, Dim, str))
    dims = Shape([shape] if alone else shape)
    for dim in dims:
        if not isinstance(dim, StaticDim):
            raise ArgumentError(
                "ML813",
                f"{what}: the size {str(dim)!r} is a name, and the sizes of a tensor are numbers",
                at=user_location(),
                fix="give numbers; names are sizes of the inputs of graphs",
            )
    return tuple(dims.static_dims)


__all__ = ["static_sizes"]
