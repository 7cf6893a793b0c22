"""The steps of a plan that run on a GPU: which CUDA kernels, and how they are launched.

Launch shapes are chosen when sizes are known. Every generated kernel walks over its work in
strides of the whole grid, so any grid is right, and the choice is about speed alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from maxlab.compiler.codegen import cuda
from maxlab.compiler.codegen.cuda import CudaPrinted
from maxlab.compiler.codegen.cuda_product import print_attention, print_product
from maxlab.compiler.gpu_templates import (
    ELEMENTS,
    AttentionTemplate,
    ProductTemplate,
    attention_templates,
    choose_attention,
    choose_product,
    product_templates,
)
from maxlab.compiler.groups import Group
from maxlab.compiler.loops import Expr, Kernel
from maxlab.compiler.lower import Lowered, Lowering
from maxlab.compiler.masks import visible_keys
from maxlab.compiler.plan import Env, GpuKernels, GpuLaunch, Launch, LibraryCall, Step
from maxlab.compiler.plan_sink import PlanSink
from maxlab.compiler.products import Contraction, attention_of, contraction_of
from maxlab.compiler.reuse import merged
from maxlab.compiler.traffic import attention_touched, product_touched, touched
from maxlab.driver.backend import Product, Properties
from maxlab.dtype import DType
from maxlab.ir import Op
from maxlab.ir.poly import ONE, Poly

BLOCKS_PER_PROCESSOR = 16
"""Blocks of 256 threads that keep a multiprocessor full, twice over, so that none ends alone."""
WARP = 32
WARPS = cuda.THREADS // WARP
NARROW = 1024
"""Rows up to this width are folded by one warp each, wider ones by a block."""
LONG_ROW, PART = 1 << 15, 1 << 12
"""Rows from this length on are folded by several blocks, each of which has so many elements or
more, when there are too few rows to keep all multiprocessors busy.
"""
LARGE_PRODUCT = 1 << 27
"""Multiplications from which on a product is left to the vendor's library, if it is plain and the
library is there: 512 cubed. Below that a launch is most of the time.
"""
SHARED_ROWS = 96 << 10
"""Bytes of kept rows that a block may have in shared memory; two blocks then fit."""


def cpu_launch(env: Env, threads: int, runtime: Any) -> Launch:
    """What a step of a GPU has in the place of its launch on the CPU."""
    raise AssertionError("a step of a GPU is not launched on the CPU")


def grid_of(wanted: int, properties: Properties) -> tuple[int, int, int]:
    """A grid of ``wanted`` blocks, or of as many as keep the device full."""
    most = BLOCKS_PER_PROCESSOR * properties.multiprocessors
    return (min(wanted, most), 1, 1)


class GpuSteps:
    """Adds the GPU's steps to the plan of ``sink``."""

    def __init__(self, sink: PlanSink) -> None:
        self.sink = sink

    def rows(
        self,
        group: Group,
        lowered: Lowered,
        slots: list[int] | None = None,
        computed: Sequence[Op] | None = None,
    ) -> None:
        """The step of a map or row kernel."""
        sink, kernel = self.sink, lowered.kernel
        pointers = slots if slots is not None else [sink.slot(v) for v in lowered.values]
        flat = kernel.kind == "map" and not kernel.rows
        extent = kernel.inner.extent if flat else ONE
        for axis in kernel.rows:
            extent = extent * axis.extent
        if flat:
            kernels = _flat(kernel, extent)
        elif kernel.kind == "map":
            kernels = _mapped_rows(kernel, extent)
        else:
            lean = functools.cache(lambda: Lowering(sink.schedule, group).rows())
            kernels = _folded_rows(lowered, lean, extent)
        step = sink.add(
            group,
            kernel.kind if group.kind in ("map", "row") else group.kind,
            kernels.printed(),
            pointers,
            cpu_launch,
            extent,
            touches=lambda: touched(kernel),
            computed=computed,
            loops=lowered,
            gpu=kernels,
        )

        def in_place(target: int, source: int) -> Step | None:
            if kernel.kind != "map":  # the threads of a row read it at different times
                return None
            made = merged(lowered, target, source, by_element=True)
            if made is None:
                return None
            left = [n for at, n in enumerate(pointers) if at != target]
            return sink.apart(lambda: self.rows(group, made, left, computed))

        step.in_place = in_place

    def columns(self, group: Group, lowered: Lowered) -> None:
        """The step of a column kernel, or of a product that has no faster way."""
        sink, kernel = self.sink, lowered.kernel
        items = kernel.inner.extent
        for axis in kernel.rows:
            items = items * axis.extent
        printed = cuda.print_columns(kernel)

        def launch(env: Env, properties: Properties) -> GpuLaunch:
            count = items.evaluate(env)
            grid = grid_of(-(-count // cuda.THREADS), properties)
            return GpuLaunch(0, grid, (cuda.THREADS, 1, 1), 0, 0, count)

        sink.add(
            group,
            "reduce" if group.kind == "col" else group.kind,
            printed,
            [sink.slot(v) for v in lowered.values],
            cpu_launch,
            items,
            touches=lambda: touched(kernel),
            loops=lowered,
            gpu=GpuKernels([lambda: printed], launch),
        )

    def contract(self, group: Group) -> None:
        """The step of a product of matrices."""
        sink, schedule = self.sink, self.sink.schedule
        op = group.main
        assert op is not None
        dtype = op.result.tensor_type.dtype
        if dtype not in ELEMENTS:
            self.columns(group, Lowering(schedule, group).columns(op))
            return
        lowering = Lowering(schedule, group)
        batched = contraction_of(schedule, op, 0).batched
        made = lowering.epilogue(op.result, op.result.tensor_type.sizes[-1], batched, True)
        values = list(made.values)
        product = contraction_of(schedule, op, len(values))
        templates = product_templates(dtype, product.right.row == ONE)
        node = op.origins[0]
        items, m = (product.items, product.m) if batched else (ONE, product.flat_left()[1])
        n = product.n

        def maker(template: ProductTemplate) -> Callable[[], CudaPrinted]:
            return lambda: print_product(template, product, dtype, made.kernel, node)

        def launch(env: Env, properties: Properties) -> GpuLaunch:
            sizes = items.evaluate(env), m.evaluate(env), n.evaluate(env)
            number = choose_product(templates, sizes, properties)
            chosen = templates[number]
            blocks = sizes[0] * -(-sizes[1] // chosen.rows) * -(-sizes[2] // chosen.columns)
            grid = grid_of(blocks, properties)
            count = sizes[0] * sizes[1] * sizes[2]
            return GpuLaunch(number, grid, (chosen.threads, 1, 1), 0, 0, count)

        library = _library_call(product, made.kernel, dtype, len(values))
        if made.kernel.tests_results:  # which the library does not
            library = None
        kernels = GpuKernels([maker(t) for t in templates], launch, library)
        pointers = [sink.slot(v) for v in (*values, product.left_base, product.right_base)]
        sink.add(
            group,
            "contract",
            kernels.printed(),
            pointers,
            cpu_launch,
            items * m * n,
            touches=lambda: product_touched(made.kernel, product, -1),
            gpu=kernels,
        )

    def attention(self, group: Group) -> None:
        """The step of fused attention."""
        sink, schedule = self.sink, self.sink.schedule
        parts = schedule.attentions[group.number]
        scores = parts.scores.result
        dtype = scores.tensor_type.dtype
        made = Lowering(schedule, group).score(parts.logits, scores, parts.maps)
        values = list(made.values)
        call = attention_of(schedule, parts, len(values), free=True)
        batch, heads, queries, _, *head_sizes = call.sizes
        templates = attention_templates(max(p.evaluate({}) for p in head_sizes))
        ((store,),) = (made.kernel.passes[0].stores,)
        bound = visible_keys(store.value, made.kernel.rows[-1].name)
        node = parts.scores.origins[0]

        def maker(template: AttentionTemplate) -> Callable[[], CudaPrinted]:
            return lambda: print_attention(template, call, dtype, made.kernel, bound, node)

        def launch(env: Env, properties: Properties) -> GpuLaunch:
            sizes = (batch * heads).evaluate(env), queries.evaluate(env)
            number = choose_attention(templates, sizes, properties)
            chosen = templates[number]
            grid = grid_of(sizes[0] * -(-sizes[1] // chosen.queries), properties)
            count = sizes[0] * sizes[1]
            return GpuLaunch(number, grid, (chosen.threads, 1, 1), chosen.shared, 0, count)

        kernels = GpuKernels([maker(t) for t in templates], launch)
        sink.add(
            group,
            "attention",
            kernels.printed(),
            [sink.slot(x) for x in (*values, *call.bases)],
            cpu_launch,
            batch * heads * queries,
            touches=lambda: attention_touched(made.kernel, call),
            gpu=kernels,
        )


def _library_call(
    product: Contraction, epilogue: Kernel, dtype: DType, pointers: int
) -> Callable[[Env], LibraryCall | None] | None:
    """How the vendor's library makes a product that nothing else is fused with."""
    stores = [store for current in epilogue.passes for store in current.stores]
    left, rows = (product.left, product.m) if product.batched else product.flat_left()
    if len(stores) != 1 or not _is_tile(stores[0].value) or len(product.batch) > 1:
        return None
    if product.batched and not product.batch:
        return None

    def call(env: Env) -> LibraryCall | None:
        m, n, k, items = (p.evaluate(env) for p in (rows, product.n, product.k, product.items))
        items = items if product.batched else 1
        if m * n * k * items < LARGE_PRODUCT:
            return None
        transposed = []
        for operand, shape in ((left, (m, k)), (product.right, (k, n))):
            strides = operand.row.evaluate(env), operand.column.evaluate(env)
            if strides == (shape[1], 1):
                transposed.append(False)
            elif strides == (1, shape[0]):
                transposed.append(True)
            else:
                return None
        made = Product(m, n, k, dtype, transpose_a=transposed[0], transpose_b=transposed[1])
        if product.batched:
            steps = (o.batch[0].evaluate(env) for o in (left, product.right))
            made = replace(
                made, batch=items, stride_a=next(steps), stride_b=next(steps), stride_c=m * n
            )
        size = dtype.size_in_bytes
        places = [o.offset.evaluate(env) * size for o in (left, product.right)]
        return LibraryCall(
            made, (stores[0].buffer, pointers, pointers + 1), (0, places[0], places[1])
        )

    return call


def _is_tile(value: Expr) -> bool:
    while value.kind == "cast":
        value = value.args[0]
    return value.kind == "tile"


def cuda_of(lowered: Lowered) -> cuda.CudaPrinted:
    """The usual CUDA kernel for the loops of a kernel."""
    kernel = lowered.kernel
    if kernel.kind == "col":
        return cuda.print_columns(kernel)
    if kernel.kind == "row":
        return cuda.print_folded_rows(kernel, lowered.kept, False)
    return cuda.print_mapped_rows(kernel) if kernel.rows else cuda.print_flat(kernel)


def _flat(kernel: Kernel, extent: Poly) -> GpuKernels:
    """One thread an element."""
    printed = cuda.print_flat(kernel)

    def launch(env: Env, properties: Properties) -> GpuLaunch:
        items = extent.evaluate(env)
        grid = grid_of(-(-items // (cuda.THREADS * printed.width)), properties)
        return GpuLaunch(0, grid, (cuda.THREADS, 1, 1), 0, 0, items)

    return GpuKernels([lambda: printed], launch)


def _mapped_rows(kernel: Kernel, extent: Poly) -> GpuKernels:
    """Blocks of several rows when these are short, and several blocks a row when they are long."""
    printed = cuda.print_mapped_rows(kernel)
    inner = kernel.inner.extent

    def launch(env: Env, properties: Properties) -> GpuLaunch:
        items, width = extent.evaluate(env), inner.evaluate(env)
        across = 1
        while across < min(width, cuda.THREADS):
            across *= 2
        down = cuda.THREADS // across
        rows = -(-items // down)
        grid = grid_of(rows, properties)
        columns = -(-width // across)
        spare = max(BLOCKS_PER_PROCESSOR * properties.multiprocessors // max(rows, 1), 1)
        grid = (grid[0] if width else 0, min(columns, spare) if columns else 1, 1)
        return GpuLaunch(0, grid, (across, down, 1), 0, 0, items)

    return GpuKernels([lambda: printed], launch)


def _folded_rows(lowered: Lowered, lean: Callable[[], Lowered], extent: Poly) -> GpuKernels:
    """A warp a row or a block a row, by the rows' width. ``lean`` is for rows that do not fit into
    shared memory: to keep what was read would then be to write it and read it again.
    """
    kernel, kept = lowered.kernel, lowered.kept
    variants = [
        lambda: cuda.print_folded_rows(kernel, kept, False),
        lambda: cuda.print_folded_rows(kernel, kept, True),
        lambda: cuda.print_folded_rows(lean().kernel, lean().kept, False),
    ]
    splits = cuda.can_split(kernel)
    if splits:
        variants.append(lambda: cuda.print_split_rows(kernel))
    inner, size = kernel.inner.extent, cuda.kept_size(kernel)
    folds = len(kernel.passes[0].folds)

    def launch(env: Env, properties: Properties) -> GpuLaunch:
        items, width = extent.evaluate(env), inner.evaluate(env)
        busy = 2 * properties.multiprocessors
        if splits and width >= LONG_ROW and 0 < items < busy:
            parts = min(-(-width // PART), -(-busy // items))
            own = cuda.split_bytes(items, parts, folds)
            return GpuLaunch(3, (parts, items, 1), (cuda.THREADS, 1, 1), 0, 0, items, own)
        row = kept * cuda.row_bytes(width, size)
        most = min(SHARED_ROWS, properties.shared_bytes)
        if width <= NARROW and row * WARPS <= most:
            grid = grid_of(-(-items // WARPS), properties)
            return GpuLaunch(1, grid, (WARP, WARPS, 1), row * WARPS, 0, items)
        threads = min(cuda.THREADS, -(-max(width, 1) // (4 * WARP)) * WARP)
        grid = grid_of(items, properties)
        if row <= most:
            return GpuLaunch(0, grid, (threads, 1, 1), row, 0, items)
        less = lean()
        row = less.kept * cuda.row_bytes(width, cuda.kept_size(less.kernel))
        if row <= most:
            return GpuLaunch(2, grid, (threads, 1, 1), row, 0, items)
        return GpuLaunch(2, grid, (threads, 1, 1), 0, row * grid[0], items)

    return GpuKernels(variants, launch)
