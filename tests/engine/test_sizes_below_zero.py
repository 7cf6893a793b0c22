"""A dim that comes out negative is refused before anything runs, at the user's line."""

from __future__ import annotations

import numpy as np
import pytest

from maxlab import engine
from maxlab.dtype import DType
from maxlab.errors import InputError
from maxlab.graph import Dim, Graph, TensorType, ops


def test_a_difference_of_dims_below_zero_is_refused() -> None:
    with Graph("below", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        one = ops.reshape(ops.sum(graph.inputs[0].tensor), [1])
        graph.output(ops.broadcast_to(one, [Dim("n") - 5]))
    model = engine.InferenceSession().load(graph)
    assert model(np.ones(7, np.float32))[0].shape == (2,)
    assert model(np.ones(5, np.float32))[0].shape == (0,)
    with pytest.raises(InputError, match=r"negative size -2: n - 5 \(n = 3\).*ML623") as caught:
        model(np.ones(3, np.float32))
    assert caught.value.at is not None
    assert "broadcast_to" in caught.value.at.text
