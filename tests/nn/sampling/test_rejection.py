"""Draft tokens that are kept: the tokens are those of the target, whatever the draft is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from maxlab.dtype import DType
from maxlab.errors import MaxlabError
from maxlab.graph import DeviceRef, Graph, TensorType, ops
from maxlab.interfaces import SamplingParams
from maxlab.nn.sampling import RejectionSampler, RejectionSamplerWithResiduals
from maxlab.pipelines.lib.sampling.sampling import (
    rejection_sampler,
    rejection_sampler_with_residuals,
)
from maxlab.pipelines.lib.sampling_reference import distribution, softmax
from tests.chance import fits
from tests.cpu_and_gpu import at, numpy, session

Array = np.ndarray[Any, Any]
CPU, F32, I64, U64 = DeviceRef.CPU(), DType.float32, DType.int64, DType.uint64
TARGET = np.array([1.0, 0.2, -0.5, 1.4, 0.0, -1.0, 0.7, 0.3], np.float32)
DRAFT = np.array([-0.3, 1.5, 0.4, 1.4, -1.0, 0.3, -0.8, 0.0], np.float32)
DRAWS = 20_000


def _model(sampler: Any, place: DeviceRef = CPU) -> Any:
    """A model of a sampler with a seed for each sequence."""
    full = isinstance(sampler, RejectionSamplerWithResiduals)
    types = [
        TensorType(I64, ["batch", "steps"], place),
        TensorType(F32, ["batch", "steps"], place),
        TensorType(F32, ["rows", "tokens"], place),
        TensorType(I64, ["ends"], place),
    ]
    if full:
        types.append(TensorType(F32, ["steps", "batch", "tokens"], place))
    types.append(TensorType(U64, ["batch"], place))
    with Graph("speculate", input_types=types) as graph:
        *given, seeds = (x.tensor for x in graph.inputs)
        graph.output(*sampler(*given, seeds=seeds))
    model = session(place).load(graph)
    return lambda *arrays: [numpy(x) for x in model(*(at(a, place) for a in arrays))]


def _ends(batch: int, steps: int) -> Array:
    return np.arange(0, (batch + 1) * (steps + 1), steps + 1)


# ---------------------------------------------------------------- greedy
@pytest.mark.parametrize("kind", [RejectionSampler, RejectionSamplerWithResiduals])
def test_greedy_tokens_are_those_of_the_target_for_any_draft(place: DeviceRef, kind: Any) -> None:
    rng = np.random.default_rng(9)
    batch, steps, tokens = 6, 3, 7
    target = rng.standard_normal((batch, steps + 1, tokens)).astype(np.float32)
    best = target.argmax(-1)
    drafts = best[:, :steps].copy()
    for n in range(1, batch):  # the first draft is right, the others go wrong at some place
        drafts[n, n % steps] = (drafts[n, n % steps] + 1) % tokens
    draft = rng.standard_normal((steps, batch, tokens)).astype(np.float32)
    given = np.full((batch, steps), -9.0, np.float32)
    inputs = [drafts, given, target.reshape(-1, tokens), _ends(batch, steps)]
    if kind is RejectionSampler:
        kept, follows = _model(kind(place), place)(*inputs, np.arange(batch, dtype=np.uint64))
        kept, follows = kept[:, 0], follows[:, 0]
    else:
        given = 9 + 0 * given
        inputs[1] = given  # so that each draft token is the most probable one of the draft
        kept, each, last = _model(kind(place), place)(
            *inputs, draft, np.arange(batch, dtype=np.uint64)
        )
        follows = np.concatenate([each, last], 1)[np.arange(batch), kept]
    assert kept.tolist() == [steps, *(n % steps for n in range(1, batch))]
    assert follows.tolist() == best[np.arange(batch), kept].tolist()


# ---------------------------------------------------------------- distributions
def _first(kept: Array, drafts: Array, follows: Array) -> Array:
    """The first token of each sequence."""
    return np.where(kept > 0, drafts[:, 0], follows)


@pytest.mark.parametrize(("top_k", "temperature"), [(-1, 1.0), (4, 0.7)])
def test_one_token_has_the_distribution_of_the_target(top_k: int, temperature: float) -> None:
    params = SamplingParams(top_k=top_k, temperature=temperature)
    q, wanted = distribution(DRAFT, params), distribution(TARGET, params).after
    drafts = q.draw(10**15, DRAWS)[:, None]
    target = np.broadcast_to(TARGET, (2 * DRAWS, 8)).copy()
    draft = np.broadcast_to(DRAFT, (1, DRAWS, 8)).copy()
    sampler = RejectionSamplerWithResiduals(CPU, top_k=top_k, temperature=temperature)
    inputs: list[Array] = [drafts, DRAFT[drafts], target, _ends(DRAWS, 1)]
    seeds = np.arange(DRAWS, dtype=np.uint64)
    kept, follows, last = _model(sampler)(*inputs, draft, seeds)
    assert fits(_first(kept, drafts, follows[:, 0]), wanted)
    assert fits(last[kept == 1], wanted)
    share = np.minimum(wanted, q.after).sum()
    assert abs(kept.mean() - share) < 4 * (share * (1 - share) / DRAWS) ** 0.5

    plain = RejectionSampler(CPU, top_k=top_k, temperature=temperature, eps=1.0)
    inputs[1] = inputs[1] - 100  # any logits of a draft are good enough
    kept, follows = _model(plain)(*inputs, seeds)
    first = _first(kept[:, 0], drafts, follows[:, 0])
    assert fits(first, wanted)
    assert 0 < kept.mean() < 1
    alone = distribution(TARGET, params)
    assert first[:50].tolist() == [int(alone.draw(seed)[0]) for seed in range(50)]


def test_later_tokens_have_the_distribution_of_the_target() -> None:
    """The second token where the first draft token is kept, and the third where both are."""
    draws = [distribution(DRAFT).draw(10**15 + step, DRAWS) for step in range(2)]
    drafts = np.stack(draws, 1)
    rows = np.stack([DRAFT[::-1], TARGET, TARGET[::-1]])
    target = np.broadcast_to(rows, (DRAWS, 3, 8)).reshape(-1, 8).copy()
    draft = np.broadcast_to(DRAFT, (2, DRAWS, 8)).copy()
    seeds = np.arange(DRAWS, dtype=np.uint64)
    kept, follows, last = _model(RejectionSamplerWithResiduals(CPU, top_k=-1))(
        drafts, DRAFT[drafts], target, _ends(DRAWS, 2), draft, seeds
    )
    first = _first(kept, drafts, follows[:, 0])
    second = np.where(kept > 1, drafts[:, 1], follows[:, 1])[kept > 0]
    assert fits(first, distribution(DRAFT[::-1]).after)
    assert fits(second, distribution(TARGET).after)
    assert fits(last[kept == 2], distribution(TARGET[::-1]).after)
    both = first[kept > 0] * 8 + second
    shares = np.bincount(first[kept > 0], minlength=8) / len(second)
    assert fits(both, np.outer(shares, distribution(TARGET).after).ravel())


def test_the_draft_alone_would_be_seen() -> None:
    drafts = distribution(DRAFT).draw(10**15, DRAWS)
    assert not fits(drafts, distribution(TARGET).after)


def test_scores_of_requests_make_any_rules_hold() -> None:
    """Each request may have rules of its own: then the logits are the scores by them."""
    params = SamplingParams(top_p=0.7, min_p=0.2, temperature=1.5)
    types = [TensorType(F32, ["rows", "tokens"], CPU)]
    with Graph("scores", input_types=types) as graph:
        rows = graph.inputs[0].tensor.shape[0]
        one = ops.broadcast_to(ops.constant(1.0, DType.float64, CPU), [rows])
        k = ops.broadcast_to(ops.constant(-1, I64, CPU), [rows])
        x = graph.inputs[0].tensor
        graph.output(ops.sample_scores(x, k, 1.5 * one, 0.7 * one, 0.2 * one))
    scores = session(CPU).load(graph)(np.stack([TARGET, DRAFT]))[0].to_numpy()
    assert np.isneginf(scores).any()
    drafts = distribution(DRAFT, params).draw(10**15, DRAWS)[:, None]
    sampler = session(CPU).load(rejection_sampler_with_residuals(CPU, seed=4))
    made = sampler(
        drafts,
        scores[1][drafts],
        np.broadcast_to(scores[0], (2 * DRAWS, 8)).copy(),
        _ends(DRAWS, 1),
        np.broadcast_to(scores[1], (1, DRAWS, 8)).copy(),
    )
    kept, follows, _ = (x.to_numpy() for x in made)
    first = _first(kept, drafts, follows[:, 0])
    assert fits(first, distribution(TARGET, params).after)


# ---------------------------------------------------------------- given numbers
def test_given_numbers_decide_as_in_numpy(place: DeviceRef) -> None:
    rng = np.random.default_rng(9)
    batch, steps, tokens = 8, 4, 5
    target = 3 * rng.standard_normal((batch, steps + 1, tokens)).astype(np.float32)
    draft = target[:, :-1] + 1.5 * rng.standard_normal((batch, steps, tokens)).astype(np.float32)
    drafts = draft.argmax(-1)
    kept_by = rng.random((batch, steps)).astype(np.float32)
    drawn_by = rng.random((batch, steps, tokens)).astype(np.float32)
    model = session(place).load(rejection_sampler_with_residuals(place, debug=True))
    given = np.take_along_axis(draft, drafts[..., None], -1)[..., 0]
    arrays = [drafts, given, target.reshape(-1, tokens), _ends(batch, steps)]
    arrays += [draft.transpose(1, 0, 2), kept_by, drawn_by]
    kept, follows, last = (numpy(x) for x in model(*(at(a, place) for a in arrays)))
    assert last.shape == (batch, 1)
    for n in range(batch):
        wanted = steps
        for step in range(steps):
            p, q = (softmax(x[n, step].astype(np.float64)) for x in (target, draft))
            token = drafts[n, step]
            if kept_by[n, step] >= p[token] / q[token] and wanted == steps:
                wanted = step
            rest = np.maximum(p - q, 0) / np.maximum(p - q, 0).sum()
            assert follows[n, step] == (rest / -np.log(drawn_by[n, step])).argmax()
        assert kept[n] == wanted
    assert 0 < kept.sum() < batch * steps, "some are kept, some are not"


def test_equal_distributions_keep_every_token(place: DeviceRef) -> None:
    rng = np.random.default_rng(9)
    batch, steps, tokens = 2, 3, 6
    target = rng.standard_normal((batch, steps + 1, tokens)).astype(np.float32)
    drafts = rng.integers(0, tokens, (batch, steps))
    given = np.take_along_axis(target[:, :-1], drafts[..., None], -1)[..., 0]
    arrays = [drafts, given, target.reshape(-1, tokens), _ends(batch, steps)]
    arrays += [target[:, :-1].transpose(1, 0, 2).copy(), np.arange(batch, dtype=np.uint64)]
    kept, follows, _ = _model(RejectionSamplerWithResiduals(place, top_k=-1), place)(*arrays)
    assert kept.tolist() == [steps, steps]
    assert ((follows >= 0) & (follows < tokens)).all()


def test_a_sequence_is_drawn_alone_as_in_a_batch() -> None:
    rng = np.random.default_rng(9)
    batch, steps, tokens = 5, 2, 20
    target = rng.standard_normal((batch, steps + 1, tokens)).astype(np.float32)
    draft = rng.standard_normal((steps, batch, tokens)).astype(np.float32)
    drafts, seeds = draft.argmax(-1).T.copy(), np.array([5, 2**64 - 1, 7, 7, 0], np.uint64)
    given = draft.max(-1).T.copy()
    for sampler in (
        RejectionSampler(CPU, top_k=-1),
        RejectionSamplerWithResiduals(CPU, top_k=-1),
    ):
        run, more = _model(sampler), isinstance(sampler, RejectionSamplerWithResiduals)
        every = [drafts, given, target.reshape(-1, tokens), _ends(batch, steps)]
        together = run(*every, *([draft] if more else []), seeds)
        for n in range(batch):
            one = [drafts[n : n + 1], given[n : n + 1], target[n], _ends(1, steps)]
            alone = run(*one, *([draft[:, n : n + 1].copy()] if more else []), seeds[n : n + 1])
            assert [x[0].tolist() for x in alone] == [x[n].tolist() for x in together]


def test_a_draft_that_is_far_surer_is_not_kept() -> None:
    """The logit of a draft token may exceed the target's by no more than eps."""
    target = np.array([[5, 0], [0, 5]], np.float32)
    run = session(CPU).load(rejection_sampler(CPU))
    for given, count in ((5.0, 1), (5.1, 0)):
        kept, follows = run(
            np.array([[0]]), np.array([[given]], np.float32), target, np.array([0, 2])
        )
        assert kept.to_numpy().tolist() == [[count]]
        assert follows.to_numpy().tolist() == [[1 if count else 0]]


