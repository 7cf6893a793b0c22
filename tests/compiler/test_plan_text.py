"""Plans as tables: every step and buffer is there, and the words say what happens."""

from __future__ import annotations

import dataclasses
import re
from typing import get_args

import numpy as np
import pytest

from benchmarks.tutorial import minilm, minilm_graph
from maxlab import engine
from maxlab.compiler.launches import Gemm, Items, Once, Tiles
from maxlab.compiler.plan import Plan, SlotKind
from maxlab.compiler.plan_codecs import FORMULAS
from maxlab.compiler.plan_text import COLUMN_NOTES, LAUNCH_NOTES, NOTES, formula_text, launch_of
from maxlab.dtype import DType
from maxlab.graph import Graph, TensorType
from maxlab.ir.poly import ONE, Poly
from scripts.structure.plans import plans

N = Poly.symbol("n")
PLANS = list(plans())


@pytest.mark.parametrize("plan", PLANS, ids=repr)
def test_every_step_and_buffer_has_a_line(plan: Plan) -> None:
    lines = str(plan).splitlines()
    assert lines[0] == f"{len(plan.steps)} steps, {len(plan.slots)} buffers"
    begin = lines.index("")
    first, second = begin + 2, begin + 2 + len(plan.steps) + 2
    steps, buffers = lines[first : first + len(plan.steps)], lines[second:][: len(plan.slots)]
    for step, line in zip(plan.steps, steps, strict=True):
        assert line.split()[0] == step.id
        assert all(node in line.split() for node in step.nodes)
        assert f" {step.kind} " in line
    for slot, line in zip(plan.slots, buffers, strict=True):
        assert line.split()[0] == slot.id
        assert slot.dtype.name in line
        assert str(slot.nbytes) in line
    kinds = {step.kind for step in plan.steps} | {slot.kind for slot in plan.slots}
    legend = [line for line in lines[second + len(plan.slots) :] if line and line[0] != " "]
    notes = {line.partition(":")[0] for line in legend}
    formulas = {type(launch_of(step)).__name__ for step in plan.steps} - {"NoneType"}
    assert notes == (kinds & NOTES.keys()) | formulas | (notes & COLUMN_NOTES.keys())
    assert notes >= {"k0, k1 …", "b0, b1 …", "launch"}
    assert len(notes) == len(legend)


def test_the_legend_has_every_kind_and_formula() -> None:
    assert {step.kind for plan in PLANS for step in plan.steps} <= NOTES.keys() | {"print"}
    assert set(get_args(SlotKind)) <= NOTES.keys()
    assert LAUNCH_NOTES.keys() == FORMULAS.keys()
    for name, (note, fields) in LAUNCH_NOTES.items():
        told = {one.name for one in dataclasses.fields(FORMULAS[name])}
        assert fields.keys() <= told
        said = {*fields, *re.findall(r"\w+", note)}
        assert told - said <= {"dtype", "templates"}, f"{name} has fields that nobody explains"


@pytest.mark.parametrize("plan", PLANS, ids=repr)
def test_columns_are_aligned(plan: Plan) -> None:
    lines = str(plan).splitlines()
    at = lines[2].index("kind")
    for step, line in zip(plan.steps, lines[3:], strict=False):
        assert line[at:].startswith(step.kind)


def test_what_steps_read_and_write() -> None:
    def build(x: object) -> object:
        return x * 2  # type: ignore[operator]

    graph = Graph("double", build, [TensorType(DType.float32, ["n"])])
    plan = engine.InferenceSession().load(graph).plan
    assert str(plan).splitlines()[2:] == [
        "step  name  kind  writes  reads  items  launch                   ops",
        "k0    mul   map   b1      b0     n      Items(extent=n, cost=3)  n1",
        "",
        "buffer  kind    holds            dtype    shape  bytes",
        "b0      input   input 0, input0  float32  [n]    n * 4",
        "b1      output  output 0         float32  [n]    n * 4",
        "",
        "k0, k1 …: steps in the order in which they run; most are one kernel",
        "b0, b1 …: buffers of memory; bytes and shapes are formulas of the dims of the",
        "    inputs",
        "items: the parts of a step that threads can share",
        "launch: how threads share the items: a formula, evaluated when the sizes are",
        "    known",
        "n0, n1 …: operations of the graph, as its listing numbers them",
        "map: each element by itself",
        "input: memory of the caller, read where it lies",
        "output: memory that a run makes and gives to the caller",
        "Items: threads take chunks of items; extent: how many there are; cost: scalar",
        "    operations of one, or of a unit",
    ]
    assert repr(plan) == "Plan(1 step, 2 buffers)"


def test_loops_and_branches_say_where_a_run_goes_on() -> None:
    text = str(PLANS[2])
    assert "goes on at k9 if b4 is 0" in text
    assert "goes on at k3" in text
    assert "b1 in the memory of b3, b3 in the memory of b1" in text
    assert "b1 b3 in their own memory" in text
    assert "steps before k5 only for sizes that fit" in text


def test_long_plans_are_cut() -> None:
    plan = PLANS[0]
    text = plan.table(3)
    assert f"… {len(plan.steps) - 3} more steps" in text
    assert f"… {len(plan.slots) - 3} more buffers" in text
    assert "k3 " not in text
    assert f"… {len(plan.steps)} more steps" in plan.table(0)
    assert str(Plan()) == "0 steps, 0 buffers"


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        (None, ""),
        (Once(), "Once()"),
        (Items(N, ONE), "Items(extent=n, cost=1)"),
        (Items(N, ONE, extra=(3,)), "Items(extent=n, cost=1, extra=(3))"),
        (Gemm(N, N, ONE, DType.bfloat16), "Gemm(m=n, n=n, k=1, dtype=bfloat16)"),
        (Tiles((ONE, N, N, N), ()), "Tiles(sizes=(1, n, n, n), templates=())"),
    ],
    ids=str,
)  # fmt: skip
def test_formulas(formula: object, text: str) -> None:
    assert formula_text(formula) == text


def test_a_plan_of_a_model_that_people_know() -> None:
    names = minilm()
    weights = names["minilm"].state_dict()
    plan = engine.InferenceSession().load(minilm_graph(names), weights_registry=weights).plan
    text = plan.table()
    assert text.count("attention") >= 6
    assert "… " in text
    assert all(len(line) < 400 for line in text.splitlines())


def test_a_notebook_shows_the_table() -> None:
    class Printer:
        def text(self, shown: str) -> None:
            self.shown = shown

    printer = Printer()
    PLANS[0]._repr_pretty_(printer, False)
    assert printer.shown == PLANS[0].table()
    assert np.all([line == line.rstrip() for line in printer.shown.splitlines()])
