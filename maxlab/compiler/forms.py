"""Forms that groups of different layers, graphs and loads share, so that each kernel is lowered and
printed once.

A *form* is all that lowering and printing read of a group, with its ops and values by number: what
the ops do, the types and layouts of the values, which of them are written to memory, and what the
options say of kernels. Groups of the same form become the same loops and the same text; they differ
in the ids of their ops and in the slots of their values, which the form has by number.

What was made for a form is kept for the next group of it, in this graph or another one, for the
newest ``LIMIT`` forms of the process. It holds nothing of a graph. So a changed graph that is
loaded again lowers and prints the kernels that changed.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

from maxlab.compiler.groups import Group
from maxlab.compiler.keys import frozen_attrs
from maxlab.compiler.options import Options
from maxlab.compiler.schedule import Schedule
from maxlab.ir import Op, Value
from maxlab.opset import OPSET

LIMIT = 2048
"""Forms whose kernels are kept: some ten kilobytes each."""
_EXPANDED = frozenset({"map", "gather", "pad", "iota"})


class Form:
    """The form of a group, and the group's own ops and values by their numbers in it.

    Args:
        schedule: The groups of a function.
        group: The group.
        how: What else decides what is made: which part of the compiler makes it.
        operand: Of a concat, the operand that is copied into the result; None: all of the group.

    Attributes:
        key: Equal for groups of the same form.
        names: The name of each op in what is made: its number.
        ids: The id of each op, by its number.
        values: The values by number.
        numbers: The numbers of the values.
    """

    __slots__ = (
        "_group",
        "_own",
        "_parts",
        "_schedule",
        "ids",
        "key",
        "names",
        "numbers",
        "values",
    )

    def __init__(
        self, schedule: Schedule, group: Group, how: Hashable, operand: Value | None = None
    ) -> None:
        self._schedule = schedule
        self._group = group
        self.names: dict[Op, str] = {}
        self.ids: list[str] = []
        self.values: list[Value] = []
        self.numbers: dict[Value, int] = {}
        self._own = set(group.ops) if operand is None else set()
        self._parts: list[Any] = [how, option_key(schedule.options)]
        if operand is None:
            self._describe()
        else:
            assert group.main is not None
            self._visit(operand)
            self._leaf(group.main.result)
        self.key: Hashable = tuple(self._parts)

    def _describe(self) -> None:
        """Say what the whole group computes."""
        group, stored = self._group, self._schedule.stored
        for op in group.ops:
            self._visit(op.result)
            self._parts.append(op.result in stored)
        source = group.source
        if source is None:
            return
        if group.output >= 0 or source.op is None:
            self._visit(source)
        else:
            self._visit(source.op.operands[0])
            self._leaf(source)

    def _visit(self, value: Value) -> int:
        """The number of ``value``, with what is behind it as far as the kernel computes it."""
        known = self.numbers.get(value)
        if known is not None:
            return known
        op = value.op
        if op is None or not self._is_computed(value, op):
            return self._leaf(value)
        attrs: Hashable
        if OPSET[op.name].kind == "constant":
            attrs = op.attrs["value"].array.tobytes()
        else:
            attrs = frozen_attrs(op.attrs)
        operands = [self._visit(operand) for operand in op.operands]
        self.names[op] = str(len(self.ids))
        self.ids.append(op.id)
        return self._add(value, (op.name, attrs, *operands))

    def _leaf(self, value: Value) -> int:
        """The number of ``value``, which is memory."""
        known = self.numbers.get(value)
        return self._add(value, None) if known is None else known

    def _add(self, value: Value, made: Hashable) -> int:
        self._parts += (value.type, self._schedule.layouts.get(value), made)
        number = self.numbers[value] = len(self.values)
        self.values.append(value)
        return number

    def _is_computed(self, value: Value, op: Op) -> bool:
        """Whether the kernel computes ``value``, or what it is a view of, instead of reading it."""
        schedule = self._schedule
        if op in self._own:
            return True
        if value in schedule.laid_out:
            return False
        kind = OPSET[op.name].kind
        if kind == "view":
            return True
        if kind == "constant":
            return bool(op.attrs["value"].array.size == 1)
        if kind == "iota" and not op.operands:
            return True
        if kind not in _EXPANDED:
            return False
        if schedule.inline_value(value):
            return True
        group = schedule.group_of.get(value)
        return group is not None and (group is self._group or group.number in schedule.inlined)


def option_key(options: Options) -> Hashable:
    """The part of ``options`` that changes the loops and the text of a kernel."""
    return options.accuracy, options.assert_level, options.log_level


class Kept:
    """Things that were made for the newest forms; threads may use it at once.

    Args:
        limit: How many are kept.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._made: OrderedDict[Hashable, Any] = OrderedDict()

    def __len__(self) -> int:
        return len(self._made)

    def get(self, key: Hashable) -> Any:
        """The thing that was made for ``key``; None where that is not kept."""
        with self._lock:
            found = self._made.get(key)
            if found is not None:
                self._made.move_to_end(key)
            return found

    def put(self, key: Hashable, made: Any) -> None:
        """Keep ``made`` for ``key``, and forget what was not asked for in the longest time."""
        with self._lock:
            self._made[key] = made
            while len(self._made) > self._limit:
                self._made.popitem(last=False)

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._made.clear()


KEPT = Kept(LIMIT)
"""Everything that this process has made, by form."""
