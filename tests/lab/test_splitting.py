"""The time of a kernel, split among the operations that it computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from maxlab import engine
from maxlab.dtype import DType
from maxlab.engine.profile import Profile
from maxlab.graph import DeviceRef, Graph, TensorType, ops
from maxlab.lab.snapshot import take
from maxlab.lab.splitting import Splitter, time_of_operations

CPU = DeviceRef.CPU()


def profiled(graph: Graph, *inputs: Any) -> Profile:
    made: Profile = engine.InferenceSession().load(graph).profile(*inputs, runs=5)
    return made


def fused() -> Profile:
    """A product, a bias and an activation in one kernel, and rows of a table in another."""
    table = np.zeros((5000, 64), np.float32)
    weight, bias = np.zeros((64, 64), np.float32), np.zeros(64, np.float32)
    ids = TensorType(DType.int64, ["n"], CPU)
    with Graph("fused", input_types=[ids]) as graph:
        rows = ops.gather(ops.constant(table, DType.float32, CPU), graph.inputs[0].tensor, axis=0)
        x = ops.tanh(rows * 2.0)
        y = ops.gelu(x @ ops.constant(weight, DType.float32, CPU) + bias)
        graph.output(y)
    return profiled(graph, np.arange(32, dtype=np.int64))


def test_the_parts_of_a_kernel_are_all_of_it() -> None:
    profile = fused()
    document = take(profile).document
    spent = time_of_operations(document)
    assert sum(one.ns for one in spent.values()) == pytest.approx(profile.kernel_ns, rel=1e-3)
    timed = document["profile"]
    assert timed is not None
    shared = [kernel for kernel in timed["kernels"] if len(kernel["nodes"]) > 1]
    assert shared
    for kernel in timed["kernels"]:
        assert ("parts" in kernel) == (len(kernel["nodes"]) > 1)
        if "parts" in kernel:
            assert sum(kernel["parts"]) == pytest.approx(1, abs=1e-5)


def test_constants_take_nothing_and_a_product_takes_most() -> None:
    document = take(fused()).document
    spent = time_of_operations(document)
    ops_of = {node["id"]: node["op"] for node in document["nodes"]}
    assert all(one.ns == 0 for id, one in spent.items() if ops_of[id] == "constant")
    timed = document["profile"]
    assert timed is not None
    with_product = [
        dict(zip((ops_of[id] for id in kernel["nodes"]), kernel["parts"], strict=True))
        for kernel in timed["kernels"]
        if "parts" in kernel and any(ops_of[id] == "matmul" for id in kernel["nodes"])
    ]
    assert with_product
    assert all(parts["matmul"] > parts["add"] for parts in with_product)


def test_rows_of_a_table_are_not_the_table() -> None:
    document = take(fused()).document
    ids = {node["op"]: node["id"] for node in document["nodes"]}
    gather, tanh = Splitter(document, {"n": 32}).parts([ids["gather"], ids["tanh"]])
    assert gather < 3 * tanh


def test_a_kernel_of_one_operation_is_exact() -> None:
    x = TensorType(DType.float32, ["n"], CPU)
    with Graph("one", input_types=[x]) as graph:
        graph.output(ops.tanh(graph.inputs[0].tensor))
    profile = profiled(graph, np.ones(32, np.float32))
    [spent] = [one for one in time_of_operations(take(profile).document).values() if one.ns]
    assert spent == (profile.kernels[0].ns, False)


def test_nothing_was_timed() -> None:
    with Graph("none", input_types=[TensorType(DType.float32, ["n"], CPU)]) as graph:
        graph.output(ops.tanh(graph.inputs[0].tensor))
    assert time_of_operations(take(graph).document) == {}
