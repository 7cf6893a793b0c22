"""The errors of opaque handles: inputs that are none, and kernels that made none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from maxlab.compiler import Compiled
from maxlab.compiler.plan import Step
from maxlab.engine.mojo_value import MojoValue
from maxlab.errors import ExecutionError, InputTypeError, Location
from maxlab.opset.custom import declaration_of
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


def failure(compiled: Compiled, step: Step, code: int, info: Sequence[int]) -> ExecutionError:
    """The error for a kernel that returned `NOTHING` or `SAME`."""
    ops = (compiled.source.find(node) for node in step.nodes)
    op = next(op for op in ops if op is not None)
    declared = declaration_of(op.attrs)
    at: Location | None = op.loc
    declared_at = f"it is declared at {declared.file}:{declared.line}: {declared}"
    if code == SAME:
        taken = [a.name for a in declared.operands if a.opaque]
        names = sorted((taken[info[0]], taken[info[1]]))
        return ExecutionError(
            "ML789",
            f"{declared.name}: the operands {' and '.join(names)} are one handle, and "
            f"{taken[info[0]]} is changed in place",
            at=at,
            why=[declared_at],
            fix="pass two handles",
        )
    assert code == NOTHING
    made = [a.name for a in declared.results if a.opaque]
    return ExecutionError(
        "ML785",
        f"{declared.name} made no handle: its kernel did not set {made[info[0]]}, or there was no "
        "memory for it",
        at=at,
        why=[declared_at],
        fix=f"let the body set {made[info[0]]} to memory of its own, and test what malloc gives",
    )


__all__ = ["declared_otherwise", "failure", "no_handle"]
