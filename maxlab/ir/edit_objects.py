"""The ops, values and blocks that records speak of: ids to objects, and objects to plain data."""

from __future__ import annotations

from collections.abc import Iterable

from maxlab.ir.core import Block, Op, Value, walk
from maxlab.ir.edit import OWN, BlockData, BlockId, OpData, SourceData, ValueData
from maxlab.ir.function import Function
from maxlab.ir.listening import Source


def value_data(value: Value) -> ValueData:
    """``value`` as a record has it."""
    return ValueData(value.id, value.type, value.name)


def source_data(source: Source) -> SourceData:
    """Where an op comes from, as a record has it."""
    return SourceData(*source)


def op_data(op: Op) -> OpData:
    """``op`` with all it has, as it is now."""
    return OpData(
        op.id,
        op.name,
        tuple([v.id for v in op.operands]),
        tuple([ValueData(v.id, v.type, v.name) for v in op.results]),
        tuple(op.attrs.items()),
        SourceData(op.loc, op.scope, op.origins),
        tuple([block_data(region) for region in op.regions]) if op.regions else (),
    )


def block_data(block: Block) -> BlockData:
    """``block`` with all it has, as it is now."""
    return BlockData(tuple(map(value_data, block.args)), tuple(map(op_data, block.ops)))


def attached(block: Block | None) -> bool:
    """Whether ``block`` is part of its function, not of an op that stands nowhere."""
    while block is not None and block.parent is not None:
        block = block.parent.block
    return block is not None and block.home is not None and block.home.block is block


class Objects:
    """The objects of ``function`` by id, ops that were removed included.

    The function is read once, when something is first looked up; what is added to it later must be
    noted.
    """

    def __init__(self, function: Function) -> None:
        self.function = function
        self._ops: dict[str, Op] = {}
        self._values: dict[str, Value] = {}
        self._apart: list[Block] = []  # regions that were changed before an op had them
        self._read = False

    # ------------------------------------------------------------ noting
    def note(self, op: Op) -> None:
        """Know ``op``, and all it has."""
        self._ops[op.id] = op
        for value in op.results:
            self._values[value.id] = value
        for region in op.regions:
            self._note_block(region)

    def note_values(self, values: Iterable[Value]) -> None:
        """Know ``values``."""
        for value in values:
            self._values[value.id] = value

    def _note_block(self, block: Block) -> None:
        self.note_values(block.args)
        for op in block.ops:
            self.note(op)

    # ------------------------------------------------------------ finding
    def _all(self) -> None:
        if not self._read:
            self._read = True
            self._note_block(self.function.block)

    def op(self, id: str | None) -> Op | None:
        """The op ``id``; None if there is none."""
        self._all()
        return None if id is None else self._ops.get(id)

    def value(self, id: str) -> Value | None:
        """The value ``id``; None if there is none."""
        self._all()
        return self._values.get(id)

    def block(self, id: BlockId) -> Block | None:
        """The block ``id``; None if there is none."""
        owner, number = id
        if owner is None:
            if number == 0:
                return self.function.block
            return self._apart[-number - 1] if 0 < -number <= len(self._apart) else None
        op = self.op(owner)
        return op.regions[number] if op is not None and 0 <= number < len(op.regions) else None

    def id_of(self, block: Block) -> BlockId:
        """The id of ``block``."""
        if block is self.function.block:
            return OWN
        if block.parent is not None and block.parent.block is not None:
            for number, region in enumerate(block.parent.regions):
                if region is block:
                    return block.parent.id, number
        for number, known in enumerate(self._apart):
            if known is block:
                return None, -1 - number
        self._apart.append(block)
        return None, -len(self._apart)

    def roots(self) -> list[Block]:
        """The function's own block, and the regions that no op has."""
        apart = [block for block in self._apart if block.parent is None]
        return [self.function.block, *apart]

    # ------------------------------------------------------------ making
    def made(self, data: OpData) -> Op:
        """The op of ``data``: the very one that once had this id, or a new one. It stands in no
        block, and the values that it reads are known."""
        op = self.op(data.id)
        if op is None or op.block is not None:
            op = Op(data.id, data.name, [], [])
        else:
            op.drop()
        op.name = data.name
        op.attrs = dict(data.attrs)
        op.loc, op.scope, op.origins = data.source.loc, data.source.scope, data.source.origins
        op.results = [self.made_value(value, op, index) for index, value in enumerate(data.results)]
        # The operands come from outside: what a region makes anew cannot be among them.
        op.set_operands([self._known(id) for id in data.operands])
        if tuple(map(block_data, op.regions)) == data.regions:
            for region in op.regions:
                for inner in walk(region):
                    inner.set_operands(list(inner.operands))
        else:
            op.regions = [self._made_block(region, op) for region in data.regions]
        self.note(op)
        return op

    def made_value(self, data: ValueData, owner: Op | Block, index: int) -> Value:
        """The value of ``data``: the very one that once had this id, or a new one."""
        value = self.value(data.id)
        if value is None or value.owner is not owner:
            value = Value(data.id, data.type, owner, index)
            self._values[data.id] = value
        value.type, value.name, value.index = data.type, data.name, index
        return value

    def _made_block(self, data: BlockData, op: Op) -> Block:
        block = Block(op, self.function)
        block.args = [self.made_value(v, block, n) for n, v in enumerate(data.args)]
        for inner in data.ops:
            made = self.made(inner)
            made.block = block
            block.ops.append(made)
        return block

    def _known(self, id: str) -> Value:
        value = self.value(id)
        if value is None:
            raise KeyError(id)
        return value


__all__ = [
    "Objects",
    "attached",
    "block_data",
    "op_data",
    "source_data",
    "value_data",
]
