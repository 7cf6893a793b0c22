"""Prints row kernels as CUDA that keep their rows in registers.

Some threads beside each other, the lanes of a `RowShape`, share a row. Each reads its vectors once,
all of a pass before the first is used, and what later passes need again stays in its registers:
memory is read once and written once. Rows may be shorter than the shape, not longer.
"""

from __future__ import annotations

from maxlab.compiler.codegen.c import initial
from maxlab.compiler.codegen.cuda import CudaPrinter, finish_loops, printer_of
from maxlab.compiler.codegen.cuda_maps import pack
from maxlab.compiler.codegen.cuda_vectors import (
    base_of,
    is_whole,
    place_of,
    reads,
    register_bytes,
    vectors_of,
)
from maxlab.compiler.codegen.scalar import compute_type
from maxlab.compiler.loops import Expr, Kernel, Pass, walk
from maxlab.compiler.lower import INNER
from maxlab.compiler.printed import CudaPrinted
from maxlab.compiler.row_shapes import WARP, RowShape, shape_of, shapes_of

REGISTER_BYTES = 384
"""Bytes of registers that the vectors of a lane may take, of the 1020 that it has at most."""
MOST = 32
"""Elements of a lane, at most."""
MOST_NODES = 4096
"""Operations that the text of a kernel may become when its loops over vectors are unrolled."""


