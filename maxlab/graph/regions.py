"""Functions of the user that become regions of an op: bodies of loops and branches.

While such a function runs, ops go into its region. A value of the graph that it reads is captured:
it becomes an argument of the region, and an operand of the op that has the region.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from maxlab.errors import GraphError, UnsupportedError
from maxlab.ir import Block, ChainType, DeviceRef, Op, Type, walk
from maxlab.ir import Value as IrValue
from maxlab.opset.dynamic import BIND

if TYPE_CHECKING:
    from maxlab.graph.graph import Graph
    from maxlab.graph.staging import Staging


@dataclass(slots=True)
class Region:
    """A region that is being built.

    Attributes:
        what: What it is part of, for messages: ``"while_loop: the body"``.
        block: Its ops.
        captured: The argument that stands for each value from outside.
        before: The newest chain of each device when it began.
        after: The same when it had ended.
    """

    what: str
    block: Block
    captured: dict[IrValue, IrValue] = field(default_factory=dict)
    before: dict[DeviceRef, IrValue] = field(default_factory=dict)
    after: dict[DeviceRef, IrValue] = field(default_factory=dict)

    def add_argument(self, graph: Staging, type: Type, name: str) -> IrValue:
        """A new argument."""
        id = f"b{graph._function.fresh()}"
        made = IrValue(id, type, self.block, len(self.block.args), name)
        self.block.args.append(made)
        return made

    def capture(self, graph: Staging, value: IrValue) -> IrValue:
        """The argument that stands for ``value``, which is made outside."""
        found = self.captured.get(value)
        if found is None:
            found = self.captured[value] = self.add_argument(graph, value.type, value.name)
        return found

    @property
    def moved(self) -> list[DeviceRef]:
        """The devices on which it has an effect."""
        return [d for d, v in self.before.items() if self.after.get(d, v) is not v]

    def chain(self, graph: Staging, outside: IrValue) -> IrValue:
        """What the region gives for the chain that is ``outside`` for the op that has it."""
        for device in self.moved:
            if graph._reached(self.before[device]) is outside:
                return self.after[device]
        return self.capture(graph, outside)

    def end(self, values: Sequence[IrValue], graph: Graph) -> None:
        """Let the region give ``values``."""
        op = graph._function.create("mo.output", values, [])
        self.block.append(op)


def trace(
    graph: Graph, what: str, function: Callable[..., Any], types: Sequence[tuple[Type, str]]
) -> tuple[Region, Any]:
    """A region of the ops that ``function`` adds, called with an argument of each of ``types``, and
    what it returned.

    Raises:
        UnsupportedError: ML756, it computes a dim.
    """
    from maxlab.graph.foreign import users_own
    from maxlab.graph.value import wrap

    region = Region(what, Block())
    for type, name in types:
        region.add_argument(graph, type, name)
    arguments = [wrap(v) for v in region.block.args]
    chains = graph._chains
    region.before = dict(chains._newest)
    graph._regions.append(region)
    try:
        with users_own():
            made = function(*arguments)
    finally:
        graph._regions.pop()
        region.after = dict(chains._newest)
        # a chain that was first asked for in the region begins in the graph itself
        first = {d: v for d, v in chains._first.items() if d not in region.before}
        region.before = {**first, **region.before}
        chains._newest = dict(region.before)
    for op in walk(region.block):
        if op.name == BIND:
            raise UnsupportedError(
                "ML756",
                f"{what} computes the dim {str(op.attrs['dim'])!r}, which only a run of it tells",
                at=op.loc,
                fix="compute it before, or write it with sizes that are known: a mask instead of "
                "nonzero",
            )
    return region, made


def close(
    graph: Graph,
    name: str,
    operands: Sequence[IrValue],
    regions: Sequence[tuple[Region, Sequence[IrValue]]],
    types: Sequence[Type],
    attrs: dict[str, Any],
) -> list[IrValue]:
    """The results, without chains, of a new op with ``regions``, each with the values it gives.

    Every region gets the same arguments: those that it has, then what any of them captured, chains
    last.
    """
    outside = dict.fromkeys(v for region, _ in regions for v in region.captured)
    moved = {d: graph._reached(r.before[d]) for r, _ in regions for d in r.moved}
    outside |= dict.fromkeys(moved.values())  # all must give a chain that one has moved on
    captured = [v for v in outside if not isinstance(v.type, ChainType)]
    chains = [v for v in outside if isinstance(v.type, ChainType)]
    for region, values in regions:
        given = [region.chain(graph, chain) for chain in chains]
        region.end([*values, *given], graph)
        rest = [region.capture(graph, v) for v in (*captured, *chains)]
        block, last = region.block, set(rest)
        block.args = [*(v for v in block.args if v not in last), *rest]
        for index, value in enumerate(block.args):
            value.index = index
    op = graph._append_op(
        name,
        [*operands, *captured, *chains],
        [*types, *(chain.type for chain in chains)],
        attrs,
        [region.block for region, _ in regions],
    )
    results = op.results[: len(types)]
    made = dict(zip(chains, op.results[len(types) :], strict=True))
    for device, chain in moved.items():
        graph._chains._newest[device] = made[chain]
    return list(results)


def unreachable(graph: Staging, value: IrValue, ended: bool) -> GraphError:
    """The error for ``value``, which no block that is being built can read."""
    from maxlab.graph.build import origin

    if ended:
        return GraphError(
            "ML314",
            f"the value %{value.id} ({value.type}) belongs to a branch or to the body of a loop, "
            "which may not have run",
            why=[f"it is {origin(value)}"],
            fix="return it from the function that made it, and use what cond or while_loop gives",
        )
    return GraphError(
        "ML314",
        f"the value %{value.id} ({value.type}) belongs to another graph than {graph.name!r}, or "
        "to an op that was undone",
        why=[f"it is {origin(value)}"],
        fix="pass it in as an input, or build it again in this graph",
    )


def outermost(op: Op | None) -> Op | None:
    """The op of the graph itself that ``op`` stands in, or is."""
    while op is not None and op.block is not None and op.block.parent is not None:
        op = op.block.parent
    return op


__all__ = ["Region", "close", "outermost", "unreachable", "trace"]
