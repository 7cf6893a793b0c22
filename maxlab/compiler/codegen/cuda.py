"""Prints the loop IR as CUDA: the second loop printer, with the expressions of the first.

A kernel takes its pointers, then its dims, then ``items``, the extent of its parallel axis, and two
pointers of the launcher: ``spill``, memory for rows that do not fit into shared memory (0 when they
do), and ``fault``, where a kernel reports an index that is out of range. Every parameter is a
64-bit word. Whatever the grid, every kernel walks over all of its items.

``flat``    one thread an element, or a vector of them: loads and stores of 16 bytes where they are
            side by side and the memory is aligned (`cuda_maps`)
``map``     ``blockDim.y`` rows a block, ``gridDim.y`` blocks a row; where vectors are possible, a
            thread goes down the rows with one of columns (`cuda_maps`)
``kept``    part of a warp, a warp or a block a row, which stays in registers (`cuda_rows`)
``row``     one block a row, or one warp a row, that loop over it, for what ``kept`` does not hold;
            folds end with shuffles and, for a block, one exchange through shared memory; kept rows
            are in dynamic shared memory, each element read by the thread that wrote it
``split``   several blocks a row, where rows are long and few: each leaves what it has folded in
            memory, and the last one to come folds that
``col``     one thread a result; neighbouring threads read neighbouring columns

Nothing of the text is inline assembly, so the simulator runs it as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from maxlab.compiler.codegen.c import NAME, Printer, initial
from maxlab.compiler.codegen.notes import log_call
from maxlab.compiler.codegen.scalar import (
    HALVES,
    SIXTEEN,
    compute_type,
    is_float,
    is_representable,
    loaded,
    rounded,
    stored,
    stored_type,
)
from maxlab.compiler.conventions import THREADS
from maxlab.compiler.loops import Expr, Fold, Kernel, Pass, Store, walk
from maxlab.compiler.lower import INNER, REDUCED
from maxlab.compiler.printed import HEADERS, CudaPrinted
from maxlab.digests import blake2b
from maxlab.opset.notes import BEGINS, INDEX, NAN

WARPS = THREADS // 32
SHORT = frozenset({"gelu", "gelu_tanh", "gelu_quick", "silu", "sigmoid"})
"""Functions with a shorter formula for what is rounded to 16 bits."""


ROW_BLOCKS = 5
"""Blocks of a row kernel that a multiprocessor should hold. Left to itself, ptxas aims for eight
and spills a register for it on some architectures; these kernels wait for memory, not for threads.
"""


_ROW_BYTES = "({columns} * {size} + 127) / 128 * 128"


def kept_size(kernel: Kernel) -> int:
    """The bytes of an element of a kept row."""
    kinds = {compute_type(k.value.dtype) for current in kernel.passes for k in current.keeps}
    return 8 if kinds & {"f64", "i64", "u64"} else 4


class CudaPrinter(Printer):
    """Prints loops over the threads of a warp or a block, or over a whole grid."""

    language = "cuda"

    def __init__(self) -> None:
        super().__init__()
        self.folding = "mx_block_{operator}<{kind}>({name})"
        self.read: dict[int, str] = {}  # loads whose elements are in vectors -> the element
        self.kept = "t{}[j]"  # the element of a kept row
        self.written: dict[int, str] = {}  # stores, by id, that fill vectors -> the vector

    def text(self, node: Expr) -> str:
        """The right-hand side of ``node``."""
        element = self.read.get(node.number)
        if element is not None:
            return loaded(element, node.dtype)
        if node.kind == "kept":
            return self.kept.format(node.data)
        if node.kind == "op" and node.data in SHORT and self.accuracy != "exact":
            if node.dtype in SIXTEEN:
                short = f"mx_{node.data}_half({self.names[node.args[0].number]})"
                return rounded(short, node.dtype, "cuda")
        return super().text(node)

    def store(self, store: Store) -> None:
        """Print ``store``, whose value has a name."""
        assert self.kernel is not None
        buffer, name = self.kernel.buffers[store.buffer], self.names[store.value.number]
        position = self.source(store.index)
        value = stored(name, buffer.dtype)
        if buffer.dtype in SIXTEEN and store.value.dtype is buffer.dtype:
            if is_representable(store.value):
                value = f"mx_exact_{HALVES[buffer.dtype]}({name})"
        self.test_result(store, position)
        vector = self.written.get(id(store))
        put = (
            f"p{store.buffer}[{position}] = {value}"
            if vector is None
            else f"{vector}.put(e, {value})"
        )
        self.write(f"{put};", store.value.node)

    def _wrapped(self, node: Expr, at: str) -> str:
        """An index counted from the end when negative; out of range it is reported, and 0."""
        extent = self.poly(node.data)
        name = f"w{node.number}"
        self.write(f"i64 {name} = {at} < 0 ? {at} + {extent} : {at};", node.node)
        if self.asserts == "none":
            return name
        number = self.check_number(node.node)
        said = f"mx_fault(fault, {number}, {at}, {extent})"
        if self.asserts == "warn":
            said = log_call("cuda", INDEX, at, [("i", str(number)), ("i", at), ("i", extent)])
        self.write(f"if ((u64){name} >= (u64){extent}) {{ {said}; {name} = 0; }}", node.node)
        return name

    def nan(self, number: int, position: str) -> str:
        """The statement for a result of the test ``number`` that is NaN."""
        if self.asserts == "warn":
            return log_call("cuda", NAN, position, [("i", str(number)), ("i", position)]) + ";"
        return f"mx_nan(fault, {number}, {position});"

    def threads(self, current: Pass, columns: str) -> None:
        """One pass over a row, by all threads of the warp or block."""
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
        self.fold_threads(current)
        self.names = outer

    def fold_threads(self, current: Pass) -> None:
        """Fold the accumulators of all threads into one value, which all of them get."""
        for fold in current.folds:
            name = f"a{fold.number}"
            call = self.folding.format(
                operator=fold.operator,
                kind=compute_type(fold.dtype),
                name=name,
                number=fold.number,
            )
            self.write(f"{name} = {call};", fold.node)

    def element(self, current: Pass) -> None:
        """Prints the work of one thread for the element ``j``."""
        self.axes[INNER] = "j"
        roots = [k.value for k in current.keeps] + [f.value for f in current.folds]
        self.emit(roots + [s.value for s in current.stores], True)
        for keep in current.keeps:
            place = self.kept.format(keep.number)
            self.write(f"{place} = {self.names[keep.value.number]};", keep.value.node)
        for fold in current.folds:
            self.fold(fold, self.names[fold.value.number])
        for store in current.stores:
            self.store(store)

    def fold(self, fold: Fold, value: str) -> None:
        """Fold ``value`` into the thread's accumulator; NaN is handed on."""
        if fold.operator != "sum" and is_float(fold.dtype):
            kind = compute_type(fold.dtype)
            name = f"a{fold.number}"
            call = f"mx_{fold.operator}_nan" if kind == "f32" else f"mx_{fold.operator}_{kind}"
            self.write(f"{name} = {call}({name}, {value});", fold.node)
            return
        super().fold(fold, value)


