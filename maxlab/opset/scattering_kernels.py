"""The kernels of ``gather_nd``, ``scatter`` and ``scatter_nd``."""

from __future__ import annotations

from collections.abc import Sequence

from maxlab.dtype import DType
from maxlab.ir.poly import ONE, Poly
from maxlab.opset.core import elements
from maxlab.opset.kernel import Site
from maxlab.opset.rules import axis_of

_RARE = 4096
"""Elements of a line below which the CPU does not cut it for several threads."""
_CUTS = 16
"""Ranges in which it cuts one; elements from which on a slice is long."""
_UPDATE = 8
"""Scalar operations that the CPU takes for an update, about."""
_CACHE = 1 << 23
"""Bytes to which a thread of the CPU writes anywhere at the same speed."""


def _product(sizes: Sequence[Poly]) -> Poly:
    total = ONE
    for size in sizes:
        total = total * size
    return total


# ---------------------------------------------------------------- gather_nd
def gather_kernel(at: Site) -> None:
    """Write the kernels of ``gather_nd``."""
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


# ---------------------------------------------------------------- scatter
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


def scatter_kernel(at: Site) -> None:
    """Write the kernels of ``scatter``."""
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
            lines.append(f"{at.along('j', '0', 'many')} {{")
            lines.append(f"  {at.wrap('w', indices.load('own + j'), n)}")
            lines.append(_kept(updates.stored, "w", "w", updates.name, "own + j"))
        else:
            more, column = _inside(at, "column", "c", fewer[axis + 1 :], sizes[axis + 1 :])
            first, last = ("0", at.size(few)) if more else ("c0", "c1")
            each = f"for (i64 c = {first}; c < {last}; c++) {{"
            lines.append(f"{at.along('j', '0', 'many', strip=1 << 16)} {each}")
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
    copied = f"""\
    const {kind} *const in = {x} + o * n * slice;
    if (c1 - c0 == slice)
      __builtin_memcpy(out + t0 * slice, in + t0 * slice, (u64)((t1 - t0) * slice) * sizeof *out);
    else
      for (i64 t = t0; t < t1; t++)
        __builtin_memcpy(out + t * slice + c0, in + t * slice + c0, (u64)(c1 - c0) * sizeof *out);
"""
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
    {kind} unused;
    (void)unused;
{"" if at.in_place else copied}    {_indented(updates, 4)}
  }}
lo = hi;"""
    whole = outer * (n * inner + ONE)
    total = outer * count * Poly.constant(_UPDATE) if at.in_place else None
    at.part("", whole, before=text, total=total)


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
    if at.in_place:
        text = f"""\
const u64 number = {last}[{slot}];
if (number) {at.results[0].name}[i] = {updates}[{source}];"""
    at.part(text, targets * inner, name="write")


def scatter_nd_kernel(at: Site) -> None:
    """Write the kernels of ``scatter_nd``."""
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
    _lines_c(
        at,
        f"{at.along('j', '0', at.size(rows), strip=1 << 16)} {{\n  {body}\n}}",
        ONE,
        n,
        inner,
        rows,
    )
