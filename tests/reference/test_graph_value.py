"""The example of ``graph.Value``."""

from __future__ import annotations

import numpy as np
import pytest

from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, Value, ops
from tests.reference.examples import example, run


@example("graph.Value", 1)
def test_value_example(capsys: pytest.CaptureFixture[str]) -> None:
    with Graph("value_example") as graph:
        # the page does not import DeviceRef
        a = ops.constant(np.array([1, 2, 3]), dtype=DType.float32, device=DeviceRef.CPU())
        b = ops.constant(np.array([4, 5, 6]), dtype=DType.float32, device=DeviceRef.CPU())
        c = a + b
        print(f"Type of c: {type(c)}")
        print(f"Is c a Value? {isinstance(c, Value)}")
        graph.output(c)
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("Type of c: <class 'maxlab.graph.")
    assert first.endswith(".TensorValue'>")
    assert second == "Is c a Value? True"
    assert run(graph)[0].tolist() == [5, 7, 9]
