"""The errors of opaque handles: inputs that are none, and kernels that made none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from maxlab.compiler.op_facts import UserKernel
from maxlab.compiler.plan import Plan, Step
from maxlab.engine.mojo_value import MojoValue
from maxlab.errors import ExecutionError, InputTypeError, Location
from maxlab.opset.custom_text import NOTHING, SAME


def no_handle(what: str, wanted: str, given: Any) -> InputTypeError:
    """The error for ``what``, an input, that is no handle of the type ``wanted``."""
    return InputTypeError(
        "ML786",
        f"{what} must be a handle of {wanted!r}, got "
        f"{given if isinstance(given, MojoValue) else type(given).__name__}",
        fix="pass an output of a model that makes one",
    )


def declared_otherwise(what: str, wanted: str, found: MojoValue) -> InputTypeError:
    """The error for ``what``, an input, whose type another library declares under that name."""
    return InputTypeError(
        "ML786",
        f"{what} must be a handle of {wanted!r}, got {found} of a library that declares "
        f"{wanted!r} otherwise",
        fix="make it anew: what it points to is laid out as the other text says",
    )


def user_kernel(plan: Plan, step: Step) -> tuple[Location | None, UserKernel]:
    """The user's line that calls the kernel of ``step``, and the kernel."""
    ops = (plan.facts.ops.get(node) for node in step.nodes)
    return next((op.at, op.kernel) for op in ops if op is not None and op.kernel is not None)


def failure(plan: Plan, step: Step, code: int, info: Sequence[int]) -> ExecutionError:
    """The error for a kernel that returned `NOTHING` or `SAME`."""
    at, kernel = user_kernel(plan, step)
    if code == SAME:
        taken = kernel.takes
        names = sorted((taken[info[0]], taken[info[1]]))
        return ExecutionError(
            "ML789",
            f"{kernel.name}: the operands {' and '.join(names)} are one handle, and "
            f"{taken[info[0]]} is changed in place",
            at=at,
            why=[kernel.declared],
            fix="pass two handles",
        )
    assert code == NOTHING
    made = kernel.makes
    return ExecutionError(
        "ML785",
        f"{kernel.name} made no handle: its kernel did not set {made[info[0]]}, or there was no "
        "memory for it",
        at=at,
        why=[kernel.declared],
        fix=f"let the body set {made[info[0]]} to memory of its own, and test what malloc gives",
    )


__all__ = ["declared_otherwise", "failure", "no_handle", "user_kernel"]
