"""Ops that read and write at many indices at once: ``gather_nd``, ``scatter``, ``scatter_nd``.

A negative index counts from the end; one that is out of range ends the run. Where several updates
go to one place, the last of them, in row-major order, is the one that stays, on both targets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, ExecutionError, ShapeError
from maxlab.ir import Dim, Poly, StaticDim, TensorType, Type
from maxlab.ir.poly import ONE
from maxlab.opset.core import Array, Attrs, Call, Check, Sample, define, elements
from maxlab.opset.kernel import Site
from maxlab.opset.rules import axis_of, require_integral, same_device, same_dtype

_RARE = 4096
"""Elements of a line below which the CPU does not cut it for several threads."""
_CUTS = 16
"""Ranges in which it cuts one; elements from which on a slice is long."""
_CACHE = 1 << 23
"""Bytes to which a thread of the CPU writes anywhere at the same speed."""


def _product(sizes: Sequence[Poly]) -> Poly:
    total = ONE
    for size in sizes:
        total = total * size
    return total


def _wrapped(what: str, indices: Array, size: int) -> Array:
    """``indices`` of an axis of ``size``, from 0 on."""
    if indices.size and (indices.min() < -size or indices.max() >= size):
        bad = indices[(indices < -size) | (indices >= size)].ravel()[0]
        raise ExecutionError(
            "ML652",
            f"{what}: the index {bad} is out of range for a dim of size {size}",
            fix=f"indices go from {-size} to {size - 1}",
        )
    return np.where(indices < 0, indices + size, indices).astype(np.int64)


def _depth(what: str, x: TensorType, indices: TensorType, batch: int = 0) -> int:
    """The number of dims that each row of ``indices`` indexes.

    Raises:
        ShapeError: ML363, it is not known, or larger than the rank.
    """
    last = indices.shape[-1] if indices.rank > batch else None
    if not isinstance(last, StaticDim):
        raise ShapeError(
            "ML363",
            f"{what}: the indices have no last dim of known size"
            if last is None
            else f"{what}: the last dim of the indices is {last}, expected a known size",
            fix="the last dim says how many dims are indexed: rebind it to its number, or add it "
            "with ops.unsqueeze(indices, -1)",
        )
    if batch + last.dim > x.rank:
        raise ShapeError(
            "ML363",
            f"{what}: {last.dim} indices for a tensor of rank {x.rank}"
            + (f" with {batch} batch dims" if batch else ""),
            fix=f"the last dim of the indices is at most {x.rank - batch}",
        )
    return last.dim


# ---------------------------------------------------------------- gather_nd
def _gather_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    x, indices = types
    require_integral("gather_nd: the indices", indices)
    same_device("gather_nd", types)
    batch = attrs["batch_dims"]
    if not 0 <= batch <= x.rank:
        raise ArgumentError(
            "ML362",
            f"gather_nd: {batch} batch dims for a tensor of rank {x.rank}",
            fix=f"take batch_dims from 0 to {x.rank}",
        )
    depth = _depth("gather_nd", x, indices, batch)
    for axis in range(batch):
        if x.shape[axis] != indices.shape[axis]:
            raise ShapeError(
                "ML362",
                f"gather_nd: the batch dims differ at axis {axis}: {x.shape[axis]} ≠ "
                f"{indices.shape[axis]}",
                fix="make them equal, or rebind one of them; they do not broadcast",
            )
    shape = [*indices.shape[:-1], *x.shape[batch + depth :]]
    return [TensorType(x.dtype, shape, x.device)]


def _gather(call: Call, x: Array, indices: Array) -> Array:
    batch, depth = call.attrs["batch_dims"], indices.shape[-1]
    places: list[Array] = []
    for axis in range(batch):
        shape = [1] * (indices.ndim - 1)
        shape[axis] = x.shape[axis]
        places.append(np.arange(x.shape[axis]).reshape(shape))
    places += [_wrapped("gather_nd", indices[..., d], x.shape[batch + d]) for d in range(depth)]
    if not places:
        return np.broadcast_to(x, call.shapes[0])
    return np.asarray(x[tuple(np.broadcast_arrays(*places))])


def _gather_kernel(at: Site) -> None:
    x, indices = at.operands
    y = at.results[0]
    batch = at.attrs["batch_dims"]
    sizes = x.type.sizes
    depth = indices.type.shape[-1].dim
    rows = _product(indices.type.sizes[:-1])
    each = _product(indices.type.sizes[batch:-1])  # rows of one batch
    rest = _product(sizes[batch + depth :])
    row, part = ("i", "0") if at.target == "c" or rest == ONE else ("row", "part")
    if at.target == "cuda" and _is_empty(rows * rest):
        at.part("", rows)  # nothing is read
        return
    lines = []
    if row == "row":
        lines.append(f"const i64 part = i % {at.size(rest)};")
        if batch + depth:
            lines.append(f"const i64 row = i / {at.size(rest)};")
    lines.append(f"i64 from = {f'{row} / {at.size(each)}' if batch else '0'};")
    for d in range(depth):
        size = at.size(sizes[batch + d])
        lines.append(at.wrap(f"w{d}", indices.load(f"{row} * {depth} + {d}"), size))
        if at.target == "cuda" and not _never_empty(sizes[batch + d]):
            lines.append(f"if (!{size}) continue;")
        lines.append(f"from = from * {size} + w{d};")
    if at.target == "cuda":
        lines.append(
            f"{y.name}[i] = {x.name}[from{'' if rest == ONE else f' * {at.size(rest)} + {part}'}];"
        )
        at.part("\n".join(lines), rows * rest, work=Poly.constant(depth + 1))
        return
    lines.append(_move(at, y.name, "i", x.name, "from", rest))
    at.part("\n".join(lines), rows, work=rest + Poly.constant(4 * depth))


def _never_empty(size: Poly) -> bool:
    return size.is_constant and size.value > 0


def _is_empty(size: Poly) -> bool:
    return size.is_constant and size.value == 0


def _move(at: Site, to: str, to_row: str, source: str, source_row: str, count: Poly) -> str:
    """In C, the statement that copies a row of ``count`` elements."""
    if count == ONE:
        return f"{to}[{to_row}] = {source}[{source_row}];"
    n = at.size(count)
    if count.is_constant and count.value <= 16:
        return (
            f"for (i64 e = 0; e < {n}; e++) {to}[({to_row}) * {n} + e] = "
            f"{source}[({source_row}) * {n} + e];"
        )
    return (
        f"__builtin_memcpy({to} + ({to_row}) * {n}, {source} + ({source_row}) * {n}, "
        f"(u64){n} * sizeof *{to});"
    )


def _gather_samples() -> list[Sample]:
    x = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)
    rng = np.random.default_rng(21)

    def at(shape: tuple[int, ...], limits: Sequence[int]) -> Array:
        return np.stack([rng.integers(-n, n, shape) for n in limits], -1)

    found = [
        Sample((x, at((7,), (2, 3, 4, 5))), {"batch_dims": 0}, (("a", 3, 4, 5), ("m", 4)), "full"),
        Sample((x, at((2, 6), (2, 3))), {"batch_dims": 0}, (("a", "b", "c", "d"), ("m", "n", 2))),
        Sample((x, at((2, 6), (3, 4))), {"batch_dims": 1}, (("a", "b", 4, "d"), ("a", "n", 2))),
        Sample((x, at((2, 3), (4, 5)).astype(np.int32)), {"batch_dims": 2}, label="two batch dims"),
        Sample((x, at((2,), (3,))), {"batch_dims": 1}, label="one of a batch"),
        Sample((x, np.zeros((3, 0), np.int64)), {"batch_dims": 0}, label="no index"),
        Sample((x, np.zeros((0, 2), np.int64)), {"batch_dims": 0}, label="no rows"),
        Sample((x, np.array([1, -1], np.int64)), {"batch_dims": 0}, label="one row"),
        Sample((np.zeros((0, 3), np.float32), np.zeros((0, 1), np.int64)), {"batch_dims": 1}),
        Sample((x[..., :0], at((3,), (2, 3))), {"batch_dims": 0}, label="empty slices"),
        Sample((x.reshape(6, 20), at((9,), (6,)).astype(np.uint8) % 6), {"batch_dims": 0}),
    ]
    return found + [
        Sample((x[0].astype(kind), at((5,), (3, 4))), {"batch_dims": 0}, label=label)
        for label, kind in _kinds()
    ]


def _kinds() -> list[tuple[str, np.dtype[Any]]]:
    dtypes = [
        DType.bool, DType.int8, DType.uint16, DType.int32, DType.uint64, DType.float16,
        DType.bfloat16, DType.float64,
    ]  # fmt: skip
    return [(d.name, np.dtype(d.ml_numpy)) for d in dtypes]


define(
    "gather_nd",
    "kernel",
    "index",
    "The operand's parts at rows of indices, each of which indexes its leading dims; the dims "
    "before them are shared.",
    infer=_gather_infer,
    reference=_gather,
    kernel=_gather_kernel,
    samples=_gather_samples,
)


# ---------------------------------------------------------------- scatter
def _scatter_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    x, updates, indices = types
    require_integral("scatter: the indices", indices)
    same_dtype("scatter: the input and the updates", [x, updates])
    same_device("scatter", types)
    axis = axis_of(attrs["axis"], x.rank, "scatter")
    if updates.shape != indices.shape:
        raise ShapeError(
            "ML364",
            f"scatter: the updates have the shape {_text(updates)}, the indices {_text(indices)}",
            fix="give an index for each update",
        )
    if updates.rank != x.rank:
        raise ShapeError(
            "ML364",
            f"scatter: the updates have rank {updates.rank}, the input has rank {x.rank}",
            fix="give them one rank, with ops.unsqueeze for example",
        )
    for position, (few, many) in enumerate(zip(updates.shape, x.shape, strict=True)):
        if position != axis and _exceeds(few, many):
            raise ShapeError(
                "ML364",
                f"scatter: the updates have the size {few} at axis {position}, the input has only "
                f"{many}",
                fix=f"only axis {axis}, which is indexed, may be longer than that of the input",
            )
    return [x]


def _text(type: TensorType) -> str:
    return f"[{', '.join(map(str, type.shape))}]"


def _exceeds(few: Dim, many: Dim) -> bool:
    return isinstance(few, StaticDim) and isinstance(many, StaticDim) and few.dim > many.dim


def _scatter_checks(
    operands: Sequence[TensorType], results: Sequence[Type], attrs: Attrs
) -> list[Check]:
    x, updates, _ = operands
    axis = axis_of(attrs["axis"], x.rank, "scatter")
    return [
        Check(few, "<=", many, f"scatter: the updates are longer than the input at axis {position}")
        for position, (few, many) in enumerate(zip(updates.sizes, x.sizes, strict=True))
        if position != axis and few != many
    ]


def _scatter(call: Call, x: Array, updates: Array, indices: Array) -> Array:
    axis = call.attrs["axis"] % x.ndim
    places: list[Array] = list(np.indices(indices.shape, sparse=True))
    places[axis] = _wrapped("scatter", indices, x.shape[axis])
    made = x.copy()
    # NumPy writes one after another, so the last of several updates stays.
    made[tuple(np.broadcast_arrays(*places))] = updates
    return made


def _inside(
    at: Site, name: str, index: str, sizes: Sequence[Poly], of: Sequence[Poly]
) -> tuple[list[str], str]:
    """How the flat ``index`` in dims ``sizes`` is one in dims ``of``, which are as large or larger:
    declarations, and the flat index."""
    if list(sizes) == list(of):
        return [], index
    lines, found = [f"i64 {name}_rest = {index}, {name} = 0;"], name
    lines.append("{")
    stride: Poly = ONE
    for size, whole in zip(reversed(sizes), reversed(of), strict=True):
        lines.append(
            f"  {name} += {name}_rest % {at.size(size)} * {at.size(stride)}; "
            f"{name}_rest /= {at.size(size)};"
        )
        stride = stride * whole
    lines.append("}")
    return lines, found


def _scatter_kernel(at: Site) -> None:
    x, updates, indices = at.operands
    sizes, fewer = x.type.sizes, updates.type.sizes
    axis = axis_of(at.attrs["axis"], len(sizes), "scatter")
    n, many = at.size(sizes[axis]), at.size(fewer[axis])
    outer, inner = _product(sizes[:axis]), _product(sizes[axis + 1 :])
    few = _product(fewer[axis + 1 :])
    if at.target == "c":
        # The updates of the line `o`, whose places are counted as those of its input are.
        lines, line = ["const i64 many = " + many + ";"], "o"
        if list(fewer[:axis]) != list(sizes[:axis]):
            lines.append("i64 rest = o, line = 0, step = 1, inside = 1;")
            for size, part in zip(reversed(sizes[:axis]), reversed(fewer[:axis]), strict=True):
                lines.append(
                    f"inside &= rest % {at.size(size)} < {at.size(part)}; "
                    f"line += rest % {at.size(size)} * step; step *= {at.size(part)}; "
                    f"rest /= {at.size(size)};"
                )
            lines.append("if (!inside) continue;")
            line = "line"
        lines.append(f"const i64 own = {line} * many * {at.size(few)};")
        if inner == ONE and few == ONE:
            lines.append("for (i64 j = 0; j < many; j++) {")
            lines.append(f"  {at.wrap('w', indices.load('own + j'), n)}")
            lines.append(_kept(updates.stored, "w", "w", updates.name, "own + j"))
        else:
            more, column = _inside(at, "column", "c", fewer[axis + 1 :], sizes[axis + 1 :])
            first, last = ("0", at.size(few)) if more else ("c0", "c1")
            lines.append(
                f"for (i64 j = 0; j < many; j++) for (i64 c = {first}; c < {last}; c++) {{"
            )
            place = f"own + j * {at.size(few)} + c"
            lines.append(f"  {at.wrap('w', indices.load(place), n)}")
            lines += more
            if more:
                lines.append("if (column < c0 || column >= c1) continue;")
            to = f"w * {at.size(inner)} + {column}"
            lines.append(_kept(updates.stored, "w", to, updates.name, place))
        lines.append("}")
        _lines_c(at, "\n".join(lines), outer, sizes[axis], inner, fewer[axis] * few, columns=True)
        return
    if _is_empty(elements(updates.type)):
        at.part(f"{at.results[0].name}[i] = {x.name}[i];", elements(x.type))
        return
    last = _cleared(at, elements(x.type))
    mapped, line = _inside(at, "line", f"i / ({many} * {at.size(few)})", fewer[:axis], sizes[:axis])
    more, column = _inside(
        at, "column", f"i % {at.size(few)}", fewer[axis + 1 :], sizes[axis + 1 :]
    )
    text = [*mapped, *more, at.wrap("w", indices.load("i"), n)]
    if not _never_empty(sizes[axis]):
        text.append(f"if (!{n}) continue;")
    text.append(f"const i64 to = (({line}) * {n} + w) * {at.size(inner)} + {column};")
    _last_cuda(at, last, "\n".join(text), elements(updates.type), elements(x.type), ONE)


def _kept(kind: str, target: str, to: str, updates: str, place: str) -> str:
    """In C, the store of an update whose target may be another thread's: without a branch, which
    could not be foreseen."""
    return (
        f"  {{ const u64 mine = -(u64)((u64)({target} - t0) < (u64)(t1 - t0)); "
        f"*({kind} *)(((u64)(out + {to}) & mine) | ((u64)&unused & ~mine)) = {updates}[{place}]; }}"
    )


def _lines_c(
    at: Site,
    updates: str,
    outer: Poly,
    n: Poly,
    inner: Poly,
    count: Poly,
    *,
    columns: bool = False,
) -> None:
    """The result in lines of ``n`` slices of ``inner`` elements. Where there are few lines each is
    cut: into ranges of slices or, if ``columns`` says that this is possible and slices are long,
    of the elements of every slice. Who owns a range copies it from the input and goes through the
    updates of the line in order, keeping those that are its own.

    The parallel axis only says who owns what: the owner of a range is who has the element at which
    its share of the line begins (a line has one element more than its size, so that one of an empty
    input has an owner too). Many updates of single elements are not shared while the line fits into
    the cache: going through them takes as long as writing them.

    Args:
        updates: Statements that make the updates of the line ``o``.
        count: Indices of a line.
    """
    x, y, kind = at.operands[0].name, at.results[0].name, at.results[0].stored
    text = f"""\
