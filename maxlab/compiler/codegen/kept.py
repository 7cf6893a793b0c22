"""Where a row kernel of the CPU keeps what several of its passes need: `kept_in_results` and
`scratch_rows`."""

from __future__ import annotations

from collections.abc import Container, Sequence

from maxlab.compiler.codegen.scalar import compute_type
from maxlab.compiler.loops import Kernel, Pass, Store, walk
from maxlab.compiler.lower import INNER
from maxlab.dtype import DType
from maxlab.ir.poly import Poly


def kept_in_results(kernel: Kernel) -> dict[int, Store]:
    """The kept rows that have the place of a result until this is stored, by their numbers.

    A row of a result comes into the cache while it is computed what is kept of it, and not when all
    is computed and there is nothing left to do but to wait for it. What comes behind must read
    nothing from the same place: the result may be in the memory of an operand.
    """
    stores = [(n, s) for n, current in enumerate(kernel.passes) for s in current.stores]
    found: dict[int, Store] = {}
    for number, current in enumerate(kernel.passes):
        if len(current.keeps) != 1 or compute_type(current.keeps[0].value.dtype) != "f32":
            continue
        for at, store in stores:
            is_only = sum(one.buffer == store.buffer for _, one in stores) == 1
            dtype = kernel.buffers[store.buffer].dtype
            start = store.index - Poly.symbol(INNER)
            if at > number and is_only and dtype is DType.float32 and not start.depends_on([INNER]):
                if not _reads_at(store.index, kernel.passes[number + 1 :]):
                    found[current.keeps[0].number] = store
                    break
    taken = [store.buffer for store in found.values()]
    return found if len(set(taken)) == len(taken) else {}


def _reads_at(index: Poly, passes: Sequence[Pass]) -> bool:
    """Whether ``passes`` read an operand at ``index``, or where only the data says."""
    values = [keep.value for one in passes for keep in one.keeps]
    values += [fold.value for one in passes for fold in one.folds]
    values += [store.value for one in passes for store in (*one.stores, *one.after)]
    for node in walk(values):
        if node.kind in ("guard", "wrap", "gather"):
            return True
        if node.kind == "load" and node.data[1] == index:
            return True
    return False


def scratch_rows(kernel: Kernel, kept: int, but: Container[int] = ()) -> list[str]:
    """The declarations of the kept rows, without those of the numbers ``but``."""
    rows: dict[int, DType] = {}
    for current in kernel.passes:
        for keep in current.keeps:
            rows[keep.number] = keep.value.dtype
    found: list[str] = []
    offset = "(char *)ctx->scratch"
    for number in (n for n in range(kept) if n not in but):
        kind = compute_type(rows[number])
        found.append(f"{kind} *RS t{number} = ({kind} *)({offset} + {number} * kept_bytes);")
    return found


__all__ = ["kept_in_results", "scratch_rows"]
