"""Composite ops written out in simpler ones; the new ops keep the place, scope and origin of the
old.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from maxlab import opset
from maxlab.dtype import DType
from maxlab.ir import (
    ChainType,
    Constant,
    DeviceRef,
    Op,
    Rewriting,
    TensorType,
    Type,
    Value,
)
from maxlab.opset.builder import one
from maxlab.opset.inference import inferred


class Expansion:
    """The part of a builder that ``decompose`` writes with (``opset.Ops``); new ops come before
    ``source``."""

    def __init__(self, rewriting: Rewriting, source: Op) -> None:
        self._rewriting = rewriting
        self._source = source
        self.made: list[Op] = []

    def op(self, name: str, operands: Sequence[Value], /, **attrs: Any) -> tuple[Value, ...]:
        """The results of a new op ``mo.<name>``."""
        source, row = self._source, opset.lookup(f"mo.{name}")
        given = [v.type for v in operands if isinstance(v.type, TensorType)]
        op = self._rewriting.function.create(
            row.name,
            operands,
            inferred(row, given, attrs),
            attrs,
            loc=source.loc,
            scope=source.scope,
            origins=source.origins,
        )
        self._rewriting.insert(op, source)
        self.made.append(op)
        return tuple(op.results)

    def literal(self, x: Any, dtype: DType, device: DeviceRef) -> Value:
        """A constant."""
        data = Constant(np.asarray(x).astype(dtype.ml_numpy))
        return one(self, "constant", [], value=data, device=device)

    def type_of(self, value: Value) -> Type:
        """The type of ``value``."""
        return value.type


def decompose(rewriting: Rewriting) -> None:
    """Expand every composite op, and what the expansions themselves contain of composites."""
    pending = list(reversed(rewriting.function.ops))
    while pending:
        op = pending.pop()
        row = opset.OPSET.get(op.name)
        if row is None or row.decompose is None:
            continue
        rewriting.rule(op.name, op)
        expansion = Expansion(rewriting, op)
        made = row.decompose(expansion, op)
        found = [made] if isinstance(made, Value) else list(made)
        # Where chains are still there, as in a look at the passes, what comes next follows those
        # before the op.
        found += [v for v in op.operands if isinstance(v.type, ChainType)]
        rewriting.replace(op, found)
        pending.extend(reversed(expansion.made))
