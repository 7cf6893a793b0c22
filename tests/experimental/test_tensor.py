"""Tensors: how they are made, what they say of themselves, and what reads them."""

from __future__ import annotations

import asyncio
import copy
import operator
import pickle
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import numpy as np
import pytest

import maxlab
from maxlab import driver, engine
from maxlab.driver import CPU
from maxlab.driver import Tensor as Memory
from maxlab.dtype import DType
from maxlab.errors import MaxlabError
from maxlab.experimental import functional as F  # noqa: N812 - as everybody calls it
from maxlab.experimental import tensor
from maxlab.experimental.tensor import ComputeGraph, Tensor
from maxlab.graph import BufferType, DeviceRef, Dim, Graph, TensorType, ops

F32, I32, I64 = DType.float32, DType.int32, DType.int64
ROW = np.array([[1.0, -2.0, 3.0]], np.float32)


# ---------------------------------------------------------------- making
def test_factories() -> None:
    like = TensorType(I32, (2, 4))
    made: list[tuple[Tensor, Any, DType]] = [
        (Tensor.zeros((2, 3)), np.zeros((2, 3)), F32),
        (Tensor.ones([2], dtype=I32), np.ones(2), I32),
        (Tensor.full((3, 1), 7.5), np.full((3, 1), 7.5), F32),
        (Tensor.full((), True, dtype=DType.bool), np.array(True), DType.bool),
        (Tensor.zeros_like(like), np.zeros((2, 4)), I32),
        (Tensor.ones_like(Tensor.zeros((2,))), np.ones(2), F32),
        (Tensor.full_like(like, 5), np.full((2, 4), 5), I32),
        (Tensor.range_like(like), np.array([[0, 1, 2, 3]] * 2), I32),
        (Tensor.arange(10), np.arange(10), F32),
        (Tensor.arange(5, 15, 2), np.arange(5, 15, 2), F32),
        (Tensor.arange(5, 0, -2, dtype=I64), np.arange(5, 0, -2), I64),
        (Tensor.arange(3, 3), np.arange(0), F32),
        (Tensor.constant(42, dtype=I32), np.array(42), I32),
        (Tensor.constant([[1, 2], [3, 4]]), np.array([[1, 2], [3, 4]]), F32),
        (Tensor.constant(np.array([1, 2], np.int64)), np.array([1, 2]), F32),
        (Tensor.from_dlpack(ROW), ROW, F32),
        (Tensor(storage=Memory.from_numpy(ROW.copy())), ROW, F32),
    ]
    for x, wanted, dtype in made:
        assert x.dtype is dtype
        assert tuple(x.shape) == wanted.shape
        assert x.device is CPU()
        np.testing.assert_array_equal(x.numpy(), wanted)


def test_what_no_factory_makes() -> None:
    calls: list[tuple[Callable[[], Any], type[Exception], str]] = [
        (lambda: Tensor.zeros(("batch", 4)), ValueError, "ML813"),
        (lambda: Tensor.ones_like(TensorType(F32, ["n"])), ValueError, "ML813"),
        (lambda: Tensor.full((2,), 3.7, dtype=I32), ValueError, "ML102"),
        (lambda: Tensor.constant(300, dtype=DType.uint8), ValueError, "ML102"),
        (lambda: Tensor.constant([[1, 2], [3]]), ValueError, "ML316"),
        (lambda: Tensor.arange(0, 3, 0), ValueError, "ML816"),
        (lambda: Tensor.arange(0, 3, -1), ValueError, "ML816"),
        (lambda: Tensor.arange("3"), TypeError, "ML816"),  # type: ignore[arg-type]
        (lambda: Tensor.range_like(TensorType(F32, [])), ValueError, "ML816"),
        (lambda: Tensor.zeros_like(3), TypeError, "ML379"),  # type: ignore[arg-type]
        (lambda: Tensor.from_dlpack([1.0]), TypeError, "ML421"),
        (Tensor, TypeError, "ML809"),
        (lambda: Tensor(storage=ROW), TypeError, "ML809"),  # type: ignore[arg-type]
        (lambda: tensor.driver_tensor_type(ROW), TypeError, "ML421"),  # type: ignore[arg-type]
        (lambda: Tensor.zeros((2,), dtype="float31"), TypeError, "ML399"),  # type: ignore[arg-type]
    ]
    for call, kind, code in calls:
        with pytest.raises(kind) as caught:
            call()
        assert isinstance(caught.value, MaxlabError)
        assert caught.value.code == code


