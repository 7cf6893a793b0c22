"""What differs between plans: everything that does is said, and nothing else."""

from __future__ import annotations

import copy
import dataclasses
import random
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from benchmarks.tutorial import minilm, minilm_graph
from maxlab import engine
from maxlab.compiler import plan_match
from maxlab.compiler.facts import Facts, HandleFacts
from maxlab.compiler.options import DEFAULT, Options
from maxlab.compiler.plan import Binds, Exchange, KernelArgument, Packing, Plan, Slot, Step
from maxlab.compiler.plan_changes import PlanDiff
from maxlab.compiler.traffic import Counted, Touch
from maxlab.dtype import DType
from maxlab.errors import ArgumentTypeError, MaxlabError
from maxlab.graph import Graph, TensorType, TensorValue, Weight, ops
from maxlab.ir import DeviceRef, HostCall
from maxlab.ir.poly import Poly
from scripts.structure.plans import plans
from tests.compiler.edits import Draft, changed
from tests.compiler.programs import Generator
from tests.compiler.test_plan_file import plan_of

N = Poly.symbol("other")
Build = Callable[[TensorValue], "TensorValue | list[TensorValue]"]


def made(
    build: Build, options: Options = DEFAULT, shape: tuple[str | int, ...] = ("n", 64)
) -> Plan:
    """The plan of a graph, every op of which has one line: this one."""
    with Graph("f", input_types=[TensorType(DType.float32, shape)]) as graph:
        found = build(graph.inputs[0].tensor)
        graph.output(*(found if isinstance(found, list) else [found]))
    return without_lines(plan_of(graph.function, options))


def without_lines(plan: Plan) -> Plan:
    """``plan`` as if nobody knew where its graph was written."""
    facts = plan.facts
    facts.ops = {id: dataclasses.replace(op, at=None) for id, op in facts.ops.items()}
    facts.outputs = tuple(dataclasses.replace(output, at=None) for output in facts.outputs)
    facts.weights = {n: dataclasses.replace(w, at=None) for n, w in facts.weights.items()}
    for stage in facts.sizes.stages:
        stage.counts = {p: dataclasses.replace(op, at=None) for p, op in stage.counts.items()}
        stage.guard.differences = {
            p: dataclasses.replace(op, at=None) for p, op in stage.guard.differences.items()
        }
    return plan


def weighted(name: str) -> Build:
    return lambda x: ops.softmax(x @ Weight(name, DType.float32, [64, 64]))


def layers(number: int, skipped: int = -1) -> Build:
    """Equal layers, each with a weight of its own, one of them left out."""

    def build(x: TensorValue) -> TensorValue:
        for n in range(number):
            if n != skipped:
                x = ops.softmax(x @ Weight(f"w{n}", DType.float32, [64, 64]))
        return x

    return build


def both(x: TensorValue) -> list[TensorValue]:
    return [ops.softmax(x), ops.exp(x)]


# ---------------------------------------------------------------- what it says
@dataclasses.dataclass
class Case:
    """Two plans, the first line of what differs, and lines that are below it."""

    id: str
    before: Callable[[], Plan]
    after: Callable[[], Plan]
    headline: str
    lines: tuple[str, ...]


