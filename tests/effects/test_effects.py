"""Buffers and prints, in order, on the CPU and on the simulated GPU."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from maxlab import driver
from maxlab.compiler import Options
from maxlab.dtype import DType
from maxlab.engine.stepping import Walk
from maxlab.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    ExecutionError,
    InputError,
    ShapeError,
)
from maxlab.graph import DeviceRef, Graph, TensorType, ops
from maxlab.lab.snapshot import take
from tests.cpu_and_gpu import at, buffer, numpy, session

Array = np.ndarray[Any, Any]
CPU = DeviceRef.CPU()


def load(graph: Graph, place: DeviceRef, **options: Any) -> Any:
    return session(place).load(graph, **options)


def tensor(place: DeviceRef, *shape: Any, dtype: DType = DType.float32) -> TensorType:
    return TensorType(dtype, shape, place)


def floats(*shape: int) -> Array:
    return np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape)


# ---------------------------------------------------------------- order
@pytest.mark.parametrize("fuse", [True, False])
def test_loads_and_stores_keep_their_order(place: DeviceRef, fuse: bool) -> None:
    with Graph("order", input_types=[buffer(place, "n", 4), tensor(place, 4)]) as graph:
        b, x = graph.inputs[0].buffer, graph.inputs[1].tensor
        first = ops.buffer_load(b)
        ops.buffer_store(b, first * 2)
        second = ops.buffer_load(b)
        ops.buffer_store_slice(b, x + 1, [0])
        third = ops.buffer_load(b)
        ops.buffer_store(b, first)
        graph.output(first + 0.5, second + first, third * 1.0)
    model = load(graph, place, options=Options(fuse=fuse))
    for n in (3, 1):
        start, row = floats(n, 4), floats(4) * 10
        given = at(start, place)
        made = [numpy(y) for y in model(given, at(row, place))]
        stored = start * 2
        stored[0] = row + 1
        np.testing.assert_array_equal(made[0], start + 0.5)
        np.testing.assert_array_equal(made[1], start * 3)
        np.testing.assert_array_equal(made[2], stored)
        np.testing.assert_array_equal(numpy(given), start)


def test_equal_loads_and_stores_are_not_merged(place: DeviceRef) -> None:
    with Graph("twice", input_types=[buffer(place, 5)]) as graph:
        b = graph.inputs[0].buffer
        for _ in range(3):
            b[...] = b[...] + 1
        before = b[...]
        b[1] = 0
        after = b[...]
        b[1] = 0
        graph.output(before - after)
    given = at(floats(5), place)
    (y,) = load(graph, place)(given)
    np.testing.assert_array_equal(numpy(y), [0, 5, 0, 0, 0])
    np.testing.assert_array_equal(numpy(given), [4, 0, 6, 7, 8])


def test_constants_are_not_folded_into_buffers(place: DeviceRef) -> None:
    with Graph("created") as graph:
        b: Any = ops.buffer_create(buffer(place, 2, 3))
        zero: Any = b[...]
        b[...] = ops.constant(floats(2, 3), DType.float32, place)
        full: Any = b[...]
        b[1, 1:] = -1
        graph.output(zero, full, b, b)
    model = load(graph, place)
    for _ in range(2):  # each run begins with zeros
        zero, full, last, again = model()
        expected = floats(2, 3)
        np.testing.assert_array_equal(numpy(zero), np.zeros((2, 3)))
        np.testing.assert_array_equal(numpy(full), expected)
        expected[1, 1:] = -1
        np.testing.assert_array_equal(numpy(last), expected)
        assert again is last


def test_two_buffers_exchange_what_they_hold(place: DeviceRef) -> None:
    types = [buffer(place, "n"), buffer(place, "n")]
    with Graph("swap", input_types=types) as graph:
        a, b = (x.buffer for x in graph.inputs)
        old = a[...]
        a[...] = b[...]
        b[...] = old
        graph.output()
    one, other = at(floats(7), place), at(-floats(7), place)
    assert load(graph, place)(one, other) == []
    np.testing.assert_array_equal(numpy(one), -floats(7))
    np.testing.assert_array_equal(numpy(other), floats(7))


def test_a_long_chain_of_effects_and_products(place: DeviceRef) -> None:
    with Graph("chain", input_types=[buffer(place, 8, 8), tensor(place, 8, 8)]) as graph:
        b = graph.inputs[0].buffer
        w: Any = graph.inputs[1].tensor
        total = None
        for n in range(3):
            x = b[...]
            y: Any = ops.softmax(x @ w)
            b[n] = y[n] + ops.sum(x, 0)[0]
            total = y if total is None else total + y
        assert total is not None
        graph.output(total)
    start, w = floats(8, 8) / 64, floats(8, 8)[::-1].copy() / 50
    given = at(start, place)
    (made,) = load(graph, place)(given, at(w, place))
    expected: Any = 0
    for n in range(3):
        logits = start @ w
        y = np.exp(logits - logits.max(-1, keepdims=True))
        y /= y.sum(-1, keepdims=True)
        expected = expected + y
        start = start.copy()
        start[n] = y[n] + start.sum(0)
    np.testing.assert_allclose(numpy(made), expected, rtol=1e-5)
    np.testing.assert_allclose(numpy(given), start, rtol=1e-5)


# ---------------------------------------------------------------- slices
SLICES: list[Any] = [
    (0,),
    (-1, 2),
    (slice(1, 3),),
    (slice(None, None, 2), slice(None, None, -1)),
    (Ellipsis, slice(1, 4)),
    (slice(None), 1, slice(4, 0, -3)),
    (2, Ellipsis, -2),
    (slice(2, 2),),
    (),
]


@pytest.mark.parametrize("index", SLICES, ids=str)
@pytest.mark.parametrize("sizes", [(4, 3, 5), ("a", "b", "c")], ids=["static", "symbolic"])
def test_slices_store_where_numpy_does(place: DeviceRef, index: Any, sizes: Any) -> None:
    start = floats(4, 3, 5)
    part = start[index].shape
    with Graph("slices", input_types=[buffer(place, *sizes)]) as graph:
        b = graph.inputs[0].buffer
        x = b[index]
        b[index] = x * -1
        graph.output(x)
    given = at(start, place)
    (made,) = load(graph, place)(given)
    np.testing.assert_array_equal(numpy(made), start[index])
    assert numpy(made).shape == part
    start[index] *= -1
    np.testing.assert_array_equal(numpy(given), start)


def test_computed_places(place: DeviceRef) -> None:
    scalar = tensor(place, dtype=DType.int64)
    types = [buffer(place, "n", "m"), tensor(place, "k", 2), scalar, scalar, scalar]
    with Graph("computed", input_types=types) as graph:
        b = graph.inputs[0].buffer
        x, r, p, q = (v.tensor for v in graph.inputs[1:])
        b[p:q, :2] = x
        b[r] = 7
        b[r, ops.cast(p, DType.int32)] = 8
        graph.output()
    model = load(graph, place)

    def run(n: int, k: int, row: int, first: int, last: int) -> Array:
        given = at(floats(n, 3), place)
        numbers = [at(np.array(v), place) for v in (row, first, last)]
        model(given, at(-floats(k, 2), place), *numbers)
        return numpy(given)

    for n, k, row, first, last in ((6, 3, 0, 2, 5), (4, 1, -1, -3, 2), (5, 5, 2, 0, 5)):
        wanted = floats(n, 3)
        wanted[first:last, :2] = -floats(k, 2)
        wanted[row] = 7
        wanted[row, first] = 8
        np.testing.assert_array_equal(run(n, k, row, first, last), wanted)
    with pytest.raises(ExecutionError, match="3 elements.*source has 2.*ML779"):
        run(6, 2, 0, 2, 5)
    with pytest.raises(ExecutionError, match="index 7 is out of range"):
        run(6, 3, 0, 4, 7)
    with pytest.raises(ExecutionError, match="index 6 is out of range"):
        run(6, 3, 6, 2, 5)


def test_computed_slices_step_and_go_backwards(place: DeviceRef) -> None:
    types = [buffer(place, "n"), tensor(place, "k"), tensor(place, dtype=DType.int64)]
    with Graph("steps", input_types=types) as graph:
        b, x, first = graph.inputs[0].buffer, graph.inputs[1].tensor, graph.inputs[2].tensor
        b[first::-2] = x
        graph.output()
    model = load(graph, place)
    for p, k in ((4, 3), (5, 3), (-1, 5), (0, 1)):
        given, wanted = at(floats(9), place), floats(9)
        wanted[p::-2] = -floats(k)
        model(given, at(-floats(k), place), at(np.array(p), place))
        np.testing.assert_array_equal(numpy(given), wanted)


def test_a_read_of_a_slice_moves_the_slice(place: DeviceRef) -> None:
    with Graph("read", input_types=[buffer(place, "n", 4096)]) as graph:
        b = graph.inputs[0].buffer
        graph.output(b[0, :4], b[-1, 1:3] + 1)
    whole = [
        value
        for op in graph.function.ops
        for value in op.results
        if isinstance(value.type, TensorType)
        if value.type.shape.num_elements not in (1, 2, 4)
    ]
    assert whole == []
    start = np.arange(3 * 4096, dtype=np.float32).reshape(3, 4096)
    model = load(graph, place)
    loads = [step for step in model.plan.steps if step.kind == "kernel"]
    assert sorted(step.nbytes.evaluate({"n": 3}) for step in loads) == [2 * 2 * 4, 2 * 4 * 4]
    first, last = model(at(start, place))
    np.testing.assert_array_equal(numpy(first), start[0, :4])
    np.testing.assert_array_equal(numpy(last), start[-1, 1:3] + 1)


def test_reads_of_computed_places(place: DeviceRef) -> None:
    scalar = tensor(place, dtype=DType.int64)
    with Graph("reads", input_types=[buffer(place, "n", 3), scalar, scalar]) as graph:
        b = graph.inputs[0].buffer
        p, q = (v.tensor for v in graph.inputs[1:])
        graph.output(
            b[p, 1:],
            b[p, None, ops.cast(q, DType.int32)],
            b[(slice(p, q), "part"), ::-1],
            b[(slice(q, p, -2), "less"), 0],
        )
    model = load(graph, place)

    def run(n: int, first: int, last: int) -> list[Array]:
        numbers = [at(np.array(v), place) for v in (first, last)]
        return [numpy(y) for y in model(at(floats(n, 3), place), *numbers)]

    for n, first, last in ((6, 0, 2), (4, 1, 1), (5, -4, 2), (3, 2, 1)):
        x = floats(n, 3)
        wanted = [x[first, 1:], x[first, None, last], x[first:last, ::-1], x[last:first:-2, 0]]
        for got, want in zip(run(n, first, last), wanted, strict=True):
            np.testing.assert_array_equal(got, want)
    with pytest.raises(ExecutionError, match="index 6 is out of range"):
        run(6, 6, 2)


KINDS = ["bool", "int8", "uint16", "int32", "uint64", "float16", "bfloat16", "float32", "float64"]


@pytest.mark.parametrize("kind", [*KINDS, "float8_e4m3fn"])
def test_every_dtype(place: DeviceRef, kind: str) -> None:
    dtype = getattr(DType, kind)
    with Graph(kind, input_types=[buffer(place, "n", dtype=dtype)]) as graph:
        b = graph.inputs[0].buffer
        b[1:] = b[:-1]
        graph.output(b)
    start = np.array([3, 0, 1, 1, 0, 2]).astype(dtype.ml_numpy)
    is_float8 = kind == "float8_e4m3fn"
    given = at(start, place) if not is_float8 else _bytes(start, dtype, place)
    (made,) = load(graph, place)(given)
    assert made is given
    start[1:] = start[:-1].copy()
    found = numpy(given.view(DType.uint8)) if is_float8 else numpy(given)
    np.testing.assert_array_equal(found, start.view(np.uint8) if is_float8 else start)


def _bytes(array: Array, dtype: DType, place: DeviceRef) -> driver.Tensor:
    return at(array.view(np.uint8), place).view(dtype)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1, 1)], ids=str)
def test_small_shapes(place: DeviceRef, shape: tuple[int, ...]) -> None:
    with Graph("small", input_types=[buffer(place, *shape)]) as graph:
        b = graph.inputs[0].buffer
        x = b[...]
        b[...] = x + 1
        b[()] = b[()] * 2
        graph.output(x)
    start = np.ones(shape, np.float32)
    given = at(start, place)
    (made,) = load(graph, place)(given)
    np.testing.assert_array_equal(numpy(made), start)
    np.testing.assert_array_equal(numpy(given), start * 4)


# ---------------------------------------------------------------- memory of the caller
def test_numpy_arrays_are_changed_in_place() -> None:
    with Graph("double", input_types=[buffer(CPU, "n")]) as graph:
        b = graph.inputs[0].buffer
        b[...] = b[...] * 2
        graph.output(b, b[...] + 1)
    model = load(graph, CPU)
    array = floats(5)
    alias, more = model(array)
    np.testing.assert_array_equal(array, floats(5) * 2)
    np.testing.assert_array_equal(more.to_numpy(), floats(5) * 2 + 1)
    assert np.shares_memory(alias.to_numpy(), array)
    model(alias)
    np.testing.assert_array_equal(array, floats(5) * 4)


def _unaligned() -> Array:
    return np.zeros(21, np.uint8)[1:].view(np.float32)


def _read_only() -> Array:
    array = floats(5)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("make", "match"),
    [(_read_only, "read-only.*ML780"), (_unaligned, "copy.*ML780"),
     (lambda: floats(10)[::2], "ML606")],
)  # fmt: skip
def test_memory_that_cannot_be_changed(make: Callable[[], Array], match: str) -> None:
    with Graph("store", input_types=[buffer(CPU, "n")]) as graph:
        graph.inputs[0].buffer[0] = 1
        graph.output()
    with pytest.raises(InputError, match=match):
        load(graph, CPU)(make())


def test_read_only_memory_may_be_loaded() -> None:
    with Graph("load", input_types=[buffer(CPU, "n")]) as graph:
        graph.output(graph.inputs[0].buffer[...] + 1)
    (made,) = load(graph, CPU)(_read_only())
    np.testing.assert_array_equal(made.to_numpy(), floats(5) + 1)


def test_numbers_and_shared_memory_are_refused() -> None:
    with Graph("one", input_types=[buffer(CPU)]) as graph:
        graph.inputs[0].buffer[...] = 1
        graph.output()
    with pytest.raises(InputError, match="ML780"):
        load(graph, CPU)(3.0)
    with Graph("both", input_types=[buffer(CPU, 4), tensor(CPU, 4)]) as graph:
        graph.inputs[0].buffer[...] = graph.inputs[1].tensor + 1
        graph.output()
    array = floats(8)
    model = load(graph, CPU)
    with pytest.raises(InputError, match="ML781"):
        model(array[1:5], array[2:6])
    model(array[:4], array[4:])
    np.testing.assert_array_equal(array[:4], floats(8)[4:] + 1)


def test_a_size_that_only_a_run_tells() -> None:
    with Graph("late", input_types=[buffer(CPU, "n"), tensor(CPU, "n")]) as graph:
        b, x = graph.inputs[0].buffer, graph.inputs[1].tensor
        before = b[...]
        hits = ops.nonzero(x, "hits")
        b[0 : hits.shape[0]] = ops.cast(ops.squeeze(hits, 1), DType.float32)
        after = b[...]
        b[...] = before
        graph.output(after, b)
    array = -floats(5)
    after, alias = load(graph, CPU)(array, np.array([0, 1, 0, 2, 3], np.float32))
    np.testing.assert_array_equal(after.to_numpy(), [1, 3, 4, -4, -5])
    np.testing.assert_array_equal(array, -floats(5))
    assert np.shares_memory(alias.to_numpy(), array)


def test_threads_have_buffers_of_their_own() -> None:
    with Graph("many", input_types=[buffer(CPU, "n"), tensor(CPU)]) as graph:
        b, x = graph.inputs[0].buffer, graph.inputs[1].tensor
        scratch = ops.buffer_create(buffer(CPU, 1000))
        scratch[...] = scratch[...] + ops.broadcast_to(x, [1000])
        b[...] = b[...] + ops.broadcast_to(ops.sum(scratch[...]), [b.shape[0]])
        graph.output()
    model = load(graph, CPU)
    arrays = [np.zeros(4, np.float32) for _ in range(4)]

    def work(n: int) -> None:
        for _ in range(50):
            model(arrays[n], np.float32(n))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for n, array in enumerate(arrays):
        np.testing.assert_array_equal(array, np.full(4, n * 50_000, np.float32))


# ---------------------------------------------------------------- prints
def test_prints_come_in_order(place: DeviceRef, capsys: pytest.CaptureFixture[str]) -> None:
    with Graph("prints", input_types=[buffer(place, "n")]) as graph:
        b = graph.inputs[0].buffer
        ops.print("begin")
        b.print()
        x = b[...] * 2
        x.print("x")
        b[1:] = x[1:]
        b.print("b")
        ops.print(x, "x")
        ops.print("begin")
        ops.print("text", label="label")
        graph.output()
    model = load(graph, place)
    for n in (3, 2):
        model(at(floats(n), place))
        two = ", ".join(f"{2 * (i + 1)}." for i in range(n))
        one = ", ".join(f"{i + 1}." for i in range(n))
        both = ", ".join(f"{(2 if i else 1) * (i + 1)}." for i in range(n))
        end = f"dtype=float32, shape=[{n}])"
        assert capsys.readouterr().out.splitlines() == [
            "begin",
            f"debug_buffer = tensor([{one}], {end}",
            f"x = tensor([{two}], {end}",
            f"b = tensor([{both}], {end}",
            f"x = tensor([{two}], {end}",
            "begin",
            "label: text",
        ]


def test_a_step_at_a_time_runs_effects_once(
    place: DeviceRef, capsys: pytest.CaptureFixture[str]
) -> None:
    with Graph("walk", input_types=[buffer(place, 3)]) as graph:
        b = graph.inputs[0].buffer
        b[...] = b[...] + 1
        b.print("b")
        graph.output(b)
    model = load(graph, place)
    given = at(floats(3), place)
    walk = Walk(model, [given])
    for _ in walk:
        pass
    np.testing.assert_array_equal(numpy(given), floats(3) + 1)
    assert walk.outputs[0] is walk.inputs[0]
    assert capsys.readouterr().out.count("\n") == 1


# ---------------------------------------------------------------- calls
def test_calls_keep_the_order(place: DeviceRef, capsys: pytest.CaptureFixture[str]) -> None:
    type = buffer(place, 3)
    with Graph("main", input_types=[type]) as graph:
        b = graph.inputs[0].buffer

        def body(x: Any) -> Any:
            ops.print("in")
            x.buffer[...] = x.buffer[...] * 2
            return x.buffer[...]

        twice = graph.add_subgraph("twice", body, [type])
        ops.print("before")
        (x,) = ops.call(twice, b)
        b[0] = 0
        ops.print("between")
        (y,) = ops.call(twice, b)
        ops.print("after")
        graph.output(x, y)
    given = at(floats(3), place)
    x, y = load(graph, place)(given)
    np.testing.assert_array_equal(numpy(x), [2, 4, 6])
    np.testing.assert_array_equal(numpy(y), [0, 8, 12])
    np.testing.assert_array_equal(numpy(given), [0, 8, 12])
    assert capsys.readouterr().out.split() == ["before", "in", "between", "in", "after"]


# ---------------------------------------------------------------- the graph
def test_chains_are_values(tmp_path: Any) -> None:
    with Graph("chains", input_types=[buffer(CPU, 2)]) as graph:
        assert graph.always_ready_chain.to_mlir() is graph.always_ready_chain.to_mlir()
        first = graph.device_chains[CPU].to_mlir()
        assert graph.device_chains[CPU].to_mlir() is first
        ops.buffer_load(graph.inputs[0].buffer)
        second = graph.device_chains[CPU].to_mlir()
        assert second is not first
        assert str(second.type) == "!mo.chain"
        with pytest.raises(ShapeError):
            ops.buffer_store(graph.inputs[0].buffer, ops.buffer_load(graph.inputs[0].buffer)[:1])
        graph.inputs[0].buffer[0] = 1
        graph.output(graph.inputs[0])
        assert list(graph.device_chains) == [CPU]
    graph.save(tmp_path / "g.mlir")
    again = Graph(path=tmp_path / "g.mlir")
    assert str(again) == str(graph)
    assert [c.to_mlir().id for c in again.device_chains.values()] == [
        c.to_mlir().id for c in graph.device_chains.values()
    ]
    given = floats(2)
    load(again, CPU)(given)
    np.testing.assert_array_equal(given, [1, 2])


def _any(x: Any) -> Any:
    return x


def _fails(kind: type[Exception], code: str, build: Callable[[Any, Any], Any]) -> None:
    with Graph("wrong", input_types=[buffer(CPU, "n", 4), tensor(CPU, "n", 4)]) as graph:
        b, x = graph.inputs[0].buffer, graph.inputs[1].tensor
        with pytest.raises(kind, match=code) as found:
            build(b, x)
        assert not {"mo.buffer.", "mo.chain(", "mo.print"} & set(
            re.findall(r"mo\.\w+\W", str(graph))
        )
        error: Any = found.value
        assert error.at is not None
        assert __file__.endswith(error.at.file)


def test_wrong_use_is_refused_where_it_is_written() -> None:
    _fails(ArgumentTypeError, "ML776", lambda b, x: ops.buffer_load(x))
    _fails(ArgumentTypeError, "ML776", lambda b, x: ops.buffer_store(x, x))
    _fails(ArgumentTypeError, "ML776", lambda b, x: ops.buffer_store_slice(x, x, [0]))
    _fails(ArgumentTypeError, "ML776", lambda b, x: ops.buffer_create(x.type))
    _fails(ArgumentTypeError, "ML317", lambda b, x: ops.buffer_store(b, b))
    _fails(ArgumentTypeError, "ML317", lambda b, x: ops.add(x, b))
    _fails(DTypeError, "ML110", lambda b, x: ops.buffer_store(b, ops.cast(x, DType.float64)))
    _fails(DTypeError, "ML110", lambda b, x: b.__setitem__(0, ops.cast(x[0], DType.int32)))
    _fails(ShapeError, "ML777", lambda b, x: ops.buffer_store(b, x[0]))
    _fails(ShapeError, "ML777", lambda b, x: b.__setitem__(0, x))
    _fails(ShapeError, "ML777", lambda b, x: b.__setitem__(slice(1, None), x))
    _fails(ShapeError, "ML215", lambda b, x: b.__setitem__((0, 4), 1))
    _fails(ShapeError, "ML216", lambda b, x: b.__setitem__((0, 1, 2), 1))
    _fails(ArgumentTypeError, "ML344", lambda b, x: b.__setitem__((0, None), 1))
    _fails(ArgumentTypeError, "ML783", lambda b, x: ops.print(b))
    _fails(ArgumentTypeError, "ML783", lambda b, x: ops.print(_any(3)))
    _fails(ArgumentTypeError, "ML783", lambda b, x: ops.print(x, _any(3)))
    _fails(ArgumentError, "ML304", lambda b, x: ops.buffer_store(b, x.to(DeviceRef.GPU())))


def test_bounds_of_symbolic_sizes_are_tested_by_the_call() -> None:
    with Graph("bounds", input_types=[buffer(CPU, "n")]) as graph:
        graph.inputs[0].buffer[2] = 1
        graph.output()
    model = load(graph, CPU)
    model(floats(3))
    with pytest.raises(InputError, match="written out of its bounds.*ML603"):
        model(floats(2))


# ---------------------------------------------------------------- looking at them
def test_views_profiles_and_comparisons_work(place: DeviceRef) -> None:
    import maxlab

    with Graph("look", input_types=[buffer(place, "n", 4), tensor(place, "n", 4)]) as graph:
        b, x = graph.inputs[0].buffer, graph.inputs[1].tensor
        scratch = ops.buffer_create(buffer(place, 4))
        scratch[1:] = ops.sum(b[...], 0)[0, 1:]
        b[...] = ops.softmax(x + b[...])
        b[0, 1:3] = scratch[1:3] * 2
        ops.print("looked")
        graph.output(b, x * 2, scratch)
    model = load(graph, place)
    inputs = [at(floats(3, 4), place), at(floats(3, 4), place)]
    found = maxlab.compare(model, *inputs)
    assert found.ok, str(found)
    model.profile(*inputs, runs=2, warmup=1)
    assert model.last_profile is not None
    str(model.last_profile)
    for kernel in model.kernels.values():
        str(kernel), repr(kernel)
    take(graph, sources=True)
    take(model, sources=True)


def test_a_comparison_finds_a_wrong_load() -> None:
    import maxlab

    with Graph("bad", input_types=[buffer(CPU, 4)]) as graph:
        b = graph.inputs[0].buffer
        b[1:3] = 5
        graph.output(b)
    plain = load(graph, CPU)
    kernel = next(k for k in plain.kernels.values() if "store" in k.name)
    wrong = kernel.source.replace("x1[i];", "x1[i] + 1;")
    assert wrong != kernel.source
    model = plain.reload(options=Options(replaced=((kernel.symbol, wrong),)))
    assert maxlab.compare(plain, floats(4)).ok
    assert not maxlab.compare(model, floats(4)).ok
