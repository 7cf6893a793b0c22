"""The kernels of mixtures of experts as nvcc sees them."""

from __future__ import annotations

from pathlib import Path

import pytest

from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, TensorType, ops
from maxlab.toolchain.nvlib import find_program
from tests.cuda.nvcc import ARCHITECTURES, require_compiled
from tests.cuda.placing import compiled_on_gpu, sources_of

HOST = DeviceRef.CPU()
HEADERS = (
    "mx_device.cuh", "prelude.cuh", "tiles.cuh", "split.cuh", "product.cuh", "grouped.cuh"
)  # fmt: skip


def _graph(dtype: DType) -> Graph:
    types = [
        TensorType(dtype, ["rows", 2048], HOST),
        TensorType(DType.int32, ["rows"], HOST),
        TensorType(dtype, [128, 1536, 2048], HOST),
    ]
    with Graph("experts", input_types=types) as graph:
        x, ids, weight = (v.tensor for v in graph.inputs)
        _, *groups, usage = ops.expert_indices(ids, 128)
        starts, _, chosen = groups
        graph.output(ops.grouped_matmul(x, weight, starts, chosen, usage))
    return graph


@pytest.mark.skipif(find_program("nvcc") is None, reason="nvcc was not found")
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_they_compile_without_a_warning_or_a_spill(architecture: str, tmp_path: Path) -> None:
    dtypes = (DType.float32, DType.bfloat16, DType.float16)
    sources = {s for d in dtypes for s in sources_of(compiled_on_gpu(_graph(d).function))}
    assert {header for source in sources for header in source.headers} <= set(HEADERS)
    texts = sorted({source.text for source in sources})
    assert len(texts) == 9  # three to sort, then two for each dtype
    require_compiled(texts, HEADERS, architecture, tmp_path)
