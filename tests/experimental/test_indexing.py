"""Indexing of tensors beside NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from maxlab.dtype import DType
from maxlab.errors import MaxlabError
from maxlab.experimental.tensor import Tensor

ARRAY = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
ROWS = ARRAY[:, :, 0] > 20

INDICES = [
    np.s_[1:, None],
    np.s_[..., ::2],
    np.s_[::-1, 1],
    np.s_[0],
    np.s_[-1, ..., 2],
    np.s_[:, 10:],
    np.s_[5:1],
    np.s_[-100:100:3],
    np.s_[2:-9:-1],
    np.s_[..., None],
    np.s_[()],
    np.s_[...],
    np.s_[[0, 2]],
    np.s_[:, [1, 1, 0]],
    np.s_[[0, 1], [1, 2]],
    np.s_[[0, 1], :, [1, 2]],
    np.s_[0, :, [1, 2]],
    np.s_[:, [0, 1], [1, 2]],
    np.s_[:, [[0], [1]], [1, 2]],
    np.s_[..., [-1]],
    np.s_[:, :, [0, -1], None],
    np.s_[[2], None, 1],
    np.s_[None, [0, 2], ..., ::-1],
    np.s_[np.array(1)],
    np.s_[np.int32(2), 1:3],
    np.s_[[]],
    np.s_[[True, False, True]],
    np.s_[:, ARRAY[0, :, 0] > 6],
    np.s_[ROWS, 1],
    ROWS,
    ARRAY > 5,
    ARRAY > 100,
]


@pytest.mark.parametrize("number", range(len(INDICES)))
def test_an_index_takes_what_it_takes_in_numpy(number: int) -> None:
    index: Any = INDICES[number]
    wanted = ARRAY[index]
    for x in (Tensor.from_dlpack(ARRAY.copy()), Tensor.from_dlpack(ARRAY - 1) + 1):
        made = x[index]
        assert tuple(made.shape) == wanted.shape
        np.testing.assert_array_equal(made.numpy(), wanted)


def test_indices_that_are_tensors() -> None:
    """Places are not read to take them, masks are."""
    x = Tensor.from_dlpack(ARRAY.copy())
    i = Tensor.constant([0, 2, -1], dtype=DType.int64) * 1
    j = Tensor.constant([1, 0, 3], dtype=DType.int32)
    both = x[i, j]
    assert not i.real
    np.testing.assert_array_equal(both, ARRAY[[0, 2, -1], [1, 0, 3]])
    one = Tensor.constant(1, dtype=DType.int64)
    np.testing.assert_array_equal(x[one], ARRAY[1])
    np.testing.assert_array_equal(x[:, one:], ARRAY[:, 1:])
    mask = x > 30
    np.testing.assert_array_equal(x[mask], ARRAY[ARRAY > 30])


def test_places_that_are_out_of_range_in_a_tensor() -> None:
    """Only a run can tell."""
    x = Tensor.from_dlpack(ARRAY.copy())
    made = x[Tensor.constant([7], dtype=DType.int64)]
    with pytest.raises(MaxlabError, match="out of range"):
        made.numpy()


@pytest.mark.parametrize(
    ("index", "kind", "code"),
    [
        (np.s_[7], IndexError, "ML215"),
        (np.s_[:, -5], IndexError, "ML215"),
        (np.s_[[9]], IndexError, "ML215"),
        (np.s_[0, 0, 0, 0], ValueError, "ML216"),
        (np.s_[1.5], TypeError, "ML344"),
        (np.s_["a"], TypeError, "ML344"),
        (np.s_[1.5:], TypeError, "ML344"),
        (np.s_[[0.5]], TypeError, "ML344"),
        (np.s_[True], TypeError, "ML344"),
        (np.s_[np.array([True])], TypeError, "ML344"),
        (np.s_[[0, 1], [0, 1, 2]], ValueError, "ML201"),
        (np.s_[::0], ValueError, "ML345"),
        (np.s_[..., 0, ...], ValueError, "ML345"),
    ],
)
def test_what_is_no_index(index: Any, kind: type[Exception], code: str) -> None:
    x = Tensor.from_dlpack(ARRAY.copy())
    with pytest.raises(kind) as caught:
        x[index]
    assert isinstance(caught.value, MaxlabError)
    assert caught.value.code == code
    assert caught.value.at is not None
    assert caught.value.at.file.endswith("test_indexing.py")
