"""Attention that users write for several devices, in the place of ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from maxlab.dtype import DType
from maxlab.graph import BufferValue, DeviceRef, Graph, TensorType, TensorValue, Weight
from maxlab.nn.attention import DistributedAttentionImpl

PLACES = [DeviceRef.CPU(0), DeviceRef.CPU(1)]
ROWS = [TensorType(DType.float32, ["rows", 4], place) for place in PLACES]


class Scaled(DistributedAttentionImpl):
    """The rows of each device times a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = Weight("factor", DType.float32, [4], DeviceRef.CPU())

    def __call__(
        self,
        layer_idx: TensorValue,
        x: Sequence[TensorValue],
        signal_buffers: Sequence[BufferValue],
        kv_collections: Sequence[Any],
        freqs_cis: Sequence[TensorValue],
        input_row_offsets: Sequence[TensorValue],
    ) -> list[TensorValue]:
        return [rows * self.factor.to(rows.device) for rows in x]


def test_it_is_a_module_with_weights_of_its_own() -> None:
    layer = Scaled()
    with Graph("devices", input_types=ROWS) as graph:
        rows = [value.tensor for value in graph.inputs]
        graph.output(*layer(rows[0], rows, [], [], [], []))
    assert [type.device for type in graph.output_types if isinstance(type, TensorType)] == PLACES
    assert sorted(layer.state_dict()) == ["factor"]


def test_a_class_without_a_call_says_so() -> None:
    made: Any = DistributedAttentionImpl
    bare = made()
    with Graph("none", input_types=ROWS) as graph:
        rows = [value.tensor for value in graph.inputs]
        with pytest.raises(NotImplementedError):
            bare(rows[0], rows, [], [], [], [])
        graph.output()
