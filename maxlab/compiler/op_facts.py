"""Operations as the errors of a run name them."""

from __future__ import annotations

from dataclasses import dataclass

from maxlab.errors import Location
from maxlab.opset.faults import Fault


@dataclass(frozen=True, slots=True)
class UserKernel:
    """A kernel that a user wrote, as errors name it.

    Attributes:
        name: What its declaration calls it.
        declared: Where and how it is declared, as a reason of an error.
        takes: The names of its operands that are opaque handles.
        makes: The names of its results that are.
    """

    name: str
    declared: str
    takes: tuple[str, ...] = ()
    makes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OpFacts:
    """An op as errors name it.

    Attributes:
        id: Its id in the graph, or in what the passes made of it.
        name: Its name in the op table.
        at: The user's line.
        fault: How a number that its kernel refused is reported.
        kernel: The user's kernel that it calls, if it calls one.
    """

    id: str
    name: str
    at: Location | None
    fault: Fault
    kernel: UserKernel | None = None

    @property
    def word(self) -> str:
        """The name without ``mo.``."""
        return self.name.removeprefix("mo.")


__all__ = ["OpFacts", "UserKernel"]
