"""Runs a graph with the NumPy references of the op table, one op after the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from maxlab import opset
from maxlab.errors import ExecutionError
from maxlab.graph import Graph
from maxlab.ir import Shape, SymbolicDim, Value
from maxlab.ir.parser import parse_function
from maxlab.ir.printer import generic
from maxlab.opset.verify import verify

Array = np.ndarray[Any, Any]


def bind(shape: Shape, sizes: tuple[int, ...], env: dict[str, int]) -> None:
    """Give the names of ``shape`` the sizes of an array."""
    assert len(shape) == len(sizes)
    for dim, size in zip(shape, sizes, strict=True):
        if isinstance(dim, SymbolicDim):
            assert env.setdefault(dim.name, size) == size, f"{dim} is {env[dim.name]} and {size}"


def run(graph: Graph, *inputs: Any, weights: Mapping[str, Array] | None = None) -> list[Array]:
    """The outputs of ``graph`` on ``inputs``.

    Raises:
        ExecutionError: A condition on the dims does not hold.
    """
    function = graph.function
    verify(function)
    text = generic(function)
    assert generic(parse_function(text)) == text, "the graph does not survive being written"
    assert str(graph)
    env: dict[str, int] = {}
    values: dict[Value, Array] = {}
    for value, given in zip(function.inputs, inputs, strict=True):
        array = np.asarray(given)
        bind(value.tensor_type.shape, array.shape, env)
        values[value] = array
    for op in function.ops:
        operands = [values[v] for v in op.operands]
        if op.name == "mo.output":
            return operands
        if op.name == "mo.rebind":
            for old, new in zip(
                op.operands[0].tensor_type.shape, op.results[0].tensor_type.shape, strict=True
            ):
                if isinstance(new, SymbolicDim):
                    env.setdefault(new.name, old.evaluate(env))
        row = opset.lookup(op.name)
        if row.checks is not None:
            types: Any = [v.type for v in op.operands]
            for check in row.checks(types, [r.type for r in op.results], op.attrs):
                if not check.holds(env):
                    raise ExecutionError("ML650", check.message, at=op.loc)
        if op.name == "mo.constant.external":
            made = [np.asarray((weights or {})[op.attrs["name"]])]
        else:
            made = opset.evaluate(op, operands, env)
        for result, array in zip(op.results, made, strict=True):
            expected = tuple(d.evaluate(env) for d in result.tensor_type.shape)
            assert array.shape == expected, (op, array.shape, expected)
            values[result] = array
    raise AssertionError("the graph has no output")
