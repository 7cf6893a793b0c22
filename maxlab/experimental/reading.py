"""Reads: what is computed when somebody asks for the value of a tensor.

A read of some slots of a trace computes what they depend on and nothing else, as one compiled
graph. The slots on the way that a user still holds a tensor of, or that something else that is
recorded depends on, are results of the same run, so that nothing is ever computed twice.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from maxlab.experimental.parts import Part, part_of
from maxlab.experimental.programs import Program, program_for
from maxlab.experimental.tracing import Made, Steps, Trace, here

lock = threading.RLock()
"""Held while values are computed: another thread that reads a tensor that is being computed waits
for it."""


class Run:
    """The plan of a read in a state.

    Attributes:
        program: What computes it.
        inputs: The slots of its inputs.
        numbers: Which numbers of the trace it is given.
        outputs: The slots of its outputs.
        kept: Those of them that something else that is recorded depends on.
        is_last: Whether nothing is recorded any more that a user holds a tensor of.
    """

    __slots__ = ("inputs", "is_last", "kept", "numbers", "outputs", "program")

    def __init__(
        self,
        program: Program,
        inputs: tuple[int, ...],
        numbers: tuple[int, ...],
        outputs: tuple[int, ...],
        kept: set[int],
        is_last: bool,
    ) -> None:
        self.program = program
        self.inputs = inputs
        self.numbers = numbers
        self.outputs = outputs
        self.kept = kept
        self.is_last = is_last


def read(trace: Trace, wanted: tuple[int, ...]) -> None:
    """Computes the slots ``wanted`` of ``trace``.

    Raises:
        MaxlabError: What goes wrong while it is compiled or computed; the operations stay recorded,
            and the next read tries again.
    """
    with lock:
        memory = trace.memory
        wanted = tuple([slot for slot in wanted if slot not in memory])
        if not wanted:
            return
        state, alive = trace.state, trace.alive()
        key = (wanted, alive, tuple(memory))
        run = state.runs.get(key)
        if run is None:
            run = state.runs[key] = _found(trace, wanted, alive)
        numbers = trace.numbers
        made = run.program(
            [memory[slot] for slot in run.inputs],
            [numbers[which] for which in run.numbers],
            trace,
            run,
        )
        handles, kept = trace.handles, run.kept
        is_mine = trace.thread == threading.get_ident()  # else its thread may go on with all of it
        for slot, value in zip(run.outputs, made, strict=True):
            if slot in kept or not is_mine:
                memory[slot] = value
            handle = handles.pop(slot, None)
            tensor = handle() if handle is not None else None
            if tensor is not None:
                tensor._memory = value
                tensor._made = Made(Steps(state, numbers, trace.places), slot)
                tensor._trace = None
        if here.trace is trace:
            here.trace = None
        if run.is_last and is_mine and not trace.calls:
            trace.end()  # tensors that were inputs still know it


def _found(trace: Trace, wanted: tuple[int, ...], alive: tuple[int, ...]) -> Run:
    """The plan for a read of ``wanted``, while a user holds tensors of ``alive``."""
    part, outputs, kept = cut(trace, wanted, alive)
    numbers = tuple(node.number for node in part.nodes if node.number >= 0)
    program = program_for(trace, part.nodes, part.inputs, outputs)
    is_last = part.made.issuperset(alive)
    return Run(program, tuple(part.inputs), numbers, outputs, kept, is_last)


def cut(
    trace: Trace, wanted: tuple[int, ...], alive: tuple[int, ...]
) -> tuple[Part, tuple[int, ...], set[int]]:
    """The operations that a read of ``wanted`` runs, while a user holds tensors of ``alive``; the
    slots that are its results: those, what of the part is alive, and what others that are alive
    depend on; and these last ones."""
    state, memory = trace.state, trace.memory
    part = part_of(state, wanted, memory)
    kept: set[int] = set()
    others = [slot for slot in alive if slot not in part.made]
    if others:
        mine = set(map(id, part.nodes))
        numbers = {slot for node in part.nodes if node.number >= 0 for slot in node.results}
        for node in part_of(state, others, memory).nodes:
            if id(node) not in mine:
                kept |= part.made.intersection(node.operands) - numbers
    outputs = part.made.intersection(alive).union(kept, wanted)
    return part, tuple(sorted(outputs)), kept


def read_all(tensors: Sequence[Any]) -> None:
    """Computes all of ``tensors``. Those of one trace are computed in one run."""
    for first in tensors:
        trace = first._trace
        if first._memory is None:
            together = [t._slot for t in tensors if t._trace is trace and t._memory is None]
            read(trace, tuple(dict.fromkeys(together)))


__all__ = ["Run", "cut", "lock", "read", "read_all"]
