"""Effects in a compiled function: the order of its ops, which no pass changes, and no chains."""

from __future__ import annotations

from maxlab.ir import ChainType, Function, Op, Value
from maxlab.opset import OPSET
from maxlab.opset.core import changed_operands
from maxlab.opset.effects import CHAIN


def take_chains_out(function: Function) -> None:
    """Let the order of ops with effects be that in which they stand; chains have no memory that a
    plan could name.
    """
    if not any(OPSET[op.name].effect for op in function.ops if op.name in OPSET):
        return
    kept = []
    for op in function.ops:
        chains = [v for v in op.operands if isinstance(v.type, ChainType)]
        if chains:
            op._operands = [v for v in op._operands if v not in chains]
            for chain in chains:
                chain.uses.pop(op, None)
        op.results = [v for v in op.results if not isinstance(v.type, ChainType)]
        if op.name != CHAIN:
            kept.append(op)
    function.block.keep(kept)


def has_effect(op: Op) -> bool:
    """Whether ``op`` must run, and where it stands among others that do."""
    return bool(OPSET[op.name].effect)


def written_buffers(op: Op) -> tuple[Value, ...]:
    """The buffers that ``op`` changes in place."""
    return tuple(op.operands[number] for number in changed_operands(op))


__all__ = ["has_effect", "take_chains_out", "written_buffers"]
