"""A kernel of a model can be read as CUDA, and the simulator runs what is shown."""

from __future__ import annotations

import numpy as np
import pytest

from maxlab import engine
from maxlab.driver.sim import SimModule
from maxlab.dtype import DType
from maxlab.errors import UnsupportedError
from maxlab.graph import Graph, TensorType, ops
from maxlab.toolchain import kernels_dir


def test_the_cuda_of_a_fused_kernel_computes_what_its_c_does() -> None:
    with Graph("row", input_types=[TensorType(DType.float32, ["rows", 100])]) as graph:
        x = graph.inputs[0].tensor
        graph.output(ops.softmax(ops.gelu(x * 0.5 + 1.0)))
    model = engine.InferenceSession().load(graph)
    kernel = model.kernels["k0"]
    data = np.random.default_rng(1).standard_normal((7, 100)).astype(np.float32)
    (want,) = model(data)

    text = kernel.cuda
    name = text[text.index("g_") : text.index("(", text.index("g_"))]
    folder = kernels_dir() / "cuda"
    module = SimModule(text, headers=[folder / "prelude.cuh"])
    made, fault = np.zeros_like(data), np.zeros(4, np.int64)
    module.launch(name, 7, 128, [data, made, 7, None, fault], shared_bytes=4096)
    np.testing.assert_allclose(made, want.to_numpy(), rtol=3e-6)
    assert kernel.source != text


def test_a_product_says_that_it_has_none() -> None:
    types = [TensorType(DType.float32, ["m", 8]), TensorType(DType.float32, [8, 8])]
    with Graph("product", input_types=types) as graph:
        x, y = (value.tensor for value in graph.inputs)
        graph.output(x @ y)
    model = engine.InferenceSession().load(graph)
    kinds = {kernel.kind: kernel for kernel in model.kernels.values()}
    with pytest.raises(UnsupportedError, match="ML902"):
        _ = kinds["contract"].cuda
