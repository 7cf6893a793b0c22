"""The kernels of paged caches, and of ragged batches, as nvcc sees them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from maxlab.dtype import DType
from maxlab.graph import BufferType, DeviceRef, Graph, TensorType, TensorValue, ops
from maxlab.opset.attention import MASKS
from maxlab.toolchain import kernels_dir
from maxlab.toolchain.cuda_usage import parse_usage
from maxlab.toolchain.nvlib import find_program
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


def _graph(dtype: DType) -> Graph:
    """Every mask, with and without sinks, over a cache and without one."""
    with Graph("all", input_types=_types(dtype)) as graph:
        cache, *given = graph.inputs
        *numbers, x, sinks, k, v = (v.tensor for v in given)
        offsets, lengths, table, layer = numbers
        place = (cache.buffer, offsets, lengths, table, layer)
        ops.cache_store(*place, x, part=0, parts=2)
        q = ops.reshape(x, [x.shape[0], 16, 128])
        found: list[TensorValue] = [ops.cache_load(*place, x.shape[0], 1)]
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


@pytest.mark.skipif(find_program("nvcc") is None, reason="nvcc was not found")
def test_they_compile_without_a_warning_or_a_spill(tmp_path: Path) -> None:
    folder, file = kernels_dir() / "cuda", tmp_path / "kernels.cu"
    dtypes = (DType.float32, DType.bfloat16, DType.float16)
    sources = {s for d in dtypes for s in sources_of(compiled_on_gpu(_graph(d).function))}
    headers = {header for source in sources for header in source.headers}
    lines = [f'#include "{name}"' for name in ("mx_device.cuh", *sorted(headers))]
    texts = sorted({source.text for source in sources})
    assert len(texts) > 50
    file.write_text("\n".join([*lines, *texts]))
    command = [str(find_program("nvcc")), "-std=c++17", "-cubin", "-arch=sm_90a", "-Xptxas", "-v"]
    done = subprocess.run(
        [*command, f"-I{folder}", "-o", tmp_path / "kernels.cubin", file],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr, done.stderr[:2000]
    usage = parse_usage(done.stderr)
    assert len(usage) == len(texts)
    spilled = {name: str(each) for name, each in usage.items() if each.spill_store_bytes}
    assert not spilled
