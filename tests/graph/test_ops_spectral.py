"""Inverse transforms, windows and bands through the public API, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from maxlab import engine
from maxlab.dtype import DType
from maxlab.errors import ArgumentError, DTypeError
from maxlab.graph import DeviceRef, Graph, TensorType, ops
from maxlab.graph.ops.spectral import Normalization
from maxlab.opset.fft import Inverse, factors, padded, unit
from tests.compiler.interpret import Array, host

CPU = DeviceRef.CPU()
SIZES = (1, 2, 3, 6, 9, 16, 25, 49, 60, 64, 77, 97, 101, 121, 127, 134, 202, 221, 243, 256, 360,
         997, 1000, 1009, 1024, 2018)  # fmt: skip
"""Powers, products, primes with passes of their own, and primes that are convolutions."""


def run(build: Any, *arrays: Array, dims: Any = None) -> list[Array]:
    types = [
        TensorType(DType.from_numpy(x.dtype), x.shape if dims is None else dims[i])
        for i, x in enumerate(arrays)
    ]
    with Graph("g", input_types=types) as graph:
        graph.output(*build(*(v.tensor for v in graph.inputs)))
    return [host(x) for x in engine.InferenceSession().load(graph)(*arrays)]


def spectrum(rng: np.random.Generator, rows: int, n: int) -> tuple[Array, Array]:
    """Interleaved complex rows, and the same as complex numbers."""
    x = rng.standard_normal((rows, n // 2 + 1, 2))
    return x, x[..., 0] + 1j * x[..., 1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_irfft_of_every_kind_of_size(dtype: Any) -> None:
    rng = np.random.default_rng(1)
    both = [spectrum(rng, 3, n) for n in SIZES]
    given = [x.astype(dtype) for x, _ in both]

    def build(*xs: Any) -> list[Any]:
        return [ops.irfft(x, n, input_is_complex=True) for x, n in zip(xs, SIZES, strict=True)]

    for n, x, got in zip(SIZES, given, run(build, *given), strict=True):
        wide = x.astype(np.float64)
        want = np.fft.irfft(wide[..., 0] + 1j * wide[..., 1], n)
        assert got.shape == (3, n)
        off = np.abs(got - want).max() / np.abs(want).max()
        assert off < (6e-8 if dtype is np.float32 else 1e-15 * (3 + np.log2(n))), n


def test_a_result_is_the_sequence_whose_spectrum_was_given() -> None:
    rng = np.random.default_rng(2)
    x = rng.standard_normal((4, 67))
    s = np.fft.rfft(x)
    given = np.stack([s.real, s.imag], -1)
    (got,) = run(lambda v: [ops.irfft(v, 67, input_is_complex=True)], given)
    np.testing.assert_allclose(got, x, rtol=0, atol=1e-14)


def test_irfft_takes_any_axis_and_normalization() -> None:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((5, 6, 7)).astype(np.float32)
    cases: list[dict[str, Any]] = [
        {"axis": axis, "n": n, "normalization": how}
        for axis, n, how in [
            (0, None, "backward"), (1, 9, "ortho"), (2, 4, "forward"), (-1, 20, "ortho"),
            (-3, 8, Normalization.FORWARD), (-2, None, Normalization.BACKWARD),
        ]
    ]  # fmt: skip
    found = run(lambda v: [ops.irfft(v, **c) for c in cases], x)
    for case, got in zip(cases, found, strict=True):
        how: Any = Normalization(case["normalization"]).value
        want = np.fft.irfft(x.astype(np.complex128), case["n"], case["axis"], how)
        np.testing.assert_allclose(got, want, rtol=0, atol=2e-6)


def test_irfft_of_named_dims() -> None:
    rng = np.random.default_rng(4)
    x = rng.standard_normal((3, 7, 2)).astype(np.float32)
    with Graph("g", input_types=[TensorType(DType.float32, ["rows", "m", 2])]) as graph:
        graph.output(ops.irfft(graph.inputs[0].tensor, 10, axis=-1, input_is_complex=True))
    model = engine.InferenceSession().load(graph)
    for rows, m in ((3, 7), (1, 2), (3, 6), (0, 7)):
        part = np.ascontiguousarray(x[:rows, :m])
        want = np.fft.irfft(part[..., 0] + 1j * part[..., 1], 10)
        got = host(model(part)[0])
        assert got.shape == (rows, 10)
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-6)


def test_what_the_ends_of_a_spectrum_have_beside_is_left_out() -> None:
    x = np.ones((1, 3, 2), np.float32)
    x[0, :, 1] = [7, 0, -3]
    (got,) = run(lambda v: [ops.irfft(v, input_is_complex=True)], x)
    np.testing.assert_allclose(got, np.fft.irfft([1, 1, 1])[None], atol=1e-7)


def test_integers_have_no_spectrum() -> None:
    with Graph("g", input_types=[TensorType(DType.int32, [4])]) as graph:
        with pytest.raises(DTypeError, match="ML107"):
            ops.irfft(graph.inputs[0].tensor)
        with pytest.raises(DTypeError, match="ML107"):
            ops.hann_window(4, CPU, dtype=DType.int32)


def test_sizes_are_taken_apart() -> None:
    for n in range(1, 400):
        assert int(np.prod(factors(n))) == n
        size = padded(n)
        assert size >= 2 * n - 1
        assert max(factors(size), default=1) <= 5
        assert size < 1.2 * (2 * n - 1) + 4
    assert Inverse(2 * 67).chirped
    assert not Inverse(2 * 61).chirped


def test_sines_are_right_to_a_unit() -> None:
    for size in (1, 3, 8, 12, 1000, 12289):
        cos, sin = unit(np.arange(3 * size), size)
        angle = 2 * np.pi * (np.arange(3 * size) % size).astype(np.longdouble) / size
        assert np.abs(cos - np.cos(angle)).max() < 4e-16
        assert np.abs(sin - np.sin(angle)).max() < 4e-16
    assert unit(np.array([1, 2, 3]), 4)[0].tolist() == [0, -1, 0]


@pytest.mark.oracle
@pytest.mark.parametrize("periodic", [True, False])
@pytest.mark.parametrize("length", [0, 1, 2, 3, 16, 401])
def test_windows_are_those_of_torch(length: int, periodic: bool) -> None:
    torch = pytest.importorskip("torch")
    (got,) = run(lambda: [ops.hann_window(length, CPU, periodic, DType.float64)])
    want = torch.hann_window(length, periodic=periodic, dtype=torch.float64).numpy()
    assert got.shape == (length,)
    np.testing.assert_allclose(got, want, rtol=0, atol=4e-16)


def test_a_periodic_window_is_a_longer_one_without_its_end() -> None:
    for dtype in (DType.float32, DType.bfloat16):
        long, short = run(
            lambda d=dtype: [ops.hann_window(9, CPU, False, d), ops.hann_window(8, CPU, dtype=d)]
        )
        np.testing.assert_array_equal(long[:-1], short)


@pytest.mark.oracle
def test_irfft_is_that_of_torch() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(5)
    x, z = spectrum(rng, 4, 300)
    for n, how in ((300, "ortho"), (301, "backward"), (128, "forward")):
        (got,) = run(lambda v, n=n, how=how: [ops.irfft(v, n, -1, how, input_is_complex=True)], x)
        want = torch.fft.irfft(torch.from_numpy(z), n=n, norm=how).numpy()
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-13 * np.abs(want).max())


def test_interleaved_numbers_are_a_view() -> None:
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    with Graph("g", input_types=[TensorType(DType.float32, ["n", 6])]) as graph:
        made = ops.as_interleaved_complex(graph.inputs[0].tensor)
        assert list(made.shape)[1:] == [3, 2]
        graph.output(made)
    got = host(engine.InferenceSession().load(graph)(x)[0])
    np.testing.assert_array_equal(got, x.reshape(2, 3, 2))


@pytest.mark.parametrize("exclude", [False, True])
def test_bands(exclude: bool) -> None:
    x = np.arange(1, 61, dtype=np.float32).reshape(2, 5, 6)
    cases = [(None, None), (0, 0), (None, 0), (0, None), (1, 2), (5, 6), (2, None)]
    found = run(lambda v: [ops.band_part(v, *c, exclude=exclude) for c in cases], x)
    for (lower, upper), got in zip(cases, found, strict=True):
        inside = np.tril(np.triu(np.ones((5, 6)), -(5 if lower is None else lower)),
                         6 if upper is None else upper) == 1  # fmt: skip
        np.testing.assert_array_equal(got, np.where(inside != exclude, x, 0))


def test_a_band_leaves_no_nan_behind() -> None:
    x = np.full((3, 3), np.nan, np.float32)
    (got,) = run(lambda v: [ops.band_part(v, 0, 0, exclude=True)], x, dims=[("n", "m")])
    assert np.isnan(got).sum() == 6
    assert (np.diag(got) == 0).all()


@pytest.mark.parametrize("dtype", [DType.float32, DType.float64])
@pytest.mark.parametrize("periodic", [True, False])
def test_a_window_is_rounded_once_near_its_ends_too(dtype: DType, periodic: bool) -> None:
    """1 - cos would lose all digits there."""
    length = 300_007
    (got,) = run(lambda: [ops.hann_window(length, CPU, periodic, dtype)])
    period = length if periodic else length - 1
    k = np.arange(length)
    near = np.minimum(k, period - k).astype(np.longdouble)
    angle = near / period * 4 * np.arctan(np.longdouble(1))
    want = np.sin(angle) ** 2
    spacing = np.spacing(np.maximum(want, 1e-30).astype(dtype.ml_numpy)).astype(np.longdouble)
    inner = slice(0, None) if periodic else slice(0, -1)
    most = 1 if dtype is DType.float32 else 5
    assert (np.abs(got - want)[inner] <= most * spacing[inner]).all()


def test_tables_that_there_is_no_memory_for_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def table(self: Inverse) -> Array:
        raise MemoryError

    monkeypatch.setattr(Inverse, "table", table)
    with Graph("g", input_types=[TensorType(DType.float32, [9])]) as graph:
        graph.output(ops.irfft(graph.inputs[0], n=2**20 + 7))
    with pytest.raises(ArgumentError, match=r"(?s)MiB of sines.*ML387.*fix:"):
        engine.InferenceSession().load(graph)
