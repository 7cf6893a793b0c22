"""The kernels of paged caches, and of ragged batches, as nvcc sees them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from maxlab.dtype import DType
from maxlab.graph import BufferType, DeviceRef, Graph, TensorType, TensorValue, ops
from maxlab.opset.attention import MASKS
from maxlab.opset.latent_attention import MASKS as LATENT_MASKS
from maxlab.toolchain.nvlib import find_program
from tests.cuda.nvcc import ARCHITECTURES, require_compiled
from tests.cuda.placing import compiled_on_gpu, sources_of

HOST, U32 = DeviceRef.CPU(), DType.uint32


def _types(dtype: DType) -> list[Any]:
    """The inputs of a graph: a cache, its numbers, rows, sinks, keys and values."""
    return [
        BufferType(dtype, ["pages", 2, 3, 16, 2, 128], HOST),
        *(TensorType(U32, shape, HOST) for shape in (["ends"], ["batch"], ["batch", "most"], [])),
        TensorType(dtype, ["tokens", 2048], HOST),
        TensorType(dtype, [16], HOST),
        *(TensorType(dtype, ["tokens", 2, 128], HOST) for _ in range(2)),
    ]


def _adapters(dtype: DType) -> list[TensorType]:
    """The matrices of adapters for keys and values, their bias, and the groups of rows."""
    return [
        TensorType(dtype, [8, 32, 2048], HOST),
        TensorType(dtype, [8, 512, 16], HOST),
        TensorType(dtype, [8, 512], HOST),
        TensorType(DType.int32, ["groups"], HOST),
        TensorType(U32, ["groups"], HOST),
        TensorType(U32, ["bounds"], HOST),
    ]


def _graph(dtype: DType) -> Graph:
    """Every mask, with and without sinks, over a cache and without one; and adapters."""
    with Graph("all", input_types=[*_types(dtype), *_adapters(dtype)]) as graph:
        cache, *given = graph.inputs
        *numbers, x, sinks, k, v, a, b, bias, ids, ranks, bounds = (v.tensor for v in given)
        offsets, lengths, table, layer = numbers
        place = (cache.buffer, offsets, lengths, table, layer)
        ops.cache_store(*place, x, part=0, parts=2)
        q = ops.reshape(x, [x.shape[0], 16, 128])
        low = ops.lora_product(x, a, ids, ranks, bounds, cut="rows", parts=2)
        ops.cache_add_lora(*place, low, b, ids, ranks, bounds, bias, part=0, parts=2)
        found: list[TensorValue] = [ops.cache_load(*place, x.shape[0], 1)]
        found.append(ops.lora_product(low, b, ids, ranks, bounds, bias, cut="columns", row=256))
        for mask in MASKS:
            window = 40 if mask in ("window", "chunk") else 0
            found += [
                ops.cache_attention(*place, q, mask=mask, window=window),
                ops.cache_attention(*place, q, None, sinks, mask=mask, window=window),
                ops.ragged_attention(q, k, v, offsets, mask=mask, window=window),
            ]
        found.append(ops.ragged_attention(q, q, q, offsets, lengths))
        graph.output(*found, ops.ragged_sequences(offsets, x.shape[0]))
    return graph


def _latents(dtype: DType) -> Graph:
    """Every kernel of latent vectors of DeepSeek-V2: 16 heads, vectors of 512 and 64 numbers. Of
    halves, the mask that needs most registers stands for the others."""
    masks = LATENT_MASKS if dtype is DType.float32 else ("alibi",)
    types: list[Any] = [
        BufferType(dtype, ["pages", 1, 3, 16, 1, 576], HOST),
        *_types(dtype)[1:5],
        TensorType(DType.int64, [], HOST),
        TensorType(dtype, ["tokens", 16, 192], HOST),
        TensorType(dtype, ["tokens", 16, 576], HOST),
        TensorType(dtype, [4096, 512], HOST),
    ]
    with Graph("latent", input_types=types) as graph:
        cache, *given = graph.inputs
        offsets, lengths, table, layer, count, q, inside, weight = (v.tensor for v in given)
        place = (cache.buffer, offsets, lengths, table, layer)
        found: list[TensorValue] = [ops.latent_load(*place, count, 2048, 512)]
        both = ops.reshape(ops.latent_expand(*place, count, weight, 2048), [2048, 16, 256])
        for mask in masks:
            given_chunk = (*place, q, both, both, offsets, lengths)
            first = ops.latent_chunk(*given_chunk, rope=64, size=128, column=128, mask=mask)
            found += ops.latent_chunk(
                *given_chunk, *first, rope=64, size=128, column=128, mask=mask
            )
            found.append(ops.latent_attention(*place, inside, size=512, mask=mask))
        graph.output(*found)
    return graph


@pytest.mark.skipif(find_program("nvcc") is None, reason="nvcc was not found")
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_they_compile_without_a_warning_or_a_spill(architecture: str, tmp_path: Path) -> None:
    dtypes = (DType.float32, DType.bfloat16, DType.float16)
    graphs = [make(d) for d in dtypes for make in (_graph, _latents)]
    sources = {s for graph in graphs for s in sources_of(compiled_on_gpu(graph.function))}
    headers = {header for source in sources for header in source.headers}
    texts = sorted({source.text for source in sources})
    assert len(texts) > 50
    require_compiled(texts, ("mx_device.cuh", *sorted(headers)), architecture, tmp_path)
