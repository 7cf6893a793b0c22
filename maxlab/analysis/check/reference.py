"""The op table's NumPy references, run on parts of a compiled function: `Reference`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from maxlab.analysis.check.rounding import Rounded, evaluate_rounded, exact
from maxlab.ir import Function, Op, Value

Array = np.ndarray[Any, Any]


class Reference:
    """Evaluates values of ``function`` from values that are known.

    Args:
        function: The function, as it was compiled.
        env: The size of every symbolic dim.
        weights: The data of weights by name, in any shape.
    """

    def __init__(
        self, function: Function, env: Mapping[str, int], weights: Mapping[str, Array]
    ) -> None:
        self.function = function
        self.env = dict(env)
        self._weights = weights
        self._order = {op: n for n, op in enumerate(function.ops)}

    def evaluate(
        self, wanted: Collection[Value], known: Mapping[Value, Rounded], seed: int = 0
    ) -> dict[Value, Rounded]:
        """The values ``wanted`` and all that were evaluated on the way, from ``known``.

        Raises:
            KeyError: An input that is not known is needed.
        """
        rng = np.random.default_rng(seed)
        found: dict[Value, Rounded] = {}
        for op in self._needed(wanted, known):
            if op.name == "mo.constant.external":
                shape = tuple(d.evaluate(self.env) for d in op.result.tensor_type.shape)
                found[op.result] = exact(self._weights[op.attrs["name"]].reshape(shape))
                continue
            operands = [found[v] if v in found else known[v] for v in op.operands]
            made = evaluate_rounded(op, operands, self.env, rng)
            found.update(zip(op.results, made, strict=True))
        for value in wanted:
            if value in known:
                found[value] = known[value]
        return found

    def _needed(self, wanted: Collection[Value], known: Mapping[Value, Rounded]) -> list[Op]:
        """The ops to evaluate for ``wanted``, in order."""
        needed: dict[Op, None] = {}
        stack = list(wanted)
        while stack:
            value = stack.pop()
            if value in known:
                continue
            op = value.op
            if op is None:
                raise KeyError(value.id)
            if op not in needed:
                needed[op] = None
                stack.extend(op.operands)
        return sorted(needed, key=self._order.__getitem__)