# ---------------------------------------------------------------- refusals
TYPES = {
    "draft_tokens": TensorType(I64, ["b", "s"], CPU),
    "draft_logits_for_sampled_tokens": TensorType(F32, ["b", "s"], CPU),
    "target_logits": TensorType(F32, ["rows", "v"], CPU),
    "target_logit_offsets": TensorType(I64, ["ends"], CPU),
    "all_draft_logits": TensorType(F32, ["s", "b", "v"], CPU),
}


@pytest.mark.parametrize(
    ("name", "type", "code"),
    [
        ("draft_tokens", TensorType(F32, ["b", "s"], CPU), "ML666"),
        ("draft_tokens", TensorType(I64, ["b"], CPU), "ML659"),
        ("draft_logits_for_sampled_tokens", TensorType(F32, ["b", "t"], CPU), "ML659"),
        ("target_logits", TensorType(I64, ["rows", "v"], CPU), "ML666"),
        ("target_logit_offsets", TensorType(F32, ["ends"], CPU), "ML666"),
        ("all_draft_logits", TensorType(F32, ["b", "s", "v"], CPU), "ML659"),
    ],
)
def test_wrong_tensors_are_refused(name: str, type: TensorType, code: str) -> None:
    types = TYPES | {name: type}
    with Graph("wrong", input_types=types.values()) as graph, pytest.raises(MaxlabError) as error:
        RejectionSamplerWithResiduals(CPU)(*(x.tensor for x in graph.inputs))
    assert isinstance(error.value, ValueError)
    assert error.value.code == code


@pytest.mark.parametrize(
    "given",
    [{"top_k": -2}, {"temperature": -1.0}, {"seed": -1}, {"seed": 2**64}, {"eps": 2.0}],
    ids=str,
)
def test_wrong_settings_are_refused(given: dict[str, Any]) -> None:
    for kind in (RejectionSampler, RejectionSamplerWithResiduals):
        with pytest.raises(MaxlabError) as error:
            kind(CPU, **given)
        assert error.value.code == "ML678"
    with pytest.raises(TypeError):
        RejectionSampler("cpu")  # type: ignore[arg-type]


def test_debug_wants_the_numbers() -> None:
    with Graph("wrong", input_types=TYPES.values()) as graph, pytest.raises(MaxlabError) as error:
        RejectionSamplerWithResiduals(CPU, debug=True)(*(x.tensor for x in graph.inputs))
    assert error.value.code == "ML678"