const i64 lines = {at.size(outer)}, n = {at.size(n)}, slice = {at.size(inner)};
const i64 whole = n * slice + 1, alone = lo == 0 && hi == lines * whole;
const i64 columns = {f"slice >= {_CUTS}" if columns else "0"};
i64 cuts = ctx->nthreads < {_CUTS} ? ctx->nthreads : {_CUTS};
if (alone || lines >= 4 * ctx->nthreads || whole < {_RARE}) cuts = 1;
if (slice < {_CUTS} && {at.size(count)} > n / 8 && whole * (i64)sizeof *{y} <= {_CACHE}) cuts = 1;
for (i64 o = lo / whole; o * whole < hi; o++)
  for (i64 cut = 0; cut < cuts; cut++) {{
    const i64 start = o * whole + (whole - 1) * cut / cuts;
    if (start < lo || start >= hi) continue;
    const i64 t0 = columns ? 0 : n * cut / cuts, t1 = columns ? n : n * (cut + 1) / cuts;
    const i64 c0 = columns ? slice * cut / cuts : 0;
    const i64 c1 = columns ? slice * (cut + 1) / cuts : slice;
    {kind} *const out = {y} + o * n * slice;
    const {kind} *const in = {x} + o * n * slice;
    {kind} unused;
    (void)unused;
    if (c1 - c0 == slice)
      __builtin_memcpy(out + t0 * slice, in + t0 * slice, (u64)((t1 - t0) * slice) * sizeof *out);
    else
      for (i64 t = t0; t < t1; t++)
        __builtin_memcpy(out + t * slice + c0, in + t * slice + c0, (u64)(c1 - c0) * sizeof *out);
    {_indented(updates, 4)}
  }}
