"""Memory of a run in which nothing stands yet: `poisoned`."""

from __future__ import annotations

from collections.abc import Sequence

from maxlab.driver import Tensor
from maxlab.engine.frame import Frame
from maxlab.engine.layout import add_buffers
from maxlab.engine.program import Program

POISON = 0xFF
"""The bytes of memory that no step has written yet: NaN as floats, so that what a step leaves out
is seen, and not what an earlier run left there."""


def poisoned(
    programs: Sequence[Program], inputs: Sequence[Tensor]
) -> tuple[list[Frame], list[Tensor]]:
    """A frame for each of ``programs``, the stages of one plan, and the outputs that they will
    write. No other run gets their memory, and all that steps write is filled with ``POISON``.

    Args:
        programs: The stages, for the sizes of ``inputs``.
        inputs: The inputs. Of a buffer that is an output too, which the caller has, nothing is
            filled.
    """
    frames: list[Frame] = []
    made: dict[int, Tensor] = {}
    for program in programs:
        frame = program.new_frame()
        program.place(frame, frames[-1] if frames else None, inputs, made)
        frames.append(frame)
    executable, env = programs[-1].executable, programs[-1].env
    for slot in executable.compiled.plan.slots:
        address = frames[-1].addresses[slot.number]
        if slot.kind in ("output", "arena") and address:
            stream = executable.device_of(slot.device).default_stream
            stream.fill_bytes(address, POISON, slot.nbytes.evaluate(env))
    add_buffers(executable.compiled.plan, inputs, made)
    return frames, [made[number] for number in sorted(made)]


__all__ = ["POISON", "poisoned"]
