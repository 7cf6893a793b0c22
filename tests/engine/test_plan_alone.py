"""A plan alone reports what goes wrong in the words of today.

Each model here is made a second time from the text of its plan: without its graph, and with nothing
that could compile one. Both are called with the same arguments, and raise the same error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, get_args

import numpy as np
import pytest

from maxlab import driver, engine
from maxlab.compiler import Compiled, compiling
from maxlab.compiler.compiled import Debug, loaded_kernels
from maxlab.compiler.plan import Plan
from maxlab.dtype import DType
from maxlab.engine.executable import Executable
from maxlab.engine.guard import Guarding, guard_of
from maxlab.engine.model import Model
from maxlab.engine.weights import prepare
from maxlab.errors import MaxlabError
from maxlab.graph import BufferType, DeviceRef, Dim, Graph, TensorType, Weight, ops
from maxlab.opset.faults import FaultKind
from maxlab.toolchain import runtime
from tests.custom.test_guard import KERNELS as GUARDED
from tests.custom.test_opaque import COUNTER, KERNELS, LIVE, OTHER, OTHERS, at, new

F32, I64, BOOL = DType.float32, DType.int64, DType.bool
CPU, GPU = DeviceRef.CPU(), DeviceRef.GPU()
TALK = """
// @op asserted(x: float32[n]) -> (y: float32[n])
// @both
MX_ASSERT(load(x, i) < 3, "too large");
store(y, i, load(x, i));
"""
Build = Callable[..., list[Any]]


@dataclass
class Case:
    """A graph, and what its model is called with that is wrong.

    Attributes:
        id: What is wrong.
        code: Of the error.
        types: Of the inputs.
        build: Gets the inputs and gives the outputs.
        wrong: Makes what the model is called with.
        kernels: Kernels of users.
        asserts: Whether kernels test everything.
        guard: Whether kernels of users are guarded.
        weights: By name.
        on_gpu: Whether it runs on a simulated GPU.
    """

    id: str
    code: str
    types: list[Any]
    build: Build
    wrong: Callable[[], list[Any]]
    kernels: str = ""
    asserts: bool = False
    guard: Any = False
    weights: Mapping[str, Any] = field(default_factory=dict)
    on_gpu: bool = False


def tensor(*shape: Any, dtype: DType = F32, device: DeviceRef = CPU) -> TensorType:
    return TensorType(dtype, shape, device)


def floats(*shape: int) -> Any:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def number(value: Any) -> Any:
    return np.array(value)


def graph_of(case: Case) -> Graph:
    more: dict[str, Any] = {"custom_extensions": [case.kernels]} if case.kernels else {}
    with Graph("alone", input_types=case.types, **more) as graph:
        values = [
            value.buffer
            if isinstance(kind, BufferType)
            else value.tensor
            if isinstance(kind, TensorType)
            else value
            for kind, value in zip(case.types, graph.inputs, strict=True)
        ]
        graph.output(*case.build(*values))
    return graph


def custom(name: str, x: Any, *, device: DeviceRef = CPU) -> list[Any]:
    return list(ops.custom(name, device, [x], [x.type]))


def stored(b: Any, x: Any, first: Any, last: Any) -> list[Any]:
    b[first:last] = x
    return []


def scattered(b: Any, row: Any) -> list[Any]:
    b[row] = 7
    return []


def moved(c: Any, d: Any) -> list[Any]:
    ops.inplace_custom("counter_move", CPU, [c, d])
    return [at(d)]


def no_handle(live: Any, x: Any) -> list[Any]:
    c = ops.inplace_custom("counter_new", CPU, [live, x], [COUNTER])[0]
    return [c, *ops.custom("counter_none", CPU, [x], [COUNTER, COUNTER])]


def counters(count: int) -> list[Any]:
    """Handles of counters, which other models made."""
    with Graph("make", input_types=[LIVE, tensor(dtype=I64)], custom_extensions=KERNELS) as graph:
        graph.output(new(*graph.inputs))
    model = engine.InferenceSession().load(graph)
    return [model(np.zeros(2, np.int64), n)[0] for n in range(count)]


def another_handle() -> list[Any]:
    with Graph("other", input_types=[tensor(dtype=I64)], custom_extensions=OTHERS) as graph:
        graph.output(ops.custom("other_new", CPU, [graph.inputs[0]], [OTHER])[0])
    return [*engine.InferenceSession().load(graph)(1)]


def other_text() -> list[Any]:
    """A counter of a library that declares counters otherwise."""
    text = KERNELS.replace("i64 at, items, s0;", "i64 items, at, s0;")
    with Graph("make", input_types=[LIVE, tensor(dtype=I64)], custom_extensions=text) as graph:
        graph.output(new(*graph.inputs))
    return [*engine.InferenceSession().load(graph)(np.zeros(2, np.int64), 1)]


CASES = [
    # ------------------------------------------------------------ numbers that kernels refuse
    Case("an index", "ML652", [tensor(5, 5), tensor("n", dtype=I64)],
         lambda x, rows: [ops.gather(x, rows, 0) * 2], lambda: [floats(5, 5), number([0, 5])]),
    Case("logits of which no token can be drawn", "ML183",
         [tensor(2, 5), tensor(2, dtype=I64), tensor(2, dtype=DType.float64)],
         lambda x, k, one: [ops.sample_token(x, k, one, one, one * 0.0, one * 0.5)],
         lambda: [number([[0, np.nan, 0, 0, 0]] * 2).astype(np.float32), number([3, 3]),
                  np.ones(2)]),
    Case("an index in one of two gathers", "ML652",
         [tensor("v", 4), tensor("n", dtype=I64), tensor("n", dtype=I64)],
         lambda x, a, b: [ops.softmax(ops.gather(x, a, 0) + ops.gather(x * 2, b, 0))],
         lambda: [floats(3, 4), number([0]), number([3])]),
    Case("a bound", "ML652", [tensor(5), tensor(dtype=I64)],
         lambda x, a: [x[(slice(a, None), "k")]], lambda: [floats(5), number(6)]),
    Case("a bound of a slice that goes backwards", "ML652", [tensor(5), tensor(dtype=I64)],
         lambda x, a: [x[(slice(None, a, -1), "k")]], lambda: [floats(5), number(7)]),
    Case("a bound of a slice of a buffer", "ML652",
         [BufferType(F32, ["n"], CPU), tensor("k"), tensor(dtype=I64), tensor(dtype=I64)],
         stored, lambda: [floats(6), floats(3), number(4), number(7)]),
    Case("a slice of another size than its source", "ML779",
         [BufferType(F32, ["n"], CPU), tensor("k"), tensor(dtype=I64), tensor(dtype=I64)],
         stored, lambda: [floats(6), floats(2), number(2), number(5)]),
    Case("an index into a buffer", "ML652",
         [BufferType(F32, ["n", 3], CPU), tensor(dtype=I64)],
         scattered, lambda: [floats(6, 3), number(6)]),
    Case("an index on a GPU", "ML652",
         [tensor(5, 5, device=GPU), tensor("n", dtype=I64, device=GPU)],
         lambda x, rows: [ops.gather(x, rows, 0) * 2], lambda: [floats(5, 5), number([0, 5])],
         on_gpu=True),
    Case("a NaN", "ML792", [tensor("n")], lambda x: [ops.log(x)],
         lambda: [-floats(4) - 1], asserts=True),
    Case("an assertion", "ML791", [tensor("n")], lambda x: custom("asserted", x),
         lambda: [floats(5)], TALK, asserts=True),
    Case("an assertion on a GPU", "ML791", [tensor("n", device=GPU)],
         lambda x: custom("asserted", x, device=GPU), lambda: [floats(5)], TALK,
         asserts=True, on_gpu=True),
    # ------------------------------------------------------------ sizes
    Case("a size that is another elsewhere", "ML602", [tensor("n"), tensor("n")],
         lambda x, y: [x + y], lambda: [floats(3), floats(4)]),
    Case("a size that the type fixes", "ML602", [tensor("n", 4)],
         lambda x: [x + 1], lambda: [floats(3, 5)]),
    Case("a size that would be negative", "ML602", [tensor(Dim("n") + 3)],
         lambda x: [x + 1], lambda: [floats(2)]),
    Case("a condition of an op", "ML603", [tensor("n"), tensor("m")],
         lambda x, y: [ops.rebind(x, ["m"], "as many as y") + y], lambda: [floats(3), floats(4)]),
    Case("a condition on a dim that is computed", "ML603", [tensor("n"), tensor("m")],
         lambda x, y: [ops.nonzero(x, "hits"), ops.rebind(y, ["hits"], "as many as hits") + 1],
         lambda: [floats(3), floats(4)]),
    Case("a condition in a branch", "ML603", [tensor("n"), tensor(dtype=BOOL)],
         lambda x, go: ops.cond(
             go, [tensor(4)], lambda: x[:4], lambda: ops.broadcast_to(x[0], [4])
         ),
         lambda: [floats(2), number(True)]),
    Case("a negative size", "ML623", [tensor("n")],
         lambda x: [ops.broadcast_to(ops.reshape(ops.sum(x), [1]), [Dim("n") - 5])],
         lambda: [floats(3)]),
    Case("a division by zero", "ML624", [tensor("n", "m")],
         lambda x: [ops.broadcast_to(ops.sum(x)[0], [Dim("n") // Dim("m")])],
         lambda: [floats(3, 0)]),
    Case("a computed dim that has another size", "ML726", [tensor("n"), tensor("k")],
         lambda x, y: [ops.nonzero(x, "k"), y + 1], lambda: [floats(4), floats(2)]),
    Case("a computed size that is negative", "ML727", [tensor(dtype=I64), tensor(dtype=I64)],
         lambda a, b: [ops.range(a, b, -1, out_dim="r", dtype=I64, device=CPU)],
         lambda: [number(0), number(5)]),
    Case("an output that is too large", "ML223", [tensor("n"), tensor("m")],
         lambda x, y: [ops.broadcast_to(ops.reshape(ops.sum(x) + ops.sum(y), [1, 1]),
                                        [Dim("n") * 1000000007 * 1000000007, "m"])],
         lambda: [floats(20), floats(3)]),
    # ------------------------------------------------------------ arguments
    Case("an input too few", "ML604", [tensor("n"), tensor("n")],
         lambda x, y: [x + y], lambda: [floats(3)]),
    Case("another dtype", "ML609", [tensor("n")], lambda x: [x + 1],
         lambda: [np.arange(3)]),
    Case("another rank", "ML610", [tensor("n")], lambda x: [x + 1], lambda: [floats(3, 3)]),
    # ------------------------------------------------------------ opaque handles
    Case("no handle", "ML786", [COUNTER], lambda c: [at(c)], lambda: [1], KERNELS),
    Case("a handle of another type", "ML786", [COUNTER], lambda c: [at(c)], another_handle,
         KERNELS),
    Case("a handle of another text", "ML786", [COUNTER], lambda c: [at(c)], other_text, KERNELS),
    Case("a kernel that makes no handle", "ML785", [LIVE, tensor(dtype=I64)], no_handle,
         lambda: [np.zeros(2, np.int64), 0], KERNELS),
    Case("one handle for two operands", "ML789", [COUNTER, COUNTER], moved,
         lambda: counters(1) * 2, KERNELS),
    # ------------------------------------------------------------ guarded kernels
    *(
        Case(f"a guarded kernel: {name}", code, [tensor("n")],
             lambda x, name=name: custom(name, x), lambda: [floats(4)], GUARDED, guard=guard)
        for name, code, guard in (
            ("read_null", "ML771", True), ("read_wild", "ML771", True), ("past_end", "ML772", True),
            ("byte_before", "ML772", True), ("write_operand", "ML771", True),
            ("leaves", "ML771", True), ("aborts", "ML771", True),
            ("spins", "ML773", engine.Guard(seconds=0.3)), ("divides", "ML771", True),
            ("scratched_badly", "ML772", True),
        )
    ),
]  # fmt: skip


def nothing_else(*_: Any) -> Debug:
    raise AssertionError("the graph is asked for")


def alone(model: Model, session: engine.InferenceSession, weights: Mapping[str, Any]) -> Model:
    """``model`` from the text of its plan and nothing else."""
    plan = Plan.parse(model.plan.text(), model.plan.arrays())
    assert plan == model.plan
    options = model.compiled.options
    compiled = Compiled(plan, nothing_else, loaded_kernels(plan, options), {"kernels": 0}, options)
    guard = guard_of(model.guard)
    if guard is not None:
        compiled.guard = Guarding(guard, session.beside, compiled)
    library = runtime()
    prepared = prepare(compiled, weights, library, model.num_threads, model.devices)
    executable = Executable(compiled, prepared, model.num_threads, library, model.devices)
    loader: Any = None
    return Model(executable, None, loader)


def raised(model: Model, given: list[Any]) -> MaxlabError:
    """What a call of ``model`` raises, or the wait for its outputs."""
    with pytest.raises(MaxlabError) as caught:
        waited_for(model(*given))
    return caught.value


def waited_for(outputs: list[Any]) -> None:
    """Return when ``outputs`` are made."""
    for made in outputs:
        if isinstance(made, driver.Tensor) and not made.is_host:
            made.to(driver.CPU())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_same_error(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    with driver.simulated() if case.on_gpu else nullcontext():
        devices = [driver.Accelerator()] if case.on_gpu else []
        session = engine.InferenceSession(devices or None)
        if case.asserts:
            session.set_mojo_assert_level(engine.AssertLevel.ALL)
        graph = graph_of(case)
        model = session.load(graph, guard=case.guard, weights_registry=case.weights)
        wanted = raised(model, given(case, devices))
        assert wanted.code == case.code, str(wanted)
        other = alone(model, session, case.weights)
        for _ in range(2):
            found = raised(other, given(case, devices))
            assert type(found) is type(wanted)
            assert said(found) == said(wanted)
        # A model whose plan is in the cache of the process has a way to compile its graph once
        # more, and takes none.
        monkeypatch.setattr(compiling, "debugged", nothing_else)
        again = session.load(graph, guard=case.guard, weights_registry=case.weights)
        assert again.compiled.cached.startswith("the plan is one that this process has made")
        assert said(raised(again, given(case, devices))) == said(wanted)


def given(case: Case, devices: list[driver.Accelerator]) -> list[Any]:
    """What the model of ``case`` is called with, where it takes it."""
    arrays = case.wrong()
    return [driver.Tensor.from_numpy(x).to(devices[0]) for x in arrays] if devices else arrays


def said(error: MaxlabError) -> list[Any]:
    """All that ``error`` says, without the addresses of this run."""
    texts = (str(error), error.what, *error.why, error.fix or "")
    return [*(re.sub(r"0x[0-9a-f]+", "0x…", text) for text in texts), error.at]


def test_every_kind_of_number_is_tried() -> None:
    kinds = {kind for case in CASES for kind in kinds_of(case)}
    assert kinds >= set(get_args(FaultKind))


def kinds_of(case: Case) -> Iterator[str]:
    if case.on_gpu or case.guard:
        return
    model = engine.InferenceSession().load(graph_of(case))
    yield from (op.fault.kind for op in model.plan.facts.ops.values())


def test_right_calls_are_the_same() -> None:
    graph = Graph(
        "f",
        lambda x: ops.softmax(x @ Weight("w", F32, [4, 4]), -1),
        [TensorType(F32, ["n", 4])],
    )
    session, weights = engine.InferenceSession(), {"w": floats(4, 4) / 16}
    model = session.load(graph, weights_registry=weights)
    other = alone(model, session, weights)
    for n in (1, 3):
        for one, two in zip(model(floats(n, 4)), other(floats(n, 4)), strict=True):
            np.testing.assert_array_equal(one.to_numpy(), two.to_numpy())
