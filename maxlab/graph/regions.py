"""Functions of the user that become regions of an op: bodies of loops and branches.

While such a function runs, ops go into its region. A value of the graph that it reads is captured:
it becomes an argument of the region, and an operand of the op that has the region.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from maxlab.ir import Block, DeviceRef, Op
from maxlab.ir import Value as IrValue


@dataclass(slots=True)
class Region:
    """A region that is being built.

    Attributes:
        what: What it is part of, for messages: ``"while_loop: the body"``.
        block: Its ops.
        captured: The argument that stands for each value from outside.
        before: The newest chain of each device when it began.
        after: The same when it had ended.
        given: The values that it gives, chains aside.
    """

    what: str
    block: Block
    captured: dict[IrValue, IrValue] = field(default_factory=dict)
    before: dict[DeviceRef, IrValue] = field(default_factory=dict)
    after: dict[DeviceRef, IrValue] = field(default_factory=dict)
    given: Sequence[IrValue] = ()

    @property
    def moved(self) -> list[DeviceRef]:
        """The devices on which it has an effect."""
        return [d for d, v in self.before.items() if self.after.get(d, v) is not v]


def outermost(op: Op | None) -> Op | None:
    """The op of the graph itself that ``op`` stands in, or is."""
    while op is not None and op.block is not None and op.block.parent is not None:
        op = op.block.parent
    return op


__all__ = ["Region", "outermost"]
