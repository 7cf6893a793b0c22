"""Operations as the errors of a run name them."""

from __future__ import annotations

from dataclasses import dataclass

from maxlab.errors import Location
from maxlab.ir import Op
from maxlab.opset import fault_of
from maxlab.opset.custom import OPS, declaration_of
from maxlab.opset.custom_binding import declared_at
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


def facts_of(op: Op) -> OpFacts:
    """The facts of ``op`` that errors name."""
    return OpFacts(op.id, op.name, op.loc, fault_of(op), _kernel_of(op))


def _kernel_of(op: Op) -> UserKernel | None:
    if op.name not in OPS:
        return None
    found = declaration_of(op.attrs)
    opaque = [tuple(a.name for a in side if a.opaque) for side in (found.operands, found.results)]
    return UserKernel(found.name, declared_at(found), *opaque)


__all__ = ["OpFacts", "UserKernel", "facts_of"]
