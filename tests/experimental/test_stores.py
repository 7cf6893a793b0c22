"""Stores into tensors, and what was recorded of them before."""

from __future__ import annotations

import numpy as np
import pytest

from maxlab.dtype import DType
from maxlab.errors import DTypeError, MaxlabError, ShapeError
from maxlab.experimental import functional as F  # noqa: N812 - as everybody calls it
from maxlab.experimental.tensor import Tensor


def test_what_was_recorded_keeps_the_elements_that_it_had() -> None:
    """Also where several traces and several inputs of one depend on the memory."""
    x = Tensor.zeros((3,))
    before = x + 1
    also = x[1:] * 5
    F.buffer_store(x, Tensor.constant([1.0, 2.0, 3.0]))
    after = x + 1
    kept = x * 2
    F.buffer_store_slice(x, 9, [slice(1, None)])
    assert x.tolist() == [1, 9, 9]
    assert (before.tolist(), also.tolist()) == ([1, 1, 1], [0, 0])
    assert (after.tolist(), kept.tolist()) == ([2, 3, 4], [2, 4, 6])


def test_the_memory_is_the_same() -> None:
    """An array whose memory a tensor shares is changed."""
    array = np.zeros((2, 3), np.float32)
    x = Tensor.from_dlpack(array)
    F.buffer_store_slice(x, Tensor.constant([1.0, 2.0, 3.0]), [1])
    x[0, :2] = 7
    np.testing.assert_array_equal(array, [[7, 7, 0], [1, 2, 3]])
    place = Tensor.constant(0, dtype=DType.int64)
    F.buffer_store_slice(x, np.array([4, 5, 6]), [place])
    np.testing.assert_array_equal(array[0], [4, 5, 6])


def test_memory_that_is_only_read_is_copied() -> None:
    """The tensor changes, the array that says it must not does not."""
    array = np.zeros(3, np.float32)
    array.flags.writeable = False
    x = Tensor.from_dlpack(array)
    F.buffer_store(x, 2)
    assert x.tolist() == [2, 2, 2]
    assert array.tolist() == [0, 0, 0]


def test_a_store_into_what_is_recorded() -> None:
    """The destination and the source are computed first."""
    x = Tensor.ones((2,)) * 3
    F.buffer_store_slice(x, x[0:1] + 1, [slice(1, 2)])
    assert x.tolist() == [3, 4]


@pytest.mark.parametrize(
    ("source", "indices", "kind"),
    [
        (Tensor.ones((4,)), [0], ShapeError),
        (Tensor.ones((3,), dtype=DType.float64), [0], DTypeError),
        (1, [2], ShapeError),
        (1, [0, 0, 0], ShapeError),
        (1, [None], MaxlabError),
        ("one", [0], MaxlabError),
    ],
)
def test_what_cannot_be_stored(source: object, indices: list[object], kind: type) -> None:
    """It is refused at the line of the store, and nothing changes."""
    x = Tensor.zeros((2, 3))
    with pytest.raises(kind) as caught:
        F.buffer_store_slice(x, source, indices)
    assert caught.value.at.file.endswith("test_stores.py")  # type: ignore[attr-defined]
    assert x.tolist() == [[0, 0, 0], [0, 0, 0]]
