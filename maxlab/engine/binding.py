"""A plan bound to sizes: memory laid out, dims written down, steps ready for the C executor.

``Binding`` is made once per tuple of sizes and kept; ``Frame`` is the memory one execution uses, so
that two threads can
run a model at once.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from maxlab.compiler import Compiled
from maxlab.compiler.guards import Guard, evaluated, may_fail
from maxlab.compiler.plan import Launch, Plan, Slot, Step
from maxlab.driver import Device, Tensor
from maxlab.driver.virtual import VirtualBlock, memory_of
from maxlab.engine.launching import host_launch
from maxlab.errors import ExecutionError, InputError, Location, ShapeError
from maxlab.ir import Dim, Op, StaticDim, SymbolicDim, TensorType, Value
from maxlab.ir.dims import LARGEST
from maxlab.ir.poly import Poly
from maxlab.opset import checks_of, fault_of
from maxlab.opset.dynamic import definitions, named_dims, plain_symbol, region_definitions

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


@dataclass(slots=True)
class _Conditions:
    """What the sizes that are new in a stage of the plan give, and what must hold of them."""

    definitions: list[tuple[str, Poly, Op]] = field(default_factory=list)
    guard: Guard = field(default_factory=Guard)
    counts: dict[Poly, Op] = field(default_factory=dict)
    """The dims that kernels compute in int64, which must hold them, and an op that has each."""
    binds: list[tuple[Op, str]] = field(default_factory=list)
    """What is bound behind the stage, and the name of the dim that it defines; empty where it
    asserts a size."""


class SizeRules:
    """How the sizes of the inputs give the sizes of all symbols, and what must hold of them.

    Symbols come from input dims that are plain names, then from those that have one more symbol, as
    a factor of a number: ``2 * n`` gives ``n``. Others come from rebinds, which name what was an
    expression, and from ``bind_dim`` ops, whose sizes are computed between the stages of the plan.
    All other input dims and all checks of ops are conditions. A condition on a dim that is computed
    is tested as soon as the dim is known.
    """

    def __init__(self, compiled: Compiled) -> None:
        function = compiled.source
        known: dict[str, None] = {}
        self.names: list[tuple[str, int, int]] = []  # symbol, input, axis
        self.input_checks: list[tuple[int, int, Any]] = []
        for number, value in enumerate(function.inputs):
            typed = value.tensor_type
            for axis, dim in enumerate(typed.shape):
                if isinstance(dim, SymbolicDim) and dim.name not in known:
                    known[dim.name] = None
                    self.names.append((dim.name, number, axis))
                else:
                    self.input_checks.append((number, axis, dim))
        defined = definitions(function)
        self.solved = self._solve(known, defined)
        plan = compiled.plan
        ops = {op.id: op for op in function.ops}
        self.stages = [_Conditions() for _ in plan.stages]
        names = {op.id: name for name, (op, size) in defined.items() if size is None}
        late: dict[str, int] = {}  # the stage in which a computed dim is known
        for step in plan.steps:
            if step.binds is not None:
                stage = bisect_right(plan.cuts, step.number)
                name = names.get(step.binds.op, "")
                self.stages[stage].binds.append((ops[step.binds.op], name))
                if name:
                    late[name] = stage + 1

        def conditions(*sizes: Poly) -> _Conditions:
            stages = (late.get(name, 0) for size in sizes for name in size.symbols())
            return self.stages[max(stages, default=0)]

        for op, check in checks_of(function):
            symbol = plain_symbol(check)
            if symbol is not None and defined.get(symbol) == (op, check.left):
                stage = max((late.get(name, 0) for name in check.left.symbols()), default=0)
                self.stages[stage].definitions.append((symbol, check.left, op))
                if symbol not in known and stage:
                    late[symbol] = stage
                known[symbol] = None
            else:
                conditions(check.left, check.right).guard.checks.append((op, check))
        for _, _, dim in self.input_checks:
            for parameter in dim.parameters:
                if parameter.name not in known or parameter.name in late:
                    raise InputError(
                        "ML601",
                        f"the dim {parameter.name!r} of the input dim {dim} has no size: it does "
                        "not follow from the sizes of the inputs",
                        fix="name the dim in an input type, or name the whole expression",
                    )
        for op in function.ops:
            if op.id in names:
                known[names[op.id]] = None
            self._known(op, known)
            for result in op.results:
                if isinstance(result.type, TensorType):
                    for poly in result.type.sizes:
                        if may_fail(poly):
                            conditions(poly).guard.differences.setdefault(poly, op)
        for op in function.walk():
            for poly in _computed(op):
                if poly not in conditions(poly).counts and known.keys() >= set(poly.symbols()):
                    conditions(poly).counts[poly] = op
        self.inputs = [v.tensor_type for v in function.inputs]
        self.input_names = [v.name for v in function.inputs]

    def _solve(
        self, known: dict[str, None], defined: Mapping[str, object]
    ) -> list[tuple[str, int, int, Poly, int]]:
        """How symbols that no input has alone follow from input dims such as ``2 * n + m``: symbol,
        input, axis, what is subtracted from the size, and what that is divided by. ``known``, the
        symbols whose sizes other inputs give, gets them."""
        found: list[tuple[str, int, int, Poly, int]] = []
        before = -1
        while len(found) > before:
            before = len(found)
            for number, axis, dim in self.input_checks:
                unknown = [name for name in dim.poly.symbols() if name not in known]
                if len(unknown) != 1 or unknown[0] in defined:
                    continue
                (name,) = unknown
                factor = dim.poly.coefficient(name)
                if factor is not None and factor.is_constant and factor.value:
                    rest = dim.poly - factor * Poly.symbol(name)
                    found.append((name, number, axis, rest, factor.value))
                    known[name] = None
        return found

    def _known(self, op: Op, known: Mapping[str, None]) -> None:
        own = {n for region in op.regions for n in region_definitions(region, known)}
        types = [r.type for r in op.results if isinstance(r.type, TensorType)]
        own -= {name for type in types for size in type.sizes for name in size.symbols()}
        for name in sorted(named_dims(op) - own):
            if name not in known:
                raise InputError(
                    "ML601",
                    f"the dim {name!r} of {op.name.removeprefix('mo.')} has no size: "
                    "no input has it",
                    at=op.loc,
                    fix="name the dim in an input type, or bind it with rebind",
                )

    def resolve(self, shapes: Sequence[tuple[int, ...]]) -> dict[str, int]:
        """The size of every symbol for inputs of ``shapes``, whose ranks are right; those that are
        computed are missing.

        Raises:
            InputError: ML602, a size that contradicts the input types; ML603, a condition that an
                op states.
            ShapeError: ML223, a dim of more than 63 bits.
        """
        env: dict[str, int] = {}
        for name, number, axis in self.names:
            env[name] = shapes[number][axis]
        for name, number, axis, rest, factor in self.solved:
            # Where the division leaves a rest, the check of the same dim fails.
            env[name] = (shapes[number][axis] - evaluated(rest, env, None)) // factor
            if env[name] < 0:
                raise InputError(
                    "ML602",
                    f"input {number} ({self.input_names[number]}) has the size "
                    f"{shapes[number][axis]} at axis {axis}, and {name!r} would be {env[name]}: "
                    f"expected {self.inputs[number]}, got the shape {list(shapes[number])}",
                    fix="pass a larger input; no dim is negative",
                )
        for number, axis, dim in self.input_checks:
            expected = evaluated(dim.poly, env, None)
            found = shapes[number][axis]
            if expected != found:
                static = isinstance(dim, SymbolicDim)
                word = f"{dim.name!r} is {expected} elsewhere" if static else f"the type says {dim}"
                if not static and dim.poly.symbols():
                    word += f" = {expected}"
                raise InputError(
                    "ML602",
                    f"input {number} ({self.input_names[number]}) has the size {found} at axis "
                    f"{axis}, but {word}: expected {self.inputs[number]}, got the shape "
                    f"{list(shapes[number])}",
                    fix="a named dim has one size in a call; sizes are never broadcast at run time",
                )
        self._test(self.stages[0], env)
        return env

    def bind(self, env: Mapping[str, int], stage: int, sizes: Sequence[int]) -> dict[str, int]:
        """The size of every symbol behind ``stage``, where ``sizes`` were computed.

        Raises:
            InputError: ML603, a condition that an op states.
            ExecutionError: ML726, a dim has another size already; ML727, a size is negative.
        """
        made = dict(env)
        for (op, name), size in zip(self.stages[stage].binds, sizes, strict=True):
            dim, what = op.attrs["dim"], op.attrs["what"]
            if size < 0:
                raise ExecutionError(
                    "ML727",
                    f"{what}: the dim {str(dim)!r} would have the size {size}"
                    + (f": {op.attrs['negative']}" if op.attrs["negative"] else ""),
                    at=op.loc,
                    fix="no dim is negative; look at what the size is computed from",
                )
            if name:
                made[name] = size
                continue
            expected = evaluated(dim.poly, made, op)
            if size != expected:
                named = f"the dim {str(dim)!r}" if dim.poly.symbols() else "out_dim"
                raise ExecutionError(
                    "ML726",
                    f"{what}: {named} is {expected}, got {size}",
                    at=op.loc,
                    fix="give out_dim a name of its own, or pass inputs for which it holds",
                )
        self._test(self.stages[stage + 1], made)
        return made

    def _test(self, stage: _Conditions, env: dict[str, int]) -> None:
        for name, poly, op in stage.definitions:
            env[name] = evaluated(poly, env, op)
        stage.guard.test(env)
        for poly, op in stage.counts.items():
            try:
                size = poly.evaluate(env)
            except ZeroDivisionError:
                continue  # of a branch that refuses to run
            if not -LARGEST <= size <= LARGEST:
                what = f"the dim {poly} of {op.name.removeprefix('mo.')}, {size},"
                raise past_counting(what, env, op.loc)


def _computed(op: Op) -> Iterator[Poly]:
    """The dims of the results and attributes of ``op`` that are no plain names and no numbers."""
    dims = [dim for r in op.results if isinstance(r.type, TensorType) for dim in r.type.shape]
    for attr in op.attrs.values():
        if isinstance(attr, Dim):
            dims.append(attr)
        elif isinstance(attr, (list, tuple)):
            dims += [dim for dim in attr if isinstance(dim, Dim)]
    for dim in dims:
        if not isinstance(dim, (StaticDim, SymbolicDim)):
            yield dim.poly


def past_counting(what: str, env: Mapping[str, int], at: Location | None) -> ShapeError:
    """The error for ``what``, a number that these sizes make larger than 63 bits."""
    return ShapeError(
        "ML223",
        f"{what} is larger than 63 bits can count",
        at=at,
        why=[f"{name} is {size}" for name, size in sorted(env.items())],
        fix="pass smaller inputs; a size counts too where another one is 0",
    )


def output_shape(value: Value, env: Mapping[str, int]) -> tuple[tuple[int, ...], int]:
    """The shape of the output ``value``, and its bytes.

    Raises:
        ShapeError: ML223, more bytes than 63 bits can count; sizes of 0 count as 1, as strides do.
    """
    typed = value.tensor_type
    shape = tuple(dim.evaluate(env) for dim in typed.shape)
    nbytes = spread = typed.dtype.size_in_bytes
    for size in shape:
        nbytes *= size
        spread *= size or 1
    if spread > LARGEST:
        at = value.op.loc if value.op is not None else None
        raise past_counting(f"an output of {typed.dtype.name} {list(shape)}", env, at)
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
                    op = compiled.find(step.nodes[0]) if step.nodes else None
                    what = (
                        f"a size of {step.id}, which computes {', '.join(step.nodes) or step.kind}"
                    )
                    raise past_counting(what, env, op.loc if op is not None else None)
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
        inputs = len(compiled.source.inputs)
        for position, number in enumerate(pointers):
            slot = plan.slots[number]
            if slot.kind == "input":
                patches.append((position, slot.index))
            elif slot.kind == "output":
                patches.append((position, inputs + slot.index))
        self.npatch = len(patches)
        self.patches = ffi.new("mx_patch[]", patches) if patches else ffi.NULL
        self.io_count = inputs + len(plan.outputs)
        output = compiled.function.output
        assert output is not None
        self.outputs: list[tuple[Any, tuple[int, ...], int]] = []
        for value in output.operands:
            alias = plan.aliases.get(len(self.outputs))
            if alias is not None:
                self.outputs.append((None, (), alias_place(plan.slots[alias], inputs)))
                continue
            shape, total = output_shape(value, env)
            self.outputs.append((value.tensor_type.dtype, shape, total))
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


def out_of_range(compiled: Compiled, node: str, value: int, limit: int) -> ExecutionError:
    """The error for a number that a kernel of the op ``node`` refused."""
    op = compiled.find(node)
    if op is not None:
        return fault_of(op, value, limit)
    return ExecutionError(  # a kernel that the user wrote anew names no op
        "ML652",
        f"the index {value} is out of range for a dim of size {limit}",
        fix=f"indices go from {-limit} to {limit - 1}",
    )
