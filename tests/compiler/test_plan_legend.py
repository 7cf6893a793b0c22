"""The text of a plan explains itself: every word and field, above the line that has it first."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks.tutorial import minilm, minilm_graph
from maxlab import engine
from maxlab.compiler import facts, op_facts
from maxlab.compiler import plan_parts as parts
from maxlab.compiler.plan import Plan
from maxlab.compiler.plan_codecs import FORMULAS, RECORDS
from maxlab.compiler.plan_legend import FIELDS, WORDS
from maxlab.dtype import DType
from maxlab.graph import Graph, TensorType, ops
from scripts.structure.plans import plans
from tests.compiler.programs import Generator
from tests.compiler.test_plan_file import TALK, plan_of

PLANS = list(plans())
INSIDE = {
    "Packing": "packing", "Binds": "binds", "Exchange": "exchange", "KernelArgument": "arguments",
    "Operand": "operand", "ProductTemplate": "template", "AttentionTemplate": "template",
    "LibraryProduct": "library", "Guard": "guard", "Check": "checks", "Fault": "fault",
    "Note": "note", "InputFacts": "input", "OutputFacts": "output", "WeightFacts": "weight",
    "Bound": "binds", "Conditions": "stages", "SizeFacts": "sizes", "AheadFacts": "ahead",
    "RowShape": "shape",
}  # fmt: skip
"""Where the fields of each dataclass are explained."""
SAID_AT_ONCE = {"dtype", "m", "n", "k", "templates"}
"""Fields of formulas that the sentence about the formula explains."""


@pytest.mark.parametrize("name", RECORDS)
def test_every_field_of_a_record_is_explained(name: str) -> None:
    known = FIELDS[INSIDE[name]]
    assert {one.name for one in dataclasses.fields(RECORDS[name]) if one.init} <= known.keys()


def test_every_field_of_a_step_and_buffer_is_explained() -> None:
    of = {
        "buffer": parts.Slot, "step": parts.Step, "handles": facts.HandleFacts,
        "custom": op_facts.UserKernel,
    }  # fmt: skip
    kept = {"printed", "call", "touching", "loops", "_traffic"}  # written otherwise, or not at all
    for word, kind in of.items():
        assert {one.name for one in dataclasses.fields(kind)} - kept <= FIELDS[word].keys()
    for name, kind in FORMULAS.items():
        assert name in FIELDS["launch"]
        assert {one.name for one in dataclasses.fields(kind)} - SAID_AT_ONCE <= FIELDS[name].keys()


def corpus() -> Iterator[Plan]:
    """Plans with lines of every word."""
    for plan in PLANS:
        for step in plan.steps:
            step.call = None  # a print's, which cannot be written
        yield plan
    for seed in range(10):
        yield plan_of(Generator(seed).make().function)
    types = [TensorType(DType.float32, ["n"])]
    with Graph("talk", input_types=types, custom_extensions=[TALK]) as graph:
        x = graph.inputs[0].tensor
        graph.output(*ops.custom("talk", x.device, [x], [x.type]))
        session = engine.InferenceSession()
    session.set_mojo_assert_level(engine.AssertLevel.ALL)
    yield session.load(graph).plan
    with Graph("dims", input_types=[TensorType(DType.float32, ["n", 4])]) as graph:
        graph.output(ops.nonzero(graph.inputs[0].tensor, "hits") * 2)
    yield plan_of(graph.function)


@pytest.mark.parametrize("plan", list(corpus()), ids=repr)
def test_each_word_and_field_is_explained_before_it_is_used(plan: Plan) -> None:
    assert_explained(plan.text())


def assert_explained(text: str) -> None:
    words: set[str] = set()
    told: list[str] = []
    for line in text.splitlines()[1:]:
        word, _, rest = line.partition(" ")
        if line.startswith("#   "):
            told.append(line[4:].partition(": ")[0].rpartition(".")[2])
        elif line.startswith("# ") and rest.partition(":")[0] in WORDS:
            found = rest.partition(":")[0]
            assert found not in words, "explained twice"
            words.add(found)
        elif word in WORDS:
            assert word in words, f"{word} is not explained"
            for field in fields(json.loads(rest)):
                assert field in told or field in SAID_AT_ONCE, f"{field} of {line}"


def fields(made: Any) -> Iterator[str]:
    if isinstance(made, dict):
        for name, value in made.items():
            yield name
            yield from fields(value)
    elif isinstance(made, list):
        for one in made:
            yield from fields(one)


def test_the_plan_of_a_model_that_people_know(capsys: pytest.CaptureFixture[str]) -> None:
    names = minilm()
    weights = names["minilm"].state_dict()
    plan = engine.InferenceSession().load(minilm_graph(names), weights_registry=weights).plan
    text = plan.text()
    assert_explained(text)
    comments = [line for line in text.splitlines() if line.startswith("#")]
    assert len(comments) < 150
    assert Plan.parse(text, plan.arrays()) == plan


def test_what_is_cached_has_no_explanations() -> None:
    from maxlab.compiler.plan_file import written

    plan = plan_of(Generator(3).make().function)
    text, _ = written(plan)
    assert "\n#" not in text
    assert Plan.parse(text, plan.arrays()) == Plan.parse(plan.text(), plan.arrays()) == plan
