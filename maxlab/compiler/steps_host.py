"""The steps of a plan that run on the CPU: generated C, and calls of the library of products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from maxlab.compiler.codegen.c import print_columns, print_rows, strip_of
from maxlab.compiler.codegen.product import (
    print_attention,
    print_batched,
    print_gemm,
    print_pack,
)
from maxlab.compiler.conventions import BLOCK, HALVES, Operand
from maxlab.compiler.groups import Group
from maxlab.compiler.launches import Attention, BatchedGemm, Blocks, Gemm, Items
from maxlab.compiler.loops import Kernel, walk
from maxlab.compiler.lower import Lowered, Lowering
from maxlab.compiler.plan import PACK_KERNELS, Slot, Step, panels_nbytes
from maxlab.compiler.plan import panels as panels_of
from maxlab.compiler.plan_sink import PlanSink
from maxlab.compiler.printed import Printed
from maxlab.compiler.products import attention_of, contraction_of, is_batched
from maxlab.compiler.reuse import merged
from maxlab.compiler.traffic import AttentionLoops, Counted, Loops, ProductLoops, Touch
from maxlab.dtype import DType
from maxlab.ir import Op, Value
from maxlab.ir.poly import ONE, ZERO, Poly
from maxlab.opset import scalar_weight

LONG_ROW_COST = 1 << 28
"""Scalar operations of a row that is gone through in strips. They take a tenth of a second: few
models have rows as long, and the loop over strips would cost short ones a third of their time."""


class HostSteps:
    """Adds the CPU's steps to the plan of ``sink``."""

    def __init__(self, sink: PlanSink) -> None:
        self.sink = sink
        self._packed: dict[Any, int] = {}

    def rows(
        self,
        group: Group,
        lowered: Lowered,
        slots: list[int] | None = None,
        computed: Sequence[Op] | None = None,
    ) -> None:
        """The step of a map or row kernel."""
        sink, kernel = self.sink, lowered.kernel
        weight, width = _weight(kernel), kernel.inner.extent
        flat = kernel.kind == "map" and not kernel.rows

        row = Poly.constant(weight) * width
        always = not flat and row.is_constant and row.value > LONG_ROW_COST
        printed = in_strips(lowered) if always else print_rows(kernel, lowered.kept)
        pointers = slots if slots is not None else [sink.slot(v) for v in lowered.values]
        extent = kernel.inner.extent if flat else ONE
        for axis in kernel.rows:
            extent = extent * axis.extent
        cost = Poly.constant(weight) if flat else row
        launch = Items(extent, cost, _kept_bytes(lowered.kept, width))
        kind = kernel.kind if group.kind in ("map", "row") else group.kind
        step = sink.add(
            group,
            kind,
            printed,
            pointers,
            launch,
            extent,
            touching=Loops(kernel),
            computed=computed,
            loops=lowered,
        )

        def in_place(target: int, source: int) -> Step | None:
            made = merged(lowered, target, source)
            if made is None:
                return None
            left = [n for at, n in enumerate(pointers) if at != target]
            return sink.apart(lambda: self.rows(group, made, left, computed))

        sink.let_in_place(step, in_place)
        step.long = None if flat or row.is_constant else row

    def columns(self, group: Group, lowered: Lowered, slots: list[int] | None = None) -> None:
        """The step of a column kernel."""
        sink, kernel = self.sink, lowered.kernel
        assert kernel.reduction is not None
        weight = _weight(kernel)
        inner, depth = kernel.inner.extent, kernel.reduction.extent

        block = Poly.constant(weight * BLOCK) * depth
        always = block.is_constant and block.value > LONG_ROW_COST
        printed = in_strips(lowered) if always else print_columns(kernel)
        rows = ONE
        for axis in kernel.rows:
            rows = rows * axis.extent

        pointers = slots if slots is not None else [sink.slot(v) for v in lowered.values]
        step = sink.add(
            group,
            "reduce" if group.kind == "col" else group.kind,
            printed,
            pointers,
            Blocks(rows, inner, depth, weight),
            rows * inner,
            touching=Loops(kernel),
            loops=lowered,
        )

        def in_place(target: int, source: int) -> Step | None:
            made = merged(lowered, target, source)
            if made is None:
                return None
            left = [n for at, n in enumerate(pointers) if at != target]
            return sink.apart(lambda: self.columns(group, made, left))

        sink.let_in_place(step, in_place)
        step.long = None if block.is_constant else block

    # ------------------------------------------------------------ products
    def contract(self, group: Group) -> None:
        """The step of a product of matrices."""
        sink, schedule = self.sink, self.sink.schedule
        op = group.main
        assert op is not None
        dtype = op.result.tensor_type.dtype
        half = dtype in HALVES
        if dtype is not DType.float32 and not half:
            self.columns(group, Lowering(schedule, group).columns(op))
            return
        lowering = Lowering(schedule, group)
        # Tiles of halves are in the thread's own memory, and the epilogue stores what is wanted.
        result = -1 if half else lowering.buffer(self._tile_target(group, op.result), True)
        batched = is_batched(op)
        tests = schedule.options.assert_level in ("warn", "all")  # also of what is only stored
        store = half or tests
        epilogue = lowering.epilogue(op.result, op.result.tensor_type.sizes[-1], batched, store)
        kernel = epilogue.kernel
        values = list(epilogue.values)
        found = contraction_of(schedule, op, len(values))
        m, n, k = found.m, found.n, found.k
        pointers = [sink.slot(v) for v in values] + [sink.slot(found.left_base)]
        node = op.origins[0]
        if not batched:
            left, rows = found.flat_left()
            packed = self._pack(group, found.right_base, found.right, k, n)
            pointers.append(packed)
            printed = print_gemm(left, len(values) + 1, result, rows, n, k, kernel, node, dtype)

            size = Poly.constant(dtype.size_in_bytes)
            panels = sink.plan.slots[packed].nbytes.floordiv(size)
            sink.add(
                group,
                "contract",
                printed,
                pointers,
                Gemm(rows, n, k, dtype),
                rows * n,
                touching=ProductLoops(kernel, found, result, panels),
            )
            return
        pointers.append(sink.slot(found.right_base))
        rows_only = lowering_rows(kernel, [axis.name for axis in found.batch])
        printed = print_batched(
            found.left, found.right, result, found.batch, m, n, k, rows_only, node, dtype
        )
        items = found.items
        sink.add(
            group,
            "contract",
            printed,
            pointers,
            BatchedGemm(items, m, n, k, dtype),
            items,
            touching=ProductLoops(kernel, found, result),
        )

    def _tile_target(self, group: Group, product: Value) -> Value:
        """The value whose memory the raw product is written to."""
        schedule = self.sink.schedule
        if product in schedule.stored:
            return product
        for op in reversed(group.ops):
            result = op.result
            if result in schedule.stored and result.tensor_type.dtype is DType.float32:
                return result
        return product

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
        sink, schedule = self.sink, self.sink.schedule
        parts = schedule.attentions[group.number]
        lowering = Lowering(schedule, group)
        lowered = lowering.score(parts.logits, parts.scores.result, parts.maps)
        values = list(lowered.values)
        found = attention_of(schedule, parts, len(values))
        sizes = found.sizes
        printed = print_attention(
            found.q, found.k, found.v, found.out, sizes, lowered.kernel, parts.scores.origins[0]
        )
        pointers = [sink.slot(x) for x in (*values, *found.bases)]

        batch, heads, queries = sizes[:3]
        sink.add(
            group,
            "attention",
            printed,
            pointers,
            Attention(tuple(sizes)),
            batch * heads * queries,
            touching=AttentionLoops(lowered.kernel, found),
        )


def lowering_rows(kernel: Kernel, batch: Sequence[str]) -> Kernel:
    """``kernel`` without the batch axes in its rows: a batched product passes their place."""
    rows = [axis for axis in kernel.rows if axis.name not in batch]
    return replace(kernel, rows=rows)


def _kept_bytes(kept: int, width: Poly) -> Poly:
    """The bytes of ``kept`` rows of ``width`` numbers, each row from a cache line on."""
    lines = (width * Poly.constant(8) + Poly.constant(63)).floordiv(Poly.constant(64))
    return Poly.constant(64 * kept) * lines if kept else ZERO


def in_strips(lowered: Lowered) -> Printed:
    """The text of a map, row or column kernel that goes through long rows in strips, behind each of
    which it asks whether to go on."""
    kernel, weight = lowered.kernel, _weight(lowered.kernel)
    if kernel.kind == "col":
        return print_columns(kernel, strip_of(weight * BLOCK))
    return print_rows(kernel, lowered.kept, strip_of(weight))


def _weight(kernel: Kernel) -> int:
    """Scalar operations for each element of the inner axis."""
    total = 1
    for node in walk(list(kernel.expressions())):
        if node.varies:
            total += scalar_weight(node.data) if node.kind == "op" else 1
    return total