def test_memory_is_shared_with_arrays() -> None:
    array = ROW.copy()
    x = Tensor.from_dlpack(array)
    array[0, 0] = 8
    assert x[0, 0].item() == 8
    x.numpy()[0, 1] = 9
    assert array[0, 1] == 9
    assert np.from_dlpack(x)[0, 1] == 9
    turned = Tensor.from_dlpack(array.T)
    assert (turned + 0).tolist() == array.T.tolist()


def test_defaults_and_contexts() -> None:
    assert tensor.defaults() == (F32, CPU())
    assert tensor.defaults(I64) == (I64, CPU())
    with tensor.default_dtype(I32):
        assert Tensor.ones((2,)).dtype is I32
        assert Tensor.arange(3).dtype is I32
        assert Tensor.ones((2,), dtype=F32).dtype is F32
    assert Tensor.ones((2,)).dtype is F32
    with driver.simulated():
        gpu = driver.Accelerator()
        assert tensor.defaults() == (DType.bfloat16, gpu)
        with tensor.default_device(CPU()):
            assert tensor.defaults() == (F32, CPU())
        with tensor.default_device(gpu), tensor.default_dtype(F32):
            x = Tensor.ones((2,))
            assert (x.device, x.dtype) == (gpu, F32)
            assert x.tolist() == [1, 1]
    var: ContextVar[int] = ContextVar("var", default=1)
    context = tensor.contextvar_context(var, 2)
    assert (context.__enter__(), var.get()) == (2, 2)
    assert not context.__exit__(None, None, None)
    assert var.get() == 1
    with pytest.raises(TypeError):
        tensor.default_dtype("no")  # type: ignore[arg-type]


# ---------------------------------------------------------------- facts and reads
def test_facts_are_known_without_a_value() -> None:
    x = Tensor.from_dlpack(ROW) * 2
    assert x.shape == [1, 3]
    assert (x.rank, x.num_elements(), x.dtype, x.device) == (2, 3, F32, CPU())
    assert x.type == TensorType(F32, [1, 3])
    assert len(x) == 1
    assert (x.real, x.storage) == (False, None)
    with pytest.raises(MaxlabError, match="recorded and not computed"):
        x.driver_tensor  # noqa: B018 - reading it raises
    x.shape.append(Dim(7))  # a list that is the caller's
    assert x.shape == [1, 3]
    x.realize  # noqa: B018 - reading it computes
    assert x.real
    assert x.driver_tensor is x.storage
    assert tensor.driver_tensor_type(x.driver_tensor) == x.type
    x.storage = Memory.from_numpy(np.zeros(2, np.float32))
    assert x.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("read", "wanted"),
    [
        (lambda x: x.item(), 3.0),
        (float, 3.0),
        (int, 3),
        (bool, True),
        (lambda x: [y.item() for y in x], [3.0]),
        (lambda x: f"{x:.2f}", "3.00"),
        (lambda x: f"{x}", "[3.]"),
        (str, "[3.]"),
        (repr, "Tensor([3.], dtype=float32, shape=(1,), device=cpu:0)"),
        (lambda x: np.asarray(x).tolist(), [3.0]),
        (lambda x: np.from_dlpack(x).tolist(), [3.0]),
        (lambda x: x.numpy().tolist(), [3.0]),
        (lambda x: x.to_numpy().tolist(), [3.0]),
        (lambda x: x.tolist(), [3.0]),
        (lambda x: 3 in x, True),
        (lambda x: 4 in x, False),
        (lambda x: x.clone().tolist(), [3.0]),
        (lambda x: asyncio.run(_awaited(x)), True),
        (lambda x: x._repr_mimebundle_(["text/plain"])["text/plain"][:8], "Tensor(["),
    ],
)
def test_what_reads_a_value(read: Callable[[Tensor], Any], wanted: Any) -> None:
    x = Tensor.constant([1.5]) * 2
    assert not x.real
    assert read(x) == wanted
    assert x.real


