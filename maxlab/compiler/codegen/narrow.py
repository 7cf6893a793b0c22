"""Prints maps whose rows are few elements long, as those that turn an image of three channels: what
becomes vectors are rows beside each other, and each of their elements has statements of its own."""

from __future__ import annotations

from maxlab.compiler.codegen.c import NAME, SIGNATURE, Printer, axis_name, finish
from maxlab.compiler.loops import Kernel, walk
from maxlab.compiler.lower import INNER
from maxlab.compiler.printed import Printed

FEW = 4
"""The most elements of a row that are written out."""
LEAST = 32
"""Rows that at least lie beside each other."""
_PLAIN = ("load", "const")


def is_narrow(kernel: Kernel) -> bool:
    """Whether the rows of ``kernel`` are short, and only copied."""
    extent = kernel.inner.extent
    if kernel.kind != "map" or not kernel.rows or not extent.is_constant:
        return False
    beside = kernel.rows[-1].extent
    if not 2 <= extent.value <= FEW or not beside.is_constant or beside.value < LEAST:
        return False
    plain = all(not (p.folds or p.keeps or p.after) for p in kernel.passes)
    copied = all(node.kind in _PLAIN for node in walk(list(kernel.expressions())))
    return plain and copied and not kernel.tests_results


def print_narrow(kernel: Kernel) -> Printed:
    """The C of a kernel that ``is_narrow``; its parallel axis is the rows."""
    printer = Printer()
    printer.kernel = kernel
    write = printer.write
    write.depth = 1
    printer.pointers(kernel)
    beside = kernel.rows[-1]
    assert beside.extent.is_constant
    assert kernel.inner.extent.is_constant
    with write.block("for (i64 row = lo, next; row < hi; row = next)"):
        write(f"const i64 end = row - row % {beside.extent.value} + {beside.extent.value};")
        write("next = end < hi ? end : hi;")
        printer.rows_header(kernel, "row")
        printer.axes[beside.name] = f"({axis_name(beside.name)} + n)"
        write("#pragma omp simd")
        with write.block("for (i64 n = 0; n < next - row; n++)"):
            for element in range(kernel.inner.extent.value):
                names = dict(printer.names)
                printer.axes[INNER] = str(element)
                with write.scope():
                    for current in kernel.passes:
                        roots = [store.value for store in current.stores]
                        printer.emit(roots, False)
                        printer.emit(roots, True)
                        for store in current.stores:
                            printer.store(store)
                printer.names = names
    return finish(printer, f"int {NAME}{SIGNATURE} {{")


__all__ = ["is_narrow", "print_narrow"]
