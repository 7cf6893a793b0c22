"""Named sizes: one compilation for all, and every contradiction found before a kernel runs."""

from __future__ import annotations

import numpy as np
import pytest

from maxlab import trace
from maxlab.dtype import DType
from maxlab.errors import InputError
from maxlab.graph import DeviceRef, Dim, Graph, TensorType, ops
from maxlab.ir import Function
from tests.compiler.interpret import Array, Builder, interpret, load, outputs_of, same

F32 = DType.float32
INTERNAL = [
    "j", "k", "d", "b", "s0", "i0", "p0", "t0", "a0", "v0", "row", "lo", "hi", "ctx", "item", "acc",
    "plan", "KERNEL", "BATCH", "int", "for", "Dim",
]  # fmt: skip


def ones(*shape: int) -> Array:
    """A float32 array of ones."""
    return np.ones(shape, np.float32)


def program(b: Builder) -> Function:
    """Something of every kind."""
    x, y = b.input(F32, "n", "m"), b.input(F32, "m", "k")
    z = b.op("matmul", x, y)
    s = b.op("softmax", b.op("gelu", z, approximate="tanh"), axis=-1)
    t = b.op("transpose", s, axis_1=0, axis_2=1)
    c = b.op("concat", z, s, axis=0)
    flat = b.op("reshape", c, shape=(Dim("n") * 2 * Dim("k"),))
    return b.output(t, b.op("reduce.sum", c, axis=0), flat, b.op("matmul", t, x))


def test_one_compilation_serves_all_sizes() -> None:
    function = program(Builder())
    model = load(function)
    events: list[trace.Event] = []
    trace.recorder().listen(events.append)
    for n, m, k in [(3, 4, 5), (1, 1, 1), (33, 2, 70), (0, 4, 5), (3, 0, 5), (300, 17, 40)]:
        rng = np.random.default_rng(n)
        inputs = [rng.standard_normal(s).astype(np.float32) for s in ((n, m), (m, k))]
        for got, want in zip(outputs_of(model, inputs), interpret(function, inputs), strict=True):
            same(got, want, rtol=1e-4, atol=1e-4)
    trace.recorder().unlisten(events.append)
    assert not [e for e in events if e.kind == "compile"]
    assert any(e.kind == "bind" for e in events)


@pytest.mark.parametrize("name", INTERNAL)
def test_names_that_generated_code_uses(name: str) -> None:
    def build(b: Builder) -> Function:
        x, w = b.input(F32, name, "z"), b.input(F32, "z", name)
        p = b.op("matmul", x, w)
        return b.output(
            b.op("reduce.max", b.op("reshape", p, shape=(Dim(name) * Dim(name),)), axis=0),
            b.op("tanh", p),
        )

    function = build(Builder())
    inputs = [ones(3, 2), ones(2, 3) * 2]
    for got, want in zip(
        outputs_of(load(function), inputs), interpret(function, inputs), strict=True
    ):
        same(got, want, rtol=1e-6)


# ---------------------------------------------------------------- contradictions
@pytest.mark.parametrize("second", [1, 4])
def test_one_name_is_one_size(second: int) -> None:
    with Graph("g", input_types=[TensorType(F32, ["n", 2]), TensorType(F32, ["n", 2])]) as graph:
        graph.output(graph.inputs[0].tensor + graph.inputs[1].tensor)
    model = load(graph.function)
    with pytest.raises(InputError, match="'n' is 3 elsewhere") as caught:
        model(ones(3, 2), ones(second, 2))
    assert caught.value.code == "ML602"
    assert model(ones(3, 2), ones(3, 2))[0].to_numpy().sum() == 12


def test_one_name_within_one_input() -> None:
    with Graph("g", input_types=[TensorType(F32, ["n", "n"])]) as graph:
        graph.output(graph.inputs[0].tensor)
    with pytest.raises(InputError, match="'n' is 2"):
        load(graph.function)(ones(2, 3))


def test_fixed_sizes() -> None:
    with Graph("g", input_types=[TensorType(F32, ["n", 2])]) as graph:
        graph.output(graph.inputs[0].tensor)
    with pytest.raises(InputError, match="the type says 2"):
        load(graph.function)(ones(2, 3))


