"""The example of ``dtype``."""

from __future__ import annotations

import numpy as np

from maxlab.dtype import DType
from tests.reference.examples import example


@example("dtype", 1)
def test_dtypes() -> None:
    tensor = np.zeros((2, 3), dtype=DType.float32.to_numpy())
    array = np.ones((4, 4), dtype=np.float16)
    max_dtype = DType.from_numpy(array.dtype)
    is_float = DType.float32.is_float()
    is_int = DType.int64.is_integral()
    size = DType.float64.size_in_bytes
    assert tensor.dtype == np.float32
    assert max_dtype is DType.float16
    assert (is_float, is_int, size) == (True, True, 8)
