"""The op table's NumPy references, run on parts of a compiled function: `Reference`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from maxlab.analysis.check.inside import run_inside
from maxlab.analysis.check.rounding import Rounded, evaluate_rounded, exact
from maxlab.compiler.effects import has_effect
from maxlab.ir import BufferType, Call, Function, Op, Value
from maxlab.opset import evaluate, is_call, is_output, is_weight, lookup
from maxlab.opset.control import run_regions
from maxlab.opset.core import changed_operands

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
            if is_weight(op):
                found[op.result] = self._weight(op)
                continue
            operands = [found[v] if v in found else known[v] for v in op.operands]
            made = self._made(op, operands, rng)
            found.update(zip(op.results, made, strict=True))
        for value in wanted:
            if value in known:
                found[value] = known[value]
        return found

    def evaluate_in_order(
        self, known: Mapping[Value, Rounded], taken: Mapping[str, Mapping[str, Array]]
    ) -> dict[Value, Rounded]:
        """All values of the function at its end, from those of its inputs, its ops run in their
        order: buffers hold what was stored last. ``taken`` has by its id what an op wrote that has
        no reference, by the ids of the values.
        """
        rng = np.random.default_rng(0)
        found = dict(known)
        for op in self.function.ops:
            if is_weight(op) and op.attrs["name"] in self._weights:
                found[op.result] = self._weight(op)
                continue
            effect = lookup(op.name).effect
            if is_output(op) or effect == "print" or any(v not in found for v in op.operands):
                continue  # what reads a weight that no kernel does is no output
            if op.id in taken:
                arrays = taken[op.id]
                values = [v for v in (*op.operands, *op.results) if v.id in arrays]
                found.update((v, exact(np.array(arrays[v.id]))) for v in values)
                continue
            operands = [found[v] for v in op.operands]
            if effect == "write":
                found.update(self.stored(op, operands))
                continue
            if op.regions and has_effect(op):
                buffers = [v for v in op.operands if isinstance(v.type, BufferType)]
                given = [np.array(x.base) for x in operands]  # it changes those of buffers
                made = [exact(x) for x in run_inside(op, given, self.env, self._weights)]
                after = dict(zip(op.operands, given, strict=True))
                found.update((v, exact(after[v])) for v in buffers)
            else:
                made = self._made(op, operands, rng)
            found.update(zip(op.results, made, strict=True))
        return found

    def _weight(self, op: Op) -> Rounded:
        """The weight that ``op`` stands for, in its shape."""
        shape = tuple(d.evaluate(self.env) for d in op.result.tensor_type.shape)
        return exact(self._weights[op.attrs["name"]].reshape(shape))

    def _made(self, op: Op, operands: Sequence[Rounded], rng: np.random.Generator) -> list[Rounded]:
        """Results of ``op`` on ``operands``; a call knows the names that its weights have here."""
        return self._inside(op, operands, rng, None)

    def _inside(
        self,
        op: Op,
        operands: Sequence[Rounded],
        rng: np.random.Generator,
        names: Mapping[str, str] | None,
    ) -> list[Rounded]:
        """As ``_made``, for an op in a call whose weights have ``names`` here."""
        if is_weight(op):
            shape = tuple(d.evaluate(self.env) for d in op.result.tensor_type.shape)
            name = op.attrs["name"]
            return [exact(self._weights[name if names is None else names[name]].reshape(shape))]
        if not is_call(op) and not op.regions:
            return evaluate_rounded(op, operands, self.env, rng)
        call: Call | None = op.attrs.get("call")
        known = names if call is None else call.weights
        return run_regions(  # the way through them is that of the values without errors
            op,
            operands,
            lambda inner, given: self._inside(inner, given, rng, known),
            lambda flag: bool(flag.base),
        )

    def stored(self, op: Op, operands: Sequence[Rounded]) -> dict[Value, Rounded]:
        """Contents of the buffers that ``op`` changes after it has run on ``operands``, and its
        results.
        """
        samples = max((len(x.samples) for x in operands), default=0)
        changed = changed_operands(op)

        def after(number: int) -> list[Array]:
            arrays = [x.samples[number] if number >= 0 and x.samples else x.base for x in operands]
            for position in changed:
                arrays[position] = np.array(arrays[position])
            made = evaluate(op, arrays, self.env)
            return [*(arrays[position] for position in changed), *made]

        base, *others = (after(number) for number in range(-1, samples))
        values = [*(op.operands[position] for position in changed), *op.results]
        return {
            value: Rounded(base[n], tuple(other[n] for other in others))
            for n, value in enumerate(values)
        }

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
