"""A plan bound to sizes: memory laid out, dims written down, steps ready for the C executor.

``Binding`` is made once per tuple of sizes and kept; ``Frame`` is the memory one execution uses, so
that two threads can
run a model at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from maxlab.compiler import Compiled
from maxlab.compiler.plan import Launch, Slot, Step
from maxlab.errors import ExecutionError, InputError
from maxlab.ir import Op, Shape, SymbolicDim, TensorType, Value
from maxlab.ir.poly import Poly
from maxlab.opset import Check, checks_of

ALIGNMENT = 64
ON_CALLER = 1
"""The kind of a step that only the thread that calls the executor may run (mx_abi.h)."""


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
    wanted = [
        (s.nbytes.evaluate(env), s.number) for s in slots if s.kind == "arena" and s.number in uses
    ]
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


def slot_uses(compiled: Compiled) -> dict[int, tuple[int, int]]:
    """The first and the last step that use each slot."""
    found: dict[int, tuple[int, int]] = {}
    for number, step in enumerate(compiled.plan.steps):
        for slot in step.pointers:
            first, _ = found.get(slot, (number, number))
            found[slot] = (first, number)
    return found


class SizeRules:
    """How the sizes of the inputs give the sizes of all symbols, and what must hold of them.

    Symbols come from input dims that are plain names, then from rebinds, which name what was an
    expression. All other input dims and all checks of ops are conditions.
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
        self.definitions: list[tuple[str, Poly, Op]] = []
        self.checks: list[tuple[Op, Check]] = []
        for op, check in checks_of(function):
            symbol = _plain_symbol(check)
            if op.name == "mo.rebind" and symbol is not None and symbol not in known:
                known[symbol] = None
                self.definitions.append((symbol, check.left, op))
            else:
                self.checks.append((op, check))
        for _, _, dim in self.input_checks:
            for parameter in dim.parameters:
                if parameter.name not in known:
                    raise InputError(
                        "ML601",
                        f"the dim {parameter.name!r} of the input dim {dim} has no size: no input "
                        "has it alone",
                        fix="name the dim in an input type, or name the whole expression",
                    )
        self.differences: dict[Poly, Op] = {}  # dims that could come out negative or undefined
        for op in function.ops:
            for result in op.results:
                self._known(result, known, op)
                if isinstance(result.type, TensorType):
                    for poly in result.type.sizes:
                        if any(
                            scale < 0 or any(not isinstance(atom, str) for atom, _ in monomial)
                            for monomial, scale in poly.terms
                        ):
                            self.differences.setdefault(poly, op)
        self.inputs = [v.tensor_type for v in function.inputs]
        self.input_names = [v.name for v in function.inputs]

    def _known(self, value: Value, known: Mapping[str, None], op: Op) -> None:
        if not isinstance(value.type, TensorType):
            return
        for name in (name for size in value.type.sizes for name in size.symbols()):
            if name not in known:
                raise InputError(
                    "ML601",
                    f"the dim {name!r} of {op.name.removeprefix('mo.')} has no size: "
                    "no input has it",
                    at=op.loc,
                    fix="name the dim in an input type, or bind it with rebind",
                )

    def resolve(self, shapes: Sequence[tuple[int, ...]]) -> dict[str, int]:
        """The size of every symbol for inputs of ``shapes``, whose ranks are right.

        Raises:
            InputError: ML602, a size that contradicts the input types; ML603, a condition that an
                op states.
        """
        env: dict[str, int] = {}
        for name, number, axis in self.names:
            env[name] = shapes[number][axis]
        for number, axis, dim in self.input_checks:
            expected = self._evaluate(dim.poly, env, None)
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
        for name, poly, op in self.definitions:
            env[name] = self._evaluate(poly, env, op)
        for poly, op in self.differences.items():
            size = self._evaluate(poly, env, op)
            if size < 0:
                raise InputError(
                    "ML623",
                    f"{op.name.removeprefix('mo.')} would make a dim of the negative size {size}: "
                    f"{poly} ({_sizes(env)})",
                    at=op.loc,
                    fix="pass larger inputs",
                )
        for op, check in self.checks:
            left, right = (self._evaluate(poly, env, op) for poly in (check.left, check.right))
            if not check.compare(left, right):
                sizes = _sizes(env)
                raise InputError(
                    "ML603",
                    f"{check.message}: {left} {check.relation} {right} does not hold"
                    + (f" ({sizes})" if sizes else ""),
                    at=op.loc,
                    fix="pass inputs of sizes for which it holds",
                )
        return env

    @staticmethod
    def _evaluate(poly: Poly, env: Mapping[str, int], op: Op | None) -> int:
        try:
            return poly.evaluate(env)
        except ZeroDivisionError:
            raise InputError(
                "ML624",
                f"the size {poly} is a division by zero ({_sizes(env)})",
                at=op.loc if op is not None else None,
                fix="pass larger inputs",
            ) from None


def _sizes(env: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {size}" for name, size in env.items())


def _plain_symbol(check: Check) -> str | None:
    poly = check.right
    names = poly.symbols()
    if check.relation == "==" and len(names) == 1 and str(poly) == names[0]:
        return names[0]
    return None


def allocate(runtime: Any, nbytes: int) -> Any:
    """Memory for ``nbytes`` that is given back when nobody holds it; big blocks are on huge pages.

    Raises:
        ExecutionError: ML654, there is not enough memory.
    """
    made = runtime.lib.mx_alloc(max(nbytes, 1))
    if made == runtime.ffi.NULL:
        raise ExecutionError(
            "ML654",
            f"there is no memory for {nbytes / 2**20:.1f} MiB of intermediate values",
            fix="use smaller batches, or free some memory",
        )
    return runtime.ffi.gc(made, runtime.lib.mx_free, nbytes)


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


class HostSteps:
    """Steps that the C executor walks."""

    def __init__(
        self,
        steps: Sequence[Step],
        compiled: Compiled,
        env: Mapping[str, int],
        threads: int,
        runtime: Any,
        builtins: Mapping[str, int],
    ) -> None:
        ffi = runtime.ffi
        rows: list[tuple[Any, int, int, int, int, int]] = []
        dims: list[int] = []
        self.pointers: list[int] = []
        self.scratch = 64
        self.launches: list[Launch] = []
        for step in steps:
            launch = step.launch(env, threads, runtime)
            self.launches.append(launch)
            address = (
                builtins[step.builtin] if step.builtin else compiled.kernels[step.number].address
            )
            function = ffi.cast("mx_fn", address)
            kind = ON_CALLER if step.call is not None else 0
            rows.append(
                (function, len(self.pointers), len(dims), launch.extent, launch.grain, kind)
            )
            dims.extend(size.evaluate(env) for size in step.sizes)
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
        self.nsteps = len(host.walked)
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
            typed = value.tensor_type
            shape = tuple(d.evaluate(env) for d in Shape(typed.shape))
            total = typed.dtype.size_in_bytes
            for size in shape:
                total *= size
            self.outputs.append((typed.dtype, shape, total))
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


def out_of_range(compiled: Compiled, node: str, index: int, size: int) -> ExecutionError:
    """The error for an index of the op ``node`` that a kernel refused."""
    op = compiled.function.find(node)
    return ExecutionError(
        "ML652",
        f"gather: the index {index} is out of range for a dim of size {size}",
        at=op.loc if op is not None else None,
        fix=f"indices go from {-size} to {size - 1}",
    )