def finish_loops(
    printer: CudaPrinter, kernel: Kernel, width: int = 1, bounds: str = ""
) -> CudaPrinted:
    """The whole kernel, named by the hash of its text."""
    parameters = []
    for number, buffer in enumerate(kernel.buffers):
        const = "" if buffer.written else "const "
        parameters.append(f"{const}{stored_type(buffer.dtype)} *__restrict__ p{number}")
    return finish_kernel(printer, parameters, THREADS, HEADERS, width, bounds=bounds)


def finish_kernel(
    printer: CudaPrinter,
    pointers: Sequence[str],
    threads: int,
    headers: tuple[str, ...],
    width: int = 1,
    shared: int = 0,
    bounds: str = "",
) -> CudaPrinted:
    """The kernel with the body that ``printer`` wrote, named by the hash of its text."""
    parameters = [*pointers, *(f"i64 s{n}" for n in range(len(printer.symbols)))]
    parameters += ["i64 items", "unsigned char *spill", "i64 *fault"]
    limit = f"__launch_bounds__({bounds or threads})"
    head = f'extern "C" __global__ void {limit} {NAME}({", ".join(parameters)}) {{'
    if printer.begins or (printer.kernel is not None and printer.kernel.begins):
        said = log_call("cuda", BEGINS, "0", [("i", "0"), ("i", "items")])
        head += f"\n  if (blockIdx.x + blockIdx.y + threadIdx.x + threadIdx.y == 0) {said};"
    body = "\n".join([head, *printer.write.out, "}"])
    symbol = "g_" + blake2b(body.encode(), digest_size=10).hexdigest()
    shift = 1 + head.count("\n")
    lines = [(a + shift, b + shift, node) for a, b, node in printer.write.lines()]
    text = body.replace(NAME, symbol) + "\n"
    return CudaPrinted(
        symbol,
        text,
        printer.symbols,
        lines,
        printer.checked,
        headers,
        width,
        threads,
        shared,
        tuple(not pointer.startswith("const ") for pointer in pointers),
    )


def printer_of(kernel: Kernel) -> CudaPrinter:
    printer = CudaPrinter()
    printer.kernel = kernel
    printer.write.depth = 1
    return printer


