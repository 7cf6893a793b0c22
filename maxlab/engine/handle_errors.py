"""The errors of opaque handles: inputs that are none, and kernels that made none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from maxlab.compiler.op_facts import UserKernel
from maxlab.compiler.plan import Plan, Step
from maxlab.engine.mojo_value import MojoValue
from maxlab.errors import ExecutionError, InputTypeError, Location
from maxlab.opset.faults import NOTHING, SAME

_PASS = "pass an output of a model that makes one"
_MAKE_ANEW = "make it anew: what it points to is laid out as the other text says"


def wrong_handle(what: str, wanted: str, given: Any) -> InputTypeError:
    """The error for ``given`` as the input ``what``, which takes a handle of the type ``wanted``:
    it is none, or one of another type, or a library declares its type otherwise."""
    found = given if isinstance(given, MojoValue) else None
    got, fix = type(given).__name__ if found is None else str(found), _PASS
    if found is not None and found.type.name == wanted:
        got, fix = f"{found} of a library that declares {wanted!r} otherwise", _MAKE_ANEW
    return InputTypeError("ML786", f"{what} must be a handle of {wanted!r}, got {got}", fix=fix)


def user_kernel(plan: Plan, step: Step) -> tuple[Location | None, UserKernel]:
    """The user's line that calls the kernel of ``step``, and the kernel."""
    ops = (plan.facts.ops.get(node) for node in step.nodes)
    return next((op.at, op.kernel) for op in ops if op is not None and op.kernel is not None)


def failure(plan: Plan, step: Step, code: int, info: Sequence[int]) -> ExecutionError:
    """The error for a kernel that returned `NOTHING` or `SAME`."""
    at, kernel = user_kernel(plan, step)
    if code == SAME:
        changed, other = (kernel.takes[number] for number in info[:2])
        names = " and ".join(sorted((changed, other)))
        number, fix = "ML789", "pass two handles"
        what = f": the operands {names} are one handle, and {changed} is changed in place"
    else:
        assert code == NOTHING
        made = kernel.makes[info[0]]
        fix = f"let the body set {made} to memory of its own, and test what malloc gives"
        number = "ML785"
        what = f" made no handle: its kernel did not set {made}, or there was no memory for it"
    return ExecutionError(number, kernel.name + what, at=at, why=[kernel.declared], fix=fix)


__all__ = ["failure", "user_kernel", "wrong_handle"]
