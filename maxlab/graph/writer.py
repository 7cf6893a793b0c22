"""How ops get into a function while it is being built, and how they are taken back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from maxlab.errors import (
    DTypeError,
    GraphError,
    Location,
    MaxlabError,
    ShapeError,
    UnsupportedError,
)
from maxlab.graph.journal import Journal, Noted
from maxlab.graph.origins import explain, origin
from maxlab.graph.regions import Region, outermost
from maxlab.graph.value import TensorValue, Value
from maxlab.ir import Block, Function, Op, Type, listen, user_location
from maxlab.ir import Value as IrValue
from maxlab.ir.source import Scopes
from maxlab.opset import OpDef, is_weight, role_of
from maxlab.opset.builder import Builder, current, entered, reenter
from maxlab.opset.inference import inferred


class Transaction:
    """The result of ``Builder.transaction`` of a graph: all or nothing.

    When the code inside raises, whatever it was, the graph is as it was before. An error of maxlab
    gets the user's line, and the graph remembers it until the next op.
    """

    __slots__ = ("_builders", "_edits", "_mark", "_open", "_writer")

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._edits = writer.log.transaction()
        self._mark = 0
        self._open = 0
        self._builders = entered()

    def __enter__(self) -> None:
        journal = self._writer.journal
        self._mark = journal.mark
        self._open = journal.open
        journal.open = self._open + 1
        self._edits.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        journal = self._writer.journal
        journal.open = self._open  # whatever an interrupt has left of those inside
        try:
            self._edits.__exit__(kind, error, trace)  # tells of a Ctrl-C when all is taken back
        finally:
            if error is not None:
                journal.back(self._mark)
            elif not journal.open:
                journal.forget()
        if error is not None and not isinstance(error, Exception):
            reenter(self._builders)
        if isinstance(error, MaxlabError):
            error.locate(user_location())
            self._writer.error = error


class Writer:
    """Writes ops into one function: where they go, what they may read, and what is undone.

    Attributes:
        owner: The builder whose ops these are; only while it is in use may they be added.
        function: What is written.
        log: The edits of the function, which a transaction that fails takes back.
        journal: The inverses of what open transactions have changed besides.
        state: What operations remember; see ``Builder.state``.
        regions: Those that are being built, the innermost last.
        scopes: Reads places and scopes from the stack.
        error: The newest error, which a view of the partial graph shows; None after the next op.
    """

    def __init__(self, owner: Builder[Any], function: Function) -> None:
        self.owner = owner
        self.write(function)
        self.journal = Journal()
        self.state: Noted[str, Any] = Noted(self.journal)
        self.regions: list[Region] = []
        self.scopes = Scopes()
        self.error: MaxlabError | None = None
        self._placed: tuple[Location | None, str | Callable[[], str]] | None = None

    def write(self, function: Function) -> None:
        """Let ``function`` be the one that is written."""
        self.function = function
        self.log = listen(function)

    # ------------------------------------------------------------ where
    @property
    def block(self) -> Block:
        """Where ops go."""
        return self.regions[-1].block if self.regions else self.function.block

    @contextmanager
    def at_root(self) -> Iterator[None]:
        """Let ops go to the graph itself, before the op whose regions are being built."""
        inside, self.regions = self.regions, []
        try:
            yield
        finally:
            self.regions = inside

    @contextmanager
    def at(self, place: Location | None, scope: str | Callable[[], str]) -> Iterator[None]:
        """Let ops stand at ``place`` in ``scope``, or in what that gives for each of them."""
        before, self._placed = self._placed, (place, scope)
        try:
            yield
        finally:
            self._placed = before

    def place(self) -> tuple[Location | None, str]:
        """The location and the scope of an op that is added now."""
        if self._placed is None:
            return self.scopes.capture()
        place, scope = self._placed
        return place, scope if isinstance(scope, str) else scope()

    # ------------------------------------------------------------ what may be read
    def require_use(self) -> None:
        """Raises unless ops may be added now.

        Raises:
            GraphError: ML314, another graph is being built, or none.
        """
        if current() is not self.owner:
            raise GraphError(
                "ML314",
                f"the graph {self.owner.name!r} is not the one that is being built",
                fix=f"write it inside of `with {self.owner.name}:`",
            )

    def own(self, value: Any) -> IrValue:
        """The value for ``value``, which must belong to this graph, where ops go now.

        Raises:
            GraphError: ML314, it belongs to another graph, or this graph is not in use.
        """
        if not isinstance(value, Value):
            value = self.owner.tensor(value)
        self.require_use()
        return self.reached(value._ir())

    def reached(self, raw: IrValue) -> IrValue:
        """The value for ``raw`` where ops go now: itself, or the argument that captures it."""
        owner = raw.owner
        block = owner.block if isinstance(owner, Op) else owner
        if block is self.block:
            return raw
        blocks = [self.function.block, *(region.block for region in self.regions)]
        if not any(block is known for known in blocks):
            top = outermost(block.parent) if block is not None else None
            ended = top is not None and top.block is self.function.block
            raise self._unreachable(raw, ended)
        for region in self.regions[[b is block for b in blocks].index(True) :]:
            raw = self.captured(region, raw)
        return raw

    def captured(self, region: Region, value: IrValue) -> IrValue:
        """The argument of ``region`` that stands for ``value``, which is made outside."""
        found = region.captured.get(value)
        if found is None:
            self.journal.note(region.captured.pop, value, None)
            found = self.add_argument(region, value.type, value.name)
            region.captured[value] = found
        return found

    def add_argument(self, region: Region, type: Type, name: str) -> IrValue:
        """A new argument of ``region``."""
        return region.block.add_argument(f"b{self.function.fresh()}", type, name)

    def _unreachable(self, value: IrValue, ended: bool) -> GraphError:
        """The error for ``value``, which no block that is being built can read."""
        if ended:
            return GraphError(
                "ML314",
                f"the value %{value.id} ({value.type}) belongs to a branch or to the body of a "
                "loop, which may not have run",
                why=[f"it is {origin(value)}"],
                fix="return it from the function that made it, and use what cond or while_loop "
                "gives",
            )
        return GraphError(
            "ML314",
            f"the value %{value.id} ({value.type}) belongs to another graph than "
            f"{self.owner.name!r}, or to an op that was undone",
            why=[f"it is {origin(value)}"],
            fix="pass it in as an input, or build it again in this graph",
        )

    # ------------------------------------------------------------ adding ops
    def op(self, row: OpDef, values: Sequence[IrValue], attrs: dict[str, Any]) -> Op:
        """A new op of the kind ``row``, which has no effect, on values that may be read here.

        Raises:
            MaxlabError: What the op's type rule says.
        """
        return self.append(row.name, values, self.types_of(row, values, attrs), attrs)

    def owned(self, operands: Sequence[Any]) -> list[IrValue]:
        """The value for each of ``operands`` where ops go now.

        Raises:
            GraphError: ML314, one belongs to another graph, or this graph is not in use.
        """
        if current() is not self.owner:
            self.require_use()
        block = self.block
        values = []
        for operand in operands:
            if operand.__class__ is TensorValue:
                value = operand._value
            else:
                value = operand._ir() if isinstance(operand, Value) else self.own(operand)
            owner = value.owner
            if (owner.block if owner.__class__ is Op else owner) is not block:
                value = self.reached(value)
            values.append(value)
        return values

    def types_of(
        self, row: OpDef, values: Sequence[IrValue], attrs: dict[str, Any]
    ) -> Sequence[Type]:
        """The types of the results of ``row``; an error says where its operands came from."""
        try:
            return inferred(row, [value.type for value in values], attrs)
        except (DTypeError, ShapeError) as error:
            explain(error, values)
            raise

    def append(
        self,
        name: str,
        operands: Sequence[IrValue],
        types: Sequence[Type],
        attrs: dict[str, Any],
        regions: Sequence[Block] = (),
    ) -> Op:
        """A new op where ops go now."""
        location, scope = self.scopes.capture() if self._placed is None else self.place()
        op = self.function.create(name, operands, types, attrs, loc=location, scope=scope)
        for region in regions:
            op.add_region(region)
        self.insert(op)
        return op

    def insert(self, op: Op) -> None:
        """Put ``op``, which stands nowhere, where ops go now.

        Raises:
            UnsupportedError: ML756, it computes a dim, in a region.
        """
        block = self.function.block
        if self.regions:
            if role_of(op) == "bind":
                raise self._no_dim(op)
            # What a weight is does not depend on which branch reads it first.
            if not is_weight(op):
                block = self.regions[-1].block
        last = block.ops[-1] if block.ops else None
        if last is None or not last.ends_block:
            block.append(op)
        else:  # more ops after output(): they come before it
            block.insert(op, last)
        self.error = None

    def _no_dim(self, op: Op) -> UnsupportedError:
        """The error for ``op``, which computes a dim in a region."""
        op.drop()
        return UnsupportedError(
            "ML756",
            f"{self.regions[-1].what} computes the dim {str(op.attrs['dim'])!r}, which only a "
            "run of it tells",
            at=op.loc,
            fix="compute it before, or write it with sizes that are known: a mask instead of "
            "nonzero",
        )

    # ------------------------------------------------------------ outputs
    def set_output(self, values: Sequence[IrValue], place: Location | None) -> None:
        """Let the function give ``values``, instead of what it gave."""
        function = self.function
        old = function.output
        if old is not None:
            function.block.remove(old)
        function.block.append(function.ending(values, place))


__all__ = ["Transaction", "Writer"]
