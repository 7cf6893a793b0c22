"""The kernels of ``gather_nd``, ``scatter`` and ``scatter_nd``."""

from __future__ import annotations

from collections.abc import Sequence

from maxlab.ir.poly import ONE, Poly
from maxlab.opset.core import elements
from maxlab.opset.kernel import Site
from maxlab.opset.kernel_files import OwnKernel
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
    kernel = _cleared(at, elements(updates.type), elements(x.type), ONE)
    mapped, line = _inside(at, "line", f"i / ({many} * {at.size(few)})", fewer[:axis], sizes[:axis])
    more, column = _inside(
        at, "column", f"i % {at.size(few)}", fewer[axis + 1 :], sizes[axis + 1 :]
    )
    text = [*mapped, *more, at.wrap("w", indices.load("i"), n)]
    if not _never_empty(sizes[axis]):
        text.append(f"if (!{n}) continue;")
    text.append(f"const i64 to = (({line}) * {n} + w) * {at.size(inner)} + {column};")
    _last_cuda(kernel, "\n".join(text), ONE)


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
    """The result in lines of ``n`` slices of ``inner`` elements; ``scattering.c`` says how they are
    shared.

    Args:
        updates: Statements that make the updates of the line ``o``.
        count: Indices of a line.
        columns: Whether lines may be cut into the elements of every slice, where slices are long.
    """
    kernel = OwnKernel(
        at, "scattering.c", "scatter_lines",
        dims={"LINES": outer, "N": n, "SLICE": inner, "COUNT": count}, texts={"UPDATES": updates},
        COLUMNS=columns, IN_PLACE=at.in_place, CUTS=_CUTS, RARE=_RARE, CACHE=_CACHE,
    )  # fmt: skip
    total = outer * count * Poly.constant(_UPDATE) if at.in_place else None
    kernel.write(extent=outer * (n * inner + ONE), total=total)


def _cleared(at: Site, count: Poly, targets: Poly, inner: Poly) -> OwnKernel:
    """The kernel for a GPU, of which the part that clears memory is added.

    Args:
        count: Updates.
        targets: Targets, slices of ``inner`` elements.
    """
    kernel = OwnKernel(
        at, "scattering.c", "scatter_last",
        dims={"SLICE": inner}, sizes={"TARGETS": targets, "COUNT": count}, IN_PLACE=at.in_place,
        SINGLE=inner == ONE,
    )  # fmt: skip
    kernel.part("clear")
    return kernel


def _last_cuda(kernel: OwnKernel, place: str, inner: Poly) -> None:
    """Add the other parts; ``place`` are statements that declare ``to``, the target of update
    ``i``."""
    kernel.writer.texts["TO"] = place
    kernel.part("number")
    if not _is_empty(inner):
        kernel.part("write")


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
    kernel = _cleared(at, rows, n, inner) if at.target == "cuda" else None
    lines = ["i64 to = 0;"]
    for d in range(depth):
        size = at.size(sizes[d])
        lines.append(at.wrap(f"w{d}", indices.load(f"{row} * {depth} + {d}"), size))
        if at.target == "cuda" and not _never_empty(sizes[d]):
            lines.append(f"if (!{size}) continue;")
        lines.append(f"to = to * {size} + w{d};")
    if kernel is not None:
        _last_cuda(kernel, "\n".join(lines), inner)
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
