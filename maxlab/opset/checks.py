"""Conditions on dims that ops state: `Check`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from maxlab.ir.poly import Poly


@dataclass(frozen=True, slots=True)
class Check:
    """A condition on dims that is tested once per call, before the first kernel runs."""

    left: Poly
    relation: Literal["==", "<=", "<"]
    right: Poly
    message: str

    def holds(self, env: Mapping[str, int]) -> bool:
        """Whether the condition is true of the sizes in ``env``."""
        return self.compare(self.left.evaluate(env), self.right.evaluate(env))

    def compare(self, left: int, right: int) -> bool:
        """Whether the relation is true of two sizes."""
        if self.relation == "==":
            return left == right
        return left <= right if self.relation == "<=" else left < right


__all__ = ["Check"]
