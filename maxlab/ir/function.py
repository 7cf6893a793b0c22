"""Functions: graphs as the compiler sees them, and the calls that were written into them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from maxlab.errors import Location
from maxlab.ir.core import Block, Op, OpListener, Value, copied, ending, number_of, walk
from maxlab.ir.dims import SymbolicDim
from maxlab.ir.listening import Attr
from maxlab.ir.types import Type, Typed


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
        scope: The scope in which the ops of the body are.
    """

    __slots__ = ("body", "ids", "operands", "results", "scope", "weights")

    def __init__(
        self,
        body: Function,
        ids: Mapping[str, str],
        weights: Mapping[str, str],
        operands: Sequence[str],
        results: Sequence[str],
        scope: str = "",
    ) -> None:
        self.body = body
        self.ids = dict(ids)
        self.weights = dict(weights)
        self.operands = tuple(operands)
        self.results = tuple(results)
        self.scope = scope

    @property
    def key(self) -> tuple[Function, str, tuple[str, ...]]:
        """The key of this call: its body, scope and ops. Equal for this call on other values, and
        for no other call.
        """
        return self.body, self.scope, tuple(self.ids.values())

    def on(self, operands: Sequence[str], results: Sequence[str]) -> Call:
        """The same call of other values."""
        return Call(self.body, self.ids, self.weights, operands, results, self.scope)

    def __repr__(self) -> str:
        return f"Call({self.body.name!r})"


class Function:
    """A graph as the compiler sees it: one block whose last op is ``mo.output``.

    ``parameters`` are the symbolic dims that the inputs define, in order. ``inputs`` are the
    block's arguments. ``written`` has, of a copy, the names of the ops it was copied from by their
    ids: what the ops that passes make stand for. ``calls`` are the calls of subgraphs that were
    written into it. ``notes`` are what people laid beside it: texts by table and key, in
    their order, which nothing here reads. ``log`` is told of every change, as long as there is one.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.log: OpListener | None = None
        self.block = Block(home=self)
        self.parameters: dict[str, None] = {}
        self._next = 0
        self._inputs = 0
        self.subgraphs: dict[str, Function] = {}
        self.written: dict[str, str] = {}
        self.calls: list[Call] = []
        self.notes: dict[str, dict[str, str]] = {}

    # ------------------------------------------------------------ building
    def fresh(self) -> int:
        """A number that no id of this function has."""
        self._next += 1
        return self._next - 1

    def add_input(self, type: Type, name: str = "") -> Value:
        """A new argument of the graph; its symbolic dims become parameters."""
        place = len(self.block.args)
        id = f"a{max(self._inputs, place)}"
        value = self.block.add_argument(id, type, name or f"input{place}")
        if isinstance(type, Typed):
            names = {p.name: None for p in type.shape.parameters}
            if any(name not in self.parameters for name in names):
                self.set_parameters([*self.parameters, *names])
        return value

    def set_parameters(self, names: Iterable[str]) -> None:
        """Let the symbolic dims ``names`` be those that the inputs define, in this order."""
        new = tuple(dict.fromkeys(names))
        if self.log is not None and new != tuple(self.parameters):
            self.log.settle()
            self.log.parameters_set(new)
        self.parameters = dict.fromkeys(new)

    def rename(self, name: str) -> None:
        """Call the function ``name``."""
        if self.log is not None and name != self.name:
            self.log.settle()
            self.log.renamed(name)
        self.name = name

    def set_note(self, table: str, key: str, note: str | None, before: str | None = None) -> None:
        """Let the note ``key`` of ``table`` be ``note``, or go if that is None. A new one stands
        before the key ``before``, or at the end."""
        notes = self.notes.get(table, {})
        old = notes.get(key)
        if old == note:
            return
        if note is None:
            before = self.note_after(table, key)
        elif old is not None or before not in notes:
            before = None
        if self.log is not None:
            self.log.settle()
            self.log.note_set(table, key, old, note, before)
        if note is None:
            del notes[key]
        elif before is None:
            self.notes.setdefault(table, {})[key] = note
        else:
            made: dict[str, str] = {}
            for known, text in notes.items():
                if known == before:
                    made[key] = note
                made[known] = text
            self.notes[table] = made

    def note_after(self, table: str, key: str) -> str | None:
        """The key behind ``key`` among the notes of ``table``; None at the end."""
        keys = self.notes.get(table, {})
        if next(reversed(keys), None) == key:
            return None
        following = iter(keys)
        for known in following:
            if known == key:
                break
        return next(following, None)

    def region(self) -> Block:
        """A block of this function that no op has yet; see `Op.add_region`."""
        return Block(home=self)

    def reserve(self, id: str) -> None:
        """Let no new op or value get ``id``, which was made elsewhere."""
        number = number_of(id) + 1
        if id[:1] == "a":
            self._inputs = max(self._inputs, number)
        else:
            self._next = max(self._next, number)

    def number_after(self, other: Function) -> None:
        """Let no new op or value get an id that ``other`` has given."""
        self._next = max(self._next, other._next)

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
        number = self._next
        self._next = number + 1
        ids = [f"v{number}"]
        if len(result_types) != 1:
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

    def ending(self, values: Sequence[Value], loc: Location | None = None) -> Op:
        """A new op that ends a block with ``values`` as its results; it stands in no block yet."""
        return ending(self, values, loc)

    # ------------------------------------------------------------ reading
    @property
    def numbering(self) -> tuple[int, int]:
        """The numbers of the next op and of the next input: what decides the ids of new ones."""
        return self._next, self._inputs

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
        return ops[-1] if ops and ops[-1].ends_block else None

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
        copy._inputs = self._inputs
        copy.subgraphs = dict(self.subgraphs)
        copy.calls = list(self.calls)
        copy.notes = {table: dict(notes) for table, notes in self.notes.items()}
        copy.written = self.written or {op.id: op.name for op in self.walk()}
        copied(self.block, copy.block, {})
        return copy


def symbols_of(types: Iterable[Type]) -> list[SymbolicDim]:
    """The symbolic dims of ``types``, each once, in order."""
    return list(
        dict.fromkeys(
            parameter
            for typed in types
            if isinstance(typed, Typed)
            for parameter in typed.shape.parameters
        )
    )
