"""Integers of every dtype at random, through one compiled model a dtype, beside Python's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from maxlab import engine
from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, TensorType, TensorValue, ops
from tests.hostile.harness import Case, Family, WrongResultError
from tests.opset import exact

WIDTH = 5
MAPS: dict[str, tuple[Callable[[TensorValue, TensorValue], TensorValue], str]] = {
    "add": (lambda x, y: x + y, "add"),
    "sub": (lambda x, y: x - y, "sub"),
    "mul": (lambda x, y: x * y, "mul"),
    "floordiv": (lambda x, y: x // y, "floordiv"),
    "mod": (lambda x, y: x % y, "mod"),
    "max": (ops.max, "max"),
    "min": (ops.min, "min"),
}
FOLDS: dict[str, tuple[Callable[[TensorValue], TensorValue], str]] = {
    "sum": (lambda x: ops.sum(x, 1), "reduce.sum"),
    "max of rows": (lambda x: ops.max(x, axis=1), "reduce.max"),
    "mean": (lambda x: ops.mean(x, 1), "mean"),
    "argmax": (lambda x: ops.argmax(x, 1), "argmax"),
}

_models: dict[DType, Any] = {}


def _ready() -> None:
    session = engine.InferenceSession(num_threads=1)
    for dtype in exact.INTEGERS:
        kind = TensorType(dtype, ["n", WIDTH], DeviceRef.CPU())
        with Graph(f"integers_{dtype.name}", input_types=[kind, kind]) as graph:
            x, y = (value.tensor for value in graph.inputs)
            made = [build(x, y) for build, _ in MAPS.values()]
            graph.output(*made, *(build(x) for build, _ in FOLDS.values()))
        _models[dtype] = session.load(graph)


def _number(random: Random, dtype: DType) -> int:
    if random.random() < 0.5:
        return random.choice(exact.edges(dtype))
    return random.randint(int(dtype.lowest), int(dtype.largest))


def _draw(random: Random) -> Case:
    dtype = random.choice(exact.INTEGERS)
    rows = random.randrange(1, 40)
    x = [[_number(random, dtype) for _ in range(WIDTH)] for _ in range(rows)]
    y = [[_number(random, dtype) for _ in range(WIDTH)] for _ in range(rows)]
    return _case(dtype, x, y)


def _case(dtype: DType, x: list[list[int]], y: list[list[int]]) -> Case:
    def run(folder: Path) -> None:
        outputs = _models[dtype](exact.array(x, dtype), exact.array(y, dtype))
        got = [made.to_numpy() for made in outputs]
        for (name, (_, key)), array in zip(MAPS.items(), got, strict=False):
            binary = exact.BINARY[key]
            pairs = [list(zip(a, b, strict=True)) for a, b in zip(x, y, strict=True)]
            want = exact.array([[binary(a, b) for a, b in row] for row in pairs], dtype)
            _same(name, array, want)
        for (name, (_, key)), array in zip(FOLDS.items(), got[len(MAPS) :], strict=True):
            into = DType.int64 if name == "argmax" else dtype
            want = exact.array([[exact.FOLDS[key](row)] for row in x], into)
            _same(name, array, want)

    return Case(f"{dtype.name} {x[0]} and {y[0]} and {len(x) - 1} rows more", run)


def _same(name: str, got: Any, want: Any) -> None:
    if not np.array_equal(got, want):
        where = tuple(np.argwhere(got != want)[0])
        raise WrongResultError(f"{name} is {got[where]} at {where}, not {want[where]}")


def _row(*numbers: int) -> list[list[int]]:
    return [[*numbers, *([0] * (WIDTH - len(numbers)))]]


SEEDS = [
    _case(DType.int64, [[2**63 - 1] * WIDTH], _row(1)),
    _case(DType.int8, [[127] * WIDTH], _row(-1, 0)),
    _case(DType.int64, _row(-(2**63), -(2**63)), _row(-1, 0)),
    _case(DType.uint64, [[2**64 - 1] * WIDTH], _row(2**64 - 1)),
]

FAMILIES = (Family("integers", SEEDS, _draw, 5000, _ready),)
