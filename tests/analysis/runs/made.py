"""Graphs and runs to compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from maxlab import engine
from maxlab.analysis.runs import SavedRun, record
from maxlab.dtype import DType
from maxlab.engine import Model
from maxlab.engine.profile import Profile
from maxlab.graph import Graph, TensorType, TensorValue, ops

WIDTH = 32


def layered(
    layers: int = 3, *, softmax_after: int | None = None, dtype: DType = DType.float32
) -> Graph:
    """Layers of a product and a gelu, all written on the same line."""
    noise = np.random.default_rng(0)
    with Graph("layered", input_types=[TensorType(dtype, ["batch", WIDTH])]) as graph:
        x: TensorValue = graph.inputs[0].tensor
        for layer in range(layers):
            values = noise.standard_normal((WIDTH, WIDTH)).astype(dtype.ml_numpy)
            x = ops.gelu(x @ ops.constant(values, dtype))
            if layer == softmax_after:
                x = ops.softmax(x)
        graph.output(x)
    return graph


def loaded(graph: Graph) -> Model:
    return engine.InferenceSession(num_threads=1).load(graph)


def batch(rows: int = 4, dtype: DType = DType.float32) -> Any:
    return np.random.default_rng(1).standard_normal((rows, WIDTH)).astype(dtype.ml_numpy)


def profiled(graph: Graph, rows: int = 4, dtype: DType = DType.float32, runs: int = 6) -> Profile:
    found: Profile = loaded(graph).profile(batch(rows, dtype), runs=runs, warmup=1)
    return found


def with_times(
    run: SavedRun | Profile,
    kernel_ns: Sequence[Sequence[float]],
    wall_ns: Sequence[float] | None = None,
    **changed: Any,
) -> SavedRun:
    """``run`` with other samples, ``[runs, kernels]``, and other fields of its head."""
    base = record(run)
    samples = np.round(np.array(kernel_ns, np.float64)).astype(np.int64)
    walls = samples.sum(axis=1) if wall_ns is None else np.round(wall_ns).astype(np.int64)
    head: Mapping[str, Any] = {**base._head, **changed}
    arrays = {"kernel_ns.npy": samples, "timed_ns.npy": samples.sum(axis=1), "wall_ns.npy": walls}
    return SavedRun(head, base.document, arrays)
