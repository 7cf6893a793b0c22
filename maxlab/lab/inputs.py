"""A profile that the user asked for with a button: its inputs, the newest or made-up ones, and how
often to run."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from maxlab.analysis.runs import noise
from maxlab.analysis.runs.inputs import made_inputs, shapes_for, symbols
from maxlab.engine import Model
from maxlab.errors import ExecutionError, InputError

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

MOST_RUNS = 20
"""Timed executions of a press of the button."""

PROFILE_S = 0.5
"""Seconds that they may take, where that leaves enough to compare two profiles."""

MOST_PROFILE_S = 20.0
"""Seconds above which there are fewer."""


def inputs_for(model: Model) -> list[Any]:
    """Inputs that ``model`` takes: those of its newest profile, else made-up ones of the sizes that
    it last ran with, else made-up ones of example sizes.

    Raises:
        InputError: ML804, no sizes were found that the graph allows.
    """
    if model.last_profile is not None:
        return list(model.last_profile.inputs)
    for shapes in _shapes(model):
        try:
            return made_inputs(model, shapes)
        except (ExecutionError, InputError):
            continue
    raise InputError(
        "ML804",
        f"{model.name}: no sizes are known that the graph allows",
        fix="profile it once with inputs of your own: model.profile(...)",
    )


def _shapes(model: Model) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Shapes for the inputs, the most likely first."""
    if model.bound_shapes:
        yield model.bound_shapes[-1]
    names = symbols(model)
    tried: set[tuple[tuple[int, ...], ...]] = set()
    for usual in (True, False):
        for other in OTHER_SIZES:
            env = {n: EXAMPLE_SIZES.get(n.lower(), other) if usual else other for n in names}
            shapes = tuple(
                tuple(max(size, 0) for size in shape) for shape in shapes_for(model, env)
            )
            if shapes not in tried:
                tried.add(shapes)
                yield shapes


def runs_for(model: Model, inputs: list[Any]) -> int:
    """How many timed runs a press of the button is worth: as many as fit into ``PROFILE_S``; more,
    where two profiles could not be compared otherwise, as far as that takes ``MOST_PROFILE_S``."""
    start = time.perf_counter()
    model.run_to_the_end(*inputs)
    return runs_of(time.perf_counter() - start)


def runs_of(seconds: float) -> int:
    """How many timed runs to take of a model that takes ``seconds``.

    Example:
        >>> runs_of(0.001), runs_of(0.05), runs_of(0.5), runs_of(10)
        (20, 10, 8, 2)
    """
    spent = max(seconds, 1e-6)
    wanted = max(noise.ENOUGH_RUNS, int(PROFILE_S / spent))
    return max(1, min(MOST_RUNS, wanted, int(MOST_PROFILE_S / spent)))
