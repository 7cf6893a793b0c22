"""Which inputs a graph changes in place, and which of them one op takes beside another."""

from __future__ import annotations

from maxlab.ir import Block, ChainType, Function, Op, Value
from maxlab.opset import OPSET
from maxlab.opset.core import changed_operands


def written_inputs(function: Function) -> tuple[int, ...]:
    """The numbers of the inputs that ``function`` stores into."""
    found = _written(function.block)
    return tuple(sorted(value.index for value in found if value.op is None))


def _written(block: Block) -> dict[Value, None]:
    """The values that the ops of ``block`` store into, those of regions as what stands outside for
    them."""
    found: dict[Value, None] = {}
    for op in block.ops:
        for number in changed_operands(op):
            found[op.operands[number]] = None
        for region in op.regions:
            given = _given(op, region)
            for value in _written(region):
                if value.owner is region:
                    found[given[value.index]] = None
    return found


def _given(op: Op, region: Block) -> list[Value]:
    """The operands of ``op`` that the arguments of ``region`` stand for."""
    return list(op.operands[len(op.operands) - len(region.args) :])


def kept_apart(function: Function) -> frozenset[tuple[int, int]]:
    """Pairs of inputs of which one op changes the first and takes the second too: its kernel may
    read and write them in any order, so they cannot be one memory.
    """
    pairs = _apart(function.block)
    return frozenset((a.index, b.index) for a, b in pairs if a.op is None and b.op is None)


def _apart(block: Block) -> set[tuple[Value, Value]]:
    """The pairs of values of ``block`` of which one op changes the first and takes the second."""
    found: set[tuple[Value, Value]] = set()
    for op in block.ops:
        if OPSET[op.name].changed is not None:
            data = [v for v in op.operands if not isinstance(v.type, ChainType)]
            changed = [op.operands[number] for number in changed_operands(op)]
            found |= {(v, other) for v in changed for other in data if other is not v}
        for region in op.regions:
            given = _given(op, region)
            for one, other in _apart(region):
                if one.owner is region and other.owner is region:
                    found.add((given[one.index], given[other.index]))
    return found


__all__ = ["kept_apart", "written_inputs"]