lo = hi;"""
    at.part("", outer * (n * inner + ONE), before=text)


def _indented(text: str, by: int) -> str:
    return text.replace("\n", "\n" + " " * by)


def _cleared(at: Site, targets: Poly) -> str:
    """On a GPU, memory for the number of an update for each target, which is 0 after this part."""
    last: str = at.temporary(DType.uint64, targets).name
    at.part(f"{last}[i] = 0;", targets, name="clear")
    return last


def _last_cuda(at: Site, last: str, place: str, count: Poly, targets: Poly, inner: Poly) -> None:
    """Every update writes its number to its target, where the highest stays; then each element of
    the result comes from the update that its target names, or from the input.

    Args:
        last: What ``_cleared`` gave.
        place: Statements that declare ``to``, the target of update ``i``.
        count: Updates.
        targets: Targets, slices of ``inner`` elements.
    """
    x, updates = at.operands[0].name, at.operands[1].name
    text = f"{place}\natomicMax(&{last}[to], (u64)i + 1);"
    at.part(text, count, work=Poly.constant(4), name="number")
    if _is_empty(inner):
        return
    if inner == ONE:
        slot, source = "i", "number - 1"
    else:
        size = at.size(inner)
        slot, source = f"i / {size}", f"(number - 1) * {size} + i % {size}"
    text = f"""\
