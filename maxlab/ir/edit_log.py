"""The log of a function: every change as a record, in order.

A function has no log until somebody listens: `listen` gives it one. From then on each change, by
the builder, a pass or a message, is a record of the log (`ir.edit`), and what has to be known of
the past is a reading of it::

    log = listen(function)               # the log there is, or a new one

    with log.transaction():              # all or nothing: an exception, or Ctrl-C, takes it back
        ...                              # and it is one step of undo
    mark = log.mark()
    log.undo_to(mark)                    # what came since is taken back and forgotten

    log.revision                         # grows with every change, also when one is taken back
    log.since(revision)                  # the records since then; None if that is not known
    touched(log.since(revision))         # the ids of the ops that they are about

    log.undo(), log.redo()               # a transaction, or a single record outside of any
    apply(function, records, revision)   # records from elsewhere, all of them or none
    log.rewrites(mark)                   # what the rules of passes did

Rolling back a transaction removes its records: nobody has seen them, but for who has asked in
between, whose revision is not known any more. ``undo`` is a change like others: its records are
added. Both put back the same objects, so values that somebody holds are good again. Ids are never
given twice: what was taken back keeps those it had.

Ops in a region that is still being built are logged as well, so they can be taken back; records
that ``since`` gives leave them out, since the op that gets the region has them all.

With nobody listening, a change costs a test for None. With a log, adding an op costs a tuple; its
record is made when something else happens or somebody reads.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import NamedTuple

from maxlab.errors import GraphError
from maxlab.ir.core import Block, Op, Value
from maxlab.ir.edit import (
    FUNCTION,
    OWN,
    AddArgument,
    AddOp,
    BlockId,
    Edit,
    MoveOp,
    OrderArguments,
    RemoveArgument,
    RemoveOp,
    ReplaceUses,
    SetAttr,
    SetName,
    SetNote,
    SetOperands,
    SetParameters,
    SetResults,
    SetSource,
    SetType,
    inverse,
)
from maxlab.ir.edit_apply import count_uses, fits, perform
from maxlab.ir.edit_objects import Objects, attached, op_data, source_data, value_data
from maxlab.ir.function import Function
from maxlab.ir.listening import ABSENT, Attr, Source
from maxlab.ir.types import Type


class Rewrite(NamedTuple):
    """One change by a pass: ``rule`` turned the op ``node`` into ``into``, or removed it."""

    rule: str
    node: str
    into: tuple[str, ...] = ()


class Log:
    """The records of one function; made by `listen`.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.ir import Function, TensorType
        >>> function = Function("f")
        >>> log = listen(function)
        >>> x = function.add_input(TensorType(DType.float32, [2]), "x")
        >>> with log.transaction():
        ...     op = function.block.append(function.create("mo.relu", [x], [x.type]))
        >>> log.since(0)[-1].op.name
        'mo.relu'
        >>> log.undo(), len(function.ops)
        (True, 0)
        >>> log.redo(), function.ops == [op]
        (True, True)
    """

    def __init__(self, function: Function) -> None:
        self.function = function
        self._own = function.block
        self._edits: list[Edit] = []
        self._pending: list[tuple[Op, Op | None]] = []  # added to the own block, records to be made
        self._inner: set[int] = set()  # the numbers of records of regions without an op
        self._objects = Objects(function)
        self._quiet = False
        # From which number on which revisions count: a new pair whenever records are forgotten.
        self._numbers: list[int] = [0]
        self._revisions: list[int] = [0]
        self._rules: list[tuple[int, str, str]] = []
        self._depth = 0
        self._steps: list[tuple[int, int]] = []
        self._stepped = 0  # records from here on belong to no step yet
        self._undone: list[list[Edit]] = []
        self.forked_at: int | None = None
        """The lowest number of steps behind which others were made in place of undone ones, until
        who remembers something by numbers of steps has read and cleared it."""

    # ------------------------------------------------------------ reading
    def __len__(self) -> int:
        return len(self._edits) + len(self._pending)

    @property
    def revision(self) -> int:
        """A number that grows with every change."""
        return self._revisions[-1] + len(self) - self._numbers[-1]

    def mark(self) -> int:
        """Where the log is now, for `undo_to`, `edits` and `rewrites`."""
        return len(self)

    def edits(self, mark: int = 0) -> list[Edit]:
        """The records since ``mark``, those of regions without an op left out."""
        self.settle()
        found = self._edits[mark:]
        if not self._inner:
            return found
        return [e for number, e in enumerate(found, mark) if number not in self._inner]

    def since(self, revision: int) -> list[Edit] | None:
        """The records since ``revision``; None when it is none of this log, or one in the middle of
        what was rolled back: who has it must read the function anew."""
        number = self._number(revision)
        return None if number is None else self.edits(number)

    def is_current(self, revision: int) -> bool:
        """Whether the function is what it was at ``revision``, but for its notes."""
        edits = self.since(revision)
        return edits is not None and not changes_function(edits)

    def _number(self, revision: int) -> int | None:
        place = bisect_right(self._revisions, revision) - 1
        if place < 0 or revision > self.revision:
            return None
        number = self._numbers[place] + revision - self._revisions[place]
        # What was forgotten later on: the lowest mark that came after this revision.
        lowest = min(self._numbers[place + 1 :], default=len(self))
        return number if number <= lowest else None

    def op(self, id: str) -> Op | None:
        """The op ``id`` of the function, also one that was removed; None if there is none."""
        self.settle()
        return self._objects.op(id)

    def rewrites(self, mark: int = 0) -> list[Rewrite]:
        """The rewrites that rules of passes did since ``mark``: for each the op that it was applied
        to, and the ops, or the arguments, that took its place.
        """
        self.settle()
        found: list[Rewrite] = []
        ends = [*(number for number, _, _ in self._rules), len(self._edits)]
        for (start, name, node), end in zip(self._rules, ends[1:], strict=True):
            if start >= mark and name:
                found.append(Rewrite(name, node, self._into(self._edits[start:end])))
        return found

    def _into(self, edits: Iterable[Edit]) -> tuple[str, ...]:
        added: dict[str, None] = {}
        taken: dict[str, None] = {}
        for edit in edits:
            if isinstance(edit, AddOp):
                added[edit.block[0] or edit.op.id] = None
            elif isinstance(edit, ReplaceUses):
                value = self._objects.value(edit.new)
                taken[value.op.id if value is not None and value.op is not None else edit.new] = (
                    None
                )
        return tuple(added or taken)

    # ------------------------------------------------------------ taking back
    def undo_to(self, mark: int) -> None:
        """Take back, and forget, everything since ``mark``; Ctrl-C waits until it is done.

        Raises:
            KeyboardInterrupt: There was one meanwhile.
        """
        if len(self) <= mark:
            return
        revision = self.revision
        interrupted: KeyboardInterrupt | None = None
        while len(self) > mark:
            try:
                self.settle()
                self._quiet = True
                perform(self._edits[-1].invert(), self._objects)
                self._inner.discard(len(self._edits) - 1)
                del self._edits[-1]
            except KeyboardInterrupt as error:
                interrupted = error  # the same record again: doing it twice does no harm
            finally:
                self._quiet = False
        while self._rules and self._rules[-1][0] >= mark:
            del self._rules[-1]
        if self._rules:
            self._rules.append((mark, "", ""))  # the one before has ended
        self._steps = [(start, min(end, mark)) for start, end in self._steps if start < mark]
        self._stepped = min(self._stepped, mark)
        self._numbers.append(mark)
        self._revisions.append(revision + 1)
        if interrupted is not None:
            count_uses(self._objects, self.function._next)
            raise interrupted

    @property
    def steps(self) -> int:
        """How many steps `undo` can take back."""
        return len(self._steps) + len(self) - self._stepped

    @property
    def undone(self) -> int:
        """How many steps `redo` can do again."""
        return len(self._undone)

    def transaction(self) -> Transaction:
        """A ``with`` block that is done as a whole: an exception takes back what was changed in it.
        The outermost one is a step of `undo`."""
        return Transaction(self)

    def undo(self) -> bool:
        """Take back the last step, as a change of its own; False if there is none.

        Raises:
            GraphError: ML389, in the middle of a transaction.
        """
        self._close_steps()
        if not self._steps:
            return False
        start, end = self._steps.pop()
        self.settle()
        step = self._edits[start:end]
        self._again(inverse(step))
        self._undone.append(step)
        return True

    def redo(self) -> bool:
        """Do again the step that was undone last; False if there is none, or something else was
        changed since.

        Raises:
            GraphError: ML389, in the middle of a transaction.
        """
        self._close_steps()
        if not self._undone:
            return False
        step = self._undone.pop()
        undone, self._undone = self._undone, []
        start = len(self)
        self._again(step)
        self._steps.append((start, len(self)))
        self._undone = undone
        return True

    def _again(self, edits: Sequence[Edit]) -> None:
        undone, self._undone = self._undone, []
        mark, number = self.mark(), self.function._next
        try:
            for edit in edits:
                perform(edit, self._objects)
        except BaseException:
            self._take_back(mark, number)
            self._undone = undone
            raise
        self.settle()
        self._stepped = len(self)
        self._undone = undone

    def _take_back(self, mark: int, number: int) -> None:
        """Take back what was done since ``mark``, some of it perhaps halfway; ops made since then
        have ``number`` or more."""
        if self.function._next > number or len(self) > mark:
            self.undo_to(mark)
            count_uses(self._objects, number)

    def _end_step(self, mark: int) -> None:
        """Let the records since ``mark`` be one step, if there are any."""
        if len(self) > mark:
            self._steps += [(number, number + 1) for number in range(self._stepped, mark)]
            self._steps.append((mark, len(self)))
            self._stepped = len(self)

    def _close_steps(self) -> None:
        """Let what was changed outside of a transaction be a step each."""
        if self._depth:
            raise GraphError(
                "ML389",
                f"the graph {self.function.name!r} is in the middle of a change",
                fix="undo and redo when the change is done",
            )
        for number in range(self._stepped, len(self)):
            self._steps.append((number, number + 1))
        self._stepped = len(self)

    # ------------------------------------------------------------ being told (`listening.Listener`)
    def settle(self) -> None:
        """Make the records of ops that were added."""
        if not self._pending:
            return
        made: list[Edit] = []
        for op, before in self._pending:
            self._objects.note(op)
            made.append(AddOp(OWN, None if before is None else before.id, op_data(op)))
        # No call stands between the two: Ctrl-C comes before or after both.
        self._edits += made
        self._pending = []

    def _record(self, edit: Edit, block: Block | None) -> None:
        if self._quiet:
            return
        self._fork()
        if not attached(block):
            self._inner.add(len(self._edits))
        self._edits.append(edit)

    def _fork(self) -> None:
        """Drops the edits that were undone: another edit takes their place."""
        if self._undone:
            self._undone = []
            steps = self.steps
            self.forked_at = steps if self.forked_at is None else min(self.forked_at, steps)

    def op_added(self, op: Op, block: Block, before: Op | None) -> None:
        """See `listening.Listener`."""
        if block is self._own and not self._quiet:
            self._fork()
            self._pending.append((op, before))
            return
        self._objects.note(op)
        following = None if before is None else before.id
        self._record(AddOp(self._id(block), following, op_data(op)), block)

    def op_removed(self, op: Op, block: Block, before: Op | None) -> None:
        """See `listening.Listener`."""
        self._objects.note(op)
        following = None if before is None else before.id
        self._record(RemoveOp(self._id(block), following, op_data(op)), block)

    def op_moved(self, op: Op, block: Block, old: Op | None, new: Op | None) -> None:
        """See `listening.Listener`."""
        ids = [None if other is None else other.id for other in (old, new)]
        self._record(MoveOp(self._id(block), op.id, ids[0], ids[1]), block)

    def operands_set(self, op: Op, new: Sequence[Value]) -> None:
        """See `listening.Listener`."""
        self._record(SetOperands(op.id, _ids(op.operands), _ids(new)), op.block)

    def uses_replaced(self, old: Value, new: Value, places: Sequence[tuple[Op, int]]) -> None:
        """See `listening.Listener`."""
        where = tuple([(op.id, number) for op, number in places])
        self._record(ReplaceUses(old.id, new.id, where), old.block)

    def attr_set(self, op: Op, key: str, new: Attr, before: str | None) -> None:
        """See `listening.Listener`."""
        self._record(SetAttr(op.id, key, op.attrs.get(key, ABSENT), new, before), op.block)

    def value_named(self, value: Value, new: str) -> None:
        """See `listening.Listener`."""
        self._record(SetName(value.id, value.name, new), value.block)

    def type_set(self, value: Value, new: Type) -> None:
        """See `listening.Listener`."""
        self._record(SetType(value.id, value.type, new), value.block)

    def source_set(self, op: Op, new: Source) -> None:
        """See `listening.Listener`."""
        self._record(SetSource(op.id, source_data(op.source), source_data(new)), op.block)

    def results_set(self, op: Op, new: Sequence[Value]) -> None:
        """See `listening.Listener`."""
        self._objects.note_values(op.results)
        self._record(
            SetResults(op.id, tuple(map(value_data, op.results)), tuple(map(value_data, new))),
            op.block,
        )

    def argument_added(self, value: Value, block: Block, index: int) -> None:
        """See `listening.Listener`."""
        self._objects.note_values([value])
        self._record(AddArgument(self._id(block), index, value_data(value)), block)

    def argument_removed(self, value: Value, block: Block, index: int) -> None:
        """See `listening.Listener`."""
        self._objects.note_values([value])
        self._record(RemoveArgument(self._id(block), index, value_data(value)), block)

    def arguments_ordered(self, block: Block, new: Sequence[Value]) -> None:
        """See `listening.Listener`."""
        self._record(OrderArguments(self._id(block), _ids(block.args), _ids(new)), block)

    def renamed(self, new: str) -> None:
        """See `listening.Listener`."""
        self._record(SetName(FUNCTION, self.function.name, new), self._own)

    def parameters_set(self, new: Sequence[str]) -> None:
        """See `listening.Listener`."""
        self._record(SetParameters(tuple(self.function.parameters), tuple(new)), self._own)

    def note_set(
        self, table: str, key: str, old: str | None, new: str | None, before: str | None
    ) -> None:
        """See `listening.Listener`."""
        self._record(SetNote(table, key, old, new, before), self._own)

    def rule(self, name: str, node: str) -> None:
        """See `listening.Listener`."""
        self._rules.append((len(self), name, node))

    def _id(self, block: Block) -> BlockId:
        return self._objects.id_of(block)


class Transaction:
    """See `Log.transaction`."""

    __slots__ = ("_depth", "_log", "_mark", "_number")

    def __init__(self, log: Log) -> None:
        self._log = log
        self._mark = 0
        self._number = 0
        self._depth = 0

    def __enter__(self) -> Transaction:
        log = self._log
        self._mark = len(log._edits) + len(log._pending)
        self._number = log.function._next
        self._depth = log._depth
        log._depth = self._depth + 1
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        log = self._log
        log._depth = self._depth  # whatever an interrupt has left of those inside
        if kind is not None:
            self._take_back()
        elif not log._depth:
            try:
                log._end_step(self._mark)
            except BaseException:
                self._take_back()
                raise

    def _take_back(self) -> None:
        self._log._take_back(self._mark, self._number)


def _ids(values: Sequence[Value]) -> tuple[str, ...]:
    return tuple([value.id for value in values])


def listen(function: Function) -> Log:
    """The log of ``function``; it begins now if there was none."""
    log = function.log
    if not isinstance(log, Log):
        log = function.log = Log(function)
    return log


def touched(edits: Iterable[Edit]) -> set[str]:
    """The ids of the ops that ``edits`` are about: those added, removed and changed, the owners of
    regions in which something was, and the readers of values that were replaced. Values that were
    named or got another type are named by their own ids. Notes are about no op."""
    found: set[str] = set()
    for edit in edits:
        if isinstance(edit, (AddOp, RemoveOp)):
            found.add(edit.op.id)
        if isinstance(edit, MoveOp):
            found.add(edit.op)
        elif isinstance(edit, (AddOp, RemoveOp, AddArgument, RemoveArgument, OrderArguments)):
            if edit.block[0] is not None:
                found.add(edit.block[0])
            elif not isinstance(edit, (AddOp, RemoveOp, OrderArguments)):
                found.add(edit.value.id)
        elif isinstance(edit, ReplaceUses):
            found.update(id for id, _ in edit.places)
        elif isinstance(edit, SetName):
            found.add(edit.target)
        elif isinstance(edit, SetType):
            found.add(edit.value)
        elif not isinstance(edit, (SetParameters, SetNote)):
            found.add(edit.op)
    found.discard(FUNCTION)
    return found


def changes_function(edits: Iterable[Edit]) -> bool:
    """Whether one of ``edits`` changes the function itself, not what people laid beside it."""
    return not all(isinstance(edit, SetNote) for edit in edits)


def apply(
    function: Function,
    edits: Iterable[Edit],
    revision: int | None = None,
    check: Callable[[Function], None] | None = None,
) -> None:
    """Do what ``edits`` say to ``function``: all of them, or none if one cannot be done.

    Args:
        function: The function.
        edits: The records, in order.
        revision: What `Log.revision` was when they were made; None if it does not matter.
        check: Called with the function when all is done, inside of the transaction, such as
            ``verify``.

    Raises:
        GraphError: ML389, the function has changed since ``revision``, or is not as an edit expects
            it.
    """
    log = function.log
    own = Log(function) if not isinstance(log, Log) else log
    if revision is not None and revision != own.revision:
        raise GraphError(
            "ML389",
            f"the edit is for revision {revision} of the graph {function.name!r}, which is at "
            f"{own.revision}",
            fix="read what has changed since, and make the edit for what there is now",
        )
    function.log = own
    try:
        with own.transaction():
            for edit in edits:
                own.settle()
                fits(edit, own._objects)
                perform(edit, own._objects)
            if check is not None:
                check(function)
    finally:
        function.log = log


def at_revision(function: Function, revision: int) -> Function | None:
    """A copy of ``function`` as it was at ``revision`` of its log; None if that is not known."""
    log = function.log
    edits = log.since(revision) if isinstance(log, Log) else None
    if edits is None:
        return None
    copy = function.clone()
    objects = Objects(copy)
    for edit in inverse(edits):
        perform(edit, objects)
    return copy


__all__ = [
    "Log",
    "Rewrite",
    "Transaction",
    "apply",
    "at_revision",
    "changes_function",
    "listen",
    "touched",
]
