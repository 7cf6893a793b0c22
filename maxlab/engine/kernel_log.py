"""The messages that kernels write while they run, told to Python's ``logging``.

A kernel writes records into memory of its step (``kernels/c/ops/log.h``): the number of a note, and
values. They are read when the run has ended, and in front of each function of Python that it calls,
and told in the order of steps, then of items: whichever thread came first does not matter. They go
to the logger ``maxlab.kernels``; where nobody has set up logging, to ``sys.stderr``.
"""

from __future__ import annotations

import functools
import struct
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from maxlab.compiler import Compiled
from maxlab.compiler.plan import Plan, Step
from maxlab.errors import ExecutionError, Location
from maxlab.opset.notes import BEGINS, INDEX, LEVELS, NAN, NOTES, VALUES

RECORD = 3 + VALUES
ROOM = 1024
"""Records that one step may write between two readings; what is more is counted and lost."""
WORDS = 2 + ROOM * RECORD
"""Words of the log of a step."""

if TYPE_CHECKING:
    import logging

Array = np.ndarray[Any, Any]


@functools.cache
def logger() -> logging.Logger:
    """The logger of kernels' messages. The compilation decides which there are, so it lets all
    pass, unless somebody has set its level."""
    import logging

    made = logging.getLogger("maxlab.kernels")
    if made.level == logging.NOTSET:
        made.setLevel(1)
    logging.addLevelName(LEVELS["TRACE"], "TRACE")
    return made


class KernelLog:
    """The logs of the steps of one model that run on the host.

    ``lock`` is held while the model runs, so that a message is that of one run.
    """

    def __init__(self, compiled: Compiled) -> None:
        self.lock = threading.RLock()
        self._compiled = compiled
        self._words: dict[int, Array] = {}

    def address(self, step: int) -> int:
        """Where the step with the number ``step`` writes its records."""
        words = self._words.get(step)
        if words is None:
            words = self._words[step] = np.zeros(WORDS, np.int64)
            words[1] = ROOM
        return int(words.ctypes.data)

    def tell(self) -> None:
        """Tell what is written, and forget it."""
        for number in sorted(self._words):
            tell(self._words[number], self._compiled.plan.steps[number], self._compiled)

    def around(self, execute: Callable[..., int]) -> Callable[..., int]:
        """``execute``, and what it wrote told behind it."""

        def logged(*args: Any) -> int:
            with self.lock:
                try:
                    return execute(*args)
                finally:
                    self.tell()

        return logged


def log_of(compiled: Compiled) -> KernelLog | None:
    """The log of ``compiled``, when it has steps on the host that write any."""
    if compiled.log is None and any(
        step.printed is not None and step.gpu is None and step.printed.logs
        for step in compiled.plan.steps
    ):
        compiled.log = KernelLog(compiled)
    found: KernelLog | None = compiled.log
    return found


def tell(words: Array, step: Step, compiled: Compiled) -> None:
    """Tell the records in ``words``, the log of ``step``, and forget them."""
    claimed = int(words[0])
    if not claimed:
        return
    kept = min(claimed, ROOM)
    records = words[2 : 2 + kept * RECORD].reshape(kept, RECORD).tolist()
    words[0] = 0
    records.sort(key=lambda record: (record[1], record[2]))  # stable: else in their own order
    for note, item, _, *values in records:
        level, text = _message(note, item, values, step, compiled)
        _say(level, text)
    if claimed > kept:
        _say(LEVELS["WARNING"], f"{step.name}: {claimed - kept} more messages were lost")


def _message(
    note: int, item: int, values: list[int], step: Step, compiled: Compiled
) -> tuple[int, str]:
    if note == BEGINS:
        return LEVELS["TRACE"], f"{step.id} {step.name}: items {values[0]} to {values[1]}"
    if note == INDEX:
        error = out_of_range(compiled.plan, _node(step, values[0]), values[1], values[2])
        return LEVELS["WARNING"], error.what
    if note == NAN:
        return LEVELS["WARNING"], nan_error(compiled.plan, step, values[0], values[1]).what
    known = NOTES[note]
    if known.kind == "assert":
        return known.level, assertion_error(note, item, None).what
    numbers = [
        struct.unpack("<d", struct.pack("<q", value))[0] if kind == "f" else value
        for kind, value in zip(known.kinds, values, strict=False)
    ]
    return known.level, f"{known.op}: {known.text % tuple(numbers)}"


def _node(step: Step, number: int) -> str:
    checked = step.printed.checked if step.printed is not None else []
    return next(iter(step.nodes_of(checked[number])), "") if number < len(checked) else ""


def _say(level: int, text: str) -> None:
    import logging

    told = logger()
    if told.hasHandlers():
        told.log(level, "%s", text)
    else:
        sys.stderr.write(f"{logging.getLevelName(level)} {text}\n")


def assertion_error(note: int, item: int, at: Location | None) -> ExecutionError:
    """The error for the assertion ``note``, which does not hold for ``item``."""
    known = NOTES[note]
    return ExecutionError(
        "ML791",
        f"{known.op}: the assertion of {known.place} does not hold for the item {item}: "
        f"{known.text.replace('%%', '%')}",
        at=at,
        fix="look at the inputs of the kernel; set_mojo_assert_level(AssertLevel.SAFE) leaves "
        "assertions out",
    )


def place_of(plan: Plan, step: Step) -> Location | None:
    """The user's line of the first op that ``step`` computes."""
    ops = (plan.facts.ops.get(node) for node in step.nodes)
    return next((op.at for op in ops if op is not None and op.at is not None), None)


def out_of_range(plan: Plan, node: str, value: int, limit: int) -> ExecutionError:
    """The error for a number that a kernel of the op ``node`` refused."""
    op = plan.facts.ops.get(node)
    if op is not None:
        return op.fault.error(value, limit, op.at)
    return ExecutionError(  # a kernel that the user wrote anew names no op
        "ML652",
        f"the index {value} is out of range for a dim of size {limit}",
        fix=f"indices go from {-limit} to {limit - 1}",
    )


def nan_error(plan: Plan, step: Step, number: int, position: int) -> ExecutionError:
    """The error for a result of the test ``number`` of ``step`` that is NaN."""
    nodes = [_node(step, number), *reversed(step.nodes)]  # a folded value names no op of its own
    ops = (plan.facts.ops.get(node) for node in nodes)
    op = next((op for op in ops if op is not None), None)
    what = op.word if op is not None else step.name
    return ExecutionError(
        "ML792",
        f"{what}: element {position} of what the kernel {step.id} ({step.name}) writes is NaN",
        at=op.at if op is not None else None,
        fix="maxlab.first_nonfinite(model, …) tells where it came from",
    )


__all__ = [
    "logger",
    "ROOM",
    "WORDS",
    "KernelLog",
    "assertion_error",
    "log_of",
    "nan_error",
    "out_of_range",
    "place_of",
    "tell",
]
