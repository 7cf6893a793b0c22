"""Where the body of a loop writes what is carried: in place, or beside it with memory exchanged."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import maxlab
from maxlab import driver, engine
from maxlab.compiler import Options
from maxlab.compiler.turns import SMALL_BYTES
from maxlab.dtype import DType
from maxlab.engine import executor
from maxlab.engine.stepping import Walk
from maxlab.errors import ArgumentError, ExecutionError
from maxlab.graph import DeviceRef, Graph, TensorType, ops

CPU, GPU = DeviceRef.CPU(), DeviceRef.GPU()
N = 24
"""Elements of what is carried: more than are copied rather than exchanged."""
assert N * 4 > SMALL_BYTES
loop: Any = ops.while_loop
branch: Any = ops.cond


@dataclass(frozen=True)
class Case:
    """A loop over a counter and some rows.

    Attributes:
        name: What it shows.
        rows: How many rows are carried.
        body: From the counter and the rows to the rows of the next turn, of tensors.
        wanted: The same of arrays.
        kinds: The kinds of the steps that are in the loop besides kernels of the body's ops: none
            where all is in place.
        gone: Names of steps that are not there.
    """

    name: str
    rows: int
    body: Callable[..., Any]
    wanted: Callable[..., Any]
    kinds: set[str] = field(default_factory=set)
    gone: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name


def at(i: Any) -> Any:
    return ops.reshape(i % N, [1])


def one_at(i: Any, row: Any) -> Any:
    return ops.cast(ops.reshape(i, [1]), row.dtype)


def numbers(row: Any) -> Any:
    return ops.range(N - 1, -1, -1, out_dim=N, dtype=DType.int64, device=row.device)


def number(i: Any) -> Any:
    return ops.cast(i, DType.float32)


def updated(row: Any, i: Any, value: Any) -> Any:
    made = np.array(row)
    made[i % N] = value
    return made


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max())
    return e / e.sum()


def cut(row: Any) -> Any:
    return ops.concat([row[:5], row[5:7] * 2 + 1, row[7:]]).rebind([N])


def np_cut(x: Any) -> Any:
    return np.concatenate([x[:5], x[5:7] * 2 + 1, x[7:]])


def twice(i: Any, x: Any) -> Any:
    return loop((i * 0, x), lambda j, y: j < 3, lambda j, y: (j + 1, y * 2 + number(i)))[1]


def turned(i: Any, x: Any, y: Any) -> Any:
    """A loop in the body, whose rows change places three times."""
    return loop((i * 0, x, y), lambda j, x, y: j < 3, lambda j, x, y: (j + 1, y, x + 1))[1:]


def np_turned(i: int, x: Any, y: Any) -> Any:
    for _ in range(3):
        x, y = y, x + 1
    return x, y


EXCHANGED = {"exchange"}
CASES = [
    Case("a map", 1, lambda i, x: [x + 1], lambda i, x: [x + 1]),
    Case("a map of others", 2, lambda i, x, y: [x * 2 - y, y], lambda i, x, y: [x * 2 - y, y]),
    Case("of the counter", 1, lambda i, x: [x * number(i)], lambda i, x: [x * i]),
    Case(
        "two of both", 2, lambda i, x, y: [x + y, x - y], lambda i, x, y: [x + y, x - y],
        EXCHANGED,
    ),
    Case(
        "two of one kernel", 2, lambda i, x, y: [x + 1, ops.abs(x + 1) * y],
        lambda i, x, y: [x + 1, abs(x + 1) * y],
    ),
    Case("a row", 1, lambda i, x: [ops.softmax(x)], lambda i, x: [softmax(x)]),
    Case("backwards", 1, lambda i, x: [x[::-1] + 1], lambda i, x: [x[::-1] + 1], EXCHANGED),
    Case(
        "here and backwards", 1, lambda i, x: [x[::-1] + x], lambda i, x: [x[::-1] + x], EXCHANGED
    ),
    Case(
        "an element of all", 1, lambda i, x: [x - x[3]], lambda i, x: [x - x[3]], EXCHANGED
    ),
    Case("a swap", 2, lambda i, x, y: [y, x], lambda i, x, y: [y, x], EXCHANGED, ("copy",)),
    Case(
        "three in a ring", 3, lambda i, x, y, z: [y, z, x], lambda i, x, y, z: [y, z, x],
        EXCHANGED, ("copy",),
    ),
    Case(
        "a ring and one that stays", 3, lambda i, x, y, z: [y, x, z],
        lambda i, x, y, z: [y, x, z], EXCHANGED, ("copy",),
    ),
    Case(
        "a ring with one beside", 3, lambda i, x, y, z: [y, z, x[::-1] + y],
        lambda i, x, y, z: [y, z, x[::-1] + y], EXCHANGED, ("copy",),
    ),
    Case("one for two", 2, lambda i, x, y: [y, y * 1], lambda i, x, y: [y, y], EXCHANGED),
    Case("one that both get", 2, lambda i, x, y: [x + y, x + y], lambda i, x, y: [x + y, x + y]),
    Case("one that stays", 2, lambda i, x, y: [y, y], lambda i, x, y: [y, y]),
    Case("Fibonacci", 2, lambda i, x, y: [y, x + y], lambda i, x, y: [y, x + y], EXCHANGED,
         ("copy",)),
    Case("passed on", 2, lambda i, x, y: [x + 1, x], lambda i, x, y: [x + 1, x], EXCHANGED),
    Case(
        "each of the other", 2, lambda i, x, y: [x + ops.sum(y), y - ops.sum(x)],
        lambda i, x, y: [x + y.sum(), y - x.sum()],
    ),
    Case(
        "each of the other backwards", 2, lambda i, x, y: [y[::-1], x[::-1]],
        lambda i, x, y: [y[::-1], x[::-1]], EXCHANGED,
    ),
    Case(
        "scatter", 1, lambda i, x: [ops.scatter(x, one_at(i, x), at(i), axis=0)],
        lambda i, x: [updated(x, i, i)],
    ),
    Case(
        "scatter of what is there", 1,
        lambda i, x: [ops.scatter(x, x[3:5] * 2, ops.concat([at(i), at(i + 9)]), axis=0)],
        lambda i, x: [updated(updated(x, i, x[3] * 2), i + 9, x[4] * 2)],
    ),
    Case(
        "scatter of itself", 1,
        lambda i, x: [ops.scatter(x, x, numbers(x), axis=0)],
        lambda i, x: [x[::-1]], EXCHANGED,
    ),
    Case(
        "scatter, and the old one", 2,
        lambda i, x, y: [ops.scatter(x, one_at(i, x), at(i), axis=0), y + x],
        lambda i, x, y: [updated(x, i, i), y + x],
    ),
    Case(
        "scatter, and the old one backwards", 2,
        lambda i, x, y: [ops.scatter(x, one_at(i, x), at(i), axis=0), x[::-1] * 1],
        lambda i, x, y: [updated(x, i, i), x[::-1]],
    ),
    Case(
        "scatter_nd", 1, lambda i, x: [ops.scatter_nd(x, one_at(i, x), ops.reshape(at(i), [1, 1]))],
        lambda i, x: [updated(x, i, i)],
    ),
    Case("a part", 1, lambda i, x: [cut(x)], lambda i, x: [np_cut(x)]),
    Case(
        "a shift", 1, lambda i, x: [ops.concat([x[1:], x[:1]]).rebind([N])],
        lambda i, x: [np.roll(x, -1)], EXCHANGED,
    ),
    Case(
        "a column", 1, lambda i, x: [x + ops.sum(ops.outer(x[:3], x * 0 + 1), axis=0).reshape([N])],
        lambda i, x: [x + x[:3].sum()],
    ),
    Case(
        "a loop inside", 1, lambda i, x: [twice(i, x)],
        lambda i, x: [((x * 2 + i) * 2 + i) * 2 + i],
    ),
    Case("a ring inside", 2, turned, np_turned, EXCHANGED),
    Case(
        "a ring in a ring", 2, lambda i, x, y: list(reversed(turned(i, x, y))),
        lambda i, x, y: np_turned(i, x, y)[::-1], EXCHANGED,
    ),
    Case(
        "a branch", 2,
        lambda i, x, y: branch(i % 2 == 0, [x.type] * 2, lambda: (y, x + 1), lambda: (x, y)),
        lambda i, x, y: (y, x + 1) if i % 2 == 0 else (x, y), EXCHANGED,
    ),
    Case(
        "narrower in between", 1, lambda i, x: [ops.cast(ops.cast(x * 3, DType.int8), x.dtype)],
        lambda i, x: [(x * 3).astype(np.int8).astype(np.float32)],
    ),
]  # fmt: skip


def build(case: Case, device: DeviceRef, hidden: bool = False) -> Graph:
    row = TensorType(DType.float32, [N], device)
    types = [TensorType(DType.int64, [], CPU), *[row] * case.rows]
    with Graph("g", input_types=types) as graph:
        turns, *rows = (value.tensor for value in graph.inputs)
        zero = ops.constant(0, DType.int64, CPU)

        def body(i: Any, *rows: Any) -> Any:
            here = i if device is CPU else ops.transfer_to(i, device)
            return [i + 1, *case.body(here, *rows)]

        found = loop((zero, *rows), lambda i, *rows: i < turns, body)
        graph.output(*([r[::-1] for r in found[1:]] if hidden else found[1:]), *rows)
    return graph


def inputs(case: Case) -> list[Any]:
    rng = np.random.default_rng(case.rows)
    return [rng.integers(-3, 9, N).astype(np.float32) for _ in range(case.rows)]


def expected(case: Case, turns: int, rows: list[Any]) -> list[Any]:
    now = list(rows)
    for i in range(turns):
        now = [np.asarray(x, np.float32) for x in case.wanted(i, *now)]
    return [*now, *rows]


def in_loops(model: Any) -> list[Any]:
    numbers = {n for steps in model.compiled.plan.loops for n in steps}
    return [step for step in model.compiled.plan.steps if step.number in numbers]


def close(found: list[Any], wanted: list[Any]) -> None:
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_loops_carry(case: Case) -> None:
    model = engine.InferenceSession(num_threads=2).load(build(case, CPU))
    steps = in_loops(model)
    assert {s.kind for s in steps} & {"exchange"} == case.kinds
    assert not any(s.builtin == "mx_k_copy" for s in steps), "only what is small is copied"
    assert not {s.kind for s in steps} & set(case.gone)
    for turns in (0, 1, 2, 3, 4, 7):
        rows = inputs(case)
        found = [y.to_numpy() for y in model(turns, *rows)]
        close(found, expected(case, turns, rows))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_loops_carry_inside_of_a_graph(case: Case) -> None:
    """The results are memory of the model, and every step is shared by threads."""
    model = engine.InferenceSession(num_threads=3).load(build(case, CPU, hidden=True))
    for turns in (1, 2, 5):
        rows = inputs(case)
        found = [y.to_numpy() for y in model(turns, *rows)]
        wanted = expected(case, turns, rows)
        close(found, [*(x[::-1] for x in wanted[: case.rows]), *rows])
        assert maxlab.compare(model, turns, *rows).ok


@pytest.fixture(scope="module")
def checked() -> Iterator[driver.Accelerator]:
    """A simulated accelerator that sees what threads read and write of each other."""
    with driver.simulated(1, check=True):
        yield driver.Accelerator(0)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_loops_carry_on_a_device(checked: driver.Accelerator, case: Case) -> None:
    model = engine.InferenceSession(devices=[checked]).load(build(case, GPU))
    for turns in (0, 1, 2, 3, 4):
        rows = inputs(case)
        placed = model.placed([np.array(turns), *rows])
        found = [y.to(driver.CPU()).to_numpy() for y in model(*placed)]
        close(found, expected(case, turns, rows))
    assert maxlab.compare(model, *placed).ok


def test_single_numbers_of_a_device_are_read_by_all_threads(checked: driver.Accelerator) -> None:
    """So none of them may write there: a counter and one of a row each are exchanged."""
    types = [TensorType(DType.int64, [], GPU), TensorType(DType.float32, [5, 1], GPU)]
    with Graph("numbers", input_types=types) as graph:
        count, x = (value.tensor for value in graph.inputs)
        zero = ops.constant(0, DType.int64, GPU)
        found = loop((zero, x), lambda i, x: i < count, lambda i, x: (i + 1, x * 2))
        graph.output(*found)
    model = engine.InferenceSession(devices=[checked]).load(graph)
    given = model.placed([np.array(5), np.ones((5, 1), np.float32)])
    turns, powers = (y.to(driver.CPU()).to_numpy() for y in model(*given))
    assert turns == 5
    np.testing.assert_array_equal(powers, np.full((5, 1), 32))


@pytest.mark.parametrize("case", [c for c in CASES if c.kinds], ids=str)
def test_a_pause_forgets_no_exchange(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "SLICE_NS", 0)
    model = engine.InferenceSession(num_threads=1).load(build(case, CPU))
    rows = inputs(case)
    close([y.to_numpy() for y in model(5, *rows)], expected(case, 5, rows))
    walk = Walk(model, [5, *rows])
    assert [step.kind for step in walk][-1] == "jump"
    close([y.to_numpy() for y in walk.outputs], expected(case, 5, rows))


def ring(device: DeviceRef = CPU) -> Graph:
    """A loop that exchanges two rows, and reads an element that may not be there."""
    row = TensorType(DType.float32, [N], device)
    number = TensorType(DType.int64, [], CPU)
    with Graph("ring", input_types=[number, number, row, row]) as graph:
        turns, start, x, y = (value.tensor for value in graph.inputs)

        def body(i: Any, at: Any, x: Any, y: Any) -> Any:
            place = at if device is CPU else ops.transfer_to(at, device)
            return i + 1, at + 1, y, x + ops.gather(y, place, axis=0)

        zero = ops.constant(0, DType.int64, CPU)
        found = loop((zero, start, x, y), lambda i, at, x, y: i < turns, body)
        graph.output(found[2], found[3] * 1)
    return graph


def np_ring(turns: int, at: int, x: Any, y: Any) -> Any:
    for i in range(turns):
        x, y = y, x + y[at + i]
    return x, y


@pytest.mark.parametrize("device", [CPU, GPU], ids=str)
def test_a_loop_that_fails_leaves_nothing_exchanged(
    gpu: driver.Accelerator, device: DeviceRef
) -> None:
    devices = [gpu] if device is GPU else []
    model = engine.InferenceSession(devices=devices).load(ring(device))
    assert "exchange" in {step.kind for step in model.compiled.plan.steps}
    rng = np.random.default_rng(0)
    for turns, at in [(3, 0), (9, N - 2), (4, 1), (9, N - 3), (5, 0)]:
        rows = [rng.integers(-3, 9, N).astype(np.float32) for _ in range(2)]
        given = model.placed([np.array(turns), np.array(at), *rows])
        if at > 5:
            with pytest.raises(ExecutionError, match="out of range"):
                model.run_to_the_end(*given)
            continue
        close([y.to(driver.CPU()).to_numpy() for y in model(*given)], np_ring(turns, at, *rows))


def test_threads_that_run_one_loop_exchange_their_own_memory() -> None:
    model = engine.InferenceSession(num_threads=1).load(ring())
    rng = np.random.default_rng(1)
    rows = [rng.integers(-3, 9, N).astype(np.float32) for _ in range(2)]
    wrong: list[int] = []

    def run(turns: int) -> None:
        for _ in range(50):
            found = [y.to_numpy() for y in model(turns, 0, *rows)]
            if not all(map(np.array_equal, found, np_ring(turns, 0, *rows))):
                wrong.append(turns)

    threads = [threading.Thread(target=run, args=(n,)) for n in (1, 2, 5, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_loop_of_a_stage_and_of_a_subgraph() -> None:
    """Pointer tables begin with other steps there than the loop is counted from."""
    row = TensorType(DType.float32, [N], CPU)
    with Graph("stages", input_types=[row, row]) as graph:
        a, b = (value.tensor for value in graph.inputs)

        def twisted(x: Any, y: Any) -> Any:
            zero = ops.constant(0, DType.int64, CPU)
            body: Any = lambda i, x, y: (i + 1, y, x[::-1] + y)  # noqa: E731
            return loop((zero, x, y), lambda i, x, y: i < 3, body)[1:]

        sub = graph.add_subgraph("twisted", twisted, [row, row])
        c, d = ops.call(sub, a, b)
        hits = ops.nonzero(c, "hits")
        e, f = ops.call(sub, d, c)
        graph.output(*twisted(e, f), hits)
    rows = inputs(CASES[1])
    found = [z.to_numpy() for z in engine.InferenceSession().load(graph)(*rows)]

    def np_twisted(x: Any, y: Any) -> Any:
        for _ in range(3):
            x, y = y, x[::-1] + y
        return x, y

    x, y = np_twisted(*rows)
    close(found, [*np_twisted(*np_twisted(y, x)), np.argwhere(x)])


def test_the_text_of_a_kernel_of_a_body_is_replaced() -> None:
    case = Case("thrice", 1, lambda i, x: [x * 3], lambda i, x: [x * 4])
    model = engine.InferenceSession().load(build(case, CPU))
    rows = inputs(case)
    (kernel,) = (k for k in model.kernels.values() if k.name == "mul")
    with pytest.raises(ArgumentError, match=r"replaced=\(\(kernel.symbol, text\),\)") as raised:
        kernel.edit(kernel.source, 2, *rows)
    assert raised.value.code == "ML759"
    text = kernel.source.replace("3.0f", "4.0f")
    assert text != kernel.source
    other = model.reload(options=Options(replaced=((kernel.symbol, text),)))
    close([y.to_numpy() for y in other(2, *rows)], expected(case, 2, rows))


def test_what_settling_moves_is_not_told() -> None:
    """That depends on the number of turns, so there is no rate."""
    model = engine.InferenceSession().load(ring())
    (step,) = (s for s in model.compiled.plan.steps if s.kind == "settle")
    assert step.nbytes.evaluate({}) == 0
    times = {k.id: k for k in model.profile(3, 0, *inputs(CASES[1]), runs=2).kernels}
    assert times[step.id].turns == 1


def test_what_a_scatter_in_place_moves_is_told() -> None:
    row = TensorType(DType.float32, ["n"], CPU)
    with Graph("told", input_types=[row]) as graph:
        (x,) = (value.tensor for value in graph.inputs)
        zero = ops.constant(0, DType.int64, CPU)
        _, y = loop(
            (zero, x),
            lambda i, y: i < 3,
            lambda i, y: (i + 1, ops.scatter(y, one_at(i, y), ops.reshape(i, [1]), axis=0)),
        )
        graph.output(y)
    model = engine.InferenceSession().load(graph)
    (step,) = (s for s in model.compiled.plan.steps if s.name == "scatter")
    assert step.nbytes.evaluate({"n": 1 << 20}) < 100
    np.testing.assert_array_equal(model(np.ones(5, np.float32))[0].to_numpy(), [0, 1, 2, 1, 1])


def test_updates_of_a_large_tensor_are_shared() -> None:
    """Many updates in place by several threads, the last of which counts for each place."""
    n = 50_000
    rng = np.random.default_rng(3)
    places = rng.integers(0, n, 2 * n)
    types = [TensorType(DType.float32, ["n"], CPU), TensorType(DType.int64, ["m"], CPU)]
    with Graph("many", input_types=types) as graph:
        x, at = (value.tensor for value in graph.inputs)
        zero = ops.constant(0, DType.int64, CPU)
        values = ops.cast(
            ops.range(0, at.shape[0], 1, dtype=DType.int64, device=CPU), DType.float32
        )
        found = loop(
            (zero, x),
            lambda i, y: i < 2,
            lambda i, y: (i + 1, ops.scatter(y + 1, values, at, axis=0)),
        )
        one = loop(
            (zero, x), lambda i, y: i < 2, lambda i, y: (i + 1, ops.scatter(y, values, at, axis=0))
        )
        graph.output(found[1], one[1])
    given = rng.random(n, np.float32)
    model = engine.InferenceSession(num_threads=3).load(graph)
    made = [y.to_numpy() for y in model(given, places)]
    first, second = given + 2, np.array(given)
    first[places] = second[places] = np.arange(2 * n)
    close(made, [first, second])
