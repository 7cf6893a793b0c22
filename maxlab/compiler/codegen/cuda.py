"""Prints the loop IR as CUDA: the second loop printer, with the expressions of the first.

A kernel takes its pointers, then its dims, then ``items``, the extent of its parallel axis, and two
pointers of the launcher: ``spill``, memory for rows that do not fit into shared memory (0 when they
do), and ``fault``, where a kernel reports an index that is out of range.

``map``     one thread an element, or one block a row, in grid-stride loops
``row``     one block a row; folds end with shuffles and one exchange through shared memory; kept
            rows are in dynamic shared memory, each element read by the thread that wrote it
``col``     one thread a result; neighbouring threads read neighbouring columns

Nothing of the text is inline assembly, so the simulator runs it as it is.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from maxlab.compiler.codegen.c import NAME, Printed, Printer, initial
from maxlab.compiler.codegen.scalar import compute_type, is_float, stored_type
from maxlab.compiler.loops import Expr, Fold, Kernel, Pass, walk
from maxlab.compiler.lower import INNER, REDUCED

THREADS = 256
"""Threads of a block."""


@dataclass(slots=True)
class CudaPrinted(Printed):
    """A kernel as CUDA text, and how it is launched.

    Attributes:
        flat: Whether ``items`` are elements, one for each thread; otherwise rows, one a block.
        kept: How many rows of ``8 * columns`` bytes a block keeps.
    """

    flat: bool = True
    kept: int = 0


class CudaPrinter(Printer):
    """Prints loops over the threads of a block, or over a whole grid."""

    def _wrapped(self, node: Expr, at: str) -> str:
        """An index counted from the end when negative; out of range it is reported, and 0."""
        extent = self.poly(node.data)
        name = f"w{node.number}"
        if node.node not in self.checked:
            self.checked.append(node.node)
        number = self.checked.index(node.node)
        self.write(f"i64 {name} = {at} < 0 ? {at} + {extent} : {at};", node.node)
        self.write(
            f"if ((u64){name} >= (u64){extent}) "
            f"{{ mx_fault(fault, {number}, {at}, {extent}); {name} = 0; }}",
            node.node,
        )
        return name

    def threads(self, kernel: Kernel, current: Pass, columns: str) -> None:
        """One pass over a row, by all threads of the block."""
        roots = [k.value for k in current.keeps] + [f.value for f in current.folds]
        roots += [s.value for s in current.stores]
        if not roots:
            return
        self.emit(roots, False)
        outer = dict(self.names)
        for fold in current.folds:
            self.write(f"{compute_type(fold.dtype)} a{fold.number} = {initial(fold)};", fold.node)
        with self.write.block(f"for (i64 j = threadIdx.x; j < {columns}; j += blockDim.x)"):
            self.element(current)
        for fold in current.folds:
            kind = compute_type(fold.dtype)
            name = f"a{fold.number}"
            self.write(f"{name} = mx_block_{fold.operator}<{kind}>({name});", fold.node)
        self.names = outer

    def element(self, current: Pass) -> None:
        """What one thread does for the element ``j``."""
        self.axes[INNER] = "j"
        roots = [k.value for k in current.keeps] + [f.value for f in current.folds]
        self.emit(roots + [s.value for s in current.stores], True)
        for keep in current.keeps:
            self.write(f"t{keep.number}[j] = {self.names[keep.value.number]};", keep.value.node)
        for fold in current.folds:
            self.fold(fold, self.names[fold.value.number])
        for store in current.stores:
            self.store(store)

    def fold(self, fold: Fold, value: str) -> None:
        """Fold ``value`` into the thread's accumulator; NaN is handed on."""
        if fold.operator != "sum" and is_float(fold.dtype):
            kind = compute_type(fold.dtype)
            name = f"a{fold.number}"
            self.write(f"{name} = mx_{fold.operator}_{kind}({name}, {value});", fold.node)
            return
        super().fold(fold, value)


