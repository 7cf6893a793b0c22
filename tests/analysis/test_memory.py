"""The memory plan: sizes, places, who holds what, and what the panel is told."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from maxlab import driver, engine
from maxlab.analysis.memory import MemoryPlan, memory
from maxlab.compiler import Options
from maxlab.dtype import DType
from maxlab.engine.times import size_text
from maxlab.errors import ArgumentError
from maxlab.graph import DeviceRef, Graph, TensorType, Weight, ops
from maxlab.lab.questions import answering

F32 = DType.float32
W = np.ones((32, 32), np.float32)


def graph_of(device: DeviceRef | None = None) -> Graph:
    """A product, a reduction of columns and one of rows."""
    place = device or DeviceRef.CPU()
    with Graph("three", input_types=[TensorType(F32, ["n", 32], place)]) as graph:
        x = graph.inputs[0].tensor
        y = ops.relu(x @ Weight("w", F32, [32, 32], place))
        graph.output(ops.sum(ops.softmax(y), axis=0), ops.transpose(y, 0, 1) @ y)
    return graph


@pytest.fixture(params=["cpu", "gpu"])
def model(request: pytest.FixtureRequest) -> Any:
    """The model on the CPU and on a simulated GPU."""
    if request.param == "cpu":
        yield engine.InferenceSession(num_threads=2).load(graph_of(), weights_registry={"w": W})
        return
    with driver.simulated():
        session = engine.InferenceSession(devices=[driver.Accelerator()], num_threads=2)
        yield session.load(graph_of(DeviceRef.GPU()), weights_registry={"w": W})


def run(model: engine.Model, n: int) -> None:
    """Run it on ``n`` rows."""
    model.execute(*model.placed([np.ones((n, 32), np.float32)]))


def check(plan: MemoryPlan) -> None:
    """What must hold of every plan."""
    arena = [s for s in plan.slots if s.offset is not None]
    for n, a in enumerate(arena):
        assert a.offset is not None
        assert 0 <= a.offset <= plan.arena - a.nbytes
        assert 0 <= a.first <= a.last < len(plan.steps)
        for b in arena[n + 1 :]:
            assert b.offset is not None
            if a.first <= b.last and b.first <= a.last:
                assert a.offset + a.nbytes <= b.offset or b.offset + b.nbytes <= a.offset
    for step, live in enumerate(plan.live):
        assert live == sum(s.nbytes for s in plan.at(step))
    assert plan.peak == max(plan.live) == plan.live[plan.peak_step]
    assert plan.peak <= plan.arena
    assert 0 <= plan.fragmentation < 1


def test_places_do_not_overlap_while_both_are_needed(model: engine.Model) -> None:
    for n in (1, 7, 200):
        plan = memory(model, {"n": n})
        check(plan)
        run(model, n)
        assert memory(model) == plan  # of the last run, laid out by the binding


def test_kinds_and_names(model: engine.Model) -> None:
    plan = memory(model, {"n": 100})
    assert plan.nbytes("input") == 100 * 32 * 4
    assert plan.nbytes("output") == 32 * 4 + 32 * 32 * 4
    assert plan.nbytes("weight") == W.nbytes  # the packed copy is another
    assert plan.nbytes("packed") in (0, W.nbytes)
    relu = next(op.id for op in model.compiled.source.ops if op.name == "mo.relu")
    (slot,) = (s for s in plan.slots if s.node == relu and s.offset is not None)
    assert slot.nbytes == 100 * 32 * 4
    assert slot.name == f"relu {relu}"
    assert slot.holder.startswith(plan.steps[slot.last])
    assert slot.value == next(
        op.result.id for op in model.compiled.function.ops if op.name == "mo.relu"
    )
    assert {s.device for s in plan.slots} == {"cpu"} or slot.device == "gpu:0"


def test_fusion_off_needs_more() -> None:
    with Graph("chain", input_types=[TensorType(F32, ["n", 32])]) as graph:
        x = graph.inputs[0].tensor
        graph.output(ops.sum(ops.exp(ops.tanh(x) + 1), axis=0))
    model = engine.InferenceSession(num_threads=1).load(graph)
    unfused = memory(model.reload(options=Options(fuse=False)), {"n": 64})
    assert memory(model, {"n": 64}).peak == 0
    assert unfused.peak == 2 * 64 * 32 * 4
    check(unfused)


def test_the_text(model: engine.Model) -> None:
    text = memory(model, {"n": 100}).table()
    assert text.startswith("three, n = 100\narena ")
    assert "in use at k" in text
    assert "relu" in text
    assert "… 2 more" in memory(model, {"n": 100}).table(rows=1)
    assert repr(memory(model, {"n": 100})).startswith("MemoryPlan('three', arena ")


def test_a_size_is_missing(model: engine.Model) -> None:
    with pytest.raises(ArgumentError, match=r"'n'[\s\S]*ML629[\s\S]*memory\(model"):
        memory(model)


def test_a_model_without_steps() -> None:
    with Graph("nothing", input_types=[]) as graph:
        graph.output()
    plan = memory(engine.InferenceSession().load(graph))
    assert (plan.steps, plan.arena, plan.peak, plan.peak_step, plan.fragmentation) == (
        (),
        0,
        0,
        0,
        0,
    )
    assert plan.table().startswith("nothing\narena 0 B")


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.00 kB"), (1024, "1.02 kB"), (10300, "10.3 kB"),
     (999_600, "1.00 MB"), (1 << 20, "1.05 MB"), (5e9, "5.00 GB"), (3e12, "3.00 TB"),
     (5e15, "5000 TB")],
)  # fmt: skip
def test_sizes_in_words(nbytes: float, text: str) -> None:
    assert size_text(nbytes) == text


# ---------------------------------------------------------------- the panel's question
def test_the_answer(model: engine.Model) -> None:
    data = answering.answer(model, "memory", {"dims": {"n": 50}}).data
    plan = memory(model, {"n": 50})
    assert data["version"] == 2
    assert data["steps"] == list(plan.steps)
    assert (data["arena"], data["peak"], data["peak_step"]) == (
        plan.arena,
        plan.peak,
        plan.peak_step,
    )
    assert len(data["slots"]) == len(plan.slots)
    for slot in data["slots"]:  # or the panel refuses it
        assert 0 <= slot["first"] <= slot["last"] < len(data["steps"])
        assert slot["offset"] is None or slot["offset"] + slot["bytes"] <= data["arena"]
    assert {"id", "kind", "bytes", "offset", "first", "last", "node", "value", "name"} <= set(
        data["slots"][0]
    )
    json.dumps(data, allow_nan=False)
    with pytest.raises(ArgumentError):
        answering.answer(model, "memory", {"dims": {"n": "many"}})


def test_the_saved_answer(model: engine.Model) -> None:
    inputs = model.placed([np.ones((9, 32), np.float32)])
    profile = model.profile(*inputs, runs=1, warmup=0)
    saved: Any = answering.answers_to_save(profile)["memory"]
    whole = answering.answer(profile, "memory", {}).data
    assert saved["dims"] == {"n": 9}
    assert saved["arena"] == whole["arena"]
    assert [s for s in saved["slots"] if s["offset"] is not None] == [
        s for s in whole["slots"] if s["offset"] is not None
    ]
