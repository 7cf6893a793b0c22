"""The steps of a plan that run on a GPU: which CUDA kernels, and how they are launched."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from maxlab.compiler.codegen import cuda, cuda_maps
from maxlab.compiler.codegen.cuda_rows import row_shapes
from maxlab.compiler.conventions import row_bytes
from maxlab.compiler.gpu_templates import (
    ELEMENTS,
    attention_templates,
    product_templates,
)
from maxlab.compiler.gpu_texts import AttentionText, ProductText, RowsText
from maxlab.compiler.groups import Group
from maxlab.compiler.launches import (
    FoldedRows,
    Heads,
    LibraryProduct,
    MappedRows,
    Strided,
    Tiles,
)
from maxlab.compiler.loops import Expr, Kernel
from maxlab.compiler.lower import Lowered, Lowering
from maxlab.compiler.masks import visible_keys
from maxlab.compiler.plan import GpuKernels, Step
from maxlab.compiler.plan_sink import PlanSink
from maxlab.compiler.printed import CudaPrinted
from maxlab.compiler.products import Contraction, attention_of, contraction_of, is_batched
from maxlab.compiler.reuse import merged
from maxlab.compiler.traffic import AttentionLoops, Loops, ProductLoops
from maxlab.dtype import DType
from maxlab.ir import Op, Value
from maxlab.ir.poly import ONE, Poly

LEAST_SHARED = 48 << 10
"""Bytes of shared memory that a block may have on every device."""


class GpuSteps:
    """Adds the GPU's steps to the plan of ``sink``."""

    def __init__(self, sink: PlanSink) -> None:
        self.sink = sink

    def rows(self, group: Group) -> None:
        """The step of a map or row kernel, or of a copy."""
        lowered = Lowering(self.sink.schedule, group, keep_loads=True).rows()
        self._rows(group, lowered, self.sink.slots_of(lowered.values))

    def output(self, group: Group, slot: Callable[[], int]) -> None:
        """The step that copies into an output; ``slot`` makes that."""
        lowered = Lowering(self.sink.schedule, group).rows()
        self._rows(group, lowered, self.sink.slots_with(lowered, slot))

    def part(self, group: Group, operand: Value, axis: int, offset: Poly) -> None:
        """The step that copies ``operand`` into a concat, ``offset`` along ``axis``."""
        schedule = self.sink.schedule
        lowered = Lowering(schedule, group).part(operand, axis, offset)
        computed = schedule.inliner.ops_for(group, operand)
        self._rows(group, lowered, self.sink.slots_of(lowered.values), computed)

    def _rows(
        self,
        group: Group,
        lowered: Lowered,
        pointers: list[int],
        computed: Sequence[Op] | None = None,
    ) -> None:
        """The step of ``lowered``."""
        sink, kernel = self.sink, lowered.kernel
        flat = kernel.kind == "map" and not kernel.rows
        extent = kernel.inner.extent if flat else ONE
        for axis in kernel.rows:
            extent = extent * axis.extent
        if flat:
            kernels = _flat(kernel, extent)
        elif kernel.kind == "map":
            kernels = _mapped_rows(kernel, extent)
        else:
            kernels = _folded_rows(lowered, lambda: Lowering(sink.schedule, group).rows(), extent)
        step = sink.add(
            group,
            kernel.kind if group.kind in ("map", "row") else group.kind,
            kernels.printed(),
            pointers,
            None,
            extent,
            touching=Loops(kernel),
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
            return sink.apart(lambda: self._rows(group, made, left, computed))

        sink.let_in_place(step, in_place)

    def columns(self, group: Group) -> None:
        """The step of a column kernel."""
        self._columns(group, Lowering(self.sink.schedule, group).columns())

    def _columns(self, group: Group, lowered: Lowered) -> None:
        """The step of ``lowered``, a column kernel or a product that has no faster way."""
        sink, kernel = self.sink, lowered.kernel
        items = kernel.inner.extent
        for axis in kernel.rows:
            items = items * axis.extent
        printed = cuda.print_columns(kernel)

        sink.add(
            group,
            "reduce" if group.kind == "col" else group.kind,
            printed,
            [sink.slot(v) for v in lowered.values],
            None,
            items,
            touching=Loops(kernel),
            loops=lowered,
            gpu=GpuKernels([printed], Strided(items)),
        )

    def contract(self, group: Group) -> None:
        """The step of a product of matrices."""
        sink, schedule = self.sink, self.sink.schedule
        op = group.main
        assert op is not None
        dtype = op.result.tensor_type.dtype
        if dtype not in ELEMENTS:
            self._columns(group, Lowering(schedule, group).columns(op))
            return
        lowering = Lowering(schedule, group)
        batched = is_batched(op)
        made = lowering.epilogue(op.result, op.result.tensor_type.sizes[-1], batched, True)
        values = list(made.values)
        product, bases = contraction_of(schedule, op, len(values))
        templates = product_templates(dtype, product.right.row == ONE)
        node = op.origins[0]
        items, m = (product.items, product.m) if batched else (ONE, product.flat_left()[1])
        n = product.n

        library = _library_product(product, made.kernel, dtype)
        if made.kernel.tests_results:  # which the library does not
            library = None
        tiles = Tiles((items, m, n, product.k), tuple(templates))
        texts = [ProductText(t, product, dtype, made.kernel, node) for t in templates]
        kernels = GpuKernels(texts, tiles, library)
        pointers = [sink.slot(v) for v in (*values, *bases)]
        sink.add(
            group,
            "contract",
            kernels.printed(),
            pointers,
            None,
            items * m * n,
            touching=ProductLoops(made.kernel, product, -1),
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
        call, bases = attention_of(schedule, parts, len(values), free=True)
        batch, heads, queries, keys, *head_sizes = call.sizes
        head = max(p.evaluate({}) for p in head_sizes)
        templates = attention_templates(head, dtype, schedule.options.accuracy)
        ((store,),) = (made.kernel.passes[0].stores,)
        bound = visible_keys(store.value, made.kernel.rows[-1].name)
        node = parts.scores.origins[0]

        launch = Heads(batch * heads, queries, keys, tuple(templates))
        texts = [AttentionText(t, call, dtype, made.kernel, bound, node) for t in templates]
        kernels = GpuKernels(texts, launch)
        sink.add(
            group,
            "attention",
            kernels.printed(),
            [sink.slot(x) for x in (*values, *bases)],
            None,
            batch * heads * queries,
            touching=AttentionLoops(made.kernel, call),
            gpu=kernels,
        )


def _library_product(product: Contraction, epilogue: Kernel, dtype: DType) -> LibraryProduct | None:
    """The product that the vendor's library can make, where nothing else is fused with it."""
    stores = [store for current in epilogue.passes for store in current.stores]
    left, rows = (product.left, product.m) if product.batched else product.flat_left()
    if len(stores) != 1 or not _is_tile(stores[0].value) or len(product.batch) > 1:
        return None
    if product.batched and not product.batch:
        return None
    items = product.items if product.batched else None
    sizes = rows, product.n, product.k
    return LibraryProduct(sizes, left, product.right, dtype, stores[0].buffer, items)


def _is_tile(value: Expr) -> bool:
    while value.kind == "cast":
        value = value.args[0]
    return value.kind == "tile"


def cuda_of(lowered: Lowered) -> CudaPrinted:
    """The usual CUDA kernel for the loops of a kernel."""
    kernel = lowered.kernel
    if kernel.kind == "col":
        return cuda.print_columns(kernel)
    if kernel.kind == "row":
        return cuda.print_folded_rows(kernel, lowered.kept, False)
    return cuda_maps.print_mapped_rows(kernel) if kernel.rows else cuda_maps.print_flat(kernel)


def _flat(kernel: Kernel, extent: Poly) -> GpuKernels:
    """One thread an element."""
    printed = cuda_maps.print_flat(kernel)
    return GpuKernels([printed], Strided(extent, printed.width))


def _mapped_rows(kernel: Kernel, extent: Poly) -> GpuKernels:
    """Blocks of several rows when these are short, and several blocks a row when they are long."""
    printed = cuda_maps.print_mapped_rows(kernel)
    return GpuKernels([printed], MappedRows(extent, kernel.inner.extent, printed.width))


def _folded_rows(lowered: Lowered, lean: Callable[[], Lowered], extent: Poly) -> GpuKernels:
    """A warp a row or a block a row, by the rows' width. ``lean`` makes the loops for rows that do
    not fit into shared memory: to keep what was read would then be to write it and read it again.
    """
    kernel, kept, width = lowered.kernel, lowered.kept, lowered.kernel.inner.extent
    size = cuda.kept_size(kernel)
    fits = width.is_constant and kept * row_bytes(width.value, size) <= LEAST_SHARED
    less = lowered if fits or not kept else lean()
    shapes = row_shapes(kernel)
    texts = [
        *(RowsText(kernel, kept, shape) for shape in shapes),
        RowsText(kernel, kept, "block"),
        RowsText(kernel, kept, "warp"),
        RowsText(less.kernel, less.kept, "block"),
    ]
    folds = len(kernel.passes[0].folds) if cuda.can_split(kernel) else 0
    if folds:
        texts.append(RowsText(kernel, kept, "blocks"))
    kept_less = less.kept, cuda.kept_size(less.kernel)
    return GpuKernels(texts, FoldedRows(extent, width, kept, size, kept_less, folds, shapes))
