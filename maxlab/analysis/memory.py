"""Where a compiled model keeps its values: the arena slot by slot, and what lies beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from maxlab.analysis.target import model_behind
from maxlab.compiler.plan import Slot
from maxlab.engine import Model
from maxlab.engine.layout import layout_arena, slot_uses, stage_slots
from maxlab.engine.profile import Profile
from maxlab.engine.times import size_text
from maxlab.errors import ArgumentError, ArgumentTypeError
from maxlab.habits import fitting
from maxlab.ir import Call, DeviceRef
from maxlab.opset import is_call
from maxlab.tabular import Field, Tabular, aligned


@dataclass(frozen=True, slots=True)
class MemorySlot:
    """A piece of memory and the steps that need it.

    Attributes:
        id: The buffer, ``"b3"``.
        kind: ``"arena"`` for intermediate values; ``"input"``, ``"output"``, ``"weight"``,
            ``"constant"`` or ``"packed"`` for what lies outside of the arena.
        nbytes: Its size.
        offset: Where it begins in the arena; None outside of it. The arenas of several devices
            are counted one behind the other.
        first: The number of the first step that uses it.
        last: The number of the last one; behind it the place is given to others.
        value: The id of the value that it holds; empty for a packed copy.
        node: The id of the operation of the graph that makes the value; None for what none makes.
        name: What it holds, in words.
        holder: The kernel that needs it last, which is who keeps it, in words.
        device: Where it lies.
    """

    id: str
    kind: str
    nbytes: int
    offset: int | None
    first: int
    last: int
    value: str
    node: str | None
    name: str
    holder: str
    device: str


@dataclass(frozen=True, slots=True)
class MemoryPlan(Tabular):
    """The memory of one run of a model.

    Attributes:
        model: The name of the model.
        dims: The sizes it holds for.
        steps: The kernel of each step.
        slots: Every slot that a step uses, in the order of the plan.
        arena: Bytes of all arenas: what a run allocates, beside its outputs.
        live: Bytes of arena slots in use at each step.
    """

    model: str
    dims: dict[str, int]
    steps: tuple[str, ...]
    slots: tuple[MemorySlot, ...]
    arena: int
    live: tuple[int, ...]

    @property
    def peak(self) -> int:
        """Bytes in use at the step that needs most: no arena can be smaller."""
        return max(self.live, default=0)

    @property
    def peak_step(self) -> int:
        """The number of the first step at which most is in use; 0 for a model without steps."""
        return self.live.index(self.peak) if self.live else 0

    @property
    def fragmentation(self) -> float:
        """The part of the arena that is unused even at the peak, from 0 to 1."""
        return 1 - self.peak / self.arena if self.arena else 0.0

    def at(self, step: int) -> list[MemorySlot]:
        """The arena slots in use at a step, the largest first."""
        found = [s for s in self.slots if s.offset is not None and s.first <= step <= s.last]
        return sorted(found, key=lambda s: -s.nbytes)

    def nbytes(self, *kinds: str) -> int:
        """Bytes of all slots of these kinds."""
        return sum(slot.nbytes for slot in self.slots if slot.kind in kinds)

    def _heads(self) -> Sequence[str]:
        return (
            "buffer", "kind", "size [B]", "offset [B]", "first", "last", "value", "op", "holds",
            "until", "device",
        )  # fmt: skip

    def _records(self) -> Iterator[Sequence[Field]]:
        for s in self.slots:
            yield (
                s.id, s.kind, s.nbytes, s.offset, self.steps[s.first], self.steps[s.last], s.value,
                s.node, s.name, s.holder, s.device,
            )  # fmt: skip

    def table(self, rows: int | None = 20) -> str:
        """The plan as text: what is in use at the peak, the largest first, below the totals.

        Args:
            rows: How many slots to list; None lists all.
        """
        sizes = ", ".join(f"{name} = {size}" for name, size in self.dims.items())
        outside = (
            ("weights and constants", self.nbytes("weight", "constant")),
            ("packed copies", self.nbytes("packed")),
            ("inputs", self.nbytes("input")),
            ("outputs", self.nbytes("output")),
        )
        in_use = (
            f"{size_text(self.peak)} in use at the peak ({self.fragmentation:.1%} fragmentation)"
        )
        lines = [
            f"{self.model}, {sizes}" if sizes else self.model,
            f"arena {size_text(self.arena)}, of which {in_use}",
            "outside of it: " + ", ".join(f"{name} {size_text(n)}" for name, n in outside),
        ]
        if not self.steps:
            return "\n".join(lines)
        shown = self.at(self.peak_step)
        lines += ["", f"in use at {self.steps[self.peak_step]}, the peak:"]
        cells = [("buffer", "size", "offset", "steps", "holds", "until")]
        cells += [
            (
                slot.id,
                size_text(slot.nbytes),
                str(slot.offset),
                f"{self.steps[slot.first]} to {self.steps[slot.last]}",
                slot.name,
                slot.holder,
            )
            for slot in (shown if rows is None else shown[: max(rows, 0)])
        ]
        lines += aligned(cells, right=(1, 2))
        left = len(shown) + 1 - len(cells)
        if left:
            lines.append(f"… {left} more")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return (
            f"MemoryPlan({self.model!r}, arena {size_text(self.arena)}, "
            f"peak {size_text(self.peak)}, {len(self.slots)} slots)"
        )


@fitting("ML975", "maxlab.memory(model)")
def memory(target: Model | Profile, dims: Mapping[str, int] | None = None) -> MemoryPlan:
    """The memory plan of ``target``, a model or the model of a profile.

    Args:
        target: The model, or a profile of it.
        dims: The size of every symbolic dim; by default those of the profile, or of the model's
            last run.

    Raises:
        ArgumentError: ML629, the size of a dim is missing.
        ArgumentTypeError: ML674, ``target`` or ``dims`` are something else.

    Example:
        >>> from maxlab import engine
        >>> from maxlab.analysis.memory import memory
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> with Graph("f", input_types=[TensorType(DType.float32, ["n", 256])]) as graph:
        ...     x = graph.inputs[0].tensor
        ...     graph.output(ops.sum(ops.softmax(x), axis=0))
        >>> plan = memory(engine.InferenceSession().load(graph), {"n": 8})
        >>> plan, plan.steps[plan.peak_step]
        (MemoryPlan('f', arena 8.19 kB, peak 8.19 kB, 3 slots), 'k0')
    """
    model = model_behind(target, "memory")
    if dims is not None and not isinstance(dims, Mapping):
        raise ArgumentTypeError(
            "ML674",
            f"memory takes the sizes of dims by their names, got {type(dims).__name__}",
            fix="write memory(model, {'rows': 128}), or run the model and leave them out",
        )
    if dims is None and isinstance(target, Profile):
        dims = target.dims
    env = _sizes(model, dims)
    slots = model.compiled.plan.slots
    uses = slot_uses(model.compiled)
    for slot in slots:  # a weight that was packed is still there, unless it was made for that only
        if slot.packing is not None and slot.packing.source not in model.prepared.addresses:
            continue
        if slot.packing is not None and slot.number in uses:
            uses.setdefault(slot.packing.source, uses[slot.number])
    offsets, nbytes = _places(model, env)
    makers = _makers(model)
    steps = model.compiled.plan.steps
    found = []
    for slot in slots:
        if slot.number not in uses:
            continue
        first, last = uses[slot.number]
        maker = makers.get(slot.value)
        if maker is None and slot.kind in ("arena", "packed") and slot.packing is None:
            node = next(iter(steps[first].nodes), None)
            if any(first in inside for inside in model.compiled.plan.programs):
                node = next(reversed(steps[first].nodes), None)  # what its last op gives
                maker = node, f"{steps[first].name} of {steps[first].id}"
            else:
                maker = node, f"packed for {steps[last].name}"
        node, name = maker if maker is not None else (None, slot.name or slot.value or slot.id)
        found.append(
            MemorySlot(
                slot.id,
                slot.kind,
                slot.nbytes.evaluate(env),
                offsets.get(slot.number),
                first,
                last,
                slot.value,
                node,
                _named(slot, name),
                f"{steps[last].id} {steps[last].name}",
                "cpu" if slot.device == DeviceRef.CPU() else str(slot.device),
            )
        )
    live = [0] * (len(steps) + 1)
    for one in found:
        if one.offset is not None:
            live[one.first] += one.nbytes
            live[one.last + 1] -= one.nbytes
    for n in range(1, len(live)):
        live[n] += live[n - 1]
    return MemoryPlan(
        model.name, env, tuple(s.id for s in steps), tuple(found), nbytes, tuple(live[:-1])
    )


def _sizes(model: Model, dims: Mapping[str, int] | None) -> dict[str, int]:
    """The size of every symbol.

    Raises:
        ArgumentError: ML629, one is missing.
    """
    if dims is not None:
        env = dict(dims)
    else:
        env = model.last_sizes
    needed = {
        name: None
        for slot in model.compiled.plan.slots
        for name in slot.nbytes.symbols()
        if not name.startswith("%")
    }
    for name in needed:
        if name not in env:
            raise ArgumentError(
                "ML629",
                f"the memory of {model.name} depends on the dim {name!r}, which has no size here",
                fix=f"run the model, or write memory(model, {{{name!r}: 128}})",
            )
    return env


def _places(model: Model, env: Mapping[str, int]) -> tuple[dict[int, int], int]:
    """The offset of each arena slot, and the bytes of all arenas one behind the other."""
    offsets: dict[int, int] = {}
    base = 0
    for made, nbytes in _arenas(model, env):
        offsets.update({number: base + offset for number, offset in made.items()})
        base += nbytes
    return offsets, base


def _arenas(model: Model, env: Mapping[str, int]) -> Iterator[tuple[dict[int, int], int]]:
    known = model.arenas(env) if not model.compiled.plan.cuts else None  # stages come one by one
    if known is not None:
        yield from known
        return
    uses = slot_uses(model.compiled)
    for slots in stage_slots(model.compiled):
        places: dict[DeviceRef, list[Slot]] = {}
        for slot in slots:
            places.setdefault(slot.device, []).append(slot)
        for place, here in places.items():
            entries, nbytes = layout_arena(here, uses, env)
            step = model.device_of(place).alignment
            yield {e.slot: e.offset for e in entries}, -(-nbytes // step) * step


def _makers(model: Model) -> dict[str, tuple[str | None, str]]:
    """By the id of a value: the operation of the graph that makes it, and its name in words."""
    source = {op.id: op for op in model.compiled.source.walk()}
    found: dict[str, tuple[str | None, str]] = {}
    for value in model.compiled.function.inputs:
        found[value.id] = None, value.name
    for op in model.compiled.function.ops:
        origin = op.origins[0]
        user = source.get(origin, op)
        short = user.name.removeprefix("mo.")
        piece = "" if user.name == op.name else f" ({op.name.removeprefix('mo.')})"
        for value in op.results:
            found[value.id] = origin, f"{short} {origin}{piece}"
        if is_call(op):
            call: Call = op.attrs["call"]
            output = call.body.output
            assert output is not None
            for value, inner in zip(op.results, output.operands, strict=True):
                id = call.ids.get(inner.op.id if inner.op is not None else "")
                if id is not None and id in source:
                    found[value.id] = id, f"{source[id].name.removeprefix('mo.')} {id}"
    return found


def _named(slot: Slot, name: str) -> str:
    if slot.kind == "packed":
        return f"packed {slot.name}".strip()
    return slot.name if slot.kind == "weight" else name


__all__ = ["MemoryPlan", "MemorySlot", "memory"]
