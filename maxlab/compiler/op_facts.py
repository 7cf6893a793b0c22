"""Operations as the errors of a run name them."""

from __future__ import annotations

from dataclasses import dataclass

from maxlab.errors import Location
from maxlab.ir import Op
from maxlab.opset import fault_of
from maxlab.opset.faults import Fault


@dataclass(frozen=True, slots=True)
class OpFacts:
    """An op as errors name it.

    Attributes:
        id: Its id in the graph, or in what the passes made of it.
        name: Its name in the op table.
        at: The user's line.
        fault: How a number that its kernel refused is reported.
    """

    id: str
    name: str
    at: Location | None
    fault: Fault

    @property
    def word(self) -> str:
        """The name without ``mo.``."""
        return self.name.removeprefix("mo.")


def facts_of(op: Op) -> OpFacts:
    """What errors say of ``op``."""
    return OpFacts(op.id, op.name, op.loc, fault_of(op))


__all__ = ["OpFacts", "facts_of"]
