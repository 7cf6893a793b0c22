"""Tiles of products are made aside by threads that share its rows, finished there, and put in
their place past the caches: with the bits that one thread gives, whose tiles are in their place."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from maxlab.driver import CPU, Tensor
from maxlab.dtype import DType
from maxlab.engine import InferenceSession, Model
from maxlab.graph import DeviceRef, Graph, TensorType, TensorValue, ops

Array = np.ndarray[Any, Any]
HOST = DeviceRef.CPU()
Made = Callable[[TensorValue, int], list[TensorValue]]


def weight(*shape: int, number: int = 0) -> TensorValue:
    rng = np.random.default_rng([number, *shape])
    return ops.constant(rng.standard_normal(shape).astype(np.float32) / 16, DType.float32, HOST)


def plain(x: TensorValue, n: int) -> list[TensorValue]:
    return [x @ weight(64, n)]


def biased(x: TensorValue, n: int) -> list[TensorValue]:
    return [ops.relu(x @ weight(64, n) + weight(n))]


def gated(x: TensorValue, n: int) -> list[TensorValue]:
    made = ops.silu(x @ weight(64, n)) * (x @ weight(64, n, number=1))
    return [made @ weight(n, 64) + x]


def twice(x: TensorValue, n: int) -> list[TensorValue]:
    made = x @ weight(64, n)
    return [made, ops.relu(made), ops.cast(made * 2.0, DType.bfloat16)]


def turned(x: TensorValue, n: int) -> list[TensorValue]:
    return [ops.transpose(ops.relu(x @ weight(64, n)), 0, 1)]


def summed(x: TensorValue, n: int) -> list[TensorValue]:
    made = ops.relu(x @ weight(64, n))
    return [ops.sum(made, axis=-1), made[:, 1:]]


def loaded(make: Made, n: int, threads: int) -> Model:
    with Graph("net", input_types=[TensorType(DType.float32, ["rows", 64], HOST)]) as graph:
        graph.output(*make(graph.inputs[0].tensor, n))
    return InferenceSession(devices=[CPU()], num_threads=threads).load(graph)


def run(model: Model, x: Array) -> list[bytes]:
    return [bytes(y.view(DType.uint8, [y.num_elements * y.dtype.size_in_bytes]).to_numpy())
            for y in model.execute(Tensor.from_numpy(x))]  # fmt: skip


WIDE = 16_500
"""Columns of a right operand that is so large that two threads share all rows."""


@pytest.mark.parametrize("n", [64, 200, 333, WIDE])
@pytest.mark.parametrize("make", [plain, biased, gated, twice, turned, summed])
def test_threads_give_the_bits_of_one(make: Made, n: int) -> None:
    rng = np.random.default_rng(n)
    alone, together = loaded(make, n, 1), loaded(make, n, 2)
    for rows in (1, 7, 40, 130) if n == WIDE else (1, 7, 40, 130, 300):
        x = rng.standard_normal((rows, 64)).astype(np.float32)
        assert run(together, x) == run(alone, x), rows


@pytest.mark.parametrize("make", [plain, biased, twice, turned, summed])
def test_results_go_past_the_caches(make: Made) -> None:
    assert stays(loaded(make, 64, 2)) == [False]


def test_what_finishes_another_product_stays() -> None:
    """The thread that made a tile reads it, so it is nearer in the cache."""
    assert stays(loaded(gated, 64, 2)) == [True, False, False]


def stays(model: Model) -> list[bool]:
    steps = [step for step in model.compiled.plan.steps if step.kind == "contract"]
    texts = [step.printed.text for step in steps if step.printed is not None]
    found = [re.search(r"gemm_by\(.* plan, ([01]), lo", text) for text in texts]
    return [one is not None and one[1] == "1" for one in found]