CASES = [
    Case(
        "fusing is switched off",
        lambda: made(lambda x: ops.softmax(x * 2)),
        lambda: made(lambda x: ops.softmax(x * 2), Options(fuse=False)),
        "1 step, 2 buffers → 2 steps, 3 buffers: 1 added step, 1 changed step, 1 added buffer",
        (
            "added    k0 mul (map): writes b1, reads b0",
            "changed  k0 → k1 mul_softmax (row) → softmax (row)",
            "reads b0 (input 0, input0) → b1 (v1)",
            "added    b1 arena v1: float32 [n, 64], n * 256 bytes",
            "bytes read and written n * 512 → n * 1024",
            "bytes of intermediate values at once 0 → n * 256",
        ),
    ),
    Case(
        "another operation",
        lambda: made(ops.sin),
        lambda: made(ops.cos),
        "1 step, 2 buffers: 1 changed step",
        (
            "changed  k0 sin (map) → cos (map)",
            "computes sin → cos",
            "kernel, where it differs 4 lines → 4 lines",
            "operation n0 sin → cos",
        ),
    ),
    Case(
        "another number",
        lambda: made(lambda x: x * 2),
        lambda: made(lambda x: x * 3),
        "1 step, 2 buffers: 1 changed step",
        ("changed  k0 mul (map)", "kernel, where it differs 4 lines → 4 lines"),
    ),
    Case(
        "another size",
        lambda: made(ops.softmax),
        lambda: made(ops.softmax, shape=("n", 32)),
        "1 step, 2 buffers: 1 changed step, 2 changed buffers",
        (
            "launch Items(extent=n, cost=832, scratch=512)",
            "shape [n, 64] → [n, 32]",
            "bytes n * 256 → n * 128",
            "input 0, type !mo.tensor<[n, 64], f32> → !mo.tensor<[n, 32], f32>",
            "conditions of sizes axis 1 of input 0 must be 64 → axis 1 of input 0 must be 32",
        ),
    ),
    Case(
        "one layer of many is gone",
        lambda: made(layers(6)),
        lambda: made(layers(6, skipped=2)),
        "12 steps, 25 buffers → 10 steps, 21 buffers: 2 removed steps, 1 changed step, "
        "4 removed buffers",
        (
            "removed  k4 matmul (contract): writes b9, reads b8 b11",
            "removed  k5 softmax (row): writes b12, reads b9",
            "removed  b10 weight w2: float32 [64, 64], 16384 bytes",
            "changed  k6 → k4 matmul (contract)",
            "reads  b12 (v36) → b8 (v27)",
            "weights of one plan alone w2 → none",
            "bytes of packed weights 98304 → 81920",
        ),
    ),
    Case(
        "a step stands elsewhere",
        lambda: made(both),
        lambda: made(lambda x: both(x)[::-1]),
        "2 steps, 3 buffers: ",
        ("changed",),
    ),
    Case(
        "another weight",
        lambda: made(weighted("w")),
        lambda: made(weighted("v")),
        "2 steps, 5 buffers: 1 removed buffer, 1 added buffer, 1 changed buffer",
        (
            "removed  b2 weight w: float32 [64, 64], 16384 bytes",
            "added    b2 weight v: float32 [64, 64], 16384 bytes",
            "changed  b3 packed w → packed v",
            "is packed from b2 (w) → b2 (v)",
        ),
    ),
    Case(
        "one output more",
        lambda: made(ops.exp),
        lambda: made(lambda x: [ops.exp(x), ops.exp(x) * 2]),
        "1 step, 2 buffers → 1 step, 3 buffers: 1 changed step, 1 added buffer",
        ("writes none → b2 (output 1)", "outputs are in b1 → b1 b2"),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_what_is_said(case: Case) -> None:
    before, after = case.before(), case.after()
    found = before.diff(after)
    first, *lines = str(found).splitlines()
    assert first.startswith(case.headline), first
    spaced = [re.sub(r" +", " ", line) for line in lines]
    for line in case.lines:
        assert any(re.sub(r" +", " ", line) in said for said in spaced), f"{line}\n{found}"
    assert found
    assert not found.renumbered
    assert_mirrored(before, after)


def assert_mirrored(before: Plan, after: Plan) -> None:
    there, back = before.diff(after), after.diff(before)
    assert there.mirrored() == back
    assert back.mirrored() == there
    assert str(there.mirrored()) == str(back)


def test_equal_plans_say_so() -> None:
    plan = made(ops.softmax)
    found = plan.diff(Plan.parse(plan.text(), plan.arrays()))
    assert not found
    assert str(found) == "the plans are equal: 1 step, 2 buffers"
    assert found == PlanDiff("1 step, 2 buffers", "1 step, 2 buffers")
    assert repr(found) == "PlanDiff(equal)"


def test_the_users_lines_are_said_once() -> None:
    with Graph("f", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        graph.output(ops.tanh(graph.inputs[0].tensor) * 2)
    plan = plan_of(graph.function)
    found = without_lines(plan_of(graph.function)).diff(plan)
    assert (found.steps, found.buffers, found.renumbered) == ((), (), False)
    (detail,) = [d for d in found.rest if "line" in d.what]
    assert detail.what.startswith("the user's line of operation n0")
    assert detail.before == "not known"
    assert "test_plan_diff.py" in detail.after
    assert "the same steps and buffers" in str(found)


def test_the_code_that_differs() -> None:
    (change,) = made(ops.erf).diff(made(ops.tanh)).steps
    assert change.code.startswith("--- k0\n+++ k0\n@@")
    assert "mx_erf_lanes_f32(" in change.code
    assert change.mirrored().code != change.code
    (other,) = made(ops.exp).diff(made(lambda x: [ops.exp(x), x * 2])).steps
    assert (other.kind, other.code) == ("added", "")


def test_long_differences_are_cut() -> None:
    found = made(ops.exp).diff(made(layers(6)))
    assert "more steps" in found.table(3)
    assert "more buffers" in found.table(3)
    assert "more steps" not in found.table()
    assert len(found.table(0).splitlines()) < len(found.table(3).splitlines())

    class Printer:
        def text(self, shown: str) -> None:
            self.shown = shown

    printer = Printer()
    found._repr_pretty_(printer, False)
    assert printer.shown == found.table()
    assert repr(found).startswith("PlanDiff(1 step, 2 buffers → 12 steps")


def test_what_is_no_plan_is_refused() -> None:
    model: Any = engine.InferenceSession().load(
        Graph("f", ops.exp, [TensorType(DType.float32, [2])])
    )
    with pytest.raises(ArgumentTypeError, match="a plan is compared with a plan") as error:
        model.plan.diff(model)
    assert error.value.code == "ML642"


# ---------------------------------------------------------------- random pairs
@pytest.mark.parametrize("seed", range(120))
def test_random_pairs(seed: int) -> None:
    rng = random.Random(seed)
    draft = Draft(Generator(seed).make().function)
    known = [plan_of(draft.build())]
    for _ in range(3):
        _, draft, function = changed(draft, rng)
        try:
            known.append(plan_of(function))
        except (MaxlabError, KeyError):
            continue  # it cannot be compiled, or names a dim that nothing defines
    for one in known:
        for other in (known[0], known[-1]):
            found = one.diff(other)
            assert bool(found) == (one != other)
            assert str(found)
            assert not found.renumbered or texts_of(one) == texts_of(other)
            assert_mirrored(one, other)


def texts_of(plan: Plan) -> list[str]:
    """The texts of all kernels, in one order."""
    return sorted(step.printed.text for step in plan.steps if step.printed is not None)


@pytest.mark.parametrize("seed", range(40))
def test_other_ids_are_no_difference(seed: int) -> None:
    draft = Draft(Generator(seed).make().function)
    before, after = plan_of(draft.build()), plan_of(draft.build(1000))
    found = before.diff(after)
    assert (found.steps, found.buffers, found.rest, found.totals) == ((), (), (), ())
    assert found.renumbered == (before != after)
    assert str(found).startswith("the plans " + ("do the same" if found else "are equal"))


@pytest.mark.parametrize("plan", list(plans()), ids=repr)
def test_other_numbers_of_buffers_are_no_difference(plan: Plan) -> None:
    """The buffers in another order, and all that names them."""
    moved = [*range(1, len(plan.slots)), 0]
    there = {old: new for new, old in enumerate(moved)}
    other = copy.copy(plan)
    other.slots = [
        dataclasses.replace(
            plan.slots[old],
            number=new,
            packing=None
            if plan.slots[old].packing is None
            else dataclasses.replace(
                plan.slots[old].packing, source=there[plan.slots[old].packing.source]
            ),
        )
        for new, old in enumerate(moved)
    ]
    other.steps = [
        dataclasses.replace(
            step,
            pointers=[there[n] for n in step.pointers],
            keeps=tuple(there[n] for n in step.keeps),
            held={there[n]: size for n, size in step.held.items()},
            exchange=None
            if step.exchange is None
            else dataclasses.replace(
                step.exchange, moves=tuple((there[a], there[b]) for a, b in step.exchange.moves)
            ),
        )
        for step in plan.steps
    ]
    other.outputs = [there[n] for n in plan.outputs]
    found = plan.diff(other)
    assert found.renumbered, str(found)
    assert_mirrored(plan, other)


# ---------------------------------------------------------------- every field
STEP_VALUES: dict[str, Any] = {
    "name": "other", "kind": "map", "printed": None, "pointers": [1, 0], "sizes": [N],
    "nodes": ("n0", "n7"), "parallel": N, "launch": None, "flops": N,
    "touching": Counted({0: Touch(N)}), "held": {0: (N, 4), 1: (N, 4)}, "builtin": "mx_other",
    "ops": ("other",), "device": DeviceRef.GPU(), "gpu": "of a GPU",
    "call": HostCall("torch", "torch.other", "", lambda *_: None), "ranks": (1, 2),
    "binds": Binds(1, "n0"), "keeps": (0,), "jump": 1, "guard": "of a size",
    "renamed": {"n9": ("n0",)}, "exchange": Exchange(((0, 1),)),
    "arguments": (KernelArgument("x", N, 4, True, False),), "long": N,
}  # fmt: skip
"""Another value of each field of a step that is compared."""


@pytest.mark.parametrize("name", STEP_VALUES)
def test_every_field_of_a_step_is_said(name: str) -> None:
    value = STEP_VALUES[name]
    if name == "gpu":
        value = next(step.gpu for plan in plans() for step in plan.steps if step.gpu is not None)
    if name == "guard":
        value = next(step.guard for plan in plans() for step in plan.steps if step.guard)
    assert_said(lambda plan: setattr(plan.steps[0], name, value))


def test_all_fields_of_a_step_are_tried() -> None:
    numbering = {"number", "group", "loops", "strips", "others", "_traffic"}
    assert {one.name for one in dataclasses.fields(Step)} - numbering == STEP_VALUES.keys()


SLOT_VALUES: dict[str, Any] = {
    "kind": "arena", "dtype": DType.float64, "nbytes": N, "shape": (N,), "index": 3,
    "name": "other", "data": np.ones(3), "packing": Packing(0, "mx_other", (1,), 1, 4),
    "device": DeviceRef.GPU(), "order": (1, 0),
}  # fmt: skip


@pytest.mark.parametrize("name", SLOT_VALUES)
def test_every_field_of_a_buffer_is_said(name: str) -> None:
    assert_said(lambda plan: setattr(plan.slots[1], name, SLOT_VALUES[name]))


def test_all_fields_of_a_buffer_are_tried() -> None:
    numbering = {"number", "value"}
    assert {one.name for one in dataclasses.fields(Slot)} - numbering == SLOT_VALUES.keys()


FACT_VALUES: dict[str, Callable[[Facts], Any]] = {
    "name": lambda _: "other",
    "inputs": lambda f: (dataclasses.replace(f.inputs[0], name="other"),),
    "outputs": lambda f: (dataclasses.replace(f.outputs[0], declared=(N,)),),
    "weights": lambda f: made(weighted("w")).facts.weights,
    "written": lambda _: (0,),
    "apart": lambda _: frozenset({(0, 1)}),
    "sizes": lambda f: dataclasses.replace(f.sizes, checks=[(0, 1, N)]),
    "ops": lambda f: {**f.ops, "n9": dataclasses.replace(f.ops["n0"], id="n9", name="mo.other")},
    "ahead": lambda _: dataclasses.make_dataclass("Ahead", [("count", int)])(3),
    "handles": lambda _: HandleFacts({0: "counter"}, {}, {"counter": "i64 at;"}),
}


@pytest.mark.parametrize("name", [one.name for one in dataclasses.fields(Facts)])
def test_every_fact_is_said(name: str) -> None:
    assert_said(lambda plan: setattr(plan.facts, name, FACT_VALUES[name](plan.facts)))


WHOLE_VALUES: dict[str, Any] = {
    "outputs": [0], "cuts": [1], "aliases": {0: 0}, "loops": [range(1)], "programs": [range(1)],
}  # fmt: skip


@pytest.mark.parametrize("name", WHOLE_VALUES)
def test_every_field_of_a_plan_is_said(name: str) -> None:
    assert_said(lambda plan: setattr(plan, name, WHOLE_VALUES[name]))


def assert_said(change: Callable[[Plan], object]) -> None:
    """A plan that ``change`` has changed differs in more than numbers, in words."""
    before, after = made(ops.softmax), made(ops.softmax)
    assert before == after
    change(after)
    assert before != after
    found = before.diff(after)
    assert found.steps or found.buffers or found.rest
    assert not found.renumbered
    assert_mirrored(before, after)


def test_one_value_of_the_graph_is_one_buffer(capsys: pytest.CaptureFixture[str]) -> None:
    """Also where one step writes it beside others, and its readers are other steps too."""
    function = minilm_graph(minilm()).function
    before, after = plan_of(function), plan_of(function, Options(fuse=False))
    found = before.diff(after)
    assert {change.kind for change in found.buffers} == {"added", "changed"}
    assert {change.kind for change in found.steps} == {"added", "changed"}
    assert len(after.steps) - len(before.steps) == sum(c.kind == "added" for c in found.steps)


def test_many_steps_are_matched_by_name_first(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(x: TensorValue) -> TensorValue:
        for n in range(12):
            x = ops.softmax(ops.tanh(x) if n % 3 else ops.exp(x))
        return x

    options = Options(fuse=False)
    before, after = made(build, options), made(build, options, ("n", 32))
    whole = before.diff(after)
    monkeypatch.setattr(plan_match, "MOST_PAIRS", 2)
    assert before.diff(after) == whole
    assert [change.kind for change in whole.steps] == ["changed"] * 24
    assert_mirrored(before, made(layers(6), options))


def test_many_equal_steps() -> None:
    """Of steps that are all alike, the one that was put between them is found."""

    def chain(number: int, at: int) -> Build:
        def build(x: TensorValue) -> TensorValue:
            for n in range(number):
                x = ops.softmax(ops.exp(x) if n == at else x)
            return x

        return build

    before, after = (made(chain(150, at), Options(fuse=False)) for at in (-1, 70))
    (change,) = [one for one in before.diff(after).steps if one.kind == "added"]
    assert change.after == "k70"
