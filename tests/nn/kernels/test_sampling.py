"""Draws of rows against their distributions, alone and in batches; penalties and counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from maxlab.dtype import DType
from maxlab.engine import InferenceSession
from maxlab.errors import ExecutionError, MaxlabError
from maxlab.graph import BufferType, DeviceRef, Graph, TensorType, TensorValue, ops
from maxlab.interfaces import SamplingParams
from maxlab.nn import kernels
from maxlab.pipelines.lib.sampling_reference import distribution, penalised
from tests.chance import fits
from tests.cpu_and_gpu import at, numpy, session

Array = np.ndarray[Any, Any]
F32, F64, I32, I64, U32 = (
    DType.float32, DType.float64, DType.int32, DType.int64, DType.uint32,
)  # fmt: skip
CPU = DeviceRef.CPU()
DRAWS = 20_000
LOGITS = np.array([2.0, 1.5, 1.5, 0.3, 0.0, -0.4, -1.0, -3.0], np.float32)
RULES: list[dict[str, Any]] = [
    {},
    {"temperature": 0.6},
    {"top_k": 3},
    {"top_p": 0.8},
    {"min_p": 0.25},
    {"temperature": 1.6, "top_k": 7, "top_p": 0.93, "min_p": 0.1},
]


def _fused(place: DeviceRef) -> Any:
    """A model of ``topk_fused_sampling`` of rows with numbers of their own."""
    types = [
        TensorType(F32, ["batch", "tokens"], place),
        *(TensorType(dtype, ["batch"], place) for dtype in (I64, F32, F64, DType.uint64)),
        TensorType(I64, [], CPU),
        TensorType(F32, [], CPU),
    ]
    with Graph("draw", input_types=types) as graph:
        logits, k, heat, part, seed, max_k, min_top_p = (x.tensor for x in graph.inputs)
        graph.output(
            kernels.topk_fused_sampling(
                logits, k, temperature=heat, max_k=max_k, min_top_p=min_top_p, top_p=part, seed=seed
            )
        )
    model = session(place).load(graph)

    def run(logits: Array, k: Any, heat: Any, part: Any, seed: Any, most: int = -1) -> Array:
        rows = len(logits)
        numbers = [
            np.broadcast_to(np.asarray(x, dtype.to_numpy()), rows).copy()
            for x, dtype in zip((k, heat, part, seed), (I64, F32, F64, DType.uint64), strict=True)
        ]
        made = model(
            *(at(x, place) for x in (logits, *numbers)),
            np.array(most, np.int64),
            np.array(0, np.float32),
        )
        return numpy(made[0])

    return run


@pytest.fixture(scope="module")
def draw() -> Any:
    return _fused(CPU)


def _all_rules(place: DeviceRef) -> Any:
    """A model of ``ops.sample_token`` with the rules of `SamplingParams`."""
    types = [
        TensorType(F32, ["batch", "tokens"], place),
        TensorType(DType.uint64, ["batch"], place),
    ]
    types += [TensorType(dtype, ["batch"], place) for dtype in (I64, F64, F64, F64)]
    with Graph("draw", input_types=types) as graph:
        logits, seeds, k, heat, part, least = (x.tensor for x in graph.inputs)
        uniform = ops.squeeze(ops.sample_uniform(seeds), 1)
        graph.output(ops.sample_token(logits, k, heat, part, least, uniform))
    return session(place).load(graph)


def test_the_numbers_of_a_call_decide_what_is_drawn(draw: Any) -> None:
    """Each of them alone, where tokens have the probabilities 0.5, 0.3, 0.15 and 0.05."""
    rows, seeds = np.tile(np.log([0.5, 0.3, 0.15, 0.05]), (300, 1)).astype(np.float32), range(300)

    def drawn(k: int, heat: float, part: Any) -> set[int]:
        return set(draw(rows, k, heat, part, np.array(seeds)).ravel().tolist())

    assert drawn(-1, 1.0, 1.0) == {0, 1, 2, 3}
    assert drawn(-1, 1.0, 0.6) == {0, 1}
    assert drawn(3, 1.0, 1.0) == {0, 1, 2}
    assert drawn(-1, 0.01, 1.0) == {0}
    assert drawn(-1, 0.0, 1.0) == {0}


@pytest.fixture(scope="module")
def ruled() -> Any:
    return _all_rules(CPU)


@pytest.mark.parametrize("rules", RULES, ids=str)
def test_draws_have_the_analytic_distribution(ruled: Any, rules: dict[str, Any]) -> None:
    params = SamplingParams(**rules)
    numbers = (params.top_k, params.temperature, params.top_p, params.min_p)
    given = [np.full(DRAWS, x, np.int64 if x is numbers[0] else np.float64) for x in numbers]
    rows = np.broadcast_to(LOGITS, (DRAWS, len(LOGITS))).copy()
    (made,) = ruled(rows, np.arange(DRAWS, dtype=np.uint64), *given)
    assert fits(made.to_numpy(), distribution(LOGITS, params).after)


def test_another_distribution_is_told_apart(ruled: Any) -> None:
    ones = np.ones(DRAWS)
    rows = np.broadcast_to(LOGITS, (DRAWS, len(LOGITS))).copy()
    seeds = np.arange(DRAWS, dtype=np.uint64)
    (made,) = ruled(rows, seeds, np.full(DRAWS, -1), 1.08 * ones, ones, 0 * ones)
    assert not fits(made.to_numpy(), distribution(LOGITS).after)


def test_scores_are_those_of_transformers() -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    rng = np.random.default_rng(6)
    logits = rng.standard_normal((len(RULES), 60)) * 2
    params = [SamplingParams(**rules) for rules in RULES]
    given = [np.array([one.top_k for one in params])]
    given += [
        np.array([getattr(one, name) for one in params], np.float64)
        for name in ("temperature", "top_p", "min_p")
    ]
    with Graph("scores", input_types=[]) as graph:
        graph.output(ops.sample_scores(*(ops.constant(x, device=CPU) for x in (logits, *given))))
    scores = InferenceSession().load(graph)()[0].to_numpy()
    kinds = {
        "temperature": transformers.TemperatureLogitsWarper,
        "top_k": transformers.TopKLogitsWarper,
        "top_p": transformers.TopPLogitsWarper,
        "min_p": transformers.MinPLogitsWarper,
    }
    for n, rules in enumerate(RULES):
        wanted = torch.tensor(logits[n : n + 1])
        for name, kind in kinds.items():
            if name in rules:
                wanted = kind(float(rules[name]) if name != "top_k" else rules[name])(None, wanted)
        np.testing.assert_allclose(scores[n], (wanted - wanted.max())[0].numpy(), atol=1e-12)


def test_a_row_is_drawn_alone_as_in_a_batch(place: DeviceRef) -> None:
    run = _fused(place)
    rng = np.random.default_rng(2)
    rows, count = (12, 60) if place.is_cpu() else (6, 20)
    logits = rng.standard_normal((rows, count)).astype(np.float32)
    k, heat = rng.choice([-1, 2, 9], rows), rng.choice([0.5, 1.0, 2.0], rows)
    part, seed = rng.choice([0.5, 0.9, 1.0], rows), rng.integers(0, 2**63, rows).astype(np.uint64)
    together = run(logits, k, heat, part, seed, int(k.max()))
    assert together.shape == (rows, 1)
    for n in range(rows):
        params = SamplingParams(
            top_k=int(k[n]), temperature=float(np.float32(heat[n])), top_p=float(part[n])
        )
        assert together[n] == distribution(logits[n], params).draw(int(seed[n])), "the reference"
    order = rng.permutation(rows)
    shuffled = run(logits[order], k[order], heat[order], part[order], seed[order], 9)
    assert shuffled.tolist() == together[order].tolist()
    for n in range(0, rows, 3):
        alone = run(logits[n : n + 1], k[n], heat[n], part[n], seed[n])
        assert alone.tolist() == together[n : n + 1].tolist()


def _rows(rng: np.random.Generator, rows: int) -> Array:
    """Logits of many kinds: far and near, equal, impossible, signed zeros, some of each twice."""
    size = int(rng.choice([1, 2, 7, 40, 257, 300, 1500]))
    x = rng.standard_normal((rows, size)) * rng.choice([1e-8, 0.1, 1, 5, 1e30])
    kind = rng.integers(5)
    if kind == 1:
        x = np.round(x)
    elif kind == 2:
        x = np.where(rng.random(x.shape) < 0.5, 0.0, -0.0)
    elif kind == 3:
        x = np.where(rng.random(x.shape) < 0.6, -np.inf, x)
        x[:, rng.integers(size)] = 0
    elif kind == 4:
        x = np.repeat(x, 4, axis=1)[:, :size]
    return np.asarray(x, np.float32)


def test_rows_of_many_kinds_are_drawn_as_by_the_reference(place: DeviceRef) -> None:
    model, rng = _all_rules(place), np.random.default_rng(8)
    rows = 12 if place.is_cpu() else 3
    for _ in range(20 if place.is_cpu() else 8):
        logits, seeds = _rows(rng, rows), rng.integers(0, 2**64, rows, dtype=np.uint64)
        params = [
            SamplingParams(
                top_k=int(rng.choice([-1, 1, 2, 3, 10, 255])),
                temperature=float(rng.choice([0, 1e-300, 0.01, 0.5, 1, 3, 1e300])),
                top_p=float(rng.choice([1e-9, 0.1, 0.3, 0.5, 0.9, 0.999, 1])),
                min_p=float(rng.choice([0, 1e-5, 0.1, 0.5, 1])),
            )
            for _ in range(rows)
        ]
        given = [np.array([one.top_k for one in params])]
        given += [
            np.array([getattr(one, name) for one in params])
            for name in ("temperature", "top_p", "min_p")
        ]
        made = numpy(model(*(at(x, place) for x in (logits, seeds, *given)))[0])
        wanted = [distribution(row, one) for row, one in zip(logits, params, strict=True)]
        draws = [int(found.draw(int(seed))[0]) for found, seed in zip(wanted, seeds, strict=True)]
        assert made.tolist() == draws


def test_seeds_make_different_draws(draw: Any) -> None:
    row = np.zeros((200, 50), np.float32)
    made = draw(row, -1, 1.0, 1.0, np.arange(200))
    assert len(np.unique(made)) > 40
    assert (draw(row, -1, 1.0, 1.0, 5) == draw(row[:1], -1, 1.0, 1.0, 5)).all()


def test_what_bounds_all_rows_bounds_each(draw: Any) -> None:
    rows = np.zeros((300, 30), np.float32)
    assert draw(rows, 20, 1.0, 1.0, np.arange(300), 4).max() == 3
    assert draw(rows, -1, 1.0, 1.0, np.arange(300), 4).max() > 20, "all tokens stay all"


@pytest.mark.parametrize(
    ("row", "code"),
    [
        ([1.0, np.nan, 2.0], "ML183"),
        ([1.0, np.inf, 2.0], "ML183"),
        ([-np.inf, -np.inf, -np.inf], "ML185"),
    ],
)
def test_rows_without_a_distribution_end_the_run(
    place: DeviceRef, row: list[float], code: str
) -> None:
    rows = np.array([[1.0, 2.0, 3.0], row], np.float32)
    run = _fused(place)
    with pytest.raises(ExecutionError) as error:
        run(rows, -1, 1.0, 1.0, 0)
    assert error.value.code == code


def _wrong(call: Callable[[TensorValue], object]) -> str:
    with (
        Graph("wrong", input_types=[TensorType(F32, ["batch", 5], CPU)]) as graph,
        pytest.raises(MaxlabError) as error,
    ):
        call(graph.inputs[0].tensor)
    assert isinstance(error.value, ValueError)
    return str(error.value.code)


SEEDS = np.zeros((2, 2), np.uint64)


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"top_k": np.array([3, 4])}, "ML678"),  # without max_k
        ({"top_k": -2}, "ML678"),
        ({"top_k": 2.5}, "ML678"),
        ({"top_k": 2, "temperature": -0.1}, "ML678"),
        ({"top_k": 2, "temperature": float("nan")}, "ML678"),
        ({"top_k": 2, "top_p": 1.1}, "ML678"),
        ({"top_k": 2, "seed": -1}, "ML678"),
        ({"top_k": 2, "seed": 2**64}, "ML678"),
        ({"top_k": 2, "seed": SEEDS}, "ML659"),
        ({"top_k": 2, "seed": np.zeros(2)}, "ML666"),
        ({"top_k": np.zeros(2), "max_k": 3}, "ML666"),
    ],
)
def test_wrong_numbers_are_refused(given: dict[str, Any], code: str) -> None:
    assert _wrong(lambda x: kernels.topk_fused_sampling(x, **given)) == code


def test_wrong_logits_are_refused() -> None:
    assert _wrong(lambda x: kernels.topk_fused_sampling(x[0], 1)) == "ML659"
    assert _wrong(lambda x: kernels.topk_fused_sampling(ops.cast(x, I32), 1)) == "ML666"


# ---------------------------------------------------------------- penalties and counts
def _penalties(place: DeviceRef, dtype: DType) -> Any:
    types = [
        BufferType(dtype, ["batch", "tokens"], place),
        TensorType(I32, ["pairs", 2], place),
        TensorType(U32, ["ends"], place),
        *(TensorType(F64, ["batch"], place) for _ in range(3)),
    ]
    with Graph("penalties", input_types=types) as graph:
        logits, *rest = graph.inputs
        data, offsets, frequency, presence, repetition = (x.tensor for x in rest)
        kernels.apply_penalties_to_logits(
            logits.buffer,
            data,
            offsets,
            frequency_penalty=frequency,
            presence_penalty=presence,
            repetition_penalty=repetition,
        )
        graph.output()
    return session(place).load(graph)


def _changed(model: Any, place: DeviceRef, *given: Array) -> Array:
    """The first of ``given`` after a run. A GPU tells of errors when a result is wanted."""
    held = [at(x, place) for x in given]
    model(*held)
    return numpy(held[0])


@pytest.mark.parametrize("dtype", [F64, DType.bfloat16], ids=lambda dtype: dtype.name)
def test_penalties_are_those_of_the_reference(place: DeviceRef, dtype: DType) -> None:
    rng = np.random.default_rng(4)
    rows, count = 3, 9
    logits = (rng.standard_normal((rows, count)) * 3).astype(dtype.ml_numpy)
    logits[0, 4] = -np.inf
    counts: list[dict[int, int]] = [{4: 2, 1: 1}, {}, {8: 3, 0: 0, 2: 1}]
    pairs = [[*each.items(), (-1, 0)] for each in counts]
    data = np.array([pair for each in pairs for pair in each], np.int32)
    offsets = np.cumsum([0, *map(len, pairs)]).astype(np.uint32)
    frequency, presence = np.array([0.5, 9.0, -0.25]), np.array([0.1, 9.0, 0.0])
    repetition = np.array([1.5, 9.0, 0.5])
    given = (data, offsets, frequency, presence, repetition)
    changed = _changed(_penalties(place, dtype), place, logits, *given)
    for n in range(rows):
        there = {token: times for token, times in counts[n].items() if times}
        params = SamplingParams(
            frequency_penalty=frequency[n],
            presence_penalty=presence[n],
            repetition_penalty=repetition[n],
        )
        wanted = penalised(logits[n].astype(np.float64), params, there, there)
        np.testing.assert_array_equal(changed[n], wanted.astype(dtype.ml_numpy))


def test_a_penalty_is_one_number_for_all_rows() -> None:
    data, offsets = np.array([[0, 2], [1, 1]], np.int32), np.array([0, 1, 2], np.uint32)
    with Graph("one", input_types=[BufferType(DType.float16, [2, 2], CPU)]) as graph:
        kernels.apply_penalties_to_logits(
            graph.inputs[0].buffer,
            ops.constant(data, device=CPU),
            ops.constant(offsets, device=CPU),
            frequency_penalty=1e30,
            repetition_penalty=0.5,
        )
        graph.output()
    logits = np.array([[-1, 1], [1, 1]], np.float16)
    InferenceSession().load(graph)(logits)
    most = float(np.finfo(np.float16).max)
    assert logits.tolist() == [[-most, 1], [1, -most]], "what does not fit is the largest number"


def _counting(place: DeviceRef) -> Any:
    types = [
        BufferType(I32, ["pairs", 2], place),
        TensorType(U32, ["ends"], place),
        TensorType(I64, ["batch"], place),
    ]
    with Graph("count", input_types=types) as graph:
        data, offsets, tokens = graph.inputs
        kernels.update_frequency_data(data.buffer, offsets.tensor, tokens.tensor)
        graph.output()
    return session(place).load(graph)


def test_tokens_are_counted_in_their_place(place: DeviceRef) -> None:
    rows = [
        ([[-1, 0], [5, 1]], 5, [[-1, 0], [5, 2]]),  # a free place before it stays free
        ([[3, 1], [-1, 7], [-1, 0]], 5, [[3, 1], [5, 1], [-1, 0]]),
        ([[3, 1]], 5, [[3, 1]]),  # there is no place
        ([], 5, []),
        ([[0, 1]] + [[-1, 0]] * 300, 0, [[0, 2]] + [[-1, 0]] * 300),
    ]
    data = np.array([pair for before, _, _ in rows for pair in before], np.int32)
    offsets = np.cumsum([0, *(len(before) for before, _, _ in rows)]).astype(np.uint32)
    tokens = np.array([token for _, token, _ in rows])
    changed = _changed(_counting(place), place, data, offsets, tokens)
    assert changed.tolist() == [pair for _, _, after in rows for pair in after]


@pytest.mark.parametrize(
    ("offsets", "token"),
    [([0, 3], 1), ([2, 1], 1), ([0, 1], 7), ([0, 2**32 - 1], 1)],
    ids=["beyond", "backwards", "token", "far"],
)
def test_numbers_that_lead_out_of_memory_end_the_run(
    place: DeviceRef, offsets: list[int], token: int
) -> None:
    logits, data = np.ones((1, 4), np.float64), np.array([[token, 1], [-1, 0]], np.int32)
    ends, one = np.array(offsets, np.uint32), np.ones(1)
    with pytest.raises(ExecutionError) as error:
        _changed(_penalties(place, F64), place, logits, data, ends, one, one, one)
    assert error.value.code == "ML652"
    tokens = np.array([-5 if token == 7 else token])
    with pytest.raises(ExecutionError) as error:
        _changed(_counting(place), place, data, ends, tokens)
    assert error.value.code == "ML652"
