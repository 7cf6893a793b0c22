"""Composite ops written out in simpler ones; the new ops keep the place, scope and origin of the
old.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from maxlab import opset
from maxlab.dtype import DType
from maxlab.ir import ChainType, Constant, DeviceRef, Op, Rewriting, TensorType, Value


class Expansion:
    """The builder that ``decompose`` writes with (``opset.Builder``); new ops come before
    ``source``."""

    def __init__(self, rewriting: Rewriting, source: Op) -> None:
        self._rewriting = rewriting
        self._source = source
        self.made: list[Op] = []

    def op(self, name: str, operands: Sequence[Value], /, **attrs: Any) -> Value:
        """The result of a new op."""
        row = opset.lookup(name)
        types = [v.type for v in operands if isinstance(v.type, TensorType)]
        return self._add(name, operands, row.infer(types, attrs), attrs)

    def scalar(self, value: float | int | bool, dtype: DType) -> Value:
        """A rank-0 constant."""
        array = np.asarray(value).astype(dtype.ml_numpy)
        device = _device(self._source)
        return self._add(
            "mo.constant",
            [],
            [TensorType(dtype, [], device)],
            {"value": Constant(array), "device": device},
        )

    def _add(
        self, name: str, operands: Sequence[Value], types: Any, attrs: dict[str, Any]
    ) -> Value:
        source = self._source
        op = self._rewriting.function.create(
            name, operands, types, attrs, loc=source.loc, scope=source.scope, origins=source.origins
        )
        self._rewriting.insert(op, source)
        self.made.append(op)
        return op.result


def _device(op: Op) -> DeviceRef:
    return op.results[0].tensor_type.device


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