async def _awaited(x: Tensor) -> bool:
    return (await x) is x and (await x.realize) is x


def test_one_element_rules() -> None:
    many, none, one = Tensor.ones((2,)), Tensor.ones((0,)), Tensor.full((1, 1), 3, dtype=I64)
    reads: list[Callable[[Tensor], Any]] = [bool, float, int, operator.index, Tensor.item]
    reads.append(lambda x: f"{x:.1f}")
    for read in reads:
        for x in (many, none):
            with pytest.raises(TypeError, match="one element") as caught:
                read(x)
            assert isinstance(caught.value, MaxlabError)
            assert caught.value.code == "ML827"
            assert caught.value.at is not None
    assert [10, 11, 12, 13][one] == 13
    assert (one.item(), type(one.item())) == (3, int)
    assert type(Tensor.ones((1,)).item()) is float
    assert Tensor.ones((1,), dtype=DType.bool).item() is True
    for read in (len, list):
        with pytest.raises(TypeError) as caught:
            read(Tensor.constant(1.0))
        assert caught.value.code == "ML828"  # type: ignore[attr-defined]


def test_printing_is_numpys() -> None:
    for array in (ROW, np.arange(2000, dtype=np.float32), np.zeros((0, 3), np.float32), ROW > 0):
        assert str(Tensor.from_dlpack(array)) == str(array)
    large = Tensor.zeros((100, 100))
    assert str(large) == str(np.zeros((100, 100), np.float32))


def test_copies() -> None:
    x = Tensor.from_dlpack(ROW.copy()) * 2
    deep, shallow, pickled = copy.deepcopy(x), copy.copy(x), pickle.loads(pickle.dumps(x))
    for one in (deep, shallow, pickled):
        assert one.tolist() == [[2, -4, 6]]
    F.buffer_store(x, Tensor.zeros((1, 3)))
    assert deep.tolist() == pickled.tolist() == [[2, -4, 6]]
    assert shallow.tolist() == [[0, 0, 0]]