def row_shapes(kernel: Kernel) -> tuple[RowShape, ...]:
    """The shapes in which rows of ``kernel`` can be kept, those for the shortest rows first.
    There is one where their width is known, and none where they are too long, or do too much.
    """
    vectors = vectors_of(kernel)
    found = reads(kernel.expressions())
    keeps = [k for current in kernel.passes for k in current.keeps]
    each = register_bytes(kernel, found, [k.value for k in keeps])
    nodes = len(list(walk(kernel.expressions())))
    most = min(REGISTER_BYTES // max(each, 4), MOST_NODES // max(nodes, 1), MOST)
    least = WARP if kernel.asserts == "warn" else 1  # rows done twice would be logged twice
    width = kernel.inner.extent
    if width.is_constant:
        shape = shape_of(width.value, vectors.width, most, least)
        return () if shape is None else (shape,)
    return shapes_of(vectors.width, most, least)


class _RowPrinter:
    """Prints one kernel in one shape."""

    def __init__(self, printer: CudaPrinter, kernel: Kernel, shape: RowShape) -> None:
        self.printer, self.kernel, self.shape = printer, kernel, shape
        self.write = printer.write
        self.columns = printer.poly(kernel.inner.extent)
        extent = kernel.inner.extent
        width = extent.value if extent.is_constant else shape.least
        self.sure = width // (shape.lanes * shape.vector)  # vectors of a lane that all rows fill
        self.is_part = shape.lanes < WARP
        number = f"{shape.lanes}, {{number}}"
        printer.folding = f"mx_lanes_{{operator}}<{{kind}}, {number}>({{name}}, turn)"
        printer.kept = f"t{{}}[n * {shape.vector} + e]"

    def print(self) -> None:
        """The body of the kernel."""
        write, shape, kernel, printer = self.write, self.shape, self.kernel, self.printer
        vectors = vectors_of(kernel)
        found = reads(kernel.expressions())
        if shape.vector == vectors.width > 1 and found + self._stores():
            write(f"const bool whole = {is_whole(printer, kernel, vectors)};")
        else:
            write(f"const bool whole = {'true' if shape.vector == 1 else 'false'};")
        if not kernel.inner.extent.is_constant:
            write(f"const int columns = (int){self.columns};")
            self.columns = "columns"
        write(f"const int lane = threadIdx.x & {shape.lanes - 1};")
        write("int turn = 0;")
        first, step = "blockIdx.x", "gridDim.x"
        if shape.rows > 1:
            first, step = "(i64)blockIdx.x * blockDim.y", "(i64)gridDim.x * blockDim.y"
            first = first if self.is_part else f"{first} + threadIdx.y"
        counter = "block" if self.is_part else "row"
        with write.block(f"for (i64 {counter} = {first}; {counter} < items; {counter} += {step})"):
            if self.is_part:  # the lanes of a warp stay together, though some have no row
                write("const bool own = block + threadIdx.y < items;")
                write("const i64 row = own ? block + threadIdx.y : items - 1;")
                if not kernel.rows:
                    write("(void)row;")
            printer.rows_header(kernel, "row")
            for current in kernel.passes:
                self._pass(current)
            write("turn ^= 1;")

    def _stores(self) -> list[object]:
        return [store for current in self.kernel.passes for store in current.stores]

    def _read(self, nodes: list[Expr]) -> None:
        """Read what ``nodes`` load of a row."""
        shape, write = self.shape, self.write
        for node in nodes:
            name = f"x{node.number}"
            write(f"{pack(self.kernel, node.data[0], shape.vector)} {name}[{shape.count}];")
            if base_of(node.data[1]) is None:
                self._gather(node, name)
                continue
            where = f"{place_of(self.printer, node)}, lane, {self.columns}"
            write(f"mx_row_read<{self.sure}, {shape.lanes}>({name}, {where}, whole);", node.node)
        for node in nodes:
            self.printer.read[node.number] = f"x{node.number}[n].at(e)"

    def _gather(self, node: Expr, name: str) -> None:
        """Read what ``node`` loads of a row whose elements do not lie side by side."""
        write, (number, index) = self.write, node.data
        self.printer.axes[INNER] = "j"
        write("#pragma unroll")
        with write.block(f"for (int n = 0; n < {self.shape.count}; n++)"):
            write(f"const i64 j = n * {self.shape.lanes} + lane;")
            within = f"if (n < {self.sure} || j < {self.columns}) "
            write(f"{within}{name}[n].put(0, p{number}[{self.printer.source(index)}]);", node.node)

    def _pass(self, current: Pass) -> None:
        printer, write = self.printer, self.write
        roots = [k.value for k in current.keeps] + [f.value for f in current.folds]
        roots += [s.value for s in current.stores]
        if roots:
            printer.emit(roots, False)
            self._read([n for n in reads(roots) if n.number not in printer.read])
            for keep in current.keeps:
                kind, size = compute_type(keep.value.dtype), self.shape.vector * self.shape.count
                write(f"{kind} t{keep.number}[{size}];", keep.value.node)
            outer = dict(printer.names)
            for fold in current.folds:
                kind = compute_type(fold.dtype)
                write(f"{kind} a{fold.number} = {initial(fold)};", fold.node)
            self._vectors(current)
            printer.fold_threads(current)
            printer.names = outer
        printer.emit([s.value for s in current.after], False)
        if current.after:
            own = " && own" if self.is_part else ""
            with write.block(f"if (lane == 0{own})"):
                for store in current.after:
                    printer.store(store)

    def _vectors(self, current: Pass) -> None:
        """The work of a lane on each of its vectors."""
        write, shape = self.write, self.shape
        write("#pragma unroll")
        with write.block(f"for (int n = 0; n < {shape.count}; n++)"):
            write(f"const int first = (n * {shape.lanes} + lane) * {shape.vector};")
            if self.sure == shape.count:
                self._elements(current)
                return
            with write.block(f"if (n < {self.sure} || first < {self.columns})"):
                self._elements(current)

    def _elements(self, current: Pass) -> None:
        printer, write, shape = self.printer, self.write, self.shape
        places: list[tuple[int, str]] = []
        for number, store in enumerate(current.stores):
            printer.axes[INNER] = "first"
            if shape.vector > 1:
                places.append((number, f"p{store.buffer} + {printer.poly(store.index)}"))
                write(f"{pack(self.kernel, store.buffer, shape.vector)} o{number};")
                printer.written[id(store)] = f"o{number}"
        write("#pragma unroll")
        with write.block(f"for (int e = 0; e < {shape.vector}; e++)"):
            write("const i64 j = first + e;")
            write("(void)j;")
            if self.is_part and shape.vector == 1 and current.stores:
                self._own_element(current)
            else:
                printer.element(current)
        printer.written = {}
        for number, place in places:
            own = "if (own) " if self.is_part else ""
            write(f"{own}mx_put({place}, o{number}, whole);", current.stores[number].value.node)

    def _own_element(self, current: Pass) -> None:
        """One element, which only the lanes that have a row store."""
        printer = self.printer
        stores, current.stores = current.stores, []
        try:
            printer.element(current)
            printer.emit([s.value for s in stores], True)
        finally:
            current.stores = stores
        with self.write.block("if (own)"):
            for store in stores:
                printer.store(store)


def print_kept_rows(kernel: Kernel, shape: RowShape) -> CudaPrinted:
    """The CUDA of a row kernel whose rows stay in registers of the shape ``shape``."""
    printer = printer_of(kernel)
    _RowPrinter(printer, kernel, shape).print()
    return finish_loops(printer, kernel, bounds=f"{shape.threads}")


__all__ = ["print_kept_rows", "row_shapes"]
