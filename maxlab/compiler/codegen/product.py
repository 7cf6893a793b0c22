"""Prints products of matrices and attention: calls into the runtime library, with generated code
for what is fused.
"""

from __future__ import annotations

from collections.abc import Sequence

from maxlab.compiler.codegen.c import (
    EPILOGUE,
    NAME,
    SIGNATURE,
    Printer,
    axis_name,
    finish,
)
from maxlab.compiler.conventions import HALVES, Operand
from maxlab.compiler.loops import Axis, Expr, Kernel
from maxlab.compiler.lower import INNER
from maxlab.compiler.printed import Printed
from maxlab.dtype import DType
from maxlab.ir.poly import ONE, Poly

NARROW = 256
"""Columns up to which an epilogue has loops of its own for all columns: how many vectors a row has,
and what is left, is found out once, and not in each row."""
TILED = "tiled[(row - r0) * width + j - c0]"
"""In an epilogue: an element of a tile that is not where the result is, or not always."""
HALF_TILE = (
    "const f32 *RS tiled = (const f32 *)ctx->scratch;",
    "const i64 width = (c1 - c0 + 31) / 32 * 32;",
)
"""In an epilogue: the tile of a product of halves, in rows of whole panels."""
OWN_TILE = ("f32 *RS tiled = ctx->tile;", "const i64 width = ctx->across;")
"""In an epilogue: the tile of a product of float32, from where it comes to its place."""

SCORE = (
    "(void *const *b, const i64 *d, f32 *S, i64 lds, i64 batch, i64 head, i64 q0, i64 q1, i64 k0, "
    "i64 k1, mx_ctx *ctx)"
)


def _static(printer: Printer, name: str, parameters: str, symbols: list[str]) -> str:
    """The helper function that ``printer`` wrote, with its sizes declared from ``symbols``."""
    sizes = "".join(f"  const i64 s{n} = d[{n}];\n" for n in range(len(symbols)))
    body = "\n".join(printer.write.out)
    unused = "".join(f" (void)s{n};" for n in range(len(symbols)))
    void = f" {unused}\n" if symbols else ""
    return f"static int {NAME}_{name}{parameters} {{\n{sizes}{void}{body}\n  return 0;\n}}"


def _epilogue(
    kernel: Kernel | None,
    symbols: list[str],
    tile: str,
    batch: list[Axis],
    aside: Sequence[str] = (),
    into: int | None = None,
) -> tuple[str, Printer | None]:
    """The epilogue function of a product; empty when there is nothing to fuse.

    Args:
        kernel: What is fused.
        symbols: The sizes that the kernel is told.
        tile: An element of the product.
        batch: The axes whose place a batched product passes behind the sizes.
        aside: How the tile is found, where the product is not in the memory of the result.
        into: The buffer whose elements take the place of the product's in the tile.
    """
    if kernel is None or not any(p.stores for p in kernel.passes):
        return "", None
    printer = Printer(symbols)
    printer.kernel = kernel
    write = printer.write
    write.depth = 1
    printer.tile = tile
    printer.in_tile = into
    printer.pointers(kernel)
    for line in aside:
        write(line)
    for n, axis in enumerate(batch):
        name = printer.axes[axis.name] = axis_name(axis.name)
        write(f"const i64 {name} = d[BATCH + {n}];")
    width = kernel.inner.extent
    if width.is_constant and width.value <= NARROW:
        with write.block(f"if (c0 == 0 && c1 == {width.value})"):
            _print_tile(printer, kernel, "0", str(width.value))
        with write.block("else"):
            _print_tile(printer, kernel, "c0", "c1")
    else:
        _print_tile(printer, kernel, "c0", "c1")
    return "finish", printer


def _print_tile(printer: Printer, kernel: Kernel, low: str, high: str) -> None:
    """The loops of an epilogue over the rows of a tile and its columns ``low`` to ``high``."""
    names = dict(printer.names)
    with printer.write.block("for (i64 row = r0; row < r1; row++)"):
        printer.rows_header(kernel, "row")
        for current in kernel.passes:
            printer.loop(low, high, current)
    printer.names = names


def finish_with(printer: Printer, epilogue: Kernel, tile: str) -> Printed:
    """The kernel of ``printer``, an op's own, with the function ``KERNEL_finish`` ahead of it that
    finishes a part of the result, whose element is ``tile``.
    """
    name, helper = _epilogue(epilogue, printer.symbols, tile, [])
    made = _assemble(printer, helper, name, EPILOGUE)
    made.text = made.text.replace("static int", "static __attribute__((noinline)) int", 1)
    return made


