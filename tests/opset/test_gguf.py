"""Blocks of few bits against the package ``gguf``, which is ggml's own description of its files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from maxlab import engine
from maxlab.dtype import DType
from maxlab.graph import Graph, TensorType, ops
from maxlab.graph.quantization import QuantizationEncoding
from maxlab.opset.quantized import FORMATS, PRODUCTS, quantized_left, random_blocks

pytestmark = pytest.mark.oracle
Array = np.ndarray[Any, Any]
ENCODINGS = [e for e in QuantizationEncoding if e.is_gguf]


@pytest.fixture(scope="module")
def gguf() -> Any:
    return pytest.importorskip(
        "gguf", reason="gguf not installed; scripts/test --oracle installs it"
    )


def read(gguf: Any, encoding: QuantizationEncoding, blocks: Array) -> Array:
    """The numbers of ``blocks``, as the package reads them."""
    kind = gguf.GGMLQuantizationType[str(encoding.value)]
    return np.asarray(gguf.quants.dequantize(blocks, kind))


def compiled(function: Callable[..., Any], *arrays: Array) -> Array:
    """What the graph of ``function`` makes of ``arrays``."""
    types = [TensorType(DType.from_numpy(x.dtype), x.shape) for x in arrays]
    with Graph("g", input_types=types) as graph:
        graph.output(function(*graph.inputs))
    return np.asarray(engine.InferenceSession().load(graph)(*arrays)[0].to_numpy())


@pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda e: e.name)
def test_sizes_are_those_of_ggml(gguf: Any, encoding: QuantizationEncoding) -> None:
    kind = gguf.GGMLQuantizationType[str(encoding.value)]
    sizes = (encoding.elements_per_block, encoding.block_size)
    assert sizes == gguf.GGML_QUANT_SIZES[kind]


@pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda e: e.name)
def test_dequantize_is_exact(gguf: Any, encoding: QuantizationEncoding) -> None:
    rng = np.random.default_rng(3)
    form = FORMATS[str(encoding.value)]
    blocks = rng.integers(0, 256, (40, 3 * form.nbytes), np.uint8)  # scales of any size, NaN too
    with np.errstate(all="ignore"):
        want = read(gguf, encoding, blocks)
    np.testing.assert_array_equal(compiled(lambda w: ops.dequantize(encoding, w), blocks), want)


def test_what_ggml_quantises_is_read_back(gguf: Any) -> None:
    x = np.random.default_rng(4).standard_normal((16, 128)).astype(np.float32)
    blocks = gguf.quants.quantize(x, gguf.GGMLQuantizationType.Q4_0)
    encoding = QuantizationEncoding.Q4_0
    got = compiled(lambda w: ops.dequantize(encoding, w), blocks)
    np.testing.assert_array_equal(got, read(gguf, encoding, blocks))
    assert np.abs(got - x).max() < 0.3


def left_of(gguf: Any, encoding: QuantizationEncoding, x: Array) -> Array:
    """The left rows as ggml rounds them: as Q8_0 by the package, as Q8_K by its description."""
    if encoding is QuantizationEncoding.Q4_0:
        kind = gguf.GGMLQuantizationType.Q8_0
        return np.asarray(gguf.quants.dequantize(gguf.quants.quantize(x, kind), kind))
    q, d = quantized_left(x, str(encoding.value))
    return np.asarray((q * d[..., None]).reshape(x.shape))


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("rows", [1, 3])
def test_products_see_quantised_rows(gguf: Any, name: str, rows: int) -> None:
    rng = np.random.default_rng(5)
    encoding, form = QuantizationEncoding(name), FORMATS[name]
    blocks = random_blocks(rng, name, (37, 2048 // form.elements))
    x = rng.standard_normal((rows, 2048)).astype(np.float32)
    got = compiled(lambda a, w: ops.qmatmul(encoding, None, a, w), x, blocks)
    weights = read(gguf, encoding, blocks).astype(np.float64)
    want = left_of(gguf, encoding, x).astype(np.float64) @ weights.T
    scale = np.abs(x).astype(np.float64) @ np.abs(weights).T
    assert (np.abs(got - want) / scale).max() < 1e-6
    # The rounding of the left rows is far above that of floats.
    assert (np.abs(got - x.astype(np.float64) @ weights.T) / scale).max() > 1e-5


def test_left_blocks_of_32_are_those_of_ggml(gguf: Any) -> None:
    rng = np.random.default_rng(6)
    x = rng.standard_normal((9, 320)).astype(np.float32)
    x[0, :32] = 0
    x[1, :32] = np.arange(32) - 16 + 0.5  # halves, on the way to 127
    x[1, 0] = 127
    kind = gguf.GGMLQuantizationType.Q8_0
    with np.errstate(all="ignore"):  # the block of zeros
        want = gguf.quants.quantize(x, kind).reshape(9, 10, 34)
        q, d = quantized_left(x, "Q4_0")
    np.testing.assert_array_equal(q, want[..., 2:].view(np.int8))
    np.testing.assert_array_equal(
        d.astype(np.float16), np.ascontiguousarray(want[..., :2]).view(np.float16)[..., 0]
    )
