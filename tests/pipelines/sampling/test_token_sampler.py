"""The sampler of pipelines against the reference, in batches and alone, in one step and in many."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from maxlab.dtype import DType
from maxlab.errors import ExecutionError, InputError, UnsupportedError
from maxlab.graph import DeviceRef
from maxlab.interfaces import ProcessorInputs, SamplingParams
from maxlab.pipelines.lib.sampling import SamplingConfig
from maxlab.pipelines.lib.sampling.inputs import in_order, sampler_arrays
from maxlab.pipelines.lib.sampling.processors import apply_logits_processors
from maxlab.pipelines.lib.sampling.sampling import token_sampler
from maxlab.pipelines.lib.sampling_reference import distribution, next_distribution
from tests.chance import fits
from tests.cpu_and_gpu import Array, at, numpy
from tests.pipelines.sampling.running import VOCABULARY, Sampler, logits_of, request, wanted

STEPS = 5
CPU = DeviceRef.CPU()
PARAMS: list[dict[str, Any]] = [
    {},
    {"temperature": 0},
    {"temperature": 0.7, "top_k": 5},
    {"temperature": 1.7, "top_p": 0.8},
    {"min_p": 0.2},
    {"temperature": 2.0, "top_k": 20, "top_p": 0.95, "min_p": 0.05},
    {"repetition_penalty": 1.8},
    {"frequency_penalty": 1.5, "presence_penalty": 0.5},
    {"frequency_penalty": -2.0, "temperature": 0.4},
    {"min_new_tokens": 4, "frequency_penalty": 0.3, "repetition_penalty": 0.7, "top_p": 0.6},
]
EVERYTHING = SamplingConfig(do_penalties=True, enable_min_tokens=True)


def _requests() -> list[Any]:
    """Two requests for each of PARAMS: with other prompts, and with tokens that were generated."""
    return [
        request([3, 5, 3, 7 + n], [9, 9, 11][: n * 2], seed=100 * k + n, **params)
        for k, params in enumerate(PARAMS)
        for n in range(2)
    ]


@pytest.fixture(scope="module")
def sampler() -> Sampler:
    return Sampler(EVERYTHING, CPU)


def test_tokens_are_those_of_the_reference(place: DeviceRef) -> None:
    contexts = _requests()
    logits = [logits_of(len(contexts), step) for step in range(STEPS)]
    made = np.stack(Sampler(EVERYTHING, place).steps(contexts, logits), 1)
    for n, context in enumerate(_requests()):
        tokens = wanted(context, [row[n] for row in logits])
        assert made[n, : len(tokens)].tolist() == tokens, PARAMS[n // 2]


def test_tokens_do_not_depend_on_the_batch_or_on_the_number_of_steps(sampler: Sampler) -> None:
    logits = [logits_of(20, step) for step in range(STEPS)]
    together = np.stack(sampler.steps(_requests(), logits), 1)
    order = np.random.default_rng(1).permutation(20)
    contexts = _requests()
    shuffled = sampler.steps([contexts[n] for n in order], [row[order] for row in logits])
    assert np.stack(shuffled, 1).tolist() == together[order].tolist()
    for n in range(0, 20, 3):  # one step a time, with what the requests know by then
        context = _requests()[n]
        for step in range(STEPS):
            if context.is_done:
                break
            (token,) = sampler.steps([context], [logits[step][n : n + 1]])
            assert token.tolist() == [together[n, step]]
            context.update(int(token[0]))


def test_penalties_see_the_tokens_of_earlier_steps(sampler: Sampler) -> None:
    logits = np.zeros((1, VOCABULARY), np.float32)
    logits[0, 10:14] = [9.0, 8.5, 8.0, 7.5]
    once = request([1], temperature=0, presence_penalty=2.0)
    assert np.concatenate(sampler.steps([once], [logits] * 5)).tolist() == [10, 11, 12, 13, 10]
    often = request([1], temperature=0, frequency_penalty=0.4)
    assert np.concatenate(sampler.steps([often], [logits] * 5)).tolist() == [10, 10, 11, 10, 11]
    prompt = request([1, 10, 12], temperature=0, repetition_penalty=1.3)
    assert np.concatenate(sampler.steps([prompt], [logits] * 3)).tolist() == [11, 13, 10]
    plain = request([1, 10], temperature=0)
    assert np.concatenate(sampler.steps([plain], [logits] * 3)).tolist() == [10, 10, 10]


def test_penalties_change_a_copy_of_the_logits(sampler: Sampler) -> None:
    logits = logits_of(2)
    before = logits.copy()
    sampler.steps(
        [request([1, 2], [3], repetition_penalty=2.0, seed=n) for n in range(2)], [logits]
    )
    assert (logits == before).all()


def test_a_request_does_not_end_before_its_least_number_of_tokens(sampler: Sampler) -> None:
    logits = np.zeros((2, VOCABULARY), np.float32)
    logits[:, 0] = 50.0  # token 0 ends a request
    logits[:, 5] = 10.0
    # A seed of its own: one draw in 600 is neither token.
    contexts = [request([1], min_new_tokens=2, seed=1), request([1], seed=2)]
    assert np.stack(sampler.steps(contexts, [logits] * 4), 1).tolist() == [[5, 5, 0, 0], [0] * 4]


def test_seeds_of_requests_are_used(sampler: Sampler) -> None:
    logits = [np.zeros((30, VOCABULARY), np.float32)]
    (made,) = sampler.steps([request([1], seed=n) for n in range(30)], logits)
    assert len(set(made.tolist())) > 10
    (same,) = sampler.steps([request([1], seed=4) for _ in range(30)], logits)
    assert len(set(same.tolist())) == 1
    (later,) = sampler.steps([request([1], [2], seed=n - 1) for n in range(1, 31)], logits)
    assert later.tolist() == made[1:].tolist() + later[-1:].tolist(), "seed and place are added"


@pytest.mark.parametrize(
    "params",
    [
        {"min_p": 0.3, "temperature": 4},
        {"top_p": 0.7, "temperature": 4},
        {"top_k": 5, "presence_penalty": 1.0, "temperature": 4},
    ],
    ids=str,
)
def test_draws_of_many_requests_have_the_distribution(
    sampler: Sampler, params: dict[str, Any]
) -> None:
    logits, rows = logits_of(1)[0, :9], 20_000
    contexts = [request([1, 2], [3], seed=7 * n, **params) for n in range(2)]
    arrays = {name: array[:1] for name, array in sampler_arrays(EVERYTHING, contexts).items()}
    arrays |= {
        name: np.broadcast_to(array, (rows, *array.shape[1:])).copy()
        for name, array in arrays.items()
        if "freq" not in name or name.endswith("penalty")
    }
    for name in ("penalty", "repetition"):
        data, ends = (
            sampler_arrays(EVERYTHING, contexts)[f"{name}_freq_{part}"]
            for part in ("data", "offsets")
        )
        own = data[: ends[1]]
        arrays[f"{name}_freq_data"] = np.tile(own, (rows, 1))
        arrays[f"{name}_freq_offsets"] = (np.arange(rows + 1) * len(own)).astype(np.uint32)
    arrays |= {
        "seed": np.arange(rows, dtype=np.uint64),
        "logits": np.tile(logits, (rows, 1)),
        "prev_tokens": np.zeros((rows, 0), np.int64),
        "min_tokens_mask": np.zeros((0, 2), np.int32),
    }
    made = sampler.model(*in_order(sampler.types, arrays))[0].to_numpy()
    found = distribution(logits, SamplingParams(**params), prompt=[1, 2], generated=[3])
    assert fits(made, found.after)


# ---------------------------------------------------------------- masks, rows and logits
def test_a_bitmask_leaves_what_it_allows(place: DeviceRef) -> None:
    config = SamplingConfig(enable_structured_output=True)
    contexts = [request([1], seed=n, top_p=0.9) for n in range(8)]
    logits, rng = logits_of(8), np.random.default_rng(3)
    # Masks are wider than the vocabulary where words of 32 bits are unpacked.
    mask = rng.random((8, 64)) < 0.3
    mask[:, 7] = True
    made = Sampler(config, place)
    (tokens,) = made.steps(contexts, [logits], bitmask=mask)
    for n, context in enumerate(contexts):
        forbidden = np.flatnonzero(~mask[n, :VOCABULARY]).tolist()
        found = distribution(logits[n], context.sampling_params, prompt=[1], forbidden=forbidden)
        assert tokens[n] == found.draw(context.sampling_params.seed)
    narrow = np.ones((8, 5), np.bool_)  # a tokenizer may know fewer tokens than the model
    assert made.steps(contexts, [logits], bitmask=narrow)[0].max() < 5
    with pytest.raises(ExecutionError) as error:
        made.steps(contexts, [logits], bitmask=np.zeros((8, 64), np.bool_))
    assert error.value.code == "ML185"


def test_variable_logits_are_those_of_the_last_tokens(place: DeviceRef) -> None:
    config = SamplingConfig(enable_variable_logits=True, do_penalties=True)
    contexts = _requests()[12:16]
    offsets, logits = np.array([0, 3, 4, 4 + 2, 7], np.uint32), logits_of(7)
    (made,) = Sampler(config, place).steps(contexts, [logits], logit_offsets=offsets)
    last = logits[offsets[1:] - 1]
    assert made.tolist() == [wanted(c, [last[n]])[0] for n, c in enumerate(contexts)]


def test_logits_of_what_was_drawn_are_returned(place: DeviceRef) -> None:
    config = SamplingConfig(do_penalties=True)
    made = Sampler(config, place, return_logits=True)
    contexts = [request([1], [2], seed=n, presence_penalty=0.5) for n in range(3)]
    logits = [logits_of(3, step) for step in range(3)]
    tokens = np.stack(made.steps(contexts, logits), 1)
    found = made.last["existing_logits"]
    assert found.shape == (3, 3)
    for n in range(3):
        seen = {2}
        for step in range(3):
            token = int(tokens[n, step])
            penalty = np.float32(0.5 if token in seen else 0)
            assert found[n, step] == logits[step][n, token] - penalty
            seen.add(token)


@pytest.mark.parametrize("dtype", [DType.bfloat16, DType.float64], ids=lambda dtype: dtype.name)
def test_logits_of_other_dtypes(dtype: DType) -> None:
    config = SamplingConfig(in_dtype=dtype, out_dtype=dtype, do_penalties=True)
    contexts = [request([1, 2], [3], seed=n, repetition_penalty=2.0) for n in range(6)]
    logits = logits_of(6).astype(dtype.ml_numpy)
    (made,) = Sampler(config, CPU).steps(contexts, [logits])
    assert made.tolist() == [
        wanted(c, [logits[n].astype(np.float64)])[0] for n, c in enumerate(contexts)
    ]


# ---------------------------------------------------------------- processors
def test_processors_change_the_rows_of_their_request(place: DeviceRef) -> None:
    seen: list[Any] = []

    def never(token: int) -> Any:
        def process(inputs: ProcessorInputs) -> None:
            seen.append((inputs.context, inputs.logits.shape))
            rows = numpy(inputs.logits)
            rows[:, token] = -np.inf
            inputs.logits.inplace_copy_from(at(rows, place))

        return process

    contexts = [
        request([1], temperature=0, logits_processors=[never(4), never(6)]),
        request([1], temperature=0),
    ]
    logits = np.tile(np.arange(8, dtype=np.float32), (3, 1))
    logits[:, 7] = -1
    held = at(logits, place)
    apply_logits_processors(contexts, held, at(np.array([0, 1, 3], np.uint32), place))
    changed = numpy(held)
    assert [tuple(map(int, shape)) for _, shape in seen] == [(1, 8)] * 2
    assert changed[0].argmax() == 5
    assert np.isneginf(changed[0, [4, 6]]).all()
    assert (changed[1:] == logits[1:]).all()
    assert next_distribution(logits[0], contexts[0]).order()[0] == 5, "so says the reference"
    with pytest.raises(ValueError, match="ML659"):
        apply_logits_processors(contexts, held)


# ---------------------------------------------------------------- refusals
@pytest.mark.parametrize(
    "params", [{"presence_penalty": 1.0}, {"repetition_penalty": 1.1}, {"min_new_tokens": 1}]
)
def test_a_request_that_the_sampler_cannot_serve_is_refused(params: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedError) as error:
        sampler_arrays(SamplingConfig(), [request([1], **params)])
    assert error.value.code == "ML679"


def test_inputs_have_their_names(sampler: Sampler) -> None:
    with pytest.raises(InputError, match="logits"):
        in_order(sampler.types, {"logits": 1})
    with pytest.raises(TypeError):
        token_sampler({}, CPU)  # type: ignore[arg-type]


def test_no_requests_draw_nothing(sampler: Sampler) -> None:
    empty: Array = np.zeros((0, VOCABULARY), np.float32)
    assert [x.tolist() for x in sampler.steps([], [empty, empty])] == [[], []]
