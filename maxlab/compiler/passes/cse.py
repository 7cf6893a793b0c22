"""Common subexpressions: two ops that compute the same thing become one."""

from __future__ import annotations

from collections.abc import Hashable

from maxlab.compiler.keys import frozen_attrs
from maxlab.ir import Op, Rewriting
from maxlab.opset import OPSET


def _key(op: Op) -> Hashable:
    operands = [id(v) for v in op.operands]
    row = OPSET.get(op.name)
    if row is not None and row.commutative:
        operands.sort()
    # Operands and attributes decide the types of the results.
    return (op.name, tuple(operands), frozen_attrs(op.attrs))


def eliminate_common_subexpressions(rewriting: Rewriting) -> None:
    """Let equal ops share the first one's results; the origins of both are kept."""
    seen: dict[Hashable, Op] = {}
    for op in rewriting.function.ops:
        row = OPSET.get(op.name)
        if row is not None and (row.kind in ("output", "program") or row.asserts or row.effect):
            continue
        first = seen.setdefault(_key(op), op)
        if first is op:
            continue
        rewriting.rule("same", op)
        first.set_source(origins=tuple(dict.fromkeys((*first.origins, *op.origins))))
        rewriting.replace(op, first.results)
