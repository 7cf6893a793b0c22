"""Ops with sizes that only a run tells: values beside NumPy, dims that they define, errors."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import maxlab
from maxlab import driver, engine
from maxlab.analysis.memory import memory
from maxlab.analysis.recording import record
from maxlab.compiler import Options
from maxlab.dtype import DType
from maxlab.errors import ArgumentError, ExecutionError, InputError
from maxlab.graph import DeviceRef, Dim, Graph, TensorType, TensorValue, ops
from tests.compiler.interpret import Array, host

F32, I64, BOOL = DType.float32, DType.int64, DType.bool
Build = Callable[..., Sequence[Any]]
TARGETS = ("cpu", "simulator")


class Place:
    """Where graphs of a test are built and run."""

    def __init__(self, gpu: driver.Accelerator | None) -> None:
        self.gpu = gpu
        self.ref = DeviceRef.CPU() if gpu is None else DeviceRef.GPU()

    def load(
        self, build: Build, *types: tuple[DType, Sequence[Any]], options: Options | None = None
    ) -> engine.Model:
        """The model of ``build``, which gets the inputs and gives the outputs."""
        inputs = [TensorType(dtype, shape, self.ref) for dtype, shape in types]
        with Graph("dynamic", input_types=inputs) as graph:
            graph.output(*build(*(v.tensor for v in graph.inputs)))
        devices = [] if self.gpu is None else [self.gpu]
        return engine.InferenceSession(devices=devices).load(graph, options=options)

    def run(self, model: engine.Model, *arrays: Any) -> list[Array]:
        """The outputs as arrays."""
        given = [driver.Tensor.from_numpy(np.require(x, requirements="C")) for x in arrays]
        if self.gpu is not None:
            given = [x.to(self.gpu) for x in given]
        return [host(x.to(driver.CPU())) for x in model.execute(*given)]

    def range(self, *bounds: Any, **more: Any) -> TensorValue:
        """An int64 range there."""
        made: TensorValue = ops.range(*bounds, dtype=I64, device=self.ref, **more)
        return made


@pytest.fixture(scope="module", params=TARGETS)
def at(request: pytest.FixtureRequest) -> Iterator[Place]:
    if request.param == "cpu":
        yield Place(None)
        return
    with driver.simulated():
        yield Place(driver.Accelerator())


def sparse(rng: np.random.Generator, shape: Sequence[int], share: float, dtype: Any) -> Array:
    """Numbers of which ``share`` are not zero."""
    return (rng.integers(1, 5, shape) * (rng.random(shape) < share)).astype(dtype)


# ---------------------------------------------------------------- nonzero
@pytest.mark.parametrize("dtype", [DType.float32, DType.bool, DType.int8, DType.bfloat16])
def test_nonzero_of_every_shape(at: Place, dtype: DType) -> None:
    """Of random shapes, with none, some and all elements, of one chunk and of many."""
    rng = np.random.default_rng(3)
    dims = ("a", "b", "c")
    for rank in (1, 2, 3):
        model = at.load(lambda x: [ops.nonzero(x, "hits")], (dtype, dims[:rank]))
        shapes = [(0,) * rank, (1,) * rank, tuple(rng.integers(2, 12, rank).tolist())]
        if rank == 1:
            shapes += [(1023,), (1024,), (1025,), (20_000,)]
        for shape in shapes:
            for share in (0.0, 0.3, 1.0):
                x = sparse(rng, shape, share, dtype.ml_numpy)
                (got,) = at.run(model, x)
                assert got.dtype == np.int64
                np.testing.assert_array_equal(got, np.argwhere(x))


def test_nan_and_minus_zero(at: Place) -> None:
    model = at.load(lambda x: [ops.nonzero(x, "hits")], (F32, ["n"]))
    x = np.array([0.0, -0.0, np.nan, np.inf, 1e-45], np.float32)
    assert at.run(model, x)[0].ravel().tolist() == [2, 3, 4]


def test_rank_zero(at: Place) -> None:
    model = at.load(lambda x: [ops.nonzero(x, "hits"), ops.nonzero(x, "again") + 1], (F32, []))
    for number, count in ((0.0, 0), (2.0, 1)):
        first, second = at.run(model, np.array(number, np.float32))
        assert first.shape == second.shape == (count, 0)


# ---------------------------------------------------------------- dims that a run defines
def test_a_defined_dim_is_used_by_everything(at: Place) -> None:
    """Ranges, reshapes, maps, products, reductions and transposed outputs of its size."""

    def build(x: TensorValue, w: TensorValue) -> Sequence[Any]:
        found = ops.nonzero(x, "hits")
        hits = Dim("hits")
        flat = ops.reshape(found, [hits * 2])
        row = ops.gather(x, found[:, 0], 0)  # hits, m
        product = row @ w
        return [
            found,
            flat,
            at.range(0, hits),
            ops.transpose(row, 0, 1) * 2,
            product,
            ops.sum(product, 0),
            ops.softmax(product),
            ops.concat([row, x], 0),
            x * ops.cast(ops.transfer_to(TensorValue(hits), at.ref), F32),
        ]

    model = at.load(build, (F32, ["n", "m"]), (F32, ["m", 3]))
    rng = np.random.default_rng(4)
    for n, m, share in ((4, 5, 0.5), (3, 2, 0.0), (40, 30, 0.9), (4, 5, 0.2), (0, 4, 1.0)):
        x = sparse(rng, (n, m), share, np.float32)
        w = rng.standard_normal((m, 3)).astype(np.float32)
        got = at.run(model, x, w)
        found = np.argwhere(x)
        row = x[found[:, 0]]
        product = row @ w
        power = np.exp(product - product.max(1, keepdims=True, initial=-np.inf))
        want = [
            found,
            found.ravel(),
            np.arange(len(found)),
            row.T * 2,
            product,
            product.sum(0, keepdims=True),
            power / power.sum(1, keepdims=True),
            np.concatenate([row, x]),
            x * len(found),
        ]
        for one, two in zip(got, want, strict=True):
            np.testing.assert_allclose(one, two, rtol=2e-4, atol=2e-4)


def test_chains_of_dims(at: Place) -> None:
    """A dim that is found in what has a dim that was found: two stops, not one."""

    def build(x: TensorValue) -> Sequence[Any]:
        first = ops.nonzero(x, "a")[:, 0]
        odd = ops.nonzero(ops.equal(first % 2, 1), "b")[:, 0]
        other = ops.nonzero(ops.equal(x, 0), "zeros")
        return [ops.gather(first, odd, 0), at.range(0, Dim("a") + Dim("b") * 2), other]

    model = at.load(build, (F32, ["n"]))
    assert len(model.compiled.plan.cuts) == 2
    rng = np.random.default_rng(5)
    for n in (0, 1, 7, 3000):
        x = sparse(rng, (n,), 0.5, np.float32)
        got, count, other = at.run(model, x)
        first = np.flatnonzero(x)
        np.testing.assert_array_equal(got, first[first % 2 == 1])
        assert len(count) == len(first) + 2 * len(got)
        np.testing.assert_array_equal(other, np.argwhere(x == 0))


def test_what_reads_a_size_is_not_merged_with_what_it_is_made_of(at: Place) -> None:
    """A map of x, the count of that map, and a map that reads both: no kernel may be all three."""

    def build(x: TensorValue) -> Sequence[Any]:
        y = x * 2 - 4
        ops.nonzero(y, "hits")
        scale = ops.cast(ops.transfer_to(TensorValue(Dim("hits")), at.ref), F32)
        return [y * scale, ops.sum(y * scale), y]

    for options in (Options(), Options(fuse=False)):
        model = at.load(build, (F32, ["n"]), options=options)
        x = np.array([1, 2, 3, 2], np.float32)
        scaled, total, y = at.run(model, x)
        np.testing.assert_array_equal(y, x * 2 - 4)
        np.testing.assert_array_equal(scaled, y * 2)
        assert total.tolist() == [float((y * 2).sum())]


def test_rebind_names_and_asserts_what_was_found(at: Place) -> None:
    def build(x: TensorValue, y: TensorValue) -> Sequence[Any]:
        found = ops.nonzero(x, "hits")
        pairs = ops.rebind(ops.reshape(found, [Dim("hits") * 2]), ["pairs"])
        return [pairs, at.range(0, Dim("pairs")), ops.rebind(y, ["hits"], "as many as hits") + 1]

    model = at.load(build, (F32, ["n", 2]), (F32, ["m"]))
    x = np.array([[1, 0], [1, 1]], np.float32)
    pairs, number, y = at.run(model, x, np.zeros(3, np.float32))
    assert (pairs.tolist(), number.tolist(), y.tolist()) == (
        [0, 0, 1, 0, 1, 1], list(range(6)), [1, 1, 1]
    )  # fmt: skip
    with pytest.raises(InputError, match=r"as many as hits[\s\S]*4 == 3 does not hold[\s\S]*ML603"):
        at.run(model, x, np.zeros(4, np.float32))


# ---------------------------------------------------------------- dims that are there already
@pytest.mark.parametrize("dim", [2, "k", Dim("k"), Dim("n") - 2, Dim("k") * 2 - 2])
def test_a_dim_that_has_a_size_is_asserted(at: Place, dim: Any) -> None:
    build: Build = lambda x, y: [ops.nonzero(x, dim), y + 1]  # noqa: E731
    model = at.load(build, (F32, ["n"]), (F32, ["k"]))
    x, y = np.array([0, 1, 0, 1], np.float32), np.zeros(2, np.float32)
    assert at.run(model, x, y)[0].tolist() == [[1], [3]]
    x[0] = 1
    with pytest.raises(ExecutionError) as caught:
        at.run(model, x, y)
    assert caught.value.code == "ML726"
    assert isinstance(caught.value, ValueError)
    text = str(caught.value)
    named = "out_dim" if dim == 2 else f"the dim {str(Dim(dim))!r}"
    assert f"nonzero: {named} is 2, got 3" in text
    assert "test_ops_dynamic.py" in text
    x[0] = 0
    assert at.run(model, x, y)[0].tolist() == [[1], [3]]


def test_the_same_name_twice(at: Place) -> None:
    build: Build = lambda x, y: [ops.nonzero(x, "q") + ops.nonzero(y, "q")]  # noqa: E731
    model = at.load(build, (F32, ["n"]), (F32, ["m"]))
    x, y = np.array([0, 1, 1], np.float32), np.array([1, 0, 0, 1], np.float32)
    assert at.run(model, x, y)[0].ravel().tolist() == [1, 5]
    with pytest.raises(ExecutionError, match="the dim 'q' is 2, got 3"):
        at.run(model, x, np.ones(3, np.float32))


def test_an_assertion_that_nobody_reads(at: Place) -> None:
    def build(x: TensorValue) -> Sequence[Any]:
        ops.nonzero(x, 1)
        return [x * 2]

    model = at.load(build, (F32, ["n"]))
    assert at.run(model, np.array([0, 3], np.float32))[0].tolist() == [0, 6]
    with pytest.raises(ExecutionError, match="out_dim is 1, got 0"):
        at.run(model, np.zeros(3, np.float32))


def test_dims_that_nobody_defines_are_errors_of_load() -> None:
    place = Place(None)
    with pytest.raises(InputError, match="'q' of range has no size") as caught:
        place.load(lambda x: [place.range(0, Dim("q"))], (F32, ["n"]))
    assert caught.value.code == "ML601"

    def too_early(x: TensorValue) -> Sequence[Any]:
        number = place.range(0, Dim("q"))
        return [number, ops.nonzero(x, "q")]

    with pytest.raises(InputError, match="ML601"):
        place.load(too_early, (F32, ["n"]))
    with pytest.raises(InputError, match="ML601"):
        place.load(lambda x: [ops.nonzero(x, Dim("q") * 2)], (F32, ["n"]))
    with pytest.raises(ArgumentError, match="ML728"):
        place.load(lambda x: [ops.nonzero(x, Dim(2) - 5)], (F32, ["n"]))


# ---------------------------------------------------------------- masked_scatter
def test_masked_scatter(at: Place) -> None:
    build: Build = lambda x, mask, new: [ops.masked_scatter(x, mask, new, "holes")]  # noqa: E731
    model = at.load(build, (F32, ["n", "m"]), (BOOL, ["n", "m"]), (F32, ["k"]))
    rng = np.random.default_rng(6)
    for n, m, share in ((3, 4, 0.5), (2, 3, 0.0), (60, 70, 0.4), (4, 1, 1.0), (0, 3, 1.0)):
        x = rng.standard_normal((n, m)).astype(np.float32)
        mask = rng.random((n, m)) < share
        new = rng.standard_normal(int(mask.sum())).astype(np.float32)
        want = x.copy()
        want[mask] = new
        np.testing.assert_array_equal(at.run(model, x, mask, new)[0], want)
        with pytest.raises(InputError, match="number of updates"):
            at.run(model, x, mask, np.append(new, np.float32(1)))


def test_masked_scatter_of_asserted_size_and_broadcast_mask(at: Place) -> None:
    build: Build = lambda x, mask, new: [ops.masked_scatter(x, mask, new, Dim("k") * 2)]  # noqa: E731
    model = at.load(build, (DType.int32, [3, 2]), (BOOL, [3, 1]), (DType.int32, ["k", 2]))
    x, new = np.zeros((3, 2), np.int32), np.arange(1, 5, dtype=np.int32).reshape(2, 2)
    mask = np.array([[True], [False], [True]])
    assert at.run(model, x, mask, new)[0].tolist() == [[1, 2], [0, 0], [3, 4]]
    with pytest.raises(ExecutionError, match=r"masked_scatter: the dim '.*' is 4, got 2"):
        at.run(model, x, np.array([[True], [False], [False]]), new)


# ---------------------------------------------------------------- bounds that are computed
def test_range_with_computed_bounds(at: Place) -> None:
    build: Build = lambda a, b, c: [at.range(a, b, c, out_dim="r") * 2, at.range(a, 9, out_dim="s")]  # noqa: E731
    model = at.load(build, (I64, []), (I64, []), (I64, []))
    for a, b, c in ((0, 10, 3), (5, 5, 1), (7, -8, -3), (2, 3, 100)):
        got, other = at.run(model, *(np.array(v) for v in (a, b, c)))
        np.testing.assert_array_equal(got, np.arange(a, b, c) * 2)
        np.testing.assert_array_equal(other, np.arange(a, 9))
    for a, b, c in ((0, 5, 0), (0, 5, -1), (5, 4, 1)):
        with pytest.raises(ExecutionError, match=r"range: the dim 'r'[\s\S]*step[\s\S]*ML727"):
            at.run(model, *(np.array(v) for v in (a, b, c)))


def test_range_of_floats_and_an_asserted_size(at: Place) -> None:
    def build(a: TensorValue, b: TensorValue) -> Sequence[Any]:
        return [ops.range(a, b, 0.25, out_dim=4, dtype=F32, device=at.ref)]

    model = at.load(build, (F32, []), (F32, []))
    assert at.run(model, np.float32(1), np.float32(2))[0].tolist() == [1, 1.25, 1.5, 1.75]
    with pytest.raises(ExecutionError, match="range: out_dim is 4, got 5"):
        at.run(model, np.float32(1), np.float32(2.1))


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_repeat_interleave_with_computed_repeats(at: Place, axis: int | None) -> None:
    def build(x: TensorValue, r: TensorValue) -> Sequence[Any]:
        return [ops.repeat_interleave(x, ops.rebind(r, [size]), axis, "total")]

    size = {None: Dim("n") * 3, 0: Dim("n"), 1: Dim(3)}[axis]
    model = at.load(build, (F32, ["n", 3]), (DType.int32, ["k"]))
    rng = np.random.default_rng(7)
    for n in (0, 1, 4, 500):
        x = rng.standard_normal((n, 3)).astype(np.float32)
        counts = rng.integers(0, 4, size.evaluate({"n": n})).astype(np.int32)
        want = np.repeat(x, counts, axis)
        np.testing.assert_array_equal(at.run(model, x, counts)[0], want)
    counts[0] = -2
    with pytest.raises(ExecutionError, match=r"the size -2: the least of the repeats[\s\S]*ML727"):
        at.run(model, x, counts)


def test_repeat_interleave_with_one_repeat(at: Place) -> None:
    build: Build = lambda x, r: [ops.repeat_interleave(x, r, 0, "total")]  # noqa: E731
    model = at.load(build, (F32, [2, "m"]), (I64, []))
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for count in (0, 1, 3):
        np.testing.assert_array_equal(at.run(model, x, np.array(count))[0], np.repeat(x, count, 0))


def test_slices_with_computed_bounds(at: Place) -> None:
    def build(x: TensorValue, a: TensorValue, b: TensorValue) -> Sequence[Any]:
        return [
            x[(slice(a, b), "k"), 1:],
            x[(slice(a, None), "rest")] * 2,
            x[0, (slice(None, b, 2), "even")],
            x[(slice(None, a, -1), "down"), None],
            x[a, (slice(b, None), "tail")],
        ]

    model = at.load(build, (F32, [5, 5]), (I64, []), (I64, []))
    x = np.arange(25, dtype=np.float32).reshape(5, 5)
    for a, b in ((1, 4), (-3, 5), (4, 1), (0, 0), (-5, -1), (4, -5)):
        got = at.run(model, x, np.array(a), np.array(b))
        want = [x[a:b, 1:], x[a:] * 2, x[0, :b:2], x[:a:-1, None], x[a, b:]]
        for one, two in zip(got, want, strict=True):
            np.testing.assert_array_equal(one, two)
    with pytest.raises(ExecutionError, match=r"slice_tensor: the bound 6 is out of range[\s\S]*5"):
        at.run(model, x, np.array(0), np.array(6))
    got = at.run(model, x, np.array(1), np.array(2))
    np.testing.assert_array_equal(got[0], x[1:2, 1:])


def test_slices_of_symbolic_dims_and_asserted_sizes(at: Place) -> None:
    build: Build = lambda x, y, a: [x[(slice(a, None), "m")] + y]  # noqa: E731
    model = at.load(build, (F32, ["n"]), (F32, ["m"]), (I64, []))
    x = np.arange(6, dtype=np.float32)
    np.testing.assert_array_equal(at.run(model, x, x[:2], np.array(4))[0], x[4:] + x[:2])
    with pytest.raises(ExecutionError, match="slice_tensor: the dim 'm' is 2, got 3"):
        at.run(model, x, x[:2], np.array(3))


def test_broadcast_to_a_computed_shape(at: Place) -> None:
    def build(x: TensorValue, shape: TensorValue) -> Sequence[Any]:
        return [ops.broadcast_to(x, shape + 0, ["a", "n", "b"]), at.range(0, Dim("a"))]

    model = at.load(build, (F32, ["n", 1]), (DType.int32, [3]))
    x = np.array([[1], [2]], np.float32)
    for a, b in ((2, 3), (0, 1), (1, 0)):
        got, number = at.run(model, x, np.array([a, 2, b], np.int32))
        np.testing.assert_array_equal(got, np.broadcast_to(x, (a, 2, b)))
        assert len(number) == a
    with pytest.raises(ExecutionError, match="broadcast_to: the dim 'n' is 2, got 4"):
        at.run(model, x, np.array([1, 4, 1], np.int32))
    with pytest.raises(ExecutionError, match="ML727"):
        at.run(model, x, np.array([-1, 2, 1], np.int32))


# ---------------------------------------------------------------- how it runs
def found(x: TensorValue) -> Sequence[Any]:
    """Where ``x`` is not zero, and the values that are there."""
    where = ops.nonzero(x, "hits")[:, 0]
    return [where, ops.gather(x, where, 0) * 2]


def test_many_sizes_and_threads(at: Place) -> None:
    """Threads that run one model at once, all with other sizes, and more of them than are kept."""
    model = at.load(found, (F32, ["n"]))
    wrong: list[BaseException] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        try:
            for _ in range(40 if at.gpu is None else 8):
                x = sparse(rng, (100,), rng.random(), np.float32)
                where, values = at.run(model, x)
                np.testing.assert_array_equal(where, np.flatnonzero(x))
                np.testing.assert_array_equal(values, x[x != 0] * 2)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong[0]


def test_profiles_memory_and_recordings(at: Place, tmp_path: Any) -> None:
    """Times of all stages together, and everything that reads a model."""
    model = at.load(found, (F32, ["n"]))
    x = sparse(np.random.default_rng(1), (5000,), 0.5, np.float32)
    given: Any = driver.Tensor.from_numpy(x)
    if at.gpu is not None:
        given = given.to(at.gpu)
    with pytest.raises(ArgumentError, match="ML629"):
        memory(model)
    profile = model.profile(given, runs=3)
    hits = int(np.count_nonzero(x))
    assert profile.dims == {"n": 5000, "hits": hits}
    assert len(profile.kernels) == len(model.compiled.plan.steps)
    assert all(kernel.ns > 0 for kernel in profile.kernels)
    assert [k.id for k in profile.kernels] == sorted(model.kernels, key=lambda k: int(k[1:]))
    assert profile.timeline is not None
    plan = memory(model)
    assert plan.dims == profile.dims
    assert plan.arena >= plan.peak > 0
    saved = maxlab.load_run(profile.save(tmp_path / "dynamic.mlprof"))
    assert len(saved.kernels) == len(profile.kernels)
    with record() as recorded:
        model(given)
        model(given)
    assert recorded.models[0].profile.dims == profile.dims
    assert maxlab.compare(model, given)


def test_random_programs(at: Place) -> None:
    """Programs of random steps on what was found, each of which NumPy takes too."""
    for seed in range(6 if at.gpu is None else 3):
        rng = np.random.default_rng(seed)
        picks = rng.integers(0, 5, 6).tolist()

        def build(x: TensorValue, picks: list[int] = picks) -> Sequence[Any]:
            made = []
            for number, pick in enumerate(picks):
                if pick == 0:
                    x = ops.gather(x, ops.nonzero(x > 0.3, f"d{number}")[:, 0], 0)
                elif pick == 1:
                    counts = ops.cast(ops.abs(x) * 2, I64)
                    x = ops.repeat_interleave(x, counts, 0, f"d{number}")
                elif pick == 2:
                    half = ops.sum(ops.cast(x > 0, I64))[0] // 2
                    x = x[(slice(half, None), f"d{number}")]
                elif pick == 3:
                    x = ops.masked_scatter(
                        x,
                        x < 0,
                        ops.gather(x, ops.nonzero(x < 0, f"d{number}")[:, 0], 0) * -1,
                        f"d{number}",
                    )
                else:
                    x = ops.concat([x * 0.5, x[::-1]], 0)
                made.append(x)
            return made

        model = at.load(build, (F32, ["n"]))
        for n in (0, 1, 9, 60):
            x = rng.standard_normal(n).astype(np.float32)
            want, y = [], x
            for pick in picks:
                if pick == 0:
                    y = y[y > np.float32(0.3)]
                elif pick == 1:
                    y = np.repeat(y, (np.abs(y) * 2).astype(np.int64))
                elif pick == 2:
                    y = y[int((y > 0).sum()) // 2 :]
                elif pick == 3:
                    y = np.where(y < 0, -y, y)
                else:
                    y = np.concatenate([y * np.float32(0.5), y[::-1]])
                want.append(y)
            for one, two in zip(at.run(model, x), want, strict=True):
                np.testing.assert_array_equal(one, two)


def test_bounds_on_the_host_of_tensors_on_a_gpu() -> None:
    with driver.simulated():
        gpu = driver.Accelerator()
        place = DeviceRef.GPU()
        types = [TensorType(F32, ["n"], place), TensorType(I64, []), TensorType(I64, [])]
        with Graph("mixed", input_types=types) as graph:
            x, a, b = (v.tensor for v in graph.inputs)
            number = ops.cast(ops.range(a, b, out_dim="k", dtype=I64, device=place), F32)
            there = ops.nonzero(x[(slice(a, b), "k")] + number, "hits")
            here = ops.nonzero(ops.transfer_to(x, DeviceRef.CPU()), "more")
            graph.output(number, there, here)
        model = engine.InferenceSession(devices=[gpu]).load(graph)
        array = np.array([0, -1, 3, 0, 5], np.float32)
        for first, last in ((1, 4), (0, 5), (2, 2)):
            given = driver.Tensor.from_numpy(array).to(gpu)
            got = model(given, np.array(first), np.array(last))
            line, some, all_of = (host(t.to(driver.CPU())) for t in got)
            np.testing.assert_array_equal(line, np.arange(first, last))
            np.testing.assert_array_equal(some, np.argwhere(array[first:last] + line))
            np.testing.assert_array_equal(all_of, np.argwhere(array))


def test_a_model_goes_on_with_what_it_adopts(at: Place) -> None:
    model = at.load(found, (F32, ["n"]))
    x = np.array([0, 1, 0, 2], np.float32)
    before = at.run(model, x)
    model.adopt(model.reload(options=Options(fuse=False)))
    for one, two in zip(at.run(model, x), before, strict=True):
        np.testing.assert_array_equal(one, two)


def test_subgraphs_that_find_something(at: Place) -> None:
    with Graph("outer", input_types=[TensorType(F32, ["n"], at.ref)]) as graph:
        x = graph.inputs[0].tensor

        def body(y: TensorValue) -> TensorValue:
            made: TensorValue = ops.nonzero(y, "hits")[:, 0] * 2
            return made

        inner = graph.add_subgraph("inner", body, [TensorType(F32, ["n"], at.ref)])
        graph.output(*ops.call(inner, x))
    devices = [] if at.gpu is None else [at.gpu]
    model = engine.InferenceSession(devices=devices).load(graph)
    assert at.run(model, np.array([0, 1, 1], np.float32))[0].tolist() == [2, 4]


def test_each_call_of_a_subgraph_has_its_own_sizes(at: Place) -> None:
    """Dims that stay inside differ between calls; one that comes out is the same in all of them."""

    def body(y: TensorValue) -> TensorValue:
        made: TensorValue = ops.gather(y, ops.nonzero(y > 1, "hits")[:, 0], 0)
        return y - ops.sum(ops.rebind(made, ["again"]) * 0 + 1, axis=0)

    def outer(y: TensorValue) -> TensorValue:
        made: TensorValue = ops.nonzero(y, "some")[:, 0]
        return made

    type = TensorType(F32, ["n"], at.ref)
    with Graph("outer", input_types=[type]) as graph:
        inner, found = (
            graph.add_subgraph(name, one, [type])
            for name, one in (("inner", body), ("found", outer))
        )
        once = ops.call(inner, graph.inputs[0])[0]
        twice = ops.call(inner, once)[0]
        graph.output(once, twice, *ops.call(found, twice), *ops.call(found, twice))
    devices = [] if at.gpu is None else [at.gpu]
    model = engine.InferenceSession(devices=devices).load(graph)
    for x in (np.array([2, 3, 5, 0], np.float32), np.array([9, 1, 1, 1], np.float32)):
        first = x - (x > 1).sum()
        second = first - (first > 1).sum()
        for y, wanted in zip(
            at.run(model, x), [first, second, *[second.nonzero()[0]] * 2], strict=True
        ):
            assert y.tolist() == wanted.tolist()


def test_graphs_as_text(tmp_path: Any) -> None:
    """A graph that was saved defines and asserts the same dims."""
    with Graph("text", input_types=[TensorType(F32, ["n"]), TensorType(I64, [])]) as graph:
        x, a = (v.tensor for v in graph.inputs)
        graph.output(*found(x), x[(slice(a, None), "tail")], ops.nonzero(x > 1, "tail"))
    graph.save(tmp_path / "text.mlir")
    again = Graph(path=tmp_path / "text.mlir")
    assert str(again) == str(graph)
    model = engine.InferenceSession().load(again)
    array = np.array([0, 2, 0, 3], np.float32)
    where, values, tail, big = (t.to_numpy() for t in model(array, np.array(2)))
    assert where.tolist() == [1, 3]
    assert values.tolist() == [4, 6]
    assert tail.tolist() == [0, 3]
    assert big.tolist() == [[1], [3]]
    with pytest.raises(ExecutionError, match="the dim 'tail' is 1, got 2"):
        model(array, np.array(3))


def test_models_without_such_dims_are_as_they_were() -> None:
    place = Place(None)
    model = place.load(lambda x: [x * 2], (F32, ["n"]))
    assert type(model) is engine.Model
    assert not model.compiled.plan.cuts
    assert place.load(found, (F32, ["n"])).compiled.plan.cuts