def test_expressions_as_input_dims() -> None:
    types = [TensorType(F32, [Dim("n") * 2 + 1]), TensorType(F32, ["n"])]
    with Graph("g", input_types=types) as graph:
        x, y = (v.tensor for v in graph.inputs)
        graph.output(x[: Dim("n")] + y)
    model = load(graph.function)
    assert model(ones(7), ones(3))[0].shape == (3,)
    with pytest.raises(InputError, match=r"the type says n \* 2 \+ 1 = 7"):
        model(ones(6), ones(3))


def test_a_name_that_follows_from_an_expression() -> None:
    types = [TensorType(F32, [Dim("n") * 2 + Dim("m")]), TensorType(F32, [Dim("m") - 1, 0])]
    with Graph("g", input_types=types) as graph:
        x, _ = (v.tensor for v in graph.inputs)
        graph.output(ops.reshape(x[: Dim("n") * 2], ["n", 2]))
    model = load(graph.function)
    assert model(ones(9), ones(2, 0))[0].shape == (3, 2)
    with pytest.raises(InputError, match=r"the type says m \+ n \* 2 = 9"):
        model(ones(10), ones(2, 0))
    with pytest.raises(InputError, match="'n' would be -1"):
        model(ones(1), ones(2, 0))


def test_an_expression_of_names_no_input_has() -> None:
    with Graph("g", input_types=[TensorType(F32, [Dim("n") * Dim("m")])]) as graph:
        graph.output(graph.inputs[0].tensor)
    with pytest.raises(InputError, match="'m'") as caught:
        load(graph.function)
    assert caught.value.code == "ML601"


def test_a_name_nothing_defines() -> None:
    with Graph("g", input_types=[TensorType(F32, [1])]) as graph:
        graph.output(ops.broadcast_to(graph.inputs[0].tensor, ["n"]))
    with pytest.raises(InputError, match="'n'") as caught:
        load(graph.function)
    assert caught.value.at is not None
    assert "test_sizes" in caught.value.at.file


# ---------------------------------------------------------------- rebind
def test_rebind_names_an_expression() -> None:
    with Graph("g", input_types=[TensorType(F32, ["a", "b"]), TensorType(F32, ["c"])]) as graph:
        x, y = (v.tensor for v in graph.inputs)
        flat = ops.rebind(x.reshape((-1,)), ["c"], "x must have as many elements as y")
        graph.output(flat + y)
    model = load(graph.function)
    np.testing.assert_array_equal(model(ones(2, 3), ones(6))[0].to_numpy(), 2)
    with pytest.raises(InputError, match="x must have as many elements as y") as caught:
        model(ones(2, 3), ones(5))
    assert caught.value.at is not None
    assert "rebind" in caught.value.at.text


def test_rebind_defines_new_names() -> None:
    with Graph("g", input_types=[TensorType(F32, ["a", "b"])]) as graph:
        x = ops.rebind(graph.inputs[0].tensor.reshape((-1,)), ["q"])
        graph.output(
            ops.concat([x, x]), ops.range(0, Dim("q"), 1, dtype=DType.int64, device=DeviceRef.CPU())
        )
    joined, counted = load(graph.function)(ones(2, 3))
    assert joined.shape == (12,)
    assert counted.to_numpy().tolist() == [0, 1, 2, 3, 4, 5]


def test_rebind_to_a_number() -> None:
    with Graph("g", input_types=[TensorType(F32, ["a", "b"])]) as graph:
        x = ops.rebind(graph.inputs[0].tensor, [2, "b"], "two rows")
        graph.output(x[1])
    model = load(graph.function)
    assert model(ones(2, 3))[0].shape == (3,)
    with pytest.raises(InputError, match="two rows"):
        model(ones(3, 3))


def test_rebind_of_one_name_twice() -> None:
    with Graph("g", input_types=[TensorType(F32, ["a", "b"])]) as graph:
        x = ops.rebind(graph.inputs[0].tensor, ["q", "q"], "square")
        graph.output(x + x.T)
    model = load(graph.function)
    assert model(ones(3, 3))[0].shape == (3, 3)
    with pytest.raises(InputError, match="square"):
        model(ones(3, 4))


