"""Weights that are known when a model is loaded are laid out anew: what products make of them is
what they make of the same numbers as inputs, and of NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest

from maxlab.driver import Tensor
from maxlab.dtype import DType
from maxlab.engine import InferenceSession
from maxlab.graph import DeviceRef, Graph, TensorType, TensorValue, ops
from maxlab.graph.quantization import QuantizationEncoding
from maxlab.ir import ConvInputLayout, FilterLayout
from maxlab.opset.quantized import FORMATS, quantized_left, random_blocks

Array = np.ndarray[Any, Any]
Body = Callable[[TensorValue, TensorValue], TensorValue]


@pytest.fixture(scope="module")
def session() -> InferenceSession:
    """Two threads, as products are shared."""
    return InferenceSession(num_threads=2)


def run(session: InferenceSession, x: Array, w: Array, body: Body, *, known: bool) -> Array:
    """``body`` of ``x`` and ``w``, which is a constant or an input."""
    arrays = [x] if known else [x, w]
    types = [TensorType(DType.from_numpy(a.dtype), a.shape) for a in arrays]
    with Graph("packed", input_types=types) as graph:
        values = [value.tensor for value in graph.inputs]
        if known:
            values.append(ops.constant(w, DType.from_numpy(w.dtype), DeviceRef.CPU()))
        graph.output(body(*values))
    (y,) = session.load(graph).execute(*(Tensor.from_numpy(a) for a in arrays))
    made: Array = y.to_ml_numpy()
    return made


@dataclass(frozen=True)
class Conv:
    """A convolution: images, their size, channels, filters, window and attributes."""

    shape: tuple[int, int, int, int]
    filters: int
    window: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    groups: int = 1


CONVS = [
    Conv((2, 9, 7, 5), 33, (3, 2), padding=(1, 1, 0, 1)),
    Conv((1, 20, 31, 3), 40, (7, 5), stride=(2, 2), padding=(3, 3, 2, 2)),
    Conv((3, 14, 15, 64), 96, (3, 3), padding=(1, 1, 1, 1)),
    Conv((2, 8, 9, 33), 300, (1, 1)),
    Conv((1, 11, 12, 35), 17, (2, 3), dilation=(2, 3), padding=(2, 0, 1, 4), stride=(1, 2)),
    Conv((2, 6, 5, 24), 48, (3, 3), groups=2, padding=(1, 1, 1, 1)),
    Conv((1, 17, 19, 50), 50, (3, 3), groups=50, padding=(1, 0, 2, 1)),
    Conv((2, 12, 33, 20), 20, (3, 5), groups=20, stride=(2, 3), dilation=(1, 2)),
]


@pytest.mark.parametrize("first", [False, True], ids=["NHWC", "NCHW"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("conv", CONVS, ids=str)
def test_filters_of_convolutions(
    conv: Conv, dtype: str, first: bool, session: InferenceSession
) -> None:
    rng = np.random.default_rng(1)
    kind = DType[dtype].ml_numpy
    # Small integers, whose sums are exact in any order and dtype.
    x = rng.integers(-2, 3, conv.shape).astype(kind)
    w = rng.integers(-1, 2, (*conv.window, conv.shape[3] // conv.groups, conv.filters)).astype(kind)
    attrs: dict[str, Any] = {
        "stride": conv.stride, "dilation": conv.dilation, "padding": conv.padding,
        "groups": conv.groups,
    }  # fmt: skip

    def body(image: TensorValue, filters: TensorValue) -> TensorValue:
        if not first:
            return ops.conv2d(image, filters, **attrs)
        return ops.conv2d(
            image, filters, **attrs, input_layout=ConvInputLayout.NCHW,
            filter_layout=FilterLayout.FCRS,
        )  # fmt: skip

    wanted = _conv(x.astype(np.float64), w.astype(np.float64), conv)
    if first:
        x, w = np.moveaxis(x, -1, 1).copy(), w.transpose(3, 2, 0, 1).copy()
        wanted = np.moveaxis(wanted, -1, 1)
    for known in (True, False):
        made = run(session, x, w, body, known=known)
        np.testing.assert_array_equal(made.astype(np.float64), wanted.astype(kind).astype(float))


def _conv(x: Array, w: Array, conv: Conv) -> Array:
    """The convolution by its definition, channels last."""
    top, bottom, left, right = conv.padding
    x = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))
    rows, columns, depth, filters = w.shape
    sizes = [
        (x.shape[1 + n] - (w.shape[n] - 1) * conv.dilation[n] - 1) // conv.stride[n] + 1
        for n in (0, 1)
    ]
    y = np.zeros((x.shape[0], *sizes, filters))
    each = filters // conv.groups
    for h, v in np.ndindex(*sizes):
        window = x[:, h * conv.stride[0] :, v * conv.stride[1] :]
        window = window[:, :: conv.dilation[0], :: conv.dilation[1]][:, :rows, :columns]
        for g in range(conv.groups):
            part = window[..., g * depth : (g + 1) * depth]
            y[:, h, v, g * each : (g + 1) * each] = np.tensordot(
                part, w[..., g * each : (g + 1) * each], 3
            )
    return y


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (3, 5, 33), (13, 769, 40), (30, 770, 300)])
def test_weights_of_products(m: int, k: int, n: int, dtype: str, session: InferenceSession) -> None:
    rng = np.random.default_rng(2)
    kind = DType[dtype].ml_numpy
    x, w = rng.integers(-2, 3, (m, k)).astype(kind), rng.integers(-1, 2, (k, n)).astype(kind)
    wanted = (x.astype(np.float64) @ w.astype(np.float64)).astype(kind)
    for known in (True, False):
        made = run(session, x, w, lambda a, b: a @ b, known=known)
        np.testing.assert_array_equal(made, wanted)
        turned = run(session, x, w.T.copy(), lambda a, b: a @ b.transpose(0, 1), known=known)
        np.testing.assert_array_equal(turned, wanted)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_what_follows_a_product_of_halves(dtype: str, session: InferenceSession) -> None:
    rng = np.random.default_rng(3)
    kind = DType[dtype].ml_numpy
    x = rng.integers(-2, 3, (3, 7, 37)).astype(kind)
    w = rng.integers(-1, 2, (3, 37, 45)).astype(kind)
    wanted = np.maximum(x.astype(float) @ w.astype(float) + 1, 0)

    def body(a: TensorValue, b: TensorValue) -> TensorValue:
        return ops.relu(a @ b + 1)

    made = run(session, x, w, body, known=False)
    np.testing.assert_array_equal(made.astype(float), wanted)
    made = run(session, x, w[0].copy(), body, known=True)
    wanted = np.maximum(x.astype(float) @ w[0].astype(float) + 1, 0)
    np.testing.assert_array_equal(made.astype(float), wanted)
    x[1, 2, 3] = np.nan
    made = run(session, x, w[0].copy(), lambda a, b: a @ b, known=True).astype(float)
    assert np.isnan(made[1, 2]).all()
    assert np.isnan(made).sum() == made.shape[-1]


@pytest.mark.parametrize("name", ["Q4_0", "Q4_K", "Q6_K"])
@pytest.mark.parametrize("m", [1, 2, 3, 15])
@pytest.mark.parametrize(("n", "blocks"), [(1, 1), (16, 2), (37, 3), (100, 5)])
def test_blocks_of_few_bits(
    name: str, m: int, n: int, blocks: int, session: InferenceSession
) -> None:
    rng, form = np.random.default_rng(4), FORMATS[name]
    w = random_blocks(rng, name, (n, blocks))
    x = rng.standard_normal((m, blocks * form.elements)).astype(np.float32)
    if m > 1:
        x[1, 5] = np.nan
    found, (q, d) = form.blocks(w), quantized_left(x, name)
    full = found.d[..., None] * found.q
    if found.least is not None and found.dmin is not None:
        full = full - found.dmin[..., None] * found.least
    left = (q * d[..., None]).reshape(m, -1)
    wanted, sizes = left @ full.reshape(n, -1).T, np.abs(left) @ np.abs(full.reshape(n, -1)).T
    body = partial(ops.qmatmul, QuantizationEncoding[name], None)
    for known in (True, False):
        made = run(session, x, w, body, known=known)
        np.testing.assert_array_equal(np.isnan(made), np.isnan(wanted))
        sound = ~np.isnan(wanted)
        assert (np.abs(made - wanted)[sound] <= 1e-4 * sizes[sound] + 1e-6).all()


@pytest.mark.parametrize("k", [1, 7, 50, 128])
@pytest.mark.parametrize("order", ["up", "down", "saw", "equal"])
def test_largest_that_come_last(k: int, order: str, session: InferenceSession) -> None:
    n = 5000
    row = np.arange(n, dtype=np.float32)
    x = {"up": row, "down": row[::-1], "saw": row % 100 + row // 1000, "equal": row * 0}[order]
    x = np.stack([x, np.roll(x, 1234)])
    x[1, -1] = np.nan
    with Graph("top", input_types=[TensorType(DType.float32, x.shape)]) as graph:
        graph.output(*ops.top_k(graph.inputs[0].tensor, k))
    values, at = (y.to_numpy() for y in session.load(graph).execute(Tensor.from_numpy(x)))
    wanted = n - 1 - np.argsort(x[:, ::-1], axis=-1, kind="stable")[:, ::-1][:, :k]
    np.testing.assert_array_equal(at, wanted)
    np.testing.assert_array_equal(values, np.take_along_axis(x, wanted, -1))


@pytest.mark.parametrize("shape", [(3, 70), (9, 1), (5, 64), (1, 65, 3), (4, 3, 130), (0, 5)])
@pytest.mark.parametrize("kind", ["float32", "int64", "uint8"])
def test_rows_and_columns_of_sums(
    shape: tuple[int, ...], kind: str, session: InferenceSession
) -> None:
    x = np.random.default_rng(5).integers(0, 9, shape).astype(kind)
    for axis in range(len(shape)):
        with Graph("sums", input_types=[TensorType(DType[kind], shape)]) as graph:
            graph.output(
                ops.cumsum(graph.inputs[0].tensor, axis),
                ops.cumsum(graph.inputs[0].tensor, axis, exclusive=True, reverse=True),
            )
        plain, back = session.load(graph).execute(Tensor.from_numpy(x))
        np.testing.assert_array_equal(plain.to_numpy(), np.cumsum(x, axis, dtype=x.dtype))
        turned = np.flip(x, axis)
        wanted = np.flip(np.cumsum(turned, axis, dtype=x.dtype) - turned, axis)
        np.testing.assert_array_equal(back.to_numpy(), wanted)
