"""``cond`` and ``while_loop`` on the CPU: what they compute, what runs, and what they refuse."""

from __future__ import annotations

import _thread
import signal
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maxlab import driver, engine
from maxlab.dtype import DType
from maxlab.errors import (
    ArgumentError,
    ArgumentTypeError,
    GraphError,
    InputError,
    ResultsError,
    UnsupportedError,
)
from maxlab.graph import BufferType, DeviceRef, Graph, TensorType, TensorValue, Weight, ops

CPU = DeviceRef.CPU()
ROW = TensorType(DType.float32, ["n"], CPU)
FLAG = TensorType(DType.bool, [], CPU)
INT = TensorType(DType.int64, [], CPU)


def integer(value: int) -> Any:
    return ops.constant(value, DType.int64, CPU)


loop: Any = ops.while_loop
branch: Any = ops.cond


def tensors(graph: Graph) -> list[Any]:
    return [v.tensor for v in graph.inputs if isinstance(v, TensorValue)]


def run(graph: Graph, *args: Any, **kwargs: Any) -> list[np.ndarray[Any, Any]]:
    model = engine.InferenceSession().load(graph, **kwargs)
    return [y.to_numpy() for y in model(*args)]


# ---------------------------------------------------------------- what they compute
@pytest.mark.parametrize("flag", [True, False])
def test_one_branch_gives_the_results(flag: bool) -> None:
    with Graph("g", input_types=[ROW, FLAG]) as graph:
        x, pred = tensors(graph)
        a, b = branch(pred, [ROW, ROW], lambda: (x + 1, x * x), lambda: (x * x, x + 1))
        graph.output(a, b, a - b)
    x = np.arange(5, dtype=np.float32)
    a, b, d = run(graph, x, flag)
    first, second = (x + 1, x * x) if flag else (x * x, x + 1)
    np.testing.assert_array_equal(a, first)
    np.testing.assert_array_equal(b, second)
    np.testing.assert_array_equal(d, first - second)


@pytest.mark.parametrize("turns", [0, 1, 2, 1000])
def test_a_loop_turns_as_often_as_its_input_says(turns: int) -> None:
    with Graph("g", input_types=[INT, ROW]) as graph:
        count, x = tensors(graph)
        i, y = loop((integer(0), x), lambda i, y: i < count, lambda i, y: (i + 1, y * 0.5 + x))
        graph.output(i, y, x)
    x = np.array([1, -2, 3], np.float32)
    i, y, same = run(graph, turns, x)
    wanted = x
    for _ in range(turns):
        wanted = wanted * np.float32(0.5) + x
    assert i == turns
    np.testing.assert_array_equal(y, wanted)
    np.testing.assert_array_equal(same, x)


def test_values_change_places() -> None:
    with Graph("fibonacci", input_types=[INT]) as graph:
        zero = integer(0)
        results = loop(
            (zero, zero, integer(1)),
            lambda i, a, b: i < graph.inputs[0].tensor,
            lambda i, a, b: (i + 1, b, a + b),
        )
        graph.output(results[1], zero)
    assert [x.item() for x in run(graph, 50)] == [12586269025, 0]


def test_a_loop_carries_what_a_kernel_of_one_operand_makes() -> None:
    with Graph("sums", input_types=[ROW]) as graph:
        (x,) = tensors(graph)
        y = loop((integer(0), x), lambda i, y: i < 3, lambda i, y: (i + 1, ops.cumsum(y, 0)))[1]
        graph.output(y)
    assert run(graph, np.ones(4, np.float32))[0].tolist() == [1, 4, 10, 20]


def test_two_loops_may_begin_with_one_value() -> None:
    with Graph("g", input_types=[INT]) as graph:
        (x,) = tensors(graph)
        a = loop(x, lambda v: v < 10, lambda v: v + 1)[0]
        b, c = loop((x, x), lambda v, w: v < 100, lambda v, w: (v + 2, w + 1))
        graph.output(a, b, c, x)
    assert [v.item() for v in run(graph, 0)] == [10, 100, 50, 0]


