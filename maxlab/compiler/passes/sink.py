"""Data that a region reads becomes its own.

Weights, constants and what is made of indices alone are written again in each region that captured
them, so that a product in the body of a loop finds its weight packed when the model is loaded, and
a number is part of the text of a kernel.
"""

from __future__ import annotations

from maxlab.ir import Block, Function, Op, Rewriting, Value
from maxlab.opset import OPSET

_DATA = ("constant", "external", "iota")


def sink_data(rewriting: Rewriting) -> None:
    """Let regions have copies of the data that they captured."""
    for op in rewriting.function.ops:
        if op.regions:
            _sink(rewriting, op)


def _sink(rewriting: Rewriting, op: Op) -> None:
    first = len(op.operands) - len(op.regions[0].args)  # the operands before are no arguments
    carried = op.attrs.get("carried", 0)
    for position in reversed(range(first + carried, len(op.operands))):
        made = _data_behind(op.operands[position])
        if not made:
            continue
        rewriting.rule("sink", made[0])
        for region in op.regions:
            _write_again(rewriting.function, region, position - first, made)
        op.set_operands([v for n, v in enumerate(op.operands) if n != position])


def _data_behind(value: Value) -> list[Op]:
    """The op that ``value`` is data by, and the transfer that brings it to its device, if any;
    empty if it is computed."""
    ops: list[Op] = []
    while value.op is not None:
        ops.append(value.op)
        if OPSET[value.op.name].kind in _DATA and not value.op.operands:
            return ops[::-1]
        if OPSET[value.op.name].kind != "transfer":
            break
        value = value.op.operands[0]
    return []


def _write_again(function: Function, region: Block, index: int, ops: list[Op]) -> None:
    """Let ``region`` have copies of ``ops`` instead of its argument ``index``."""
    arg = region.args[index]
    first = region.ops[0]
    operands: list[Value] = []
    for source in ops:
        copy = function.create(
            source.name,
            operands,
            [r.type for r in source.results],
            source.attrs,
            loc=source.loc,
            scope=source.scope,
            origins=source.origins,
        )
        copy.result.rename(source.result.name)
        region.insert(copy, first)
        operands = [copy.result]
    arg.replace_with(operands[0])
    region.remove_argument(arg)


__all__ = ["sink_data"]
