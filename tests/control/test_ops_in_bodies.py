"""Every op of the table in a branch and in the body of a loop: it computes what it does outside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from maxlab.dtype import DType
from maxlab.ir import Block, Constant, DeviceRef, Function, Op, TensorType, Value
from maxlab.opset import OPSET, OpDef, Sample
from maxlab.opset.dynamic import BIND
from tests.compiler.interpret import load, outputs_of
from tests.opset.test_reference import attrs_of, needs_names, typed

FLAG = TensorType(DType.bool, [])
COUNT = TensorType(DType.int64, [])
OPS = [
    pytest.param(row, sample, symbolic, id=f"{name}-{'symbolic' if symbolic else 'static'}")
    for name, row in OPSET.items()
    if row.samples is not None and not row.effect and name not in (BIND, "mo.rebind")
    for sample in row.samples()[:1]
    for symbolic in (False, True)
    if (sample.shapes is not None if symbolic else not needs_names(sample))
]


class Region:
    """A block that is filled, with arguments of ``types``."""

    def __init__(self, function: Function, types: Sequence[Any]) -> None:
        self.function = function
        self.block = Block()
        for index, type in enumerate(types):
            value = Value(f"b{function.fresh()}", type, self.block, index)
            self.block.args.append(value)

    def op(self, name: str, operands: Sequence[Value], attrs: Any = None) -> list[Value]:
        row, attrs = OPSET[name], dict(attrs or {})
        types: list[Any] = [v.type for v in operands]
        op = self.function.create(name, operands, row.infer(types, attrs), attrs)
        self.block.append(op)
        return op.results

    def number(self, value: int) -> Value:
        data = Constant(np.asarray(value, np.int64))
        return self.op("mo.constant", [], {"value": data, "device": DeviceRef.CPU()})[0]

    def give(self, values: Sequence[Value]) -> Block:
        self.block.append(self.function.create("mo.output", values, []))
        return self.block


def close(function: Function, op: Op, regions: Sequence[Block]) -> Function:
    op.regions = list(regions)
    for region in regions:
        region.parent = op
    function.block.append(op)
    function.block.append(function.create("mo.output", op.results, []))
    return function


def plain(row: OpDef, attrs: Any, types: Sequence[Any]) -> tuple[Function, list[Any]]:
    function = Function("plain")
    values = [function.add_input(t) for t in types]
    op = function.create(row.name, values, row.infer(list(types), attrs), attrs)
    function.block.append(op)
    function.block.append(function.create("mo.output", op.results, []))
    return function, [r.type for r in op.results]


@pytest.mark.parametrize(("row", "sample", "symbolic"), OPS)
def test_an_op_in_a_body(row: OpDef, sample: Sample, symbolic: bool) -> None:
    types, env = typed(sample, symbolic)
    attrs = attrs_of(row, sample, env)
    outside, made = plain(row, attrs, types)
    wanted = outputs_of(load(outside), sample.arrays)

    branches = Function("branches")
    flag = branches.add_input(FLAG, "flag")
    values = [branches.add_input(t) for t in types]
    regions = []
    for _ in range(2):
        region = Region(branches, types)
        regions.append(region.give(region.op(row.name, region.block.args, attrs)))
    op = branches.create("mo.cond", [flag, *values], made, {"types": tuple(made)})
    model = load(close(branches, op, regions))
    for which in (True, False):
        found = outputs_of(model, [np.asarray(which), *sample.arrays])
        for got, want in zip(found, wanted, strict=True):
            assert got.tobytes() == want.tobytes()

    loops = Function("loops")
    starts = [loops.add_input(t, f"start{n}") for n, t in enumerate([COUNT, *made])]
    values = [loops.add_input(t) for t in types]
    carried = [COUNT, *made]
    before = Region(loops, [*carried, *types])
    test = before.op("mo.greater", [before.number(3), before.block.args[0]])
    body = Region(loops, [*carried, *types])
    following = body.op("mo.add", [body.block.args[0], body.number(1)])
    results = body.op(row.name, body.block.args[len(carried) :], attrs)
    op = loops.create("mo.while", [*starts, *values], carried, {"carried": len(carried)})
    model = load(close(loops, op, [before.give(test), body.give([*following, *results])]))
    zeros = [np.zeros_like(array) for array in wanted]
    for first in (0, 3):  # three turns, and none
        found = outputs_of(model, [np.asarray(first), *zeros, *sample.arrays])
        assert found[0] == 3
        for got, want in zip(found[1:], zeros if first else wanted, strict=True):
            assert got.tobytes() == want.tobytes()
