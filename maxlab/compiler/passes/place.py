"""Data that a device needs is put there when the model is loaded, not at every call.

A transfer of a part of a weight, ``transfer(slice(w))``, becomes the part of a transferred weight,
``slice(transfer(w))``: whole weights are uploaded once, and the part is an index on the device.
What is computed from indices alone, a range or a dim, is made where it is wanted.
"""

from __future__ import annotations

from maxlab.ir import Op, Rewriting, TensorType, Value
from maxlab.opset import OPSET, is_transfer


def place_data(rewriting: Rewriting) -> None:
    """Move transfers ahead of the views of weights and constants."""
    if not any(map(is_transfer, rewriting.function.ops)):
        return
    for op in rewriting.function.ops:
        if not is_transfer(op):
            continue
        source = op.operands[0].op
        if source is not None and OPSET[source.name].kind == "iota" and not source.operands:
            rewriting.rule("make_there", op)
            rewriting.replace(op, [_made_there(rewriting, op, source)])
            continue
        views = _views_of_data(op.operands[0])
        if views:
            rewriting.rule("transfer_data", op)
            rewriting.replace(op, [_moved(rewriting, op, views)])


def _made_there(rewriting: Rewriting, transfer: Op, source: Op) -> Value:
    """``source``, which has no operands, on the device of ``transfer``."""
    attrs = {**source.attrs, "device": transfer.attrs["device"]}
    op = rewriting.function.create(
        source.name,
        [],
        OPSET[source.name].infer([], attrs),
        attrs,
        loc=source.loc,
        scope=source.scope,
        origins=source.origins,
    )
    rewriting.insert(op, transfer)
    return op.result


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


def _moved(rewriting: Rewriting, transfer: Op, views: list[Op]) -> Value:
    """The value of ``views`` of the transferred data: it stands before ``transfer``."""

    def add(source: Op, operand: Value) -> Value:
        assert isinstance(operand.type, TensorType)  # data is no buffer
        types = OPSET[source.name].infer([operand.type], source.attrs)
        op = rewriting.function.create(
            source.name,
            [operand],
            types,
            dict(source.attrs),
            loc=source.loc,
            scope=source.scope,
            origins=source.origins,
        )
        rewriting.insert(op, transfer)
        return op.result

    value = add(transfer, views[-1].operands[0])
    for view in reversed(views):
        value = add(view, value)
    return value


__all__ = ["place_data"]
