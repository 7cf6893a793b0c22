"""The reference of sampling against transformers' processors, formulas, and counts of draws."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxlab.errors import InputError, InputTypeError, UnsupportedError
from maxlab.interfaces import ProcessorInputs, SamplingParams
from maxlab.pipelines.core import TextContext
from maxlab.pipelines.lib.sampling_reference import (
    Rule,
    distribution,
    entropy_of,
    next_distribution,
)
from tests.chance import fits

VOCABULARY = 50
PROMPT, GENERATED = [3, 3, 7, 20], [7, 9, 9, 9, 41]


def logits_of(seed: int, size: int = VOCABULARY) -> Any:
    """Logits as a model makes them: float32, of both signs."""
    return (np.random.default_rng(seed).standard_normal(size) * 3).astype(np.float32)


# ---------------------------------------------------------------- transformers
SETTINGS = [
    {},
    {"temperature": 0.3},
    {"temperature": 2.5},
    {"top_k": 1},
    {"top_k": 5},
    {"top_p": 0.9},
    {"top_p": 0.2},
    {"min_p": 0.05},
    {"min_p": 1.0},
    {"repetition_penalty": 1.7},
    {"repetition_penalty": 0.6},
    {"temperature": 0.7, "top_k": 9, "top_p": 0.8, "min_p": 0.1, "repetition_penalty": 1.2},
    {"temperature": 1.8, "top_k": 30, "top_p": 0.95, "min_p": 0.02, "repetition_penalty": 0.9},
]


@pytest.mark.parametrize("options", SETTINGS, ids=str)
def test_it_is_that_of_transformers(options: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    for seed in range(4):
        logits = logits_of(seed)
        scores = torch.tensor(logits.astype(np.float64))[None]
        kinds = [
            ("repetition_penalty", transformers.RepetitionPenaltyLogitsProcessor),
            ("temperature", transformers.TemperatureLogitsWarper),
            ("top_k", transformers.TopKLogitsWarper),
            ("top_p", transformers.TopPLogitsWarper),
            ("min_p", transformers.MinPLogitsWarper),
        ]
        for name, kind in kinds:
            if name in options:
                scores = kind(options[name])(torch.tensor([PROMPT + GENERATED]), scores)
        wanted = torch.softmax(scores, -1)[0].numpy()
        found = distribution(logits, SamplingParams(**options), prompt=PROMPT, generated=GENERATED)
        np.testing.assert_allclose(found.after, wanted, rtol=1e-12, atol=0)
        assert found.kept == np.count_nonzero(wanted)


# ---------------------------------------------------------------- formulas
def test_penalties_are_their_formulas() -> None:
    logits = np.array([2.0, -2.0, 1.0, 0.5, -0.5])
    params = SamplingParams(repetition_penalty=2, frequency_penalty=0.25, presence_penalty=0.5)
    found = distribution(logits, params, prompt=[0, 1, 1], generated=[1, 1, 3])
    wanted = np.array([2 / 2, -2 * 2 - 2 * 0.25 - 0.5, 1.0, 0.5 / 2 - 0.25 - 0.5, -0.5])
    np.testing.assert_allclose(found.scores, wanted - wanted.max(), rtol=1e-15)
    np.testing.assert_allclose(found.before, np.exp(logits) / np.exp(logits).sum())


@pytest.mark.parametrize(
    ("options", "rules"),
    [
        ({}, "kept kept kept kept"),
        ({"top_k": 3}, "kept kept kept top_k"),
        ({"top_p": 0.75}, "kept kept kept top_p"),
        # The two most probable ones have 0.7 together: no third is needed.
        ({"top_p": 0.7 - 1e-9}, "kept kept top_p top_p"),
        ({"top_p": 0}, "kept top_p top_p top_p"),
        ({"min_p": 0.5}, "kept kept kept min_p"),
        ({"min_p": 1}, "kept min_p min_p min_p"),
        # Of the three that are left, the first has 4/9.
        ({"top_k": 3, "top_p": 0.44}, "kept top_p top_p top_k"),
        ({"top_k": 3, "top_p": 0.45, "min_p": 0.8}, "kept min_p top_p top_k"),
        ({"temperature": 0}, "kept top_k top_k top_k"),
    ],
    ids=str,
)
def test_each_rule_takes_out_what_it_says(options: dict[str, Any], rules: str) -> None:
    found = distribution(np.log([0.4, 0.3, 0.2, 0.1]), SamplingParams(**options))
    assert [found.rule(token).value for token in range(4)] == rules.split()
    assert [bool(p) for p in found.after] == [rule == "kept" for rule in rules.split()]


def test_ties_go_to_smaller_ids() -> None:
    found = distribution(np.zeros(6), SamplingParams(top_k=2))
    assert np.flatnonzero(found.after).tolist() == [0, 1]
    assert distribution(np.zeros(6), SamplingParams(temperature=0)).draw(5).tolist() == [0]


def test_tokens_that_cannot_be_are_never_drawn() -> None:
    found = distribution([0.0, -np.inf, 5.0, 1.0], forbidden=[2])
    rules = [found.rule(token) for token in range(4)]
    assert rules == [Rule.KEPT, Rule.IMPOSSIBLE, Rule.FORBIDDEN, Rule.KEPT]
    assert set(found.draw(3, 500).tolist()) == {0, 3}


@pytest.mark.parametrize("value", [1e-300, 1e300])
@pytest.mark.parametrize("name", ["temperature", "repetition_penalty", "frequency_penalty"])
def test_extreme_parameters_make_a_distribution(name: str, value: float) -> None:
    options: dict[str, Any] = {name: value}
    params = SamplingParams(**options)
    with np.errstate(all="raise"):
        found = distribution(logits_of(1), params, prompt=[1], generated=[2, 3])
    assert found.after.sum() == pytest.approx(1)


@given(
    logits=st.lists(st.floats(-30, 30, width=32), min_size=1, max_size=40),
    top_k=st.integers(-1, 50),
    top_p=st.floats(0, 1),
    min_p=st.floats(0, 1),
    temperature=st.floats(0, 5),
)
def test_what_holds_of_every_distribution(
    logits: list[float], top_k: int, top_p: float, min_p: float, temperature: float
) -> None:
    params = SamplingParams(top_k=top_k, top_p=top_p, min_p=min_p, temperature=temperature)
    found = distribution(logits, params)
    best = int(np.argmax(logits))
    assert found.rule(best) is Rule.KEPT
    assert found.after.sum() == pytest.approx(1)
    assert 0 <= found.entropy <= math.log2(found.kept) + 1e-9
    assert params.top_k < 0 or found.kept <= params.top_k
    # No token that is taken out was more probable than one that is kept.
    kept = found.rules == 0
    assert kept.all() or np.array(logits)[~kept].max() <= np.array(logits)[kept].min() + 1e-9
    assert found.after[found.draw(7, 20)].min() > 0
    shifted = distribution(np.array(logits) + 8, params)
    np.testing.assert_allclose(shifted.before, found.before, rtol=1e-12)


# ---------------------------------------------------------------- draws
@pytest.mark.parametrize(
    "options", [{}, {"top_k": 8, "top_p": 0.9, "min_p": 0.03, "temperature": 1.4}], ids=str
)
@pytest.mark.parametrize("how", ["many at a place", "one at each place"])
def test_draws_are_distributed_as_told(options: dict[str, Any], how: str) -> None:
    logits, count = logits_of(5, 20), 20_000
    found = distribution(logits, SamplingParams(**options))
    if how == "many at a place":
        drawn = found.draw(1234, count)
    else:
        # Sequential seeds stand for sequential places: the key is their sum.
        drawn = np.concatenate([found.draw(1234 + place) for place in range(count)])
    assert fits(drawn, found.after)


def test_a_draw_depends_on_seed_and_place_alone() -> None:
    logits, params = logits_of(2), SamplingParams()
    here = distribution(logits, params, prompt=[1, 2], generated=[4])
    same = distribution(logits, params, prompt=[1], generated=[2, 4])
    assert here.position == same.position == 3
    assert here.draw(9, 40).tolist() == same.draw(9, 40).tolist()
    later = distribution(logits, params, prompt=[1, 2], generated=[4, 4])
    assert later.draw(9, 40).tolist() != here.draw(9, 40).tolist()
    assert later.draw(8, 40).tolist() == here.draw(9, 40).tolist()
    assert here.draw(2**64 - 1).size == 1


# ---------------------------------------------------------------- contexts
def context_of(**options: Any) -> TextContext:
    """A context of two tokens, one of which was generated."""
    params = SamplingParams(seed=1, **options)
    context = TextContext(
        max_length=9, tokens=np.array([5]), eos_token_ids={0}, sampling_params=params
    )
    context.update(6)
    return context


def test_a_context_gives_its_tokens_and_its_ends() -> None:
    logits = logits_of(3, 8)
    found = next_distribution(logits, context_of(min_new_tokens=2, presence_penalty=1.5))
    wanted = distribution(
        logits, SamplingParams(presence_penalty=1.5), prompt=[5], generated=[6], forbidden=[0]
    )
    assert found.after.tolist() == wanted.after.tolist()
    assert found.position == 2
    assert next_distribution(logits, context_of(min_new_tokens=1)).rule(0) is Rule.KEPT


def test_processors_come_first_and_change_a_copy() -> None:
    def only_small(inputs: ProcessorInputs) -> None:
        assert inputs.context.current_length == 2
        inputs.logits.to_numpy()[0, 4:] = -np.inf

    def double(inputs: ProcessorInputs) -> None:
        inputs.logits.to_numpy()[:] *= 2

    logits = logits_of(3, 8)
    given = logits.copy()
    found = next_distribution(logits, context_of(logits_processors=[only_small, double]))
    wanted = distribution(np.append(logits[:4] * 2, [-np.inf] * 4))
    np.testing.assert_allclose(found.after, wanted.after, rtol=1e-6)
    assert (logits == given).all()


# ---------------------------------------------------------------- what it refuses
READING = SamplingParams(logits_processors=[print], seed=1)


@pytest.mark.parametrize(
    ("logits", "options", "kind", "code"),
    [
        ([[1.0]], {}, InputError, "ML981"),
        ([], {}, InputError, "ML981"),
        (["a"], {}, InputTypeError, "ML980"),
        (None, {}, InputTypeError, "ML980"),
        ([1j], {}, InputTypeError, "ML980"),
        ([1.0, math.nan], {}, InputError, "ML183"),
        ([1.0, math.inf], {}, InputError, "ML183"),
        ([1.0], {"prompt": [1]}, InputError, "ML184"),
        ([1.0], {"generated": [-1]}, InputError, "ML184"),
        ([1.0], {"forbidden": [2**70]}, InputError, "ML981"),
        ([1.0], {"prompt": [0.5]}, InputTypeError, "ML980"),
        ([-math.inf], {}, InputError, "ML185"),
        ([1.0, -math.inf], {"forbidden": [0]}, InputError, "ML185"),
        ([1.0], {"params": {"top_k": 1}}, InputTypeError, "ML980"),
        (
            [1.0],
            {"params": SamplingParams(logits_processors=[print], seed=1)},
            UnsupportedError,
            "ML186",
        ),
    ],
    ids=str,
)
def test_it_refuses(logits: Any, options: dict[str, Any], kind: type, code: str) -> None:
    with pytest.raises(kind, match=code):
        distribution(logits, **options)


def test_a_grammar_is_refused() -> None:
    class Anything:
        def consume_token(self, token: int) -> bool:
            return True

    context = context_of()
    context.set_matcher(Anything())
    with pytest.raises(UnsupportedError, match="ML186"):
        next_distribution([1.0], context)


def test_the_entropy_of_what_is_certain_is_zero() -> None:
    found = entropy_of(np.array([0.0, 1.0]))
    assert (found, math.copysign(1, found)) == (0.0, 1.0)
