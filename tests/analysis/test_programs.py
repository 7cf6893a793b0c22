"""Every analysis on models whose plans branch, turn and call, on the CPU and on the simulator."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import maxlab
from maxlab import driver, engine
from maxlab.__main__ import main
from maxlab.analysis.bounds import estimates
from maxlab.analysis.edit import edit_kernel
from maxlab.analysis.fusion import INSIDE
from maxlab.analysis.runs import load_run
from maxlab.compiler import Options
from maxlab.engine.profile import Profile
from maxlab.errors import ArgumentError
from maxlab.graph import DeviceRef, Graph, TensorType, ops
from maxlab.ir import Op
from maxlab.lab import snapshot
from maxlab.lab.questions import answering
from tests.analysis import ceilings
from tests.analysis.programs import (
    CASES,
    CPU,
    SIZE,
    Case,
    branch,
    data,
    integer,
    loop,
    rows,
    tensors,
)

CONTROL = ("branch", "jump", "refuse")


@dataclass(frozen=True)
class Made:
    """A model, its inputs and a profile of it."""

    case: Case
    model: engine.Model
    inputs: list[Any]
    profile: Profile
    place: str

    @property
    def ops(self) -> list[Op]:
        return [op for op in self.model.compiled.source.walk() if op.name != "mo.output"]

    def named(self, name: str) -> list[str]:
        return [op.id for op in self.ops if op.name == f"mo.{name}"]


def made_of(case: Case, place: str) -> Made:
    model = case.load(driver.Accelerator(0)) if place == "gpu" else case.load()
    inputs = case.placed(model)
    return Made(case, model, inputs, model.profile(*inputs, runs=3), place)


@pytest.fixture(scope="module", params=["cpu", "gpu"])
def place(request: pytest.FixtureRequest) -> Iterator[str]:
    with ExitStack() as stack:
        stack.enter_context(ceilings.known(ceilings.machine()))
        if request.param == "gpu":
            stack.enter_context(driver.simulated(1))
        yield request.param


@pytest.fixture(scope="module", params=list(CASES))
def made(request: pytest.FixtureRequest, place: str) -> Made:
    device = DeviceRef.GPU() if place == "gpu" else CPU
    return made_of(CASES[request.param](device), place)


# ---------------------------------------------------------------- nothing raises
def _profile(made: Made) -> None:
    text = made.profile.table(None)
    assert all(f"  {kind}  " not in text for kind in CONTROL)  # they took no time
    for kernel in made.profile.kernels:
        assert kernel.turns >= 0
        assert not kernel.turns or kernel.flops >= 0
        assert kernel.turns or not kernel.ns, "what did not run took no time"


def _roofline(made: Made) -> None:
    found = maxlab.roofline(made.profile)
    assert found.table(None)
    for point in found.points:
        assert math.isfinite(point.gflops)
        assert point.fraction is None or math.isfinite(point.fraction)
    assert {p.kernel for p in found.points} <= {
        k.id for k in made.profile.kernels if k.kind != "jump"
    }


def _advice(made: Made) -> None:
    if made.place == "gpu":
        with pytest.raises(ArgumentError, match="ML672"):
            maxlab.advice(made.profile)
        return
    assert maxlab.experiments(made.profile)
    for action in maxlab.advice(made.profile):
        if action.predicted_ns is not None:
            assert 0 <= action.predicted_ns <= made.profile.kernel_ns
        assert not action.id.startswith("layout:"), "what a loop carries is copied in any order"
        if made.model.name in ("branches", "newton", "nested"):
            assert not action.id.startswith("batch:"), "a flag may be of all rows"


def _memory(made: Made) -> None:
    plan = maxlab.memory(made.model, made.profile.dims)
    ids = {op.id for op in made.ops}
    assert "packed for" not in plan.table(None)
    for slot in plan.slots:
        assert slot.first <= slot.last
        assert slot.node is None or slot.node in ids


def _timeline(made: Made) -> None:
    assert made.profile.timeline.table()
    for runs in ("one", "all"):
        answer = answering.answer(made.profile, "timeline", {"runs": runs})
        assert answer.data["kernels"]


def _compile_report(made: Made) -> None:
    assert maxlab.compile_report(made.model).table()


def _stages(made: Made) -> None:
    found = maxlab.stages(made.model)
    fates = found[-1].nodes
    kernels = {step.id: step for step in made.model.plan.steps}
    output = made.model.compiled.source.output
    assert output is not None
    assert set(fates) == {output.id, *(op.id for op in made.ops)}
    for id, fate in fates.items():
        if fate.kernel is not None:
            assert id in kernels[fate.kernel].nodes, (id, fate)


def _why(made: Made) -> None:
    for op in made.ops:
        for value in op.operands:
            if value.op is None:
                continue
            found = maxlab.why(made.model, value.op.id, op.id)
            assert found.reason
            steps = [s for s in made.model.plan.steps if s.kind not in CONTROL]
            shared = [s.id for s in steps if {value.op.id, op.id} <= {*s.nodes}]
            if shared and found.rule != "everywhere":
                assert found.together, str(found)
            assert "program" not in found.reason or "kind program" in found.reason


def _compare(made: Made) -> None:
    found = maxlab.compare(made.model, *made.inputs)
    assert found.ok, found
    assert all(d.ok for d in (*found.outputs, *found.passes))
    assert len(found.outputs) == 1


def _nonfinite(made: Made) -> None:
    assert maxlab.first_nonfinite(made.model, *made.inputs) is None
    with maxlab.tripwire(made.model, every=True):
        made.model(*made.inputs)


def _values(made: Made) -> None:
    for op in made.ops:
        if made.model.name == "branches" and op.name in ("mo.sqrt", "mo.sin", "mo.sub"):
            with pytest.raises(ArgumentError, match="did not run"):
                maxlab.values(made.model, op.id, *made.inputs)
            continue
        found = maxlab.values(made.model, op.id, *made.inputs)
        assert found.dtype == op.results[0].tensor_type.dtype.name
        assert np.isfinite(found.array.astype(np.float64)).all()


def _watch(made: Made) -> None:
    id = made.ops[-1].id
    text = f"abs({id}).max()"
    watched = maxlab.watch(made.model, text)
    watched(*made.inputs)
    assert np.isfinite(watched.last[text])


def _sources(made: Made) -> None:
    for step, kernel in zip(made.model.plan.steps, made.model.kernels.values(), strict=True):
        assert kernel.source
        assert kernel.annotated()
        for _, _, node in kernel.lines:
            assert node in step.nodes


def _edits(made: Made) -> None:
    inside = {n for steps in made.model.plan.programs for n in steps}
    tried = 0
    for step in made.model.plan.steps:
        printed = made.model.printed(step)
        if printed is None:
            continue
        if step.number in inside:
            with pytest.raises(ArgumentError, match="ML759"):
                edit_kernel(made.model, step.id, printed.text, *made.inputs, runs=1)
        elif not tried:
            tried += 1
            edit = edit_kernel(made.model, step.id, printed.text + "\n", *made.inputs, runs=1)
            assert edit.state == "measured", edit


def _pages(made: Made, folder: Path) -> None:
    assert made.profile.to_html(folder / "page.html").stat().st_size > 1000


def _runs(made: Made, folder: Path) -> None:
    again = made.model.profile(*made.inputs, runs=3)
    for name, profile in (("a", made.profile), ("b", again)):
        profile.save(folder / f"{name}.mlprof")
    loaded = load_run(folder / "a.mlprof")
    assert [k.turns for k in loaded.kernels] == [k.turns for k in made.profile.kernels]
    assert loaded.table() == made.profile.table()
    assert maxlab.diff(made.profile, again).table()
    assert maxlab.diff(loaded, again).table()
    a, b = (str(folder / f"{name}.mlprof") for name in "ab")
    assert main(["diff", a, b]) == 0
    assert main(["show", a]) == 0
    assert main(["trace", a, "-o", str(folder / "t.json")]) == 0
    apart = made.model.reload(options=replace(made.model.options, fuse=False))
    changed = maxlab.diff(made.profile, apart.profile(*made.inputs, runs=3))
    assert changed.table()


def _sweep(made: Made) -> None:
    def inputs(n: int) -> list[Any]:
        return list(made.model.placed([data()[:1].repeat(n, 0), *made.case.inputs[1:]]))

    found = maxlab.sweep(made.model, inputs, n=[2, 4])
    assert found.table()


def _panels(made: Made) -> None:
    ids = [op.id for op in made.ops]
    asked: list[tuple[str, dict[str, Any]]] = [
        ("roofline", {}),
        ("runs", {}),
        ("memory", {}),
        ("compile", {}),
        ("compare", {}),
        ("nan", {}),
        ("text", {"kernel": made.model.plan.steps[0].id}),
        ("value", {"node": ids[0]}),
        *[("passes", {"stage": n}) for n in range(len(maxlab.stages(made.model)))],
    ]
    for what, args in asked:
        assert answering.answer(made.profile, what, args).data is not None


def _document(made: Made) -> None:
    document = snapshot.take(made.profile).document
    known = {node["id"] for node in document["nodes"]}
    assert known == {op.id for op in made.ops}
    values = {value["id"] for value in document["values"]}
    for node in document["nodes"]:
        assert {*node["operands"], *node["results"]} <= values
        assert all(set(given) <= values for given in node.get("gives", ()))
    assert all(set(kernel["nodes"]) <= known for kernel in document["kernels"])
    assert document["profile"] is not None
    for shown, kernel in zip(document["profile"]["kernels"], made.profile.kernels, strict=True):
        assert (shown["count"], shown["flops"]) == (kernel.turns, kernel.flops)


ANALYSES: dict[str, Callable[..., None]] = {
    name.lstrip("_"): check
    for name, check in {**globals()}.items()
    if name.startswith("_") and not name.startswith("__") and callable(check)
}


@pytest.mark.parametrize("analysis", list(ANALYSES))
def test_every_analysis(analysis: str, made: Made, tmp_path: Path) -> None:
    check = ANALYSES[analysis]
    if analysis in ("pages", "runs"):
        check(made, tmp_path)
    else:
        check(made)


# ---------------------------------------------------------------- what they say
def test_turns_are_counted(place: str) -> None:
    """A Newton iteration of 6 turns asks 7 times whether to go on."""
    device = DeviceRef.GPU() if place == "gpu" else CPU
    made = made_of(CASES["newton"](device), place)
    by_ops = {k.nodes: k for k in made.profile.kernels if k.kind not in CONTROL}
    (flag,) = made.named("greater")
    (div,) = made.named("div")
    step = next(k for nodes, k in by_ops.items() if div in nodes)
    assert by_ops[flag,].turns == 7
    assert step.turns == 6
    once = next(s for s in made.model.plan.steps if s.id == step.id)
    assert step.flops == 6 * once.flops.evaluate(made.profile.dims)
    assert step.nbytes == 6 * once.nbytes.evaluate(made.profile.dims)
    assert "sums of all turns" in made.profile.table()


def test_rates_and_estimates_are_of_all_turns(place: str) -> None:
    if place == "gpu":
        return  # the simulator has no ceilings
    made = made_of(CASES["newton"](CPU), place)
    (div,) = made.named("div")
    point = next(p for p in maxlab.roofline(made.profile).points if div in p.nodes)
    model = made.model
    roof = ceilings.ceilings(model.num_threads)
    once = estimates(model.plan, made.profile.dims, model.num_threads, model.runtime, roof)
    number = next(s.number for s in model.plan.steps if s.id == point.kernel)
    assert point.estimate is not None
    assert point.estimate.ns == pytest.approx(6 * once[number].ns)
    kernel = made.profile.kernel(point.kernel)
    assert point.flops == kernel.flops
    assert kernel.gflops == pytest.approx(kernel.flops / kernel.ns)


def test_a_branch_that_was_not_taken_has_no_turns(place: str) -> None:
    device = DeviceRef.GPU() if place == "gpu" else CPU
    made = made_of(CASES["branches"](device), place)
    turns = {id: k.turns for k in made.profile.kernels for id in k.nodes if k.kind not in CONTROL}
    assert turns[made.named("softmax")[0]] == 1
    assert turns[made.named("sqrt")[0]] == 0


def test_values_in_a_loop_are_those_of_its_last_turn(place: str) -> None:
    device = DeviceRef.GPU() if place == "gpu" else CPU
    made = made_of(CASES["newton"](device), place)
    y = data()
    for _ in range(5):
        y = np.float32(0.5) * (y + data() / y)
    (div,), (mul,), (add,) = made.named("div"), made.named("mul"), made.named("while")
    np.testing.assert_allclose(
        maxlab.values(made.model, div, *made.inputs).array, data() / y, rtol=1e-5
    )
    found = maxlab.values(made.model, mul, *made.inputs)
    np.testing.assert_allclose(found.array, np.sqrt(data()), rtol=1e-5)
    assert found.how == "turn"
    assert maxlab.values(made.model, add, *made.inputs).how == "memory"


def test_values_in_calls_are_those_of_each_call(place: str) -> None:
    """The calls share a body; what each one computes on the way is its own."""
    device = DeviceRef.GPU() if place == "gpu" else CPU
    made = made_of(CASES["calls"](device), place)
    x = data().astype(np.float64)
    for n, (product, tanh) in enumerate(zip(made.named("matmul"), made.named("tanh"), strict=True)):
        y = x @ made.case.weights[f"layers.{n}.w"]
        found = maxlab.values(made.model, product, *made.inputs).array
        np.testing.assert_allclose(found, y, rtol=1e-4, atol=1e-5)
        y = np.exp(y - y.max(-1, keepdims=True))
        y = np.tanh(y / y.sum(-1, keepdims=True) + made.case.weights[f"layers.{n}.b"])
        found = maxlab.values(made.model, tanh, *made.inputs).array
        np.testing.assert_allclose(found, y, rtol=1e-4, atol=1e-5)
        x = x + y


def test_why_speaks_of_bodies(place: str) -> None:
    device = DeviceRef.GPU() if place == "gpu" else CPU
    made = made_of(CASES["calls"](device), place)
    softmax, tanh = made.named("softmax"), made.named("tanh")
    adds = made.named("add")
    together = maxlab.why(made.model, adds[2], tanh[1])
    assert together.together
    assert together.kernels[0] == together.kernels[1]
    assert tanh[1] in next(s.nodes for s in made.model.plan.steps if s.id == together.kernels[1])
    apart = maxlab.why(made.model, adds[1], made.named("matmul")[1])
    assert (apart.together, apart.rule, apart.reason) == (False, "inside", INSIDE)
    assert apart.attempt == "model.reload(options=Options(outline=False))"
    freed = made.model.reload(options=Options(outline=False))
    assert maxlab.why(freed, adds[1], made.named("matmul")[1]).rule != "inside"
    assert softmax[0] in maxlab.why(made.model, softmax[0], adds[0]).a


def test_an_op_that_makes_nan_in_a_loop_is_found_in_it() -> None:
    """The trip names it, with what it read in the turn that did it."""
    with Graph("roots", input_types=[rows(CPU)]) as graph:
        (x,) = tensors(graph)
        _, y = loop((integer(0), x), lambda i, y: i < 3, lambda i, y: (i + 1, ops.sqrt(y - 1)))
        graph.output(y)
    model = engine.InferenceSession().load(graph)
    inputs = np.full((2, SIZE), 3, np.float32)
    trip = maxlab.first_nonfinite(model, inputs)
    assert trip is not None
    (sqrt,) = (op.id for op in graph.function.walk() if op.name == "mo.sqrt")
    assert (trip.kind, trip.op, trip.node) == ("NaN", "sqrt", sqrt)
    assert sqrt in next(s.nodes for s in model.plan.steps if s.id == trip.kernel)
    (given,) = trip.operands.values()
    assert given < 0
    assert np.isnan(maxlab.values(model, sqrt, inputs).array).all()


def test_values_of_what_has_effects_are_refused() -> None:
    from maxlab.graph import BufferType

    typed = BufferType(rows(CPU).dtype, [SIZE], CPU)
    with Graph("store", input_types=[typed]) as graph:
        buffer: Any = graph.inputs[0].buffer

        def body(i: Any) -> Any:
            ops.buffer_store(buffer, ops.exp(ops.buffer_load(buffer)))
            return i + 1

        graph.output(loop(integer(0), lambda i: i < 2, body)[0])
    model = engine.InferenceSession().load(graph)
    (exp,) = (op.id for op in graph.function.walk() if op.name == "mo.exp")
    with pytest.raises(ArgumentError, match="changes buffers or prints") as raised:
        maxlab.values(model, exp, driver.Tensor.from_numpy(np.zeros(SIZE, np.float32)))
    assert raised.value.code == "ML759"


def test_weights_made_in_a_body_are_known_to_the_references(place: str) -> None:
    """Weights stand in bodies too: made there, or moved there because only they read them."""
    from maxlab.graph import Weight

    device = DeviceRef.GPU() if place == "gpu" else CPU
    with Graph("inner", input_types=[rows(device), TensorType(rows(CPU).dtype, [], CPU)]) as graph:
        x, limit = tensors(graph)
        scale = Weight("scale", x.dtype, [SIZE], device)

        def body(i: Any, y: Any) -> Any:
            (z,) = branch(i > 1, [rows(device)], lambda: y * scale, lambda: y + scale)
            return i + 1, z

        _, y = loop((ops.constant(0.0, x.dtype, CPU), x), lambda i, y: i < limit, body)
        graph.output(y)
    case = Case(graph, {"scale": np.full(SIZE, 1.5, np.float32)}, (data(), np.float32(4)))
    made = made_of(case, place)
    found = maxlab.compare(made.model, *made.inputs)
    assert found.ok, found
    (mul,) = made.named("mul")
    wanted = ((data() + 1.5) + 1.5) * 1.5 * 1.5
    np.testing.assert_allclose(
        maxlab.values(made.model, mul, *made.inputs).array, wanted, rtol=1e-6
    )
