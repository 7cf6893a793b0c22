"""What each op of ``maxlab.graph.ops`` returns: types, and values against NumPy."""

from __future__ import annotations

import ast
import inspect
import itertools
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxlab.dtype import DType, promote
from maxlab.errors import DTypeError, ExecutionError
from maxlab.graph import DeviceRef, Dim, Graph, Shape, TensorType, TensorValue, ops
from maxlab.graph.ops.places import MODULES, PLACES
from maxlab.ir import Value
from maxlab.opset.view import regroup
from tests.graph.interpreter import run

CPU = DeviceRef.CPU()
F32, I64 = DType.float32, DType.int64


def floats(*shape: int | str) -> TensorType:
    return TensorType(F32, shape)


def outputs(graph: Graph) -> Sequence[Value]:
    """The IR values that the graph returns."""
    op = graph.function.output
    assert op is not None
    return op.operands


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


# ---------------------------------------------------------------- dtypes of binary ops
NUMERIC = [d for d in DType if d.is_integral() or d in (DType.float16, DType.bfloat16)]
NUMERIC += [DType.bool, DType.float32, DType.float64]


@pytest.mark.parametrize(("a", "b"), [*itertools.product(NUMERIC, NUMERIC)], ids=lambda d: d.short)
def test_add_promotes_without_loss(a: DType, b: DType) -> None:
    with Graph("g", input_types=[TensorType(a, [2]), TensorType(b, [2])]) as graph:
        x, y = graph.inputs
        if a is b is DType.bool:
            with pytest.raises(DTypeError, match="needs numbers"):
                ops.add(x, y)
            return
        try:
            expected = promote(a, b)
        except DTypeError:
            for op in (ops.add, ops.max, ops.equal, ops.pow):
                with pytest.raises(DTypeError, match="Unsafe cast"):
                    op(x, y)
            return
        assert ops.add(x, y).dtype is ops.add(y, x).dtype is expected
        assert ops.greater(x, y).dtype is DType.bool


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("uint8", "int32", "int32"),
        ("uint32", "int64", "int64"),
        ("int8", "float16", "float16"),
        ("uint8", "bfloat16", "bfloat16"),
        ("int32", "float64", "float64"),
        ("float8_e4m3fn", "float16", "float16"),
        ("int8", "float8_e4m3fn", "float16"),
        ("bool", "int8", "int8"),
        ("int32", "uint32", None),
        ("int8", "uint8", None),
        ("int32", "float32", None),
        ("int64", "float64", None),
        ("float16", "bfloat16", None),
    ],
)
def test_the_documented_promotions(a: str, b: str, expected: str | None) -> None:
    with Graph("g", input_types=[TensorType(DType[a], [2]), TensorType(DType[b], [2])]) as graph:
        x, y = graph.inputs
        for op in (ops.add, ops.mul, ops.min):
            if expected is None:
                with pytest.raises(ValueError, match="Unsafe cast"):
                    op(x, y)
            else:
                assert op(x, y).dtype is DType[expected]


@pytest.mark.parametrize(
    ("dtype", "value", "fits"),
    [
        ("int32", 1.5, False),
        ("int32", 2.0, False),
        ("uint8", 300, False),
        ("uint8", -1, False),
        ("uint8", 255, True),
        ("float32", 16777217, False),
        ("float32", 16777216, True),
        ("float32", 16777217.0, True),
        ("float16", 1e9, True),
        ("float16", np.float64(0.1), True),
        ("bfloat16", 3, True),
        ("int8", True, True),
        ("int64", np.int8(3), True),
        ("int64", np.array([1, 2], np.uint8), True),
        ("uint8", np.array([1, 256]), False),
        ("float32", [0.5, 1.5], True),
    ],
)
def test_weak_operands(dtype: str, value: Any, fits: bool) -> None:
    with Graph("g", input_types=[TensorType(DType[dtype], ["n", 2])]) as graph:
        x = graph.inputs[0].tensor
        if not fits:
            with pytest.raises(DTypeError):
                x + value
            with pytest.raises(DTypeError):
                value - x
            return
        assert (x + value).dtype is (value * x).dtype is DType[dtype]


def test_float16_overflows_to_infinity() -> None:
    with Graph("g", input_types=[TensorType(DType.float16, [1])]) as graph:
        graph.output(graph.inputs[0].tensor + 1e9)
    assert np.isinf(run(graph, np.zeros(1, np.float16))[0])


