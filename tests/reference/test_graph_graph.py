"""The example of ``graph.Graph``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, TensorType, TensorValue, ops
from tests.reference.examples import Array, example, run


@example("graph.Graph", 1)
def test_linear_graph() -> None:
    @dataclass
    class Linear:
        weight: Array
        bias: Array

        def __call__(self, x: TensorValue) -> TensorValue:
            # the page does not import DeviceRef
            weight_tensor = ops.constant(self.weight, dtype=DType.float32, device=DeviceRef.CPU())
            bias_tensor = ops.constant(self.bias, dtype=DType.float32, device=DeviceRef.CPU())
            return ops.matmul(x, weight_tensor) + bias_tensor

    linear_graph = Graph(
        "linear",
        Linear(np.ones((2, 2)), np.ones((2,))),
        input_types=[TensorType(DType.float32, (2,))],
    )
    assert linear_graph.output_types == [TensorType(DType.float32, (2,))]
    assert run(linear_graph, np.array([1, 2], np.float32))[0].tolist() == [4, 4]
