"""The steps of a plan that run on the CPU: generated C, and calls of the library of products."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from maxlab.compiler import forms
from maxlab.compiler.codegen.c import print_rows
from maxlab.compiler.codegen.columns import print_columns
from maxlab.compiler.codegen.narrow import is_narrow, print_narrow
from maxlab.compiler.codegen.product import (
    print_attention,
    print_batched,
    print_gemm,
    print_pack,
)
from maxlab.compiler.conventions import BLOCK, HALVES, LONG_ROW_COST, Operand
from maxlab.compiler.forms import Form
from maxlab.compiler.groups import Group
from maxlab.compiler.host_texts import StripsText, others_of, weight_of
from maxlab.compiler.launches import Attention, BatchedGemm, Blocks, Gemm, HostFormula, Items
from maxlab.compiler.loops import Kernel
from maxlab.compiler.lower import Lowered, Lowering
from maxlab.compiler.plan import PACK_KERNELS, Slot, Step, panels_nbytes
from maxlab.compiler.plan import panels as panels_of
from maxlab.compiler.plan_sink import PlanSink
from maxlab.compiler.printed import Printed
from maxlab.compiler.products import (
    attention_of,
    contraction_of,
    is_batched,
    result_stays,
    tile_target,
)
from maxlab.compiler.reuse import merged
from maxlab.compiler.traffic import (
    AttentionLoops,
    Counted,
    Loops,
    ProductLoops,
    Touch,
    Touching,
)
from maxlab.dtype import DType
from maxlab.ir import Op, Value
from maxlab.ir.poly import ONE, ZERO, Poly
from maxlab.opset import flops_of


@dataclass(frozen=True, slots=True)
class Made:
    """The common result for all groups of one form: a step without its place in a plan.

    Attributes:
        printed: The text; its ops are called by their numbers in the form.
        launch: How it is launched.
        extent: The parallel axis.
        touching: What it touches of its pointers.
        flops: The arithmetic of its ops.
        values: What its pointers are, values by their numbers in the form.
        kernel: The loops that it is printed from, where that is all it is printed from.
        kept: The rows that these keep.
        long: See `Step.long`.
        right: Of a product of a packed matrix, what is packed.
    """

    printed: Printed
    launch: HostFormula
    extent: Poly
    touching: Touching
    flops: Poly = ZERO
    values: tuple[int, ...] = ()
    kernel: Kernel | None = None
    kept: int = 0
    long: Poly | None = None
    right: _Right | None = None


@dataclass(frozen=True, slots=True)
class _Right:
    """The right operand of a product: the number of the value that it is in, where it is there, and
    its rows and columns."""

    base: int
    operand: Operand
    k: Poly
    n: Poly


class HostSteps:
    """Adds the CPU's steps to the plan of ``sink``."""

    def __init__(self, sink: PlanSink) -> None:
        self.sink = sink
        self._packed: dict[Any, int] = {}

    def _made(
        self,
        group: Group,
        how: Hashable,
        make: Callable[[Form], tuple[Made, Sequence[Value]]],
        operand: Value | None = None,
    ) -> tuple[Made, Form]:
        """The step for ``group``, which ``make`` makes of its form with the values of its pointers,
        unless one was made of that form before.
        """
        schedule = self.sink.schedule
        form = forms.Form(schedule, group, how, operand)
        made: Made | None = forms.KEPT.get(form.key)
        if made is None:
            made, values = make(form)
            ops = schedule.inliner.ops_of(group)
            if operand is not None:
                ops = schedule.inliner.ops_for(group, operand)
            flops = sum(map(flops_of, ops), ZERO)
            made = replace(made, flops=flops, values=tuple(form.numbers[v] for v in values))
            forms.KEPT.put(form.key, made)
        return made, form

    # ------------------------------------------------------------ rows and columns
    def rows(self, group: Group) -> None:
        """The step of a map or row kernel, or of a copy."""
        made, form = self._rows_of(group)
        lowered = _lowered(made, form)
        self._rows(group, made, lowered, self.sink.slots_of(lowered.values))

    def output(self, group: Group, slot: Callable[[], int]) -> None:
        """The step that copies into an output; ``slot`` makes that."""
        made, form = self._rows_of(group)
        lowered = _lowered(made, form)
        self._rows(group, made, lowered, self.sink.slots_with(lowered, slot))

    def _rows_of(self, group: Group) -> tuple[Made, Form]:
        def make(form: Form) -> tuple[Made, Sequence[Value]]:
            lowered = Lowering(self.sink.schedule, group, form.names).rows()
            return _made_of_rows(lowered), lowered.values

        return self._made(group, "rows", make)

    def part(self, group: Group, operand: Value, axis: int, offset: Poly) -> None:
        """The step that copies ``operand`` into a concat, ``offset`` along ``axis``."""

        def make(form: Form) -> tuple[Made, Sequence[Value]]:
            lowering = Lowering(self.sink.schedule, group, form.names)
            lowered = lowering.part(operand, axis, offset)
            return _made_of_rows(lowered), lowered.values

        made, form = self._made(group, ("part", axis, offset), make, operand)
        lowered = _lowered(made, form)
        self._rows(group, made, lowered, self.sink.slots_of(lowered.values))

    def _rows(self, group: Group, made: Made, lowered: Lowered, pointers: list[int]) -> None:
        """The step of ``lowered``, which became ``made``."""
        kind = lowered.kernel.kind if group.kind in ("map", "row") else group.kind
        step = self._add(group, kind, made, lowered.ids, pointers, lowered)

        def in_place(target: int, source: int) -> Step | None:
            other = merged(lowered, target, source)
            if other is None:
                return None
            left = [n for at, n in enumerate(pointers) if at != target]
            again = replace(_made_of_rows(other), flops=made.flops)
            return self.sink.apart(lambda: self._rows(group, again, other, left))

        self.sink.let_in_place(step, in_place)

    def columns(self, group: Group, product: Op | None = None) -> None:
        """The step of a column kernel, or of a product without a faster way (``product``)."""

        def make(form: Form) -> tuple[Made, Sequence[Value]]:
            lowered = Lowering(self.sink.schedule, group, form.names).columns(product)
            return _made_of_columns(lowered), lowered.values

        made, form = self._made(group, "columns", make)
        lowered = _lowered(made, form)
        self._columns(group, made, lowered, self.sink.slots_of(lowered.values))

    def _columns(self, group: Group, made: Made, lowered: Lowered, pointers: list[int]) -> None:
        """The step of ``lowered``, which became ``made``."""
        kind = "reduce" if group.kind == "col" else group.kind
        step = self._add(group, kind, made, lowered.ids, pointers, lowered)

        def in_place(target: int, source: int) -> Step | None:
            other = merged(lowered, target, source)
            if other is None:
                return None
            left = [n for at, n in enumerate(pointers) if at != target]
            again = replace(_made_of_columns(other), flops=made.flops)
            return self.sink.apart(lambda: self._columns(group, again, other, left))

        self.sink.let_in_place(step, in_place)

    def _add(
        self,
        group: Group,
        kind: str,
        made: Made,
        ids: Sequence[str],
        pointers: list[int],
        loops: Lowered | None = None,
    ) -> Step:
        """The step that ``made`` is in the plan, with these ops and pointers."""
        step = self.sink.add(
            group,
            kind,
            made.printed.named(ids),
            pointers,
            made.launch,
            made.extent,
            touching=made.touching,
            flops=made.flops,
            loops=loops,
        )
        if loops is not None:
            step.others = others_of(loops.kernel, ids)
        step.long = made.long
        if made.long is not None and loops is not None:
            step.strips = StripsText(loops.kernel, loops.kept)
        return step

    # ------------------------------------------------------------ products
    def contract(self, group: Group) -> None:
        """The step of a product of matrices."""
        sink, op = self.sink, group.main
        assert op is not None
        dtype = op.result.tensor_type.dtype
        if dtype is not DType.float32 and dtype not in HALVES:
            self.columns(group, op)
            return
        stays = result_stays(sink.schedule, group)

        def make(form: Form) -> tuple[Made, Sequence[Value]]:
            return self._product(group, form, stays)

        made, form = self._made(group, ("contract", stays), make)
        pointers = sink.slots_of([form.values[n] for n in made.values])
        right = made.right
        if right is not None:
            base = form.values[right.base]
            pointers.append(self._pack(group, base, right.operand, right.k, right.n))
        self._add(group, "contract", made, form.ids, pointers)

    def _product(self, group: Group, form: Form, stays: bool) -> tuple[Made, Sequence[Value]]:
        """The step for the product of ``group``, and the values that it reads and writes."""
        schedule = self.sink.schedule
        op = group.main
        assert op is not None
        dtype = op.result.tensor_type.dtype
        half = dtype in HALVES
        lowering = Lowering(schedule, group, form.names)
        # Tiles of halves are in the thread's own memory, and the epilogue stores what is wanted.
        result = -1 if half else lowering.buffer(tile_target(schedule, group, op.result), True)
        batched = is_batched(op)
        tests = schedule.options.assert_level in ("warn", "all")  # also of what is only stored
        store = half or tests
        epilogue = lowering.epilogue(op.result, op.result.tensor_type.sizes[-1], batched, store)
        kernel, values = epilogue.kernel, list(epilogue.values)
        found, (left_base, right_base) = contraction_of(schedule, op, len(values))
        m, n, k = found.m, found.n, found.k
        node = form.names[op]
        if batched:
            rows_only = lowering_rows(kernel, [axis.name for axis in found.batch])
            printed = print_batched(
                found.left, found.right, result, found.batch, m, n, k, rows_only, node, dtype
            )
            items = found.items
            launch = BatchedGemm(items, m, n, k, dtype, found.right.column == ONE)
            made = Made(printed, launch, items, ProductLoops(kernel, found, result))
            return made, [*values, left_base, right_base]
        left, rows = found.flat_left()
        packed = len(values) + 1
        printed = print_gemm(left, packed, result, rows, n, k, kernel, node, dtype, stays)
        panels = panels_nbytes(k, n, dtype).floordiv(Poly.constant(dtype.size_in_bytes))
        touching = ProductLoops(kernel, found, result, panels)
        right = _Right(form.numbers[right_base], found.right, k, n)
        made = Made(printed, Gemm(rows, n, k, dtype), rows * n, touching, right=right)
        return made, [*values, left_base]

    def _pack(self, group: Group, base: Value, right: Operand, k: Poly, n: Poly) -> int:
        """The slot of the packed right operand; packed at load when it is data, else by a step of
        its own.
        """
        sink, dtype = self.sink, base.tensor_type.dtype
        source = sink.slot(base)
        key = (source, right.offset, right.row, right.column, k, n)
        found = self._packed.get(key)
        if found is not None:
            return found
        if sink.plan.slots[source].kind in ("weight", "constant"):
            layout = (k, n, right.row, right.column)
            packing = panels_of(source, dtype, layout, right.offset)
            if packing is not None:
                self._packed[key] = sink.packed_slot(packing, dtype, (k, n))
                return self._packed[key]
        nbytes = panels_nbytes(k, n, dtype)
        device = sink.plan.slots[source].device
        slot = Slot(len(sink.plan.slots), "arena", dtype, nbytes, (k, n), device=device)
        sink.plan.slots.append(slot)
        self._packed[key] = slot.number
        panels = (n + Poly.constant(31)).floordiv(Poly.constant(32))
        written = nbytes.floordiv(Poly.constant(dtype.size_in_bytes))

        # The built-in kernel takes whole buffers; for a part of one there is a line of code.
        whole = right.offset == ZERO
        sink.add(
            group,
            "pack",
            None if whole else print_pack(right, k, n, dtype),
            [slot.number, source],
            Items(panels, Poly.constant(64) * k),
            panels,
            sizes=[k, n, right.row, right.column] if whole else None,
            builtin=PACK_KERNELS[dtype] if whole else "",
            touching=Counted({0: Touch(written=written), 1: Touch(k * n)}),
            computed=(),
        )
        return slot.number

    def attention(self, group: Group) -> None:
        """The step of fused attention."""
        made, form = self._made(group, "attention", lambda form: self._attended(group, form))
        pointers = self.sink.slots_of([form.values[n] for n in made.values])
        self._add(group, "attention", made, form.ids, pointers)

    def _attended(self, group: Group, form: Form) -> tuple[Made, Sequence[Value]]:
        """The step for the attention of ``group``, and the values that it reads and writes."""
        schedule = self.sink.schedule
        parts = schedule.attentions[group.number]
        lowering = Lowering(schedule, group, form.names)
        lowered = lowering.score(parts.logits, parts.scores.result, parts.maps)
        values = list(lowered.values)
        found, bases = attention_of(schedule, parts, len(values))
        sizes, node = found.sizes, form.names[parts.scores]
        printed = print_attention(found.q, found.k, found.v, found.out, sizes, lowered.kernel, node)
        batch, heads, queries = sizes[:3]
        launch = Attention(tuple(sizes))
        touching = AttentionLoops(lowered.kernel, found)
        return Made(printed, launch, batch * heads * queries, touching), [*values, *bases]


