"""Tokens that are drawn by min-p: their distribution, dtypes and shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from maxlab.dtype import DType
from maxlab.errors import MaxlabError
from maxlab.graph import DeviceRef, Graph, TensorType
from maxlab.interfaces import SamplingParams
from maxlab.nn.sampling import MinPSampler
from maxlab.pipelines.lib.sampling_reference import distribution
from tests.chance import fits
from tests.cpu_and_gpu import at, numpy, session

F32, CPU = DType.float32, DeviceRef.CPU()
LOGITS = np.array([1.0, 2.5, -2.0, 0.5, 2.0], np.float32)


def _drawn(
    place: DeviceRef, logits: Any, temperature: float, dtype: DType = F32, *given: Any
) -> Any:
    types = [TensorType(DType.from_numpy(logits.dtype), logits.shape, place)]
    with Graph("draw", input_types=types) as graph:
        sampler = MinPSampler(dtype, logits.shape, temperature)
        graph.output(sampler(graph.inputs[0].tensor, *given))
    return numpy(session(place).load(graph)(at(logits, place))[0])


@pytest.mark.parametrize(("min_p", "temperature"), [(0.3, 1.0), (0.2, 2.0), (0.0, 0.7)])
def test_draws_have_the_analytic_distribution(min_p: float, temperature: float) -> None:
    rows = np.broadcast_to(LOGITS, (20_000, 5)).copy()
    made = _drawn(CPU, rows, temperature, DType.int64, min_p)
    assert made.shape == (20_000, 1)
    wanted = distribution(LOGITS, SamplingParams(min_p=min_p, temperature=temperature))
    assert fits(made, wanted.after)


@pytest.mark.parametrize("dtype", [F32, DType.int32, DType.uint8], ids=lambda dtype: dtype.name)
def test_tokens_have_the_dtype_of_the_sampler(place: DeviceRef, dtype: DType) -> None:
    made = _drawn(place, np.stack([LOGITS, LOGITS[::-1]]), 0.0, dtype)
    assert made.dtype == dtype.to_numpy()
    assert made.tolist() == [[1], [3]], "a temperature of 0 takes the most probable token"


def test_each_row_has_its_own_min_p_and_seed(place: DeviceRef) -> None:
    rows = np.broadcast_to(LOGITS, (4, 5)).copy()
    seeds = np.array([11, 12, 11, 2**64 - 1], np.uint64)
    least = np.array([0.0, 0.3, 1.0, 0.1], np.float64)
    made = _drawn(place, rows, 3.0, DType.int64, least, seeds)
    for n in range(4):
        found = distribution(LOGITS, SamplingParams(min_p=float(least[n]), temperature=3.0))
        assert made[n] == found.draw(int(seeds[n]))


def test_the_attribute_is_the_default() -> None:
    sampler = MinPSampler(F32, [7, "n"], temperature=2)
    assert (sampler.dtype, sampler.min_p, sampler.temperature) == (F32, 0.0, 2.0)
    assert list(sampler.shape) == [7, "n"]
    sampler.min_p = 1.0
    rows = np.broadcast_to(LOGITS, (7, 5)).copy()
    with Graph("draw", input_types=[TensorType(F32, rows.shape, CPU)]) as graph:
        graph.output(sampler(graph.inputs[0].tensor))
    assert session(CPU).load(graph)(rows)[0].to_numpy().tolist() == [[1.0]] * 7


def _wrong(build: Any) -> str:
    with (
        Graph("wrong", input_types=[TensorType(F32, ["batch", 300], CPU)]) as graph,
        pytest.raises(MaxlabError) as error,
    ):
        build(graph.inputs[0].tensor)
    assert isinstance(error.value, ValueError)
    return str(error.value.code)


@pytest.mark.parametrize(
    ("build", "code"),
    [
        (lambda x: MinPSampler(F32, [3]), "ML659"),
        (lambda x: MinPSampler(F32, x.shape, -1.0), "ML678"),
        (lambda x: MinPSampler(DType.bfloat16, x.shape), "ML666"),  # 300 tokens need 9 bits
        (lambda x: MinPSampler(DType.int8, x.shape), "ML666"),
        (lambda x: MinPSampler(DType.bool, x.shape), "ML666"),
        (MinPSampler(F32, ["batch", 301]), "ML659"),
        (lambda x: MinPSampler(DType.float64, x.shape)(x), "ML666"),
        (lambda x: MinPSampler(F32, x.shape)(x, 1.5), "ML678"),
        (lambda x: MinPSampler(F32, x.shape)(x, 0.5, -3), "ML678"),
    ],
)
def test_what_does_not_fit_is_refused(build: Any, code: str) -> None:
    assert _wrong(build) == code