const u64 number = {last}[{slot}];
{at.results[0].name}[i] = number ? {updates}[{source}] : {x}[i];"""
    at.part(text, targets * inner, name="write")


def _scatter_samples() -> list[Sample]:
    rng = np.random.default_rng(22)

    def case(
        shape: tuple[int, ...],
        updated: tuple[int, ...],
        axis: int,
        kind: str = "float32",
        index: str = "int64",
    ) -> tuple[tuple[Array, Array, Array], dict[str, int]]:
        x = rng.standard_normal(shape).astype(kind)
        u = (rng.standard_normal(updated) + 100).astype(kind)
        n = shape[axis]
        return (x, u, rng.integers(-n, max(n, 1), updated).astype(index)), {"axis": axis}

    names = (("a", "b"), ("a", "m"), ("a", "m"))
    other = (("a", "b"), ("m", "n"), ("m", "n"))
    third = (("a", "b", "c"), ("a", "m", "c"), ("a", "m", "c"))
    found = [
        Sample(*case((4, 9), (4, 30), -1), names, "rows"),
        Sample(
            *case((6, 5), (20, 5), 0, index="int32"),
            (("a", "b"), ("m", "b"), ("m", "b")),
            "columns",
        ),
        Sample(*case((3, 7, 4), (3, 12, 4), 1), third, "middle"),
        Sample(*case((4, 9), (2, 5), 1), other, "fewer rows"),
        Sample(*case((4, 9), (7, 5), 0), other, "fewer columns"),
        Sample(*case((3, 4, 5, 2), (2, 3, 9, 1), 2), label="fewer of all"),
        Sample(*case((3, 4, 5, 6), (3, 9, 2, 5), 1), label="fewer behind"),
        Sample(*case((50,), (300,), 0), (("n",), ("m",), ("m",)), "one line"),
        Sample(*case((20_000,), (30_000,), 0), (("n",), ("m",), ("m",)), "long"),
        Sample(*case((3000, 4), (5000, 4), 0), label="long columns"),
        Sample(*case((4, 9), (4, 0), 1), label="no updates"),
        Sample(*case((0, 9), (0, 5), 1), label="no lines"),
        Sample(*case((4, 0), (4, 0), 1), label="empty"),
    ]
    found += [
        Sample(
            (
                rng.integers(0, 2, (3, 8)).astype(kind),
                rng.integers(0, 2, (3, 6)).astype(kind),
                rng.integers(-8, 8, (3, 6)),
            ),
            {"axis": 1},
            label=label,
        )
        for label, kind in _kinds()
    ]
    return found


define(
    "scatter",
    "kernel",
    "index",
    "The operand with updates at the given indices of one axis; of several at one place, the last.",
    infer=_scatter_infer,
    reference=_scatter,
    kernel=_scatter_kernel,
    checks=_scatter_checks,
    samples=_scatter_samples,
)


# ---------------------------------------------------------------- scatter_nd
def _scatter_nd_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    x, updates, indices = types
    require_integral("scatter_nd: the indices", indices)
    same_dtype("scatter_nd: the input and the updates", [x, updates])
    same_device("scatter_nd", types)
    depth = _depth("scatter_nd", x, indices)
    wanted = [*indices.shape[:-1], *x.shape[depth:]]
    if list(updates.shape) != wanted:
        raise ShapeError(
            "ML364",
            f"scatter_nd: the updates have the shape {_text(updates)}, expected "
            f"[{', '.join(map(str, wanted))}]",
            fix="give a slice of the input for each row of the indices; rebind sizes that are "
            "always equal",
        )
    return [x]


def _scatter_nd(call: Call, x: Array, updates: Array, indices: Array) -> Array:
    made, depth = x.copy(), indices.shape[-1]
    rows = indices.reshape(-1, depth) if depth else np.zeros((_rows(indices), 0), np.int64)
    places = [_wrapped("scatter_nd", rows[:, d], x.shape[d]) for d in range(depth)]
    slices = updates.reshape(len(rows), *x.shape[depth:])
    for number in range(len(rows)):
        made[tuple(place[number] for place in places)] = slices[number]
    return made


def _rows(indices: Array) -> int:
    return int(np.prod(indices.shape[:-1], dtype=np.int64))


def _scatter_nd_kernel(at: Site) -> None:
    x, updates, indices = at.operands
    sizes = x.type.sizes
    depth = indices.type.shape[-1].dim
    n, inner = _product(sizes[:depth]), _product(sizes[depth:])
    rows = _product(indices.type.sizes[:-1])
    row = "j" if at.target == "c" else "i"
    if at.target == "cuda" and _is_empty(rows):
        at.part(f"{at.results[0].name}[i] = {x.name}[i];", elements(x.type))
        return
    last = _cleared(at, n) if at.target == "cuda" else ""
    lines = ["i64 to = 0;"]
    for d in range(depth):
        size = at.size(sizes[d])
        lines.append(at.wrap(f"w{d}", indices.load(f"{row} * {depth} + {d}"), size))
        if at.target == "cuda" and not _never_empty(sizes[d]):
            lines.append(f"if (!{size}) continue;")
        lines.append(f"to = to * {size} + w{d};")
    if at.target == "cuda":
        _last_cuda(at, last, "\n".join(lines), rows, n, inner)
        return
    if inner == ONE:
        lines.append(_kept(updates.stored, "to", "to", updates.name, "j"))
    else:
        lines.append(f"if (to >= t0 && to < t1) {_move(at, 'out', 'to', updates.name, 'j', inner)}")
    body = "\n  ".join(lines)
    _lines_c(at, f"for (i64 j = 0; j < {at.size(rows)}; j++) {{\n  {body}\n}}", ONE, n, inner, rows)


def _scatter_nd_samples() -> list[Sample]:
    rng = np.random.default_rng(23)

    def case(
        shape: tuple[int, ...], rows: tuple[int, ...], depth: int, kind: str = "float32"
    ) -> tuple[tuple[Array, Array, Array], dict[str, int]]:
        x = rng.standard_normal(shape).astype(kind)
        u = (rng.standard_normal((*rows, *shape[depth:])) + 100).astype(kind)
        parts = [rng.integers(-n, max(n, 1), rows) for n in shape[:depth]]
        return (x, u, np.stack(parts, -1) if parts else np.zeros((*rows, 0), np.int64)), {}

    found = [
        Sample(*case((4, 5), (30,), 2), (("a", "b"), ("m",), ("m", 2)), "full"),
        Sample(*case((6, 5), (20,), 1), (("a", "b"), ("m", "b"), ("m", 1)), "rows"),
        Sample(*case((3, 4, 30), (2, 5), 2), (("a", 4, "c"), ("m", "n", "c"), ("m", "n", 2))),
        Sample(*case((3, 2), (4,), 0), label="no index"),
        Sample(*case((3, 4), (0,), 1), label="no rows"),
        Sample(*case((3, 4), (), 1), label="one row"),
        Sample(*case((0, 4), (0,), 1), label="empty"),
        Sample(*case((3, 0), (4,), 1), label="empty slices"),
        Sample(*case((20_000,), (30_000,), 1), (("n",), ("m",), ("m", 1)), "long"),
        Sample(*case((400, 40), (500,), 1), label="long rows"),
    ]
    found += [
        Sample(
            (
                rng.integers(0, 2, (3, 4)).astype(kind),
                rng.integers(0, 2, (7, 4)).astype(kind),
                rng.integers(-3, 3, (7, 1)).astype(np.int32),
            ),
            label=label,
        )
        for label, kind in _kinds()
    ]
    return found


define(
    "scatter_nd",
    "kernel",
    "index",
    "The operand with updates at rows of indices, each of which indexes its leading dims; of "
    "several at one place, the last.",
    infer=_scatter_nd_infer,
    reference=_scatter_nd,
    kernel=_scatter_nd_kernel,
    samples=_scatter_nd_samples,
)
