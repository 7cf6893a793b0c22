"""Prints the loop IR as C.

The text names nothing of the graph: buffers are ``p0 …``, dims ``s0 …``, rows ``i…``, so equal
kernels of different layers are equal text and are compiled once. Which line belongs to which op is
returned beside the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import ClassVar

from maxlab.compiler.codegen.kept import kept_in_results, scratch_rows
from maxlab.compiler.codegen.lanes import Lanes, fits
from maxlab.compiler.codegen.notes import log_call
from maxlab.compiler.codegen.scalar import (
    compute_type,
    expression,
    is_float,
    literal,
    loaded,
    stored,
    stored_type,
)
from maxlab.compiler.codegen.writer import Writer
from maxlab.compiler.loops import Expr, Fold, Kernel, Pass, Store, walk
from maxlab.compiler.lower import INNER
from maxlab.compiler.printed import Printed
from maxlab.digests import blake2b
from maxlab.ir.poly import FloorDiv, Poly
from maxlab.opset.facts import Language
from maxlab.opset.notes import BEGINS, INDEX, NAN
from maxlab.toolchain.flags import Accuracy

STRIP_COST = 1 << 26
"""Scalar operations in a kernel behind which it asks whether to go on: some milliseconds."""

SIGNATURE = "(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx)"
EPILOGUE = "(void *const *b, const i64 *d, i64 r0, i64 r1, i64 c0, i64 c1, mx_ctx *ctx)"
NAME = "KERNEL"


def axis_name(name: str) -> str:
    """The C name of an axis."""
    return name.replace("%", "i") if name[1:].isdigit() else name[1:]


def _quotient(top: str, bottom: str, atom: FloorDiv) -> str:
    """A floor division as C, whose own division rounds towards zero."""
    if _not_negative(atom):
        return f"{top} / {bottom}"
    return f"mx_floordiv_i64({top}, {bottom})"


def _not_negative(atom: FloorDiv) -> bool:
    """Whether no term of ``atom`` is negative, given that no dim and no axis is."""
    return all(
        scale > 0 and all(isinstance(part, str) or _not_negative(part) for part, _ in monomial)
        for poly in (atom.numerator, atom.denominator)
        for monomial, scale in poly.terms
    )


def eager(roots: Sequence[Expr]) -> list[Expr]:
    """The nodes below ``roots``, operands first, without those that only guards need."""
    nodes = list(walk(list(roots)))
    if not any(n.kind == "guard" for n in nodes):
        return nodes
    needed: set[int] = set()
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node.number not in needed:
            needed.add(node.number)
            stack.extend(node.args[1:] if node.kind == "guard" else node.args)
    return [n for n in nodes if n.number in needed]


class Printer:
    """Prints one kernel; ``symbols`` collects the dims it needs."""

    language: ClassVar[Language] = "c"

    def __init__(self, symbols: list[str] | None = None) -> None:
        self.write = Writer()
        self.symbols: list[str] = symbols if symbols is not None else []
        self.axes: dict[str, str] = {}
        self.names: dict[int, str] = {}
        self.kernel: Kernel | None = None
        self.tile = "tile"
        self.in_tile: int | None = None  # the buffer whose elements are put in the tile
        self.checked: list[str] = []
        self.begins = False  # whether the kernel logs that it begins
        self.passes = 0  # passes that go through their elements by vectors

    # ------------------------------------------------------------ names
    def poly(self, poly: Poly) -> str:
        """``poly`` as C, parenthesised unless it is one word."""
        text = self.source(poly)
        return text if text.isalnum() else f"({text})"

    def source(self, poly: Poly) -> str:
        """``poly`` as C."""
        return poly.source(self._name, _quotient)

    def _name(self, name: str) -> str:
        axis = self.axes.get(name)
        if axis is not None:
            return axis
        if name not in self.symbols:
            self.symbols.append(name)
        return f"s{self.symbols.index(name)}"

    def declare_sizes(self) -> list[str]:
        """The declarations of the dims used so far; to be put at the top afterwards."""
        return [f"  const i64 s{n} = d[{n}];" for n in range(len(self.symbols))]

    def pointers(self, kernel: Kernel) -> None:
        """Declare the pointer arguments."""
        for number, buffer in enumerate(kernel.buffers):
            kind = stored_type(buffer.dtype)
            const = "" if buffer.written else "const "
            self.write(f"{const}{kind} *RS p{number} = ({const}{kind} *)b[{number}];")

    # ------------------------------------------------------------ expressions
    def emit(self, roots: Sequence[Expr], varying: bool) -> None:
        """Print the nodes below ``roots`` that are not printed yet and vary (or not) with the inner
        axis.
        """
        for node in eager(roots):
            if node.varies is varying and node.number not in self.names:
                self._print(node)

    def emit_one(self, node: Expr) -> None:
        """Print ``node``, whose operands have names, unless it has one too."""
        if node.number not in self.names:
            self._print(node)

    def _print(self, node: Expr) -> None:
        """Print ``node``, whose operands have names."""
        if node.kind == "const":
            self.names[node.number] = literal(node.data, node.dtype)
        elif node.kind == "guard":
            self._guard(node)
        else:
            text = self.text(node)
            name = f"v{node.number}"
            self.write(f"const {compute_type(node.dtype)} {name} = {text};", node.node)
            self.names[node.number] = name

    def _guard(self, node: Expr) -> None:
        """Print a value that exists only where conditions hold, and is computed only there."""
        inside, outside = node.args
        name = f"v{node.number}"
        tests = " & ".join(
            f"((u64){self.poly(p)} < (u64){self.poly(size)})" for p, size in node.data
        )
        self.write(f"{compute_type(node.dtype)} {name} = {self.names[outside.number]};", node.node)
        with self.write.block(f"if ({tests})"):
            outer = dict(self.names)
            for part in eager([inside]):
                if part.number not in self.names:
                    self._print(part)
            self.write(f"{name} = {self.names[inside.number]};", node.node)
            self.names = outer
        self.names[node.number] = name

    @property
    def asserts(self) -> str:
        """The level of assertions that the kernel tests."""
        return self.kernel.asserts if self.kernel is not None else "safe"

    @property
    def accuracy(self) -> Accuracy:
        """How exact functions are."""
        return self.kernel.accuracy if self.kernel is not None else "default"

    @property
    def tests_results(self) -> bool:
        """Whether no result may be NaN."""
        return self.kernel is not None and self.kernel.tests_results

    def leaves(self, roots: Sequence[Expr], stores: Sequence[Store] = ()) -> bool:
        """Whether what is yet to be printed below ``roots``, or of ``stores``, may leave the kernel
        with an error.
        """
        if self.tests_results and any(is_float(store.value.dtype) for store in stores):
            return True
        return self.asserts != "none" and any(
            n.kind == "wrap" and n.number not in self.names for n in walk(list(roots))
        )

    def check_number(self, node: str) -> int:
        """The number of the test of the op ``node``."""
        if node not in self.checked:
            self.checked.append(node)
        return self.checked.index(node)

    def text(self, node: Expr) -> str:
        """The right-hand side of ``node``."""
        if node.kind == "load":
            number, position = node.data
            return loaded(f"p{number}[{self.source(position)}]", node.dtype)
        if node.kind == "index":
            return self.source(node.data)
        if node.kind == "acc":
            return f"a{node.data}"
        if node.kind == "kept":
            return f"t{node.data}[j]"
        if node.kind == "tile":
            return self.tile
        a = [self.names[x.number] for x in node.args]
        if node.kind == "wrap":
            return self._wrapped(node, a[0])
        if node.kind == "gather":
            number, position = node.data
            self.axes["$"] = a[0]
            text = self.source(position)
            del self.axes["$"]
            return loaded(f"p{number}[{text}]", node.dtype)
        return expression(node, a, self.language)

    def _wrapped(self, node: Expr, at: str) -> str:
        """An index counted from the end when negative, and refused when it is out of range."""
        extent = self.poly(node.data)
        name = f"w{node.number}"
        const = "" if self.asserts == "warn" else "const "
        self.write(f"{const}i64 {name} = {at} < 0 ? {at} + {extent} : {at};", node.node)
        if self.asserts == "none":
            return name
        number = self.check_number(node.node)
        stop = (
            f"{{ ctx->err[0] = {at}; ctx->err[1] = {extent}; ctx->err[2] = {number}; return 1; }}"
        )
        if self.asserts == "warn":
            said = log_call("c", INDEX, at, [("i", str(number)), ("i", at), ("i", extent)])
            stop = f"{{ if (!{extent}) {stop} {said}; {name} = 0; }}"
        self.write(f"if ((u64){name} >= (u64){extent}) {stop}", node.node)
        return name

    def test_result(self, store: Store, position: str) -> None:
        """Print the test that what ``store`` stores is a number."""
        if not self.tests_results or not is_float(store.value.dtype):
            return
        node, value = store.value.node, self.names[store.value.number]
        number = self.check_number(node)
        self.write(f"if ({value} != {value}) {self.nan(number, position)}", node)

    def nan(self, number: int, position: str) -> str:
        """The statement for a result of the test ``number`` that is NaN."""
        if self.asserts == "warn":
            said = [("i", str(number)), ("i", position)]
            return log_call("c", NAN, position, said) + ";"
        return f"{{ ctx->err[0] = {position}; ctx->err[2] = {number}; return 3; }}"

    def store(self, store: Store) -> None:
        """Print ``store``, whose value has a name."""
        assert self.kernel is not None
        buffer = self.kernel.buffers[store.buffer]
        position = self.source(store.index)
        value = self.names[store.value.number]
        self.test_result(store, position)
        place = self.tile if store.buffer == self.in_tile else f"p{store.buffer}[{position}]"
        self.write(f"{place} = {stored(value, buffer.dtype)};", store.value.node)

    # ------------------------------------------------------------ rows
    def rows_header(self, kernel: Kernel, row: str) -> None:
        """Declare the row axes from the row number ``row``."""
        rest = row
        for position, axis in enumerate(reversed(kernel.rows)):
            name = self.axes[axis.name] = axis_name(axis.name)
            if position == len(kernel.rows) - 1:
                self.write(f"const i64 {name} = {rest};")
            else:
                extent = self.poly(axis.extent)
                self.write(f"const i64 {name} = {rest} % {extent}, q{name} = {rest} / {extent};")
                rest = f"q{name}"

    @contextmanager
    def strips(self, name: str, extent: Poly, strip: int) -> Iterator[str]:
        """Writes what is written inside of the ``with`` for all of an axis, ``strip`` elements at a
        time, and asks between two strips whether to go on. The text that it gives is the head of
        the loop over a strip.

        Args:
            name: The C name of the axis.
            extent: Its size; one that is known and no more than a strip is gone through at once.
            strip: Elements that take some milliseconds.
        """
        high = self.poly(extent)
        if extent.is_constant and extent.value <= strip:
            yield f"for (i64 {name} = 0; {name} < {high}; {name}++)"
            return
        start, stop = f"{name}0", f"{name}1"
        with self.write.block(f"for (i64 {start} = 0, {stop}; {start} < {high}; {start} = {stop})"):
            self.write(f"{stop} = {high} - {start} > {strip} ? {start} + {strip} : {high};")
            self.write(f"if ({start} && mx_stop(ctx)) return MX_STOPPED;")
            yield f"for (i64 {name} = {start}; {name} < {stop}; {name}++)"

    def loop(self, low: str, high: str, current: Pass, extent: Poly | None = None) -> None:
        """One pass over the elements of the inner axis from ``low`` to ``high``, of which there are
        ``extent``, if that is known before the kernel runs.
        """
        roots = [k.value for k in current.keeps] + [f.value for f in current.folds]
        roots += [s.value for s in current.stores]
        known = extent.value if extent is not None and extent.is_constant else None
        if not self.leaves(roots, current.stores) and fits(current, roots, known, self.accuracy):
            self.emit(roots, False)
            outer = dict(self.names)
            Lanes(self, current, low, high, known).print()
            self._name_extremes(current)
            self.names = outer
            return
        self.loop_in(nullcontext(f"for (i64 j = {low}; j < {high}; j++)"), current)

    def loop_in(self, loop: AbstractContextManager[str], current: Pass) -> None:
        """One pass over the inner axis, by the loop or loops whose head ``loop`` gives."""
        roots = [k.value for k in current.keeps] + [f.value for f in current.folds]
        roots += [s.value for s in current.stores]
        if not roots:
            return
        self.emit(roots, False)
        outer = dict(self.names)
        leaves = self.leaves(roots, current.stores)
        folds = self._folds(current.folds)
        with loop as head:
            if not leaves:
                self.write(f"#pragma omp simd{folds}")
            self._elements(head, current)
        self._name_extremes(current)
        self.names = outer

    def _name_extremes(self, current: Pass) -> None:
        """Declare what maxima and minima give."""
        for fold in current.folds:
            if is_extreme(fold):
                kind, number = compute_type(fold.dtype), fold.number
                self.write(f"{kind} a{number} = mx_of_fold_{kind}(m{number});", fold.node)
                self.write(
                    f"if (u{fold.number}) a{fold.number} = {literal(float('nan'), fold.dtype)};",
                    fold.node,
                )

    def _elements(self, head: str, current: Pass) -> None:
        """The loop over the elements of a pass."""
        roots = [k.value for k in current.keeps] + [f.value for f in current.folds]
        roots += [s.value for s in current.stores]
        with self.write.block(head):
            self.axes[INNER] = "j"
            self.emit(roots, True)
            for keep in current.keeps:
                self.write(f"t{keep.number}[j] = {self.names[keep.value.number]};", keep.value.node)
                # later passes read the kept row; this one still has the value
            for fold in current.folds:
                self.reduce(fold, self.names[fold.value.number])
            for store in current.stores:
                self.store(store)

    def _folds(self, folds: Sequence[Fold]) -> str:
        """Declare the accumulators; the reduction clauses of the loop."""
        clauses = ""
        for fold in folds:
            kind, first = compute_type(fold.dtype), initial(fold)
            sign = {"sum": "+", "max": "max", "min": "min"}[fold.operator]
            if is_extreme(fold):  # clang makes vectors of other forms than gcc: see the prelude
                first = f"mx_to_fold_{kind}({first})"
                self.write(f"mx_fold_{kind} m{fold.number} = {first};", fold.node)
                self.write(f"i32 u{fold.number} = 0;", fold.node)
                clauses += f" reduction({sign}:m{fold.number}) reduction(|:u{fold.number})"
                continue
            self.write(f"{kind} a{fold.number} = {first};", fold.node)
            clauses += f" reduction({sign}:a{fold.number})"
        return clauses

    def reduce(self, fold: Fold, value: str) -> None:
        """As `fold`, in the loop whose reduction clauses `_folds` has written."""
        if not is_extreme(fold):
            self.fold(fold, value)
            return
        kind, best, one = compute_type(fold.dtype), f"m{fold.number}", f"e{fold.number}"
        sign = ">" if fold.operator == "max" else "<"
        self.write(f"const mx_fold_{kind} {one} = mx_to_fold_{kind}({value});", fold.node)
        self.write(f"{best} = {one} {sign} {best} ? {one} : {best};", fold.node)
        self.write(f"u{fold.number} |= {value} != {value};", fold.node)

    def fold(self, fold: Fold, value: str) -> None:
        name = f"a{fold.number}"
        if fold.operator == "sum":
            if is_float(fold.dtype):
                self.write(f"{name} += {value};", fold.node)
            else:
                kind = compute_type(fold.dtype)
                wide = {"i64": "u64", "u64": "u64"}.get(kind, "u32")
                self.write(f"{name} = ({kind})(({wide}){name} + ({wide}){value});", fold.node)
            return
        sign = ">" if fold.operator == "max" else "<"
        self.write(f"{name} = {value} {sign} {name} ? {value} : {name};", fold.node)
        if is_float(fold.dtype):
            self.write(f"u{fold.number} |= {value} != {value};", fold.node)


def is_extreme(fold: Fold) -> bool:
    """Whether it is the maximum or minimum of floats."""
    return fold.operator != "sum" and is_float(fold.dtype)


def initial(fold: Fold) -> str:
    """The value that folding nothing gives."""
    if fold.operator == "sum":
        return literal(0, fold.dtype)
    largest = fold.operator == "min"
    if is_float(fold.dtype):
        return literal(float("inf") if largest else float("-inf"), fold.dtype)
    bits = fold.dtype.size_in_bits
    if fold.dtype.is_signed_integral():
        return literal(2 ** (bits - 1) - 1 if largest else -(2 ** (bits - 1)), fold.dtype)
    return literal(2**bits - 1 if largest else 0, fold.dtype)


def finish(
    printer: Printer, head: str, extra: Sequence[str] = (), ahead: Sequence[str] = ()
) -> Printed:
    """The whole function behind the lines ``ahead``, named by the hash of its text."""
    begins = printer.begins or (printer.kernel is not None and printer.kernel.begins)
    if begins:
        extra = [log_call("c", BEGINS, "lo", [("i", "lo"), ("i", "hi")]) + ";", *extra]
    sizes = printer.declare_sizes()
    prologue = [*ahead, head, *sizes, *(f"  {line}" for line in extra)]
    body = "\n".join([*prologue, *printer.write.out, "  return 0;", "}"])
    symbol = "k_" + blake2b(body.encode(), digest_size=10).hexdigest()
    shift = len(prologue)
    lines = [(a + shift, b + shift, node) for a, b, node in printer.write.lines()]
    text = body.replace(NAME, symbol) + "\n"
    return Printed(symbol, text, printer.symbols, lines, printer.checked)


def strip_of(cost: int) -> int:
    """How many elements of ``cost`` scalar operations each take some milliseconds: a power of
    two."""
    return 1 << max(STRIP_COST // max(cost, 1), 1).bit_length() - 1


def print_rows(kernel: Kernel, kept: int = 0, strip: int = 0) -> Printed:
    """The C of a map or row kernel: its parallel axis is the rows, or the elements when there are
    no rows. Rows are gone through in strips of so many elements; 0: at once.
    """
    printer = Printer()
    printer.kernel = kernel
    write = printer.write
    write.depth = 1
    printer.pointers(kernel)
    flat = kernel.kind == "map" and not kernel.rows
    inner = "" if flat and not kept else printer.poly(kernel.inner.extent)
    places = {} if flat else kept_in_results(kernel)
    if scratch := scratch_rows(kernel, kept, places):
        write(f"const i64 kept_bytes = ({inner} * 8 + 63) / 64 * 64;")
        for line in scratch:
            write(line)
    if flat:
        for current in kernel.passes:
            printer.loop("lo", "hi", current)
        return finish(printer, f"int {NAME}{SIGNATURE} {{")
    with write.block("for (i64 row = lo; row < hi; row++)"):
        printer.rows_header(kernel, "row")
        for number, store in places.items():
            start = printer.source(store.index - Poly.symbol(INNER))
            write(f"f32 *const t{number} = p{store.buffer} + {start};")
        for current in kernel.passes:
            if strip:
                printer.loop_in(printer.strips("j", kernel.inner.extent, strip), current)
            else:
                printer.loop("0", inner, current, kernel.inner.extent)
            for store in current.after:
                printer.emit([store.value], False)
                printer.store(store)
    return finish(printer, f"int {NAME}{SIGNATURE} {{")
