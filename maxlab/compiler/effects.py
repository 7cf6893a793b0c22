"""Effects in a compiled function: the order of its ops, which no pass changes, and no chains."""

from __future__ import annotations

from maxlab.ir import Block, ChainType, Function, Op, Value
from maxlab.opset import OPSET, is_chain
from maxlab.opset.core import changed_operands


def take_chains_out(function: Function) -> None:
    """Let the order of ops with effects be that in which they stand; chains have no memory that a
    plan could name.
    """
    if any(OPSET[op.name].effect for op in function.walk() if op.name in OPSET):
        _without_chains(function.block)


def _without_chains(block: Block) -> None:
    for op in block.ops:
        if any(isinstance(v.type, ChainType) for v in op.operands):
            op.set_operands([v for v in op.operands if not isinstance(v.type, ChainType)])
        if any(isinstance(v.type, ChainType) for v in op.results):
            op.set_results([v for v in op.results if not isinstance(v.type, ChainType)])
        for region in op.regions:
            _without_chains(region)
            for value in [v for v in region.args if isinstance(v.type, ChainType)]:
                region.remove_argument(value)
    block.keep([op for op in block.ops if not is_chain(op)])


def has_effect(op: Op) -> bool:
    """Whether ``op`` must run, and where it stands among others that do."""
    return bool(OPSET[op.name].effect) or any(
        has_effect(inner) for region in op.regions for inner in region.ops
    )


def written_buffers(op: Op) -> tuple[Value, ...]:
    """The buffers that ``op`` changes in place."""
    return tuple(op.operands[number] for number in changed_operands(op))


__all__ = ["has_effect", "take_chains_out", "written_buffers"]
