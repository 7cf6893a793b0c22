"""The memory of a plan bound to sizes: places of slots in arenas, and shapes of outputs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from maxlab.compiler import Compiled, lifetimes
from maxlab.compiler.facts import OutputFacts
from maxlab.compiler.plan import Plan, Slot
from maxlab.driver import CPU, Device, Tensor
from maxlab.driver.base import block_on
from maxlab.engine.size_rules import past_counting
from maxlab.errors import ExecutionError
from maxlab.ir.dims import LARGEST
from maxlab.ir.poly import Poly
from maxlab.toolchain import runtime

ALIGNMENT = 64
Sizes: TypeAlias = tuple[tuple[int, int], ...]
"""Bytes of slots, each with the number of its slot."""
MOST_LAYOUTS = 16
"""Layouts that are kept for sizes that come again."""
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
    slots: Sequence[Slot],
    uses: Mapping[int, tuple[int, int]],
    env: Mapping[str, int],
    known_layouts: dict[Sizes, tuple[list[ArenaEntry], int]] | None = None,
) -> tuple[list[ArenaEntry], int]:
    """The places of the arena slots and the arena's size: first fit, larger slots first, no overlap
    in time and space.

    Args:
        slots: Some slots of a plan; those outside of the arena are passed over.
        uses: The first and the last step that use each slot.
        env: The sizes of the dims.
        known_layouts: Results for the same plan by the bytes of its slots, which many sizes share:
            one is taken from here, or added, in the place of the oldest where there are many.
    """
    known: dict[Poly, int] = {}
    wanted = [
        (_nbytes(s, env, known), s.number) for s in slots if s.kind == "arena" and s.number in uses
    ]
    if known_layouts is not None:
        key = tuple(wanted)
        found = known_layouts.get(key)
        if found is None:
            if len(known_layouts) >= MOST_LAYOUTS:
                del known_layouts[next(iter(known_layouts))]
            found = known_layouts[key] = _first_fit(wanted, uses)
        return found
    return _first_fit(wanted, uses)


def _first_fit(
    wanted: Sequence[tuple[int, int]], uses: Mapping[int, tuple[int, int]]
) -> tuple[list[ArenaEntry], int]:
    order = sorted(wanted, key=lambda w: (-w[0], w[1]))
    steps = [uses[number] for _, number in order]
    library = runtime()
    ffi = library.ffi
    sizes = ffi.new("i64[]", [_aligned(max(nbytes, 1)) for nbytes, _ in order])
    first = ffi.new("i64[]", [begin for begin, _ in steps])
    last = ffi.new("i64[]", [end for _, end in steps])
    offsets = ffi.new("i64[]", len(order))
    total = library.lib.mx_first_fit(len(order), sizes, first, last, offsets)
    if total < 0:
        raise MemoryError(f"places of {len(order)} slots")
    entries = [
        ArenaEntry(number, offset, nbytes, *used)
        for (nbytes, number), offset, used in zip(
            order, ffi.unpack(offsets, len(order)), steps, strict=True
        )
    ]
    return entries, total


def _nbytes(slot: Slot, env: Mapping[str, int], known: dict[Poly, int]) -> int:
    """The bytes of ``slot``, which are ``known`` where another one is as large; none where its
    sizes are those of a branch that refuses to run."""
    found = known.get(slot.nbytes)
    if found is None:
        try:
            found = max(slot.nbytes.evaluate(env), 0)
        except ZeroDivisionError:
            found = 0
        known[slot.nbytes] = found
    return found


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
