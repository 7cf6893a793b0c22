"""The IR: values, ops and blocks in SSA form, with stable ids; `ir.function` has the functions.

An op is data: a name, operands, attributes and result types. What an op *means* is in the op table,
which stands above this module. Ids are given once (``n12`` for an op, ``v12`` for a value) and
survive every pass; an op made by a pass remembers in ``origins`` the ids of the user's ops it
stands for.

A function is changed by the methods of its values, ops and blocks, and in no other way: each of
them tells `Function.log`, if there is one, what it changes (``ir.edit_log``). An op that stands in
no block is nobody's yet, and is changed without a word; adding it to a block tells all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from maxlab.errors import Location
from maxlab.ir.listening import ABSENT, Attr, Listener, Source
from maxlab.ir.types import Type, Typed

TERMINATOR = "mo.output"
"""The name of the op that ends a graph or a region."""


def ends_block(name: str) -> bool:
    """Whether an op of this name ends a block."""
    return name == TERMINATOR


OpListener = Listener["Op", "Block", "Value"]
"""Is told of the changes of a function."""


class Home(Protocol):
    """The function that a block is a part of, as far as blocks know it."""

    block: Block
    log: OpListener | None

    def reserve(self, id: str) -> None:
        """Let no new op or value get ``id``."""

    def create(
        self,
        name: str,
        operands: Sequence[Value],
        result_types: Sequence[Type],
        *,
        loc: Location | None = None,
    ) -> Op:
        """A new op that stands in no block yet."""


def ending(home: Home, values: Sequence[Value], loc: Location | None = None) -> Op:
    """A new op that ends a block of ``home`` with ``values`` as its results."""
    return home.create(TERMINATOR, values, [], loc=loc)


def _log_of(block: Block | None) -> OpListener | None:
    """The log that is told of a change in ``block`` that adds no op to a function."""
    home = None if block is None else block.home
    log = None if home is None else home.log
    if log is not None:
        log.settle()
    return log


class Value:
    """A result of an op, or an argument of a block."""

    __slots__ = ("id", "index", "name", "owner", "type", "uses")

    def __init__(self, id: str, type: Type, owner: Op | Block, index: int, name: str = "") -> None:
        self.id = id
        self.type = type
        self.owner = owner
        self.index = index
        self.name = name
        self.uses: dict[Op, int] = {}

    @property
    def op(self) -> Op | None:
        """The op that makes this value; None for an argument."""
        return self.owner if isinstance(self.owner, Op) else None

    @property
    def tensor_type(self) -> Typed:
        """The type, when it is a tensor or a buffer."""
        if not isinstance(self.type, Typed):
            raise TypeError(f"{self.id} is {self.type}, not a tensor")
        return self.type

    @property
    def block(self) -> Block | None:
        """The block that it is made in; None for a result of an op that stands in none."""
        return self.owner.block if isinstance(self.owner, Op) else self.owner

    def replace_with(self, other: Value) -> None:
        """Let every op that uses this value use ``other``."""
        if other is self:
            return
        log = _log_of(self.block)
        if log is not None:
            log.uses_replaced(self, other, self._places())
        for op, count in self.uses.items():
            op._operands = [other if v is self else v for v in op._operands]
            other.uses[op] = other.uses.get(op, 0) + count
        self.uses = {}

    def replace_at(self, places: Sequence[tuple[Op, int]], other: Value) -> None:
        """Let the operands at ``places``, an op and a number each, which are this value, be
        ``other``."""
        log = _log_of(self.block)
        if log is not None:
            log.uses_replaced(self, other, places)
        for op, number in places:
            for value in (self, other):
                value.uses.pop(op, None)
            op._operands[number] = other
            for value in op._operands:
                if value is self or value is other:
                    value.uses[op] = value.uses.get(op, 0) + 1

    def _places(self) -> list[tuple[Op, int]]:
        """Where the value is read, by the ops that stand in a block."""
        return [
            (op, number)
            for op in self.uses
            if op.block is not None
            for number, value in enumerate(op._operands)
            if value is self
        ]

    def rename(self, name: str) -> None:
        """Call the value ``name``."""
        log = _log_of(self.block)
        if log is not None and name != self.name:
            log.value_named(self, name)
        self.name = name

    def retype(self, type: Type) -> None:
        """Give the value another type."""
        log = _log_of(self.block)
        if log is not None:
            log.type_set(self, type)
        self.type = type

    def __repr__(self) -> str:
        return f"%{self.id}: {self.type}"


class Op:
    """One operation."""

    __slots__ = (
        "_operands",
        "attrs",
        "block",
        "id",
        "loc",
        "name",
        "origins",
        "regions",
        "results",
        "scope",
    )

    def __init__(
        self,
        id: str,
        name: str,
        operands: Sequence[Value],
        result_types: Sequence[Type],
        attrs: Mapping[str, Attr] | None = None,
        *,
        result_ids: Sequence[str] = (),
        loc: Location | None = None,
        scope: str = "",
        origins: tuple[str, ...] = (),
        regions: Sequence[Block] = (),
    ) -> None:
        self.id = id
        self.name = name
        self._operands = list(operands)
        self.attrs: dict[str, Attr] = dict(attrs or {})
        self.loc = loc
        self.scope = scope
        self.origins = origins or (id,)
        self.regions = list(regions)
        self.block: Block | None = None
        ids = result_ids or [
            f"{id}.{i}" if i else id.replace("n", "v", 1) for i in range(len(result_types))
        ]
        self.results = [Value(ids[i], t, self, i) for i, t in enumerate(result_types)]
        self._read()

    @property
    def operands(self) -> Sequence[Value]:
        """The values that the op reads."""
        return self._operands

    @property
    def ends_block(self) -> bool:
        """Whether it is the ``mo.output`` that ends a graph or a region and has its results as
        operands: the one op that the IR itself knows."""
        return ends_block(self.name)

    @property
    def result(self) -> Value:
        """The only result."""
        (value,) = self.results
        return value

    @property
    def source(self) -> Source:
        """The place, the scope and the origins."""
        return self.loc, self.scope, self.origins

    def set_operand(self, index: int, value: Value) -> None:
        """Let the op read ``value`` as its operand ``index``."""
        operands = list(self._operands)
        operands[index] = value
        self.set_operands(operands)

    def set_operands(self, values: Sequence[Value]) -> None:
        """Let the op read ``values``, and nothing else."""
        log = _log_of(self.block)
        if log is not None:
            log.operands_set(self, values)
        for value in self._operands:
            value.uses.pop(self, None)
        self._operands = list(values)
        self._read()

    def set_attr(self, key: str, value: Attr, before: str | None = None) -> None:
        """Set an attribute; a new one is put before the attribute ``before``, or at the end.

        With `ABSENT` as its value, the attribute is taken away.
        """
        attrs = dict(self.attrs)
        if key in attrs:
            keys = list(attrs)
            after = keys[keys.index(key) + 1 :] if value is ABSENT else []
            before = after[0] if after else None
        if value is ABSENT:
            attrs.pop(key, None)
        elif key in attrs or before is None:
            attrs[key] = value
        else:
            pairs = list(attrs.items())
            pairs.insert(list(attrs).index(before), (key, value))
            attrs = dict(pairs)
        log = _log_of(self.block)
        if log is not None and (value is not ABSENT or key in self.attrs):
            log.attr_set(self, key, value, before)
        self.attrs = attrs

    def set_attrs(self, attrs: Mapping[str, Attr]) -> None:
        """Let the op have ``attrs``, in their order, and no others."""
        if _log_of(self.block) is None:
            self.attrs = dict(attrs)
            return
        wanted = list(attrs)
        kept = [key for key in self.attrs if key in attrs]
        if kept != [key for key in wanted if key in self.attrs]:
            kept = []
        for key in [key for key in self.attrs if key not in kept]:
            self.set_attr(key, ABSENT)
        for number, key in enumerate(wanted):
            following = next((k for k in wanted[number + 1 :] if k in self.attrs), None)
            if key not in self.attrs or self.attrs[key] is not attrs[key]:
                self.set_attr(key, attrs[key], following)

    def set_source(
        self,
        loc: Location | None = None,
        scope: str | None = None,
        origins: tuple[str, ...] | None = None,
    ) -> None:
        """Say where the op comes from; what is left out stays."""
        self.set_whole_source(
            (
                self.loc if loc is None else loc,
                self.scope if scope is None else scope,
                self.origins if origins is None else origins,
            )
        )

    def set_whole_source(self, source: Source) -> None:
        """Say where the op comes from, all three of it."""
        log = _log_of(self.block)
        if log is not None and source != self.source:
            log.source_set(self, source)
        self.loc, self.scope, self.origins = source

    def set_results(self, values: Sequence[Value]) -> None:
        """Let the op have only ``values`` of its results, or again those that it once had."""
        log = _log_of(self.block)
        if log is not None:
            log.results_set(self, values)
        self.results = list(values)
        for index, value in enumerate(self.results):
            value.index = index

    def add_region(self, region: Block) -> None:
        """Give ``region`` to the op, which stands in no block yet, as its last one."""
        assert self.block is None, f"{self.id} stands in a block"
        region.parent = self
        self.regions.append(region)

    def drop(self) -> None:
        """Stop reading all operands; the op stands in no block, or is about to leave it."""
        for value in self._operands:
            value.uses.pop(self, None)
        self._operands = []

    def _read(self) -> None:
        """Be in the uses of the operands."""
        for value in self._operands:
            value.uses[self] = value.uses.get(self, 0) + 1

    def __repr__(self) -> str:
        operands = ", ".join(f"%{v.id}" for v in self._operands)
        return f"{self.id} = {self.name}({operands})"


class Block:
    """A list of ops with arguments; ops are in an order in which values are made before they are
    read.

    ``parent`` is the op whose region it is, ``home`` the function that it is a part of; a region
    that is still being built has a home and no parent yet. ``ops`` and ``args`` are read by
    everybody and changed by the methods here alone.
    """

    __slots__ = ("args", "home", "ops", "parent")

    def __init__(self, parent: Op | None = None, home: Home | None = None) -> None:
        self.args: list[Value] = []
        self.ops: list[Op] = []
        self.parent = parent
        self.home = home

    # ------------------------------------------------------------ ops
    def append(self, op: Op) -> Op:
        """Add ``op`` at the end."""
        self._place(op, None)
        self.ops.append(op)
        return op

    def insert(self, op: Op, before: Op | None) -> Op:
        """Add ``op`` before the op ``before``; at the end when it is None."""
        ops = self.ops
        if before is None:
            return self.append(op)
        # Most ops are put before the last one, the output.
        index = len(ops) - 1 if ops[-1] is before else ops.index(before)
        self._place(op, before)
        ops.insert(index, op)
        return op

    def _place(self, op: Op, before: Op | None) -> None:
        """Let ``op`` stand in the block; the list has it next, or when a `Rewriting` ends."""
        home = self.home
        if home is not None and home.log is not None:
            if home.block is not self:
                home.log.settle()
            home.log.op_added(op, self, before)
        op.block = self
        if op.regions:
            _settle(op, home)

    def remove(self, op: Op) -> None:
        """Take ``op``, whose results nobody reads, out of the block."""
        ops = self.ops
        index = len(ops) - 1 if ops[-1] is op else ops.index(op)
        self._displace(op, ops[index + 1] if index + 1 < len(ops) else None)
        del ops[index]

    def _displace(self, op: Op, following: Op | None) -> None:
        """Let ``op`` stand in no block; the list loses it next, or when a `Rewriting` ends."""
        log = _log_of(self)
        if log is not None:
            log.op_removed(op, self, following)
        for region in op.regions:
            for inner in walk(region):
                for value in inner._operands:
                    value.uses.pop(inner, None)
        op.drop()
        op.block = None

    def move(self, op: Op, before: Op | None) -> None:
        """Put ``op`` of the block before the op ``before``, at the end for None.

        Values are still made before they are read there: whoever moves an op has looked.
        """
        ops = self.ops
        index = ops.index(op)
        following = ops[index + 1] if index + 1 < len(ops) else None
        if before is op or before is following:
            return
        log = _log_of(self)
        if log is not None:
            log.op_moved(op, self, following, before)
        del ops[index]
        ops.insert(len(ops) if before is None else ops.index(before), op)

    def keep(self, ops: Iterable[Op]) -> None:
        """Let the block consist of ``ops`` of it; the ones left out stop reading their operands."""
        kept = list(ops)
        inside = set(kept)
        assert kept == [op for op in self.ops if op in inside], "kept ops stay in their order"
        following: Op | None = None
        for op in reversed(self.ops):
            if op in inside:
                following = op
            else:
                self._displace(op, following)
        self.ops = kept

    # ------------------------------------------------------------ arguments
    def add_argument(
        self, id: str, type: Type, name: str = "", *, index: int | None = None
    ) -> Value:
        """A new argument, the last one unless there is an ``index``."""
        value = Value(id, type, self, 0, name)
        self.put_argument(value, len(self.args) if index is None else index)
        return value

    def put_argument(self, value: Value, index: int) -> None:
        """Let ``value``, which was made for this block, be its argument ``index``."""
        log = _log_of(self)
        if log is not None:
            log.argument_added(value, self, index)
        if self.home is not None:
            self.home.reserve(value.id)
        self.args.insert(index, value)
        self._number()

    def remove_argument(self, value: Value) -> None:
        """Take away the argument ``value``, which nobody reads."""
        log = _log_of(self)
        index = self.args.index(value)
        if log is not None:
            log.argument_removed(value, self, index)
        del self.args[index]
        self._number()

    def order_arguments(self, values: Sequence[Value]) -> None:
        """Put the arguments in the order of ``values``, which are the same ones."""
        assert set(values) == set(self.args), "the arguments stay the same ones"
        log = _log_of(self)
        if log is not None and list(values) != self.args:
            log.arguments_ordered(self, values)
        self.args = list(values)
        self._number()

    def _number(self) -> None:
        for index, value in enumerate(self.args):
            value.index = index


def _settle(op: Op, home: Home | None) -> None:
    """Let the regions of ``op`` be parts of ``home``."""
    for region in op.regions:
        region.parent = op
        region.home = home
        for inner in region.ops:
            if inner.regions:
                _settle(inner, home)


def copied(block: Block, into: Block, env: dict[Value, Value]) -> None:
    """Fill ``into``, which is empty, with copies of what ``block`` has, under the same ids.

    ``env`` has what stands for the values from outside that are read, and gets the copies.
    """
    for arg in block.args:
        twin = Value(arg.id, arg.type, into, arg.index, arg.name)
        into.args.append(twin)
        env[arg] = twin
    for op in block.ops:
        new = Op(
            op.id,
            op.name,
            [env[v] for v in op._operands],
            [r.type for r in op.results],
            op.attrs,
            result_ids=[r.id for r in op.results],
            loc=op.loc,
            scope=op.scope,
            origins=op.origins,
        )
        for region in op.regions:
            inner = Block(new, into.home)
            copied(region, inner, env)
            new.regions.append(inner)
        for old, made in zip(op.results, new.results, strict=True):
            made.name = old.name
            env[old] = made
        into.append(new)


def walk(block: Block) -> Iterator[Op]:
    """Every op of ``block``, and behind each op those of its regions."""
    for op in block.ops:
        yield op
        for region in op.regions:
            yield from walk(region)


def number_of(id: str) -> int:
    """The number in ``id``, which a function gave; -1 for an id of another form."""
    digits = id[1:].partition("_")[0]
    own = id[:1] in "anvb" and digits.isascii() and digits.isdigit() and len(digits) < 19
    return int(digits) if own else -1
