"""The rule that finds one kernel among equals: layers that are written by the same line, of which
one does more than the others."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

import numpy as np

from maxlab.analysis.advice.action import Action
from maxlab.analysis.advice.context import Context, sum_of
from maxlab.analysis.advice.kernel import Kernel
from maxlab.analysis.advice.pricing import Array, Times
from maxlab.errors import Location
from maxlab.ir import Op
from maxlab.opset import OPSET

EQUALS = 3
"""How many others a kernel has to be unlike: of two, nobody can say which is meant to be so."""
LARGER = 2.0
"""How many times as much as its equals it has to do."""


def unlike(context: Context) -> Iterator[Action]:
    """Products that do a multiple of what those do that are written at the same place, and read at
    the same place: a layer that was made wider than its equals, perhaps by mistake.

    It looks at counted arithmetic, not at times, so that it finds the same on a busy machine.
    """
    groups: dict[object, list[tuple[Kernel, Op]]] = {}
    for kernel in context.kernels:
        op = _product(context, kernel)
        if op is not None and op.loc is not None:
            groups.setdefault(_surroundings(op), []).append((kernel, op))
    found: dict[tuple[str, int], list[tuple[Kernel, Op, list[Kernel], Op]]] = {}
    for group in groups.values():
        flops = [kernel.time.flops for kernel, _ in group]
        usual = statistics.median_low(flops)
        same = [(k, op) for k, op in group if k.time.flops < LARGER * usual]
        larger = [(k, op) for k, op in group if k.time.flops >= LARGER * usual]
        if usual <= 0 or len(larger) != 1 or len(same) < EQUALS:
            continue
        (kernel, op), (_, other) = larger[0], same[0]
        if op.loc is not None:
            equals = [k for k, _ in same]
            found.setdefault((op.loc.file, op.loc.line), []).append((kernel, op, equals, other))
    for rows in found.values():
        yield _told(context, rows)


def _told(context: Context, rows: list[tuple[Kernel, Op, list[Kernel], Op]]) -> Action:
    about = [kernel for kernel, _, _, _ in rows]
    kernel, op, equals, other = max(rows, key=lambda row: row[0].ns)
    ratio = kernel.time.flops / statistics.median_low([k.time.flops for k in equals])
    times = f"{ratio:.2g}" if ratio < 10 else f"{ratio:.0f}"

    def saving(ns: Times) -> Array:
        total = sum_of(ns, about)
        for _, _, others, _ in rows:
            total = total - np.median(np.stack([ns(k) for k in others]), axis=0)
        return np.asarray(total)

    names = " and ".join(f"{k.id} ({k.time.name})" for k in about[:3])
    one = len(about) == 1
    return context.action(
        f"unlike:{about[0].id}",
        "unlike",
        f"Look at {' and '.join(k.id for k in about[:3])}: {times} times the work of "
        f"{'its' if one else 'their'} equals",
        why=f"{names} {'does' if one else 'do'} {times} times the arithmetic of the "
        f"{len(equals)} others that the same line writes{context.place([op.id])}: {kernel.id} "
        f"multiplies by {_matrix(op)}, the others by {_matrix(other)}. If that is not "
        f"meant, {'it' if one else 'they'} would take what the others do.",
        kernels=about,
        nodes=[op.id for _, op, _, _ in rows],
        saving=saving,
        basis="measured",
        how=f"# the sizes that {op.loc} gets this once: {_matrix(op)} instead of {_matrix(other)}",
    )


def _product(context: Context, kernel: Kernel) -> Op | None:
    """The product that ``kernel`` computes."""
    for node in kernel.step.nodes:
        op = context.op(node)
        if op is not None and OPSET[op.name].kind == "contract":
            return op
    return None


def _surroundings(op: Op) -> object:
    """Where ``op`` and what reads it were written: the same for each turn of a loop that makes
    layers, and another for each use of a function that multiplies."""
    readers = frozenset((user.name, _place(user.loc)) for user in op.result.uses)
    return op.name, _place(op.loc), readers


def _place(loc: Location | None) -> object:
    return None if loc is None else (loc.file, loc.line, loc.column)


def _matrix(op: Op) -> str:
    """The right operand as its shape."""
    return "[" + ", ".join(map(str, op.operands[-1].tensor_type.shape)) + "]"