def print_folded_rows(kernel: Kernel, kept: int, warp: bool) -> CudaPrinted:
    """The CUDA of a row kernel: a warp a row, ``blockDim.y`` of them a block, or a block a row."""
    printer = printer_of(kernel)
    if warp:
        printer.folding = "mx_warp_{operator}<{kind}>({name})"
    write = printer.write
    columns = printer.poly(kernel.inner.extent)
    if kept:
        slot = "threadIdx.y" if warp else "0"
        per_block = f"{WARPS} * {kept}" if warp else f"{kept}"
        write("MX_DYN_SHARED(unsigned char, shared);")
        write(
            f"const i64 row_bytes = {_ROW_BYTES.format(columns=columns, size=kept_size(kernel))};"
        )
        write(
            "unsigned char *const rows = (spill ? spill + blockIdx.x * "
            f"{per_block} * row_bytes : shared) + {slot} * {kept} * row_bytes;"
        )
        for keep in (k for current in kernel.passes for k in current.keeps):
            kind = compute_type(keep.value.dtype)
            write(f"{kind} *const t{keep.number} = ({kind} *)(rows + {keep.number} * row_bytes);")
    first, step = "blockIdx.x", "gridDim.x"
    if warp:
        first, step = f"(i64){first} * blockDim.y + threadIdx.y", f"(i64){step} * blockDim.y"
    with write.block(f"for (i64 row = {first}; row < items; row += {step})"):
        printer.rows_header(kernel, "row")
        for current in kernel.passes:
            printer.threads(current, columns)
            printer.emit([s.value for s in current.after], False)
            if current.after:
                with write.block("if (threadIdx.x == 0)"):
                    for store in current.after:
                        printer.store(store)
    return finish_loops(printer, kernel, bounds=f"{THREADS}, {ROW_BLOCKS}")


def can_split(kernel: Kernel) -> bool:
    """Whether a row kernel goes over its rows once, and only to fold them."""
    first, *later = kernel.passes
    return bool(first.folds) and not (
        first.keeps or first.stores or any(p.keeps or p.folds or p.stores for p in later)
    )


def print_split_rows(kernel: Kernel) -> CudaPrinted:
    """The CUDA of a row kernel for few long rows: ``gridDim.x`` blocks a row.

    The last block of a row to arrive adds up what all have left, in the order of the parts, so that
    a result does not depend on who came last.
    """
    printer = printer_of(kernel)
    write = printer.write
    columns = printer.poly(kernel.inner.extent)
    first = kernel.passes[0]
    count = len(first.folds)
    write("__shared__ int last;")
    write("const i64 parts = gridDim.x;")
    write(f"const i64 each = ({columns} + parts - 1) / parts, begin = blockIdx.x * each;")
    write(f"const i64 end = begin + each < {columns} ? begin + each : {columns};")
    write("unsigned long long *const arrived = (unsigned long long *)spill;")
    with write.block("for (i64 row = blockIdx.y; row < items; row += gridDim.y)"):
        printer.rows_header(kernel, "row")
        write(f"i64 *const left = (i64 *)spill + items + row * parts * {count};")
        printer.emit([f.value for f in first.folds], False)
        outer = dict(printer.names)
        for fold in first.folds:
            kind = compute_type(fold.dtype)
            write(f"{kind} a{fold.number} = {initial(fold)};", fold.node)
        with write.block("for (i64 j = begin + threadIdx.x; j < end; j += blockDim.x)"):
            printer.element(first)
        printer.names = outer
        printer.fold_threads(first)
        with write.block("if (threadIdx.x == 0)"):
            for place, fold in enumerate(first.folds):
                kind = compute_type(fold.dtype)
                slot = f"left[blockIdx.x * {count} + {place}]"
                write(f"*(volatile {kind} *)&{slot} = a{fold.number};", fold.node)
            write("__threadfence();")
            write("last = atomicAdd(arrived + row, 1ull) == (unsigned long long)parts - 1;")
        write("__syncthreads();")
        with write.block("if (last)"):
            write("__threadfence();")
            for fold in first.folds:
                write(f"a{fold.number} = {initial(fold)};", fold.node)
            with write.block("for (i64 part = threadIdx.x; part < parts; part += blockDim.x)"):
                for place, fold in enumerate(first.folds):
                    kind = compute_type(fold.dtype)
                    name = f"x{fold.number}"
                    slot = f"left[part * {count} + {place}]"
                    write(f"const {kind} {name} = *(volatile {kind} *)&{slot};", fold.node)
                    printer.fold(fold, name)
            printer.fold_threads(first)
            after = [store for current in kernel.passes for store in current.after]
            printer.emit([s.value for s in after], False)
            with write.block("if (threadIdx.x == 0)"):
                write("arrived[row] = 0;")
                for store in after:
                    printer.store(store)
        write("__syncthreads();")
    return finish_loops(printer, kernel)


def print_columns(kernel: Kernel) -> CudaPrinted:
    """The CUDA of a column kernel: each thread folds one column of one row."""
    assert kernel.reduction is not None
    printer = printer_of(kernel)
    write = printer.write
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
    return finish_loops(printer, kernel)
