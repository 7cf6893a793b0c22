"""A plan bound to sizes: memory laid out, dims written down, steps ready for the C executor.

``Binding`` is made once per tuple of sizes and kept; ``Frame`` is the memory one execution uses, so
that two threads can
run a model at once.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from maxlab.compiler import Compiled
from maxlab.compiler.facts import OutputFacts
from maxlab.compiler.plan import Launch, Plan, Slot, Step
from maxlab.driver import Device, Tensor
from maxlab.driver.virtual import VirtualBlock, memory_of
from maxlab.engine.launching import host_launch
from maxlab.engine.size_rules import past_counting
from maxlab.errors import ExecutionError
from maxlab.ir.dims import LARGEST

ALIGNMENT = 64
ON_CALLER = 1
"""The kind of a step that only the thread that calls the executor may run (mx_abi.h)."""
CONTROL = {"branch": 2, "jump": 3, "exchange": 4}
"""The kinds of steps that say where to go on, or which memory the next ones have."""


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
    """The first and the last step that use each slot. The size of a dim is used to the end of the
    stage that computes it, and what comes from before a loop, or is read behind it, through all of
    its turns.
    """
    found: dict[int, tuple[int, int]] = {}
    plan = compiled.plan
    for number, step in enumerate(plan.steps):
        for slot in (*step.pointers, *step.keeps):
            first, _ = found.get(slot, (number, number))
            found[slot] = (first, number)
        if step.binds is not None:
            end = next(cut for cut in plan.cuts if cut > number)
            first, last = found[step.binds.slot]
            found[step.binds.slot] = first, max(last, end - 1)
    for loop in plan.loops:  # inner ones come first
        for slot, (first, last) in found.items():
            if first < loop.start <= last < loop.stop:
                found[slot] = first, loop.stop - 1
            elif loop.start <= first < loop.stop <= last:
                found[slot] = loop.start, last
    return found


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


def room_on(device: Device, runtime: Any, nbytes: int) -> tuple[Any, int]:
    """Memory for ``nbytes`` on a CPU ``device``, and its address.

    Raises:
        ExecutionError: ML654, the host has not enough.
        DeviceError: ML403, another CPU has not enough.
    """
    own = memory_of(device)
    if own is not None:
        block = VirtualBlock(own, nbytes)
        return block, block.address
    memory = allocate(runtime, nbytes)
    return memory, int(runtime.ffi.cast("uintptr_t", memory))


def add_buffers(plan: Plan, inputs: Sequence[Tensor], made: dict[int, Tensor]) -> None:
    """Add to ``made``, the outputs by their numbers, those that are buffers: the tensor of an input
    or of another output."""
    for number, alias in plan.aliases.items():
        slot = plan.slots[alias]
        made[number] = inputs[slot.index] if slot.kind == "input" else made[slot.index]


def alias_place(slot: Slot, inputs: int) -> int:
    """Where the tensor of an output that is the buffer ``slot`` stands among the tensors of the
    inputs and outputs."""
    return slot.index if slot.kind == "input" else inputs + slot.index


class Frame:
    """The memory of one execution: arena, pointer table, the pointers of inputs and outputs, and
    where an error is written."""

    __slots__ = ("arena", "argp", "info", "io", "keep", "pointers")

    def __init__(self, ffi: Any, arena: Any, table: list[int], io_count: int) -> None:
        self.arena = arena
        self.keep = ffi.new("uintptr_t[]", table or [0])
        self.argp = ffi.cast("void **", self.keep)
        self.io = ffi.new("uintptr_t[]", max(io_count, 1))
        self.pointers = ffi.cast("void *const *", self.io)
        self.info = ffi.new("i64[6]")


def refused_steps(steps: Sequence[Step], env: Mapping[str, int]) -> frozenset[int]:
    """The numbers of the steps that cannot run for these sizes: those behind a ``refuse`` whose
    guard does not hold."""
    found: set[int] = set()
    for step in steps:
        if step.guard is not None and step.number not in found and not step.guard.holds(env):
            found.update(range(step.number + 1, step.number + step.jump))
    return frozenset(found)


def _exchanged(own: int, steps: Sequence[Step], starts: Sequence[int]) -> list[int]:
    """What the executor is told of an ``exchange``: how many pointers it takes and where each is,
    how many it sets and, of each, where it is and which of those taken it becomes.

    Args:
        own: The place of the step in its table.
        steps: All steps of that.
        starts: Where the pointers of each begin.
    """
    step = steps[own]
    assert step.exchange is not None
    taken = dict(zip(step.pointers, range(starts[own], starts[own + 1]), strict=True))
    moves = dict(step.exchange.moves)
    numbers = {slot: n for n, slot in enumerate(moves)}
    listed = [len(moves), *(taken[source] for source in moves.values())]
    places: list[int] = []
    for at in (*step.exchange.steps, *step.exchange.settling):
        other = steps[own + at]
        first = len(other.pointers) // 2 if at in step.exchange.settling else 0
        for n, slot in enumerate(other.pointers[first:], starts[own + at] + first):
            if slot in numbers:
                places += (n, numbers[slot])
    return [*listed, len(places) // 2, *places]


_NOTHING = Launch((), 0, 1, 0)


class HostSteps:
    """Steps that the C executor walks. ``refused`` are the numbers of those that cannot run."""

    def __init__(
        self,
        steps: Sequence[Step],
        compiled: Compiled,
        env: Mapping[str, int],
        threads: int,
        runtime: Any,
        builtins: Mapping[str, int],
        refused: frozenset[int] | None = None,
    ) -> None:
        ffi = runtime.ffi
        rows: list[tuple[Any, int, int, int, int, int, int]] = []
        dims: list[int] = []
        self.pointers: list[int] = []
        self.scratch = 64
        self.launches: list[Launch] = []
        self._held: list[Any] = []
        self.env = env
        self.is_program = any(step.kind in CONTROL for step in steps)
        refused = refused_steps(steps, env) if refused is None else refused
        starts = [0, *itertools.accumulate(len(step.pointers) for step in steps)]
        for step in steps:
            idle = step.number in refused or (step.guard is not None and step.guard.holds(env))
            launch = (
                Launch((), 0, 1, 0) if idle else host_launch(step.launch, env, threads, runtime)
            )
            self.launches.append(launch)
            if step.kind in CONTROL:
                kind = CONTROL[step.kind]
                rows.append((ffi.NULL, len(self.pointers), len(dims), step.jump, 1, kind, 0))
                if step.exchange is not None:
                    listed = _exchanged(len(rows) - 1, steps, starts)
                    dims.extend(listed)
                    self.scratch = max(self.scratch, listed[0] * 8)
                self.pointers.extend(step.pointers)
                continue
            address = builtins[step.builtin] if step.builtin else compiled.address_of(step, env)
            function = ffi.cast("mx_fn", address)
            kind = ON_CALLER if step.call is not None else 0
            if compiled.guard is not None and step.arguments and launch.extent:
                function = compiled.guard.entry(step, env, launch, threads)
                kind = ON_CALLER
                self._held.append(function)
            if compiled.log is not None and step.printed is not None and step.printed.logs:
                dims.append(compiled.log.address(step.number))  # the word before the sizes
            place = len(self.pointers), len(dims)
            piece = 0 if kind == ON_CALLER else launch.piece  # Python is called once
            rows.append((function, *place, launch.extent, launch.grain, kind, piece))
            if launch.extent:
                sizes = [size.evaluate(env) for size in step.sizes]
                largest = max((launch.extent, *sizes, *launch.extra))
                if largest > LARGEST:
                    op = compiled.plan.facts.ops.get(step.nodes[0]) if step.nodes else None
                    what = (
                        f"a size of {step.id}, which computes {', '.join(step.nodes) or step.kind}"
                    )
                    raise past_counting(what, env, op.at if op is not None else None)
                dims.extend(sizes)
                dims.extend(launch.extra)
            self.pointers.extend(step.pointers)
            self.scratch = max(self.scratch, launch.scratch)
        self.walked = list(steps)
        self.steps = ffi.new("mx_step[]", rows) if rows else ffi.NULL
        self.dims = ffi.new("i64[]", dims or [0])


class Binding:
    """A plan for one tuple of sizes."""

    def __init__(
        self,
        compiled: Compiled,
        env: dict[str, int],
        addresses: Mapping[int, int],
        threads: int,
        runtime: Any,
        builtins: Mapping[str, int],
    ) -> None:
        plan = compiled.plan
        ffi = self.ffi = runtime.ffi
        self._runtime = runtime
        self.env = env
        self.threads = threads
        host = HostSteps(plan.steps, compiled, env, threads, runtime, builtins)
        self.launches = host.launches
        self.steps = host.steps
        self._host = host  # the functions of Python that its steps call
        self.nsteps = len(host.walked)
        self.is_program = host.is_program
        self.dims = host.dims
        self.scratch = host.scratch
        pointers = host.pointers
        self.arena, self.arena_nbytes = layout_arena(plan.slots, slot_uses(compiled), env)
        self._offsets = {entry.slot: entry.offset for entry in self.arena}
        self._pointers = pointers
        self._addresses = addresses
        patches: list[tuple[int, int]] = []
        inputs = len(plan.facts.inputs)
        for position, number in enumerate(pointers):
            slot = plan.slots[number]
            if slot.kind == "input":
                patches.append((position, slot.index))
            elif slot.kind == "output":
                patches.append((position, inputs + slot.index))
        self.npatch = len(patches)
        self.patches = ffi.new("mx_patch[]", patches) if patches else ffi.NULL
        self.io_count = inputs + len(plan.outputs)
        self.outputs: list[tuple[Any, tuple[int, ...], int]] = []
        for output in plan.facts.outputs:
            alias = plan.aliases.get(len(self.outputs))
            if alias is not None:
                self.outputs.append((None, (), alias_place(plan.slots[alias], inputs)))
                continue
            shape, total = output_shape(output, env)
            self.outputs.append((output.dtype, shape, total))
        self.free: list[Frame] = []
        self.held: object = None  # data that only this binding needs any more

    def frame(self) -> Frame:
        """A frame that nobody uses."""
        try:
            return self.free.pop()
        except IndexError:
            return self._new_frame()

    def _new_frame(self) -> Frame:
        ffi = self.ffi
        arena = allocate(self._runtime, self.arena_nbytes)
        base = int(ffi.cast("uintptr_t", arena))
        table: list[int] = []
        for number in self._pointers:
            offset = self._offsets.get(number)
            table.append(base + offset if offset is not None else self._addresses.get(number, 0))
        return Frame(ffi, arena, table, self.io_count)


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
