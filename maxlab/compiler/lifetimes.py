"""When the buffers of a plan are in use, and how much memory that takes at the most."""

from __future__ import annotations

from collections.abc import Sequence

from maxlab.compiler.plan_whole import Whole
from maxlab.ir.poly import ZERO, Poly


def slot_uses(plan: Whole) -> dict[int, tuple[int, int]]:
    """The first and the last step that use each slot. The size of a dim is used to the end of the
    stage that computes it, and what comes from before a loop, or is read behind it, through all of
    its turns.
    """
    found: dict[int, tuple[int, int]] = {}
    for number, step in enumerate(plan.steps):
        for slot in (*step.pointers, *step.keeps):
            first, _ = found.get(slot, (number, number))
            found[slot] = (first, number)
        if step.binds is not None:
            end = next((cut for cut in plan.cuts if cut > number), len(plan.steps))
            first, last = found[step.binds.slot]
            found[step.binds.slot] = first, max(last, end - 1)
    for loop in plan.loops:  # inner ones come first
        for slot, (first, last) in found.items():
            if first < loop.start <= last < loop.stop:
                found[slot] = first, loop.stop - 1
            elif loop.start <= first < loop.stop <= last:
                found[slot] = loop.start, last
    return found


def peak(plan: Whole) -> Poly | None:
    """The bytes of intermediate values that are in use at once at the step that needs most of them;
    None where that is another step for other sizes.

    Example:
        >>> from maxlab import engine
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> types = [TensorType(DType.float32, ["n", "n"])]
        >>> graph = Graph("f", lambda x: ops.softmax(x) * ops.exp(ops.sum(x, axis=0)), types)
        >>> str(peak(engine.InferenceSession().load(graph).plan))
        'n * 4'
    """
    changes: dict[int, Poly] = {}
    for number, (first, last) in slot_uses(plan).items():
        if plan.slots[number].kind == "arena":
            nbytes = plan.slots[number].nbytes
            changes[first] = changes.get(first, ZERO) + nbytes
            changes[last + 1] = changes.get(last + 1, ZERO) - nbytes
    live, seen = ZERO, [ZERO]
    for number in sorted(changes):
        live = live + changes[number]
        seen.append(live)
    return largest(list(dict.fromkeys(seen)))


def largest(sizes: Sequence[Poly]) -> Poly | None:
    """The one of ``sizes`` that is nowhere below another, whatever the dims are; None where that
    depends on them.

    Example:
        >>> n, m = Poly.symbol("n"), Poly.symbol("m")
        >>> str(largest([n, n + m])), largest([n, m])
        ('m + n', None)
    """
    names = dict.fromkeys(name for size in sizes for name in size.symbols())
    env = dict.fromkeys(names, 1 << 10)
    try:
        found = max(sizes, key=lambda size: size.evaluate(env))
    except ZeroDivisionError:
        return None
    others = (found - size for size in sizes if size is not found)
    return found if all(rest.coefficients_are_positive for rest in others) else None


__all__ = ["largest", "peak", "slot_uses"]
