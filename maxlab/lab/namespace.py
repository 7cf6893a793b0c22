"""The variables of the notebook that the kernel runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from maxlab.ir.cells import shell

T = TypeVar("T")


def user_variables() -> Mapping[str, Any] | None:
    """The variables of the notebook; None where there is none."""
    return getattr(shell(), "user_ns", None)


def variables(kind: type[T]) -> dict[str, T]:
    """The variables of the notebook that are a ``kind``, in the order in which they came."""
    # A cell may run meanwhile, and make variables.
    known = dict(user_variables() or {})
    return {
        name: value
        for name, value in known.items()
        if isinstance(value, kind) and not name.startswith("_")
    }


__all__ = ["user_variables", "variables"]
