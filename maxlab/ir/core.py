"""The IR: values, ops, blocks and functions in SSA form, with stable ids.

An op is data: a name, operands, attributes and result types. What an op *means* is in the op table,
which stands above this module. Ids are given once (``n12`` for an op, ``v12`` for a value) and
survive every pass; an op made by a pass remembers in ``origins`` the ids of the user's ops it
stands for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from maxlab.errors import Location
from maxlab.ir.dims import SymbolicDim
from maxlab.ir.types import Type, _Typed

Attr = Any
"""What an attribute can be: bool, int, float, str, None, DType, Dim, Shape, Type, DeviceRef,
Constant, HostCall, Call, or a tuple of these."""


class Constant:
    """An array kept in the IR, compared and hashed by its contents.

    ``array`` is never written; arrays of one element know their ``item``.
    """

    __slots__ = ("_digest", "array")

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        view = array.view()
        view.flags.writeable = False
        self.array = view
        self._digest: str | None = None

    @property
    def digest(self) -> str:
        """A hash of dtype, shape and contents."""
        if self._digest is None:
            import hashlib  # slow to import, and many graphs have no constant to compare

            contents = np.ascontiguousarray(self.array)
            state = hashlib.blake2b(
                f"{self.array.dtype}{self.array.shape}".encode(), digest_size=16
            )
            state.update(contents.view(np.uint8).data if contents.size else b"")
            self._digest = state.hexdigest()
        return self._digest

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"Constant({self.array.dtype}{list(self.array.shape)})"


class HostCall:
    """A function that a compiled graph calls between its kernels, on the thread that runs it.

    It is equal to itself only: two calls are never taken for one, so a function may draw random
    numbers. It cannot be written to a file.

    Attributes:
        kind: Who does the work, ``"torch"``; the kind of the step.
        name: What is done, ``"torch.convolution"``.
        text: What to show where a kernel has its source.
        run: Called with the addresses and with the shapes of the results, then of the operands,
            all of them contiguous; fills the results. What it raises ends the run of the graph.
    """

    __slots__ = ("kind", "name", "run", "text")

    def __init__(
        self,
        kind: str,
        name: str,
        text: str,
        run: Callable[[Sequence[int], Sequence[tuple[int, ...]]], None],
    ) -> None:
        self.kind = kind
        self.name = name
        self.text = text
        self.run = run

    def __repr__(self) -> str:
        return f"HostCall({self.name!r})"


class Call:
    """One call of a subgraph, whose ops were written into the function that calls it.

    It remembers that these ops are those of the body once more, so that the body is compiled once
    for all of its calls. Like a `HostCall` it is equal to itself only, and is not written to files.

    Attributes:
        body: The subgraph.
        ids: The id of the copy of each op of the body, those in regions included.
        weights: The name that each weight of the body has in this call.
        operands: The ids of the values that the inputs of the body are.
        results: The ids of the values that its outputs are.
    """

    __slots__ = ("body", "ids", "operands", "results", "weights")

    def __init__(
        self,
        body: Function,
        ids: Mapping[str, str],
        weights: Mapping[str, str],
        operands: Sequence[str],
        results: Sequence[str],
    ) -> None:
        self.body = body
        self.ids = dict(ids)
        self.weights = dict(weights)
        self.operands = tuple(operands)
        self.results = tuple(results)

    def __repr__(self) -> str:
        return f"Call({self.body.name!r})"


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
    def tensor_type(self) -> _Typed:
        """The type, when it is a tensor or a buffer."""
        if not isinstance(self.type, _Typed):
            raise TypeError(f"{self.id} is {self.type}, not a tensor")
        return self.type

    def replace_with(self, other: Value) -> None:
        """Let every op that uses this value use ``other``."""
        if other is self:
            return
        for op, count in self.uses.items():
            op._operands = [other if v is self else v for v in op._operands]
            other.uses[op] = other.uses.get(op, 0) + count
        self.uses = {}

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
        for value in self._operands:
            value.uses[self] = value.uses.get(self, 0) + 1

    @property
    def operands(self) -> Sequence[Value]:
        """The values that the op reads."""
        return self._operands

    @property
    def result(self) -> Value:
        """The only result."""
        (value,) = self.results
        return value

    def set_operand(self, index: int, value: Value) -> None:
        """Let the op read ``value`` as its operand ``index``."""
        old = self._operands[index]
        self._operands[index] = value
        old.uses[self] -= 1
        if not old.uses[self]:
            del old.uses[self]
        value.uses[self] = value.uses.get(self, 0) + 1

    def drop(self) -> None:
        """Stop reading all operands; the op is about to leave its block."""
        for value in self._operands:
            value.uses.pop(self, None)
        self._operands = []

    def __repr__(self) -> str:
        operands = ", ".join(f"%{v.id}" for v in self._operands)
        return f"{self.id} = {self.name}({operands})"


class Block:
    """A list of ops with arguments; ops are in an order in which values are made before they are
    read."""

    __slots__ = ("args", "ops", "parent")

    def __init__(self, parent: Op | None = None) -> None:
        self.args: list[Value] = []
        self.ops: list[Op] = []
        self.parent = parent

    def append(self, op: Op) -> Op:
        """Add ``op`` at the end."""
        op.block = self
        self.ops.append(op)
        return op

    def remove(self, op: Op) -> None:
        """Take ``op``, whose results nobody reads, out of the block."""
        op.drop()
        op.block = None
        self.ops.remove(op)

    def keep(self, ops: Iterable[Op]) -> None:
        """Let the block consist of ``ops``; the ones left out stop reading their operands."""
        kept = list(ops)
        inside = set(kept)
        for op in self.ops:
            if op not in inside:
                op.drop()
                op.block = None
        for op in kept:
            op.block = self
        self.ops = kept


class Function:
    """A graph as the compiler sees it: one block whose last op is ``mo.output``.

    ``parameters`` are the symbolic dims that the inputs define, in order. ``inputs`` are the
    block's arguments. ``written`` has, of a copy, the names of the ops it was copied from by their
    ids: what the ops that passes make stand for. ``calls`` are the calls of subgraphs that were
    written into it.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.block = Block()
        self.parameters: dict[str, None] = {}
        self._next = 0
        self.subgraphs: dict[str, Function] = {}
        self.written: dict[str, str] = {}
        self.calls: list[Call] = []

    # ------------------------------------------------------------ building
    def fresh(self) -> int:
        """A number that no id of this function has."""
        self._next += 1
        return self._next - 1

    def add_input(self, type: Type, name: str = "") -> Value:
        """A new argument of the graph; its symbolic dims become parameters."""
        index = len(self.block.args)
        value = Value(f"a{index}", type, self.block, index, name or f"input{index}")
        self.block.args.append(value)
        if isinstance(type, _Typed):
            for parameter in type.shape.parameters:
                self.parameters[parameter.name] = None
        return value

    def create(
        self,
        name: str,
        operands: Sequence[Value],
        result_types: Sequence[Type],
        attrs: Mapping[str, Attr] | None = None,
        *,
        loc: Location | None = None,
        scope: str = "",
        origins: tuple[str, ...] = (),
    ) -> Op:
        """A new op that stands in no block yet."""
        number = self.fresh()
        ids = [f"v{number}" if i == 0 else f"v{number}_{i}" for i in range(len(result_types))]
        return Op(
            f"n{number}",
            name,
            operands,
            result_types,
            attrs,
            result_ids=ids,
            loc=loc,
            scope=scope,
            origins=origins,
        )

    # ------------------------------------------------------------ reading
    @property
    def inputs(self) -> list[Value]:
        """The arguments."""
        return self.block.args

    @property
    def ops(self) -> list[Op]:
        """All ops, the output included."""
        return self.block.ops

    @property
    def output(self) -> Op | None:
        """The ``mo.output`` op; None while the graph has none."""
        ops = self.block.ops
        return ops[-1] if ops and ops[-1].name == "mo.output" else None

    def __iter__(self) -> Iterator[Op]:
        return iter(self.block.ops)

    def walk(self) -> Iterator[Op]:
        """All ops, those of regions included, which come behind the op that has them."""
        return walk(self.block)

    def find(self, id: str) -> Op | None:
        """The op with this id, wherever it stands."""
        return next((op for op in self.walk() if op.id == id), None)

    def clone(self) -> Function:
        """A copy with the same ids, which passes may change."""
        copy = Function(self.name)
        copy.parameters = dict(self.parameters)
        copy._next = self._next
        copy.subgraphs = dict(self.subgraphs)
        copy.calls = list(self.calls)
        copy.written = self.written or {op.id: op.name for op in self.walk()}
        copied(self.block, copy.block, {})
        return copy


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
            inner = Block(new)
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


def symbols_of(types: Iterable[Type]) -> list[SymbolicDim]:
    """The symbolic dims of ``types``, each once, in order."""
    return list(
        dict.fromkeys(
            parameter
            for typed in types
            if isinstance(typed, _Typed)
            for parameter in typed.shape.parameters
        )
    )
