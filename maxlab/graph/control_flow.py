"""Ops with regions: how a function of the user becomes a region, and how an op takes regions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from maxlab.graph.chains import DeviceChains
from maxlab.graph.regions import Region
from maxlab.graph.value import Value, wrap
from maxlab.graph.writer import Writer
from maxlab.ir import ChainType, Type
from maxlab.ir import Value as IrValue
from maxlab.opset import OpDef


def traced(
    writer: Writer,
    chains: DeviceChains,
    what: str,
    arguments: Sequence[Value | Type],
    body: Callable[..., Sequence[Value]],
) -> Region:
    """A region of the ops that ``body`` adds, called with values like ``arguments``."""
    region = Region(what, writer.function.region())
    for like in arguments:
        if isinstance(like, Type):
            writer.add_argument(region, like, "")
        else:
            value = like._ir()
            writer.add_argument(region, value.type, value.name)
    given = [wrap(v) for v in region.block.args]
    region.before = dict(chains.newest)
    writer.regions.append(region)
    try:
        made = body(*given)
        region.given = [writer.own(value) for value in made]
    finally:
        writer.regions.pop()
        region.after = dict(chains.newest)
        # a chain that was first asked for in the region begins in the graph itself
        first = {d: v for d, v in chains.first.items() if d not in region.before}
        region.before = {**first, **region.before}
        chains.newest.replace(region.before)
    return region


def closed(
    writer: Writer,
    chains: DeviceChains,
    row: OpDef,
    operands: Sequence[IrValue],
    regions: Sequence[Region],
    attrs: dict[str, Any],
) -> list[IrValue]:
    """The results, without chains, of a new op with ``regions``.

    Every region gets the same arguments: those that it has, then what any of them captured, chains
    last.
    """
    types = writer.types_of(row, operands, attrs)
    outside = dict.fromkeys(v for region in regions for v in region.captured)
    moved = {d: writer.reached(r.before[d]) for r in regions for d in r.moved}
    outside |= dict.fromkeys(moved.values())  # all must give a chain that one has moved on
    captured = [v for v in outside if not isinstance(v.type, ChainType)]
    taken = [v for v in outside if isinstance(v.type, ChainType)]
    for region in regions:
        given = [_chain_given(writer, region, chain) for chain in taken]
        end = writer.function.ending([*region.given, *given])
        region.block.append(end)
        rest = [writer.captured(region, v) for v in (*captured, *taken)]
        block, last = region.block, set(rest)
        block.order_arguments([*(v for v in block.args if v not in last), *rest])
    op = writer.append(
        row.name,
        [*operands, *captured, *taken],
        [*types, *(chain.type for chain in taken)],
        attrs,
        [region.block for region in regions],
    )
    made = dict(zip(taken, op.results[len(types) :], strict=True))
    for device, chain in moved.items():
        chains.newest[device] = made[chain]
    return list(op.results[: len(types)])


def _chain_given(writer: Writer, region: Region, outside: IrValue) -> IrValue:
    """The chain that ``region`` gives for ``outside``, the chain of the op that has it."""
    for device in region.moved:
        if writer.reached(region.before[device]) is outside:
            return region.after[device]
    return writer.captured(region, outside)


__all__ = ["closed", "traced"]
