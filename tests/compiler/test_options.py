"""Options of a compilation: every sample of every op with nothing fused and with its op apart, what
fusion leaves of known programs, values kept in memory, replaced texts, and models loaded again.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from maxlab import driver, engine
from maxlab.compiler import Options
from maxlab.dtype import DType
from maxlab.engine.layout import layout_arena, slot_uses
from maxlab.errors import ArgumentError, ArgumentTypeError, ToolchainError
from maxlab.graph import DeviceRef, Graph, TensorType, Weight, ops
from maxlab.ir import Function
from maxlab.opset import OPSET
from maxlab.toolchain.flags import ACCURACIES
from tests.compiler.interpret import Array, Builder, host, interpret, outputs_of, same
from tests.compiler.programs import Generator
from tests.compiler.test_matrix import CASES, Case, build, compare_all

F32 = DType.float32
UNFUSED = Options(fuse=False)


def normal(*shape: int, seed: int = 0) -> Array:
    """Some float32 numbers."""
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(np.float32)


def loaded(
    function: Function, options: Options | None = None, weights: Any = None, threads: int = 1
) -> engine.Model:
    """The model of ``function`` with ``options``."""
    graph = Graph(function.name)
    graph.function = function
    session = engine.InferenceSession(num_threads=threads)
    return session.load(graph, weights_registry=weights, options=options)


def kernels_of(model: engine.Model) -> list[tuple[str, ...]]:
    """The ops of the graph that each kernel computes."""
    return [step.nodes for step in model.compiled.plan.steps if step.kind != "pack"]


# ---------------------------------------------------------------- every op
@pytest.mark.parametrize("case", CASES[::3], ids=lambda c: c.id)
@pytest.mark.parametrize("how", ["unfused", "apart", "fast"])
def test_op(case: Case, how: str) -> None:
    """Between maps that would fuse with it, each op computes what its reference does."""
    function, arrays = build(case)
    everything = frozenset(op.id for op in function.ops)
    options = {
        "unfused": UNFUSED,
        "apart": Options(apart=everything),
        "fast": Options(accuracy="fast"),
    }[how]
    made = outputs_of(loaded(function, options), arrays)
    wanted = interpret(function, arrays)
    if how != "fast" or OPSET[case.name].terms is not None:
        compare_all(case, made, wanted, arrays)
        return
    for got, want in zip(made, wanted, strict=True):
        if want.dtype.kind in "biu":
            same(got, want)
            continue
        with np.errstate(invalid="ignore"):  # inf - inf, of elements that are equal
            same(got, want, rtol=2e-2 if want.dtype.itemsize == 2 else 3e-6, atol=1e-6)


@pytest.mark.parametrize("case", CASES[::7], ids=lambda c: c.id)
def test_op_with_the_settings_of_a_session(case: Case) -> None:
    """What kernels test, log and add otherwise does not change what they compute."""
    function, arrays = build(case)
    wanted = interpret(function, arrays)
    for options in (
        Options(assert_level="warn", log_level="trace"),
        Options(assert_level="none", split_k="output", old_top_k=True),
    ):
        compare_all(case, outputs_of(loaded(function, options), arrays), wanted, arrays)


def _source_ops(model: engine.Model) -> set[str]:
    return {
        op.id
        for op in model.compiled.source.ops
        if OPSET[op.name].kind not in ("view", "constant", "external", "output", "iota")
        and model.compiled.schedule.data_of(op.result) is None
    }


@pytest.mark.parametrize("seed", range(30))
def test_random_programs(seed: int) -> None:
    program = Generator(seed).make()
    want = interpret(program.function, program.inputs, program.weights)
    ids = [op.id for op in program.function.ops if op.name != "mo.output"]
    rng = np.random.default_rng(seed)
    some = frozenset(rng.choice(ids, max(len(ids) // 3, 1)).tolist()) if ids else frozenset()
    for options in (UNFUSED, Options(apart=some), Options(keep=some)):
        model = loaded(program.function, options, program.weights)
        got = outputs_of(model, program.inputs)
        for g, w in zip(got, want, strict=True):
            same(g, w, rtol=2e-4, atol=2e-4)


def block(device: DeviceRef | None = None) -> Graph:
    """A linear layer, a mask made of ranges, attention and a residual."""
    place = device or DeviceRef.CPU()
    w = Weight("w", F32, [16, 16], place)
    with Graph("block", input_types=[TensorType(F32, ["b", "s", 16], place)]) as graph:
        x = graph.inputs[0].tensor
        h = ops.gelu(x @ w + 0.5)
        at = ops.range(0, x.shape[1], 1, dtype=DType.int64, device=place)
        after = ops.cast(ops.greater(ops.unsqueeze(at, 0), ops.unsqueeze(at, 1)), F32)
        scores = h @ ops.transpose(x, 1, 2) * 0.25 - after * 1e9
        graph.output(ops.layer_norm(x + ops.softmax(scores) @ h, *affine(16, place), 1e-5))
    return graph


def affine(size: int, place: DeviceRef) -> tuple[Any, Any]:
    """Scale and shift of a layer norm."""
    return (
        ops.constant(np.linspace(0.5, 1.5, size, dtype=np.float32), F32, place),
        ops.constant(np.linspace(-0.5, 0.5, size, dtype=np.float32), F32, place),
    )


W = normal(16, 16, seed=3) * 0.2
X = normal(2, 9, 16)


@pytest.fixture(params=["cpu", "gpu"])
def target(request: pytest.FixtureRequest) -> Any:
    """A session, the device to build graphs on, and what puts an input there."""
    if request.param == "cpu":
        yield engine.InferenceSession(num_threads=2), DeviceRef.CPU(), driver.Tensor.from_numpy
        return
    with driver.simulated():
        gpu = driver.Accelerator()
        yield (
            engine.InferenceSession(devices=[gpu], num_threads=2),
            DeviceRef.GPU(),
            lambda x: driver.Tensor.from_numpy(x).to(gpu),
        )


def run(model: engine.Model, x: Any) -> Array:
    """The first output, on the host."""
    return host(model(x)[0].to(driver.CPU()))


# ---------------------------------------------------------------- fusion
def test_unfused_is_a_kernel_for_each_op(target: Any) -> None:
    session, place, put = target
    graph = block(place)
    model = session.load(graph, weights_registry={"w": W}, options=UNFUSED)
    seen: set[tuple[str, ...]] = set()
    for nodes in kernels_of(model):
        computed = [n for n in nodes if n in _source_ops(model)]
        assert len(computed) <= 1, nodes
        seen.update((n,) for n in computed)
    assert {n for (n,) in seen} == _source_ops(model)
    want = run(session.load(graph, weights_registry={"w": W}), put(X))
    same(run(model, put(X)), want, rtol=1e-5, atol=1e-5)
    assert len(model.kernels) > 2 * len(session.load(graph, weights_registry={"w": W}).kernels)


def test_an_op_apart_begins_a_kernel(target: Any) -> None:
    session, place, put = target
    graph = block(place)
    fused = session.load(graph, weights_registry={"w": W})
    want = run(fused, put(X))
    for op in fused.compiled.source.ops:
        if op.id not in _source_ops(fused):
            continue
        model = fused.reload(options=Options(apart={op.id}))
        for step in model.compiled.plan.steps:
            if op.id in step.nodes and step.kind != "pack":
                read = {v.op.id for v in op.operands if v.op is not None}
                together = read & set(step.nodes) & _source_ops(model)
                assert not together, (op.id, step.nodes)
        same(run(model, put(X)), want, rtol=1e-5, atol=1e-5)


def test_apart_cuts_maps_and_leaves_the_rest() -> None:
    with Graph("f", input_types=[TensorType(F32, ["n"])]) as graph:
        a = ops.tanh(graph.inputs[0].tensor)
        b = ops.exp(a)
        c = ops.abs(b)
        graph.output(c + a)
    tanh, exp, absolute, add = (op.id for op in graph.function.ops[:4])
    model = engine.InferenceSession().load(graph, options=Options(apart={exp}))
    assert kernels_of(model) == [(tanh,), (exp, absolute, add)]
    x = normal(100)
    want = engine.InferenceSession().load(graph)(x)[0].to_numpy()
    np.testing.assert_array_equal(model(x)[0].to_numpy(), want)


# ---------------------------------------------------------------- values in memory
def value_of(model: engine.Model, id: str, x: Any) -> Array:
    """What is in the memory of a kept value when a run has ended."""
    compiled = model.compiled
    slot = compiled.slot_of(compiled.kept[id])
    assert slot is not None
    if slot.kind == "output":
        return np.array(model(x)[slot.index].to_numpy())
    model(x)
    program = model.bind((x.shape,))
    stream = program.executable.device_of(slot.device).default_stream
    frame = program.frame()  # the one that the run has used
    address = frame.addresses[slot.number]
    data: Array = stream.bytes_at(address, slot.nbytes.evaluate(program.env)).copy()
    shape = [size.evaluate(program.env) for size in slot.shape]
    order = slot.order or tuple(range(len(shape)))
    stored: Array = data.view(slot.dtype.ml_numpy).reshape([shape[n] for n in order])
    return stored.transpose(np.argsort(order))


def test_kept_values_are_in_memory() -> None:
    """Each value of the block, one at a time: nothing later has overwritten it or it is last."""
    graph = block()
    function = graph.function
    env = {"b": 2, "s": 9}
    known = dict(zip(function.inputs, [X], strict=True))
    from maxlab import opset

    session = engine.InferenceSession(num_threads=1)
    seen = 0
    for op in function.ops[:-1]:
        if op.name == "mo.constant.external":
            known[op.result] = W
            continue
        (known[op.result],) = opset.evaluate(op, [known[v] for v in op.operands], env)
        if OPSET[op.name].kind in ("view", "constant", "iota"):
            continue
        model = session.load(graph, weights_registry={"w": W}, options=Options(keep={op.id}))
        slot = model.compiled.slot_of(model.compiled.kept[op.id])
        assert slot is not None, op
        if slot.kind == "arena" and overwritten(model, slot.number):
            continue
        same(value_of(model, op.id, X), known[op.result], rtol=1e-4, atol=1e-5)
        seen += 1
    assert seen > 5


def overwritten(model: engine.Model, number: int) -> bool:
    """Whether a later value has the place of the slot ``number`` in the arena."""
    uses, env = slot_uses(model.compiled), model.bind((X.shape,)).env
    entries, _ = layout_arena(model.plan.slots, uses, env)
    (own,) = (e for e in entries if e.slot == number)
    return any(
        e.first > own.last
        and e.offset < own.offset + own.nbytes
        and own.offset < e.offset + e.nbytes
        for e in entries
    )


@pytest.mark.parametrize("dead", [False, True])
def test_keep_holds_on_to_what_passes_would_remove(dead: bool) -> None:
    b = Builder()
    x = b.input(F32, "n")
    doubled = b.op("mul", x, b.scalar(2))
    same_again = b.op("mul", x, b.scalar(2))
    unread = b.op("exp", x)
    function = b.output(b.op("add", doubled, same_again))
    wanted = unread if dead else same_again
    assert wanted.op is not None
    model = loaded(function, Options(keep={wanted.op.id, wanted.id}))
    kept = model.compiled.kept
    assert kept[wanted.op.id] is kept[wanted.id]
    data = np.arange(5, dtype=np.float32)
    want = np.exp(data) if dead else data * 2
    np.testing.assert_allclose(value_of(model, wanted.id, data), want, rtol=1e-6)


def test_keep_of_a_view_is_what_it_looks_at() -> None:
    b = Builder()
    x = b.input(F32, 3, "n")
    turned = b.op("transpose", b.op("tanh", x), axis_1=0, axis_2=1)
    function = b.output(b.op("exp", turned))
    assert turned.op is not None
    assert len(loaded(function).kernels) == 1
    model = loaded(function, Options(keep={turned.id}))
    slot = model.compiled.slot_of(model.compiled.kept[turned.id])
    assert slot is not None
    assert slot.value == turned.op.operands[0].id
    assert len(model.kernels) == 2


# ---------------------------------------------------------------- texts
def test_a_replaced_text_is_what_runs() -> None:
    b = Builder()
    x = b.input(F32, "n")
    function = b.output(b.op("mul", x, b.scalar(3)))
    model = loaded(function)
    kernel = model.kernels["k0"]
    text = kernel.source.replace("3.0f", "5.0f").replace("3.f", "5.f")
    assert text != kernel.source
    other = model.reload(options=Options(replaced=((kernel.symbol, text),)))
    data = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(other(data)[0].to_numpy(), 5 * data)
    np.testing.assert_array_equal(model(data)[0].to_numpy(), 3 * data)
    assert other.kernels["k0"].source == text
    assert other.kernels["k0"].lines
    again = other.reload()
    assert again.options == other.options
    np.testing.assert_array_equal(again(data)[0].to_numpy(), 5 * data)


def test_a_replaced_text_of_a_gpu(target: Any) -> None:
    session, place, put = target
    with Graph("f", input_types=[TensorType(F32, ["n"], place)]) as graph:
        graph.output(graph.inputs[0].tensor * 3)
    model = session.load(graph)
    kernel = model.kernels["k0"]
    text = kernel.source.replace("3.0f", "5.0f").replace("3.f", "5.f")
    assert text != kernel.source
    other = model.reload(options=Options(replaced=((kernel.symbol, text),)))
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(run(other, put(x)), 5 * x)
    np.testing.assert_array_equal(run(model, put(x)), 3 * x)


def test_a_replaced_text_that_is_no_c() -> None:
    b = Builder()
    function = b.output(b.op("tanh", b.input(F32, "n")))
    kernel = loaded(function).kernels["k0"]
    with pytest.raises(ToolchainError, match=rf"ML502[\s\S]*|{kernel.symbol}"):
        loaded(function, Options(replaced=((kernel.symbol, kernel.source + "\nnonsense"),)))


# ---------------------------------------------------------------- fast math
def test_fast_keeps_infinities_and_nan(target: Any) -> None:
    session, place, put = target
    with Graph("f", input_types=[TensorType(F32, ["m", "n"], place)]) as graph:
        x = graph.inputs[0].tensor
        graph.output(ops.softmax(x), ops.mean(x, axis=-1), ops.log1p(x))
    model = session.load(graph, options=Options(accuracy="fast"))
    data = np.array([[0.5, -np.inf, 1.0], [1e-6, np.nan, 1], [1e-6, 2e-7, 3e-5]], np.float32)
    got = [host(t.to(driver.CPU())) for t in model(put(data))]
    strict = [host(t.to(driver.CPU())) for t in session.load(graph)(put(data))]
    for g, w in zip(got, strict, strict=True):
        same(g, w, rtol=1e-6, atol=0)
    assert got[0][0, 1] == 0
    assert np.isnan(got[0][1]).all()


def test_fast_divides_a_row_by_one_number_once(target: Any) -> None:
    session, place, put = target
    with Graph("f", input_types=[TensorType(F32, ["m", "n"], place)]) as graph:
        x = graph.inputs[0].tensor
        graph.output(x / ops.sum(x, axis=-1))
    strict, fast = (
        session.load(graph, options=Options(accuracy=accuracy)).kernels["k0"].source
        for accuracy in ("default", "fast")
    )
    assert strict != fast
    data = np.abs(normal(5, 70)) + np.float32(0.1)
    got = run(session.load(graph, options=Options(accuracy="fast")), put(data))
    same(got, data / data.sum(-1, keepdims=True), rtol=1e-6)


def test_fast_is_another_kernel_in_the_cache() -> None:
    b = Builder()
    function = b.output(b.op("tanh", b.input(F32, 0x317)))
    model = loaded(function)
    fast = model.reload(options=Options(accuracy="fast"))
    paths = {m.compiled.kernels[0].path for m in (model, fast)}
    assert len(paths) == 2
    assert "mx_tanh_f32(" in model.kernels["k0"].source
    assert "mx_tanh_lanes_f32(" in fast.kernels["k0"].source


def test_tanh_times_sigmoid_of_one_number_is_one_function_where_that_may_be_less_exact() -> None:
    b = Builder()
    x = b.input(F32, 0x40)
    function = b.output(b.op("mul", b.op("tanh", x), b.op("sigmoid", x)))
    data = np.linspace(-9, 9, 0x40, dtype=np.float32)
    wide = data.astype(np.float64)
    want = np.tanh(wide) / (1 + np.exp(-wide))
    for accuracy in ACCURACIES:
        model = loaded(function, Options(accuracy=accuracy))
        assert ("mx_tanh_sigmoid_" in model.kernels["k0"].source) is (accuracy != "exact")
        same(model(data)[0].to_numpy(), want.astype(np.float32), rtol=1e-6, atol=0)


# ---------------------------------------------------------------- loading again
def test_reload_shares_weights_and_keeps_what_is_not_asked_for() -> None:
    session = engine.InferenceSession(num_threads=2)
    model = session.load(block(), weights_registry={"w": W}, options=Options(apart={"n3"}))
    again = model.reload(num_threads=1)
    assert (again.num_threads, again.options) == (1, model.options)
    assert again.graph is model.graph
    packed = [s.number for s in model.plan.slots if s.kind == "packed"]
    assert packed
    for number in packed:
        assert again.prepared.addresses[number] == model.prepared.addresses[number]
    np.testing.assert_array_equal(again(X)[0].to_numpy(), model(X)[0].to_numpy())
    with pytest.raises(ArgumentError, match="ML616"):
        model.reload(num_threads=0)


def test_options_say_what_they_are() -> None:
    assert str(Options()) == "defaults"
    made = Options(fuse=False, apart=["n3", "n1"], replaced={"k_1": "text"})
    assert str(made) == "fuse=False, apart={n1, n3}, replaced={k_1}"
    assert made.replaced == (("k_1", "text"),)
    assert hash(made) == hash(dataclasses.replace(made))
    for wrong in (
        {"fuse": 1}, {"accuracy": None}, {"apart": 3}, {"keep": "n1"}, {"keep": {1}},
        {"replaced": "k"}, {"replaced": (("k", 1),)}, {"replaced": (("k", "a", "b"),)},
    ):  # fmt: skip
        with pytest.raises(ArgumentTypeError, match="ML625"):
            Options(**wrong)
    b = Builder()
    function = b.output(b.op("tanh", b.input(F32, "n")))
    with pytest.raises(ArgumentError, match=r"ML626[\s\S]*n0"):
        loaded(function, Options(keep={"v77"}))
    with pytest.raises(ArgumentTypeError, match="ML625"):
        loaded(function, {"fuse": False})  # type: ignore[arg-type]
