"""Values with a pattern, such as one number over and over or a ramp: their rounding errors add up
instead of cancelling, and no kernel is wrong for that. A term that is left out is still found."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from maxlab.analysis.check import compare
from maxlab.analysis.check.rounding import evaluate_rounded, exact
from maxlab.dtype import DType
from maxlab.graph import ops
from tests.analysis.check.planting import model_of, tensor

PATTERNS: dict[str, Callable[[tuple[int, ...]], Any]] = {
    "ones": np.ones,
    "tenths": lambda shape: np.full(shape, 0.1),
    "hundredths": lambda shape: np.full(shape, 0.01),
    "ramp": lambda shape: np.linspace(0, 1, int(np.prod(shape))).reshape(shape),
    "almost": lambda shape: 0.3 + 1e-3 * np.random.default_rng(3).random(shape),
    "waves": lambda shape: np.sin(np.arange(int(np.prod(shape))) / 50).reshape(shape),
    "random": lambda shape: np.random.default_rng(4).standard_normal(shape),
}


@pytest.mark.parametrize("k", [1024, 8192])
def test_products(k: int) -> None:
    model = model_of(lambda x, y: x @ y, (3, k), (k, 17))
    for left, right in itertools.product(PATTERNS, PATTERNS):
        x, y = PATTERNS[left]((3, k)), PATTERNS[right]((k, 17))
        found = compare(model, tensor(x.astype(np.float32)), tensor(y.astype(np.float32)))
        assert found.ok, (left, right, found.message)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_term_less_is_more_than_rounding(pattern: str) -> None:
    k = 1024
    model = model_of(lambda x, y: x @ y, (3, k), (k, 17))
    (op,) = (op for op in model.compiled.function.ops if op.name == "mo.matmul")
    x, y = PATTERNS[pattern]((3, k)).astype(np.float32), np.ones((k, 17), np.float32)
    (made,) = evaluate_rounded(op, [exact(x), exact(y)], {}, np.random.default_rng(0))
    tolerance = made.tolerance(DType.float32)
    assert tolerance is not None
    assert (tolerance < np.abs(x).mean(axis=-1, keepdims=True)).all()


FOLDS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: ops.sum(x, axis=-1),
    "sum of the first axis": lambda x: ops.sum(x, axis=0),
    "mean": lambda x: ops.mean(x, axis=-1),
    "softmax": ops.softmax,
    "cumsum": lambda x: ops.cumsum(x, axis=-1),
    "squares": lambda x: ops.sum(x * x, axis=-1),
}


@pytest.mark.parametrize("fold", FOLDS)
def test_sums(fold: str) -> None:
    model = model_of(FOLDS[fold], (2048, 256))
    for name, pattern in PATTERNS.items():
        found = compare(model, tensor(pattern((2048, 256)).astype(np.float32)))
        assert found.ok, (name, found.message)


def test_convolutions() -> None:
    shapes = (1, 9, 9, 128), (3, 3, 128, 8)
    model = model_of(ops.conv2d, *shapes)
    for pair in itertools.product(PATTERNS, PATTERNS):
        inputs = [PATTERNS[p](s).astype(np.float32) for p, s in zip(pair, shapes, strict=True)]
        found = compare(model, *(tensor(x) for x in inputs))
        assert found.ok, (pair, found.message)
