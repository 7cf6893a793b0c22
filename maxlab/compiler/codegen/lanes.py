"""Passes over a row as C that goes through it by vectors of ``MX_LANES`` floats.

A loop marked ``omp simd`` leaves two things undone. Of a reduction gcc keeps one vector, whose
additions wait for each other, and ends with a scalar loop over its lanes. And an instruction that
no expression of C stands for, as for the scaling by a power of two that ends ``exp``, is not used.

Here the elements are gone through in blocks of a vector. The loop over the lanes of a block is
marked ``MX_EACH_LANE`` and becomes straight code; between such loops stand calls of functions of
whole vectors, ``mx_exp_lanes_f32``, and what folds keep is added to vectors of which there are four
where the rest of the loop is short. Values go through arrays of ``MX_LANES`` elements, which
compilers turn into registers. What is left behind the last whole block is done one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import Protocol

from maxlab.compiler.codegen.scalar import compute_type, is_float, rounded
from maxlab.compiler.codegen.writer import Writer
from maxlab.compiler.loops import Expr, Fold, Pass, Store, walk
from maxlab.compiler.lower import INNER
from maxlab.opset.core import scalar_weight
from maxlab.toolchain.flags import Accuracy

WHOLE: dict[Accuracy, tuple[str, ...]] = {
    "exact": (),
    "default": ("exp", "erf", "sigmoid", "silu", "gelu", "tanh_sigmoid"),
    "fast": ("exp", "erf", "tanh", "sigmoid", "silu", "gelu_tanh", "gelu_quick", "tanh_sigmoid"),
}
"""The scalar operators of which there are functions of a whole vector, which change an array in
place."""
SHORT = 1
"""The most flops of an operator that takes an instruction or two."""
ACCUMULATORS = 4
"""Vectors that a fold of a short expression is kept in."""
LEAST = 8
"""The fewest elements, known before, that are gone through so. Of fewer, a compiler makes straight
code; of these, gcc would keep what a sum adds up in memory, which takes three times as long."""
LARGEST = 16
"""The most lanes that a vector has on any machine."""


def fits(current: Pass, roots: Sequence[Expr], extent: int | None, accuracy: Accuracy) -> bool:
    """Whether a pass over ``extent`` elements, None when the size is not known, is better gone
    through by vectors: it has folds or functions of whole vectors, and nothing that needs a branch.
    """
    if extent is not None and extent < LEAST:
        return False
    if any(compute_type(f.dtype) != "f32" or not f.value.varies for f in current.folds):
        return False
    nodes = list(walk(list(roots)))
    if any(n.kind in ("guard", "wrap", "tile") for n in nodes):
        return False
    if any(_is_whole(n, accuracy) for n in nodes):
        return True
    if not current.folds:
        return False
    return all(is_short(n) for n in nodes) or (extent is not None and extent % LARGEST == 0)


def _is_whole(node: Expr, accuracy: Accuracy) -> bool:
    return (
        node.kind == "op"
        and node.data in WHOLE[accuracy]
        and node.varies
        and compute_type(node.args[0].dtype) == "f32"
    )


def is_short(node: Expr) -> bool:
    """Whether ``node`` takes an instruction or two."""
    if node.kind == "op":
        return scalar_weight(node.data) <= SHORT or not node.varies
    return node.kind != "cast" or not node.varies or is_float(node.dtype)


class Elements(Protocol):
    """A printer of the values of an element.

    Attributes:
        write: Takes the lines.
        names: The names of values that are printed, by their numbers.
        axes: The names of axes.
        passes: How many passes have been gone through by vectors.
    """

    write: Writer
    names: dict[int, str]
    axes: dict[str, str]
    passes: int

    @property
    def accuracy(self) -> Accuracy:
        """How exact functions are."""

    def emit(self, roots: Sequence[Expr], varying: bool) -> None:
        """Print what is below ``roots`` and varies, or does not."""

    def emit_one(self, node: Expr) -> None:
        """Print one value."""

    def reduce(self, fold: Fold, value: str) -> None:
        """Print that ``value`` is folded."""

    def store(self, store: Store) -> None:
        """Print a store."""


class Lanes:
    """Prints one pass over the elements from ``low`` to ``high``; ``extent`` is how many they are,
    when that is known. One that ``streams`` has no folds, and its store goes around the caches, to
    the place of the element.
    """

    def __init__(
        self,
        printer: Elements,
        current: Pass,
        low: str,
        high: str,
        extent: int | None,
        *,
        streams: bool = False,
    ) -> None:
        self.printer, self.write, self.current = printer, printer.write, current
        self.low, self.high, self.extent, self.streams = low, high, extent, streams
        self.roots = [k.value for k in current.keeps] + [f.value for f in current.folds]
        self.roots += [s.value for s in current.stores]
        self.accuracy = printer.accuracy
        self.at = f"h{printer.passes}"
        printer.passes += 1
        self.stages = list(self._staged())
        nodes = list(walk(self.roots))
        self.short = len(self.stages) == 1 and all(is_short(n) for n in nodes)
        self.short &= all(f.operator == "sum" for f in current.folds)
        self.short &= not streams

    def _staged(self) -> Iterator[list[Expr]]:
        """The values that vary with the element: a list of those before the first function of whole
        vectors, one of those between it and the next, and so on. Such a function is the first of
        those that need it.
        """
        level: dict[int, int] = {}
        stages: list[list[Expr]] = [[]]
        for node in walk(self.roots):
            if node.varies and node.number not in self.printer.names and node.kind != "const":
                least = max((level.get(a.number, 0) for a in node.args), default=0)
                level[node.number] = least = least + _is_whole(node, self.accuracy)
                while len(stages) <= least:
                    stages.append([])
                stages[least].append(node)
        yield from stages

    # ------------------------------------------------------------ the parts
    def print(self) -> None:
        """Print the pass; what folds give is then in ``a…``, as behind any other loop."""
        many = self.short and (self.extent is None or self.extent >= 4 * ACCUMULATORS * LARGEST)
        counts = [ACCUMULATORS, 1] if many else [1]
        if many and self.extent is not None and self.extent % (ACCUMULATORS * LARGEST) == 0:
            counts = [ACCUMULATORS]
        for fold in self.current.folds:
            self._begin(fold, counts[0])
        self.write(f"i64 {self.at} = {self.low};")
        if self.streams:
            self._ahead()
        for count in counts:
            step = "MX_LANES" if count == 1 else f"{count} * MX_LANES"
            at = self.at
            with self.write.block(f"for (; {at} + {step} <= {self.high}; {at} += {step})"):
                for part in range(count):
                    with self.write.scope() if count > 1 else nullcontext():
                        self._block(part)
        for fold in self.current.folds:
            self._end(fold, counts[0])
        if self.streams or self.extent is None or self.extent % LARGEST:
            self._rest()
        if self.streams:
            self.write("mx_streamed();")

    def _ahead(self) -> None:
        """The elements before the first whole vector of the result."""
        (store,) = self.current.stores
        self.write(f"i64 ahead = mx_until_whole(p{store.buffer} + {self.at});")
        self.write(f"ahead = ahead < {self.high} - {self.at} ? ahead : {self.high} - {self.at};")
        with self.write.block("if (ahead)"):
            self._loops(f"{self.at} + l", "ahead", True)
        self.write(f"{self.at} += ahead;")

    def _begin(self, fold: Fold, count: int) -> None:
        """Declare the vectors of a fold."""
        number, node = fold.number, fold.node
        names = [f"y{number}_{part}" for part in range(count)]
        if fold.operator == "sum":
            self.write(f"mx_lanes {', '.join(f'{name} = {{0}}' for name in names)};", node)
            return
        first = "(-__builtin_inff())" if fold.operator == "max" else "__builtin_inff()"
        self.write(f"mx_fold_f32 k{number}[MX_LANES];", node)
        self.write("MX_EACH_LANE")
        self.write(
            f"for (i64 l = 0; l < MX_LANES; l++) k{number}[l] = mx_to_fold_f32({first});", node
        )
        kept = ", ".join(f"{name} = *(mx_lanes *)k{number}" for name in names)
        self.write(f"mx_lanes {kept}, z{number} = {{0}};", node)

    def _end(self, fold: Fold, count: int) -> None:
        """Print what the vectors of a fold give."""
        number, node, names = fold.number, fold.node, [f"y{fold.number}_{k}" for k in range(count)]
        two = {"sum": "mx_lanes_plus", "max": "mx_lanes_max", "min": "mx_lanes_min"}[fold.operator]
        while len(names) > 1:
            names = [f"{two}({a}, {b})" for a, b in zip(names[::2], names[1::2], strict=True)]
        value = f"mx_{fold.operator}_of_lanes({names[0]})"
        if fold.operator == "sum":
            self.write(f"f32 a{number} = {value};", node)
            return
        self.write(f"mx_fold_f32 m{number} = {value};", node)
        self.write(f"i32 u{number} = mx_any_of_lanes(z{number});", node)

    def _block(self, part: int) -> None:
        """One vector of elements, of those that a turn of the loop goes through."""
        at = f"{self.at} + l" if part == 0 else f"{self.at} + {part} * MX_LANES + l"
        for fold in self.current.folds:
            self.write(f"f32 f{fold.number}[MX_LANES];", fold.node)
        for store in self._streamed():
            self.write(f"f32 o{store.buffer}[MX_LANES];", store.value.node)
        self._loops(at, "MX_LANES", False)
        for store in self._streamed():
            whole = f"mx_stream_lanes(p{store.buffer} + {self.at}, o{store.buffer});"
            self.write(whole, store.value.node)
        for fold in self.current.folds:
            n, node, kept = fold.number, fold.node, f"y{fold.number}_{part}"
            if fold.operator == "sum":
                self.write(f"{kept} += *(mx_lanes *)f{n};", node)
                continue
            self.write(f"const mx_lanes w{n} = mx_lanes_read(f{n});", node)
            self.write(f"{kept} = mx_lanes_{fold.operator}({kept}, mx_lanes_fold(w{n}));", node)
            self.write(f"z{n} = mx_lanes_or(z{n}, mx_lanes_nan(w{n}));", node)

    def _streamed(self) -> Sequence[Store]:
        return self.current.stores if self.streams else ()

    def _rest(self) -> None:
        """The elements behind the last whole vector."""
        with self.write.block(f"if ({self.at} < {self.high})"):
            self._loops(f"{self.at} + l", f"{self.high} - {self.at}", True)

    def _loops(self, at: str, count: str, rest: bool) -> None:
        """The loops over the lanes of one vector, ``count`` of them, and what stands between."""
        printer, write, outer = self.printer, self.write, dict(self.printer.names)
        stage_of = {n.number: k for k, stage in enumerate(self.stages) for n in stage}
        crossing: set[int] = set()
        for k, stage in enumerate(self.stages):
            for node in stage:
                if _is_whole(node, self.accuracy):
                    continue
                crossing |= {a.number for a in node.args if stage_of.get(a.number, k) < k}
        last = len(self.stages) - 1
        crossing |= {r.number for r in self.roots if stage_of.get(r.number, last) < last}
        for k, stage in enumerate(self.stages):
            ahead = (
                [n for n in self.stages[k + 1] if _is_whole(n, self.accuracy)] if k < last else []
            )
            arrays = [n for n in stage if n.number in crossing]
            for node in ahead:
                zero = " = {0}" if rest else ""
                write(f"f32 x{node.number}[MX_LANES]{zero};", node.node)
            for node in arrays:
                write(f"{compute_type(node.dtype)} c{node.number}[MX_LANES];", node.node)
            if not rest or not all(is_short(n) for n in stage if not _is_whole(n, self.accuracy)):
                folds = self._clauses() if rest and k == last else ""
                write(f"#pragma omp simd{folds}" if rest else "MX_EACH_LANE")
            inside = dict(printer.names)
            with write.block(f"for (i64 l = 0; l < {count}; l++)"):
                write(f"const i64 j = {at};")
                printer.axes[INNER] = "j"
                self._stage(stage)
                for node in ahead:
                    write(f"x{node.number}[l] = {self._name(node.args[0])};", node.node)
                for node in arrays:
                    write(f"c{node.number}[l] = {printer.names[node.number]};", node.node)
                if k == last:
                    self._finish(rest)
            printer.names = inside
            for node in arrays:
                printer.names[node.number] = f"c{node.number}[l]"
            for node in ahead:
                write(f"mx_{node.data}_lanes_f32(x{node.number});", node.node)
        printer.names = outer

    def _name(self, node: Expr) -> str:
        if node.kind == "const":
            self.printer.emit([node], False)
        return self.printer.names[node.number]

    def _stage(self, stage: Sequence[Expr]) -> None:
        """Print the values of a stage."""
        printer = self.printer
        for node in stage:
            if _is_whole(node, self.accuracy):
                text = rounded(f"x{node.number}[l]", node.dtype)
                self.write(f"const f32 v{node.number} = {text};", node.node)
                printer.names[node.number] = f"v{node.number}"
            else:
                printer.emit_one(node)

    def _clauses(self) -> str:
        """The reduction clauses of a loop that goes on with what the vectors gave."""
        clauses = ""
        for fold in self.current.folds:
            n, sign = fold.number, "+" if fold.operator == "sum" else fold.operator
            if fold.operator == "sum":
                clauses += f" reduction(+:a{n})"
            else:
                clauses += f" reduction({sign}:m{n}) reduction(|:u{n})"
        return clauses

    def _finish(self, rest: bool) -> None:
        """Keep, fold and store the values of an element."""
        printer, write = self.printer, self.write
        for keep in self.current.keeps:
            write(f"t{keep.number}[j] = {printer.names[keep.value.number]};", keep.value.node)
        for fold in self.current.folds:
            value, n = printer.names[fold.value.number], fold.number
            if rest:
                printer.reduce(fold, value)
            else:
                write(f"f{n}[l] = {value};", fold.node)
        for store in self.current.stores:
            if self.streams and not rest:
                value = printer.names[store.value.number]
                write(f"o{store.buffer}[l] = {value};", store.value.node)
            else:
                printer.store(store)
