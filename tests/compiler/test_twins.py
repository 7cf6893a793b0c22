"""A graph with a batch of one and its twin with a symbolic batch: both give the same numbers, and
the kernels of the one that knows more divide no more in their loops, where a division keeps the
compiler from vector instructions.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

from maxlab.compiler.passes import PIPELINE
from maxlab.compiler.passes import run as run_passes
from maxlab.compiler.planner import Planner
from maxlab.compiler.schedule import Schedule
from maxlab.dtype import DType
from maxlab.engine import InferenceSession
from maxlab.graph import DeviceRef, Graph, TensorType, TensorValue, ops
from maxlab.opset import OPSET

Build = Callable[[TensorValue], TensorValue]
C, H, W = 32, 8, 12


def _normalised(x: TensorValue) -> TensorValue:
    groups = ops.reshape(x, [x.shape[0], 4, C // 4 * H * W])
    centred = groups - ops.mean(groups)
    return ops.reshape(centred * ops.rsqrt(ops.mean(centred * centred) + 1e-5), x.shape)


def _heads(x: TensorValue) -> TensorValue:
    rows = ops.reshape(x, [x.shape[0], C, H, W // 4, 4])
    return ops.reshape(ops.permute(rows, [0, 3, 1, 2, 4]), [x.shape[0], W // 4, C * H * 4])


def _shuffled(x: TensorValue) -> TensorValue:
    parts = ops.reshape(x, [x.shape[0], C // 4, 2, 2, H, W])
    return ops.reshape(ops.permute(parts, [0, 1, 4, 2, 5, 3]), [x.shape[0], C // 4, 2 * H, 2 * W])


def _patches(x: TensorValue) -> TensorValue:
    parts = ops.reshape(x, [x.shape[0], C, H // 4, 4, W // 4, 4])
    return ops.reshape(ops.permute(parts, [0, 2, 4, 1, 3, 5]), [x.shape[0], -1, C * 16])


def _there_and_back(x: TensorValue) -> TensorValue:
    return ops.reshape(ops.flatten(x, 1, 3) * 2.0, x.shape) + x


def _layer(x: TensorValue) -> TensorValue:
    one = ops.constant(np.ones(H * W, np.float32), DType.float32, DeviceRef.CPU())
    return ops.layer_norm(ops.reshape(x, [x.shape[0], C, H * W]), one, one, 1e-5)


GRAPHS: dict[str, Build] = {
    "group norm": _normalised,
    "heads": _heads,
    "pixel shuffle": _shuffled,
    "patches": _patches,
    "there and back": _there_and_back,
    "split": lambda x: ops.reshape(x, [x.shape[0], C // 2, 2, H * W]) * 2.0,
    "merge": lambda x: ops.reshape(x, [x.shape[0], C * H, W]) * 2.0,
    "merge and split": lambda x: ops.reshape(ops.reshape(x, [x.shape[0], -1]), [x.shape[0], H, -1]),
    "flatten": lambda x: ops.flatten(x * 2.0, 1, 3),
    "squeeze": lambda x: ops.squeeze(ops.unsqueeze(x * 2.0, 1), 1),
    "transpose": lambda x: ops.reshape(ops.transpose(x, 1, 2), [x.shape[0], H, C * W]),
    "broadcast": lambda x: ops.broadcast_to(x[:, :, :, :1], x.shape) * 2.0,
    "tile": lambda x: ops.tile(x, [1, 1, 1, 2]),
    "slice": lambda x: ops.reshape(x[:, 8:24], [x.shape[0], 16 * H, W]) * 2.0,
    "rebind": lambda x: ops.rebind(x, x.shape) * 2.0,
    "softmax": lambda x: ops.softmax(ops.reshape(x, [x.shape[0], C, H * W])),
    "log softmax": lambda x: ops.logsoftmax(ops.reshape(x, [x.shape[0], C, H * W])),
    "layer norm": _layer,
    "sum": lambda x: ops.sum(ops.reshape(x, [x.shape[0], C // 4, 4 * H * W])),
    "maximum": lambda x: ops.max(ops.reshape(x, [x.shape[0], C // 4, 4 * H * W])),
    "minimum": lambda x: ops.min(ops.reshape(x, [x.shape[0], C // 4, 4 * H * W])),
    "mean": lambda x: ops.mean(ops.reshape(x, [x.shape[0], C // 4, 4 * H * W])),
    "argmax": lambda x: ops.argmax(ops.reshape(x, [x.shape[0], C // 4, 4 * H * W])),
    "argmin": lambda x: ops.argmin(ops.reshape(x, [x.shape[0], C // 4, 4 * H * W])),
    "concat": lambda x: ops.concat([x, ops.reshape(x, x.shape) * 2.0], axis=1),
    "pad": lambda x: ops.pad(x, [0, 0, 0, 0, 1, 1, 1, 1]),
    "cumsum": lambda x: ops.cumsum(ops.reshape(x, [x.shape[0], C, H * W])),
}
"""By name: what is computed of ``[batch, 32, 8, 12]``."""


def graph_of(name: str, batch: int | str) -> Graph:
    type = TensorType(DType.float32, [batch, C, H, W], DeviceRef.CPU())
    with Graph("twin", input_types=[type]) as graph:
        x = graph.inputs[0].tensor
        graph.output(GRAPHS[name](x))
    return graph


def divisions(graph: Graph) -> int:
    """How many divisions and remainders the loops over elements have in the text of its kernels."""
    work = graph.function.clone()
    run_passes(work, PIPELINE)
    found = 0
    for step in Planner(Schedule(work)).build().steps:
        if step.printed:
            for index in re.findall(r"\[([^\[\]]*)\]", step.printed.text):
                found += len(re.findall(r"[/%]|floordiv", index))
    return found


@pytest.mark.parametrize("name", GRAPHS)
def test_one_that_knows_its_batch_divides_no_more(name: str) -> None:
    assert divisions(graph_of(name, 1)) <= divisions(graph_of(name, "batch"))


@pytest.mark.parametrize("name", GRAPHS)
def test_twins_give_the_same(name: str) -> None:
    session = InferenceSession()
    x = np.random.default_rng(7).standard_normal((1, C, H, W)).astype(np.float32)
    known, symbolic = (session.load(graph_of(name, batch)) for batch in (1, "batch"))
    (mine,), (right,) = known.execute(x), symbolic.execute(x)
    np.testing.assert_allclose(mine.to_numpy(), right.to_numpy(), rtol=2e-6, atol=1e-6)


def test_every_view_and_every_op_of_rows_is_there() -> None:
    built = {op.name for name in GRAPHS for op in graph_of(name, 1).function.ops}
    named = {
        name
        for name, row in OPSET.items()
        if row.kind in ("view", "reduce", "concat", "pad")
        or name in ("mo.softmax", "mo.logsoftmax", "mo.layer_norm", "mo.argmax", "mo.argmin")
    }
    assert named <= built
