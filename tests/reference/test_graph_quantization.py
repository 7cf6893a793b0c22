"""The example of ``graph.quantization``."""

from __future__ import annotations

from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Weight
from maxlab.graph.quantization import QuantizationEncoding
from tests.reference.examples import example


@example("graph.quantization", 1)
def test_quantized_weight() -> None:
    encoding = QuantizationEncoding.Q4_K
    quantized_weight = Weight(
        name="linear.weight",
        dtype=DType.uint8,  # the page imports neither DType nor DeviceRef
        shape=[4096, 4096],
        device=DeviceRef.GPU(0),
        quantization_encoding=encoding,
    )
    assert quantized_weight.quantization_encoding is encoding
    assert quantized_weight.shape == [4096, 4096]
    assert quantized_weight.dtype is DType.uint8
    assert str(quantized_weight.device) == "gpu:0"
