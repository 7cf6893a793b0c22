"""The examples of ``graph.type`` that are not on the page of ``graph.ops`` too."""

from __future__ import annotations

import pytest

from maxlab.dtype import DType
from maxlab.graph import Graph, TensorType
from tests.reference.examples import example

Printed = pytest.CaptureFixture[str]


@example("graph.type", 3)
def test_type(capsys: Printed) -> None:
    with Graph() as g:
        tensor_type = TensorType(DType.float32, [2, 3])
        print(f"Tensor element type: {tensor_type.dtype}")
        print(f"Tensor shape: {tensor_type.shape}")
    assert capsys.readouterr().out == "Tensor element type: DType.float32\nTensor shape: [2, 3]\n"
    assert g.name == "graph"  # the page gives none
