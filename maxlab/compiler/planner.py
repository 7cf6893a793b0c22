"""Turns a schedule into a plan: lowers and prints each group, and says what each step needs at run
time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from maxlab.compiler.axes import AXES, Index, extents_of, own_index, shape_of
from maxlab.compiler.codegen.c import BLOCK, Printed, print_columns, print_rows
from maxlab.compiler.codegen.product import (
    Operand,
    print_attention,
    print_batched,
    print_gemm,
    print_pack,
)
from maxlab.compiler.loops import Axis, Kernel, walk
from maxlab.compiler.lower import REDUCED, Lowered, Lowering
from maxlab.compiler.plan import Env, Launch, Packing, Plan, Slot, Step
from maxlab.compiler.schedule import Group, Schedule, flat_index
from maxlab.dtype import DType
from maxlab.ir import Op, Value
from maxlab.ir.poly import ONE, ZERO, Poly
from maxlab.opset import flops_of, scalar_weight
from maxlab.opset.view import broadcast_index

GRAIN_COST = 16_384
"""Scalar operations below which a chunk is not worth handing to another thread."""


def _grain(extent: int, cost: int, threads: int) -> int:
    """Items per chunk for ``extent`` items of ``cost`` scalar operations each."""
    if extent * cost < 2 * GRAIN_COST or threads == 1:
        return max(extent, 1)
    even = -(-extent // (threads * 4))
    return max(even, -(-GRAIN_COST // max(cost, 1)), 1)


class Planner:
    """Turns a schedule into a plan."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.plan = Plan()
        self._slots: dict[Value, int] = {}
        self._packed: dict[Any, int] = {}
        self._outputs: dict[Value, int] = {}
        self._copies: list[tuple[Value, int]] = []

    def build(self) -> Plan:
        """The plan."""
        schedule = self.schedule
        for number, (value, direct) in enumerate(schedule.outputs):
            if direct:
                self._outputs[value] = number
        for group in schedule.groups:
            if group.output >= 0:
                self._output_copy(group)
            elif group.kind == "contract":
                self._contract(group)
            elif group.kind == "attention":
                self._attention(group)
            elif group.kind == "concat":
                self._concat(group)
            elif group.kind == "col":
                lowered = Lowering(schedule, group).columns()
                self._column_step(group, lowered)
            else:
                lowered = Lowering(schedule, group).rows()
                self._row_step(group, lowered)
        by_output = {s.index: s.number for s in self.plan.slots if s.kind == "output"}
        self.plan.outputs = [by_output[n] for n in range(len(schedule.outputs))]
        return self.plan

    # ------------------------------------------------------------ slots
    def slot(self, value: Value) -> int:
        """The number of the slot that holds ``value``."""
        found = self._slots.get(value)
        if found is None:
            found = self._slots[value] = self._new_slot(value)
        return found

    def _new_slot(self, value: Value) -> int:
        typed = value.tensor_type
        shape = shape_of(value)
        slot = Slot(
            len(self.plan.slots), "arena", typed.dtype, _nbytes(shape, typed.dtype), shape, value.id
        )
        op = value.op
        if op is None:
            slot.kind, slot.index, slot.name = "input", value.index, value.name
        elif op.name == "mo.constant.external" and value not in self.schedule.laid_out:
            slot.kind, slot.name = "weight", op.attrs["name"]
        elif op.name == "mo.constant" and value not in self.schedule.laid_out:
            slot.kind, slot.data = "constant", np.ascontiguousarray(op.attrs["value"].array)
        elif value in self._outputs:
            slot.kind, slot.index = "output", self._outputs[value]
        self.plan.slots.append(slot)
        return slot.number

    # ------------------------------------------------------------ steps
    def _add(
        self,
        group: Group,
        kind: str,
        printed: Printed | None,
        pointers: Sequence[int],
        launch: Callable[[Env, int, Any], Launch],
        parallel: Poly,
        *,
        sizes: Sequence[Poly] | None = None,
        builtin: str = "",
        rows: dict[int, Poly] | None = None,
        loops: Lowered | None = None,
    ) -> Step:
        nodes, names = _origins(self.schedule, group)
        slots = [self.plan.slots[n] for n in dict.fromkeys(pointers)]

        def cost() -> tuple[Poly, Poly]:
            flops = moved = ZERO
            for op in () if kind == "pack" else group.ops:
                flops = flops + flops_of(op)
            for slot in slots:
                moved = moved + (rows or {}).get(slot.number, slot.nbytes)
            return flops, moved

        step = Step(
            len(self.plan.steps),
            _label(names, kind),
            kind,
            printed,
            list(pointers),
            list(sizes)
            if sizes is not None
            else [Poly.symbol(s) for s in (printed.symbols if printed else [])],
            nodes,
            parallel,
            launch,
            cost,
            builtin,
            names,
            loops,
        )
        self.plan.steps.append(step)
        return step

    def _row_step(self, group: Group, lowered: Lowered, slots: list[int] | None = None) -> None:
        kernel = lowered.kernel
        printed = print_rows(kernel, lowered.kept)
        pointers = slots if slots is not None else [self.slot(v) for v in lowered.values]
        flat = kernel.kind == "map" and not kernel.rows
        extent = kernel.inner.extent if flat else ONE
        for axis in kernel.rows:
            extent = extent * axis.extent
        weight = _weight(kernel)
        inner = kernel.inner.extent
        kept = lowered.kept

        def launch(env: Env, threads: int, runtime: Any) -> Launch:
            items, width = extent.evaluate(env), inner.evaluate(env)
            cost = weight if flat else weight * width
            scratch = kept * ((width * 8 + 63) // 64 * 64)
            return Launch((), items, _grain(items, cost, threads), scratch)

        kind = kernel.kind if group.kind in ("map", "row") else group.kind
        self._add(
            group,
            kind,
            printed,
            pointers,
            launch,
            extent,
            rows=self._gathered(kernel, pointers),
            loops=lowered,
        )

    def _gathered(self, kernel: Kernel, pointers: Sequence[int]) -> dict[int, Poly]:
        """Bytes read from buffers that are gathered from: a row for each index, not the whole
        table.
        """
        found: dict[int, Poly] = {}
        for node in walk(list(kernel.expressions())):
            if node.kind == "gather":
                extent = kernel.inner.extent if node.varies else ONE
                for axis in kernel.rows:
                    extent = extent * axis.extent
                found[pointers[node.data[0]]] = extent * Poly.constant(node.dtype.size_in_bytes)
        return found

    def _column_step(self, group: Group, lowered: Lowered) -> None:
        kernel = lowered.kernel
        assert kernel.reduction is not None
        printed = print_columns(kernel)
        rows = ONE
        for axis in kernel.rows:
            rows = rows * axis.extent
        inner, depth, weight = kernel.inner.extent, kernel.reduction.extent, _weight(kernel)

        def launch(env: Env, threads: int, runtime: Any) -> Launch:
            blocks = -(-inner.evaluate(env) // BLOCK)
            items = rows.evaluate(env) * blocks
            cost = weight * depth.evaluate(env) * min(inner.evaluate(env), BLOCK)
            return Launch((), items, _grain(items, cost, threads), 0)

        pointers = [self.slot(v) for v in lowered.values]
        self._add(
            group,
            "reduce" if group.kind == "col" else group.kind,
            printed,
            pointers,
            launch,
            rows * inner,
            loops=lowered,
        )

    def _output_copy(self, group: Group) -> None:
        lowered = Lowering(self.schedule, group).rows()
        pointers: list[int] = []
        source = group.source
        assert source is not None
        for value, buffer in zip(lowered.values, lowered.kernel.buffers, strict=True):
            if not buffer.written:
                pointers.append(self.slot(value))
                continue
            typed = source.tensor_type
            shape = shape_of(source)
            slot = Slot(
                len(self.plan.slots),
                "output",
                typed.dtype,
                _nbytes(shape, typed.dtype),
                shape,
                source.id,
                group.output,
            )
            self.plan.slots.append(slot)
            pointers.append(slot.number)
        self._row_step(group, lowered, pointers)

    def _concat(self, group: Group) -> None:
        op = group.main
        assert op is not None
        axis = op.attrs["axis"] % len(group.domain)
        offset = ZERO
        for operand in op.operands:
            lowered = Lowering(self.schedule, group).part(operand, axis, offset)
            self._row_step(group, lowered)
            offset = offset + shape_of(operand)[axis]

    # ------------------------------------------------------------ products
    def _operand(
        self,
        value: Value,
        index: Index,
        extents: dict[str, Poly],
        axes: Sequence[str],
        row: str,
        column: str,
        pointer: int,
    ) -> tuple[Value, Operand]:
        base, at = self.schedule.resolve(value, index, extents)
        position = flat_index(self.schedule, base, at)
        parts: dict[str, Poly] = {}
        rest = position
        for name in (*axes, row, column):
            factor = position.coefficient(name)
            assert factor is not None, f"{value.id} has no fixed strides"
            parts[name] = factor
            rest = rest - factor * Poly.symbol(name)
        return base, Operand(
            pointer, rest, tuple(parts[a] for a in axes), parts[row], parts[column]
        )

    def _contract(self, group: Group) -> None:
        op = group.main
        assert op is not None
        if op.result.tensor_type.dtype is not DType.float32:
            lowered = Lowering(self.schedule, group).columns(op)
            self._column_step(group, lowered)
            return
        shape = shape_of(op.result)
        x, y = op.operands
        m, n, k = shape[-2], shape[-1], shape_of(x)[-1]
        lowering = Lowering(self.schedule, group)
        target = self._tile_target(group, op.result)
        result = lowering.buffer(target, True)
        batched = any(size != ONE for size in shape_of(y)[:-2])
        epilogue = lowering.epilogue(op.result, n, batched)
        kernel = epilogue.kernel
        values = list(epilogue.values)
        own = own_index(shape)
        extents = {**extents_of(shape), REDUCED: k}
        inner = ZERO if k == ONE else Poly.symbol(REDUCED)
        left_index = broadcast_index((*own[:-1], inner), shape_of(x))
        right_index = broadcast_index((*own[:-2], inner, own[-1]), shape_of(y))
        batch = [n_ for n_ in range(len(shape) - 2) if shape[n_] != ONE]
        row, column = AXES[len(shape) - 2], AXES[len(shape) - 1]
        names = [AXES[b] for b in batch]
        left_base, left = self._operand(x, left_index, extents, names, row, REDUCED, len(values))
        right_base, right = self._operand(
            y, right_index, extents, names, REDUCED, column, len(values) + 1
        )
        pointers = [self.slot(v) for v in values] + [self.slot(left_base)]
        node = op.origins[0]
        if not batched:
            rows = m
            for b in batch:
                rows = rows * shape[b]
            stride = left.row if m != ONE else (left.batch[-1] if left.batch else k)
            left = Operand(left.pointer, left.offset, (), stride, ONE)
            packed = self._pack(group, right_base, right, k, n)
            pointers.append(packed)
            printed = print_gemm(left, len(values) + 1, result, rows, n, k, kernel, node)
            self._add(group, "contract", printed, pointers, _gemm_launch(rows, n, k), rows * n)
            return
        pointers.append(self.slot(right_base))
        axes = [Axis(AXES[b], shape[b]) for b in batch]
        rows_only = lowering_rows(kernel, names)
        printed = print_batched(left, right, result, axes, m, n, k, rows_only, node)
        items = ONE
        for axis in axes:
            items = items * axis.extent
        self._add(group, "contract", printed, pointers, _batched_launch(items, m, n, k), items)

    def _tile_target(self, group: Group, product: Value) -> Value:
        """The value whose memory the raw product is written to."""
        schedule = self.schedule
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
        source = self.slot(base)
        key = (source, right.offset, right.row, right.column, k, n)
        found = self._packed.get(key)
        if found is not None:
            return found
        panels = (n + Poly.constant(31)).floordiv(Poly.constant(32))
        nbytes = panels * k * Poly.constant(32 * 4)
        slot = Slot(len(self.plan.slots), "packed", DType.float32, nbytes, (k, n))
        self.plan.slots.append(slot)
        self._packed[key] = slot.number
        kind = self.plan.slots[source].kind
        layout = (right.offset, k, n, right.row, right.column)
        if kind in ("weight", "constant") and all(p.is_constant for p in layout):
            slot.packing = Packing(source, *layout)
            slot.name = self.plan.slots[source].name
            return slot.number
        slot.kind = "arena"

        def launch(env: Env, threads: int, runtime: Any) -> Launch:
            items = panels.evaluate(env)
            return Launch((), items, _grain(items, 64 * k.evaluate(env), threads), 0)

        # The built-in kernel takes whole buffers; for a part of one there is a line of code.
        whole = right.offset == ZERO
        self._add(
            group,
            "pack",
            None if whole else print_pack(right, k, n),
            [slot.number, source],
            launch,
            panels,
            sizes=[k, n, right.row, right.column] if whole else None,
            builtin="mx_k_pack_b_f32" if whole else "",
        )
        return slot.number

    def _attention(self, group: Group) -> None:
        parts = self.schedule.attentions[group.number]
        scores, product = parts.scores.result, parts.product.result
        shape = shape_of(scores)
        rank = len(shape)
        lowering = Lowering(self.schedule, group)
        lowered = lowering.score(parts.logits, scores, parts.maps)
        values = list(lowered.values)
        q, k = parts.scores.operands
        v = parts.product.operands[1]
        dim, dim_v = shape_of(q)[-1], shape_of(v)[-1]
        own = own_index(shape)
        names = [AXES[n] for n in range(rank - 2)]
        row, column = AXES[rank - 2], AXES[rank - 1]
        extents = {**extents_of(shape), REDUCED: dim}
        d = ZERO if dim == ONE else Poly.symbol(REDUCED)
        q_base, q_op = self._operand(q, (*own[:-1], d), extents, names, row, REDUCED, len(values))
        k_base, k_op = self._operand(
            k, (*own[:-2], d, own[-1]), extents, names, REDUCED, column, len(values) + 1
        )
        dv = ZERO if dim_v == ONE else Poly.symbol(REDUCED)
        extents_v = {**extents_of(shape), REDUCED: dim_v}
        v_base, v_op = self._operand(
            v, (*own[:-2], own[-1], dv), extents_v, names, column, REDUCED, len(values) + 2
        )
        position = flat_index(self.schedule, product, (*own[:-1], dv))
        out = Operand(
            len(values) + 3,
            ZERO,
            tuple(position.coefficient(a) or ZERO for a in names),
            position.coefficient(row) or ZERO,
            ONE,
        )
        batch = shape[0]
        heads = shape[1] if rank == 4 else ONE
        sizes = (batch, heads, shape[-2], shape[-1], dim, dim_v)
        printed = print_attention(
            q_op, k_op, v_op, out, sizes, lowered.kernel, parts.scores.origins[0]
        )
        pointers = [self.slot(x) for x in (*values, q_base, k_base, v_base, product)]

        def launch(env: Env, threads: int, runtime: Any) -> Launch:
            numbers = [p.evaluate(env) for p in sizes]
            block = runtime.ffi.new("i64 *")
            extent = runtime.products.mx_attention_plan(*numbers, threads, block)
            scratch = runtime.products.mx_attention_scratch(
                numbers[2], numbers[3], numbers[4], numbers[5], block[0]
            )
            return Launch((block[0],), extent, 1, scratch)

        self._add(group, "attention", printed, pointers, launch, batch * heads * shape[-2])


def lowering_rows(kernel: Kernel, batch: Sequence[str]) -> Kernel:
    """``kernel`` without the batch axes in its rows: a batched product passes their place."""
    rows = [axis for axis in kernel.rows if axis.name not in batch]
    return Kernel(kernel.kind, rows, kernel.inner, kernel.passes, kernel.buffers, kernel.reduction)


def _gemm_launch(m: Poly, n: Poly, k: Poly) -> Callable[[Env, int, Any], Launch]:
    def launch(env: Env, threads: int, runtime: Any) -> Launch:
        rows, columns, depth = m.evaluate(env), n.evaluate(env), k.evaluate(env)
        tile = runtime.ffi.new("i64[2]")
        runtime.products.mx_gemm_plan(rows, columns, depth, threads, tile, tile + 1)
        mb, nb = max(tile[0], 1), max(tile[1], 1)
        extent = -(-rows // mb) * -(-columns // nb)
        small = 2 * rows * columns * depth < 400_000
        scratch = runtime.products.mx_gemm_scratch(rows, columns, depth, mb, nb)
        return Launch((mb, nb), extent, max(extent, 1) if small else 1, scratch)

    return launch


def _batched_launch(items: Poly, m: Poly, n: Poly, k: Poly) -> Callable[[Env, int, Any], Launch]:
    def launch(env: Env, threads: int, runtime: Any) -> Launch:
        rows, columns, depth = m.evaluate(env), n.evaluate(env), k.evaluate(env)
        extent = items.evaluate(env)
        scratch = runtime.products.mx_matmul_scratch(rows, columns, depth)
        return Launch(
            (), extent, _grain(extent, 2 * rows * columns * max(depth, 1) // 16, threads), scratch
        )

    return launch


def _nbytes(shape: Index, dtype: DType) -> Poly:
    total = Poly.constant(dtype.size_in_bytes)
    for size in shape:
        total = total * size
    return total


def _weight(kernel: Kernel) -> int:
    """Scalar operations for each element of the inner axis."""
    total = 1
    for node in walk(list(kernel.expressions())):
        if node.varies:
            total += scalar_weight(node.data) if node.kind == "op" else 1
    return total


def _origins(schedule: Schedule, group: Group) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The ids of the user's ops that ``group`` computes, and the names of what it is made of."""
    ops: list[Op] = list(group.ops)
    for other in schedule.groups_inlined_into(group):
        ops.extend(other.ops)
    if group.source is not None and group.source.op is not None:
        ops.append(group.source.op)
    ids = dict.fromkeys(i for op in ops for i in op.origins)
    return tuple(ids), tuple(op.name.removeprefix("mo.") for op in ops)


def _label(names: Sequence[str], kind: str) -> str:
    short = list(dict.fromkeys(n.removeprefix("reduce.") for n in names))
    if kind == "attention":
        return "attention"
    if len(short) > 4:
        short = [*short[:3], f"{len(short) - 3}_more"]
    return ("pack_" if kind == "pack" else "") + "_".join(short) if short else kind