def test_rebind_to_what_halving_and_doubling_gives() -> None:
    with Graph("g", input_types=[TensorType(F32, ["a"])]) as graph:
        half = (Dim("a") // 2) * 2
        graph.output(ops.rebind(graph.inputs[0].tensor, [half], "even").reshape((Dim("a") // 2, 2)))
    model = load(graph.function)
    assert model(ones(6))[0].shape == (3, 2)
    with pytest.raises(InputError, match="even"):
        model(ones(7))


def test_a_rebind_nobody_reads_still_holds() -> None:
    with Graph("g", input_types=[TensorType(F32, ["a", "b"])]) as graph:
        x = graph.inputs[0].tensor
        ops.rebind(ops.exp(x), ["a", 3], "three columns")
        graph.output(x * 2)
    model = load(graph.function)
    assert model(ones(2, 3))[0].shape == (2, 3)
    with pytest.raises(InputError, match="three columns"):
        model(ones(2, 4))


# ---------------------------------------------------------------- slices and derived sizes
def test_slices_are_checked_when_sizes_are_known() -> None:
    with Graph("g", input_types=[TensorType(F32, ["a"])]) as graph:
        x = graph.inputs[0].tensor
        graph.output(x[:3], x[2:])
    model = load(graph.function)
    assert [t.shape for t in model(ones(5))] == [(3,), (3,)]
    with pytest.raises(InputError, match="out of its bounds") as caught:
        model(ones(2))
    assert caught.value.at is not None


def test_sizes_never_become_negative() -> None:
    with Graph("g", input_types=[TensorType(F32, ["n"])]) as graph:
        graph.output(ops.range(0, Dim("n") - 5, 1, dtype=F32, device=DeviceRef.CPU()))
    model = load(graph.function)
    assert model(ones(7))[0].to_numpy().tolist() == [0, 1]
    assert model(ones(5))[0].shape == (0,)
    with pytest.raises(InputError, match=r"n - 5") as caught:
        model(ones(3))
    assert caught.value.at is not None


def test_divisions_of_sizes_by_zero() -> None:
    with Graph("g", input_types=[TensorType(F32, ["n"]), TensorType(F32, ["m"])]) as graph:
        graph.output(ops.range(0, Dim("n") // Dim("m"), 1, dtype=F32, device=DeviceRef.CPU()))
    model = load(graph.function)
    assert model(ones(7), ones(3))[0].shape == (2,)
    with pytest.raises(InputError, match="zero"):
        model(ones(7), ones(0))


def test_a_failed_call_leaves_the_model_usable() -> None:
    with Graph("g", input_types=[TensorType(F32, ["a"])]) as graph:
        graph.output(graph.inputs[0].tensor[:3] * 2)
    model = load(graph.function)
    for _ in range(3):
        with pytest.raises(InputError):
            model(ones(1))
        assert model(ones(4))[0].to_numpy().tolist() == [2, 2, 2]


# ---------------------------------------------------------------- memory of inputs
@pytest.mark.parametrize("offset", [1, 2, 3, 5, 15])
def test_inputs_that_start_anywhere(offset: int) -> None:
    """Rows of a larger array are contiguous but lie at no multiple of a vector."""
    function = program(Builder())
    model = load(function)
    base = np.random.default_rng(1).standard_normal(4000).astype(np.float32)
    x, y = (
        base[offset : offset + 60].reshape(20, 3),
        base[offset + 999 : offset + 999 + 120].reshape(3, 40),
    )
    got = [t.to_numpy() for t in model(x, y)]
    for g, want in zip(got, interpret(function, [x, y]), strict=True):
        same(np.array(g), want, rtol=1e-4, atol=1e-4)


def test_inputs_between_elements() -> None:
    """An array that does not lie at a multiple of its element's size."""
    raw = np.zeros(4 * 20 + 1, np.uint8)
    x = raw[1:].view(np.float32)
    x[:] = np.arange(20)
    with Graph("g", input_types=[TensorType(F32, ["n"])]) as graph:
        graph.output(graph.inputs[0].tensor + 1)
    np.testing.assert_array_equal(load(graph.function)(x)[0].to_numpy(), np.arange(20) + 1)


def test_many_sizes_do_not_pile_up() -> None:
    from maxlab.engine.programs import MOST

    with Graph("g", input_types=[TensorType(F32, ["n"])]) as graph:
        graph.output(ops.exp(graph.inputs[0].tensor))
    model = load(graph.function)
    for n in range(MOST + 20):
        assert model(ones(n))[0].shape == (n,)
    assert len(model.bound_shapes) <= MOST
