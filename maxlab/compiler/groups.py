"""A group: ops that become one kernel."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from maxlab.compiler.axes import Index
from maxlab.ir import DeviceRef, Op, Value
from maxlab.ir.poly import ONE
from maxlab.opset import role_of

GroupKind = Literal[
    "map",
    "row",
    "col",
    "contract",
    "attention",
    "concat",
    "copy",
    "transfer",
    "host",
    "kernel",
    "program",
]


@dataclass(eq=False, slots=True)
class Group:
    """Ops that become one kernel.

    ``why`` has the rule of ``reasons.RULES`` by which each op joined, in the order of joining.
    Groups of a later ``stage`` need dims that are bound while the model runs.
    """

    number: int
    kind: GroupKind
    domain: Index
    ops: list[Op] = field(default_factory=list)
    ancestors: int = 0
    main: Op | None = None
    source: Value | None = None  # what a copy group lays out
    output: int = -1  # the output that a copy group writes
    why: list[tuple[Op, str]] = field(default_factory=list)
    stage: int = 0  # how many times the run must have stopped to bind dims before

    @property
    def binds(self) -> bool:
        """Whether what it computes becomes the size of a dim."""
        return role_of(self.main) == "bind"

    @property
    def bit(self) -> int:
        """This group in a set of groups."""
        return 1 << self.number

    @property
    def device(self) -> DeviceRef:
        """Where the group is computed."""
        value = self.source
        for op in self.ops[:1]:  # an op with an effect may have no result, or no value at all
            value = next(iter((*op.results, *op.operands)), None)
            if value is None:
                return DeviceRef.CPU()
        assert value is not None
        return value.tensor_type.device

    @property
    def row_shape(self) -> Index:
        """The shape of a value that has one element a row."""
        return (*self.domain[:-1], ONE)
