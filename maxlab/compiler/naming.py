"""The facts that errors tell of an operation of a graph: `facts_of`."""

from __future__ import annotations

from maxlab.compiler.op_facts import OpFacts, UserKernel
from maxlab.ir import Op
from maxlab.opset import fault_of
from maxlab.opset.custom import OPS, declaration_of


def facts_of(op: Op) -> OpFacts:
    """The facts that errors tell of ``op``."""
    return OpFacts(op.id, op.name, op.loc, fault_of(op), _kernel_of(op))


def _kernel_of(op: Op) -> UserKernel | None:
    if op.name not in OPS:
        return None
    found = declaration_of(op.attrs)
    opaque = [tuple(a.name for a in side if a.opaque) for side in (found.operands, found.results)]
    return UserKernel(found.name, found.declared_at, *opaque)


__all__ = ["facts_of"]