def test_loops_and_branches_stand_in_each_other() -> None:
    with Graph("primes", input_types=[INT]) as graph:
        limit = tensors(graph)[0]

        def body(n: Any, found: Any) -> Any:
            d = loop(integer(2), lambda d: ops.logical_and(d * d <= n, n % d != 0),
                               lambda d: d + 1)[0]  # fmt: skip
            more = branch(d * d > n, [INT], lambda: found + 1, lambda: found)[0]
            return n + 1, more

        n, found = loop((integer(2), integer(0)), lambda n, f: n < limit, body)
        graph.output(found, n)
    assert [v.item() for v in run(graph, 1000)] == [168, 1000]


def test_matrices_and_weights_in_a_loop() -> None:
    rng = np.random.default_rng(0)
    w = (rng.standard_normal((16, 16)) / 4).astype(np.float32)
    x = rng.standard_normal((4, 16)).astype(np.float32)
    with Graph("rnn", input_types=[TensorType(DType.float32, ["b", 16], CPU), INT]) as graph:
        h, count = tensors(graph)
        weight = Weight("w", DType.float32, [16, 16], CPU)
        _, y = loop(
            (integer(0), h), lambda i, h: i < count, lambda i, h: (i + 1, ops.tanh(h @ weight))
        )
        graph.output(y)
    (y,) = run(graph, x, 7, weights_registry={"w": w})
    wanted = x.astype(np.float64)
    for _ in range(7):
        wanted = np.tanh(wanted @ w)
    np.testing.assert_allclose(y, wanted, rtol=2e-5, atol=2e-6)
    model = engine.InferenceSession().load(graph, weights_registry={"w": w})
    packs = [s for s in model.plan.steps if s.kind == "pack"]
    assert not packs, "the weight of a body is packed when the model is loaded"


def test_large_values_are_shared_by_threads() -> None:
    type = TensorType(DType.float32, ["n", "n"], CPU)
    with Graph("power", input_types=[type, INT]) as graph:
        x, count = tensors(graph)
        _, y = loop((integer(0), x), lambda i, y: i < count, lambda i, y: (i + 1, y @ x * 0.5))
        graph.output(y)
    x = np.random.default_rng(1).standard_normal((200, 200)).astype(np.float32) / 8
    session = engine.InferenceSession(num_threads=2)
    y = session.load(graph)(x, 5)[0].to_numpy()
    wanted = x.astype(np.float64)
    for _ in range(5):
        wanted = wanted @ x * 0.5
    np.testing.assert_allclose(y, wanted, rtol=1e-3, atol=1e-5)


def test_an_empty_tensor_is_carried() -> None:
    with Graph("g", input_types=[ROW]) as graph:
        x = tensors(graph)[0]
        i, y = loop((integer(0), x), lambda i, y: i < 3, lambda i, y: (i + 1, y + 1))
        graph.output(i, y)
    i, y = run(graph, np.zeros(0, np.float32))
    assert i == 3
    assert y.shape == (0,)


@pytest.mark.parametrize("size", [3, 5])
def test_a_branch_may_name_sizes_of_its_own(size: int) -> None:
    """The two branches name the same dim differently, and neither name is seen outside."""
    with Graph("g", input_types=[ROW, FLAG]) as graph:
        x, pred = tensors(graph)

        def halves() -> Any:
            y = ops.concat([x, x]).rebind(["q"])
            return ops.sum(y.reshape(["q"]), axis=0)

        def whole() -> Any:
            return ops.sum(x.rebind(["q"]), axis=0)

        one = TensorType(DType.float32, [1], CPU)
        graph.output(*branch(pred, [one], halves, whole))
    x = np.arange(size, dtype=np.float32)
    assert run(graph, x, True)[0] == x.sum() * 2
    assert run(graph, x, False)[0] == x.sum()


def test_a_name_of_a_branch_is_none_outside() -> None:
    with Graph("g", input_types=[ROW, FLAG]) as graph:
        x, pred = tensors(graph)
        q = TensorType(DType.float32, ["q"], CPU)
        graph.output(*branch(pred, [q], lambda: x.rebind(["q"]), lambda: x.rebind(["q"])))
    with pytest.raises(InputError, match="'q' of cond has no size"):
        engine.InferenceSession().load(graph)


