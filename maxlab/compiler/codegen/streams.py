"""Maps of floats as C that writes around the caches.

A store reads the cache line that it writes to first, and puts it in the place of another one.
Where a result is larger than all caches, both are for nothing: a third of what goes through memory
for one operand. Whether it is faster then depends on the processor, and on how much is computed for
each element, so such a text stands beside the usual one and is chosen by measurement.
"""

from __future__ import annotations

from maxlab.compiler.codegen.c import NAME, SIGNATURE, Printer, finish
from maxlab.compiler.codegen.lanes import Lanes
from maxlab.compiler.codegen.scalar import compute_type
from maxlab.compiler.loops import Expr, Kernel, walk
from maxlab.compiler.lower import INNER
from maxlab.compiler.printed import Printed
from maxlab.dtype import DType
from maxlab.ir.poly import Poly

LEAST = 1 << 20
"""Elements below which every machine has a cache for the result."""
_KINDS = ("const", "load", "op", "cast")


def streams(kernel: Kernel) -> bool:
    """Whether ``kernel`` has a text that writes around the caches: it computes each element of one
    result of float32 from those at the same place of its operands, and depends on no sizes."""
    if kernel.kind != "map" or kernel.rows or len(kernel.passes) != 1 or kernel.begins:
        return False
    (current,) = kernel.passes
    extent = kernel.inner.extent
    if extent.is_constant and extent.value < LEAST:
        return False
    if current.keeps or current.folds or current.after or len(current.stores) != 1:
        return False
    (store,) = current.stores
    place = Poly.symbol(INNER)
    if store.index != place or any(b.dtype is not DType.float32 for b in kernel.buffers):
        return False
    return not kernel.tests_results and all(_is_plain(node, place) for node in walk([store.value]))


def _is_plain(node: Expr, place: Poly) -> bool:
    if node.kind not in _KINDS or compute_type(node.dtype) not in ("f32", "i32"):
        return False
    return node.kind != "load" or node.data[1] == place


def print_streams(kernel: Kernel) -> Printed:
    """The C of a map kernel that `streams`; its parallel axis is the elements."""
    printer = Printer()
    printer.kernel = kernel
    printer.write.depth = 1
    printer.pointers(kernel)
    (current,) = kernel.passes
    printer.emit([store.value for store in current.stores], False)
    Lanes(printer, current, "lo", "hi", None, streams=True).print()
    return finish(printer, f"int {NAME}{SIGNATURE} {{")


__all__ = ["LEAST", "print_streams", "streams"]
