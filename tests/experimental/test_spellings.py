"""Names and arguments that NumPy, PyTorch and other versions of MAX have for the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from maxlab.dtype import DType
from maxlab.errors import ArgumentTypeError, DTypeError
from maxlab.experimental import random
from maxlab.experimental.tensor import Tensor

X = np.arange(6, dtype=np.float32).reshape(2, 3)

SPELLINGS: dict[str, tuple[Callable[[Tensor], Any], np.ndarray[Any, Any]]] = {
    "mean of a dim": (lambda x: x.mean(dim=0), X.mean(0, keepdims=True)),
    "max of a dim": (lambda x: x.max(dim=0), X.max(0, keepdims=True)),
    "argmax of a dim": (lambda x: x.argmax(dim=0), X.argmax(0, keepdims=True)),
    "sum of an axis": (lambda x: x.sum(0), X.sum(0, keepdims=True)),
    "reshape by sizes": (lambda x: x.reshape(3, 2), X.reshape(3, 2)),
    "reshape by a list": (lambda x: x.reshape([3, -1]), X.reshape(3, 2)),
    "reshape by a size": (lambda x: x.reshape(-1), X.reshape(-1)),
    "view": (lambda x: x.view(3, 2), X.reshape(3, 2)),
    "permute by dims": (lambda x: x.permute(1, 0), X.T),
    "permute by a list": (lambda x: x.permute([1, 0]), X.T),
    "transposed": (lambda x: x.T, X.T),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_spellings_of_methods(name: str) -> None:
    function, wanted = SPELLINGS[name]
    np.testing.assert_array_equal(function(Tensor.from_dlpack(X)).numpy(), wanted)


def test_tensors_of_numbers_without_a_factory() -> None:
    made = Tensor([1, 2, 3, 4])
    assert (made.dtype, made.numpy().tolist()) == (DType.float32, [1, 2, 3, 4])
    assert Tensor(X.astype(int), dtype=DType.int8).numpy().tolist() == X.tolist()
    assert Tensor(3).item() == 3
    with pytest.raises(DTypeError, match="ML102"):
        Tensor([300], dtype=DType.int8)
    with pytest.raises(ArgumentTypeError, match="ML809"):
        Tensor()
    with pytest.raises(ArgumentTypeError, match="ML809"):
        Tensor([1], storage=made.driver_tensor)


def test_randn_draws_what_normal_draws() -> None:
    random.set_seed(1)
    wanted = random.normal([3, 2]).numpy()
    random.set_seed(1)
    np.testing.assert_array_equal(Tensor.randn([3, 2]).numpy(), wanted)


def test_the_class_stands_in_the_package_too() -> None:
    from maxlab import experimental

    assert experimental.Tensor is Tensor
    with pytest.raises(AttributeError, match="Tensor"):
        _ = experimental.Tensors
