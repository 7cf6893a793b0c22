"""Attention without a cache, of ragged and of padded batches, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, TensorType
from maxlab.nn import kernels
from tests.cpu_and_gpu import at, numpy, session
from tests.nn.kernels.caches import Array
from tests.nn.kernels.test_attention import MASKS

F32, U32, CPU = DType.float32, DType.uint32, DeviceRef.CPU()
RNG = np.random.default_rng(2)


def _random(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def _attended(mask: str, q: Array, k: Array, v: Array) -> Array:
    """The attention of one sequence, [rows, heads, dim]; a row that sees nothing is 0."""
    rows, (_, _, sees) = range(len(q)), MASKS[mask]
    k, v = (x.repeat(q.shape[1] // x.shape[1], 1) for x in (k, v))
    seen = np.reshape([sees(i, j) for i in rows for j in rows], (len(q), len(q))).astype(bool)
    weights = np.where(seen, np.exp(np.einsum("ihd,jhd->hij", q, k) * 0.4), 0)
    weights /= np.maximum(weights.sum(-1, keepdims=True), 1e-30)
    found: Array = np.einsum("hij,jhd->ihd", weights, v)
    return found


@pytest.mark.parametrize("mask", MASKS)
def test_ragged_rows(place: DeviceRef, mask: str) -> None:
    sizes = [1, 0, 7, 70]  # more rows than a thread takes scores at once
    offsets = np.cumsum([0, *sizes]).astype(np.uint32)
    arrays = [_random(78, heads, 5) for heads in (4, 2, 2)]
    types = [TensorType(F32, ["t", *x.shape[1:]], place) for x in arrays]
    numbers = [TensorType(U32, ["ends"], place), TensorType(U32, [1], CPU)]
    variant, window, _ = MASKS[mask]
    with Graph("ragged", input_types=[*types, *numbers]) as graph:
        q, k, v, ends, most = (v.tensor for v in graph.inputs)
        y = kernels.flash_attention_ragged_gpu(q, k, v, ends, most, variant, 0.4, window)
        graph.output(y)
    there = [at(x, place) for x in (*arrays, offsets)]
    (made,) = session(place).load(graph)(*there, np.array([70], np.uint32))
    pieces = [np.split(x, offsets[1:-1].astype(int)) for x in arrays]
    wanted = np.concatenate([_attended(mask, *each) for each in zip(*pieces, strict=True)])
    np.testing.assert_allclose(numpy(made), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("valid", [None, [3, 0, 6, 900]])
@pytest.mark.parametrize("mask", ["causal", "null", "window"])
def test_padded_rows(place: DeviceRef, mask: str, valid: list[int] | None) -> None:
    arrays = [_random(4, 6, heads, 8) for heads in (6, 2, 2)]
    for n, length in enumerate(valid or []):
        for x in arrays:
            x[n, length:] = np.nan
    types = [TensorType(F32, ["b", "rows", *x.shape[2:]], place) for x in arrays]
    more = [TensorType(U32, ["b"], place)] * (valid is not None)
    variant, window, _ = MASKS[mask]
    with Graph("padded", input_types=[*types, *more]) as graph:
        q, k, v, *lengths = (v.tensor for v in graph.inputs)
        graph.output(kernels.flash_attention_gpu(q, k, v, variant, 0.4, window, *lengths))
    numbers = [] if valid is None else [np.array(valid, np.uint32)]
    (y,) = session(place).load(graph)(*(at(x, place) for x in (*arrays, *numbers)))
    wanted = np.zeros(arrays[0].shape)
    for n in range(4):
        length = min(valid[n], 6) if valid else 6
        wanted[n, :length] = _attended(mask, *(x[n, :length] for x in arrays))
    np.testing.assert_allclose(numpy(y), wanted, rtol=1e-5, atol=1e-5)
