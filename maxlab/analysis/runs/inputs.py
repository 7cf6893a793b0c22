"""Inputs of given sizes, made up where only their sizes matter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from maxlab.dtype import DType
from maxlab.engine import Model
from maxlab.errors import ExecutionError

Array = np.ndarray[Any, Any]


def made(dtype: DType, shape: Sequence[int], fill: int, seed: int) -> Array:
    """An array of ``dtype``: noise for floats, ``fill`` for numbers that may be indices."""
    if dtype.is_float():
        noise = np.random.default_rng(seed).standard_normal(tuple(shape), np.float32)
        return noise.astype(dtype.ml_numpy)
    return np.full(tuple(shape), fill, dtype.ml_numpy)


def made_inputs(model: Model, shapes: Sequence[Sequence[int]]) -> list[Any]:
    """Inputs of ``model`` with ``shapes``, on the devices that it takes them on; it ran with them
    once.

    Raises:
        InputError: The graph does not allow such sizes.
        ExecutionError: It cannot run with made-up data, neither ones nor zeros as indices.
    """
    types = [v.tensor_type for v in model.compiled.source.inputs]
    for fill in (1, 0):
        arrays = [
            made(kind.dtype, shape, fill, seed)
            for seed, (kind, shape) in enumerate(zip(types, shapes, strict=True))
        ]
        inputs = model.placed(arrays)
        try:
            model.run_to_the_end(*inputs)
        except ExecutionError:
            if fill == 0:
                raise
            continue  # the ones were taken as indices, and there is no row 1
        break
    return inputs


def shapes_for(model: Model, dims: Mapping[str, int]) -> list[tuple[int, ...]]:
    """The shapes of the inputs of ``model`` when its symbolic dims have the sizes ``dims``."""
    types = [v.tensor_type for v in model.compiled.source.inputs]
    return [tuple(dim.evaluate(dims) for dim in kind.shape) for kind in types]


def symbols(model: Model) -> list[str]:
    """The names of the symbolic dims of the inputs, in the order in which they first stand."""
    types = [v.tensor_type for v in model.compiled.source.inputs]
    return list(dict.fromkeys(p.name for kind in types for p in kind.parameters))