def test_sizes_are_tested_in_the_branch_that_runs() -> None:
    with Graph("g", input_types=[ROW, FLAG]) as graph:
        x, pred = tensors(graph)
        four = TensorType(DType.float32, [4], CPU)
        graph.output(*branch(pred, [four], lambda: x[:4], lambda: ops.broadcast_to(x[0], [4])))
    model = engine.InferenceSession().load(graph)
    short, long = np.arange(2, dtype=np.float32), np.arange(6, dtype=np.float32)
    np.testing.assert_array_equal(model(long, True)[0].to_numpy(), long[:4])
    np.testing.assert_array_equal(model(short, False)[0].to_numpy(), np.zeros(4))
    for _ in range(2):
        with pytest.raises(InputError, match="does not hold") as caught:
            model(short, True)
        assert caught.value.code == "ML603"
        assert caught.value.at is not None
    np.testing.assert_array_equal(model(long, True)[0].to_numpy(), long[:4])


def test_a_size_that_is_computed_before_is_used_in_a_body() -> None:
    with Graph("g", input_types=[ROW]) as graph:
        x = tensors(graph)[0]
        hits = ops.nonzero(x, "hits")
        total, _ = loop(
            (ops.cast(hits, DType.float32), integer(0)),
            lambda t, i: i < 3,
            lambda t, i: (t * 2, i + 1),
        )
        graph.output(total)
    (y,) = run(graph, np.array([0, 5, 0, 7], np.float32))
    np.testing.assert_array_equal(y, [[8], [24]])


@pytest.mark.parametrize("dtype", [DType.bfloat16, DType.float16, DType.int8, DType.bool])
def test_small_dtypes_are_carried(dtype: DType) -> None:
    with Graph("g", input_types=[TensorType(dtype, ["n"], CPU)]) as graph:
        x = tensors(graph)[0]

        def body(i: Any, y: Any) -> Any:
            return i + 1, ops.logical_not(y) if dtype is DType.bool else y + y

        _, y = loop((integer(0), x), lambda i, y: i < 3, body)
        graph.output(y)
    x = np.array([1, 0, 1, 1, 0], dtype.ml_numpy)
    given = driver.Tensor.from_numpy(x.view(np.uint8)).view(dtype)
    y = engine.InferenceSession().load(graph)(given)[0]
    got = y.view(DType.uint8).to_numpy().view(dtype.ml_numpy)
    wanted = ~x if dtype is DType.bool else x * np.array(8, dtype.ml_numpy)
    np.testing.assert_array_equal(got, wanted)


# ---------------------------------------------------------------- effects
def test_only_the_branch_that_runs_stores(capsys: pytest.CaptureFixture[str]) -> None:
    with Graph("g", input_types=[FLAG, BufferType(DType.int32, [2], CPU)]) as graph:
        pred, cell = graph.inputs[0].tensor, graph.inputs[1].buffer

        def up() -> None:
            ops.print("up")
            ops.buffer_store(cell, ops.buffer_load(cell) + 1)

        def down() -> None:
            ops.print("down")
            ops.buffer_store(cell, ops.buffer_load(cell) - 10)

        before = ops.buffer_load(cell)
        assert branch(pred, None, up, down) == []
        graph.output(before, ops.buffer_load(cell))
    model = engine.InferenceSession().load(graph)
    memory = np.array([5, 6], np.int32)
    old, after = (y.to_numpy() for y in model(True, memory))
    np.testing.assert_array_equal(old, [5, 6])
    np.testing.assert_array_equal(after, [6, 7])
    np.testing.assert_array_equal(memory, [6, 7])
    model(False, memory)
    np.testing.assert_array_equal(memory, [-4, -3])
    assert capsys.readouterr().out.split() == ["up", "down"]


def test_a_loop_stores_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    with Graph("g", input_types=[BufferType(DType.int64, [5], CPU), INT]) as graph:
        log, count = graph.inputs[0].buffer, graph.inputs[1].tensor

        def body(i: Any) -> Any:
            now = ops.buffer_load(log)
            ops.buffer_store(log, ops.where(ops.range(0, 5, 1, dtype=DType.int64, device=CPU) == i,
                                            ops.sum(now) + 1, now))  # fmt: skip
            ops.print(i, "turn")
            return i + 1

        (end,) = loop(integer(0), lambda i: i < count, body)
        graph.output(end, ops.buffer_load(log))
    memory = np.zeros(5, np.int64)
    last, held = run(graph, memory, 5)
    assert last == 5
    np.testing.assert_array_equal(memory, [1, 2, 4, 8, 16])
    np.testing.assert_array_equal(held, memory)
    assert len(capsys.readouterr().out.splitlines()) == 5


