"""Each error of the builder: its code, its classes, and the line of the user that it names."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import maxlab
from maxlab.dtype import DType
from maxlab.errors import MaxlabError
from maxlab.graph import (
    BufferType,
    BufferValue,
    ConvInputLayout,
    DeviceRef,
    Dim,
    FilterLayout,
    Graph,
    TensorType,
    TensorValue,
    Value,
    Weight,
    ops,
)
from maxlab.graph.quantization import QuantizationEncoding

F32, I64, BOOL = DType.float32, DType.int64, DType.bool
CPU, GPU = DeviceRef.CPU(), DeviceRef.GPU()
ONES = np.ones(4)
Q4_0, BLOCKS = QuantizationEncoding.Q4_0, np.zeros((2, 36), np.uint8)


BYTES = (Weight("bytes", DType.int8, [3, 4]), Weight("scales", F32, [3]))
"""The right operand of a product of bytes, and its scales."""


class Setting:
    """A graph with one input of each kind; what the cases below work on."""

    def __init__(self) -> None:
        self.graph = Graph(
            "g",
            input_types=[
                TensorType(F32, ["n", 4]),
                TensorType(I64, [3]),
                TensorType(BOOL, [4]),
                TensorType(F32, [4], GPU),
                BufferType(F32, [4]),
                TensorType(F32, []),
            ],
        )
        inputs: Any = self.graph.inputs
        self.x, self.i, self.b, self.gpu, self.buffer, self.zero = inputs
        self.w = Weight("w", F32, [4])
        with Graph("other", input_types=[TensorType(F32, [4])]) as other:
            self.foreign = other.inputs[0].tensor * 2
        self.other = other
        self.twin = Weight("w", F32, [4])
        self.sub = self.graph.add_subgraph("sub", lambda v: v + 1, [TensorType(F32, ["n", 4])])
        self.empty = self.graph.add_subgraph("empty", None, [])
        with self.graph:
            ops.random.set_seed(0)


def image(s: Setting) -> TensorValue:
    """Images of 8 by 8 with 4 channels."""
    return ops.broadcast_to(s.x[:, None, None, :], ("n", 8, 8, 4))


FILTER, ROWS = np.ones((2, 2, 4, 2)), np.ones((1, 1, 2, 4))
FIRST, DEEP = ConvInputLayout.NCHW, FilterLayout.QRSCF
Case = tuple[str, type[Exception], Callable[[Setting], Any]]


# fmt: off
def _buffer(x: TensorValue) -> Any:
    return ops.buffer_create(x.type.as_buffer())


CASES: list[Case] = [
    ("ML101", ValueError, lambda s: s.x + s.i),
    ("ML102", ValueError, lambda s: s.i + 1.5),
    ("ML102", ValueError, lambda s: ops.constant(300, DType.uint8, CPU)),
    ("ML102", ValueError, lambda s: ops.pad(s.i, [1, 1], value=0.5)),
    ("ML103", ValueError, lambda s: ops.constant(np.array([1j]))),
    ("ML106", ValueError, lambda s: s.b + s.b),
    ("ML106", ValueError, lambda s: -s.b),
    ("ML106", ValueError, lambda s: ops.sum(s.b)),
    ("ML106", ValueError, lambda s: s.b / 2),
    ("ML107", ValueError, lambda s: ops.exp(s.i)),
    ("ML107", ValueError, lambda s: ops.acos(s.i)),
    ("ML107", ValueError, lambda s: ops.softmax(s.i)),
    ("ML107", ValueError, lambda s: s.i.stdev()),
    ("ML108", ValueError, lambda s: ops.logical_not(s.x)),
    ("ML108", ValueError, lambda s: s.x & s.x),
    ("ML108", ValueError, lambda s: ops.where(s.x, s.x, s.x)),
    ("ML109", ValueError, lambda s: ops.gather(s.x, s.x, 0)),
    ("ML110", ValueError, lambda s: ops.concat([s.x, ops.cast(s.x, DType.float64)])),
    ("ML110", ValueError, lambda s: ops.layer_norm(s.x, s.x[0].cast(DType.float64), ONES, 1.0)),
    ("ML201", ValueError, lambda s: s.x + s.x[:, :3]),
    ("ML201", ValueError, lambda s: s.x + s.x[1:]),
    ("ML202", ValueError, lambda s: ops.reshape(s.x, ("q", 4))),
    ("ML203", ValueError, lambda s: s.x @ s.x),
    ("ML204", ValueError, lambda s: ops.squeeze(s.x, 0)),
    ("ML205", ValueError, lambda s: ops.broadcast_to(s.x, (4,))),
    ("ML205", ValueError, lambda s: ops.broadcast_to(s.x, ("m", 4))),
    ("ML206", ValueError, lambda s: ops.rebind(s.x, ("n",))),
    ("ML206", ValueError, lambda s: ops.rebind(s.x, ("n", 5))),
    ("ML207", ValueError, lambda s: ops.max(s.x[:0], axis=0)),
    ("ML208", ValueError, lambda s: ops.layer_norm(s.x, np.ones(3), np.zeros(4), 1e-5)),
    ("ML210", ValueError, lambda s: ops.concat([s.x, s.x], axis=0) + ops.concat([s.x, s.x[0]])),
    ("ML210", ValueError, lambda s: ops.stack([s.x, s.x[0]])),
    ("ML210", ValueError, lambda s: ops.stack([s.x, s.x[1:]])),
    ("ML211", ValueError, lambda s: ops.matmul(s.zero, s.x)),
    ("ML212", ValueError, lambda s: ops.stack([s.x] * 2) @ ops.stack([s.x.T] * 3)),
    ("ML213", ValueError, lambda s: s.x.reshape((-1, -1))),
    ("ML213", ValueError, lambda s: s.x.reshape((-1, 3))),
    ("ML213", ValueError, lambda s: s.x.reshape((-2,))),
    ("ML214", ValueError, lambda s: ops.pad(s.x, [0, 0, 1, 1], value=s.x)),
    ("ML215", ValueError, lambda s: s.x[:, 1:100]),
    ("ML216", ValueError, lambda s: s.x[0, 0, 0]),
    ("ML217", ValueError, lambda s: ops.mean(ops.broadcast_to(s.zero.cast(DType.int64), [2**32]))),
    ("ML302", TypeError, lambda s: ops.sum(s.x, 1.5)),  # type: ignore[arg-type]
    ("ML302", TypeError, lambda s: ops.layer_norm(s.x, np.ones(4), np.ones(4), None)),  # type: ignore[arg-type]
    ("ML303", ValueError, lambda s: ops.sum(s.x, 2)),
    ("ML303", ValueError, lambda s: ops.softmax(s.x, 5)),
    ("ML303", IndexError, lambda s: ops.transpose(s.x, 0, 2)),
    ("ML303", IndexError, lambda s: ops.transpose(s.i, -1, -2)),
    ("ML303", ValueError, lambda s: ops.sum(s.zero)),
    ("ML304", ValueError, lambda s: s.x[0] + s.gpu),
    ("ML304", ValueError, lambda s: ops.assert_same_device(s.x, gpu=s.gpu)),
    ("ML305", ValueError, lambda s: ops.gelu(s.x, "sloppy")),
    ("ML306", ValueError, lambda s: ops.flatten(s.x, 1, 0)),
    ("ML307", ValueError, lambda s: ops.permute(s.x, [0, 0])),
    ("ML308", ValueError, lambda s: ops.tile(s.x, (2,))),
    ("ML308", ValueError, lambda s: ops.tile(s.x, (0, 1))),
    ("ML310", ValueError, lambda s: ops.layer_norm(s.x, np.ones(4), np.ones(4), 0.0)),
    ("ML311", ValueError, lambda s: ops.concat([])),
    ("ML312", ValueError, lambda s: ops.pad(s.x, [1, 1])),
    ("ML312", ValueError, lambda s: ops.pad(s.x, [1, 1, 0, -1])),
    ("ML312", ValueError, lambda s: ops.pad(s.x, [1, 1], value=s.zero)),
    ("ML314", ValueError, lambda s: s.x[0] + s.foreign),
    ("ML314", ValueError, lambda s: ops.exp(s.foreign)),
    ("ML314", ValueError, lambda s: s.graph.output(s.foreign)),
    ("ML317", TypeError, lambda s: ops.exp(TensorValue(s.buffer))),
    ("ML316", ValueError, lambda s: ops.constant([[1, 2], [3]], F32, CPU)),
    ("ML316", TypeError, lambda s: ops.constant("text", F32, CPU)),
    ("ML317", TypeError, lambda s: ops.exp(1.0)),
    ("ML317", TypeError, lambda s: s.x + None),
    ("ML317", TypeError, lambda s: s.x + s.buffer),
    ("ML317", TypeError, lambda s: TensorValue(3)),
    ("ML318", TypeError, lambda s: ops.add(1, 2)),
    ("ML318", TypeError, lambda s: ops.stack([1, 2])),
    ("ML319", ValueError, lambda s: Graph("h", context=s)),
    ("ML320", TypeError, lambda s: Graph("h", input_types=[F32])),  # type: ignore[list-item]
    ("ML321", ValueError, lambda s: s.x * s.w * s.twin),
    ("ML322", ValueError, lambda s: s.graph.output_types),
    ("ML326", TypeError, lambda s: Graph(5)),  # type: ignore[arg-type]
    ("ML326", ValueError, lambda s: s.graph.add_subgraph("\ud800")),
    ("ML330", TypeError, lambda s: ops.permute(s.x, None)),  # type: ignore[arg-type]
    ("ML330", ValueError, lambda s: ops.sum(s.x, 10**5000)),
    ("ML323", ValueError, lambda s: s.graph.add_subgraph("sub")),
    ("ML324", TypeError, lambda s: s.x.buffer),
    ("ML324", TypeError, lambda s: s.buffer.tensor),
    ("ML324", TypeError, lambda s: s.x.opaque),
    ("ML324", TypeError, lambda s: BufferValue(s.x)),
    ("ML324", TypeError, lambda s: TensorValue.from_mlir(s.buffer.to_mlir())),
    ("ML325", TypeError, lambda s: Value()),
    ("ML327", TypeError, lambda s: list(s.x)),
    ("ML328", ValueError, lambda s: round(s.x, 1)),
    ("ML329", TypeError, lambda s: bool(s.x)),
    ("ML332", TypeError, lambda s: ops.constant(1.0, F32)),
    ("ML333", TypeError, lambda s: ops.constant_external("w", F32)),  # type: ignore[arg-type]
    ("ML333", TypeError, lambda s: s.graph.add_weight(s.x)),
    ("ML334", ValueError, lambda s: ops.range(0, 5, 0, dtype=I64, device=CPU)),
    ("ML334", ValueError, lambda s: ops.range(0, 5, -1, dtype=I64, device=CPU)),
    ("ML335", ValueError, lambda s: ops.range(0, s.i[0], dtype=I64, device=CPU)),
    ("ML335", TypeError, lambda s: ops.range(0, 5, Dim("n"), dtype=I64, device=CPU)),
    ("ML209", ValueError, lambda s: ops.range(0, s.i, out_dim="k", dtype=I64, device=CPU)),
    ("ML336", TypeError, lambda s: ops.reshape(s.x, 4.5)),  # type: ignore[arg-type]
    ("ML336", TypeError, lambda s: ops.reshape(s.x, "nm")),
    ("ML337", ValueError, lambda s: ops.broadcast_to(s.zero, s.i)),
    ("ML337", TypeError, lambda s: ops.broadcast_to(s.zero, [2, 3], ["a", "b"])),
    ("ML337", ValueError, lambda s: ops.broadcast_to(s.zero, s.i, ["a"])),
    ("ML338", TypeError, lambda s: ops.rebind(s.x, ("n", 4), layout="RSCF")),  # type: ignore[arg-type]
    ("ML339", ValueError, lambda s: ops.repeat_interleave(s.x, 0)),
    ("ML339", ValueError, lambda s: ops.repeat_interleave(s.x, s.i)),
    ("ML340", TypeError, lambda s: ops.concat(s.x)),
    ("ML341", ValueError, lambda s: ops.split(s.x, [1, 2], axis=1)),
    ("ML341", ValueError, lambda s: ops.split(s.x, [5, -1], axis=1)),
    ("ML342", ValueError, lambda s: ops.chunk(s.x, 3, axis=1)),
    ("ML342", ValueError, lambda s: ops.chunk(s.x, 2)),
    ("ML343", ValueError, lambda s: ops.pad(s.x, [0, 0, 1, 1], mode="reflect")),
    ("ML344", TypeError, lambda s: s.x[[0, 1], [0, 1]]),
    ("ML344", TypeError, lambda s: s.x[s.i[0] :]),
    ("ML344", TypeError, lambda s: s.x[(slice(s.x[0, 0], None), "k")]),
    ("ML728", ValueError, lambda s: ops.nonzero(s.x, -1)),
    ("ML776", TypeError, lambda s: ops.buffer_load(s.x)),
    ("ML776", TypeError, lambda s: ops.buffer_create(s.x.type)),
    ("ML777", ValueError, lambda s: ops.buffer_store(_buffer(s.x), s.x[0])),
    ("ML777", ValueError, lambda s: ops.buffer_store_slice(_buffer(s.x), s.x, [0])),
    ("ML110", ValueError, lambda s: ops.buffer_store(_buffer(s.x), s.x > 0)),
    ("ML783", TypeError, lambda s: ops.print(_buffer(s.x))),
    ("ML205", ValueError, lambda s: ops.masked_scatter(s.x, s.x[:, :2] > 0, s.x, "k")),
    ("ML108", ValueError, lambda s: ops.masked_scatter(s.x, s.x, s.x, "k")),
    ("ML205", ValueError, lambda s: ops.repeat_interleave(s.x, s.i[:1] + s.i, 1, "k")),
    ("ML110", ValueError, lambda s: ops.masked_scatter(s.x, s.x > 0, s.i, "k")),
    ("ML109", ValueError, lambda s: ops.repeat_interleave(s.x, s.x[0], 1, "k")),
    ("ML345", ValueError, lambda s: s.x[::0]),
    ("ML346", ValueError, lambda s: ops.call(s.other, s.i)),
    ("ML322", ValueError, lambda s: ops.call(s.empty)),
    ("ML347", ValueError, lambda s: ops.call(s.sub)),
    ("ML347", ValueError, lambda s: ops.call(s.sub, s.x[1:])),
    ("ML348", TypeError, lambda s: ops.call(s.x)),
    ("ML383", TypeError, lambda s: Weight(3, F32, [4])),  # type: ignore[arg-type]
    ("ML367", ValueError, lambda s: ops.conv2d(image(s), FILTER, stride=(0, 1))),
    ("ML367", ValueError, lambda s: ops.conv2d(image(s), FILTER, padding=(1, 1, 1))),  # type: ignore[arg-type]
    ("ML367", ValueError, lambda s: ops.conv2d(image(s), FILTER, groups=0)),
    ("ML367", ValueError, lambda s: ops.max_pool2d(image(s), (2, 2, 2))),  # type: ignore[arg-type]
    ("ML367", ValueError, lambda s: ops.fold(s.x[None], (4, 4), (2, 2), padding=-1)),
    ("ML302", TypeError, lambda s: ops.avg_pool2d(image(s), (2, "w"))),
    ("ML368", ValueError, lambda s: ops.conv2d(s.x, FILTER)),
    ("ML368", ValueError, lambda s: ops.conv3d(image(s), np.ones((1, 1, 1, 4, 2)))),
    ("ML368", ValueError, lambda s: ops.conv2d(image(s), ONES)),
    ("ML368", ValueError, lambda s: ops.conv2d(image(s), FILTER, bias=np.ones((1, 2)))),
    ("ML368", ValueError, lambda s: ops.fold(s.x, (4, 4), (2, 2))),
    ("ML368", ValueError, lambda s: ops.resize(s.x, (1, 1, 4, 4))),
    ("ML368", ValueError, lambda s: ops.conv2d_transpose(s.x, FILTER, input_layout=FIRST)),
    ("ML369", ValueError, lambda s: ops.conv2d(image(s), np.ones((2, 2, 3, 2)))),
    ("ML369", ValueError, lambda s: ops.conv2d(image(s), np.ones((2, 2, 2, 3)), groups=2)),
    ("ML369", ValueError, lambda s: ops.conv2d(image(s), FILTER, bias=ONES)),
    ("ML369", ValueError, lambda s: ops.conv2d_transpose(image(s), FILTER)),
    ("ML370", ValueError, lambda s: ops.conv2d(image(s), np.ones((9, 1, 4, 2)))),
    ("ML370", ValueError, lambda s: ops.conv2d_transpose(image(s), ROWS, padding=(4, 4, 0, 0))),
    ("ML370", ValueError, lambda s: ops.max_pool2d(image(s), (9, 1))),
    ("ML370", ValueError, lambda s: ops.resize(image(s), ("n", 8, 0, 4))),
    ("ML371", ValueError, lambda s: ops.conv2d(image(s), FILTER, filter_layout=DEEP)),
    ("ML371", ValueError, lambda s: ops.conv2d(image(s), FILTER, input_layout="NHWC")),  # type: ignore[arg-type]
    ("ML372", NotImplementedError, lambda s: ops.conv2d_transpose(s.x, s.x, output_paddings=1)),  # type: ignore[arg-type]
    ("ML372", NotImplementedError, lambda s: ops.resize(image(s), 4)),  # type: ignore[arg-type]
    ("ML373", ValueError, lambda s: ops.avg_pool2d(image(s), (2, 2), padding=(0, 2))),
    ("ML374", ValueError, lambda s: ops.fold(ops.unsqueeze(s.x, 2), (4, 4), (3, 1))),
    ("ML374", ValueError, lambda s: ops.fold(ops.unsqueeze(s.x, 2), (3, 3), (2, 2))),
    ("ML375", ValueError, lambda s: ops.resize(image(s), (4, 4))),
    ("ML375", ValueError, lambda s: ops.resize(image(s), ("n", 3, 4, 4))),
    ("ML376", ValueError, lambda s: ops.resize(image(s), ("n", 8, 4, 4), "cubic")),  # type: ignore[arg-type]
    ("ML106", ValueError, lambda s: ops.max_pool2d(ops.greater(image(s), 0), (2, 2))),
    ("ML107", ValueError, lambda s: ops.avg_pool2d(ops.cast(image(s), I64), (2, 2))),
    ("ML107", ValueError, lambda s: ops.resize(ops.cast(image(s), I64), ("n", 8, 4, 4))),
    ("ML110", ValueError, lambda s: ops.conv2d(ops.cast(image(s), I64), image(s))),
    ("ML360", ValueError, lambda s: ops.top_k(s.x, 5)),
    ("ML360", ValueError, lambda s: ops.top_k(s.x, -1, 0)),
    ("ML302", TypeError, lambda s: ops.top_k(s.x, 1.5)),  # type: ignore[arg-type]
    ("ML303", ValueError, lambda s: ops.top_k(s.zero, 1)),
    ("ML303", ValueError, lambda s: ops.top_k(s.x, 1, 2)),
    ("ML361", ValueError, lambda s: ops.argsort(s.x)),
    ("ML361", ValueError, lambda s: ops.argsort(s.zero)),
    ("ML362", ValueError, lambda s: ops.gather_nd(s.x, [[0]], batch_dims=1)),
    ("ML362", ValueError, lambda s: ops.gather_nd(s.x, [[0]], batch_dims=-1)),
    ("ML363", ValueError, lambda s: ops.gather_nd(s.x, [[0, 0, 0]])),
    ("ML363", ValueError, lambda s: ops.gather_nd(s.x, np.array(0))),
    ("ML363", ValueError, lambda s: ops.scatter_nd(s.x, s.x, [[0, 0, 0]])),
    ("ML363", ValueError, lambda s: ops.scatter_nd(s.x, s.x, ops.cast(ops.flatten(s.x), I64))),
    ("ML109", ValueError, lambda s: ops.gather_nd(s.x, s.x)),
    ("ML109", ValueError, lambda s: ops.scatter(s.x, s.x, s.x)),
    ("ML110", ValueError, lambda s: ops.scatter(s.x, ops.cast(s.x, I64), ops.cast(s.x, I64))),
    ("ML364", ValueError, lambda s: ops.scatter(s.x, s.x, [[0]])),
    ("ML364", ValueError, lambda s: ops.scatter(s.x, [1, 2], [0, 0])),
    ("ML364", ValueError, lambda s: ops.scatter(s.x, [[1, 2, 3, 4, 5]], [[0, 0, 0, 0, 0]], 0)),
    ("ML364", ValueError, lambda s: ops.scatter_nd(s.x, s.x, [[0]])),
    ("ML380", ValueError, lambda s: Weight("v", F32, [4], align=3)),
    ("ML381", ValueError, lambda s: Weight("v", F32, [4], quantization_encoding=s.x)),
    ("ML381", ValueError, lambda s: Weight("v", F32, [4], sharding_strategy="rows")),  # type: ignore[arg-type]
    ("ML382", ValueError, lambda s: s.w.shard([CPU])),
    ("ML397", TypeError, lambda s: ops.transfer_to(s.x, "tpu")),
    ("ML398", TypeError, lambda s: s.graph.add_subgraph("new", None, [TensorType(F32, [-1])])),
    ("ML399", TypeError, lambda s: ops.cast(s.x, object)),  # type: ignore[arg-type]
    ("ML377", RuntimeError, lambda s: Graph("g", lambda: ops.random.uniform(s.x.type))),
    ("ML378", ValueError, lambda s: ops.random.uniform(s.x.type, (0,))),  # type: ignore[arg-type]
    ("ML378", ValueError, lambda s: ops.random.uniform(s.x.type, 1)),  # type: ignore[arg-type]
    ("ML378", ValueError, lambda s: ops.random.uniform(s.x.type, (1, 1))),
    ("ML378", ValueError, lambda s: ops.random.uniform(s.x.type, (0, float("inf")))),
    ("ML378", ValueError, lambda s: ops.random.uniform(s.x.type, (1.00000001, 1.00000002))),
    ("ML378", ValueError, lambda s: ops.random.uniform(s.x.type, (0, s.w))),
    ("ML378", ValueError, lambda s: ops.random.gaussian(s.x.type, 0, 0)),
    ("ML378", ValueError, lambda s: ops.random.normal(s.x.type, 0, -1.0)),
    ("ML378", ValueError, lambda s: ops.random.normal(s.x.type, float("nan"))),
    ("ML378", ValueError, lambda s: ops.random.set_seed(2**64)),
    ("ML378", ValueError, lambda s: ops.random.set_seed(s.i)),
    ("ML302", TypeError, lambda s: ops.random.set_seed(1.5)),  # type: ignore[arg-type]
    ("ML379", TypeError, lambda s: ops.random.normal(s.x)),
    ("ML384", ValueError, lambda s: ops.band_part(s.w, 0, 0)),
    ("ML384", ValueError, lambda s: ops.band_part(s.x, -1)),
    ("ML384", ValueError, lambda s: ops.band_part(s.x, None, 5)),
    ("ML302", TypeError, lambda s: ops.band_part(s.x, 1.0)),  # type: ignore[arg-type]
    ("ML385", ValueError, lambda s: ops.as_interleaved_complex(s.i)),
    ("ML385", ValueError, lambda s: ops.as_interleaved_complex(s.zero)),
    ("ML385", ValueError, lambda s: ops.as_interleaved_complex(s.x.T)),
    ("ML386", ValueError, lambda s: ops.hann_window(-1, CPU)),
    ("ML302", TypeError, lambda s: ops.hann_window(4.0, CPU)),  # type: ignore[arg-type]
    ("ML387", ValueError, lambda s: ops.irfft(s.x, 0)),
    ("ML387", ValueError, lambda s: ops.irfft(s.x, axis=0)),
    ("ML387", ValueError, lambda s: ops.irfft(s.x, normalization="none")),
    ("ML387", ValueError, lambda s: ops.irfft(s.x, buffer_size_mb=0)),
    ("ML302", TypeError, lambda s: ops.irfft(s.x, 2.5)),  # type: ignore[arg-type]
    ("ML388", ValueError, lambda s: ops.irfft(s.x, 4, 0, input_is_complex=True)),
    ("ML736", KeyError, lambda s: QuantizationEncoding.GPTQ.block_size),
    ("ML737", ValueError, lambda s: ops.qmatmul(QuantizationEncoding.Q5_K, None, s.x, BLOCKS)),
    ("ML737", ValueError, lambda s: ops.dequantize(QuantizationEncoding.GPTQ, BLOCKS)),
    ("ML738", TypeError, lambda s: ops.dequantize(Q4_0, s.x)),
    ("ML738", TypeError, lambda s: ops.qmatmul(Q4_0, None, s.i, BLOCKS)),
    ("ML738", TypeError, lambda s: ops.qmatmul(Q4_0, None, s.x, s.x)),
    ("ML739", ValueError, lambda s: ops.dequantize(Q4_0, np.zeros((), np.uint8))),
    ("ML739", ValueError, lambda s: ops.qmatmul(Q4_0, None, s.x, BLOCKS[0])),
    ("ML739", ValueError, lambda s: ops.qmatmul(Q4_0, None, s.zero, BLOCKS)),
    ("ML740", ValueError, lambda s: ops.dequantize(Q4_0, BLOCKS[:, 1:])),
    ("ML740", ValueError, lambda s: ops.qmatmul(Q4_0, None, s.x, BLOCKS[:, 1:])),
    ("ML741", ValueError, lambda s: ops.qmatmul(Q4_0, None, s.x, BLOCKS)),
    ("ML230", ValueError, lambda s: ops.matmul_int8(s.x, *BYTES, activation="abs")),  # type: ignore[arg-type]
    ("ML231", ValueError, lambda s: ops.matmul_int8(s.x, *BYTES, given=s.w)),
    ("ML742", TypeError, lambda s: ops.dequantize("Q4_0", BLOCKS)),  # type: ignore[arg-type]
    ("ML742", TypeError, lambda s: ops.qmatmul(Q4_0, 4, s.x, BLOCKS)),  # type: ignore[arg-type]
    ("ML743", ValueError, lambda s: ops.qmatmul(Q4_0, None, s.x)),
]
# fmt: on
LOCATED_LATER = {
    "ML398"
}  # types and dims are made outside of graphs: Python's traceback names the line


@pytest.mark.parametrize(
    ("code", "kind", "act"), CASES, ids=lambda c: c if isinstance(c, str) else ""
)
def test_error(code: str, kind: type[Exception], act: Callable[[Setting], Any]) -> None:
    setting = Setting()
    graph = setting.graph
    with graph:
        kept = setting.x + 1
        before = list(graph.function.ops)
        with pytest.raises(kind) as caught:
            act(setting)
        error = caught.value
        assert isinstance(error, MaxlabError)
        assert error.code == code
        assert f"[{code}]" in str(error)
        if code not in LOCATED_LATER:
            assert error.at is not None, "the error names no line"
            assert error.at.file.endswith("test_errors.py")
            assert error.at.line == act.__code__.co_firstlineno
        # What a case built before the call that failed stays; the failed call itself left nothing.
        assert graph.function.ops[: len(before)] == before
        assert graph.function.output is None
        graph.output(kept)


def test_every_code_of_the_builder_is_tried() -> None:
    source = "".join(
        path.read_text("utf-8")
        for folder in ("graph", "opset")
        for path in Path(maxlab.__file__).parent.joinpath(folder).rglob("*.py")
    )
    raised = set(re.findall(r'"(ML[123]\d\d)"', source))
    elsewhere = {
        "ML183",  # logits that nothing can be drawn of: tests/nn/kernels/test_sampling.py
        "ML185",
        "ML300",  # what an editor does not find: test_editing.py
        "ML301",  # an op that the table does not have: tests/opset
        "ML309",  # transfer to what is no device: the builder asks first
        "ML313",  # no graph: below
        "ML315",  # an edit that cannot be: test_editing.py
        "ML350",  # a file that is no graph: tests/ir
        "ML358",  # an op of a file that is not well typed: tests/ir
        "ML365",  # modules: test_module.py
        "ML366",
    }
    assert raised - {code for code, _, _ in CASES} == elsewhere


def test_outside_of_a_graph() -> None:
    x = Graph("g", input_types=[TensorType(F32, [2])]).inputs[0].tensor
    acts: list[Callable[[], Any]] = [
        lambda: x + 1,
        lambda: Graph.current,
        lambda: Weight("w", F32, [2]) + 1,
    ]
    for act in acts:
        with pytest.raises(LookupError) as caught:
            act()
        assert isinstance(caught.value, MaxlabError)
        assert caught.value.code == "ML313"


def test_a_failed_op_leaves_the_graph_as_it_was() -> None:
    weight = Weight("w", F32, [3])
    with Graph("g", input_types=[TensorType(F32, ["n", 4])]) as graph:
        x = graph.inputs[0].tensor
        y = x * 2
        function = graph.function
        before = (list(function.ops), str(graph), dict(y._ir().uses), dict(x._ir().uses))
        acts: list[Callable[[], Any]] = [
            lambda: y + weight,  # the weight was added before the shapes were compared
            lambda: ops.stack([y, x, weight]),
            lambda: ops.pad(y, [1, 1, 1, 1], value=x),
            lambda: ops.layer_norm(y, np.ones(4), np.ones(3), 1e-5),
            lambda: y.reshape((3, -1)),
        ]
        for act in acts:
            with pytest.raises(ValueError):  # noqa: PT011 - the table above names each
                act()
            assert (list(function.ops), str(graph)) == before[:2]
            assert (dict(y._ir().uses), dict(x._ir().uses)) == before[2:]
            assert not graph.weight_table.weights
            assert not graph.weight_table.values


def test_a_failed_op_after_the_output_keeps_the_output() -> None:
    with Graph("g", input_types=[TensorType(F32, ["n", 4])]) as graph:
        x = graph.inputs[0].tensor
        graph.output(x * 2)
        names = [op.name for op in graph.function.ops]
        with pytest.raises(ValueError, match="broadcast"):
            ops.add(ops.exp(x), np.ones(3))
        assert [op.name for op in graph.function.ops] == [*names[:-1], "mo.exp", names[-1]]
        with pytest.raises(ValueError, match="gamma"):
            ops.layer_norm(x, np.ones(3), np.ones(3), 1e-5)
        assert [op.name for op in graph.function.ops] == [*names[:-1], "mo.exp", names[-1]]
        output = graph.function.output
        assert output is not None
        assert len(output.operands) == 1
        foreign = Graph("h", input_types=[TensorType(F32, [1])]).inputs[0]
        with pytest.raises(ValueError, match="another graph"):
            graph.output(x, foreign)
        assert graph.function.output is output
        assert graph._error is not None
        with pytest.warns(UserWarning, match="replaces it"):
            graph.output(x * 3)
        assert graph._error is None


def test_the_message_has_its_four_parts() -> None:
    with Graph("g", input_types=[TensorType(F32, ["n", 4])]) as graph:
        x = graph.inputs[0].tensor
        with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole text is compared
            x @ x
    lines = str(caught.value).splitlines()
    assert lines[0] == "matmul: the inner dims differ, 4 ≠ n: [n, 4] @ [n, 4] [ML203]"
    assert re.fullmatch(r"  at .*test_errors\.py:\d+", lines[1])
    assert lines[2] == "    x @ x"
    assert lines[3] == "    ^^^^^"
    assert lines[4] == "  because the left operand, float32 [n, 4], is the input 'input0'"
    assert lines[6].startswith("  fix: the left operand's last dim")
    assert "use y.T" in lines[6]


def test_the_message_says_where_the_operands_came_from() -> None:
    weight = Weight("w", F32, [3])
    with Graph("g", input_types=[TensorType(F32, ["n", 4]), TensorType(I64, ["n", 4])]) as graph:
        x, i = (v.tensor for v in graph.inputs)
        y = ops.exp(x)
        with pytest.raises(ValueError, match="broadcast") as shapes:
            ops.add(y, weight)
        with pytest.raises(ValueError, match="Unsafe cast") as dtypes:
            ops.add(y, i)
    assert isinstance(shapes.value, MaxlabError)
    made = y.to_mlir().op
    assert made is not None
    assert shapes.value.why == (
        f"the left operand, float32 [n, 4], is made by exp at {made.loc}",
        "the right operand, float32 [3], is the weight 'w'",
    )
    assert isinstance(dtypes.value, MaxlabError)
    assert "int64 [n, 4], is the input 'input1'" in str(dtypes.value)
