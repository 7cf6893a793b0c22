"""Ops inside of branches and loops: which op runs them, and what they made in their last turn.

No step of a plan stands for one turn, and what a turn has written the next one writes over. So what
such an op makes is computed by the references, from what the branch or loop around it has read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from maxlab.compiler.effects import has_effect
from maxlab.errors import ArgumentError
from maxlab.ir import Call, Function, Op, Value, walk
from maxlab.opset import evaluate, is_call, is_weight
from maxlab.opset.control import run_regions

Array = np.ndarray[Any, Any]


def owners(function: Function) -> dict[Op, Op]:
    """For every op in a region, the outermost op that runs it."""
    return {inner: op for op in function.ops for region in op.regions for inner in walk(region)}


def run_inside(
    op: Op,
    operands: Sequence[Array],
    env: Mapping[str, int],
    weights: Mapping[str, Array],
    seen: Callable[[Op, Sequence[Array], Sequence[Array]], None] | None = None,
) -> list[Array]:
    """The references' results for ``op``, which runs others, on ``operands``.

    Args:
        op: A branch, a loop or a call.
        operands: Its operands with data; those of buffers are changed.
        env: The size of every symbolic dim.
        weights: The data of weights by name, in any shape.
        seen: Called for each op inside when it has run, with its operands and results.

    Raises:
        ExecutionError: ML757, it is a loop that the reference does not see the end of.
    """
    sizes = dict(env)

    def run(inner: Op, given: Sequence[Array], names: Mapping[str, str] | None) -> list[Array]:
        if is_weight(inner):
            name = inner.attrs["name"]
            shape = tuple(d.evaluate(sizes) for d in inner.result.tensor_type.shape)
            made = [weights[name if names is None else names[name]].reshape(shape)]
        elif is_call(inner) or inner.regions:
            call: Call | None = inner.attrs.get("call")
            known = names if call is None else call.weights
            made = run_regions(inner, given, lambda one, xs: run(one, xs, known), bool)
        else:
            made = evaluate(inner, list(given), sizes)
        if seen is not None and inner is not op and not is_weight(inner):
            seen(inner, given, made)
        return made

    return run(op, operands, None)


def last_turn(
    value: Value,
    owner: Op,
    operands: Sequence[Array],
    env: Mapping[str, int],
    weights: Mapping[str, Array],
) -> Array:
    """The last value of ``value``, which an op inside of ``owner`` makes.

    Raises:
        ArgumentError: ML759, it did not run, or ``owner`` changes buffers or prints.
        ExecutionError: ML757, it is a loop that the reference does not see the end of.
    """
    op = value.op
    assert op is not None
    name, around = op.name.removeprefix("mo."), f"{owner.name.removeprefix('mo.')} {owner.id}"
    if has_effect(owner):
        raise ArgumentError(
            "ML759",
            f"what {name} {op.id} makes is not known: {around} around it changes buffers or prints",
            at=op.loc,
            why=[
                "values in branches and loops are computed once more, and that would be done twice"
            ],
            fix=f"look at the results of {around}, or at the buffer when the run has ended",
        )
    newest: list[Array] = []

    def seen(inner: Op, given: Sequence[Array], made: Sequence[Array]) -> None:
        if inner is op:
            newest[:] = made

    run_inside(owner, operands, env, weights, seen)
    if not newest:
        raise ArgumentError(
            "ML759",
            f"{name} {op.id} did not run: on these inputs {around} does not come to it",
            at=op.loc,
            why=["it is in a branch that was not taken, or in a loop that had no turn"],
            fix="pass inputs for which it runs",
        )
    return np.asarray(newest[value.index])


__all__ = ["last_turn", "owners", "run_inside"]
