"""The examples of the pages of layers, caches and hooks.

An example that does not run as printed, for one has a keyword that its own page does not have,
stands here with the least change that makes it run; a comment says which.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, cast

import numpy as np
import pytest

from maxlab import driver, nn
from maxlab.driver import Tensor
from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, TensorType, Weight, ops
from maxlab.nn import ColumnParallelLinear
from maxlab.nn.comm import Signals
from maxlab.nn.embedding import Embedding, VocabParallelEmbedding
from maxlab.nn.kv_cache.manager import KVCacheInputs
from maxlab.nn.layer import add_layer_hook
from maxlab.nn.linear import Linear
from maxlab.nn.lora import LinearLoRA
from tests.reference.examples import example

Printed = pytest.CaptureFixture[str]


def shape_of(layer: Any, *types: TensorType) -> list[Any]:
    """The shape that ``layer`` gives for inputs of ``types``."""
    with Graph("shape", input_types=types) as graph:
        graph.output(layer(*(value.tensor for value in graph.inputs)))
    return list(types_of(graph)[0].shape)


def types_of(graph: Graph) -> list[TensorType]:
    """The types of the outputs."""
    return [cast(TensorType, each) for each in graph.output_types]


# ---------------------------------------------------------------- nn.conv
@example("nn.conv", 1)
def test_conv_of_given_weights(capsys: Printed) -> None:
    with Graph(name="conv_example"):
        batch_size = 2
        seq_length = 10
        in_channels = 16
        out_channels = 32
        kernel_size = 3
        x_data = np.zeros((batch_size, seq_length, in_channels), dtype=np.float32)
        x = ops.constant(x_data, dtype=DType.float32, device=DeviceRef.CPU())
        filter_1d = Weight(
            name="filter_weight",
            dtype=DType.float32,
            shape=[kernel_size, in_channels, out_channels],
            device=DeviceRef.CPU(),
        )
        bias_1d = Weight(
            name="bias_weight",
            dtype=DType.float32,
            shape=[out_channels],
            device=DeviceRef.CPU(),
        )
        # The page says nn.Conv1D, whose arguments are others; this is the class that takes weights.
        conv1d = nn.Conv1DV1(filter=filter_1d, bias=bias_1d, stride=1, padding=1)
        output_1d = conv1d(x)
        print(f"Conv1D output shape: {output_1d.shape}")
    # The page prints [Dim(2), …]; the pages of types and shapes print sizes, and so does this.
    assert capsys.readouterr().out == "Conv1D output shape: [2, 10, 32]\n"


@example("nn.conv", 2)
def test_conv1d() -> None:
    conv = nn.Conv1D(
        kernel_size=3,
        in_channels=64,
        out_channels=128,
        dtype=DType.float32,
        stride=1,
        padding=0,
        has_bias=False,
        name="conv1d_weight",
        device=DeviceRef.GPU(),
    )
    with driver.simulated():
        rows = TensorType(DType.float32, [2, 10, 64], DeviceRef.GPU())
        assert shape_of(conv, rows) == [2, 8, 128]


@example("nn.conv", 3)
def test_conv2d() -> None:
    conv = nn.Conv2d(
        kernel_size=3,
        in_channels=64,
        out_channels=128,
        dtype=DType.float32,
        stride=1,
        padding=0,
        has_bias=False,
        name="conv2d_weight",
        device=DeviceRef.GPU(),
    )
    with driver.simulated():
        images = TensorType(DType.float32, [2, 10, 9, 64], DeviceRef.GPU())
        assert shape_of(conv, images) == [2, 8, 7, 128]


@example("nn.conv", 4)
def test_conv3d() -> None:
    conv = nn.Conv3D(
        depth=2,  # the page gives no sizes
        height=3,
        width=4,
        in_channels=8,
        out_channels=16,
        dtype=DType.float32,
        stride=1,
        padding=0,
        has_bias=False,
        name="conv3d_weight",
        device=DeviceRef.GPU(),
    )
    with driver.simulated():
        clips = TensorType(DType.float32, [2, 5, 6, 7, 8], DeviceRef.GPU())
        assert shape_of(conv, clips) == [2, 4, 4, 4, 16]


# ---------------------------------------------------------------- nn.conv_transpose
@example("nn.conv_transpose", 1)
def test_transposed_conv() -> None:
    in_channels, out_channels, kernel_size, stride, padding, output_padding = 4, 6, 3, 2, 1, 1
    conv = nn.ConvTranspose1d(
        # By name: the page gives no dtype, and sizes in an order that its signature does not have.
        length=kernel_size,
        in_channels=in_channels,
        out_channels=out_channels,
        dtype=DType.float32,
        stride=stride,
        padding=padding,
        output_padding=output_padding,
        has_bias=False,
        name="conv3d_weight",
        device=DeviceRef.GPU(),
    )
    with driver.simulated():
        rows = TensorType(DType.float32, [2, 5, 4], DeviceRef.GPU())
        assert shape_of(conv, rows) == [2, 10, 6]


def test_transposed_conv_with_normed_weights() -> None:
    """The example in the description of ``WeightNormConvTranspose1d``."""
    kernel_size, in_channels, out_channels, dtype, stride = 3, 4, 6, DType.float32, 2
    padding = output_padding = 1
    conv = nn.WeightNormConvTranspose1d(
        length=kernel_size,
        in_channels=in_channels,
        out_channels=out_channels,
        dtype=dtype,
        stride=stride,
        padding=padding,
        output_padding=output_padding,
        has_bias=False,
        device=DeviceRef.GPU(),
    )
    with driver.simulated():
        rows = TensorType(DType.float32, [2, 5, 4], DeviceRef.GPU())
        assert shape_of(conv, rows) == [2, 10, 6]


# ---------------------------------------------------------------- nn.embedding
@example("nn.embedding", 1)
def test_embedding_of_constants(capsys: Printed) -> None:
    with driver.simulated(), Graph(name="embedding_example"):
        batch_size = 4
        seq_length = 16
        vocab_size = 10000
        hidden_dim = 256
        input_data = np.random.default_rng(0).integers(  # the page: np.random.randint
            0, vocab_size, (batch_size, seq_length), dtype=np.int32
        )
        input_indices = ops.constant(input_data, dtype=DType.int32, device=DeviceRef.CPU())
        embedding = nn.EmbeddingV2(
            vocab_size=vocab_size,
            hidden_dim=hidden_dim,
            dtype=DType.float32,
            device=DeviceRef.GPU(),
            name="token_embeddings",
        )
        # The page leaves the indices on the CPU.
        embeddings = embedding(input_indices.to(DeviceRef.GPU()))
        print(f"Embedding output shape: {embeddings.shape}")
    assert capsys.readouterr().out == "Embedding output shape: [4, 16, 256]\n"


@example("nn.embedding", 2)
def test_embedding() -> None:
    embedding_layer = Embedding(
        vocab_size=1000,
        hidden_dim=256,
        dtype=DType.float32,
        device=DeviceRef.GPU(),
        name="embeddings",
    )
    with driver.simulated():
        token_indices = TensorType(DType.int64, ["rows", 3], DeviceRef.GPU())
        assert shape_of(embedding_layer, token_indices) == ["rows", 3, 256]


@example("nn.embedding", 3)
def test_embedding_on_several_devices() -> None:
    places = [DeviceRef.CPU(0), DeviceRef.CPU(1)]  # the page: two GPUs
    embedding_layer = VocabParallelEmbedding(
        vocab_size=1000,
        hidden_dim=256,
        dtype=DType.float32,
        devices=places,  # the page: device
        name="embeddings",
    )
    signals = Signals(places)
    with Graph("embed", input_types=[TensorType(DType.int64, [7]), *signals.input_types()]) as g:
        embeddings = embedding_layer(g.inputs[0].tensor, [v.buffer for v in g.inputs[1:]])
        g.output(*embeddings)
    assert [list(x.shape) for x in types_of(g)] == [[7, 256]] * 2


# ---------------------------------------------------------------- nn.kv_cache.manager
@example("nn.kv_cache.manager", 1)
def test_inputs_of_a_cache() -> None:
    @dataclass
    class RaggedKVCacheInputs(KVCacheInputs):
        blocks: Tensor
        cache_lengths: Tensor
        lookup_table: Tensor
        max_lengths: Tensor

    tensors = [Tensor.from_numpy(np.full(n, n, np.uint32)) for n in (1, 2, 3, 4)]
    inputs = RaggedKVCacheInputs(*tensors)
    assert list(inputs) == tensors
    assert [field.name for field in fields(inputs)][1] == "cache_lengths"


# ---------------------------------------------------------------- nn.layer
@example("nn.layer", 1)
def test_modules_in_modules(capsys: Printed) -> None:
    class Linear(nn.Module):
        def __init__(self, in_dims: int, out_dims: int) -> None:
            super().__init__()
            # The page: (in_dim, out_dim), two names it does not have, with .T in the call.
            self.weight = Weight("weight", DType.float32, (out_dims, in_dims), DeviceRef.CPU())

        def __call__(self, x: Any) -> Any:
            return x @ self.weight.T

    class MLP(nn.Module):
        def __init__(self) -> None:
            self.up = Linear(5, 10)
            self.gate = Linear(5, 10)
            self.down = Linear(10, 5)

        def __call__(self, x: Any) -> Any:
            return self.down(ops.silu(self.gate(x)) + self.up(x))

    model = MLP()
    print(model.state_dict())
    assert "up.weight" in capsys.readouterr().out
    assert {name: each.shape for name, each in model.state_dict().items()} == {
        "up.weight": (10, 5), "gate.weight": (10, 5), "down.weight": (5, 10),
    }  # fmt: skip
    assert shape_of(model, TensorType(DType.float32, [3, 5])) == [3, 5]


@example("nn.layer", 2)
def test_a_hook_that_prints(capsys: Printed) -> None:
    def print_info(layer: Any, args: Any, kwargs: Any, outputs: Any) -> Any:
        print("Layer:", type(layer).__name__)
        print("Input args:", args)
        print("Input kwargs:", kwargs)
        print("Outputs:", outputs)
        return outputs

    add_layer_hook(print_info)
    try:
        layer = Linear(3, 2, DType.float32, DeviceRef.CPU())
        assert shape_of(layer, TensorType(DType.float32, [4, 3])) == [4, 2]
    finally:
        nn.clear_hooks()
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "Layer: Linear"
    assert [line.partition(":")[0] for line in printed[1:]] == [
        "Input args", "Input kwargs", "Outputs",
    ]  # fmt: skip


# ---------------------------------------------------------------- nn.linear
@example("nn.linear", 1)
@example("nn.linear", 2)
@example("nn.linear", 3)
def test_columns_on_several_devices() -> None:
    """The pictures: each device computes its columns, and all get the columns of all."""
    num_devices, in_dim, out_dim = 4, 3, 8
    places = [DeviceRef.CPU(i) for i in range(num_devices)]  # the page: GPUs
    distributed_linear = ColumnParallelLinear(in_dim, out_dim, DType.float32, devices=places)
    signals = Signals(places)
    types = [TensorType(DType.float32, [5, in_dim], place) for place in places]
    with Graph("columns", input_types=[*types, *signals.input_types()]) as graph:
        values = list(graph.inputs)
        made = distributed_linear(
            [v.tensor for v in values[:num_devices]], [v.buffer for v in values[num_devices:]]
        )
        graph.output(*made)
    assert [t.shape for t in types_of(graph)] == [[5, out_dim]] * num_devices
    assert [t.device for t in types_of(graph)] == places


@example("nn.linear", 4)
def test_linear() -> None:
    linear_layer = Linear(
        in_dim=256,
        out_dim=128,
        dtype=DType.float32,
        device=DeviceRef.GPU(),
        name="linear",
        has_bias=True,
    )
    with driver.simulated():
        rows = TensorType(DType.float32, ["rows", 256], DeviceRef.GPU())
        assert shape_of(linear_layer, rows) == ["rows", 128]


# ---------------------------------------------------------------- nn.lora
@example("nn.lora", 1)
def test_linear_with_adapters() -> None:
    linear_layer = LinearLoRA(
        in_dim=256,
        out_dim=128,
        max_lora_rank=16,
        max_num_loras=100,
        dtype=DType.float32,  # the page: dtype.float32
        device=DeviceRef.GPU(),
        has_bias=True,
        has_lora_bias=True,
        name="lora_linear",
    )
    place = DeviceRef.GPU()

    def call(lora_ids: Any, lora_ranks: Any, input_row_offsets: Any, input_tensor: Any) -> Any:
        linear_layer.set_lora_batch_info(lora_ids, lora_ranks, input_row_offsets)
        return linear_layer(input_tensor)

    with driver.simulated():
        types = [
            TensorType(DType.int32, [100], place),
            TensorType(DType.uint32, [100], place),
            TensorType(DType.uint32, [101], place),
            TensorType(DType.float32, ["tokens", 256], place),
        ]
        assert shape_of(call, *types) == ["tokens", 128]
