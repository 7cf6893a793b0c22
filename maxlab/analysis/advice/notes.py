"""The rules of advice whose change is the user's to make: maxlab says where and why."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from maxlab.analysis.advice.action import Action
from maxlab.analysis.advice.context import Context
from maxlab.analysis.advice.kernel import Kernel
from maxlab.analysis.advice.pricing import Saving
from maxlab.compiler.loops import walk
from maxlab.dtype import DType
from maxlab.engine.times import plural
from maxlab.ir.poly import ONE
from maxlab.opset import OPSET, is_cast

PANEL = 32
"""Columns that a product of float32 computes at once (``MX_NR`` of mx_abi.h)."""
LEAST_WAIT = 0.2
"""How much of a kernel's time threads have to wait, for want of items, for that to be named."""


def copies(context: Context) -> Iterator[Action]:
    """Kernels that only lay a value out in another order."""
    for kernel in context.kernels:
        if kernel.step.kind != "copy" or _is_state(context, kernel):
            continue
        where = context.place(kernel.step.nodes)
        yield context.action(
            f"layout:{kernel.id}",
            "layout",
            f"Avoid the copy in {kernel.id}",
            why=f"{kernel.id} computes nothing: it lays a value out in another order of axes"
            f"{where}, because what reads it, or an output, needs that order. A value that is made "
            "in that order needs no copy.",
            kernels=[kernel],
            how="# transpose the smaller operand, or a weight before it is loaded;\n"
            "# or return the value as it is, and let whoever reads it use that order",
        )


def _is_state(context: Context, kernel: Kernel) -> bool:
    """Whether ``kernel`` writes what a loop carries or a branch gives: a copy that no order of
    values saves."""
    plan = context.plan
    if any(kernel.step.number in steps for steps in plan.programs):
        return True
    ops = [context.op(node) for node in kernel.step.nodes]
    return any(op is not None and (op.regions or OPSET[op.name].kind == "constant") for op in ops)


def strides(context: Context) -> Iterator[Action]:
    """Kernels that step over memory: of each line that comes, one element is used."""
    for kernel in context.kernels:
        terms = kernel.estimate
        # That it is slow is seen in its time, so that a busy machine would be taken for it.
        if context.withheld or kernel.ns < 3 * terms.ns:
            continue
        if kernel.step.kind == "copy" or not _is_strided(context, kernel):
            continue
        where = context.place(kernel.step.nodes)
        yield context.action(
            f"layout:{kernel.id}",
            "layout",
            f"Read memory in order in {kernel.id}",
            why=f"The innermost loop of {kernel.id} jumps over memory{where}: each jump fetches 64 "
            f"bytes to use one number of them. It took {kernel.ns / terms.ns:.0f} times as long as "
            "its bytes need when they are read in order.",
            kernels=[kernel],
            saving=_above(kernel, terms.ns),
            how="# reduce or map along the last axis of what is in memory:\n"
            "ops.sum(x, axis=0)        # instead of ops.sum(ops.transpose(x, 0, 1), axis=1)",
        )


def _above(kernel: Kernel, ns: float) -> Saving:
    """The time that ``kernel`` takes beyond ``ns``."""
    return lambda times: np.asarray(np.maximum(times(kernel) - ns, 0.0))


def _is_strided(context: Context, kernel: Kernel) -> bool:
    lowered = context.model.compiled.loops_of(kernel.step)
    if lowered is None:
        return False
    inner = lowered.kernel.inner.name
    for node in walk(list(lowered.kernel.expressions())):
        if node.kind == "load":
            step = node.data[1].coefficient(inner)
            if step is None or str(step) not in ("0", "1", "-1"):
                return True
    return False


def casts(context: Context) -> Iterator[Action]:
    """Kernels that only change a dtype."""
    for kernel in context.kernels:
        ops = [context.op(node) for node in kernel.step.nodes]
        if not ops or not all(map(is_cast, ops)):
            continue
        yield context.action(
            f"cast:{kernel.id}",
            "cast",
            f"Drop the conversion in {kernel.id}",
            why=f"{kernel.id} only converts a value to another dtype"
            f"{context.place(kernel.step.nodes)}, and no other kernel could do it on the way. A "
            "value that has that dtype from the start needs no kernel for it.",
            kernels=[kernel],
            how="# declare the input or the weight with the dtype that it is used in",
        )


def balance(context: Context) -> Iterator[Action]:
    """Kernels with too few items for all threads.

    Threads that wait where there are items enough wait because the machine does something else, or
    wakes them late, and no change of the graph helps: of these nothing is said.
    """
    threads = context.profile.threads
    for kernel in context.kernels:
        if kernel.step.parallel == ONE or kernel.step.builtin in ("mx_k_copy", "mx_k_settle"):
            continue  # one number, such as a flag or a count of turns: there is nothing to share
        items = kernel.step.parallel.evaluate(context.dims)
        most = -(-items // threads)
        waits = 1 - items / threads / most if most else 0.0
        if waits < LEAST_WAIT or kernel.time.imbalance < LEAST_WAIT:
            continue
        shares = (
            "one thread has it, and the others wait"
            if items == 1
            else f"one thread has {most}, where an equal share is {items / threads:.3g}"
        )
        yield context.action(
            f"balance:{kernel.id}",
            "balance",
            f"Give all threads a share of {kernel.id}",
            why=f"{kernel.id} can be shared along an axis of {plural(items, 'item')} among "
            f"{plural(threads, 'thread')}{context.place(kernel.step.nodes)}: {shares}.",
            kernels=[kernel],
            saving=_part(kernel, min(waits, kernel.time.imbalance)),
            how="# make the axis that is not reduced longer: a larger batch, or rows cut in two",
        )


def _part(kernel: Kernel, part: float) -> Saving:
    """So much of what ``kernel`` takes."""
    return lambda times: np.asarray(times(kernel) * part)


def padding(context: Context) -> Iterator[Action]:
    """Products whose last panel of columns is mostly padding."""
    for kernel in context.kernels:
        step, terms = kernel.step, kernel.estimate
        op = next(
            (
                o
                for n in step.nodes
                if (o := context.op(n)) is not None and OPSET[o.name].kind == "contract"
            ),
            None,
        )
        if step.kind != "contract" or op is None or terms.expected_ns < terms.memory_ns:
            continue
        typed = op.result.tensor_type
        columns = typed.sizes[-1].evaluate(context.dims)
        panels = -(-columns // PANEL) * PANEL
        if typed.dtype is not DType.float32 or columns / max(panels, 1) > 0.9 or panels <= PANEL:
            continue  # a single panel is the least that there is
        yield context.action(
            f"padding:{kernel.id}",
            "padding",
            f"Use all columns that {kernel.id} computes",
            why=f"Products compute {PANEL} columns at a time, so that for {columns} columns "
            f"{panels} are computed{context.place([op.id])}. The prediction is for "
            f"{panels - PANEL} columns; {panels} would take as long as {columns} do now.",
            kernels=[kernel],
            nodes=[op.id],
            saving=_part(kernel, PANEL / panels),
            how=f"# a width that is a multiple of {PANEL}: {panels - PANEL} columns take less,\n"
            f"# {panels} no more than {columns}",
        )
