"""Changes of a block at many places at once, as passes make them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from types import TracebackType

from maxlab.ir.core import Block, Op, Value
from maxlab.ir.function import Function


class Rewriting:
    """A pass over the own block of ``function``: ops are put in and taken out while the list of the
    block stays what it was; at the end of the ``with`` block it becomes what it should be, in one
    go.

    Each change belongs to the rule that was named last, for who listens (`Log.rewrites`).

    Attributes:
        function: The function.
        count: How many rules were applied.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.ir import Function, TensorType
        >>> f = Function("f")
        >>> x = f.add_input(TensorType(DType.float32, [2]))
        >>> op = f.block.append(f.create("mo.relu", [x], [x.type]))
        >>> with Rewriting(f) as rewriting:
        ...     rewriting.rule("nothing is negative", op)
        ...     rewriting.replace(op, [x])
        >>> len(f.ops), rewriting.count
        (0, 1)
    """

    __slots__ = ("_behind", "_block", "_gone", "_put", "count", "function")

    def __init__(self, function: Function) -> None:
        self.function = function
        self.count = 0
        self._block: Block = function.block
        self._gone: set[Op] = set()
        self._put: dict[Op | None, list[Op]] = {}
        # For who listens: the op behind each one, which is the first one behind None, as of now.
        self._behind: _Chain | None = None
        if function.log is not None:
            self._behind = _Chain(self._block.ops)

    def __enter__(self) -> Rewriting:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._put:
            made: list[Op] = []
            for op in (*self._block.ops, None):
                self._emit(op, made)
            self._block.ops = made
        elif self._gone:
            gone = self._gone
            self._block.ops = [op for op in self._block.ops if op not in gone]
        if self.function.log is not None:
            self.function.log.rule("", "")

    def _emit(self, op: Op | None, made: list[Op]) -> None:
        """Add to ``made`` what was put before ``op``, and ``op`` itself."""
        for other in self._put.get(op, ()):
            self._emit(other, made)
        if op is not None and op not in self._gone:
            made.append(op)

    # ------------------------------------------------------------ changes
    def rule(self, name: str, node: Op) -> None:
        """Say that what comes next is the rule ``name``, applied to ``node``."""
        self.count += 1
        log = self.function.log
        if log is not None:
            log.rule(name, node.id)

    def insert(self, op: Op, before: Op | None) -> None:
        """Put ``op`` before ``before``, which may be an op that was put in; at the end for None."""
        self._block._place(op, before)
        self._put.setdefault(before, []).append(op)
        if self._behind is not None:
            self._behind.insert(op, before)

    def remove(self, op: Op) -> None:
        """Take ``op``, whose results nobody reads, out of the block."""
        behind = None if self._behind is None else self._behind.remove(op)
        self._block._displace(op, behind)
        self._gone.add(op)

    def replace(self, op: Op, values: Sequence[Value]) -> None:
        """Let ``values`` be what the results of ``op`` were, and take ``op`` out."""
        for old, new in zip(op.results, values, strict=True):
            old.replace_with(new)
        self.remove(op)


class _Chain:
    """The order of ops, with quick changes."""

    def __init__(self, ops: Sequence[Op]) -> None:
        around = list(pairwise([None, *ops, None]))
        self._next: dict[Op | None, Op | None] = dict(around)
        self._previous: dict[Op | None, Op | None] = {op: ahead for ahead, op in around}

    def insert(self, op: Op, before: Op | None) -> None:
        """Put ``op`` before ``before``."""
        ahead = self._previous[before]
        self._next[ahead], self._previous[op] = op, ahead
        self._next[op], self._previous[before] = before, op

    def remove(self, op: Op) -> Op | None:
        """Take ``op`` out; the op that was behind it."""
        ahead, behind = self._previous.pop(op), self._next.pop(op)
        self._next[ahead], self._previous[behind] = behind, ahead
        return behind


__all__ = ["Rewriting"]
