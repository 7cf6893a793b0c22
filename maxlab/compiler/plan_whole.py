"""The part of a ``plan.Plan`` that is read by the modules it is made of, which are below it."""

from __future__ import annotations

from typing import Protocol

from maxlab.compiler.facts import Facts
from maxlab.compiler.plan_parts import Slot, Step


class Whole(Protocol):
    """A plan."""

    slots: list[Slot]
    steps: list[Step]
    outputs: list[int]
    cuts: list[int]
    aliases: dict[int, int]
    loops: list[range]
    programs: list[range]
    facts: Facts


__all__ = ["Whole"]