def test_what_a_predicate_prints_comes_once_a_turn(capsys: pytest.CaptureFixture[str]) -> None:
    with Graph("g", input_types=[INT]) as graph:

        def predicate(i: Any) -> Any:
            ops.print("asked")
            return i < tensors(graph)[0]

        graph.output(*loop(integer(0), predicate, lambda i: i + 1))
    run(graph, 3)
    assert capsys.readouterr().out.split() == ["asked"] * 4


def test_a_loop_without_effects_that_nobody_reads_is_not_run() -> None:
    with Graph("g", input_types=[INT]) as graph:
        loop(integer(0), lambda i: i >= 0, lambda i: i)  # would never end
        graph.output(graph.inputs[0])
    assert run(graph, 3)[0] == 3


# ---------------------------------------------------------------- compiled, not unrolled
def test_a_million_turns_run_in_c() -> None:
    with Graph("g", input_types=[INT]) as graph:
        count = tensors(graph)[0]
        _, s = loop(
            (integer(0), integer(0)), lambda i, s: i < count, lambda i, s: (i + 1, s + i * i)
        )
        graph.output(s)
    model = engine.InferenceSession().load(graph)
    assert len(model.plan.steps) < 12
    assert not any(step.call for step in model.plan.steps)
    assert model(1_000_000)[0].item() == sum(i * i for i in range(1_000_000))


def test_an_endless_loop_can_be_interrupted() -> None:
    with Graph("g", input_types=[INT]) as graph:
        graph.output(*loop(integer(0), lambda i: i > -1, lambda i: i * 0))
    model = engine.InferenceSession().load(graph)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # some shells ignore it
    timer = threading.Timer(0.3, _thread.interrupt_main)
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            model(0)
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)
    with Graph("after", input_types=[ROW]) as graph:
        graph.output(graph.inputs[0].tensor + 1)
    assert run(graph, np.zeros(1, np.float32))[0] == 1


def test_a_fault_in_a_body_names_its_line() -> None:
    with Graph("g", input_types=[ROW, INT]) as graph:
        x, count = tensors(graph)
        _, y = loop(
            (integer(0), x[0]),
            lambda i, y: i < count,
            lambda i, y: (i + 1, y + ops.gather(x, i, axis=0)),  # here
        )
        graph.output(y)
    model = engine.InferenceSession().load(graph)
    x = np.arange(4, dtype=np.float32)
    assert model(x, 4)[0].item() == 6
    with pytest.raises(Exception, match="index 4 is out of range") as caught:
        model(x, 5)
    at = caught.value.at  # type: ignore[attr-defined]
    lines = Path(__file__).read_text().splitlines()
    assert at is not None
    assert "# here" in lines[at.line - 1]


def test_times_are_sums_of_all_turns() -> None:
    with Graph("g", input_types=[INT]) as graph:
        count = tensors(graph)[0]
        graph.output(*loop(integer(0), lambda i: i < count, lambda i: i + 1))
    model = engine.InferenceSession().load(graph)
    few, many = (model.profile(n, runs=5, warmup=1) for n in (10, 50_000))
    spent = [sum(k.ns for k in p.kernels) for p in (few, many)]
    assert spent[1] > 20 * spent[0]
    begin, end = many.stamps.steps[0, :, 0], many.stamps.steps[0, :, 1]
    np.testing.assert_array_equal(begin[1:], end[:-1])  # one behind the other


