"""Inputs for a profile that the user asked for with a button: the newest ones, or made-up ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from maxlab.dtype import DType
from maxlab.engine import Model
from maxlab.errors import ExecutionError, InputError
from maxlab.ir import TensorType

EXAMPLE_SIZES: Mapping[str, int] = {
    "batch": 8,
    "batch_size": 8,
    "b": 8,
    "seq": 64,
    "seq_len": 64,
    "sequence": 64,
    "tokens": 64,
    "t": 64,
}
"""Sizes of dims that go by a usual name."""

OTHER_SIZES = (64, 32, 128, 16, 8, 4, 2, 1, 256)
"""Sizes to try for all other dims, until one suits the conditions of the graph."""

Array = np.ndarray[Any, Any]


def inputs_for(model: Model) -> list[Any]:
    """Inputs that ``model`` takes: those of its newest profile, else made-up ones of the sizes that
    it last ran with, else made-up ones of example sizes.

    Raises:
        InputError: ML804, no sizes were found that the graph allows.
    """
    if model.last_profile is not None:
        return list(model.last_profile._inputs)
    for shapes in _shapes(model):
        for fill in (1, 0):
            inputs = [
                _made(v.tensor_type.dtype, shape, fill, seed)
                for seed, (v, shape) in enumerate(
                    zip(model.compiled.source.inputs, shapes, strict=True)
                )
            ]
            try:
                model(*inputs)
            except ExecutionError:
                continue  # the ones were taken as indices, and there is no row 1
            except InputError:
                break
            return inputs
    raise InputError(
        "ML804",
        f"{model.name}: no sizes are known that the graph allows",
        fix="profile it once with inputs of your own: model.profile(...)",
    )


def _shapes(model: Model) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Shapes for the inputs, the most likely first."""
    if model._bindings:
        yield next(reversed(model._bindings))
    types = [v.tensor_type for v in model.compiled.source.inputs]
    names = dict.fromkeys(p.name for kind in types for p in kind.parameters)
    tried: set[tuple[tuple[int, ...], ...]] = set()
    for usual in (True, False):
        for other in OTHER_SIZES:
            env = {n: EXAMPLE_SIZES.get(n.lower(), other) if usual else other for n in names}
            shapes = tuple(_shape(kind, env) for kind in types)
            if shapes not in tried:
                tried.add(shapes)
                yield shapes


def _shape(type: Any, env: Mapping[str, int]) -> tuple[int, ...]:
    assert isinstance(type, TensorType)
    return tuple(max(dim.evaluate(env), 0) for dim in type.shape)


def _made(dtype: DType, shape: tuple[int, ...], fill: int, seed: int) -> Array:
    """An array of ``dtype``: noise for floats, ``fill`` for numbers that may be indices."""
    if dtype.is_float():
        noise = np.random.default_rng(seed).standard_normal(shape, np.float32)
        return noise.astype(dtype.ml_numpy)
    return np.full(shape, fill, dtype.ml_numpy)
