"""The view of sampling in Python: its settings, its chart, and what a page may send to it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from maxlab.errors import InputError, InputTypeError
from maxlab.interfaces import SamplingParams
from maxlab.lab import SamplingView
from maxlab.lab.requests import chart
from maxlab.lab.requests.widget import NAMES, controls
from maxlab.pipelines.core import TextContext
from maxlab.pipelines.lib.sampling_reference import Rule, distribution, next_distribution
from tests.pipelines.showing.test_displays import EVIL, Page

LOGITS = np.log([0.5, 0.25, 0.15, 0.1])


def view_of(**options: Any) -> SamplingView:
    """A view of four tokens with a seed."""
    return SamplingView(LOGITS, SamplingParams(seed=1, **options), tokenizer=list("abcd"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", 0.5),
        ("temperature", 0),
        ("top_k", 2),
        ("top_p", 0.6),
        ("min_p", 0.4),
        ("repetition_penalty", 1.5),
        ("frequency_penalty", -1),
        ("presence_penalty", 2),
    ],
)
def test_each_control_moves_the_distribution(name: str, value: float) -> None:
    view = SamplingView(LOGITS, SamplingParams(seed=1), prompt=[0], generated=[1, 1])
    before, page = view.distribution.after.copy(), view.page
    setattr(view, name, value)
    options: dict[str, Any] = {name: value}
    wanted = distribution(LOGITS, SamplingParams(**options), prompt=[0], generated=[1, 1])
    assert view.distribution.after.tolist() == wanted.after.tolist()
    assert view.distribution.after.tolist() != before.tolist()
    assert view.page != page
    assert getattr(view.params, name) == value


def test_every_parameter_has_a_control_within_its_range() -> None:
    assert [control["name"] for control in controls()] == list(NAMES)
    for control in controls():
        ends = [control["least"], control["most"], control["limit"]]
        for value in ends:
            options: dict[str, Any] = {control["name"]: value}
            assert value is None or SamplingParams(**options).seed >= 0
        assert control["help"]


def test_what_cannot_be_is_said_and_the_chart_stays() -> None:
    view = view_of()
    page, revision = view.page, view.revision
    view.repetition_penalty = 0.0
    assert "repetition_penalty" in view.problem
    assert (view.page, view.revision) == (page, revision + 1)
    with pytest.raises(InputError, match="ML981"):
        view.draw()
    assert repr(view).startswith("SamplingView(SamplingParams.repetition_penalty")
    view.repetition_penalty = 2.0
    assert view.problem == ""


@pytest.mark.parametrize("seed", [0, 7, 2**64 - 1])
def test_seeds_are_whole(seed: int) -> None:
    view = view_of()
    view.seed = seed
    assert view.params.seed == seed
    assert view.draw(50) == view.distribution.draw(seed, 50).tolist()


@pytest.mark.parametrize("seed", ["", "1.5", "-1", str(2**64), "9" * 400, "١"])
def test_seeds_that_are_none_are_said(seed: str) -> None:
    view = view_of()
    view.seed = seed
    assert "seed" in view.problem


def test_draws_are_shown_until_a_control_moves() -> None:
    view = view_of()
    drawn = view.draw(100)
    assert view.drawn == drawn
    assert f"{drawn.count(0)}" in Page(view.page).words
    assert "100 draws" in Page(view.page).words
    view.top_k = 1
    assert view.drawn == []
    assert view.draw() == [0]
    assert "drawn: 'a'" in Page(view.page).words


@pytest.mark.parametrize("count", [0, -1, 10_001, 1.5])
def test_counts_that_are_none_are_refused(count: Any) -> None:
    with pytest.raises((InputError, InputTypeError)):
        view_of().draw(count)


def test_a_context_gives_its_tokens_and_parameters() -> None:
    params = SamplingParams(presence_penalty=1, min_new_tokens=2, seed=3)
    context = TextContext(
        max_length=9, tokens=np.array([0]), eos_token_ids={3}, sampling_params=params
    )
    context.update(1)
    view = SamplingView(LOGITS, context=context)
    assert view.distribution.after.tolist() == next_distribution(LOGITS, context).after.tolist()
    assert view.distribution.rule(3) is Rule.FORBIDDEN
    view.presence_penalty = 0
    assert view.distribution.rule(3) is Rule.FORBIDDEN
    with pytest.raises(InputError, match="ML982"):
        SamplingView(LOGITS, context=context, prompt=[1])


def test_the_chart_says_which_rule_cut_a_token() -> None:
    view = view_of(top_k=3, top_p=0.9, min_p=0.4)
    rows = re.findall(r"<tr.*?</tr>", view.page)[1:]
    words = [Page(row).words for row in rows]
    assert words == [
        "'a'50.00%66.67%kept",
        "'b'25.00%33.33%kept",
        "'c'15.00%0.00%cut by min-p",
        "'d'10.00%0.00%cut by top-k",
    ]
    assert "2 of 4 tokens" in Page(view.page).words
    assert "1.74 → 0.92 bits" in Page(view.page).words


def test_a_large_vocabulary_is_counted() -> None:
    view = SamplingView(np.zeros(5000), count=5)
    assert "and 4,995 more, with 99.9% before" in Page(view.page).words
    assert len(view.page) < 5000


def test_without_a_kernel_the_settings_and_the_chart_are_a_page() -> None:
    view = view_of(top_p=0.6)
    view.draw(5)
    bundle = view._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html"}
    words = Page(bundle["text/html"]).words
    assert "top-p 0.6" in words
    assert "5 draws" in words
    assert bundle["text/plain"].splitlines()[:3] == [
        "SamplingView(2 of 4 tokens kept, top_p=0.6)",
        "kept 2 of 4 tokens, cut by top-p 2, entropy 1.74 → 0.92 bits",
        "  token  before  after",
    ]


def test_texts_of_tokenizers_stay_text() -> None:
    view = SamplingView(np.zeros(2), tokenizer=[EVIL, EVIL])
    assert "img" not in Page(view._repr_mimebundle_()["text/html"]).tags
    assert "img" not in Page(view.page).tags


def test_a_tokenizer_that_fails_leaves_numbers() -> None:
    assert chart.token_text(3, lambda tokens: [][tokens[0]]) == "3"


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ({"type": "draw", "protocol": 1, "count": 3}, ""),
        ({"type": "draw", "protocol": 1, "count": -3}, "count"),
        ({"type": "draw", "protocol": 1, "count": 10**9}, "count"),
        ({"type": "draw"}, "protocol"),
        ({"type": "else", "protocol": 1}, "else"),
        (None, ""),
        ("draw", ""),
    ],
)
def test_messages_of_a_page_never_raise(message: Any, problem: str) -> None:
    from maxlab.lab.protocol import PROTOCOL

    if isinstance(message, dict) and "protocol" in message:
        message = {**message, "protocol": PROTOCOL}
    view = view_of()
    revision = view.revision
    view._received(view, message, [])
    assert view.revision > revision
    assert problem in view.problem
    assert (view.problem == "") == (len(view.drawn) == 3)


@pytest.mark.parametrize("options", [{"count": 0}, {"context": 3}, {"params": 3}, {"tokenizer": 3}])
def test_arguments_that_are_none_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises((InputError, InputTypeError)):
        SamplingView(LOGITS, **options)
