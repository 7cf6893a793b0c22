"""Prints kernels that fold the rows of a matrix into one, column by column, as C."""

from __future__ import annotations

from contextlib import nullcontext

from maxlab.compiler.codegen.c import NAME, SIGNATURE, Printer, finish, initial
from maxlab.compiler.codegen.lanes import is_short
from maxlab.compiler.codegen.scalar import compute_type, is_float, literal
from maxlab.compiler.conventions import BLOCK
from maxlab.compiler.loops import Expr, Fold, Kernel, walk
from maxlab.compiler.lower import INNER, REDUCED
from maxlab.compiler.printed import Printed
from maxlab.ir.poly import Poly

TOGETHER = 4
"""Blocks of columns that a column kernel does together: a page of memory of each row."""
AHEAD = 4
"""Rows that a column kernel adds up at once."""
NARROW, NARROW_AHEAD = 16, 16
"""Columns, known before, up to which these are so many: one vector of sums is read and written for
each turn, and waits for the one before."""


def print_columns(kernel: Kernel, strip: int = 0) -> Printed:
    """The C of a column kernel: its parallel axis is rows × blocks of ``BLOCK`` columns, of which
    some that lie side by side are done together, so that memory is read in longer runs. The reduced
    axis is gone through in strips of so many elements; 0: at once.
    """
    assert kernel.reduction is not None
    printer = Printer()
    printer.kernel = kernel
    write = printer.write
    write.depth = 1
    printer.pointers(kernel)
    inner = printer.poly(kernel.inner.extent)
    (fold,) = kernel.passes[0].folds
    kind = compute_type(fold.dtype)
    nan = fold.operator != "sum" and is_float(fold.dtype)
    write(f"{kind} acc[{TOGETHER * BLOCK}];")
    if nan:
        write(f"i32 unordered[{TOGETHER * BLOCK}];")
    write(f"const i64 blocks = ({inner} + {BLOCK - 1}) / {BLOCK};")
    with write.block("for (i64 item = lo, next; item < hi; item = next)"):
        write("const i64 block = item % blocks, row = item / blocks;")
        write(f"next = item - block + (block + {TOGETHER} < blocks ? block + {TOGETHER} : blocks);")
        write("next = next < hi ? next : hi;")
        write(f"const i64 c0 = block * {BLOCK}, end = c0 + (next - item) * {BLOCK};")
        write(f"const i64 c1 = {inner} < end ? {inner} : end;")
        printer.rows_header(kernel, "row")
        reset = " unordered[n] = 0;" if nan else ""
        write(f"for (i64 n = 0; n < c1 - c0; n++) {{ acc[n] = {initial(fold)};{reset} }}")
        before = dict(printer.names)
        printer.axes[REDUCED] = "k"
        depth = kernel.reduction.extent
        first = "0"
        ahead = _ahead(kernel)
        if not strip and not nan and _several(fold, depth, ahead):
            write("i64 k0 = 0;")
            high = printer.poly(depth)
            with write.block(f"for (; k0 + {ahead} <= {high}; k0 += {ahead})"):
                _sum_several(printer, fold, ahead)
            printer.names = dict(before)
            first = "k0"
        whole = nullcontext(f"for (i64 k = {first}; k < {printer.poly(depth)}; k++)")
        loop = printer.strips("k", depth, strip) if strip else whole
        with loop as head, write.block(head):
            printer.emit([fold.value], False)
            if not printer.leaves([fold.value]):
                write("#pragma omp simd")
            with write.block("for (i64 j = c0; j < c1; j++)"):
                printer.axes[INNER] = "j"
                printer.emit([fold.value], True)
                value = printer.names[fold.value.number]
                write(f"{kind} a0 = acc[j - c0];")
                if not nan:
                    printer.fold(fold, value)
                if nan:
                    sign = ">" if fold.operator == "max" else "<"
                    write(f"a0 = {value} {sign} a0 ? {value} : a0;", fold.node)
                    write(f"unordered[j - c0] |= {value} != {value};", fold.node)
                write("acc[j - c0] = a0;", fold.node)
        printer.names = before
        roots = [s.value for s in kernel.passes[1].stores]
        _result_loop(printer, kernel, roots, nan, fold)
    return finish(printer, f"int {NAME}{SIGNATURE} {{")


def _ahead(kernel: Kernel) -> int:
    """How many rows are added up at once."""
    inner, depth = kernel.inner.extent, kernel.reduction
    is_narrow = inner.is_constant and inner.value <= NARROW
    is_short = depth is not None and depth.extent.is_constant and depth.extent.value < NARROW_AHEAD
    return NARROW_AHEAD if is_narrow and not is_short else AHEAD


def _several(fold: Fold, depth: Poly, ahead: int) -> bool:
    """Whether several rows of ``depth`` are added up at once: floats that take few instructions."""
    if depth.is_constant and depth.value < ahead:
        return False
    nodes = list(walk([fold.value]))
    return (
        is_float(fold.dtype)
        and all(n.varies or n.kind in ("const", "acc") for n in nodes)
        and not any(n.kind in ("guard", "wrap", "gather") for n in nodes)
        and all(is_short(n) for n in nodes)
    )


def _sum_several(printer: Printer, fold: Fold, ahead: int) -> None:
    """Add the elements of some rows to each other, then to the sums: those are read and written
    once for all of them, and rounded less often.
    """
    write, kind = printer.write, compute_type(fold.dtype)
    printer.emit([fold.value], False)
    write("#pragma omp simd")
    with write.block("for (i64 j = c0; j < c1; j++)"):
        printer.axes[INNER] = "j"
        names = [f"r{n}" for n in range(ahead)]
        write(f"{kind} {', '.join(names)};", fold.node)
        outer = dict(printer.names)
        for n, name in enumerate(names):
            with write.scope():
                write(f"const i64 k = k0 + {n};")
                printer.emit([fold.value], True)
                write(f"{name} = {printer.names[fold.value.number]};", fold.node)
            printer.names = dict(outer)
        while len(names) > 1:
            names = [f"({a} + {b})" for a, b in zip(names[::2], names[1::2], strict=True)]
        write(f"acc[j - c0] += {names[0]};", fold.node)


def _result_loop(
    printer: Printer, kernel: Kernel, roots: list[Expr], nan: bool, fold: Fold
) -> None:
    """The loop that turns folded columns into stored results."""
    write = printer.write
    for node in walk(roots):
        if node.kind == "acc":
            node.varies = True
    for node in walk(roots):  # whoever reads the accumulator varies with the column
        if any(a.varies for a in node.args):
            node.varies = True
    printer.emit(roots, False)
    if not printer.leaves(roots, kernel.passes[1].stores):
        write("#pragma omp simd")
    with write.block("for (i64 j = c0; j < c1; j++)"):
        kind = compute_type(fold.dtype)
        value = "acc[j - c0]"
        if nan:
            value = f"unordered[j - c0] ? {literal(float('nan'), fold.dtype)} : {value}"
        write(f"const {kind} a0 = {value};", fold.node)
        printer.emit(roots, True)
        for store in kernel.passes[1].stores:
            printer.store(store)