def _lowered(made: Made, form: Form) -> Lowered:
    """The loops of ``made`` with the values and ops of ``form``."""
    assert made.kernel is not None
    values = [form.values[n] for n in made.values]
    return Lowered(made.kernel, values, made.kept, form.ids)


def _made_of_rows(lowered: Lowered) -> Made:
    """The step for the loops of a map or row kernel."""
    kernel = lowered.kernel
    weight, width = weight_of(kernel), kernel.inner.extent
    flat = kernel.kind == "map" and not kernel.rows
    row = Poly.constant(weight) * width
    always = not flat and row.is_constant and row.value > LONG_ROW_COST
    extent = kernel.inner.extent if flat else ONE
    for axis in kernel.rows:
        extent = extent * axis.extent
    cost = Poly.constant(weight) if flat else row
    return Made(
        _text_of_rows(lowered, always),
        Items(extent, cost, _kept_bytes(lowered.kept, width)),
        extent,
        Loops(kernel),
        kernel=kernel,
        kept=lowered.kept,
        long=None if flat or row.is_constant else row,
    )


def _text_of_rows(lowered: Lowered, long: bool) -> Printed:
    """The text of a map or row kernel; ``long``: its rows are always longer than it may wait."""
    if long:
        return StripsText(lowered.kernel, lowered.kept).printed()
    if is_narrow(lowered.kernel):
        return print_narrow(lowered.kernel)
    return print_rows(lowered.kernel, lowered.kept)


