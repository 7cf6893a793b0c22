"""What a model takes as inputs, what it refuses and how it says so, and what it gives back."""

from __future__ import annotations

import importlib.util
import itertools
import threading
from typing import Any

import numpy as np
import pytest

from maxlab import driver, engine
from maxlab.driver import CPU, Tensor
from maxlab.dtype import DType
from maxlab.engine import InferenceSession
from maxlab.errors import InputError, InputTypeError, MaxlabError
from maxlab.graph import DeviceRef, Graph, TensorType, ops

F32 = DType.float32
Array = np.ndarray[Any, Any]


def ones(*shape: int) -> Array:
    """A float32 array of ones."""
    return np.ones(shape, np.float32)


@pytest.fixture(scope="module")
def model() -> engine.Model:
    """x[n, 2] * scale + y[2]."""
    types = [TensorType(F32, ["n", 2]), TensorType(F32, []), TensorType(F32, [2])]
    with Graph("linear", input_types=types) as graph:
        x, scale, y = (v.tensor for v in graph.inputs)
        graph.output(x * scale + y)
    return InferenceSession().load(graph)


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        ((ones(3, 2).astype(np.float64), 2.0, ones(2)), "ML609", "float64, expected float32"),
        ((ones(3, 2).astype(np.int32), 2.0, ones(2)), "ML609", "int32, expected float32"),
        ((ones(3, 2, 1), 2.0, ones(2)), "ML610", "rank 3"),
        ((ones(6), 2.0, ones(2)), "ML610", "rank 1"),
        ((ones(3, 3), 2.0, ones(2)), "ML602", "the type says 2"),
        ((ones(3, 2), 2.0, ones(3)), "ML602", r"input 2 \(input2\)"),
        ((ones(2, 3).T, 2.0, ones(2)), "ML606", "not contiguous"),
        ((ones(6, 2)[::2], 2.0, ones(2)), "ML606", "not contiguous"),
        ((Tensor.from_numpy(ones(4, 2))[::2, :], 2.0, ones(2)), "ML606", "not contiguous"),
        ((ones(3, 2), ones(1), ones(2)), "ML610", "rank 1"),
        ((2.0, 2.0, ones(2)), "ML610", "is a number"),
    ],
)
def test_wrong_inputs(model: engine.Model, args: tuple[Any, ...], code: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        model(*args)
    assert caught.value.code == code
    assert isinstance(caught.value, ValueError)
    np.testing.assert_array_equal(model(ones(3, 2), 2.0, ones(2))[0].to_numpy(), 3)


@pytest.mark.parametrize("value", ["text", None, object(), [[1.0, 2.0]], {"a": 1}])
def test_things_that_are_no_tensors(model: engine.Model, value: Any) -> None:
    with pytest.raises(InputTypeError) as caught:
        model(value, 2.0, ones(2))
    assert caught.value.code == "ML607"
    assert isinstance(caught.value, TypeError)


def test_inputs_by_name(model: engine.Model) -> None:
    expected = model(ones(3, 2), 2.0, ones(2))[0].to_numpy()
    for made in (
        model(ones(3, 2), input2=ones(2), input1=2.0),
        model(input2=ones(2), input0=ones(3, 2), input1=2.0),
    ):
        np.testing.assert_array_equal(made[0].to_numpy(), expected)


@pytest.mark.parametrize(
    ("args", "named", "words"),
    [
        ((), {"input0": 1, "input1": 2}, "misses the input 'input2'"),
        ((), {}, "misses the input 'input0'"),
        ((1, 2), {}, "misses the input 'input2'"),
        ((1, 2, 3, 4), {}, "takes 3 inputs, got 4"),
        ((1, 2, 3), {"input3": 1}, "no input 'input3'"),
        ((1, 2, 3), {"input0": 1}, "given twice"),
        ((1, 2, 3, 4), {"input0": 1}, "takes 3 inputs, got 4"),
    ],
)
def test_wrong_names(
    model: engine.Model, args: tuple[Any, ...], named: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputTypeError, match=words) as caught:
        model(*args, **named)
    assert caught.value.code == "ML604"


@pytest.mark.parametrize("count", [0, 2, 4])
def test_execute_with_another_number_of_inputs(model: engine.Model, count: int) -> None:
    with pytest.raises(InputError, match=f"takes 3 inputs, got {count}") as caught:
        model.execute(*[ones(2)] * count)
    assert caught.value.code == "ML605"


def test_execute_takes_no_names(model: engine.Model) -> None:
    with pytest.raises(TypeError):
        model.execute(ones(3, 2), 2.0, input2=ones(2))  # type: ignore[call-arg]


# ---------------------------------------------------------------- numbers
@pytest.mark.parametrize(
    "value", [2, 2.0, np.float32(2), np.float64(2), np.int64(2), np.array(2, np.float32)]
)
def test_numbers_for_rank_0(model: engine.Model, value: Any) -> None:
    np.testing.assert_array_equal(model(ones(1, 2), value, ones(2))[0].to_numpy(), 3)


@pytest.mark.parametrize(
    ("dtype", "good", "bad"),
    [
        (DType.int64, [3, -(2**63), True], [3.5, 2**63, "3"]),
        (DType.uint8, [0, 255], [256, -1, 1.5]),
        (DType.float32, [1, 2.5, float("nan"), 2**24], [2**24 + 1, 1 + 2j]),
        (DType.bool, [True, False], [2, 1.5]),
    ],
)
def test_numbers_are_checked(dtype: DType, good: list[Any], bad: list[Any]) -> None:
    with Graph("g", input_types=[TensorType(dtype, [])]) as graph:
        graph.output(graph.inputs[0].tensor)
    model = InferenceSession().load(graph)
    for value in good:
        np.testing.assert_equal(model(value)[0].item(), value)
    for value in bad:
        with pytest.raises((MaxlabError, TypeError)):
            model(value)


# ---------------------------------------------------------------- other tensors
def test_driver_tensors_are_read_in_place(model: engine.Model) -> None:
    x = Tensor.from_numpy(ones(3, 2))
    assert model(x, 1.0, Tensor.from_numpy(ones(2)))[0].to_numpy().tolist() == [[2.0, 2.0]] * 3
    part = Tensor.from_numpy(np.arange(12, dtype=np.float32).reshape(6, 2))[2:4, :]
    np.testing.assert_array_equal(model(part, 1.0, ones(2))[0].to_numpy(), [[5, 6], [7, 8]])


def test_tensors_between_elements(model: engine.Model) -> None:
    x = Tensor.from_numpy(np.zeros(17, np.uint8))[1:17].view(F32, [2, 2])
    with pytest.raises(InputError, match="not aligned") as caught:
        model(x, 1.0, ones(2))
    assert caught.value.code == "ML606"
    np.testing.assert_array_equal(model(x.copy(), 1.0, ones(2))[0].to_numpy(), 1)


def test_tensors_of_another_stream(model: engine.Model) -> None:
    """The model waits for what the stream still does to them."""
    side = driver.DeviceStream(CPU())
    x = Tensor(F32, [3, 2], side)
    started, release = threading.Event(), threading.Event()

    def write() -> None:
        started.set()
        release.wait(30)
        x.to_numpy()[:] = 5

    writer = threading.Thread(target=lambda: side.run(write))
    writer.start()
    started.wait(30)
    threading.Timer(0.1, release.set).start()
    made = model(x, 1.0, ones(2))[0].to_numpy()
    writer.join()
    np.testing.assert_array_equal(made, 6)


def test_read_only_arrays(model: engine.Model) -> None:
    x = ones(3, 2)
    x.flags.writeable = False
    np.testing.assert_array_equal(model(x, 2.0, ones(2))[0].to_numpy(), 3)


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_torch_tensors(model: engine.Model) -> None:
    import torch

    x = torch.ones(3, 2)
    np.testing.assert_array_equal(model(x, 2.0, torch.ones(2))[0].to_numpy(), 3)
    with pytest.raises(InputError, match="not contiguous"):
        model(torch.ones(2, 3).T, 2.0, torch.ones(2))


def test_objects_with_dlpack(model: engine.Model) -> None:
    class Foreign:
        def __init__(self, array: Array) -> None:
            self.array = array

        def __dlpack__(self, **kwargs: Any) -> Any:
            return self.array.__dlpack__()

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    np.testing.assert_array_equal(
        model(Foreign(ones(3, 2)), 2.0, Foreign(ones(2)))[0].to_numpy(), 3
    )
    with pytest.raises(InputError, match="not contiguous"):
        model(Foreign(ones(2, 3).T), 2.0, ones(2))


# ---------------------------------------------------------------- metadata and outputs
def test_metadata(model: engine.Model) -> None:
    specs = model.input_metadata
    assert [(s.name, s.shape, s.dtype) for s in specs] == [
        ("input0", [None, 2], F32),
        ("input1", [], F32),
        ("input2", [2], F32),
    ]
    assert [(s.shape, s.dtype) for s in model.output_metadata] == [([None, 2], F32)]
    assert "linear" in repr(model)


def test_outputs_are_a_list_of_tensors(model: engine.Model) -> None:
    made = model.execute(ones(3, 2), 2.0, ones(2))
    assert isinstance(made, list)
    assert isinstance(made[0], driver.Tensor)
    assert made[0].device == CPU()


def addresses(tensors: list[Tensor]) -> list[tuple[int, int]]:
    """Where each begins and ends."""
    return [(t.address, t.address + t.num_elements * t.dtype.size_in_bytes) for t in tensors]


def test_outputs_share_memory_with_nothing() -> None:
    w = ones(4, 4)
    with Graph("g", input_types=[TensorType(F32, ["n", 4])]) as graph:
        x = graph.inputs[0].tensor
        v = ops.constant_external("w", TensorType(F32, [4, 4]))
        y = ops.exp(x)
        graph.output(x, v, y, y, y.reshape((-1,)), ops.softmax(y @ v), v.T)
    model = InferenceSession().load(graph, weights_registry={"w": w})
    x0 = Tensor.from_numpy(ones(5, 4))
    first, second = model(x0), model(x0)
    taken = addresses([*first, *second, x0, Tensor.from_numpy(w)])
    program = model.bind(((5, 4),))
    arenas = [
        (start, start + arena.nbytes)
        for arena in program.arenas
        for frame in program.free
        for slot, offset in list(arena.offsets.items())[:1]
        for start in [frame.addresses[slot] - offset]
    ]
    assert arenas
    spans = sorted([*taken, *arenas])
    for (_, end), (start, _) in itertools.pairwise(spans):
        assert end <= start
    before = [t.to_numpy().copy() for t in second]
    first[0].to_numpy()[:] = 7
    np.testing.assert_array_equal(x0.to_numpy(), 1)
    np.testing.assert_array_equal(w, 1)
    for tensor, old in zip(second, before, strict=True):
        np.testing.assert_array_equal(tensor.to_numpy(), old)


def test_inputs_are_never_written() -> None:
    with Graph("g", input_types=[TensorType(F32, [3, 4, 5]), TensorType(F32, [3, 5, 4])]) as graph:
        x, y = (v.tensor for v in graph.inputs)
        p = ops.softmax(x @ y)  # y's keys are innermost: attention would lay it out anew
        graph.output(p @ x, x, y.transpose(1, 2), x.reshape((-1,))[::-1])
    model = InferenceSession().load(graph)
    rng = np.random.default_rng(0)
    x0, y0 = rng.random((3, 4, 5), np.float32), rng.random((3, 5, 4), np.float32)
    x1, y1 = x0.copy(), y0.copy()
    x0.flags.writeable = y0.flags.writeable = False
    model(x0, y0)
    np.testing.assert_array_equal(x0, x1)
    np.testing.assert_array_equal(y0, y1)


# ---------------------------------------------------------------- running
def test_execution_does_not_go_through_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every NumPy function that computes raises while the model runs."""
    with Graph("g", input_types=[TensorType(F32, ["n", 8])]) as graph:
        x = graph.inputs[0].tensor
        w = ops.constant(np.full((8, 8), 0.1, np.float32), F32, DeviceRef.CPU())
        y = ops.softmax(ops.gelu(x @ w))
        graph.output(y, ops.concat([y, x]), ops.sum(y, 0), ops.argmax(y), y.T, x[:, ::-1])
    model = InferenceSession().load(graph)
    x0 = ones(5, 8)
    expected = [t.to_numpy().copy() for t in model(x0)]

    def forbidden(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("NumPy was asked to compute")

    names = [
        n for n, v in vars(np).items()
        if isinstance(v, np.ufunc)
        or n in ("matmul", "dot", "einsum", "concatenate", "take", "sum", "array", "asarray",
                 "zeros", "empty", "ascontiguousarray", "copyto", "transpose", "where", "pad",
                 "argmax")
    ]  # fmt: skip
    assert len(names) > 80
    with monkeypatch.context() as patch:
        for name in names:
            patch.setattr(np, name, forbidden)
        again = model(x0)
        new_size = model(x0[:2])
    for tensor, want in zip(again, expected, strict=True):
        np.testing.assert_array_equal(tensor.to_numpy(), want)
    assert new_size[0].shape == (2, 8)


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_execute_one_model_at_once(threads: int) -> None:
    with Graph("g", input_types=[TensorType(F32, ["n", 64])]) as graph:
        x = graph.inputs[0].tensor
        y = ops.softmax(ops.tanh(x @ x.T))
        graph.output(y @ x, ops.sum(y, 0))
    model = InferenceSession(num_threads=threads).load(graph)
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal((n, 64)).astype(np.float32) for n in (3, 50, 50, 130)]
    expected = [[t.to_numpy().copy() for t in model(x)] for x in inputs]
    failures: list[str] = []

    def work(number: int) -> None:
        for turn in range(40):
            which = (number + turn) % len(inputs)
            for got, want in zip(model(inputs[which]), expected[which], strict=True):
                if not np.array_equal(got.to_numpy(), want):
                    failures.append(f"{number} {turn}")

    workers = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_do_not_depend_on_threads(threads: int) -> None:
    with Graph("g", input_types=[TensorType(F32, ["n", 96])]) as graph:
        x = graph.inputs[0].tensor
        y = ops.gelu(x @ x.T)
        graph.output(ops.softmax(y), ops.sum(y, 0), ops.concat([x, x], -1).T)
    x0 = np.random.default_rng(3).standard_normal((700, 96)).astype(np.float32)
    one = [t.to_numpy() for t in InferenceSession(num_threads=1).load(graph)(x0)]
    many = [t.to_numpy() for t in InferenceSession(num_threads=threads).load(graph)(x0)]
    for a, b in zip(one, many, strict=True):
        np.testing.assert_array_equal(a, b)


def test_bad_sessions() -> None:
    for bad in (0, -1, 1.5, "2"):
        with pytest.raises(MaxlabError):
            InferenceSession(num_threads=bad)  # type: ignore[arg-type]
    with pytest.raises(MaxlabError):
        InferenceSession(devices=["tpu"])
    with pytest.raises(TypeError):
        InferenceSession().load(42)
    with pytest.raises(RuntimeError):
        InferenceSession().load("no/such/file.mlir")
