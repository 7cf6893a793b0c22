"""How ops get into a graph while it is being built, and how they are taken back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from maxlab.errors import GraphError, MaxlabError
from maxlab.graph.build import tensor
from maxlab.graph.chains import _DeviceChainMap
from maxlab.graph.context import current_graph
from maxlab.graph.regions import Region, outermost, unreachable
from maxlab.graph.value import TensorValue, Value, _ChainValue, wrap
from maxlab.ir import Block, ChainType, DeviceRef, Function, Op, Type
from maxlab.ir import Value as IrValue
from maxlab.ir.source import Scopes


class _Mark(NamedTuple):
    """What a graph had before an op was staged; ``blocks`` are the ops, arguments and captures of
    its own block and of each region that is being built."""

    blocks: tuple[tuple[int, int, int], ...]
    number: int
    output: Op | None
    weights: int
    subgraphs: int
    calls: int
    chains: dict[DeviceRef, IrValue]
    first: dict[DeviceRef, IrValue]
    ready: _ChainValue | None


class Staging:
    """A function that is being written: where ops go, what they may read, and what is taken back
    when one of them fails."""

    name: str

    def __init__(self, function: Function) -> None:
        self._function = function
        self._weights: dict[str, Any] = {}
        self._weight_values: dict[str, TensorValue] = {}
        self._subgraphs: dict[str, Any] = {}
        self._scopes = Scopes(None)
        self._error: MaxlabError | None = None
        self._revision = 0
        self._chains = _DeviceChainMap(self)
        self._ready: _ChainValue | None = None
        self._regions: list[Region] = []  # those that are being built, the innermost last

    # ------------------------------------------------------------ adding ops
    @property
    def _block(self) -> Block:
        """Where ops go."""
        return self._regions[-1].block if self._regions else self._function.block

    @contextmanager
    def _at_root(self) -> Iterator[None]:
        """Let ops go to the graph itself, before the op whose regions are being built."""
        inside, self._regions = self._regions, []
        try:
            yield
        finally:
            self._regions = inside

    def _mark(self) -> _Mark:
        function = self._function
        return _Mark(
            (
                (len(function.ops), len(function.inputs), 0),
                *((len(r.block.ops), len(r.block.args), len(r.captured)) for r in self._regions),
            ),
            function._next,
            function.output,
            len(self._weights),
            len(self._subgraphs),
            len(function.calls),
            dict(self._chains._newest),
            dict(self._chains._first),
            self._ready,
        )

    def _rollback(self, mark: _Mark) -> None:
        """Take back everything that was added since ``mark``."""
        blocks = [self._function.block, *(region.block for region in self._regions)]
        for block, (count, arguments, _) in zip(
            reversed(blocks), reversed(mark.blocks), strict=True
        ):
            ops = block.ops
            # While a graph has an output, ops are added before it: it stays the last one.
            output = mark.output if block is self._function.block else None
            kept = count if output is None else count - 1
            for op in ops[kept:]:
                if op is not output:
                    _forget(op)
            ops[kept:] = [] if output is None else [output]
            del block.args[arguments:]
        for region, (_, _, captures) in zip(self._regions, mark.blocks[1:], strict=True):
            for value in list(region.captured)[captures:]:
                del region.captured[value]
        self._function._next = mark.number
        del self._function.calls[mark.calls :]
        self._chains._newest = dict(mark.chains)
        self._chains._first = dict(mark.first)
        self._ready = mark.ready
        for name in list(self._weights)[mark.weights :]:
            del self._weights[name]
            del self._weight_values[name]
        for name in list(self._subgraphs)[mark.subgraphs :]:
            del self._subgraphs[name]

    def _failed(self, error: MaxlabError) -> None:
        """Remember the newest error, so that a view of the partial graph can show it."""
        self._error = error

    def _own(self, value: Any) -> IrValue:
        """The IR value behind ``value``, which must belong to this graph."""
        if not isinstance(value, Value):
            value = tensor(value)
        if self is not current_graph():
            raise GraphError(
                "ML314",
                f"the graph {self.name!r} is not the one that is being built",
                fix=f"write it inside of `with {self.name}:`",
            )
        return self._reached(value._ir())

    def _reached(self, raw: IrValue) -> IrValue:
        """What stands for ``raw`` where ops go now: itself, or the argument that captures it."""
        block = raw.owner.block if isinstance(raw.owner, Op) else raw.owner
        if block is self._block:
            return raw
        blocks = [self._function.block, *(region.block for region in self._regions)]
        if not any(block is known for known in blocks):
            top = outermost(block.parent) if block is not None else None
            ended = top is not None and top.block is self._function.block
            raise unreachable(self, raw, ended)
        for region in self._regions[[b is block for b in blocks].index(True) :]:
            raw = region.capture(self, raw)
        return raw

    def _append(
        self, name: str, operands: Sequence[IrValue], types: Sequence[Type], attrs: dict[str, Any]
    ) -> Any:
        location, scope = self._scopes.capture(3)
        op = self._function.create(name, operands, types, attrs, loc=location, scope=scope)
        self._insert(op)
        made = [wrap(v) for v in op.results]
        return made[0] if len(made) == 1 else made

    def _append_op(
        self,
        name: str,
        operands: Sequence[IrValue],
        types: Sequence[Type],
        attrs: dict[str, Any],
        regions: Sequence[Block],
    ) -> Op:
        """A new op that has ``regions``."""
        location, scope = self._scopes.capture(3)
        op = self._function.create(name, operands, types, attrs, loc=location, scope=scope)
        op.regions = list(regions)
        for region in regions:
            region.parent = op
        self._insert(op)
        return op

    def _insert(self, op: Op) -> None:
        # What a weight is does not depend on which branch reads it first.
        block = self._function.block if op.name == "mo.constant.external" else self._block
        output = self._function.output if block is self._function.block else None
        if output is not None:  # more ops after output(): they come before it
            block.ops.insert(len(block.ops) - 1, op)
            op.block = block
        else:
            block.append(op)
        self._revision += 1
        self._error = None

    # ------------------------------------------------------------ effects
    @property
    def device_chains(self) -> _DeviceChainMap:
        """The newest chain of each device: what is loaded, stored or printed there next comes
        behind it.
        """
        return self._chains

    @property
    def always_ready_chain(self) -> _ChainValue:
        """A chain that is behind nothing; the same one each time."""
        if self._ready is None:
            with self._at_root():
                self._ready = self._append("mo.chain", [], [ChainType()], {})
        ready = self._ready
        assert ready is not None
        if self._regions:
            inside: _ChainValue = wrap(self._reached(ready._ir()))
            return inside
        return ready


def _forget(op: Op) -> None:
    """Let ``op``, and what stands in its regions, read nothing and stand nowhere."""
    for region in op.regions:
        for inner in region.ops:
            _forget(inner)
    op.drop()
    op.block = None
