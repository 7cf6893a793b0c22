"""The stages of the compiler: each pass on a program where it does something, then the kernels."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from maxlab import driver, engine
from maxlab.analysis.stages import Stage, stages
from maxlab.compiler import Options
from maxlab.compiler.passes import whole_pipeline
from maxlab.dtype import DType
from maxlab.errors import ArgumentError
from maxlab.graph import DeviceRef, Graph, TensorType, Weight, ops
from maxlab.ir import Function
from maxlab.lab.questions import answering
from tests.compiler.interpret import Builder
from tests.compiler.programs import Generator
from tests.compiler.test_options import W, block, loaded

F32 = DType.float32


def named(model: engine.Model) -> dict[str, Stage]:
    """The stages by their names."""
    return {stage.name: stage for stage in stages(model)}


def compiled(build: Callable[[Builder], Function], **options: Any) -> engine.Model:
    """The model of what ``build`` makes."""
    return loaded(build(Builder()), Options(**options))


def test_folding() -> None:
    def build(b: Builder) -> Function:
        c = b.op("add", b.constant(np.ones(4, np.float32)), b.constant(np.ones(4, np.float32)))
        return b.output(b.op("mul", b.input(F32, 4), c))

    found = named(compiled(build))
    (rewrite,) = found["fold"].rewrites
    assert (rewrite.rule, rewrite.node, rewrite.op) == ("fold", "n2", "add")
    assert found["fold"].nodes["n2"].state == "folded"
    assert found["fold"].nodes["n2"].changed
    assert not found["canonicalise"].nodes["n2"].changed
    assert found["plan"].nodes["n2"].state == "folded"
    assert found["dce"].nodes["n0"].state == "removed"  # what was folded is read no more
    assert found["fold"].counts == {"folded": 1}


def test_identities_common_subexpressions_and_dead_code() -> None:
    def build(b: Builder) -> Function:
        x = b.input(F32, "n")
        one, two = b.op("exp", x), b.op("exp", x)
        b.op("tanh", x)
        y = b.op("mul", b.op("add", one, two), b.scalar(1))
        return b.output(y)

    found = named(compiled(build))
    assert found["canonicalise"].nodes["n5"].state == "removed"
    assert found["canonicalise"].nodes["n5"].rule == "x * 1 and x / 1 are x"
    (same,) = found["cse"].rewrites
    assert (same.rule, same.node, same.into) == ("same", "n1", ("n0",))
    assert found["cse"].nodes["n1"].state == "rewritten"
    assert found["dce"].nodes["n2"].state == "removed"
    assert found["dce"].nodes["n2"].rule == "nothing reads it"
    assert found["plan"].nodes["n0"].kernel == found["plan"].nodes["n1"].kernel == "k0"


def test_a_composite_is_written_out_and_is_still_one_operation() -> None:
    def build(b: Builder) -> Function:
        return b.output(b.op("softmax", b.input(F32, "m", "n"), axis=-1))

    found = named(compiled(build))
    (rewrite,) = found["decompose"].rewrites
    assert rewrite.text == "softmax is written out in 6 simpler operations"
    assert len(rewrite.into) == 6
    assert {op.id for op in found["decompose"].ops} >= set(rewrite.into)
    assert all(op.origins == ("n0",) for op in found["decompose"].ops if op.name != "output")
    fate = found["plan"].nodes["n0"]
    assert (fate.state, fate.kernel) == ("rewritten", "k0")  # alone in its kernel: not fused


def test_transfers_are_made_when_the_model_is_loaded() -> None:
    gpu = DeviceRef.GPU()
    with Graph("f", input_types=[TensorType(F32, [2], gpu)]) as graph:
        c = graph.add_weight(Weight("c", F32, [3, 2], DeviceRef.CPU()))
        graph.output(graph.inputs[0].tensor + ops.transfer_to(c[1], gpu))
    data = {"c": np.ones((3, 2), np.float32)}
    with driver.simulated():
        session = engine.InferenceSession(devices=[driver.Accelerator()])
        model = session.load(graph, weights_registry=data)
        assert any(r.rule == "transfer_data" for r in named(model)["place"].rewrites)


def test_groups_and_kernels() -> None:
    session = engine.InferenceSession(num_threads=1)
    model = session.load(block(), weights_registry={"w": W})
    found = named(model)
    assert list(found) == [
        "graph",
        *(name for name, _ in whole_pipeline(Options())),
        "schedule",
        "plan",
    ]
    assert found["schedule"].after == found["plan"].before
    assert found["plan"].after == len(model.kernels)
    assert {r.rule for r in found["schedule"].rewrites} == {
        "epilogue", "attention", "row", "row map",
    }  # fmt: skip
    for step in model.plan.steps:
        for node in step.nodes:
            fate = found["plan"].nodes[node]
            assert (fate.state, fate.kernel) == ("fused", step.id)
    views = [op.id for op in model.compiled.source.ops if op.name == "mo.transpose"]
    assert "view has no kernel" in found["plan"].nodes[views[0]].rule
    alone = named(model.reload(options=Options(fuse=False)))
    assert "fused" not in {fate.state for fate in alone["plan"].nodes.values()}


def test_what_the_compiler_puts_in() -> None:
    def build(b: Builder) -> Function:
        x, y = b.input(F32, "m", "k"), b.input(F32, "k", "n")
        z = b.op("matmul", x, y)
        return b.output(z, b.op("transpose", z, axis_1=0, axis_2=1))

    plan = named(compiled(build))["plan"]
    assert [(r.rule, r.into) for r in plan.rewrites] == [("pack", ("k0",)), ("output", ("k2",))]
    assert plan.added == 2


@pytest.mark.parametrize("seed", range(12))
def test_the_stages_are_those_that_compiled_it(seed: int) -> None:
    """Running the passes again finds the same rewrites, and every computed op has a kernel."""
    program = Generator(seed).make()
    model = loaded(program.function, None, program.weights)
    found = stages(model)
    for record, stage in zip(model.compiled.passes, found[1:], strict=False):
        assert stage.name == record.name
        assert (stage.before, stage.after) == (record.before, record.after)
        assert len(stage.rewrites) == len(record.rewrites)
    nodes = found[-1].nodes
    assert set(nodes) == {op.id for op in program.function.ops}
    for step in model.plan.steps:
        if step.kind not in ("pack", "copy", "concat"):
            assert all(nodes[n].kernel is not None for n in step.nodes if n in nodes)
    for fate in nodes.values():
        assert fate.kernel is None or fate.kernel in model.kernels
        assert fate.state != "fused" or fate.kernel is not None


# ---------------------------------------------------------------- the panel's question
def test_the_panel() -> None:
    model = engine.InferenceSession(num_threads=1).load(block(), weights_registry={"w": W})
    data: Any = answering.answer(model, "passes", {}).data
    assert [s["name"] for s in data["stages"]] == [s.name for s in stages(model)]
    by_name = {s["name"]: s for s in data["stages"]}
    assert by_name["decompose"]["rewritten"] == 2
    assert by_name["graph"]["ms"] is None
    for number, stage in enumerate(stages(model)):
        detail: Any = answering.answer(model, "passes", {"stage": number}).data
        assert detail["stage"] == number
        assert len(detail["rewrites"]) == len(stage.rewrites)
        assert all(detail["nodes"][id]["state"] == stage.nodes[id].state for id in detail["nodes"])
        json.dumps(detail, allow_nan=False)
    for wrong in (-1, 99):
        with pytest.raises(ArgumentError, match="there is no stage"):
            answering.answer(model, "passes", {"stage": wrong})
    with pytest.raises(ArgumentError, match="stage: expected a whole number"):
        answering.answer(model, "passes", {"stage": "1"})


def test_why_by_question() -> None:
    model = engine.InferenceSession(num_threads=1).load(block(), weights_registry={"w": W})
    wanted = ("mo.add", "mo.gelu")
    add, gelu = [op.id for op in model.compiled.source.ops if op.name in wanted][:2]
    data = answering.answer(model, "why", {"a": add, "b": gelu}).data
    assert (data["together"], data["kernel_a"], data["rule"]) == (True, "k0", "epilogue")
    assert data["attempt"] == f"model.reload(options=Options(apart={{'{gelu}'}}))"
