"""Ops on quantised weights through the public API: values, sizes, and what only a run can find."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maxlab import engine
from maxlab.dtype import DType
from maxlab.errors import InputError, MaxlabError
from maxlab.graph import Dim, Graph, TensorType, Weight, ops
from maxlab.graph.quantization import (
    BlockParameters,
    QuantizationConfig,
    QuantizationEncoding,
)
from maxlab.opset.quantized import FORMATS, PRODUCTS, quantized_left, random_blocks
from maxlab.toolchain import prelude_for
from tests.kernels_c.conftest import FLAGS

Array = np.ndarray[Any, Any]
F32, U8 = DType.float32, DType.uint8
Q4_0, Q4_K = QuantizationEncoding.Q4_0, QuantizationEncoding.Q4_K


def numbers(name: str, blocks: Array) -> Array:
    """What ``blocks`` stand for, in float64."""
    found = FORMATS[name].blocks(blocks)
    y = found.d[..., None] * found.q
    if found.least is not None and found.dmin is not None:
        y = y - found.dmin[..., None] * found.least
    return np.asarray(y.reshape(*blocks.shape[:-1], -1))


def product(name: str, x: Array, blocks: Array) -> tuple[Array, Array]:
    """The product in float64, and the sum of the sizes of its terms."""
    q, d = quantized_left(x, name)
    left, right = (q * d[..., None]).reshape(x.shape), numbers(name, blocks)
    return left @ right.T, np.abs(left) @ np.abs(right).T


def test_encodings() -> None:
    sizes = {"q4_0": (32, 18), "q4_k": (256, 144), "q5_k": (256, 176), "q6_k": (256, 210)}
    for encoding in QuantizationEncoding:
        assert encoding.name == str(encoding.value).lower()
        assert QuantizationEncoding(encoding.value) is encoding
        assert encoding.is_gguf == (encoding.name in sizes)
        if encoding.is_gguf:
            found = BlockParameters(*sizes[encoding.name])
            assert encoding.block_parameters == found
            assert encoding.elements_per_block == found.elements_per_block
            assert encoding.block_size == found.block_size
    with pytest.raises(KeyError) as caught:
        _ = QuantizationEncoding.GPTQ.elements_per_block
    assert isinstance(caught.value, MaxlabError)
    assert str(caught.value).startswith("the encoding GPTQ")


def test_configs() -> None:
    config = QuantizationConfig("gptq", 4, 128)
    assert (config.desc_act, config.sym) == (False, False)
    assert config == QuantizationConfig(quant_method="gptq", bits=4, group_size=128)


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("threads", [1, 2])
def test_products(name: str, threads: int) -> None:
    """More columns than a multiple of 4, an odd number of blocks, leading dims."""
    rng = np.random.default_rng(1)
    form = FORMATS[name]
    blocks = random_blocks(rng, name, (203, 7))
    x = rng.standard_normal((2, 3, 7 * form.elements)).astype(np.float32)
    weight = Weight("w", U8, blocks.shape, quantization_encoding=QuantizationEncoding(name))
    with Graph("g", input_types=[TensorType(F32, ["a", "b", "k"])]) as graph:
        y = ops.qmatmul(QuantizationEncoding(name), None, graph.inputs[0].tensor, weight)
        assert y.shape == [Dim("a"), Dim("b"), 203]
        assert y.dtype is F32
        graph.output(y)
    session = engine.InferenceSession(num_threads=threads)
    got = session.load(graph, weights_registry={"w": blocks})(x)[0].to_numpy()
    want, scale = product(name, x, blocks)
    assert (np.abs(got - want) / scale).max() < 5e-7


def test_a_vector_on_the_left() -> None:
    rng = np.random.default_rng(2)
    blocks = random_blocks(rng, "Q4_0", (5, 3))
    x = rng.standard_normal(96).astype(np.float32)
    with Graph("g", input_types=[TensorType(F32, [96]), TensorType(U8, ["n", "bytes"])]) as graph:
        y = ops.qmatmul(Q4_0, QuantizationConfig("gguf", 4, 32), *graph.inputs)
        assert y.shape == [Dim("n")]
        graph.output(y)
    got = engine.InferenceSession().load(graph)(x, blocks)[0].to_numpy()
    want, scale = product("Q4_0", x, blocks)
    assert (np.abs(got - want) / scale).max() < 5e-7


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_spoils_its_own_row(name: str, bad: float) -> None:
    rng = np.random.default_rng(3)
    form = FORMATS[name]
    blocks = random_blocks(rng, name, (6, 2))
    x = rng.standard_normal((3, 2 * form.elements)).astype(np.float32)
    x[1, 5] = bad
    types = [TensorType(F32, x.shape), TensorType(U8, blocks.shape)]
    with Graph("g", input_types=types) as graph:
        graph.output(ops.qmatmul(QuantizationEncoding(name), None, *graph.inputs))
    got = engine.InferenceSession().load(graph)(x, blocks)[0].to_numpy()
    assert np.isnan(got).all(axis=1).tolist() == [False, True, False]
    assert np.isfinite(got[[0, 2]]).all()


@pytest.mark.parametrize("name", PRODUCTS)
def test_small_and_large_rows(name: str) -> None:
    """Scales that are subnormal or zero, and blocks of one sign."""
    rng = np.random.default_rng(4)
    form = FORMATS[name]
    blocks = random_blocks(rng, name, (6, 1))
    sizes = np.array([0, 1e-45, 1e-39, 1e-7, 1, 1e6], np.float32)[:, None]
    x = np.abs(rng.standard_normal((6, form.elements)).astype(np.float32)) * sizes
    types = [TensorType(F32, x.shape), TensorType(U8, blocks.shape)]
    with Graph("g", input_types=types) as graph:
        graph.output(ops.qmatmul(QuantizationEncoding(name), None, *graph.inputs))
    got = engine.InferenceSession().load(graph)(x, blocks)[0].to_numpy()
    want, scale = product(name, x, blocks)
    assert (np.abs(got - want) <= 5e-7 * scale + 1e-44).all()


def test_dequantize_of_symbolic_sizes() -> None:
    blocks = random_blocks(np.random.default_rng(5), "Q4_K", (2, 3, 2))
    with Graph("g", input_types=[TensorType(U8, ["a", 3, "bytes"])]) as graph:
        y = ops.dequantize(Q4_K, graph.inputs[0].tensor)
        assert y.shape == [Dim("a"), 3, Dim("bytes") // 144 * 256]
        graph.output(y)
    model = engine.InferenceSession().load(graph)
    got = model(blocks)[0].to_numpy()
    np.testing.assert_array_equal(got, numbers("Q4_K", blocks).astype(np.float32))
    with pytest.raises(InputError, match="multiple of 144"):
        model(blocks[..., 1:].copy())


@pytest.mark.parametrize(
    ("k", "size", "message"), [(64, 35, "multiple of 18"), (32, 36, "inner"), (65, 36, "inner")]
)
def test_sizes_that_only_a_run_knows(k: int, size: int, message: str) -> None:
    types = [TensorType(F32, ["m", "k"]), TensorType(U8, [4, "bytes"])]
    with Graph("g", input_types=types) as graph:
        graph.output(ops.qmatmul(Q4_0, None, *graph.inputs))
    model = engine.InferenceSession().load(graph)
    with pytest.raises(InputError, match=message):
        model(np.zeros((1, k), np.float32), np.zeros((4, size), np.uint8))


def test_bytes_at_any_address() -> None:
    """A slice of the graph and a tensor that starts in the middle of memory."""
    rng = np.random.default_rng(6)
    blocks = random_blocks(rng, "Q6_K", (5, 2))
    padded = np.concatenate([np.zeros((5, 1), np.uint8), blocks], axis=1)
    x = rng.standard_normal((1, 512)).astype(np.float32)
    types = [TensorType(F32, x.shape), TensorType(U8, padded.shape)]
    with Graph("g", input_types=types) as graph:
        a, w = (value.tensor for value in graph.inputs)
        graph.output(ops.qmatmul(QuantizationEncoding.Q6_K, None, a, w[:, 1:]))
    got = engine.InferenceSession().load(graph)(x, padded)[0].to_numpy()
    want, scale = product("Q6_K", x, blocks)
    assert (np.abs(got - want) / scale).max() < 5e-7


def test_the_matrix_is_not_expanded() -> None:
    """What a product needs beside its operands is of the size of its left rows."""
    types = [TensorType(F32, [1, 4096]), TensorType(U8, [4096, 4096 // 32 * 18])]
    with Graph("g", input_types=types) as graph:
        graph.output(ops.qmatmul(Q4_0, None, *graph.inputs))
    model = engine.InferenceSession().load(graph)
    arena = [s for s in model.plan.slots if s.kind == "arena"]
    assert sum(s.nbytes.evaluate({}) for s in arena) <= 4096 * 2


PROGRAM = """
int run_q4_0(f32 *y, const u8 *w, const f32 *x, i64 n, i64 blocks, i8 *q, i32 *s, f32 *d) {
  for (i64 b = 0; b < blocks; b++) mx_q8_0(q + 32 * b, s + b, d + b, x + 32 * b, 8);
  mx_q8_none(q + 32 * blocks, s + blocks, d + blocks);
  const i64 row = blocks * 18;
  for (i64 i = 0; i < n; i++) mx_q4_0_rows(y + i, w + i * row, row, blocks, q, s, d, 1);
  return MX_Q_VECTORS;
}
int run_q4_k(f32 *y, const u8 *w, const f32 *x, i64 n, i64 blocks, i8 *q, i32 *s, f32 *d) {
  for (i64 b = 0; b < blocks; b++) mx_q8_k(q + 256 * b, s + 8 * b, d + b, x + 256 * b, -1, 32);
  for (i64 i = 0; i < n; i++) mx_q4_k_row(y + i, w + i * blocks * 144, blocks, q, s, d);
  return MX_Q_VECTORS;
}
int run_q6_k(f32 *y, const u8 *w, const f32 *x, i64 n, i64 blocks, i8 *q, i32 *s, f32 *d) {
  for (i64 b = 0; b < blocks; b++) mx_q8_k(q + 256 * b, s + 16 * b, d + b, x + 256 * b, 32, 16);
  for (i64 i = 0; i < n; i++) mx_q6_k_row(y + i, w + i * blocks * 210, blocks, q, s, d);
  return MX_Q_VECTORS;
}
"""


@pytest.mark.parametrize("flags", ["-march=x86-64-v3", "-march=x86-64", ""])
def test_products_without_the_instructions_of_one_cpu(flags: str, tmp_path: Path) -> None:
    """The loops that other CPUs run, and that both ways compile without a warning."""
    import ctypes
    import platform

    if flags and platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("flags of x86")
    source = tmp_path / "quantized.c"
    source.write_text(prelude_for(PROGRAM) + PROGRAM)
    library = tmp_path / "quantized.so"
    options = [*FLAGS, "-O1", "-std=gnu11", *flags.split(), str(source), "-o", str(library), "-lm"]
    subprocess.run(["gcc", *options], check=True)
    opened = ctypes.CDLL(str(library))
    rng = np.random.default_rng(7)
    for name in PRODUCTS:
        form = FORMATS[name]
        blocks = random_blocks(rng, name, (9, 5))
        x = rng.standard_normal((1, 5 * form.elements)).astype(np.float32)
        y = np.zeros(9, np.float32)
        room = [np.zeros(6 * form.elements, kind) for kind in (np.int8, np.int32, np.float32)]
        run = opened[f"run_{name.lower()}"]
        i64, at = ctypes.c_int64, ctypes.c_void_p
        run.argtypes = [at, at, at, i64, i64, at, at, at]
        memory = [array.ctypes.data for array in (y, blocks, x)]
        vectors = run(*memory, 9, 5, *(array.ctypes.data for array in room))
        assert not flags or vectors == {"-march=x86-64-v3": 2}.get(flags, 0)
        want, scale = product(name, x, blocks)
        assert (np.abs(y - want[0]) / scale[0]).max() < 5e-7


def test_the_sections_name_what_they_need() -> None:
    text = prelude_for("mx_q4_0_rows(")
    assert not re.search(r"mx_q[46]_k_row\(", text)
