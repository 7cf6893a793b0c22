"""The examples of ``graph.type``."""

from __future__ import annotations

import pytest

from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, TensorType
from tests.reference.examples import example

Printed = pytest.CaptureFixture[str]


@example("graph.type", 1)
def test_device_ref(capsys: Printed) -> None:
    gpu_device = DeviceRef.GPU()
    print(gpu_device)
    cpu_device = DeviceRef.CPU(id=1)
    print(cpu_device)
    assert capsys.readouterr().out == "gpu:0\ncpu:1\n"


@example("graph.type", 2)
def test_tensor_type(capsys: Printed) -> None:
    tensor_type = TensorType(DType.float32, (2, 3))
    print(tensor_type.dtype)
    print(tensor_type.shape)
    assert capsys.readouterr().out == "DType.float32\n[2, 3]\n"


@example("graph.type", 3)
def test_type(capsys: Printed) -> None:
    with Graph() as g:
        tensor_type = TensorType(DType.float32, [2, 3])
        print(f"Tensor element type: {tensor_type.dtype}")
        print(f"Tensor shape: {tensor_type.shape}")
    assert capsys.readouterr().out == "Tensor element type: DType.float32\nTensor shape: [2, 3]\n"
    assert g.name == "graph"  # the page gives none
