"""``gather_nd``, ``scatter`` and ``scatter_nd`` through the public functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from maxlab import engine
from maxlab.driver import CPU, Accelerator, Tensor, simulated
from maxlab.dtype import DType
from maxlab.errors import ExecutionError, InputError
from maxlab.graph import DeviceRef, Dim, Graph, TensorType, ops

Array = np.ndarray[Any, Any]
F32, I32, I64 = DType.float32, DType.int32, DType.int64


def model(build: Any, *types: TensorType, threads: int | None = None) -> engine.Model:
    """The compiled model of one function of inputs."""
    with Graph("g", input_types=list(types)) as graph:
        graph.output(build(*graph.inputs))
    return engine.InferenceSession(num_threads=threads).load(graph)


def run(compiled: engine.Model, *arrays: Array) -> Array:
    (made,) = compiled(*arrays)
    return np.array(made.to_numpy())


def floats(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


# ---------------------------------------------------------------- gather_nd
def test_gather_nd_types() -> None:
    types = [TensorType(DType.bfloat16, ["a", "b", "c", "d", "e"]), TensorType(I32, ["a", "f", 3])]
    with Graph("g", input_types=types) as graph:
        x, rows = graph.inputs
        found = ops.gather_nd(x, rows, batch_dims=1)
        assert found.dtype is DType.bfloat16
        assert list(found.shape) == [Dim("a"), Dim("f"), Dim("e")]


def test_gather_nd_reads_slices_and_counts_from_the_end() -> None:
    x = floats(4, 5, 6)
    compiled = model(
        lambda v: ops.gather_nd(v, [[0, -1], [-4, 2]]), TensorType(F32, ["a", "b", "c"])
    )
    np.testing.assert_array_equal(run(compiled, x), x[[0, 0], [4, 2]])


@pytest.mark.parametrize("batch", [0, 1, 2])
def test_gather_nd_with_symbolic_sizes(batch: int) -> None:
    rng = np.random.default_rng(batch)
    x = floats(3, 4, 5, 6)
    names = ["a", "b", "c", "d"]
    lead = (3, 4)[:batch]
    at = np.stack([rng.integers(-n, n, (*lead, 7)) for n in x.shape[batch : batch + 2]], -1)
    compiled = model(
        lambda v, i: ops.gather_nd(v, i, batch),
        TensorType(F32, names),
        TensorType(I64, [*names[:batch], "m", 2]),
    )
    got = run(compiled, x, at)
    for place in np.ndindex(*lead, 7):
        np.testing.assert_array_equal(got[place], x[(*place[:batch], *at[place])])


# ---------------------------------------------------------------- scatter
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize(
    ("shape", "count", "axis"),
    [((7,), 30, 0), ((300_000,), 400_000, 0), ((3_000_000,), 400_000, 0), ((3_000_000,), 9, -1),
     ((50, 300), 70, 0), ((2, 4000), 9000, 1), ((3, 900, 20), 1000, 1), ((2, 5000, 3), 800, -2)],
)  # fmt: skip
def test_scatter_like_numpy(
    threads: int, index: Any, shape: tuple[int, ...], count: int, axis: int
) -> None:
    """The last of several updates stays, however the work is shared."""
    x = floats(*shape)
    many = list(shape)
    many[axis] = count
    n = shape[axis]
    updates = floats(*many) + 100
    indices = np.random.default_rng(count).integers(-n, n, many).astype(index)
    names = [f"x{d}" for d in range(len(shape))]
    rows: list[Any] = list(names)
    rows[axis] = "m"
    compiled = model(
        lambda v, u, i: ops.scatter(v, u, i, axis),
        TensorType(F32, names),
        TensorType(F32, rows),
        TensorType(DType.from_numpy(indices.dtype), rows),
        threads=threads,
    )
    want = x.copy()
    np.put_along_axis(want, np.where(indices < 0, indices + n, indices), updates, axis)
    np.testing.assert_array_equal(run(compiled, x, updates, indices), want)


def test_scatter_of_fewer_lines() -> None:
    x, updates = floats(4, 6), floats(2, 3)
    compiled = model(
        lambda v, u: ops.scatter(v, u, [[1, 1, 5], [0, -1, 2]]),
        TensorType(F32, ["a", "b"]),
        TensorType(F32, [2, 3]),
    )
    want = x.copy()
    want[0, 1], want[0, 5] = updates[0, 1:]
    want[1, 0], want[1, 5], want[1, 2] = updates[1]
    np.testing.assert_array_equal(run(compiled, x, updates), want)
    with pytest.raises(InputError, match="longer than the input") as caught:
        run(compiled, x[:1], updates)
    assert caught.value.code == "ML603"


# ---------------------------------------------------------------- scatter_nd
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_scatter_nd_like_numpy(threads: int, depth: int) -> None:
    rng = np.random.default_rng(depth)
    x = floats(30, 40, 20)
    rows = (50, 9)
    at = np.stack([rng.integers(-n, n, rows) for n in x.shape[:depth]], -1)
    updates = floats(*rows, *x.shape[depth:]) + 100
    names = ["a", "b", "c"]
    compiled = model(
        ops.scatter_nd,
        TensorType(F32, names),
        TensorType(F32, ["m", "n", *names[depth:]]),
        TensorType(I64, ["m", "n", depth]),
        threads=threads,
    )
    want = x.copy()
    for place in np.ndindex(*rows):
        want[tuple(at[place])] = updates[place]
    np.testing.assert_array_equal(run(compiled, x, updates, at), want)


# ---------------------------------------------------------------- out of range
CASES = {
    "gather_nd": lambda v, i: ops.gather_nd(v, ops.unsqueeze(i, -1)),
    "scatter": lambda v, i: ops.scatter(v, ops.cast(i, F32), i),
    "scatter_nd": lambda v, i: ops.scatter_nd(v, ops.cast(i, F32), ops.unsqueeze(i, -1)),
}


@pytest.mark.parametrize("bad", [5, -6, 2**40])
@pytest.mark.parametrize("name", CASES)
def test_an_index_out_of_range(name: str, bad: int) -> None:
    compiled = model(CASES[name], TensorType(F32, ["n"]), TensorType(I64, ["m"]))
    x = np.arange(5, dtype=np.float32)
    run(compiled, x, np.array([4, -5, 0]))
    with pytest.raises(ExecutionError, match=f"{bad} is out of range") as caught:
        run(compiled, x, np.array([4, bad, 0]))
    assert caught.value.code == "ML652"


@pytest.mark.parametrize("name", ["scatter", "scatter_nd", "gather_nd"])
def test_an_index_into_nothing(name: str) -> None:
    compiled = model(CASES[name], TensorType(F32, ["n"]), TensorType(I64, ["m"]))
    empty = np.zeros(0, np.float32)
    assert run(compiled, empty, np.zeros(0, np.int64)).shape == (0,)
    with pytest.raises(ExecutionError, match="0 is out of range"):
        run(compiled, empty, np.zeros(1, np.int64))


@pytest.mark.parametrize("name", CASES)
def test_an_index_out_of_range_on_a_gpu(name: str) -> None:
    place = DeviceRef.GPU()
    with simulated(check=True):
        gpu = Accelerator()
        types = [TensorType(F32, ["n"], place), TensorType(I64, ["m"], place)]
        with Graph("g", input_types=types) as graph:
            graph.output(CASES[name](*graph.inputs))
        compiled = engine.InferenceSession([gpu]).load(graph)

        def call(x: Array, i: Array) -> Array:
            (made,) = compiled.execute(*(Tensor.from_numpy(a).to(gpu) for a in (x, i)))
            gpu.synchronize()  # nothing waits for an empty result
            return np.array(made.to(CPU()).to_numpy())

        x = np.arange(5, dtype=np.float32)
        call(x, np.array([4, -5, 0]))
        for bad, given in ((7, x), (-6, x), (0, x[:0])):
            with pytest.raises(ExecutionError, match=f"{bad} is out of range") as caught:
                call(given, np.array([bad] * 3))
            assert caught.value.code == "ML652"


def test_an_index_out_of_range_names_its_op() -> None:
    rows = [TensorType(DType.float32, [4]), TensorType(DType.float32, [1])]
    with Graph("far", input_types=[*rows, TensorType(DType.int64, [1])]) as graph:
        x, new, at = graph.inputs
        graph.output(ops.scatter(x, new, at))
    model = engine.InferenceSession(num_threads=1).load(graph)
    with pytest.raises(ExecutionError, match=r"^scatter: the index 9 is out of range .* size 4"):
        model(np.zeros(4, np.float32), np.ones(1, np.float32), np.array([9]))
