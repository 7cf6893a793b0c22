"""The inputs and outputs of a pipeline's model."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from maxlab.driver import Tensor
from maxlab.dtype import DType
from maxlab.errors import InputError
from maxlab.pipelines.lib.interfaces import ModelInputs, ModelOutputs


def test_the_example_of_the_reference() -> None:
    class ReplitInputs(ModelInputs):
        tokens: Tensor
        input_row_offsets: Tensor

        def __init__(self, tokens: Tensor, input_row_offsets: Tensor):
            self.tokens = tokens
            self.input_row_offsets = input_row_offsets

    tokens = Tensor.zeros((1, 2, 3), DType.int64)
    input_row_offsets = Tensor.zeros((1, 1, 1), DType.int64)

    # Initialize inputs
    inputs = ReplitInputs(tokens=tokens, input_row_offsets=input_row_offsets)

    # Access tensors
    assert list(inputs) == [tokens, input_row_offsets]


@dataclass(eq=False)
class Ragged(ModelInputs):
    """Inputs as most models declare them."""

    tokens: Tensor
    offsets: Tensor
    images: Tensor | None = None


def tensor(*numbers: int) -> Tensor:
    return Tensor.from_numpy(np.array(numbers, np.int64))


def test_inputs_come_in_the_order_of_their_fields() -> None:
    a, b, c = tensor(1), tensor(2), tensor(3)
    inputs = Ragged(a, b)
    assert [id(one) for one in inputs] == [id(a), id(b)]
    inputs.update(images=c)
    assert [id(one) for one in inputs] == [id(a), id(b), id(c)]


def test_adapters_and_caches_come_last() -> None:
    a, b, ids, ranks, blocks, lengths = (tensor(n) for n in range(6))
    inputs = Ragged(a, b)
    cache: Any = [blocks, lengths]
    inputs.update(kv_cache_inputs=cache, lora_ids=ids, lora_ranks=ranks)
    found = [id(one) for one in inputs]
    assert found == [id(one) for one in (a, b, ids, ranks, blocks, lengths)]


def test_a_value_of_none_leaves_a_field_as_it_is() -> None:
    a, b = tensor(1), tensor(2)
    inputs = Ragged(a, b)
    inputs.update(tokens=None)
    assert inputs.tokens is a


@pytest.mark.parametrize("name", ["token", "update", "__class__", "_hidden", "nothing_like_it"])
def test_a_name_that_is_no_field_is_refused_and_nothing_changes(name: str) -> None:
    a, b = tensor(1), tensor(2)
    inputs = Ragged(a, b)
    with pytest.raises(InputError) as caught:
        inputs.update(**{"offsets": a, name: b})
    assert caught.value.code == "ML168"
    assert repr(name) in caught.value.what
    assert inputs.offsets is b
    if name == "token":
        assert "tokens" in str(caught.value.fix)


def test_private_attributes_are_no_inputs() -> None:
    class Counting(ModelInputs):
        def __init__(self, tokens: Tensor) -> None:
            self.tokens = tokens
            self._count = 3

    (found,) = Counting(tensor(1))
    assert isinstance(found, Tensor)


def test_outputs_cannot_be_changed() -> None:
    outputs = ModelOutputs(logits=tensor(1))
    assert outputs.next_token_logits is None
    assert outputs.logit_offsets is None
    with pytest.raises(dataclasses.FrozenInstanceError):
        outputs.logits = tensor(2)  # type: ignore[misc]