# ---------------------------------------------------------------- operations
def test_methods_and_operators_beside_numpy() -> None:
    a = np.array([[1.5, -2.0, 3.0], [4.0, 0.5, -6.0]], np.float32)
    b = np.array([[2.0, 2.0, -3.0], [1.0, 4.0, 5.0]], np.float32)
    x, y = Tensor.from_dlpack(a), Tensor.from_dlpack(b)
    cases: list[tuple[Any, Any]] = [
        (x + y, a + b), (x - 2, a - 2), (3 - x, 3 - a), (x * y, a * b), (1 / y, 1 / b),
        (x / y, a / b), (x // y, a // b), (x % y, a % b), (7 % y, 7 % b), (9 // y, 9 // b),
        (x**2, a**2), (2**x, 2**a), (-x, -a), (+x, a), (abs(x), abs(a)),
        (x @ y.T, a @ b.T), (x == y, a == b), (x != y, a != b), (x < y, a < b),
        (x <= 1.5, a <= 1.5), (x > y, a > b), (x >= y, a >= b),
        ((x > 0) & (y > 0), (a > 0) & (b > 0)),
        ((x > 0) | (y > 0), (a > 0) | (b > 0)), ((x > 0) ^ (y > 0), (a > 0) ^ (b > 0)),
        (~(x > 0), ~(a > 0)), (round(x), np.round(a)), (divmod(x, y)[0], a // b),
        (x.T, a.T), (x.transpose(0, 1), a.T), (x.permute([1, 0]), a.T),
        (x.reshape((3, 2)), a.reshape(3, 2)), (x.cast(I32), a.astype(np.int32)),
        (x.max(), a.max(-1, keepdims=True)), (x.max(axis=0), a.max(0, keepdims=True)),
        (x.mean(axis=0), a.mean(0, keepdims=True)), (x.argmax(), a.argmax(-1, keepdims=True)),
        (x.sum(), a.sum(-1, keepdims=True)), (x.to(CPU()), a), (x.relu(), np.maximum(a, 0)),
        (np.ones(3, np.float32) + x, 1 + a), (x - [1, 2, 3], a - [1, 2, 3]), (np.exp(x), np.exp(a)),
        (x + np.float64(1), a + 1), (x.astype("float64"), a),
    ]  # fmt: skip
    for number, (made, wanted) in enumerate(cases):
        assert isinstance(made, Tensor), number
        np.testing.assert_allclose(made.numpy(), wanted, rtol=1e-5, err_msg=str(number))
    assert x is +x
    assert (x == None).__class__ is not Tensor  # noqa: E711 - what a comparison with None gives
    with pytest.raises(TypeError, match="unhashable"):
        hash(x)


def test_integers_divide_as_the_graph_does() -> None:
    x = Tensor.constant([7, -7], dtype=I32)
    assert (x / 2).dtype is DType.float64
    assert (x // 2).tolist() == [3, -4]
    assert (x % 3).tolist() == [1, 2]


def test_gradients_are_those_of_torch() -> None:
    x = Tensor.ones((2,))
    for name in ("backward", "grad", "requires_grad", "requires_grad_"):
        with pytest.raises(AttributeError, match="torch.compile"):
            getattr(x, name)


def test_a_function_of_the_graph_refuses_tensors() -> None:
    with pytest.raises(MaxlabError, match="functional"):
        ops.relu(Tensor.ones((2,)))


# ---------------------------------------------------------------- graphs
def test_values_of_a_graph() -> None:
    """A tensor that stands for a value adds to the graph and has no elements."""
    with Graph("g", input_types=[TensorType(F32, ["n", 3])]) as graph:
        x = Tensor.from_graph_value(graph.inputs[0].tensor)
        y = F.relu(x * 2 + Tensor.ones((3,)))
        z = y[0] @ y.T
        assert all(isinstance(one, Tensor) and not one.real for one in (x, y, z))
        assert y.shape == graph.inputs[0].tensor.shape
        assert str(x).startswith("Tensor(value=")
        reads: list[Callable[[Tensor], Any]] = [Tensor.numpy, Tensor.item, lambda t: t.realize]
        for read in reads:
            with pytest.raises(MaxlabError):
                read(y)
        graph.output(y, z)
    made = engine.InferenceSession().load(graph)(ROW)
    np.testing.assert_array_equal(made[0].to_numpy(), np.maximum(ROW * 2 + 1, 0))
    buffer = BufferType(F32, [3], DeviceRef.CPU())
    with Graph("b", input_types=[buffer]) as graph:
        x = Tensor(value=graph.inputs[0].buffer)
        assert x.type == TensorType(F32, [3])
        graph.output(x + 1)
    assert engine.InferenceSession().load(graph)(np.zeros(3, np.float32))[0].tolist() == [1, 1, 1]


def test_the_graph_that_made_a_tensor() -> None:
    """It can be loaded, and has the lines of the program, also after the tensor was read."""
    x = Tensor.from_dlpack(ROW.copy())
    y = x * 2
    y = F.exp(y)
    for _ in range(2):
        graph = y.graph
        places = [op.loc.line for op in graph.function.ops if op.loc is not None]
        assert places[0] == places[1] == places[2] - 1  # the number, the product, the function
        assert engine.InferenceSession().load(graph)(ROW)[0].tolist() == y.tolist()
    assert [op.name for op in x.graph.function.ops] == ["mo.output"]
    assert "mo.exp" in str(y.graph)
    assert maxlab.load(y.graph)(ROW)[0].tolist() == y.tolist()


def test_compute_graphs() -> None:
    x = Tensor.from_dlpack(ROW.copy())
    y = x * 3
    z = y + 1
    graph = ComputeGraph(sources=[x])
    graph.add_unrealized(z)
    graph.add_source(Tensor.ones((2,)))
    assert len(graph.sources) == 3
    assert next(iter(graph.sources.values())).tolist() == ROW.tolist()
    assert {tuple(one.shape) for one in graph.unrealized.values()} == {(1, 3)}
    assert "mo.mul" in [op.name for op in graph.graph.function.ops]
    asyncio.run(graph.evaluate(z))
    assert z.real
    assert z.tolist() == (ROW * 3 + 1).tolist()
    assert y.tolist() == (ROW * 3).tolist()
    with pytest.raises(MaxlabError, match="context"):
        ComputeGraph(context=3)
