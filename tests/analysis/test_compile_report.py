"""What compiling took: hits and misses with their reasons, equal kernels, phases, and the panel."""

from __future__ import annotations

import json
import secrets
from typing import Any

import numpy as np
import pytest

from maxlab import driver, engine
from maxlab.analysis.compile_report import PHASES, CompiledUnit, compile_report
from maxlab.compiler import Options
from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, TensorType, Weight, ops
from maxlab.lab.questions import answering
from maxlab.toolchain.units import forget

F32 = DType.float32
W = {"w": np.ones((32, 32), np.float32)}

COMMON = [name for name in PHASES if name not in ("cached", "ahead")]
"""The phases of a new graph of which nothing is computed of weights alone."""


def layers(device: DeviceRef | None = None) -> Graph:
    """Equal layers, and two kernels that no cache has seen."""
    place = device or DeviceRef.CPU()
    new = 1 + secrets.randbelow(1 << 22) / (1 << 22)
    with Graph("layers", input_types=[TensorType(F32, ["n", 32], place)]) as graph:
        x = graph.inputs[0].tensor
        w = Weight("w", F32, [32, 32], place)
        for _ in range(3):
            x = ops.relu(x @ w)
        graph.output(ops.softmax(x) * new, ops.sum(ops.tanh(x), axis=0) * new)
    return graph


def unit(model: engine.Model, kernel: str) -> CompiledUnit:
    """The unit of a kernel."""
    (found,) = (u for u in compile_report(model).units if kernel in u.kernels)
    return found


def test_hits_and_misses() -> None:
    graph = layers()
    session = engine.InferenceSession(num_threads=1)
    model = session.load(graph, weights_registry=W)
    last = [step.id for step in model.plan.steps][-2:]
    report = compile_report(model)
    new = [unit(model, kernel) for kernel in last]
    assert [(u.hit, u.why, u.ms > 0) for u in new] == [(False, "its text is new", True)] * 2
    assert {u.symbol for u in report.misses} >= {u.symbol for u in new}
    for u in report.units:
        assert u.lines == len(model.kernels[u.kernels[0]].source.splitlines())
        assert u.symbol == model.kernels[u.kernels[0]].symbol
    again = unit(model.reload(), last[0])
    assert (again.hit, again.why, again.ms) == (True, "loaded by this process before", 0.0)
    forget()
    from_disk = unit(model.reload(), last[0])
    assert (from_disk.hit, from_disk.why) == (True, "in the cache on disk")
    assert from_disk.ms > 0
    fast = unit(model.reload(options=Options(accuracy="fast")), last[0])
    assert (fast.hit, fast.why) == (False, "the options of the compiler changed")
    assert "accuracy=fast" in compile_report(model.reload(options=Options(accuracy="fast"))).options


def test_equal_kernels_are_one_unit() -> None:
    model = engine.InferenceSession(num_threads=1).load(layers(), weights_registry=W)
    report = compile_report(model)
    steps = [s for s in model.plan.steps if s.kind == "contract"]
    assert unit(model, steps[0].id).kernels == (steps[0].id, steps[1].id)
    listed = sorted(k for u in report.units for k in u.kernels)
    assert listed == sorted(step.id for step in model.plan.steps)
    assert f"{steps[0].id} +1" in report.table()


def test_what_was_compiled_together_is_in_one_library() -> None:
    graph = layers()
    model = engine.InferenceSession(num_threads=1).load(graph, weights_registry=W)
    paths = {model.compiled.kernels[s.number].path.stat().st_ino: s.id for s in model.plan.steps}
    assert len({u.library for u in compile_report(model).units}) == len(paths)


def test_parts_of_the_runtime_library() -> None:
    with Graph("f", input_types=[TensorType(F32, [4, 4]), TensorType(F32, [4, 4])]) as graph:
        x, y = (v.tensor for v in graph.inputs)
        graph.output(x @ y)
    model = engine.InferenceSession(num_threads=1).load(graph)
    pack = compile_report(model).units[0]
    assert (pack.name, pack.hit, pack.lines) == ("pack_matmul", True, None)
    assert pack.why == "part of the runtime library"


def test_phases_come_as_they_happen() -> None:
    model = engine.InferenceSession(num_threads=1).load(layers(), weights_registry=W)
    assert list(compile_report(model).phases) == COMMON[:-1]
    model(np.ones((3, 32), np.float32))
    phases = compile_report(model).phases
    assert list(phases) == COMMON
    assert all(ns > 0 for ns in phases.values())
    assert repr(compile_report(model)).startswith("CompileReport('layers', ")


def test_a_simulated_gpu() -> None:
    with driver.simulated():
        session = engine.InferenceSession(devices=[driver.Accelerator()], num_threads=1)
        model = session.load(layers(DeviceRef.GPU()), weights_registry=W)
        (x,) = model.placed([np.ones((3, 32), np.float32)])
        model(x)
        report = compile_report(model)
        assert {k for u in report.units for k in u.kernels} == set(model.kernels)
        assert any(not u.hit and u.why == "its text is new" for u in report.units)
        assert list(report.phases) == COMMON
        fast = model.reload(options=Options(accuracy="fast"))
        fast(x)
        assert any(not u.hit for u in compile_report(fast).units)


@pytest.mark.parametrize("how", ["live", "saved"])
def test_the_panel(how: str) -> None:
    model = engine.InferenceSession(num_threads=1).load(layers(), weights_registry=W)
    profile = model.profile(np.ones((3, 32), np.float32), runs=1, warmup=0)
    data: Any = (
        answering.answer(model, "compile", {}).data
        if how == "live"
        else answering.answers_to_save(profile)["compile"]
    )
    assert data["version"] == 1
    assert [p["name"] for p in data["phases"]] == COMMON
    assert {k for u in data["units"] for k in u["kernels"]} == set(model.kernels)
    assert {"name", "hit", "why", "ms", "lines"} <= set(data["units"][0])
    json.dumps(data, allow_nan=False)
