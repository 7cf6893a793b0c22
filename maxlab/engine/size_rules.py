"""The sizes of all symbols of a run, and what must hold of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from maxlab.compiler.facts import Conditions
from maxlab.compiler.guards import evaluated
from maxlab.compiler.plan import Plan
from maxlab.errors import ExecutionError, InputError, Location, ShapeError
from maxlab.ir.dims import LARGEST


class SizeRules:
    """The rules of ``plan.facts.sizes``, evaluated."""

    def __init__(self, plan: Plan) -> None:
        self._facts = plan.facts.sizes
        self._inputs = plan.facts.inputs

    def resolve(self, shapes: Sequence[tuple[int, ...]]) -> dict[str, int]:
        """The size of every symbol for inputs of ``shapes``, whose ranks are right; those that are
        computed are missing.

        Raises:
            InputError: ML602, a size that contradicts the input types; ML603, a condition that an
                op states.
            ShapeError: ML223, a dim of more than 63 bits.
        """
        env: dict[str, int] = {}
        for name, number, axis in self._facts.names:
            env[name] = shapes[number][axis]
        for name, number, axis, rest, factor in self._facts.solved:
            # Where the division leaves a rest, the check of the same dim fails.
            env[name] = (shapes[number][axis] - evaluated(rest, env, None)) // factor
            if env[name] < 0:
                raise InputError(
                    "ML602",
                    f"input {number} ({self._inputs[number].name}) has the size "
                    f"{shapes[number][axis]} at axis {axis}, and {name!r} would be {env[name]}: "
                    f"expected {self._inputs[number].type}, got the shape {list(shapes[number])}",
                    fix="pass a larger input; no dim is negative",
                )
        for number, axis, size in self._facts.checks:
            expected = evaluated(size, env, None)
            found = shapes[number][axis]
            if expected != found:
                if size.is_symbol:
                    word = f"{str(size)!r} is {expected} elsewhere"
                else:
                    word = f"the type says {size}" + (f" = {expected}" if size.symbols() else "")
                raise InputError(
                    "ML602",
                    f"input {number} ({self._inputs[number].name}) has the size {found} at axis "
                    f"{axis}, but {word}: expected {self._inputs[number].type}, got the shape "
                    f"{list(shapes[number])}",
                    fix="a named dim has one size in a call; sizes are never broadcast at run time",
                )
        self._test(self._facts.stages[0], env)
        return env

    def bind(self, env: Mapping[str, int], stage: int, sizes: Sequence[int]) -> dict[str, int]:
        """The size of every symbol behind ``stage``, where ``sizes`` were computed.

        Raises:
            InputError: ML603, a condition that an op states.
            ExecutionError: ML726, a dim has another size already; ML727, a size is negative.
        """
        made = dict(env)
        for bound, size in zip(self._facts.stages[stage].binds, sizes, strict=True):
            dim = bound.dim
            if size < 0:
                raise ExecutionError(
                    "ML727",
                    f"{bound.what}: the dim {str(dim)!r} would have the size {size}"
                    + (f": {bound.negative}" if bound.negative else ""),
                    at=bound.op.at,
                    fix="no dim is negative; look at what the size is computed from",
                )
            if bound.defines:
                made[bound.defines] = size
                continue
            expected = evaluated(dim, made, bound.op)
            if size != expected:
                named = f"the dim {str(dim)!r}" if dim.symbols() else "out_dim"
                raise ExecutionError(
                    "ML726",
                    f"{bound.what}: {named} is {expected}, got {size}",
                    at=bound.op.at,
                    fix="give out_dim a name of its own, or pass inputs for which it holds",
                )
        self._test(self._facts.stages[stage + 1], made)
        return made

    def _test(self, stage: Conditions, env: dict[str, int]) -> None:
        for name, poly, op in stage.definitions:
            env[name] = evaluated(poly, env, op)
        stage.guard.test(env)
        for poly, op in stage.counts.items():
            try:
                size = poly.evaluate(env)
            except ZeroDivisionError:
                continue  # of a branch that refuses to run
            if not -LARGEST <= size <= LARGEST:
                what = f"the dim {poly} of {op.word}, {size},"
                raise past_counting(what, env, op.at)


def past_counting(what: str, env: Mapping[str, int], at: Location | None) -> ShapeError:
    """The error for ``what``, a number that these sizes make larger than 63 bits."""
    return ShapeError(
        "ML223",
        f"{what} is larger than 63 bits can count",
        at=at,
        why=[f"{name} is {size}" for name, size in sorted(env.items())],
        fix="pass smaller inputs; a size counts too where another one is 0",
    )
