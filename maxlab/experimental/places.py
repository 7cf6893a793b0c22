"""Where the steps of a trace were written, found when somebody asks."""

from __future__ import annotations

from types import CodeType

from maxlab.errors import Location
from maxlab.experimental.tracing import State, Steps
from maxlab.ir import location_of


def located(trace: Steps, state: State) -> Location | None:
    """Where the step of ``trace`` that led to ``state`` was written; None of an input."""
    at = 2 * (state.depth - 1)
    place, offset = trace.places[at], trace.places[at + 1]
    return location_of(place, offset) if isinstance(place, CodeType) else place


__all__ = ["located"]
