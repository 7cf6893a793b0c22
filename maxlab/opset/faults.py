"""Errors of a run about numbers that kernels refuse, as plain values.

A kernel that finds a number it cannot use writes the number and a limit, and stops the run. The
rest of the error follows from the op, and is known when a plan is made: a `Fault`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from maxlab.errors import ExecutionError, Location

NOTHING, SAME = 4, 5
"""The status of a kernel that set a handle to nothing, or got one handle for two operands."""

MISMATCH = -1
"""As the limit of a slice, ``MISMATCH - size`` stands for the size that the slice must have."""

FaultKind = Literal["index", "slice", "bounds", "reversed bounds", "draw"]


@dataclass(frozen=True, slots=True)
class Fault:
    """How a number that a kernel refused is reported.

    Attributes:
        label: What the message calls the op.
        kind: ``"index"``, one of a dim; ``"slice"``, a computed bound of a slice of a buffer, or
            its size; ``"bounds"``, a computed bound of a slice of a tensor, ``"reversed bounds"``
            of one that goes backwards; ``"draw"``, the token of a logit that no probability can be
            made of, or -1 where no token is left.
    """

    label: str
    kind: FaultKind = "index"

    def error(self, value: int, limit: int, at: Location | None) -> ExecutionError:
        """The error for ``value``, which is not below ``limit``, in an op of the line ``at``."""
        if self.kind == "slice" and limit < 0:
            return ExecutionError(
                "ML779",
                f"buffer_store_slice: the slice has {value} elements along an axis where the "
                f"source has {MISMATCH - limit}",
                at=at,
                fix="let the bounds of the slice fit the source",
            )
        if self.kind in ("index", "slice"):
            more = f", bounds to {limit}; they are not clamped" if self.kind == "slice" else ""
            return ExecutionError(
                "ML652",
                f"{self.label}: the index {value} is out of range for a dim of size {limit}",
                at=at,
                fix=f"indices go from {-limit} to {limit - 1}{more}",
            )
        if self.kind == "draw":
            return _no_draw(value, at)
        low, high = (-limit - 1, limit - 1) if self.kind == "reversed bounds" else (-limit, limit)
        return ExecutionError(
            "ML652",
            f"{self.label}: the bound {value} is out of range for a dim of size {limit}",
            at=at,
            fix=f"bounds go from {low} to {high}; they are not clamped",
        )


def _no_draw(token: int, at: Location | None) -> ExecutionError:
    if token < 0:
        return ExecutionError(
            "ML185",
            "sampling: no token is left that could be drawn",
            at=at,
            why=["every logit of a row is minus infinity, or its token is not allowed"],
            fix="allow one token at least",
        )
    return ExecutionError(
        "ML183",
        f"sampling: finite logits or minus infinity expected ≠ NaN or plus infinity at the token "
        f"{token}",
        at=at,
        fix="look for what computed it: maxlab.values shows what each operation made",
    )


__all__ = ["MISMATCH", "Fault", "FaultKind"]