def _made_of_columns(lowered: Lowered) -> Made:
    """The step for the loops of a column kernel."""
    kernel = lowered.kernel
    assert kernel.reduction is not None
    weight = weight_of(kernel)
    inner, depth = kernel.inner.extent, kernel.reduction.extent
    block = Poly.constant(weight * BLOCK) * depth
    always = block.is_constant and block.value > LONG_ROW_COST
    rows = ONE
    for axis in kernel.rows:
        rows = rows * axis.extent
    return Made(
        StripsText(kernel, lowered.kept).printed() if always else print_columns(kernel),
        Blocks(rows, inner, depth, weight),
        rows * inner,
        Loops(kernel),
        kernel=kernel,
        long=None if block.is_constant else block,
    )


def lowering_rows(kernel: Kernel, batch: Sequence[str]) -> Kernel:
    """``kernel`` without the batch axes in its rows: a batched product passes their place."""
    rows = [axis for axis in kernel.rows if axis.name not in batch]
    return replace(kernel, rows=rows)


def _kept_bytes(kept: int, width: Poly) -> Poly:
    """The bytes of ``kept`` rows of ``width`` numbers, each row from a cache line on."""
    lines = (width * Poly.constant(8) + Poly.constant(63)).floordiv(Poly.constant(64))
    return Poly.constant(64 * kept) * lines if kept else ZERO