def test_two_plain_operands_and_unary_numbers_are_refused() -> None:
    with Graph("g"):
        with pytest.raises(TypeError, match="neither operand"):
            ops.add(1, 2)
        with pytest.raises(TypeError, match="neither operand"):
            ops.add(np.ones(2), np.ones(2))
        with pytest.raises(TypeError, match="must be a tensor"):
            ops.exp(1.0)
        assert ops.exp(np.ones(2, np.float32)).shape == [2]


def test_dims_and_shapes_are_int64_tensors() -> None:
    with Graph("g", input_types=[floats("n", 3), TensorType(I64, [2])]) as graph:
        x, y = (v.tensor for v in graph.inputs)
        graph.output(y + x.shape, y * x.shape[0], TensorValue(x.shape[1]), ops.add(x.shape, 1))
        assert [v.tensor_type.dtype for v in outputs(graph)] == [I64] * 4
        with pytest.raises(DTypeError, match="Unsafe cast"):
            x + x.shape[0]
    a, b, c, d = run(graph, numbers(5, 3), np.array([10, 20]))
    assert (a.tolist(), b.tolist(), int(c), d.tolist()) == ([15, 23], [50, 100], 3, [6, 4])


# ---------------------------------------------------------------- operators
def test_operators() -> None:
    with Graph("g", input_types=[floats(2, 3), floats(3)]) as graph:
        x, y = (v.tensor for v in graph.inputs)
        cases: list[tuple[Any, Any]] = [
            (x + y, lambda a, b: a + b),
            (2 + x, lambda a, b: 2 + a),
            (x - y, lambda a, b: a - b),
            (1 - x, lambda a, b: 1 - a),
            (x * y, lambda a, b: a * b),
            (x / y, lambda a, b: a / b),
            (1 / y, lambda a, b: 1 / b),
            (x // y, lambda a, b: a // b),
            (7 // y, lambda a, b: 7 // b),
            (x % y, lambda a, b: a % b),
            (7 % y, lambda a, b: 7 % b),
            (divmod(x, y)[0], lambda a, b: divmod(a, b)[0]),
            (divmod(x, y)[1], lambda a, b: divmod(a, b)[1]),
            (divmod(7, y)[1], lambda a, b: divmod(np.float32(7), b)[1]),
            (x**2, lambda a, b: a**2),
            (2**x, lambda a, b: 2**a),
            (x @ y, lambda a, b: a @ b),
            (np.ones((4, 2), np.float32) @ x, lambda a, b: np.ones((4, 2)) @ a),
            (np.ones(3, np.float32) + x, lambda a, b: 1 + a),
            (np.float64(2) * x, lambda a, b: 2 * a),
            (-x, lambda a, b: -a),
            (+x, lambda a, b: a),
            (abs(x), lambda a, b: np.abs(a)),
            (round(x), lambda a, b: np.rint(a)),
            (x > y, lambda a, b: a > b),
            (x >= y, lambda a, b: a >= b),
            (x < y, lambda a, b: a < b),
            (x <= 0, lambda a, b: a <= 0),
            (0 < x, lambda a, b: a > 0),  # noqa: SIM300 - the reflected operator
            (x == y, lambda a, b: a == b),
            (x != 0, lambda a, b: a != 0),
            (np.ones(3, np.float32) == x, lambda a, b: a == 1),
            ((x > 0) & (x < 1), lambda a, b: (a > 0) & (a < 1)),
            ((x > 0) | True, lambda a, b: (a > 0) | True),
            ((x > 0) ^ (y > 0), lambda a, b: (a > 0) ^ (b > 0)),
            (~(x > 0), lambda a, b: ~(a > 0)),
            (False | (x > 0), lambda a, b: a > 0),
            (True & (x > 0), lambda a, b: a > 0),
            (True ^ (x > 0), lambda a, b: ~(a > 0)),
            (x.T, lambda a, b: a.T),
        ]
        graph.output(*(value for value, _ in cases))
    a, b = numbers(2, 3), numbers(3) + 3
    for number, (found, (_, expected)) in enumerate(zip(run(graph, a, b), cases, strict=True)):
        np.testing.assert_allclose(found, expected(a, b), rtol=1e-5, err_msg=str(number))


def test_integer_division() -> None:
    with Graph("g", input_types=[TensorType(DType.int32, ["n"])] * 2) as graph:
        x, y = (v.tensor for v in graph.inputs)
        graph.output(x / y, x // y, x % y, x / 2, x / 2.5, x // 2)
        kinds = [v.tensor_type.dtype for v in outputs(graph)]
        assert kinds == [DType.float64, DType.int32, DType.int32, DType.float64, DType.float64,
                         DType.int32]  # fmt: skip
    a, b = np.array([7, -7, 7, -7], np.int32), np.array([2, 2, -2, -2], np.int32)
    for found, expected in zip(
        run(graph, a, b), [a / b, a // b, a % b, a / 2, a / 2.5, a // 2], strict=True
    ):
        np.testing.assert_array_equal(found, expected)


def test_division_of_mixed_integers_and_floats() -> None:
    types = [TensorType(DType.int32, [2]), floats(2), TensorType(DType.bool, [2])]
    with Graph("g", input_types=types) as graph:
        i, f, b = (v.tensor for v in graph.inputs)
        with pytest.raises(DTypeError, match="Unsafe cast"):
            i / f
        with pytest.raises(DTypeError, match="needs numbers"):
            b / b
        assert (f / 2).dtype is F32


def test_values_have_no_truth_and_no_hash() -> None:
    with Graph("g", input_types=[floats(2)]) as graph:
        x = graph.inputs[0].tensor
        with pytest.raises(TypeError, match="not known while the graph is built"):
            bool(x == x)
        with pytest.raises(TypeError, match="cannot be a key"):
            hash(x)
        with pytest.raises(TypeError, match="cannot be a key"):
            {x: 1}  # noqa: B018
        assert (x == None, x != None) == (False, True)  # noqa: E711
        for bad in ("a", object()):
            with pytest.raises(TypeError, match="must be a tensor"):
                x == bad  # noqa: B015
        with pytest.raises(ValueError, match="digits"):
            round(x, 2)


# ---------------------------------------------------------------- shapes
@pytest.mark.parametrize(
    ("shape", "new", "expected"),
    [
        ((2, 6), (3, 4), [3, 4]),
        ((2, 6), (-1,), [12]),
        (("a", "b", 4), (-1,), [Dim("a") * "b" * 4]),
        (("a", "b", 4), ("a", -1), ["a", Dim("b") * 4]),
        (("a", "b", 4), (Dim("a") * "b" * 2, 2), [Dim("a") * "b" * 2, 2]),
        (("a", "b", 4), (2, -1, "b"), [2, Dim("a") * 2, "b"]),
        (("a", "b"), (-1, Dim("a") * "b"), [1, Dim("a") * "b"]),
        ((0, 3), (3, 0), [3, 0]),
        ((0, 3), (-1, 5), [0, 5]),
        ((1,), (), []),
        ((), (1, 1), [1, 1]),
        ((Dim("a") + 1, 4), (-1, 2), [(Dim("a") + 1) * 2, 2]),
        ((Dim("a") * "b" + Dim("b"),), ("b", -1), ["b", Dim("a") + 1]),
        ((Dim("a") * "b" + Dim("b"),), (-1, Dim("a") + 1), ["b", Dim("a") + 1]),
    ],
)
def test_reshape(shape: Any, new: Any, expected: Any) -> None:
    with Graph("g", input_types=[floats(*shape)]) as graph:
        assert ops.reshape(graph.inputs[0], new).shape == Shape(expected)


@pytest.mark.parametrize(
    ("shape", "new"),
    [
        (("a", "b", 4), ("q", 4)),
        ((2, 3), (7,)),
        ((2, 3), (-1, -1)),
        ((2, 3), (-1, 4)),
        ((0, 3), (-1, 0)),
        ((2, 3), (-2, -3)),
        (("a", 2), (-1, 4)),
        (("a", 4), (-1, "b")),
    ],
)
def test_reshape_that_cannot_be_proved(shape: Any, new: Any) -> None:
    with (
        Graph("g", input_types=[floats(*shape)]) as graph,
        pytest.raises(ValueError, match="reshape"),
    ):
        ops.reshape(graph.inputs[0], new)


def test_reshape_after_rebind() -> None:
    with Graph("g", input_types=[floats("a")]) as graph:
        x = graph.inputs[0].tensor
        even = x.rebind([Dim("a") // 2 * 2], "an even number")
        graph.output(even.reshape((-1, 2)))
    assert run(graph, numbers(6))[0].shape == (3, 2)
    with pytest.raises(ExecutionError, match="an even number"):
        run(graph, numbers(5))


def test_rebind() -> None:
    with Graph("g", input_types=[floats("n"), floats("m")]) as graph:
        x, y = (v.tensor for v in graph.inputs)
        with pytest.raises(ValueError, match="insert an explicit rebind"):
            x + y
        graph.output(x + y.rebind(["n"], "as many"), x.rebind(["q"]), y.rebind([Dim("m")]))
        with pytest.raises(ValueError, match="rank"):
            x.rebind(["n", 1])
        with pytest.raises(ValueError, match="never 4"):
            x[:3].rebind([4])
    a = numbers(3)
    np.testing.assert_array_equal(run(graph, a, a)[0], a + a)
    with pytest.raises(ExecutionError, match="as many"):
        run(graph, a, numbers(1))


def test_unprovable_broadcast_fails_at_build() -> None:
    with Graph("g", input_types=[floats("a", "b", 4), floats(2, 3, 4)]) as graph:
        x, y = (v.tensor for v in graph.inputs)
        with pytest.raises(ValueError, match="rebind"):
            x + y
        assert (x.rebind([2, 3, 4]) + y).shape == [2, 3, 4]


sizes = st.sampled_from([1, 2, 3, 4, 6])


@settings(max_examples=200, deadline=None)
@given(st.lists(sizes, max_size=4), st.randoms())
def test_the_index_map_of_reshape(source: list[int], random: Any) -> None:
    """Every element of the result stands where NumPy's row-major order puts it."""
    from maxlab.ir import Poly

    factors = [p for n in source for p in ({4: [2, 2], 6: [2, 3]}.get(n, [n]))]
    random.shuffle(factors)
    target: list[int] = []
    for factor in factors:
        if target and random.random() < 0.5:
            target[-1] *= factor
        else:
            target.append(factor)
    array = np.arange(int(np.prod(source))).reshape(source)
    expected = array.reshape(target)
    axes = tuple(Poly.symbol(f"i{n}") for n in range(len(target)))
    made = regroup(axes, tuple(map(Poly.constant, target)), tuple(map(Poly.constant, source)))
    for index in np.ndindex(*target):
        env = {f"i{n}": i for n, i in enumerate(index)}
        assert array[tuple(p.evaluate(env) for p in made)] == expected[index]


def test_shape_ops() -> None:
    with Graph("g", input_types=[floats("n", 1, 4)]) as graph:
        x = graph.inputs[0].tensor
        n = Dim("n")
        assert x.flatten().shape == [n * 4]
        assert x.flatten(1, -1).shape == ["n", 4]
        assert ops.squeeze(x, 1).shape == ["n", 4]
        assert ops.unsqueeze(x, -1).shape == ["n", 1, 4, 1]
        assert x.permute([2, 0, -2]).shape == [4, "n", 1]
        assert x.transpose(0, -1).shape == [4, 1, "n"]
        assert x.T.shape == ["n", 4, 1]
        assert x.broadcast_to(("n", 3, 4)).shape == ["n", 3, 4]
        assert x.broadcast_to((2, "n", "k", 4)).shape == [2, "n", "k", 4]
        assert ops.tile(x, (2, 3, "k")).shape == [n * 2, 3, Dim("k") * 4]
        assert ops.concat([x, x]).shape == [n * 2, 1, 4]
        assert ops.concat([x, np.ones((2, 1, 4))]).shape == [n + 2, 1, 4]
        assert ops.stack([x, x, x], axis=-1).shape == ["n", 1, 4, 3]
        assert ops.stack([x[0, 0, 0], 1.5]).shape == [2]
        assert [p.shape[2] for p in ops.split(x, [1, 3], axis=2)] == [1, 3]
        assert [p.shape[0] for p in ops.split(x, [n - 1, 1])] == [n - 1, 1]
        assert [p.shape for p in ops.chunk(x, 2, -1)] == [["n", 1, 2]] * 2
        assert ops.pad(x, (1, 2, 0, 0, 0, 3)).shape == [n + 3, 1, 7]
        assert ops.repeat_interleave(x, 2, axis=-1).shape == ["n", 1, 8]
        assert ops.repeat_interleave(x, 2).shape == [n * 8]
        assert ops.repeat_interleave(x, 2, axis=0, out_dim="k").shape == ["k", 1, 4]
        assert ops.outer(x[0, 0], x[:, 0, 0]).shape == [4, "n"]
        assert ops.shape_to_tensor(x.shape).type == TensorType(I64, [3])
        assert ops.gather(x, np.array([[0, 1]]), axis=-1).shape == ["n", 1, 1, 2]
        assert ops.gather(x, 0, axis=0).shape == [1, 4]


def test_shape_ops_compute() -> None:
    with Graph("g", input_types=[floats("n", 4)]) as graph:
        x = graph.inputs[0].tensor
        graph.output(
            ops.repeat_interleave(x, 2, axis=0),
            ops.repeat_interleave(x, 3),
            ops.tile(x, (2, 3)),
            ops.stack([x, -x], axis=1),
            *ops.split(x, [1, 0, 3], axis=1),
            *ops.chunk(x, 2, axis=1),
            ops.pad(x, (1, 0, 0, 2), value=7),
            ops.pad(x, (1, 0, 0, 2), value=ops.sum(ops.sum(x), 0)[0, 0]),
            ops.outer(x[0], x[1]),
            ops.shape_to_tensor(x.shape),
            ops.gather(x, [0, -1], axis=1),
            ops.broadcast_to(x, (2, "n", 4)),
        )
    a = numbers(3, 4)
    expected = [
        np.repeat(a, 2, axis=0),
        np.repeat(a, 3),
        np.tile(a, (2, 3)),
        np.stack([a, -a], axis=1),
        a[:, :1],
        a[:, 1:1],
        a[:, 1:],
        a[:, :2],
        a[:, 2:],
        np.pad(a, ((1, 0), (0, 2)), constant_values=7),
        np.pad(a, ((1, 0), (0, 2)), constant_values=a.sum()),
        np.outer(a[0], a[1]),
        np.array([3, 4]),
        a[:, [0, -1]],
        np.broadcast_to(a, (2, 3, 4)),
    ]
    for number, (found, wanted) in enumerate(zip(run(graph, a), expected, strict=True)):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, err_msg=str(number))


def test_reductions() -> None:
    with Graph("g", input_types=[floats("n", 5)]) as graph:
        x = graph.inputs[0].tensor
        graph.output(
            ops.sum(x), ops.mean(x, 0), x.max(), x.min(0), x.argmax(), ops.argmin(x, 0),
            ops.max(x, x * 2), ops.min(x, 0), ops.max(x, axis=0), x.mean(), x.var(), x.stdev(0),
            ops.softmax(x), ops.logsoftmax(x, 0), ops.layer_norm(x, np.ones(5), np.zeros(5), 1e-5),
        )  # fmt: skip
    a = numbers(4, 5)
    e = np.exp(a - a.max(-1, keepdims=True))
    e0 = np.exp(a - a.max(0))
    keep: Any = {"keepdims": True}
    expected = [
        a.sum(-1, **keep), a.mean(0, **keep), a.max(-1, **keep), a.min(0, **keep),
        a.argmax(-1, **keep), a.argmin(0, **keep), np.maximum(a, a * 2), np.minimum(a, 0),
        a.max(0, **keep), a.mean(-1, **keep), a.var(-1, **keep), a.std(0, **keep),
        e / e.sum(-1, **keep), np.log(e0 / e0.sum(0)),
        (a - a.mean(-1, **keep)) / np.sqrt(a.var(-1, **keep) + 1e-5),
    ]  # fmt: skip
    for number, (found, wanted) in enumerate(zip(run(graph, a), expected, strict=True)):
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=1e-6, err_msg=str(number))


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ((3,), (3,), []),
        ((3,), (3, 4), [4]),
        ((2, 3), (3,), [2]),
        ((3,), (5, 3, 4), [5, 4]),
        ((5, 2, 3), (3,), [5, 2]),
        (("b", 2, 3), (3, 4), ["b", 2, 4]),
        ((1, 2, 3), ("b", 3, 4), ["b", 2, 4]),
        (("m", "k"), ("k", "n"), ["m", "n"]),
    ],
)
def test_matmul(left: Any, right: Any, expected: Any) -> None:
    with Graph("g", input_types=[floats(*left), floats(*right)]) as graph:
        x, y = graph.inputs
        assert ops.matmul(x, y).shape == Shape(expected)
        graph.output(x.tensor @ y)
    sizes = {"b": 5, "m": 2, "k": 3, "n": 4}
    a, b = (numbers(*(sizes.get(d, d) for d in s)) for s in (left, right))
    np.testing.assert_allclose(run(graph, a, b)[0], a @ b, rtol=1e-5)


# ---------------------------------------------------------------- data
def test_constant() -> None:
    with Graph("g") as graph:
        assert ops.constant(np.ones((2, 2)), F32, CPU).type == TensorType(F32, [2, 2])
        assert ops.constant(np.ones((2, 2)), dtype=F32).type == TensorType(F32, [2, 2])
        assert ops.constant(np.ones((2, 2))).dtype is DType.float64
        assert ops.constant(np.array([1, 2]), F32, CPU).dtype is F32
        assert ops.constant([[1, 2], [3, 4]], DType.bfloat16, CPU).shape == [2, 2]
        assert ops.constant(np.float32(1)).type == TensorType(F32, [])
        graph.output(
            ops.constant(16777217, F32, CPU),
            ops.constant(3.0, DType.int8, CPU),
            ops.constant([True, False], DType.bool, CPU),
            ops.constant(float("nan"), F32, CPU),
            ops.constant(2**64 - 1, DType.uint64, CPU),
        )
    values = run(graph)
    assert values[0] == 16777216
    assert values[1] == 3
    assert values[2].tolist() == [True, False]
    assert np.isnan(values[3])
    assert int(values[4]) == 2**64 - 1


@pytest.mark.parametrize(
    ("value", "dtype", "error"),
    [
        (300, "uint8", ValueError),
        (-1, "uint8", ValueError),
        (2**63, "int64", ValueError),
        (float("nan"), "int32", ValueError),
        (float("inf"), "int32", ValueError),
        (3.7, "int32", ValueError),
        (2.0**63, "int64", ValueError),
        (1e9, "float16", ValueError),
        (2, "bool", ValueError),
        ([[1, 2], [3]], "float32", ValueError),
        (np.array([1, 1000]), "int8", ValueError),
        ("text", "float32", TypeError),
        (None, "float32", TypeError),
        (1, None, TypeError),
        ([1.5], None, TypeError),
    ],
)
def test_constants_that_do_not_fit(value: Any, dtype: str | None, error: type[Exception]) -> None:
    with Graph("g") as graph:
        with pytest.raises(error):
            ops.constant(value, None if dtype is None else DType[dtype], CPU)
        assert not graph.function.ops


def test_a_constant_does_not_change_with_its_array() -> None:
    array = np.ones(3, np.float32)
    frozen = np.ones(3, np.float32)
    frozen.flags.writeable = False
    with Graph("g", input_types=[floats(3)]) as graph:
        x = graph.inputs[0].tensor
        kept = ops.constant(frozen)
        graph.output(ops.constant(array), x + array, x * np.array(2.0), kept)
    array[:] = 7
    found = run(graph, np.zeros(3, np.float32))
    assert found[0].tolist() == found[1].tolist() == [1, 1, 1]
    assert found[2].shape == (3,)
    op = kept._ir().op
    assert op is not None
    assert np.shares_memory(op.attrs["value"].array, frozen)


def test_range() -> None:
    n = Dim("n")
    here: Any = {"dtype": I64, "device": CPU}
    with Graph("g", input_types=[floats("n")]) as graph:
        x = graph.inputs[0].tensor
        assert ops.range(0, n * 2, 2, **here).shape == ["n"]
        assert ops.range(0, 10, 3, **here).shape == [4]
        two = ops.constant(2, I64, CPU)
        graph.output(
            ops.range(0, 10, 3, **here),
            ops.range(5, 0, -2, **here),
            ops.range(n - 1, n + 2, **here),
            ops.range(0, 1, 0.25, dtype=F32, device=CPU),
            ops.range(1.0, -1.0, -0.5, dtype=F32, device=CPU),
            ops.range(3, 3, **here),
            ops.range(0, n, 1, "n", dtype=F32, device=CPU),
            ops.range(two, TensorValue(x.shape[0]), out_dim=n - 2, **here),
            ops.range(0, n - 2, **here),
        )
        for bounds in ((0, 5, 0), (0, 5, -1), (0.0, 1.0, -0.5), (0.0, 1.0, 0.0)):
            with pytest.raises(ValueError, match="range"):
                ops.range(*bounds, dtype=F32, device=CPU)
        with pytest.raises(ValueError, match="out_dim"):
            ops.range(0, two, **here)
        with pytest.raises(ValueError, match="outside int8"):
            ops.range(0, 300, dtype=DType.int8, device=CPU)
        with pytest.raises(ValueError, match="cannot become int64"):
            ops.range(0.0, 2.5, **here)
        with pytest.raises(TypeError, match="a bound is"):
            ops.range("a", 3, **here)  # type: ignore[arg-type]
    found = run(graph, numbers(5))
    expected: list[Any] = [
        [0, 3, 6, 9], [5, 3, 1], [4, 5, 6], [0, 0.25, 0.5, 0.75], [1, 0.5, 0, -0.5], [],
        [0, 1, 2, 3, 4], [2, 3, 4], [0, 1, 2],
    ]  # fmt: skip
    assert [a.tolist() for a in found] == expected
    with pytest.raises(ExecutionError, match="range"):
        run(graph, numbers(1))


def test_where_and_cast() -> None:
    with Graph("g", input_types=[floats("n"), TensorType(DType.int8, ["n"])]) as graph:
        x, i = (v.tensor for v in graph.inputs)
        assert x.cast(F32)._ir() is x._ir()
        graph.output(
            ops.where(x > 0, x, 0), ops.where(x > 0, 1, i), ops.where(np.array(True), x, x * 2),
            x.cast(DType.int32), ops.cast(i, DType.bool),
        )  # fmt: skip
        with pytest.raises(ValueError, match="needs bool"):
            ops.where(x, x, x)
        with pytest.raises(TypeError, match="neither operand"):
            ops.where(x > 0, 1.0, 0.0)
        with pytest.raises(TypeError, match="must be a DType"):
            ops.cast(x, "flaot32")  # type: ignore[arg-type]
    a, b = np.array([-1.5, 0, 2.5], np.float32), np.array([-1, 0, 5], np.int8)
    expected = [
        np.where(a > 0, a, 0), np.where(a > 0, 1, b), a, a.astype(np.int32), b.astype(bool),
    ]  # fmt: skip
    for found, wanted in zip(run(graph, a, b), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_devices() -> None:
    gpu = DeviceRef.GPU()
    with Graph("g", input_types=[floats("n"), TensorType(F32, ["n"], gpu)]) as graph:
        x, y = (v.tensor for v in graph.inputs)
        assert ops.transfer_to(x, CPU)._ir() is x._ir()
        assert x.to(gpu).device == gpu
        assert (x.to(gpu) + y).device == gpu
        assert (y + 1).device == gpu
        with pytest.raises(ValueError, match="different devices"):
            x + y
        ops.assert_same_device(x, x, other=x)
        with pytest.raises(ValueError, match=r"operand 0 on cpu:0, bias on gpu:0"):
            ops.assert_same_device(x, bias=y)
        with pytest.raises(TypeError, match="device"):
            ops.transfer_to(x, "tpu")


def test_every_public_function_is_documented_and_staged() -> None:
    for name in ops.__all__:
        function = getattr(ops, name)
        if not inspect.isfunction(function):
            continue
        assert hasattr(function, "__wrapped__"), name
        text = inspect.getdoc(function)
        assert text, name
        if inspect.signature(function).parameters and name != "shape_to_tensor":
            assert "Raises:" in text, name


def test_functions_are_where_the_table_says() -> None:
    """What type checkers are told of the names of ``ops`` is what is imported for them."""
    tree = ast.parse(Path(ops.__file__).read_text("utf-8"))
    told = {
        (node.module.rpartition(".")[2], each.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(ops.__name__)
        for each in node.names
        if node.module not in (ops.__name__, f"{ops.__name__}.places")
    }
    assert told == {(place, name) for place, names in PLACES.items() for name in names}
    files = {path.stem for path in Path(ops.__file__).parent.glob("*.py")}
    assert files - {"__init__", "places"} == MODULES
    for place, name in told:
        assert getattr(ops, name) is getattr(import_module(f"{ops.__name__}.{place}"), name)
