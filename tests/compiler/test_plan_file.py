"""Plans as text: what is read back is equal, whatever the plan is of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any

import numpy as np
import pytest

from maxlab import engine
from maxlab.compiler.effects import take_chains_out
from maxlab.compiler.options import DEFAULT, Options
from maxlab.compiler.passes import pipeline, run
from maxlab.compiler.plan import Plan
from maxlab.compiler.planner import Planner
from maxlab.compiler.recording import recorded_facts
from maxlab.compiler.schedule import Schedule
from maxlab.compiler.traffic import Counted
from maxlab.dtype import DType
from maxlab.errors import GraphError, Location, MaxlabError, ParseError
from maxlab.graph import Dim, Graph, TensorType, TensorValue, ops
from maxlab.ir import Block, DeviceRef, Function, Op, Value
from maxlab.ir.poly import Poly
from maxlab.opset import notes
from scripts.structure.plans import plans
from tests.compiler.programs import Generator
from tests.compiler.test_matrix import CASES, Case, build

PLAIN = str, int, np.ndarray, Enum, Poly, DeviceRef, Location
TALK = """
// @op talk(x: float32[n]) -> (y: float32[n])
// @both
MX_LOG(INFO, "from %d", i);
MX_ASSERT(load(x, i) < 90, "not below 90");
store(y, i, load(x, i) + 1);
"""


def plan_of(function: Function, options: Options = DEFAULT) -> Plan:
    """The plan of ``function`` with its facts, no kernel compiled."""
    work = function.clone()
    take_chains_out(work)
    run(work, pipeline(options.split_k))
    planner = Planner(Schedule(work, options))
    plan = planner.build()
    plan.facts = recorded_facts(function, work, planner.functions, plan)
    return plan


def assert_reads_back(plan: Plan) -> None:
    text = plan.text()
    found = Plan.parse(text, plan.arrays())
    for one, other in zip(plan.steps, found.steps, strict=True):
        assert one.differences(other) == [], one.id
        assert one.traffic() == other.traffic()
        assert one.in_strips() == other.in_strips()
    for slot, copy in zip(plan.slots, found.slots, strict=True):
        assert slot == copy
    assert found.facts == plan.facts
    assert found == plan
    assert found.text() == text
    assert str(found) == str(plan)


def planned(build: Callable[[], Function]) -> Plan | None:
    """The plan of what ``build`` makes; None where it cannot be planned, as another test says."""
    try:
        return plan_of(build())
    except MaxlabError:
        return None


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_an_op_of_the_table(case: Case) -> None:
    plan = planned(lambda: build(case)[0])
    if plan is not None and all(step.call is None for step in plan.steps):
        assert_reads_back(plan)


@pytest.mark.parametrize("seed", range(300))
def test_a_random_program(seed: int) -> None:
    assert_reads_back(plan_of(Generator(seed).make().function))


@pytest.mark.parametrize("plan", list(plans()), ids=repr)
def test_loops_products_and_kernels_of_a_gpu(plan: Plan) -> None:
    for step in plan.steps:
        step.call = None  # a print's; see the test of what cannot be written
    assert_reads_back(plan)


def test_stages_rebinds_and_conditions() -> None:
    types = [TensorType(DType.float32, ["n", Dim("m") * 2]), TensorType(DType.float32, ["k", 4])]
    with Graph("sizes", input_types=types) as graph:
        x, y = (value.tensor for value in graph.inputs)
        hits = ops.nonzero(x, "hits")
        joined = ops.concat([x, ops.rebind(y, ["n", 4])], axis=1)
        graph.output(hits * 2, joined, x[1:])
    plan = plan_of(graph.function)
    assert plan.cuts
    assert plan.facts.sizes.stages[0].guard.differences
    assert_reads_back(plan)


def test_a_kernel_of_a_user_brings_its_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    with Graph(
        "talk", input_types=[TensorType(DType.float32, ["n"])], custom_extensions=[TALK]
    ) as graph:
        x = graph.inputs[0].tensor
        graph.output(*ops.custom("talk", x.device, [x], [x.type]))
    plan = plan_of(graph.function, Options(log_level="trace", assert_level="all"))
    assert plan.steps[0].arguments
    text = plan.text()
    known = dict(notes.NOTES)
    monkeypatch.setattr(notes, "NOTES", {})
    assert Plan.parse(text) == plan
    found = notes.NOTES
    assert {note.text for note in found.values()} == {"from %d", "not below 90"}
    assert all(known[number] == note for number, note in found.items())


def test_bodies_name_the_ops_of_their_calls() -> None:
    def scaled(x: TensorValue) -> TensorValue:
        return ops.softmax(x * 3.0)

    with Graph("calls", input_types=[TensorType(DType.float32, ["n", 8])]) as graph:
        body = graph.add_subgraph("scaled", scaled, [TensorType(DType.float32, ["n", 8])])
        (once,) = ops.call(body, graph.inputs[0])
        graph.output(*ops.call(body, once))
    plan = engine.InferenceSession().load(graph).plan
    assert any(step.renamed for step in plan.steps)
    assert_reads_back(plan)


def test_large_arrays_stand_beside_the_text() -> None:
    array = np.arange(1000, dtype=np.float64)
    with Graph("table", input_types=[TensorType(DType.float64, [1000])]) as graph:
        graph.output(graph.inputs[0].tensor + ops.constant(array, DType.float64))
    plan = plan_of(graph.function)
    (found,) = plan.arrays().values()
    np.testing.assert_array_equal(found, array)
    with pytest.raises(ParseError, match="KeyError") as error:
        Plan.parse(plan.text())
    assert error.value.code == "ML349"
    assert_reads_back(plan)


def test_a_function_of_python_cannot_be_written() -> None:
    with Graph("prints", input_types=[TensorType(DType.float32, [2])]) as graph:
        graph.inputs[0].tensor.print()
        graph.output(graph.inputs[0].tensor)
    with pytest.raises(GraphError, match="its step k0 calls print") as error:
        plan_of(graph.function).text()
    assert error.value.code == "ML331"


def test_a_text_that_was_cut_or_is_another_is_refused() -> None:
    text = plan_of(Generator(7).make().function).text()
    for percent in range(100):
        with pytest.raises(ParseError) as error:
            Plan.parse(text[: len(text) * percent // 100])
        assert error.value.code == "ML349"
    for other in (text.replace("maxlab plan 2", "maxlab plan 1"), "{}", text + "{}", "x" + text):
        with pytest.raises(ParseError) as error:
            Plan.parse(other)
        assert error.value.code == "ML349"


def test_plans_hold_nothing_of_the_graph() -> None:
    """What profiles and checks alone read may; a plan that was read back has none of it."""
    plan = plan_of(Generator(11).make().function)
    assert graph_objects(Plan.parse(plan.text(), plan.arrays())) == []
    for step in plan.steps:
        step.loops, step.touching, step.strips = None, Counted(), None
    assert graph_objects(plan) == []


def graph_objects(thing: Any) -> list[str]:
    """The objects of a graph that are reached from ``thing``, by their classes."""
    found: list[str] = []
    seen: set[int] = set()
    left: list[Any] = [thing]
    while left:
        one = left.pop()
        if id(one) in seen or isinstance(one, PLAIN):
            continue
        seen.add(id(one))
        if isinstance(one, (Op, Value, Block, Function)):
            found.append(type(one).__name__)
        elif isinstance(one, Mapping):
            left += [*one.keys(), *one.values()]
        elif isinstance(one, (Sequence, frozenset)):
            left += list(one)
        else:
            names = [n for kind in type(one).__mro__ for n in getattr(kind, "__slots__", ())]
            names += list(getattr(one, "__dict__", ()))
            left += [getattr(one, name) for name in names if hasattr(one, name)]
    return found