def _assemble(printer: Printer, helper: Printer | None, name: str, parameters: str) -> Printed:
    """The kernel with its helper function ahead of it."""
    if helper is None:
        return finish(printer, f"int {NAME}{SIGNATURE} {{")
    symbols = printer.symbols
    static = _static(helper, name, parameters, symbols).replace("BATCH", str(len(symbols)))
    printer.write.out = [line.replace("BATCH", str(len(symbols))) for line in printer.write.out]
    head = static + f"\nint {NAME}{SIGNATURE} {{"
    made = finish(printer, head)
    # finish counted the head as one line and put the kernel's own lines behind it
    extra = head.count("\n")
    first = len(symbols) + 1 + (1 if symbols else 0)
    lines = [(a + first, b + first, node) for a, b, node in helper.write.lines()]
    lines += [(a + extra, b + extra, node) for a, b, node in made.lines]
    return Printed(made.symbol, made.text, symbols, lines, helper.checked)


def print_gemm(
    left: Operand,
    packed: int,
    result: int,
    m: Poly,
    n: Poly,
    k: Poly,
    epilogue: Kernel | None,
    node: str,
    dtype: DType = DType.float32,
    stays: bool = False,
) -> Printed:
    """The C of ``result[m, n] = left[m, k] @ packed``; its sizes end with those of the plan
    that ``engine.launching`` chooses: mb and nb, and of float32 how deep blocks are. A result of
    float32 that ``stays`` is left in the caches of the threads that make it.
    """
    half = HALVES.get(dtype)
    symbols: list[str] = []
    printer = Printer(symbols)
    printer.begins = epilogue is not None and epilogue.begins
    rows, columns, inner = (printer.poly(p) for p in (m, n, k))
    stride, offset = printer.poly(left.row), printer.poly(left.offset)
    aside, place = (OWN_TILE, result) if half is None else (HALF_TILE, None)
    name, helper = _epilogue(epilogue, symbols, TILED, [], aside, place)
    write = printer.write
    write.depth = 1
    write("// the tile sizes follow the dims", node)
    write("const i64 *plan = d + BATCH;", node)
    stored = "f32" if half is None else "u16"
    a = f"(const {stored} *)b[{left.pointer}]" + (f" + {offset}" if offset != "0" else "")
    into = f"gemm_by((f32 *)b[{result}], {columns}" if half is None else f"half_gemm({half}"
    tile = f"plan, {int(stays)}" if half is None else "plan[0], plan[1]"
    write(
        f"return ctx->lib->{into}, {a}, {stride}, "
        f"(const {stored} *)b[{packed}], {rows}, {columns}, {inner}, {tile}, lo, hi, "
        f"{f'{NAME}_{name}' if helper else '0'}, b, d, ctx);",
        node,
    )
    if helper is None:
        printer.write.out = [line.replace("BATCH", str(len(symbols))) for line in write.out]
    return _assemble(printer, helper, name, EPILOGUE)


def print_pack(right: Operand, k: Poly, n: Poly, dtype: DType = DType.float32) -> Printed:
    """The C that packs a part of a buffer, the right operand of a product, into column panels."""
    half = HALVES.get(dtype)
    call, stored = ("pack_b_f32(", "f32") if half is None else (f"half_pack({half}, ", "u16")
    printer = Printer()
    printer.write.depth = 1
    sizes = ", ".join(printer.poly(p) for p in (k, n, right.row, right.column))
    printer.write(
        f"ctx->lib->{call}({stored} *)b[0], (const {stored} *)b[1] + "
        f"{printer.poly(right.offset)}, {sizes}, lo, hi);"
    )
    if half is not None:
        whole = f"{printer.poly(k)}, {printer.poly(n)}"
        printer.write(f"ctx->lib->half_mark({half}, (u16 *)b[0], {whole}, lo, hi);")
    return finish(printer, f"int {NAME}{SIGNATURE} {{")


