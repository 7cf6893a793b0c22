"""The memory of a plan bound to sizes: places of slots in arenas, and shapes of outputs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from maxlab.compiler import Compiled, lifetimes
from maxlab.compiler.facts import OutputFacts
from maxlab.compiler.plan import Plan, Slot
from maxlab.driver import CPU, Device, Tensor
from maxlab.driver.base import block_on
from maxlab.engine.size_rules import past_counting
from maxlab.errors import ExecutionError
from maxlab.ir.dims import LARGEST

ALIGNMENT = 64
HOST = CPU()


def _aligned(nbytes: int) -> int:
    return (nbytes + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


@dataclass(frozen=True, slots=True)
class ArenaEntry:
    """Where a slot stands in the arena, and the first and last step that use it."""

    slot: int
    offset: int
    nbytes: int
    first: int
    last: int


def layout_arena(
    slots: Sequence[Slot], uses: Mapping[int, tuple[int, int]], env: Mapping[str, int]
) -> tuple[list[ArenaEntry], int]:
    """The places of the arena slots and the arena's size: first fit, larger slots first, no overlap
    in time and space.
    """
    wanted = [(_nbytes(s, env), s.number) for s in slots if s.kind == "arena" and s.number in uses]
    placed: list[ArenaEntry] = []
    for nbytes, number in sorted(wanted, key=lambda w: (-w[0], w[1])):
        first, last = uses[number]
        size = _aligned(max(nbytes, 1))
        offset = 0
        for other in sorted(
            (p for p in placed if p.first <= last and first <= p.last), key=lambda p: p.offset
        ):
            if offset + size <= other.offset:
                break
            offset = max(offset, other.offset + _aligned(max(other.nbytes, 1)))
        placed.append(ArenaEntry(number, offset, nbytes, first, last))
    total = max((p.offset + _aligned(max(p.nbytes, 1)) for p in placed), default=0)
    return placed, total


def _nbytes(slot: Slot, env: Mapping[str, int]) -> int:
    """The bytes of ``slot``; none where its sizes are those of a branch that refuses to run."""
    try:
        return max(slot.nbytes.evaluate(env), 0)
    except ZeroDivisionError:
        return 0


def slot_uses(compiled: Compiled) -> dict[int, tuple[int, int]]:
    """The first and the last step that use each slot; see ``compiler.lifetimes``."""
    return lifetimes.slot_uses(compiled.plan)


def stage_slots(compiled: Compiled) -> list[list[Slot]]:
    """The slots of arenas and outputs that each stage of the plan is the first to use: their sizes
    are known there, and not before.
    """
    plan = compiled.plan
    uses = slot_uses(compiled)
    found: list[list[Slot]] = [[] for _ in plan.stages]
    for slot in plan.slots:
        if slot.kind == "output" or (slot.kind == "arena" and slot.number in uses):
            first = uses[slot.number][0] if slot.number in uses else len(plan.steps)
            found[bisect_right(plan.cuts, first)].append(slot)
    return found


def input_slots(plan: Plan) -> list[int]:
    """The slot of each input; of those that no step reads, one behind all slots."""
    known = {slot.index: slot.number for slot in plan.slots if slot.kind == "input"}
    return [known.get(n, len(plan.slots)) for n in range(len(plan.facts.inputs))]


def output_shape(output: OutputFacts, env: Mapping[str, int]) -> tuple[tuple[int, ...], int]:
    """The shape of ``output``, and its bytes.

    Raises:
        ShapeError: ML223, more bytes than 63 bits can count; sizes of 0 count as 1, as strides do.
    """
    shape = tuple(size.evaluate(env) for size in output.shape)
    nbytes = spread = output.dtype.size_in_bytes
    for size in shape:
        nbytes *= size
        spread *= size or 1
    if spread > LARGEST:
        what = f"an output of {output.dtype.name} {list(shape)}"
        raise past_counting(what, env, output.at)
    return shape, nbytes


def allocate(runtime: Any, nbytes: int) -> Any:
    """Memory for ``nbytes`` that is given back when nobody holds it; big blocks are on huge pages.

    Raises:
        ExecutionError: ML654, there is not enough memory.
    """
    few = nbytes <= LARGEST
    made = runtime.lib.mx_alloc(max(nbytes, 1)) if few else runtime.ffi.NULL
    if made == runtime.ffi.NULL:
        raise ExecutionError(
            "ML654",
            f"there is no memory for {nbytes / 2**20:.1f} MiB of intermediate values",
            fix="use smaller batches, or free some memory",
        )
    return runtime.ffi.gc(made, runtime.lib.mx_free, nbytes)


def is_of_runtime(device: Device) -> bool:
    """Whether intermediate values of ``device`` lie in memory of the runtime library: those of the
    host do, on huge pages, which tensors do not need."""
    return device is HOST


def room_on(device: Device, runtime: Any, nbytes: int) -> tuple[object, int]:
    """Memory for ``nbytes`` on ``device``, and its address.

    Raises:
        ExecutionError: ML654, the host has not enough.
        DeviceError: ML403, another device has not enough.
    """
    if is_of_runtime(device):
        memory = allocate(runtime, nbytes)
        return memory, int(runtime.ffi.cast("uintptr_t", memory))
    block = block_on(device.default_stream, nbytes)
    return block, block.address


def add_buffers(plan: Plan, inputs: Sequence[Tensor], made: dict[int, Tensor]) -> None:
    """Add to ``made``, the outputs by their numbers, those that are buffers: the tensor of an input
    or of another output."""
    for number, alias in plan.aliases.items():
        slot = plan.slots[alias]
        made[number] = inputs[slot.index] if slot.kind == "input" else made[slot.index]
