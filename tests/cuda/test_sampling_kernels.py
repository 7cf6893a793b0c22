"""The kernels of samplers, as nvcc sees them."""

from __future__ import annotations

from pathlib import Path

import pytest

from maxlab.dtype import DType
from maxlab.graph import BufferType, DeviceRef, Graph, TensorType, ops
from maxlab.toolchain.nvlib import find_program
from tests.cuda.nvcc import ARCHITECTURES, require_compiled
from tests.cuda.placing import compiled_on_gpu, sources_of

HOST = DeviceRef.CPU()


def _graph(dtype: DType) -> Graph:
    """Every op of a sampler, with and without a mask."""
    numbers = [DType.int64, *[DType.float64] * 3]
    types = [
        BufferType(dtype, ["rows", "tokens"], HOST),
        BufferType(DType.int32, ["pairs", 2], HOST),
        TensorType(DType.uint32, ["ends"], HOST),
        TensorType(DType.uint64, ["rows"], HOST),
        TensorType(DType.bool, ["rows", "width"], HOST),
        *(TensorType(kind, ["rows"], HOST) for kind in numbers),
    ]
    with Graph("all", input_types=types) as graph:
        held, counts, *given = graph.inputs
        offsets, seeds, allowed, k, heat, part, least = (v.tensor for v in given)
        data = ops.buffer_load(counts.buffer)
        ops.sample_penalise(held.buffer, data, offsets, heat, part, least)
        logits, uniform = ops.buffer_load(held.buffer), ops.sample_uniform(seeds)[:, 0]
        found = [
            ops.sample_token(logits, k, heat, part, least, uniform, m) for m in (None, allowed)
        ]
        found += [ops.sample_scores(logits, k, heat, part, least, m) for m in (None, allowed)]
        ops.sample_count(counts.buffer, offsets, found[0])
        graph.output(*found)
    return graph


@pytest.mark.skipif(find_program("nvcc") is None, reason="nvcc was not found")
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_they_compile_without_a_warning_or_a_spill(architecture: str, tmp_path: Path) -> None:
    dtypes = (DType.float32, DType.bfloat16)
    sources = {s for d in dtypes for s in sources_of(compiled_on_gpu(_graph(d).function))}
    headers = {header for source in sources for header in source.headers}
    texts = sorted({source.text for source in sources})
    assert sum("places" in text for text in texts) == 8
    require_compiled(texts, ("mx_device.cuh", *sorted(headers)), architecture, tmp_path)
