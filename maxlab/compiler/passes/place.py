"""Data that a device needs is put there when the model is loaded, not at every call.

A transfer of a part of a weight, ``transfer(slice(w))``, becomes the part of a transferred weight,
``slice(transfer(w))``: whole weights are uploaded once, and the part is an index on the device.
What is computed from indices alone, a range or a dim, is made where it is wanted.
"""

from __future__ import annotations

from maxlab.compiler.passes.manager import Rewrite
from maxlab.ir import Function, Op, TensorType, Value
from maxlab.opset import OPSET


def place_data(function: Function, rewrites: list[Rewrite]) -> None:
    """Move transfers ahead of the views of weights and constants."""
    if not any(op.name == "mo.transfer" for op in function.ops):
        return
    kept: list[Op] = []
    for op in function.ops:
        source = op.operands[0].op if op.name == "mo.transfer" else None
        if source is not None and OPSET[source.name].kind == "iota" and not source.operands:
            made = _made_there(function, op, source)
            kept.append(made)
            op.result.replace_with(made.result)
            rewrites.append(Rewrite("make_there", op.id, (made.id,)))
            continue
        views = _views_of_data(op.operands[0]) if op.name == "mo.transfer" else []
        if not views:
            kept.append(op)
            continue
        moved = _moved(function, op, views)
        kept += moved
        op.result.replace_with(moved[-1].result)
        rewrites.append(Rewrite("transfer_data", op.id, tuple(o.id for o in moved)))
    function.block.keep(kept)


def _made_there(function: Function, transfer: Op, source: Op) -> Op:
    """``source``, which has no operands, on the device of ``transfer``."""
    attrs = {**source.attrs, "device": transfer.attrs["device"]}
    op = function.create(
        source.name,
        [],
        OPSET[source.name].infer([], attrs),
        attrs,
        loc=source.loc,
        scope=source.scope,
        origins=source.origins,
    )
    op.block = function.block
    return op


def _views_of_data(value: Value) -> list[Op]:
    """The views between ``value`` and the data that it is a part of, the outermost first; empty if
    it is no such part, or the data itself.
    """
    found: list[Op] = []
    while value.op is not None:
        kind = OPSET[value.op.name].kind
        if kind in ("constant", "external"):
            return found
        if kind != "view":
            break
        found.append(value.op)
        value = value.op.operands[0]
    return []


def _moved(function: Function, transfer: Op, views: list[Op]) -> list[Op]:
    made: list[Op] = []

    def add(source: Op, operand: Value) -> Value:
        assert isinstance(operand.type, TensorType)  # data is no buffer
        types = OPSET[source.name].infer([operand.type], source.attrs)
        op = function.create(
            source.name,
            [operand],
            types,
            dict(source.attrs),
            loc=source.loc,
            scope=source.scope,
            origins=source.origins,
        )
        op.block = function.block
        made.append(op)
        return op.result

    value = add(transfer, views[-1].operands[0])
    for view in reversed(views):
        value = add(view, value)
    return made


__all__ = ["place_data"]
