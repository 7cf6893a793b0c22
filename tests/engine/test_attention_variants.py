"""Variants of attention: all give the same bits, and a model takes the one that was measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from maxlab import engine
from maxlab.config import config, set_config
from maxlab.dtype import DType
from maxlab.engine.attention_variants import ATTENTION, FEW
from maxlab.engine.renewing import chosen
from maxlab.graph import Graph, TensorType, ops
from maxlab.toolchain import variants


@pytest.fixture
def off() -> Iterator[None]:
    """The guess is taken, unless a test settles something else."""
    before = set_config(replace(config(), variants="off"))
    variants.forget()
    yield
    variants.forget()
    set_config(before)


def attention(heads: int, queries: int, keys: int, size: int, value_size: int) -> Graph:
    shapes = (queries, size), (keys, size), (keys, value_size)
    types = [TensorType(DType.float32, [2, heads, *shape]) for shape in shapes]

    def body(q: Any, k: Any, v: Any) -> Any:
        scores = ops.tanh(ops.matmul(q, ops.transpose(k, -1, -2)) * 0.25)
        return ops.matmul(ops.softmax(scores), v)

    return Graph("attention", body, types)


SIZES = [(4, 100, 700, 64, 64), (3, 5, 1100, 64, 40), (8, 16, 1024, 64, 64), (2, 200, 77, 48, 96)]


@pytest.mark.parametrize("sizes", SIZES, ids=lambda one: "x".join(map(str, one)))
@pytest.mark.parametrize("threads", [1, 2])
def test_all_variants_give_the_same_bits(
    off: None, sizes: tuple[int, int, int, int, int], threads: int
) -> None:
    heads, queries, keys, size, value_size = sizes
    rng = np.random.default_rng(queries)
    shapes = (queries, size), (keys, size), (keys, value_size)
    q, k, v = (rng.standard_normal((2, heads, *s)).astype(np.float32) for s in shapes)
    model = engine.InferenceSession(num_threads=threads).load(attention(*sizes))
    choice = variants.choose(ATTENTION, (2 * heads, *sizes[1:], threads))
    assert len(choice.variants) > 1
    found = []
    for one in choice.variants:
        choice.settle(choice.state._replace(variant=one))
        model.unbind()
        found.append(model.execute(q, k, v)[0].to_numpy())
        (program,) = model.runner.programs.values()
        assert [taken.name for _, taken in chosen(program.launches).values()] == [one.name]
    scores = np.tanh(q.astype(np.float64) @ k.astype(np.float64).swapaxes(-1, -2) * 0.25)
    weights = np.exp(scores)
    want = weights / weights.sum(-1, keepdims=True) @ v
    np.testing.assert_allclose(found[0], want, rtol=1e-4, atol=1e-5)
    for other in found[1:]:
        assert np.array_equal(other.view(np.int32), found[0].view(np.int32))


def test_few_queries_and_little_work_have_no_choice() -> None:
    assert len(ATTENTION.variants((64, FEW, 4096, 128, 128, 1))) == 1
    assert len(ATTENTION.variants((1, 16, 16, 16, 16, 1))) == 1


LARGE = [
    (1, 5, 1 << 20, 64, 64, 1),
    (1 << 20, 64, 64, 64, 64, 4),
    (8, 1 << 16, 1 << 16, 512, 512, 2),
]


@pytest.mark.parametrize("case", LARGE, ids=lambda one: "x".join(map(str, one)))
def test_trials_are_bounded(case: tuple[int, ...]) -> None:
    """Whatever the sizes are, one turn of a trial is little work on little memory."""
    trial = ATTENTION.trial(ATTENTION.shape_class(case))
    for variant in ATTENTION.usable(ATTENTION.shape_class(case)):
        trial.run(variant)
    words = trial.words.replace(",", "").split()
    heads, queries, keys, size = (int(word) for word in words if word.isdigit())
    assert 4 * heads * queries * keys * size <= 1_000_000_000
    assert 4 * heads * (queries + keys) * size <= 160 << 20
