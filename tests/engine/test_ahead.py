"""What depends on weights and constants alone is computed once, when a model is loaded."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maxlab import driver, engine
from maxlab.analysis.advice.rules import hoist
from maxlab.analysis.check import compare
from maxlab.analysis.check.tripwire import first_nonfinite
from maxlab.analysis.check.values import values
from maxlab.analysis.compile_report import compile_report
from maxlab.analysis.memory import memory
from maxlab.analysis.rewrites import frozen, graph_of
from maxlab.analysis.stages import stages
from maxlab.compiler import Options
from maxlab.config import read_config, set_config
from maxlab.dtype import DType
from maxlab.engine import Model
from maxlab.errors import MissingWeightError, WeightFileError
from maxlab.graph import DeviceRef, Graph, TensorType, TensorValue, Weight, ops
from maxlab.graph.weights import SafetensorWeights
from maxlab.ir import Shape
from tests.compiler.programs import Generator

F32 = DType.float32
CPU = DeviceRef.CPU()
Array = np.ndarray[Any, Any]


def normal(*shape: int, seed: int = 1) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def built(
    body: Callable[[TensorValue], Sequence[TensorValue]], device: DeviceRef = CPU, width: int = 64
) -> Graph:
    with Graph("g", input_types=[TensorType(F32, ["n", width], device)]) as graph:
        graph.output(*body(graph.inputs[0].tensor))
    return graph


def dequantised(device: DeviceRef = CPU) -> tuple[Graph, dict[str, Array]]:
    """Products with two weights that are made of 8-bit numbers and scales, and are transposed."""

    def body(x: TensorValue) -> list[TensorValue]:
        for name in ("a", "b"):
            stored = Weight(name, DType.int8, [64, 64], device)
            scale = Weight(name + ".scale", F32, [64, 1], device)
            x = ops.tanh(x @ ops.transpose(ops.cast(stored, F32) * scale, 0, 1))
        return [x]

    rng = np.random.default_rng(0)
    data: dict[str, Array] = {}
    for name in ("a", "b"):
        data[name] = rng.integers(-127, 127, (64, 64)).astype(np.int8)
        data[name + ".scale"] = np.abs(normal(64, 1, seed=2)) / 100
    return built(body, device), data


def loaded(graph: Graph, data: Any, on: bool = True, **options: Any) -> Model:
    session = engine.InferenceSession(num_threads=2)
    return session.load(graph, weights_registry=data, options=Options(at_load=on, **options))


def outputs(model: Model, *args: Any) -> list[Array]:
    return [y.to(driver.CPU()).to_numpy() for y in model.execute(*args)]


def require_same(graph: Graph, data: Any, *args: Any, fewer: int = 1, **options: Any) -> Model:
    """The model of ``graph``, which has ``fewer`` kernels than one that computes all in each run,
    and makes the same bits."""
    model, other = loaded(graph, data, **options), loaded(graph, data, on=False, **options)
    assert len(other.kernels) - len(model.kernels) >= fewer
    for one, two in zip(outputs(model, *args), outputs(other, *args), strict=True):
        assert one.tobytes() == two.tobytes()
    return model


# ---------------------------------------------------------------- what is computed
@pytest.mark.parametrize("rows", [1, 5, 40])
@pytest.mark.parametrize("options", [{}, {"accuracy": "fast"}, {"fuse": False}], ids=str)
def test_dequantised_weights_are_made_once(rows: int, options: dict[str, bool]) -> None:
    graph, data = dequantised()
    require_same(graph, data, normal(rows, 64), fewer=2, **options)


def test_only_whole_kernels_are_taken_out() -> None:
    """A product of weights that a kernel of inputs makes in a register stays: its sum with an
    input may be rounded once."""
    w, s = Weight("w", F32, [3, 64], CPU), Weight("s", F32, [3, 64], CPU)
    with Graph("g", input_types=[TensorType(F32, [3, 64], CPU)]) as graph:
        graph.output(graph.inputs[0].tensor + w * s)
    data = {"w": normal(3, 64), "s": normal(3, 64, seed=2)}
    model = require_same(graph, data, normal(3, 64), fewer=0)
    assert model.compiled.ahead is None


def test_reductions_and_products_of_weights_are_made_once() -> None:
    def body(x: TensorValue) -> list[TensorValue]:
        w, v = Weight("w", F32, [64, 64], CPU), Weight("v", F32, [64, 64], CPU)
        scaled = ops.tanh(w) * ops.rsqrt(ops.sum(w * w, axis=-1) + 1e-6)
        return [x @ scaled, x + (w @ v)[0], ops.concat([x, ops.exp(w)], axis=0)[0]]

    graph = built(body)
    data = {"w": normal(64, 64), "v": normal(64, 64, seed=3)}
    require_same(graph, data, normal(3, 64), fewer=2)


def test_a_result_much_larger_than_what_it_is_made_of_stays() -> None:
    def body(x: TensorValue) -> list[TensorValue]:
        w = Weight("w", F32, [64, 1], CPU)
        return [x @ (ops.exp(w) * ops.cast(ops.range(0, 64, dtype=DType.int64, device=CPU), F32))]

    graph = built(body)
    model = require_same(graph, {"w": normal(64, 1)}, normal(3, 64), fewer=1)
    assert model.compiled.ahead is not None
    assert model.compiled.ahead.nbytes == 64 * 4  # exp, and not its product with the range


def test_what_may_fail_is_left_where_it_was() -> None:
    """An index out of range is an error of the run, not of the load."""

    def body(x: TensorValue) -> list[TensorValue]:
        w, at = Weight("w", F32, [64, 64], CPU), Weight("at", DType.int64, [64], CPU)
        return [x @ ops.gather(ops.exp(w), at, axis=0)]

    graph = built(body)
    at = np.full(64, 99, np.int64)
    model = loaded(graph, {"w": normal(64, 64), "at": at})
    with pytest.raises(Exception, match="out of range"):
        model.execute(normal(1, 64))
    require_same(graph, {"w": normal(64, 64), "at": at % 64}, normal(1, 64), fewer=0)


def test_random_numbers_are_made_in_each_run() -> None:
    def body(x: TensorValue) -> list[TensorValue]:
        ops.random.set_seed(ops.constant(3, DType.int64, CPU))
        w = Weight("w", F32, [64, 64], CPU)
        return [x @ (ops.random.normal(TensorType(F32, [64, 64], CPU)) * w)]

    graph = built(body)
    assert loaded(graph, {"w": normal(64, 64)}).compiled.ahead is None


def test_a_graph_without_inputs_is_computed_when_it_runs() -> None:
    with Graph("g") as graph:
        graph.output(ops.exp(Weight("w", F32, [64, 64], CPU)))
    assert loaded(graph, {"w": normal(64, 64)}).compiled.ahead is None


@pytest.mark.parametrize("options", [{"keep": {"n1"}}, {"assert_level": "all"}], ids=str)
def test_options_that_look_at_values_compute_all_in_each_run(options: dict[str, Any]) -> None:
    graph, data = dequantised()
    assert loaded(graph, data, **options).compiled.ahead is None


def test_an_environment_variable_turns_it_off() -> None:
    graph, data = dequantised()
    old = set_config(read_config({**os.environ, "MAXLAB_AT_LOAD": "0"}))
    try:
        assert loaded(graph, data).compiled.ahead is None
    finally:
        set_config(old)
    assert loaded(graph, data).compiled.ahead is not None


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_with_weights_make_the_same_bits(seed: int) -> None:
    """Most inputs of a random program become weights."""
    chance = random.Random(seed)
    while True:
        program = Generator(chance.getrandbits(20)).make()
        function = program.function
        static = [
            n
            for n, v in enumerate(function.inputs)
            if isinstance(v.type, TensorType) and Shape.is_static(v.tensor_type.shape)
        ]
        if 1 < len(static) == len(function.inputs):
            break
    session = engine.InferenceSession(num_threads=2)
    model = session.load(graph_of(function), weights_registry=program.weights)
    given = [driver.Tensor.from_numpy(a.copy(order="C")) for a in program.inputs]
    left = chance.choice(static)
    graph, data = frozen(model, [n for n in static if n != left], given)
    require_same(
        graph, data, given[left], fewer=0, accuracy=chance.choice(["exact", "default", "fast"])
    )


# ---------------------------------------------------------------- where
def test_weights_of_a_simulated_gpu_are_made_there() -> None:
    with driver.simulated():
        gpu = driver.Accelerator()
        session = engine.InferenceSession(devices=[gpu])
        graph, data = dequantised(DeviceRef.GPU())
        x = driver.Tensor.from_numpy(normal(3, 64)).to(gpu)
        made: dict[bool, tuple[Model, bytes]] = {}
        for on in (True, False):
            model = session.load(graph, weights_registry=data, options=Options(at_load=on))
            made[on] = model, outputs(model, x)[0].tobytes()
        assert made[True][1] == made[False][1]
        assert len(made[True][0].kernels) < len(made[False][0].kernels)


# ---------------------------------------------------------------- the model
def test_a_weight_that_is_changed_later_is_seen_by_the_next_load() -> None:
    graph, data = dequantised()
    model = loaded(graph, data)
    x = normal(2, 64)
    before = outputs(model, x)[0]
    data["a"][:] = 0
    assert np.array_equal(outputs(model, x)[0], before)
    again = model.reload()
    assert not np.array_equal(outputs(again, x)[0], before)
    model.adopt(again)
    assert np.array_equal(outputs(model, x)[0], outputs(again, x)[0])


def test_weights_of_the_graph_are_those_that_the_user_gave() -> None:
    graph, data = dequantised()
    assert set(loaded(graph, data).weights) == set(data)


def test_a_missing_weight_is_named() -> None:
    graph, data = dequantised()
    del data["a.scale"]
    with pytest.raises(MissingWeightError, match=r"a\.scale.*ML613"):
        loaded(graph, data)


def test_it_is_told() -> None:
    graph, data = dequantised()
    model = loaded(graph, data)
    ahead = model.compiled.ahead
    assert ahead is not None
    assert ahead.nbytes == 2 * 64 * 64 * 4
    assert model.compiled.timings_ns["ahead"] > 0
    assert ahead.count == 4  # casts and products
    record = model.passes["ahead"]
    assert record.count == len(record.rewrites) >= ahead.count
    report = compile_report(model)
    assert report.phases["ahead"] == model.compiled.timings_ns["ahead"]
    assert "4 operations, 2 results of 32.8 kB in all" in report.table()
    last = {stage.name: stage for stage in stages(model)}["plan"]
    for op in model.compiled.source.ops:
        if op.name in ("mo.cast", "mo.mul"):
            assert last.nodes[op.id].state == "folded"
            assert "loaded" in last.nodes[op.id].rule
        if op.name == "mo.constant.external":
            assert last.nodes[op.id].state == "removed"


def test_what_is_left_is_compared_with_references() -> None:
    graph, data = dequantised()
    assert compare(loaded(graph, data), normal(3, 64)).ok


@pytest.mark.parametrize("gpu", [False, True])
def test_values_of_what_was_computed_are_looked_at(gpu: bool) -> None:
    with driver.simulated():
        devices = [driver.Accelerator()] if gpu else []
        graph, data = dequantised(DeviceRef.GPU() if gpu else CPU)
        session = engine.InferenceSession(devices=devices)
        model = session.load(graph, weights_registry=data)
        other = session.load(graph, weights_registry=data, options=Options(at_load=False))
        assert model.compiled.ahead is not None
        (x,) = model.placed([normal(3, 64)])
        for op in model.compiled.source.ops:
            if op.results:
                one, two = (values(m, op.id, x) for m in (model, other))
                assert str(one) == str(two)
        assert first_nonfinite(model, x) is None
        data["b.scale"][3] = np.nan
        trip = first_nonfinite(session.load(graph, weights_registry=data), x)
        assert "b.scale" in str(trip)


def test_what_is_packed_is_not_kept_twice() -> None:
    """The panels of a product are all that is left of what was computed for it alone."""
    graph, data = dequantised()
    model = loaded(graph, data)
    ahead = model.compiled.ahead
    assert ahead is not None
    slots = {slot.name: slot for slot in model.plan.slots if slot.kind == "weight"}
    assert set(slots) == set(ahead.names)
    assert not {slots[name].number for name in ahead.names} & set(model.prepared.addresses)
    assert memory(model, {"n": 3}).nbytes("weight", "arena") < memory(
        loaded(graph, data, on=False), {"n": 3}
    ).nbytes("weight", "arena")
    assert memory(model, {"n": 3}).nbytes("packed") >= ahead.nbytes
    assert memory(model, {"n": 3}).nbytes("weight") == 0
    kept = [x for x in model.prepared.keep if isinstance(x, driver.Tensor)]
    assert not [x for x in kept if x.num_elements == 64 * 64]


def test_two_models_do_not_take_each_others_panels() -> None:
    """Memory that is given back may be given to the next model, for other numbers."""
    x = normal(2, 64)
    graph, data = dequantised()
    models = []
    for scale in (1.0, 2.0, 3.0):
        given = {**data, "a.scale": data["a.scale"] * np.float32(scale)}
        models.append((given, loaded(graph, given)))
    for given, model in models:
        wanted = outputs(loaded(graph, given, on=False), x)[0]
        assert outputs(model, x)[0].tobytes() == wanted.tobytes()


def test_a_file_that_is_cut_off_is_still_told(tmp_path: Path) -> None:
    graph, data = dequantised()
    path = tmp_path / "weights.safetensors"
    names = sorted(data)
    header: dict[str, Any] = {}
    end = 0
    for name in names:
        kind = "I8" if data[name].dtype == np.int8 else "F32"
        span = [end, end + data[name].nbytes]
        header[name] = {"dtype": kind, "shape": list(data[name].shape), "data_offsets": span}
        end = span[1]
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    blob = b"".join(data[name].tobytes() for name in names)
    path.write_bytes(len(text).to_bytes(8, "little") + text + blob)
    weights = {name: one.data() for name, one in SafetensorWeights([path]).items()}
    model = loaded(graph, weights)
    outputs(model, normal(2, 64))
    with path.open("r+b") as file:
        file.truncate(4096)
    with pytest.raises(WeightFileError, match=r"ML639|ML641"):
        model.reload()
    time.sleep(0.15)  # files are looked at ten times a second
    with pytest.raises(WeightFileError, match=r"ML639|ML641"):
        model.execute(normal(2, 64))


def test_a_subgraph_that_is_called_takes_what_was_computed() -> None:
    """What calls pass is computed ahead; their bodies are left as they are."""
    with Graph("g", input_types=[TensorType(F32, ["n", 64], CPU)]) as graph:
        x = graph.inputs[0].tensor
        w = ops.exp(Weight("w", F32, [64, 64], CPU))
        inner = graph.add_subgraph("inner", lambda a, b: ops.tanh(a @ b), [x.type, w.type])
        for _ in range(3):
            (x,) = (value.tensor for value in ops.call(inner, x, w))
        graph.output(x)
    require_same(graph, {"w": normal(64, 64)}, normal(3, 64))


def test_a_loop_takes_what_was_computed() -> None:
    with Graph("g", input_types=[TensorType(F32, ["n", 64], CPU)]) as graph:
        x = graph.inputs[0].tensor
        w = ops.exp(Weight("w", F32, [64, 64], CPU))
        start = ops.constant(0, DType.int64, CPU)

        def more(i: TensorValue, y: TensorValue) -> TensorValue:
            return i < 3

        def body(i: TensorValue, y: TensorValue) -> list[TensorValue]:
            return [i + 1, ops.tanh(y @ w)]

        graph.output(ops.while_loop([start, x], more, body)[1])
    require_same(graph, {"w": normal(64, 64)}, normal(3, 64))


def test_a_kernel_is_edited_as_before() -> None:
    graph, data = dequantised()
    model = loaded(graph, data)
    kernel = next(k for k in model.kernels.values() if k.source)
    text = kernel.source
    again = model.reload(options=Options(replaced={kernel.symbol: text}))
    x = normal(2, 64)
    assert np.array_equal(outputs(again, x)[0], outputs(model, x)[0])
    assert again.compiled.ahead is not None


def test_nothing_is_left_to_hoist() -> None:
    from maxlab.analysis.advice import advice

    graph, data = dequantised()
    actions = advice(loaded(graph, data).profile(normal(3, 64), runs=2))
    assert hoist.__name__ not in [action.kind for action in actions]
