"""Random ops through the public API: what is the same, what differs, and how it is spread."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maxlab import engine
from maxlab.dtype import DType
from maxlab.errors import ArgumentError, DTypeError
from maxlab.graph import DeviceRef, Graph, TensorType, ops
from maxlab.opset import lookup
from maxlab.opset.random import fma, philox
from tests.compiler.interpret import Array, host

CPU = DeviceRef.CPU()
F32 = DType.float32
FLOATS = [DType.float16, DType.bfloat16, DType.float32, DType.float64]


def like(dtype: DType = F32, *shape: Any) -> TensorType:
    return TensorType(dtype, shape or (5,), CPU)


def made(build: Any, threads: int | None = None) -> list[Array]:
    """What a graph whose body is ``build`` gives."""
    with Graph("g") as graph:
        graph.output(*build())
    model = engine.InferenceSession(num_threads=threads).load(graph)
    return [host(x) for x in model()]


# The vectors of Random123, the authors' library: examples/kat_vectors, philox4x32 10.
VECTORS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    (
        (0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF),
        (0xFFFFFFFF, 0xFFFFFFFF),
        (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
    ),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "words"), VECTORS)
def test_philox_gives_the_published_words(
    counter: tuple[int, ...], key: tuple[int, int], words: tuple[int, ...]
) -> None:
    found = philox([np.array(c, np.uint32) for c in counter], key)
    assert tuple(int(w) for w in found) == words


def test_compiled_code_gives_the_published_words() -> None:
    """Seed 0, stream 0, block 0: the words of a block are 64 elements apart."""

    def build() -> list[Any]:
        from maxlab.graph.build import add

        return [
            add(
                "random",
                [],
                distribution="bits",
                dtype=DType.uint32,
                shape=(256,),
                device=CPU,
                seed=0,
                stream=0,
                parameters=(0.0, 0.0),
            )
        ]

    (bits,) = made(build)
    assert tuple(bits[::64].tolist()) == VECTORS[0][2]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_fma_of_the_reference_rounds_once(dtype: Any) -> None:
    from fractions import Fraction

    rng = np.random.default_rng(3)
    a, b, c = rng.standard_normal((3, 500)).astype(dtype)
    c[::2] = -(a * b)[::2]
    got = fma(a, b, c)
    for x, y, z, found in zip(a, b, c, got, strict=True):
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        if dtype is np.float64:
            assert float(exact) == found
        else:  # the nearest of the three floats around
            near = [np.nextafter(found, dtype(s)) for s in (-np.inf, np.inf)]
            off = abs(Fraction(float(found)) - exact)
            assert all(abs(Fraction(float(v)) - exact) >= off for v in near)


def test_the_seed_is_a_part_of_the_graph() -> None:
    def build(seed: int = 5) -> list[Any]:
        ops.random.set_seed(seed)
        return [ops.random.uniform(like()), ops.random.uniform(like()), ops.random.normal(like())]

    with Graph("g") as graph:
        graph.output(*build())
    model = engine.InferenceSession().load(graph)
    first = [host(x) for x in model()]
    for again in (model(), engine.InferenceSession().load(graph)(), made(build)):
        for x, y in zip(first, again, strict=True):
            np.testing.assert_array_equal(x, host(y) if not isinstance(y, np.ndarray) else y)
    assert not (first[0] == first[1]).any()
    other = made(lambda: build(6))
    assert not any((x == y).any() for x, y in zip(first, other, strict=True))


def test_another_process_makes_the_same_numbers() -> None:
    program = (
        "from maxlab import engine\n"
        "from maxlab.dtype import DType\n"
        "from maxlab.graph import DeviceRef, Graph, TensorType, ops\n"
        "with Graph('g') as graph:\n"
        "    ops.random.set_seed(9)\n"
        "    graph.output(ops.random.gaussian(TensorType(DType.float64, [4], DeviceRef.CPU())))\n"
        "print(engine.InferenceSession().load(graph)()[0].to_numpy().tolist())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env=dict(os.environ),
    )

    def build() -> list[Any]:
        ops.random.set_seed(9)
        return [ops.random.gaussian(like(DType.float64, 4))]

    assert done.stdout.strip() == str(made(build)[0].tolist())


def test_threads_make_the_same_numbers() -> None:
    def build() -> list[Any]:
        ops.random.set_seed(1)
        return [ops.random.gaussian(like(F32, 300_001))]

    (one,), (two,) = made(build, 1), made(build, 2)
    np.testing.assert_array_equal(one, two)


def test_a_seed_of_the_graph_is_the_same_as_an_int() -> None:
    with Graph("g", input_types=[ops.random.SeedType]) as graph:
        ops.random.set_seed(graph.inputs[0].tensor)
        graph.output(ops.random.gaussian(like()), ops.random.uniform(like()))
    model = engine.InferenceSession().load(graph)
    for seed in (0, 5, -3, 2**40):

        def build(seed: int = seed) -> list[Any]:
            ops.random.set_seed(seed)
            return [ops.random.gaussian(like()), ops.random.uniform(like())]

        for x, y in zip(made(build), model(np.array(seed)), strict=True):
            np.testing.assert_array_equal(x, host(y))


def test_a_failed_op_takes_no_numbers() -> None:
    def build(fail: bool) -> list[Any]:
        ops.random.set_seed(2)
        if fail:
            with pytest.raises(DTypeError):
                ops.random.uniform(like(DType.int32))
        return [ops.random.uniform(like())]

    np.testing.assert_array_equal(made(lambda: build(False))[0], made(lambda: build(True))[0])


def test_symbolic_and_empty_shapes() -> None:
    with Graph("g", input_types=[TensorType(F32, ["n", 3])]) as graph:
        ops.random.set_seed(4)
        graph.output(ops.random.uniform(graph.inputs[0].tensor.type))
    model = engine.InferenceSession().load(graph)
    found = {n: host(model(np.zeros((n, 3), np.float32))[0]) for n in (0, 1, 85, 86, 200)}
    for n, x in found.items():
        assert x.shape == (n, 3)
    assert len(np.unique(found[200])) > 590
    np.testing.assert_array_equal(found[85].ravel()[:64], found[200].ravel()[:64])


@pytest.mark.parametrize("dtype", FLOATS)
def test_how_numbers_are_spread(dtype: DType) -> None:
    count = 200_000

    def build() -> list[Any]:
        ops.random.set_seed(11)
        return [
            ops.random.gaussian(like(dtype, count), 2.0, 0.5),
            ops.random.uniform(like(dtype, count), (-1.0, 3.0)),
        ]

    normal, even = (np.sort(x.astype(np.float64)) for x in made(build))
    grain = {DType.float16: 2.0**-10, DType.bfloat16: 2.0**-7}.get(dtype, 0.0)
    expected = np.array([0.5 * math.erfc((2.0 - x) / (0.5 * 2**0.5)) for x in normal])
    steps = (np.arange(count) + 0.5) / count
    # The distance of Kolmogorov and Smirnov: 1.63 / sqrt(n) in one of 100 cases.
    allowed = 1.63 / count**0.5 + 2 * grain
    assert np.abs(expected - steps).max() < allowed
    assert np.abs((even + 1) / 4 - steps).max() < allowed
    assert even[0] >= -1
    assert even[-1] < 3
    assert abs(normal.mean() - 2) < 5 * 0.5 / count**0.5 + grain
    assert abs(normal.std() - 0.5) < 0.005
    assert np.isfinite(normal).all()


def test_neighbours_and_streams_are_not_related() -> None:
    def build() -> list[Any]:
        ops.random.set_seed(0)
        return [ops.random.normal(like(F32, 100_000)) for _ in range(2)]

    x, y = (v.astype(np.float64) for v in made(build))
    for a, b in ((x[1:], x[:-1]), (x[64:], x[:-64]), (x[128:], x[:-128]), (x, y)):
        assert abs(np.corrcoef(a, b)[0, 1]) < 5 / len(a) ** 0.5
        assert abs(np.corrcoef(a * a, b * b)[0, 1]) < 5 / len(a) ** 0.5


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("bounds", [(0.0, 1.0), (0.1, 0.7), (-3.0, -2.9), (1000.0, 1008.0)])
def test_a_range_is_half_open(dtype: DType, bounds: tuple[float, float]) -> None:
    def build() -> list[Any]:
        ops.random.set_seed(0)
        return [ops.random.uniform(like(dtype, 50_000), bounds)]

    x = made(build)[0].astype(np.float64)
    assert x.min() >= bounds[0]
    assert x.max() < bounds[1]


def test_parameters_may_be_tensors() -> None:
    with Graph("g", input_types=[TensorType(F32, []), TensorType(F32, [])]) as graph:
        a, b = (v.tensor for v in graph.inputs)
        ops.random.set_seed(3)
        graph.output(
            ops.random.uniform(like(DType.float16, 1000), (a, b)),
            ops.random.gaussian(like(F32, 1000), a, 2),
            ops.random.gaussian(like(F32, 1000), 0, b),
        )
    found = engine.InferenceSession().load(graph)(np.float32(-2), np.float32(0.5))
    even, moved, scaled = (host(x).astype(np.float64) for x in found)
    assert even.min() >= -2
    assert even.max() <= 0.5
    assert abs(moved.mean() + 2) < 0.3
    assert abs(scaled.std() - 0.5) < 0.1


def test_a_graph_read_from_text_makes_the_same_numbers(tmp_path: Path) -> None:
    with Graph("g") as graph:
        ops.random.set_seed(2**64 - 1)
        graph.output(ops.random.gaussian(like(), 1e-7, 3), ops.random.uniform(like()))
    graph.save(tmp_path / "graph.mlir")
    again = Graph("again", path=tmp_path / "graph.mlir")
    for x, y in zip(*(engine.InferenceSession().load(g)() for g in (graph, again)), strict=True):
        np.testing.assert_array_equal(host(x), host(y))


def test_there_are_two_distributions() -> None:
    facts = {"shape": (4,), "device": CPU, "seed": 0, "stream": 0, "parameters": (0.0, 1.0)}
    for how, dtype in (("poisson", F32), ("bits", F32)):
        with pytest.raises(ArgumentError, match="ML378"):
            lookup("mo.random").infer([], {**facts, "distribution": how, "dtype": dtype})


def test_integers_are_not_made() -> None:
    with Graph("g"):
        ops.random.set_seed(0)
        for dtype in (DType.int32, DType.bool, DType.float8_e4m3fn):
            with pytest.raises(DTypeError, match="ML107"):
                ops.random.normal(like(dtype))
