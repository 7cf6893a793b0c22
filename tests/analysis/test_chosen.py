"""What was chosen of variants, as the compile report and advice tell it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from maxlab import engine
from maxlab.analysis.advice import Advice
from maxlab.analysis.chosen import ChosenVariant, chosen_variants
from maxlab.analysis.compile_report import compile_report
from maxlab.config import config, set_config
from maxlab.dtype import DType
from maxlab.engine.product_variants import BATCHED
from maxlab.graph import Graph, TensorType
from maxlab.lab.questions.advice import _told
from maxlab.toolchain import variants

CASE = (16, 8, 64, 512)


@pytest.fixture
def model() -> Iterator[engine.Model]:
    """Two batched products of one size; nothing is measured unless a test says so."""
    before = set_config(replace(config(), variants="off"))
    variants.forget()
    items, m, n, k = CASE
    x, y = TensorType(DType.float32, ["b", m, k]), TensorType(DType.float32, ["b", k, n])
    graph = Graph("two", lambda x, y: (x @ y, (x * 2) @ (y + 1)), [x, y])
    made = engine.InferenceSession().load(graph)
    assert chosen_variants(made) == (), "it has not run yet"
    made.execute(np.ones((items, m, k), np.float32), np.ones((items, k, n), np.float32))
    yield made
    variants.forget()
    set_config(before)


def settle(origin: str, name: str, times: dict[str, int], note: str = "") -> None:
    choice = variants.choose(BATCHED, CASE)
    variant = next(one for one in choice.variants if one.name == name)
    choice.settle(variants.State(variant, origin, times, "16 of 8 x 512 by 512 x 64", note))  # type: ignore[arg-type]


def test_off_says_so(model: engine.Model) -> None:
    [one] = chosen_variants(model)
    assert len(one.kernels) == 2
    assert one.words == (
        f"{one.kernels[0]} +1: chose in place (batched-products of items=16 m=8 n=64 k=512; "
        "the guess: choosing variants is off)"
    )


def test_what_was_measured_is_told_with_the_next_best(model: engine.Model) -> None:
    settle("kept", "in place", {"packed": 6_400_000, "in place": 1_900_000})
    [one] = chosen_variants(model)
    line = (
        f"{one.kernels[0]} +1: chose in place, 1.90 ms; next best packed, 6.40 ms "
        "(batched-products of items=16 m=8 n=64 k=512, timed on 16 of 8 x 512 by 512 x 64; "
        "measured before on a machine with this CPU)"
    )
    assert one.words == line
    report = compile_report(model)
    assert report.variants == (one,)
    assert report.table().splitlines()[-2:] == ["variants of kernels:", f"  {line}"]


def test_what_runs_is_told_until_the_program_is_another_one(model: engine.Model) -> None:
    settle("measured", "packed", {"packed": 100, "in place": 200})
    [one] = chosen_variants(model)
    assert one.variant == "in place"
    model.unbind()
    items, m, n, k = CASE
    model.execute(np.ones((items, m, k), np.float32), np.ones((items, k, n), np.float32))
    [one] = chosen_variants(model)
    assert one.variant == "packed"
    assert one.next_best == ("in place", 200)


def test_too_little_time_and_notes_are_told(model: engine.Model) -> None:
    settle("measured", "in place", {}, "the verdict x was passed over: it is damaged")
    [one] = chosen_variants(model)
    assert "the time did not suffice" in one.words
    assert one.words.endswith("it is damaged)")
    variants.choose(BATCHED, CASE).is_pending = True
    assert "being measured" in chosen_variants(model)[0].words


def test_advice_tells_it_below_its_actions() -> None:
    one = ChosenVariant(("k0",), "products", "m=1", "a", "measured by this process", {})
    assert Advice((), "", [one]).table().splitlines()[-1] == f"variants: {one.words}"
    assert Advice().table() == "nothing is predicted to save a hundredth of the time"


def test_the_panels_get_the_lines(model: engine.Model) -> None:
    from maxlab.lab.questions.compile import _data

    [one] = chosen_variants(model)
    assert _data(model)["chosen"] == [one.words]
    profile = model.profile(
        *(np.ones((16, *size), np.float32) for size in ((8, 512), (512, 64))), runs=1
    )
    assert _told(profile, Advice((), "", [one]))["chosen"] == [one.words]
