"""A group: ops that become one kernel."""

from __future__ import annotations

from collections.abc import Iterable
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
    followers: dict[Group, None] = field(default_factory=dict)  # that run right after this one

    @property
    def binds(self) -> bool:
        """Whether what it computes becomes the size of a dim."""
        return role_of(self.main) == "bind"

    @property
    def bit(self) -> int:
        """This group in a set of groups."""
        return 1 << self.number

    def follow(self, others: Iterable[Group]) -> None:
        """Note that this group, and so those after it, runs after ``others``."""
        added = 0
        for other in others:
            if other is not self:
                added |= other.ancestors | other.bit
                other.followers[self] = None
        if not added & ~self.ancestors:
            return
        self.ancestors |= added
        waiting = [self]
        while waiting:
            group = waiting.pop()
            for later in group.followers:
                if group.ancestors & ~later.ancestors:
                    later.ancestors |= group.ancestors
                    waiting.append(later)

    def replace(self, other: Group) -> None:
        """Stand for ``other`` in all orders from now on; neither runs after the other."""
        gained = (other.ancestors | self.ancestors) & ~self.bit & ~other.bit
        self.ancestors = gained
        for later in other._after():
            later.ancestors = (later.ancestors & ~other.bit) | self.bit | gained
        for later in self._after():
            later.ancestors |= gained
        self.followers |= other.followers
        other.followers = {self: None}  # what a group before it gains goes on to this one

    def _after(self) -> Iterable[Group]:
        """The groups that run after this one, each once."""
        found = dict(self.followers)
        waiting = list(found)
        while waiting:
            new = [later for later in waiting.pop().followers if later not in found]
            found.update(dict.fromkeys(new))
            waiting.extend(new)
        return found

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