# ---------------------------------------------------------------- what they refuse
def test_counts_and_types_must_match() -> None:
    with Graph("g", input_types=[ROW, FLAG]) as graph:
        x, pred = tensors(graph)
        before = str(graph)
        wrong: list[Any] = [
            lambda: branch(pred, [ROW], lambda: (x, x), lambda: x),
            lambda: branch(pred, [ROW], lambda: x, lambda: None),
            lambda: branch(pred, None, lambda: x, lambda: None),
            lambda: branch(pred, [ROW], lambda: x, lambda: x[:2]),
            lambda: branch(pred, [ROW], lambda: ops.cast(x, DType.float64), lambda: x),
            lambda: branch(pred, [TensorType(DType.float32, ["q"], CPU)], lambda: x, lambda: x),
            lambda: loop(x, lambda x: pred, lambda x: ops.concat([x, x])),
            lambda: loop(x, lambda x: pred, lambda x: (x, x)),
            lambda: loop(x, lambda x: pred, lambda x: None),
        ]
        for make in wrong:
            with pytest.raises(ResultsError) as caught:
                make()
            assert caught.value.code == "ML752"
            assert isinstance(caught.value, ValueError)
            assert isinstance(caught.value, TypeError)
            assert str(graph) == before, "a failed op leaves the graph as it was"
        graph.output(*branch(pred, [ROW], lambda: x, lambda: x + 1))
    assert run(graph, np.zeros(1, np.float32), False)[0] == 1


def test_predicates_are_one_bool() -> None:
    with Graph("g", input_types=[ROW, FLAG]) as graph:
        x, pred = tensors(graph)
        for wrong in (x, x > 0, x[0], 1, "yes", None):
            with pytest.raises(ArgumentError) as caught:
                branch(wrong, None, lambda: None, lambda: None)
            assert caught.value.code == "ML754"
            with pytest.raises(ArgumentError):
                loop(x, lambda x, wrong=wrong: wrong, lambda x: x)
        with pytest.raises(TypeError, match="function"):
            branch(pred, None, None, lambda: None)
        with pytest.raises(ArgumentError, match="one initial value"):
            loop([], lambda: pred, list)
        graph.output(*branch(True, [ROW], lambda: x, lambda: x + 1))
    assert run(graph, np.zeros(1, np.float32), False)[0] == 0


def test_buffers_are_no_values_of_a_loop() -> None:
    type = BufferType(DType.float32, [2], CPU)
    with Graph("g", input_types=[type, FLAG]) as graph:
        cell, pred = graph.inputs[0].buffer, graph.inputs[1].tensor
        with pytest.raises(NotImplementedError):
            loop([cell], lambda x: pred, lambda x: x)
        with pytest.raises(UnsupportedError) as caught:
            branch(pred, [type], lambda: cell, lambda: cell)
        assert caught.value.code == "ML755"
        graph.output()


def test_inner_values_do_not_leak() -> None:
    kept: list[Any] = []
    with Graph("g", input_types=[ROW, FLAG]) as graph:
        x, pred = tensors(graph)

        def then() -> Any:
            kept.append(x + 1)
            return kept[0]

        graph.output(*branch(pred, [ROW], then, lambda: x))
        with pytest.raises(GraphError, match="may not have run") as caught:
            ops.relu(kept[0])
        assert caught.value.code == "ML314"
        with pytest.raises(GraphError):
            branch(pred, [ROW], lambda: kept[0], lambda: x)


def test_dims_are_not_computed_in_a_body() -> None:
    with Graph("g", input_types=[ROW, FLAG]) as graph:
        x, pred = tensors(graph)

        def count() -> Any:
            return ops.cast(ops.sum(ops.nonzero(x, "hits"), axis=0)[0], DType.int64)

        with pytest.raises(UnsupportedError) as caught:
            branch(pred, [INT], count, lambda: integer(0))
        assert caught.value.code == "ML756"
        graph.output(x)


def test_a_body_that_raises_leaves_nothing_behind() -> None:
    with Graph("g", input_types=[ROW, FLAG]) as graph:
        x, pred = tensors(graph)
        before = str(graph)

        def broken() -> Any:
            Weight("w", DType.float32, [3], CPU)
            ops.print("never")
            branch(pred, None, lambda: None, lambda: None)
            raise KeyError("mine")

        with pytest.raises(KeyError, match="mine"):
            branch(pred, [ROW], broken, lambda: x)
        assert str(graph) == before
        assert not graph._writer.regions
        y = branch(pred, [ROW], lambda: x + 1, lambda: x)[0]
        graph.output(y)
    assert run(graph, np.zeros(1, np.float32), True)[0] == 1


def test_a_failed_op_in_a_body_may_be_caught_there() -> None:
    with Graph("g", input_types=[ROW, FLAG]) as graph:
        x, pred = tensors(graph)

        def then() -> Any:
            with pytest.raises(ValueError, match="float"):
                ops.relu(x) + ops.constant(np.zeros(3, np.complex64))
            return ops.relu(x)

        graph.output(*branch(pred, [ROW], then, lambda: x))
    assert run(graph, np.full(1, -1, np.float32), True)[0] == 0


