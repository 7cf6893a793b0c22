"""Prints products and attention as CUDA: a call of a template, with what is fused as lambdas.

The templates are in ``kernels/cuda``; each is called by all threads of a block and walks over its
tiles in strides of the grid. What a result element becomes is printed from the same loop IR as
everything else, for one element: the template hands it over once, from a register.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from maxlab.compiler.codegen.c import axis_name
from maxlab.compiler.codegen.cuda import CudaPrinter, finish_kernel
from maxlab.compiler.codegen.scalar import literal, stored, stored_type
from maxlab.compiler.conventions import Operand
from maxlab.compiler.gpu_templates import ELEMENTS, AttentionTemplate, ProductTemplate
from maxlab.compiler.loops import Axis, Expr, Kernel, walk
from maxlab.compiler.lower import INNER
from maxlab.compiler.printed import CudaPrinted
from maxlab.compiler.products import AttentionCall, Contraction
from maxlab.compiler.scores import split, wide
from maxlab.dtype import DType
from maxlab.ir.poly import ONE, Poly


def pointers_of(kernel: Kernel, rest: Sequence[tuple[DType, bool]]) -> list[str]:
    """The pointer parameters: those of ``kernel``, then (dtype, written) of the operands."""
    found = [(b.dtype, b.written) for b in kernel.buffers]
    found += rest
    return [
        f"{'' if written else 'const '}{stored_type(dtype)} *__restrict__ p{number}"
        for number, (dtype, written) in enumerate(found)
    ]


def print_product(
    template: ProductTemplate,
    product: Contraction,
    dtype: DType,
    epilogue: Kernel,
    node: str,
) -> CudaPrinted:
    """The CUDA of a product whose elements ``epilogue`` stores; it reads them as the tile."""
    printer = CudaPrinter()
    printer.kernel = epilogue
    write = printer.write
    write.depth = 1
    batched = product.batched
    left, right = product.left, product.right
    m, items = product.m, product.items
    if not batched:
        left, m = product.flat_left()
        items = ONE
    config = template.config
    launched = f"{config}::THREADS == {template.threads} && {config}::SHARED == {template.shared}"
    write(f'static_assert(({launched}), "as it is launched");', node)
    write("MX_DYN_SHARED(unsigned char, shared);", node)
    element = ELEMENTS[dtype]
    elements = element if template.function.endswith("mma") else f"{element}, {element}"
    write(f"{template.function}<{config}, {elements}>(", node)
    write.depth += 1
    write("shared,", node)
    batch = product.batch if batched else []
    _base(printer, "left", left, batch, node)
    write(f"{printer.poly(left.row)}, {printer.poly(left.column)},", node)
    _base(printer, "right", right, batch, node)
    write(f"{printer.poly(right.row)}, {printer.poly(right.column)},", node)
    sizes = ", ".join(printer.poly(p) for p in (items, m, product.n, product.k))
    write(f"{sizes},", node)
    write("[=](i64 item, i64 row, i64 j, f32 tile) {", node)
    write.depth += 1
    used = set()
    for current in epilogue.passes:
        used |= {n for s in current.stores for n in s.index.symbols()}
        used |= _axes_of([s.value for s in current.stores])
    if batched:
        _batch_axes(printer, batch, used)
    names = {axis.name for axis in batch}
    rows = [axis for axis in epilogue.rows if axis.name not in names]
    inner = replace(epilogue, rows=rows)
    printer.rows_header(inner, "row")
    printer.axes[INNER] = "j"
    for current in epilogue.passes:
        roots = [s.value for s in current.stores]
        printer.emit(roots, False)
        printer.emit(roots, True)
        for store in current.stores:
            printer.store(store)
    write.depth -= 1
    write("}, spill);" if template.depth else "});", node)
    write.depth -= 1
    return finish_kernel(
        printer,
        pointers_of(epilogue, [(dtype, False), (dtype, False)]),
        template.threads,
        template.headers,
        shared=template.shared,
        bounds=f"{config}::THREADS, {config}::BLOCKS",
    )


def _axes_of(roots: Sequence[Expr]) -> set[str]:
    """The axes and symbols below ``roots``."""
    found: set[str] = set()
    for node in walk(list(roots)):
        if node.kind in ("load", "gather"):
            found |= set(node.data[1].symbols())
        elif node.kind == "index":
            found |= set(node.data.symbols())
        elif node.kind == "guard":
            for place, _ in node.data:
                found |= set(place.symbols())
    return found


def _base(
    printer: CudaPrinter, name: str, operand: Operand, batch: Sequence[Axis], node: str
) -> None:
    """A lambda from the item to the first element of its matrix."""
    write = printer.write
    position = operand.offset
    used: set[str] = set()
    for axis, stride in zip(batch, operand.batch, strict=False):
        if not stride.is_constant or stride != Poly.constant(0):
            position = position + Poly.symbol(axis.name) * stride
            used.add(axis.name)
    if not used:
        write(f"[=](i64) {{ return {_place(printer, operand, position)}; }},", node)
        return
    write("[=](i64 item) {", node)
    write.depth += 1
    outer = dict(printer.axes)
    _batch_axes(printer, batch, used)
    write(f"return {_place(printer, operand, position)};", node)
    printer.axes = outer
    write.depth -= 1
    write("},", node)


def _place(printer: CudaPrinter, operand: Operand, position: Poly) -> str:
    """The address of ``position`` of an operand."""
    name = f"p{operand.pointer}"
    return name if position == Poly.constant(0) else f"{name} + {printer.poly(position)}"


def _batch_axes(printer: CudaPrinter, batch: Sequence[Axis], used: set[str]) -> None:
    """Declare the batch axes that are used from the number ``item``."""
    place = ONE
    for number, axis in reversed(list(enumerate(batch))):
        name = axis_name(axis.name)
        if axis.name in used:
            text = "item" if place == ONE else f"item / {printer.poly(place)}"
            if number:
                text += f" % {printer.poly(axis.extent)}"
            printer.write(f"const i64 {name} = {text};")
            printer.axes[axis.name] = name
        place = place * axis.extent


def print_attention(
    template: AttentionTemplate,
    call: AttentionCall,
    dtype: DType,
    score: Kernel,
    bound: Poly | None,
    node: str,
) -> CudaPrinted:
    """The CUDA of fused attention.

    ``score`` turns the raw score, its tile, into the value that its only store has; ``bound`` is
    how many keys a query sees, None for all. Scores of halves stay float32 unless all has to be
    exact; see `maxlab.compiler.scores`.
    """
    if dtype is not DType.float32 and score.accuracy != "exact":
        score = wide(score)
    printer = CudaPrinter()
    printer.kernel = score
    printer.tile = "raw"
    write = printer.write
    write.depth = 1
    rank = len(score.rows)
    names = ["batch", "head"] if rank == 3 else ["batch"]
    config = template.config
    sizes = f"{config}::THREADS == {template.threads} && {config}::SHARED == {template.shared}"
    write(f'static_assert({sizes}, "as it is launched");', node)
    write("MX_DYN_SHARED(unsigned char, shared);", node)
    element = ELEMENTS[dtype]
    write(f"{template.function}<{config}, {element}>(", node)
    write.depth += 1
    write("shared,", node)
    axes = dict(zip(call.axes, names, strict=True))
    for operand in (call.q, call.k, call.v):
        _head_base(printer, operand, axes, node)
        row, column = operand.row, operand.column
        if operand is call.k:  # its columns are keys: it is read as a row for each key
            row, column = column, row
        write(f"{printer.poly(row)}, {printer.poly(column)},", node)
    write(", ".join(printer.poly(p) for p in call.sizes) + ",", node)
    query = axis_name(score.rows[-1].name)
    for axis, name in zip(score.rows, names, strict=False):
        printer.axes[axis.name] = name
    printer.axes[score.rows[-1].name] = query
    printer.axes[INNER] = "j"
    (current,) = score.passes
    (store,) = current.stores
    if template.on_tensor_cores:
        parts = split(store.value, bounded=bound is not None)
        write(f"{literal(parts.scale, DType.float32)},", node)
        _score(printer, query, parts.score, node)
        if parts.open is None:
            write("mx_as_score(),", node)
        else:
            _score(printer, query, parts.open, node)
    else:
        _score(printer, query, store.value, node)
    limit = printer.poly(call.sizes[3] if bound is None else bound)
    argument = f"i64 {query}" if bound is not None and _uses(bound, score.rows[-1].name) else "i64"
    write(f"[=](i64 batch, i64 head, {argument}) -> i64 {{ return {limit}; }},", node)
    own = ", spill" if template.function == "mx_attention_decode" else ""
    place = call.out.offset
    for name, stride in zip(call.axes, call.out.batch, strict=True):
        place = place + Poly.symbol(name) * stride
    target = printer.poly(place + Poly.symbol(score.rows[-1].name) * call.out.row)
    write(
        f"[=](i64 batch, i64 head, i64 {query}, i64 d, f32 value) "
        f"{{ p{call.out.pointer}[{target} + d] = {stored('value', dtype)}; }}{own});",
        node,
    )
    write.depth -= 1
    rest = [(dtype, False)] * 3 + [(dtype, True)]
    pointers = pointers_of(score, rest)
    return finish_kernel(
        printer,
        pointers,
        template.threads,
        template.headers,
        shared=template.shared,
        bounds=f"{config}::THREADS, {config}::BLOCKS",
    )


def _score(printer: CudaPrinter, query: str, value: Expr, node: str) -> None:
    """A lambda that makes ``value`` of a raw score."""
    write = printer.write
    write(f"[=](i64 batch, i64 head, i64 {query}, i64 j, f32 raw) -> f32 {{", node)
    write.depth += 1
    outer = dict(printer.names)
    printer.emit([value], False)
    printer.emit([value], True)
    write(f"return {printer.names[value.number]};", value.node)
    printer.names = outer
    write.depth -= 1
    write("},", node)


def _uses(poly: Poly, name: str) -> bool:
    return name in poly.symbols()


def _head_base(printer: CudaPrinter, operand: Operand, axes: dict[str, str], node: str) -> None:
    """A lambda from batch and head to the first element; its place may be any function of both."""
    outer = dict(printer.axes)
    printer.axes.update(axes)
    text = _place(printer, operand, operand.offset)
    printer.axes = outer
    printer.write(f"[=](i64 batch, i64 head) {{ return {text}; }},", node)