def print_batched(
    left: Operand,
    right: Operand,
    result: int,
    batch: list[Axis],
    m: Poly,
    n: Poly,
    k: Poly,
    epilogue: Kernel | None,
    node: str,
    dtype: DType = DType.float32,
) -> Printed:
    """The C of a batched product of strided operands; its parallel axis is the batch. Of float32,
    its sizes end with the way that ``engine.launching`` chooses.
    """
    half = HALVES.get(dtype)
    stored = "f32" if half is None else "u16"
    symbols: list[str] = []
    printer = Printer(symbols)
    printer.begins = epilogue is not None and epilogue.begins
    rows, columns, inner = (printer.poly(p) for p in (m, n, k))
    for operand in (left, right):
        for p in (operand.offset, *operand.batch, operand.row, operand.column):
            printer.poly(p)
    for axis in batch:
        printer.poly(axis.extent)
    name, helper = _epilogue(
        epilogue,
        symbols,
        f"p{result}[(item * {rows} + row) * {columns} + j]" if half is None else TILED,
        batch,
        HALF_TILE if half is not None else (),
    )
    if helper is not None:
        helper.write.out.insert(
            len(helper.kernel.buffers) if helper.kernel else 0,
            f"  const i64 item = d[BATCH + {len(batch)}];",
        )
    write = printer.write
    write.depth = 1
    with write.block("for (i64 item = lo; item < hi; item++)"):
        fake = Kernel("map", batch, Axis(INNER, ONE), [], [])
        printer.rows_header(fake, "item")
        pointers = []
        for operand in (left, right):
            position = operand.offset
            for axis, stride in zip(batch, operand.batch, strict=True):
                position = position + Poly.symbol(axis.name) * stride
            pointers.append(f"(const {stored} *)b[{operand.pointer}] + {printer.poly(position)}")
        sizes = "d"
        if helper is not None:
            total = len(batch) + 1
            if any("mx_log(" in line for line in helper.write.out):
                write(f"i64 words[1 + BATCH + {total}], *const sizes = words + 1;", node)
                write("words[0] = d[-1];", node)
            else:
                write(f"i64 sizes[BATCH + {total}];", node)
            write("for (i64 n = 0; n < BATCH; n++) sizes[n] = d[n];", node)
            for number, axis in enumerate(batch):
                write(f"sizes[BATCH + {number}] = {axis_name(axis.name)};", node)
            write(f"sizes[BATCH + {len(batch)}] = item;", node)
            sizes = "sizes"
        result_at = f"(f32 *)b[{result}] + item * {rows} * {columns}, {columns}"
        into = f"matmul_by(d[BATCH], {result_at}"
        if half is not None:
            into = f"half_matmul({half}"
        write(
            f"const int code = ctx->lib->{into}, "
            f"{pointers[0]}, {printer.poly(left.row)}, {printer.poly(left.column)}, "
            f"{pointers[1]}, {printer.poly(right.row)}, {printer.poly(right.column)}, "
            f"{rows}, {columns}, {inner}, {f'{NAME}_{name}' if helper else '0'}, b, {sizes}, ctx);",
            node,
        )
        write("if (code) return code;", node)
    if helper is None:
        write.out = [line.replace("BATCH", str(len(symbols))) for line in write.out]
    return _assemble(printer, helper, name, EPILOGUE)


def print_attention(
    q: Operand,
    k: Operand,
    v: Operand,
    out: Operand,
    sizes: tuple[Poly, Poly, Poly, Poly, Poly, Poly],
    score: Kernel,
    node: str,
) -> Printed:
    """The C of fused attention; ``sizes`` are batch, heads, queries, keys, head size and value
    size; the dims end with the plan that ``engine.launching`` chooses.
    """
    symbols: list[str] = []
    printer = Printer(symbols)
    printer.begins = score.begins
    spelt = [printer.poly(p) for p in sizes]
    for operand in (q, k, v, out):
        for p in (operand.offset, *operand.batch, operand.row, operand.column):
            printer.poly(p)
    (finish_pass,) = score.passes
    (store,) = finish_pass.stores
    helper: Printer | None = None
    if store.value.kind != "tile":
        helper = Printer(symbols)
        helper.kernel = score
        helper.tile = "line[j - k0]"
        write = helper.write
        write.depth = 1
        helper.pointers(score)
        axes = score.rows
        names = ["batch", "head"] if len(axes) == 3 else ["batch"]
        for axis, name in zip(axes, names, strict=False):
            helper.axes[axis.name] = name
        row = helper.axes[axes[-1].name] = axis_name(axes[-1].name)
        with write.block(f"for (i64 {row} = q0; {row} < q1; {row}++)"):
            write(f"f32 *RS line = S + ({row} - q0) * lds;")
            helper.emit([store.value], False)
            write("#pragma omp simd")
            with write.block("for (i64 j = k0; j < k1; j++)"):
                helper.axes[INNER] = "j"
                helper.emit([store.value], True)
                write(f"line[j - k0] = {_named(helper, store.value)};", store.value.node)
    write = printer.write
    write.depth = 1
    fields = []
    for letter, operand in (("q", q), ("k", k), ("v", v), ("o", out)):
        const = "" if letter == "o" else "const "
        fields.append(
            f".{letter} = ({const}f32 *)b[{operand.pointer}] + {printer.poly(operand.offset)}"
        )
    for letter, operand in (("q", q), ("k", k), ("v", v), ("o", out)):
        batch = [printer.poly(p) for p in operand.batch]
        if len(batch) == 1:
            batch.append("0")
        position = operand.column if letter == "k" else operand.row
        fields.append(f".{letter}s = {{{batch[0]}, {batch[1]}, {printer.poly(position)}}}")
    fields += [f".batch = {spelt[0]}", f".heads = {spelt[1]}", ".group = 1"]
    fields += [
        f".tq = {spelt[2]}",
        f".tk = {spelt[3]}",
        f".dim = {spelt[4]}",
        f".dim_v = {spelt[5]}",
    ]
    fields += [".plan = d + BATCH", ".scale = 1.0f"]
    write("const mx_attention a = {", node)
    for line in fields:
        write(f"  {line},", node)
    write("};", node)
    call = f"{NAME}_score" if helper else "0"
    write(f"return ctx->lib->attention_f32(&a, lo, hi, {call}, b, d, ctx);", node)
    if helper is None:
        write.out = [line.replace("BATCH", str(len(symbols))) for line in write.out]
    return _assemble(printer, helper, "score", SCORE)


def _named(printer: Printer, node: Expr) -> str:
    return printer.names[node.number]


__all__ = ["print_attention", "print_batched", "print_gemm", "print_pack"]
