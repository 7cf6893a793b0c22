"""Prints maps as CUDA: kernels that fold nothing, each element by itself."""

from __future__ import annotations

from collections.abc import Sequence

from maxlab.compiler.codegen.cuda import CudaPrinter, finish_loops, printer_of
from maxlab.compiler.codegen.cuda_vectors import (
    Vectors,
    depends_on_row,
    finds_row,
    is_whole,
    place_of,
    reads,
    vectors_of,
)
from maxlab.compiler.codegen.scalar import is_float, stored_type
from maxlab.compiler.loops import Expr, Kernel, Pass, walk
from maxlab.compiler.lower import INNER
from maxlab.compiler.printed import CudaPrinted


def print_flat(kernel: Kernel) -> CudaPrinted:
    """The CUDA of a map without rows: a thread takes a vector of elements at a time, and single
    ones where memory is not aligned and at the end.
    """
    printer = printer_of(kernel)
    write = printer.write
    (current,) = kernel.passes
    start = "(i64)blockIdx.x * blockDim.x + threadIdx.x"
    stride = "(i64)gridDim.x * blockDim.x"
    printer.emit([s.value for s in current.stores], False)
    vectors = vectors_of(kernel, tail=True)
    if vectors.width > 1:
        write(
            f"const i64 whole = {is_whole(printer, kernel, vectors)} ? items / {vectors.width} : 0;"
        )
        outer = dict(printer.names)
        with write.block(f"for (i64 q = {start}; q < whole; q += {stride})"):
            _read(printer, kernel, reads(kernel.expressions()), vectors, "q")
            _vector(printer, kernel, current, vectors, "q")
        printer.names, printer.read = outer, {}
        start = f"whole * {vectors.width} + {start}"
    outer = dict(printer.names)
    with write.block(f"for (i64 j = {start}; j < items; j += {stride})"):
        printer.element(current)
    printer.names = outer
    return finish_loops(printer, kernel, vectors.width)


def _read(
    printer: CudaPrinter, kernel: Kernel, nodes: Sequence[Expr], vectors: Vectors, at: str
) -> None:
    """Read the vector ``at`` of what each of ``nodes`` loads."""
    for node in nodes:
        kind = pack(kernel, node.data[0], vectors.width)
        name = f"l{node.number}"
        place = place_of(printer, node)
        printer.write(f"const {kind} {name} = (({kind} const *)({place}))[{at}];", node.node)
        printer.read[node.number] = f"{name}.at(e)"


def _vector(printer: CudaPrinter, kernel: Kernel, current: Pass, vectors: Vectors, at: str) -> None:
    """Compute and store the elements of the vector ``at``, whose operands have been read."""
    write, width = printer.write, vectors.width
    for number, store in enumerate(current.stores):
        write(f"{pack(kernel, store.buffer, width)} o{number};")
        printer.written[id(store)] = f"o{number}"
    write("#pragma unroll")
    with write.block(f"for (int e = 0; e < {width}; e++)"):
        tested = printer.tests_results and any(is_float(s.value.dtype) for s in current.stores)
        if tested or any(_needs_place(node) for node in walk(kernel.expressions())):
            write(f"const i64 j = {at} * {width} + e;")
        printer.element(current)
    printer.written = {}
    for number, store in enumerate(current.stores):
        kind = pack(kernel, store.buffer, width)
        printer.axes[INNER] = "0"
        place = printer.source(store.index)
        write(f"(({kind} *)(p{store.buffer} + {place}))[{at}] = o{number};", store.value.node)


def pack(kernel: Kernel, buffer: int, width: int) -> str:
    """The C type of a vector of elements of ``buffer``."""
    return f"mx_pack<{stored_type(kernel.buffers[buffer].dtype)}, {width}>"


def _needs_place(node: Expr) -> bool:
    if node.kind == "index":
        return INNER in node.data.symbols()
    is_single = node.kind == "gather" and not finds_row(node)
    return is_single and INNER in node.data[1].symbols()


def print_mapped_rows(kernel: Kernel) -> CudaPrinted:
    """The CUDA of a map over rows: a thread goes down the rows with a vector of columns, whose
    operands that all rows share it reads once; columns by themselves where memory is not aligned.
    """
    printer = printer_of(kernel)
    write = printer.write
    (current,) = kernel.passes
    vectors = vectors_of(kernel)
    if vectors.width > 1 and not current.after:
        write(f"const bool whole = {is_whole(printer, kernel, vectors)};")
        with write.block("if (whole)"):
            outer = dict(printer.names)
            _down_rows(printer, kernel, current, vectors)
            write("return;")
        printer.names, printer.read = outer, {}
    else:
        vectors = Vectors(1)
    columns = printer.poly(kernel.inner.extent)
    first = "(i64)blockIdx.x * blockDim.y + threadIdx.y"
    with write.block(f"for (i64 row = {first}; row < items; row += (i64)gridDim.x * blockDim.y)"):
        printer.rows_header(kernel, "row")
        printer.emit([s.value for s in current.stores], False)
        first = "(i64)blockIdx.y * blockDim.x + threadIdx.x"
        step = "(i64)gridDim.y * blockDim.x"
        with write.block(f"for (i64 j = {first}; j < {columns}; j += {step})"):
            printer.element(current)
        printer.emit([s.value for s in current.after], False)
        if current.after:
            with write.block("if (threadIdx.x == 0 && blockIdx.y == 0)"):
                for store in current.after:
                    printer.store(store)
    return finish_loops(printer, kernel, vectors.width)


def _down_rows(printer: CudaPrinter, kernel: Kernel, current: Pass, vectors: Vectors) -> None:
    write = printer.write
    found = reads(kernel.expressions())
    shared = [node for node in found if not depends_on_row(node, kernel)]
    own = [node for node in found if depends_on_row(node, kernel)]
    columns = printer.poly(kernel.inner.extent)
    first, step = "(i64)blockIdx.y * blockDim.x + threadIdx.x", "(i64)gridDim.y * blockDim.x"
    with write.block(f"for (i64 q = {first}; q < {columns} / {vectors.width}; q += {step})"):
        _read(printer, kernel, shared, vectors, "q")
        first, step = "(i64)blockIdx.x * blockDim.y + threadIdx.y", "(i64)gridDim.x * blockDim.y"
        with write.block(f"for (i64 row = {first}; row < items; row += {step})"):
            printer.rows_header(kernel, "row")
            printer.emit([s.value for s in current.stores], False)
            _read(printer, kernel, own, vectors, "q")
            _vector(printer, kernel, current, vectors, "q")


__all__ = ["pack", "print_flat", "print_mapped_rows"]