# ---------------------------------------------------------------- saved, and checked
def test_a_saved_graph_runs_the_same(tmp_path: Path) -> None:
    with Graph("g", input_types=[INT, BufferType(DType.int64, [1], CPU)]) as graph:
        count, cell = graph.inputs[0].tensor, graph.inputs[1].buffer

        def body(i: Any) -> Any:
            branch(i % 2 == 0, None,
                     lambda: ops.buffer_store(cell, ops.buffer_load(cell) + i),
                     lambda: None)  # fmt: skip
            return i + 1

        graph.output(*loop(integer(0), lambda i: i < count, body))
    graph.save(tmp_path / "g.mlir")
    again = Graph(path=tmp_path / "g.mlir")
    assert str(again) == str(graph)
    for one in (graph, again):
        memory = np.zeros(1, np.int64)
        assert run(one, 10, memory)[0] == 10
        assert memory[0] == 20


def test_compare_checks_loops_and_branches() -> None:
    import maxlab

    with Graph("g", input_types=[ROW, INT]) as graph:
        x, count = tensors(graph)
        _, y = loop((integer(0), x), lambda i, y: i < count, lambda i, y: (i + 1, ops.tanh(y) + x))
        (z,) = branch(ops.sum(y)[0] > 0, [ROW], lambda: ops.exp(y), lambda: y)
        graph.output(z, y * 2)
    model = engine.InferenceSession().load(graph)
    result = maxlab.compare(model, np.array([1, 2, 3], np.float32), 4)
    assert result.ok, str(result)


def test_kernels_of_users_in_a_body(caplog: pytest.LogCaptureFixture) -> None:
    """They are those of the session's library, change buffers, and say what they have to say."""
    kernels = """
// @op step(inout x: T[n], by: T[]) -> (y: T[n])
// @types T: float32
// @both
MX_LOG(INFO, "at %d: %g", i, load(x, i));
const T moved = load(x, i) + load(by, 0);
store(x, i, moved);
store(y, i, moved * 2);
"""
    types = [BufferType(DType.float32, [2], CPU), INT]
    with Graph("g", input_types=types, custom_extensions=[kernels]) as graph:
        cell, count = graph.inputs[0].buffer, tensors(graph)[0]
        two = TensorType(DType.float32, [2], CPU)

        def body(i: Any, y: Any) -> Any:
            by = ops.cast(i + 1, DType.float32)
            made = ops.inplace_custom("step", CPU, [cell, by], out_types=[two])
            return i + 1, made[0]

        zeros = ops.constant(np.zeros(2, np.float32))
        graph.output(loop((integer(0), zeros), lambda i, y: i < count, body)[1])
    session = engine.InferenceSession()
    session.set_mojo_log_level("info")
    memory = np.array([1, 2], np.float32)
    with caplog.at_level("INFO", "maxlab.kernels"):
        (y,) = session.load(graph)(memory, 3)
    np.testing.assert_array_equal(memory, [7, 8])
    np.testing.assert_array_equal(y.to_numpy(), [14, 16])
    assert len(caplog.records) == 6
    assert "step: at 0: 1" in caplog.records[0].message


@pytest.mark.parametrize("function", [lambda x, y, z: x, len, max], ids=["python", "len", "max"])
def test_a_function_that_does_not_take_the_values_is_named(function: Any) -> None:
    flag = TensorType(DType.bool, [])
    with Graph("misfit", input_types=[flag]) as graph:
        with pytest.raises(ArgumentTypeError, match="cond: then_fn is called with 0 values") as got:
            ops.cond(graph.inputs[0].tensor, [flag], function, lambda: graph.inputs[0].tensor)
        assert got.value.code == "ML758"


def test_a_type_error_of_a_function_comes_out_as_it_is() -> None:
    flag = TensorType(DType.bool, [])
    with Graph("own", input_types=[flag]) as graph:
        with pytest.raises(TypeError, match="can only concatenate") as got:
            ops.cond(graph.inputs[0].tensor, [flag], lambda: [] + {}, lambda: None)  # type: ignore[operator]
        assert type(got.value) is TypeError
