"""Merges neighbouring axes of a kernel that every index treats as one."""

from __future__ import annotations

from maxlab.compiler.loops import Axis, Kernel, indices, walk
from maxlab.ir.poly import ONE, ZERO, Poly


def collapse(kernel: Kernel, keep_inner: bool = False) -> None:
    """Merge neighbouring axes that every index treats as one, so that rows need no division to
    find.

    Axes ``a`` (outer) and ``b`` merge when each index uses them as ``(a * extent(b) + b) * c``. The
    merged axis keeps the name of ``b``. With ``keep_inner`` only rows merge with rows.
    """
    changed = True
    while changed:
        changed = False
        positions = _all_indices(kernel)
        axes = (
            [*kernel.rows] if keep_inner or kernel.kind != "map" else [*kernel.rows, kernel.inner]
        )
        for outer, inner in zip(reversed(axes[:-1]), reversed(axes[1:]), strict=True):
            if _mergeable(positions, outer, inner):
                _merge(kernel, outer, inner)
                changed = True
                break


def _all_indices(kernel: Kernel) -> set[Poly]:
    return set(indices(kernel))


def _mergeable(positions: set[Poly], outer: Axis, inner: Axis) -> bool:
    if inner.extent == ONE:
        return False
    for position in positions:
        a, b = position.coefficient(outer.name), position.coefficient(inner.name)
        if a is None or b is None or a != b * inner.extent:
            return False
    return True


def _merge(kernel: Kernel, outer: Axis, inner: Axis) -> None:
    """Drop ``outer``; ``inner`` gets both extents. Indices lose the outer term, which the inner one
    now covers.
    """
    gone = {outer.name: ZERO}

    def fix(position: Poly) -> Poly:
        return position.substitute(gone)

    for node in list(walk(kernel.expressions())):
        if node.kind == "load" or node.kind == "gather":
            node.data = (node.data[0], fix(node.data[1]))
        elif node.kind == "index":
            node.data = fix(node.data)
        elif node.kind == "guard":
            node.data = tuple((fix(p), size) for p, size in node.data)
    for store in kernel.stores():
        store.index = fix(store.index)
    merged = Axis(inner.name, outer.extent * inner.extent)
    kernel.rows = [axis for axis in kernel.rows if axis is not outer]
    if kernel.inner is inner:
        kernel.inner = merged
    else:
        kernel.rows = [merged if axis is inner else axis for axis in kernel.rows]
