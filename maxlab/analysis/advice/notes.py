"""The rules of advice whose change is the user's to make: maxlab says where and why."""

from __future__ import annotations

from collections.abc import Iterator

from maxlab.analysis.advice.action import Action
from maxlab.analysis.advice.context import Context, Kernel
from maxlab.compiler.loops import walk
from maxlab.dtype import DType
from maxlab.engine.times import time_text
from maxlab.ir.poly import ONE
from maxlab.opset import OPSET, is_cast

PANEL = 32
"""Columns that a product of float32 computes at once (``MX_NR`` of mx_abi.h)."""


def copies(context: Context) -> Iterator[Action]:
    """Kernels that only lay a value out in another order."""
    for kernel in context.kernels:
        if kernel.step.kind != "copy" or _is_state(context, kernel):
            continue
        where = context.place(kernel.step.nodes)
        yield context.action(
            f"layout:{kernel.id}",
            "layout",
            f"Avoid the copy {kernel.id}",
            why=f"{kernel.id} computes nothing: it lays a value out in another order, because what "
            f"reads it, or an output, needs it so{where}. Its {time_text(kernel.ns)} go when the "
            "value is made in that order.",
            kernels=[kernel],
            saved=kernel.ns,
            how="# permute the smaller operand, or a weight before it is loaded;\n"
            "# return the value before the permute, and let the reader use it so",
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
        if kernel.step.kind == "copy" or kernel.ns < 3 * terms.ns or not _is_strided(kernel):
            continue
        where = context.place(kernel.step.nodes)
        yield context.action(
            f"layout:{kernel.id}",
            "layout",
            f"Read memory in order in {kernel.id}",
            why=f"The innermost loop of {kernel.id} steps over memory{where}, so that most of each "
            f"cache line is brought for nothing. In order it should take {time_text(terms.ns)} "
            f"instead of {time_text(kernel.ns)}.",
            kernels=[kernel],
            saved=kernel.ns - terms.ns,
            how="# reduce or map along the last axis of what is in memory:\n"
            "ops.sum(x, axis=0)        # instead of ops.sum(ops.transpose(x, 0, 1), axis=1)",
        )


def _is_strided(kernel: Kernel) -> bool:
    lowered = kernel.step.loops
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
            f"Drop the cast {kernel.id}",
            why=f"{kernel.id} only changes a dtype{context.place(kernel.step.nodes)}, and nothing "
            f"could take it in. Its {time_text(kernel.ns)} go when the value is made in it.",
            kernels=[kernel],
            saved=kernel.ns,
            how="# declare the input or weight in the dtype that it is used in",
        )


def balance(context: Context) -> Iterator[Action]:
    """Kernels whose threads wait for each other."""
    if context.profile.threads < 2:
        return
    for kernel in context.kernels:
        busiest = max(kernel.time.busy_ns, default=0.0)
        saved = kernel.time.imbalance * busiest
        if kernel.time.imbalance < 0.2:
            continue
        if kernel.step.parallel == ONE or kernel.step.builtin in ("mx_k_copy", "mx_k_settle"):
            continue  # one number, such as a flag or a count of turns: there is nothing to share
        items = kernel.step.parallel.evaluate(context.dims)
        yield context.action(
            f"balance:{kernel.id}",
            "balance",
            f"Give all threads a share of {kernel.id}",
            why=f"The busiest of {context.profile.threads} threads had {time_text(busiest)} of "
            f"{kernel.id}, {kernel.time.imbalance:.0%} more than an equal share: its parallel axis "
            f"has {items} items.",
            kernels=[kernel],
            saved=saved,
            how="# make the axis that is not reduced longer: a larger batch, or rows split in two",
        )


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
        if typed.dtype is not DType.float32 or not columns or columns / panels > 0.9:
            continue
        yield context.action(
            f"padding:{kernel.id}",
            "padding",
            f"Use all columns that {kernel.id} computes",
            why=f"Products compute {PANEL} columns at once: for {columns} columns, {panels} are "
            f"computed{context.place([op.id])}. The predicted saving is that of {panels - PANEL} "
            f"columns; {panels} would cost what {columns} do.",
            kernels=[kernel],
            nodes=[op.id],
            saved=kernel.ns * PANEL / panels if panels > PANEL else 0.0,
            how=f"# a width that is a multiple of {PANEL}: {panels} columns cost no more",
        )