def _finish(printer: CudaPrinter, kernel: Kernel, flat: bool, kept: int) -> CudaPrinted:
    """The whole kernel, named by the hash of its text."""
    parameters = []
    for number, buffer in enumerate(kernel.buffers):
        const = "" if buffer.written else "const "
        parameters.append(f"{const}{stored_type(buffer.dtype)} *__restrict__ p{number}")
    parameters += [f"i64 s{n}" for n in range(len(printer.symbols))]
    parameters += ["i64 items", "unsigned char *spill", "i64 *fault"]
    bounds = f"__launch_bounds__({THREADS})"
    head = f'extern "C" __global__ void {bounds} {NAME}({", ".join(parameters)}) {{'
    body = "\n".join([head, *printer.write.out, "}"])
    symbol = "g_" + hashlib.blake2b(body.encode(), digest_size=10).hexdigest()
    lines = [(a + 1, b + 1, node) for a, b, node in printer.write.lines()]
    text = body.replace(NAME, symbol) + "\n"
    return CudaPrinted(symbol, text, printer.symbols, lines, printer.checked, flat, kept)


def print_rows(kernel: Kernel, kept: int = 0) -> CudaPrinted:
    """The CUDA of a map or row kernel."""
    printer = CudaPrinter()
    printer.kernel = kernel
    write = printer.write
    write.depth = 1
    if kernel.kind == "map" and not kernel.rows:
        step = "j += (i64)gridDim.x * blockDim.x"
        start = "(i64)blockIdx.x * blockDim.x + threadIdx.x"
        for current in kernel.passes:
            printer.emit([s.value for s in current.stores], False)
            with write.block(f"for (i64 j = {start}; j < items; {step})"):
                printer.element(current)
        return _finish(printer, kernel, True, 0)
    columns = printer.poly(kernel.inner.extent)
    if kept:
        write("MX_DYN_SHARED(unsigned char, shared);")
        write(f"const i64 row_bytes = ({columns} * 8 + 127) / 128 * 128;")
        write(f"unsigned char *rows = spill ? spill + blockIdx.x * {kept} * row_bytes : shared;")
        for keep in (k for current in kernel.passes for k in current.keeps):
            kind = compute_type(keep.value.dtype)
            write(f"{kind} *t{keep.number} = ({kind} *)(rows + {keep.number} * row_bytes);")
    with write.block("for (i64 row = blockIdx.x; row < items; row += gridDim.x)"):
        printer.rows_header(kernel, "row")
        for current in kernel.passes:
            printer.threads(kernel, current, columns)
            printer.emit([s.value for s in current.after], False)
            if current.after:
                with write.block("if (threadIdx.x == 0)"):
                    for store in current.after:
                        printer.store(store)
    return _finish(printer, kernel, False, kept)


def print_columns(kernel: Kernel) -> CudaPrinted:
    """The CUDA of a column kernel: each thread folds one column of one row."""
    assert kernel.reduction is not None
    printer = CudaPrinter()
    printer.kernel = kernel
    write = printer.write
    write.depth = 1
    (fold,) = kernel.passes[0].folds
    columns = printer.poly(kernel.inner.extent)
    depth = printer.poly(kernel.reduction.extent)
    start = "(i64)blockIdx.x * blockDim.x + threadIdx.x"
    with write.block(
        f"for (i64 item = {start}; item < items; item += (i64)gridDim.x * blockDim.x)"
    ):
        row = f", row = item / {columns}" if kernel.rows else ""
        write(f"const i64 j = item % {columns}{row};")
        printer.axes[INNER] = "j"
        printer.rows_header(kernel, "row")
        write(f"{compute_type(fold.dtype)} a{fold.number} = {initial(fold)};", fold.node)
        outer = dict(printer.names)
        printer.axes[REDUCED] = "k"
        with write.block(f"for (i64 k = 0; k < {depth}; k++)"):
            printer.emit([fold.value], False)
            printer.emit([fold.value], True)
            printer.fold(fold, printer.names[fold.value.number])
        printer.names = outer
        roots = [s.value for s in kernel.passes[1].stores]
        for node in walk(roots):  # here everything belongs to one thread: the order is the text's
            node.varies = False
        printer.emit(roots, False)
        for store in kernel.passes[1].stores:
            printer.store(store)
    return _finish(printer, kernel, True, 0)
