"""The rules of advice that maxlab can carry out: each finds one kind of waste and prices it.

A prediction is a sum over kernels. Where a change makes a kernel needless, it saves the time that
was measured. Where it makes one cheaper, the kernel keeps its ratio of measured to estimated time,
and the estimate changes: other bytes, another level of cache, another rate. ``pricing`` says how
far such a prediction may be off.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from maxlab.analysis.advice.action import Action, Recipe
from maxlab.analysis.advice.context import Context
from maxlab.analysis.advice.kernel import Kernel
from maxlab.analysis.advice.pricing import Array, Saving, Times
from maxlab.analysis.bounds import PRODUCTS, estimate, is_shared
from maxlab.analysis.rewrites import from_data
from maxlab.compiler.options import DEFAULT, Options
from maxlab.compiler.plan import Plan
from maxlab.dtype import DType
from maxlab.engine.times import plural, size_text
from maxlab.ir import Shape
from maxlab.toolchain.flags import Accuracy

BATCH = 8
"""How many times as large a batch is tried."""
FAST = {
    "exp": "exp",
    "log": "exp",
    "sigmoid": "exp",
    "silu": "exp",
    "erf": "tanh",
    "tanh": "tanh",
    "gelu": "tanh",
    "div": "div",
    "recip": "div",
    "reduce.max": "max",
    "reduce.min": "max",
    "reduce.sum": "sum",
}
"""By the name of an op, the loop of ``Ceilings.fast`` that tells what ``accuracy="fast"``
does for it."""


def hoist(context: Context) -> Iterator[Action]:
    """Kernels that compute the same from weights in every run."""
    values = from_data(context.function)
    fixed = {value.op.id for value in values if value.op is not None}
    found = {
        kernel.id: kernel
        for kernel in context.kernels
        if kernel.step.nodes and kernel.step.kind != "pack" and fixed.issuperset(kernel.step.nodes)
    }
    made = {
        slot for k in found.values() for slot, (_, w) in k.step.traffic().items() if str(w) != "0"
    }
    for kernel in context.kernels:  # what is packed of these is then packed when it is loaded
        if kernel.step.kind == "pack" and kernel.step.pointers[1] in made:
            found[kernel.id] = kernel
    if not found:
        return
    about = list(found.values())
    nodes = [n for k in about if k.step.kind != "pack" for n in k.step.nodes]
    static = all(Shape.is_static(v.tensor_type.shape) for v in values)
    one = len(about) == 1
    yield context.action(
        "hoist",
        "hoist",
        "Compute what depends on weights alone before the model is loaded",
        why=f"{_kernels(about)} {_verb(about, 'reads')} only weights and constants"
        f"{context.place(nodes)}, and so {_verb(about, 'computes')} the same in every run. "
        f"Computed once instead, {'it costs' if one else 'they cost'} a run nothing.",
        kernels=about,
        nodes=nodes,
        how="# compute it before the graph is built, and make the result a weight; or let maxlab:\n"
        "from maxlab.analysis.rewrites import hoisted\n"
        "graph, registry = hoisted(model)\n"
        "model = session.load(graph, weights_registry=registry)",
        recipe=Recipe(rewrite="hoist") if static else None,
    )


def freeze(context: Context) -> Iterator[Action]:
    """Right operands of products that are inputs, and so are packed in every run."""
    by_input: dict[int, list[Kernel]] = {}
    for kernel in context.kernels:
        if kernel.step.kind == "pack":
            slot = context.plan.slots[kernel.step.pointers[1]]
            if slot.kind == "input":
                by_input.setdefault(slot.index, []).append(kernel)
    for number, about in by_input.items():
        value = context.function.inputs[number]
        static = Shape.is_static(value.tensor_type.shape)
        yield context.action(
            f"freeze:{number}",
            "freeze",
            f"Make {value.name} a weight",
            why=f"{value.name} is the right operand of a product, and {_kernels(about)} "
            f"{_verb(about, 'lays')} it out anew in every run. A weight is laid out once, when "
            f"the model is loaded. Only right if {value.name} is the same in every run"
            + (
                "."
                if static
                else f"; and its dims have to be numbers, not {_shape(value.tensor_type.shape)}."
            ),
            kernels=about,
            how=f"# instead of the input {value.name}\n"
            f'{value.name} = graph.add_weight(Weight("{value.name}", '
            f"DType.{value.tensor_type.dtype.name}, {_shape(value.tensor_type.shape)}, "
            "DeviceRef.CPU()))\n"
            f'session.load(graph, weights_registry={{"{value.name}": array}})',
            recipe=Recipe(rewrite="freeze", inputs=(number,)) if static else None,
        )


def fuse(context: Context) -> Iterator[Action]:
    """Fusion that was turned off."""
    options = context.model.options
    if options.fuse and not options.apart:
        return
    wanted = Options(accuracy=options.accuracy, replaced=options.replaced, keep=options.keep)
    plan = context.planned(context.function, wanted)
    if not context.is_other(plan) or context.is_alike(plan):
        return
    changed, saving = context.replanned(plan)
    yield context.action(
        "fuse",
        "fuse",
        "Let kernels compute several operations",
        why=f"The model was compiled with {options}. Fused, it would have "
        f"{replanned_text(context, plan)}.",
        kernels=changed,
        saving=saving,
        how=reload_code(wanted),
        recipe=Recipe(options=wanted),
        changes="rounding",
    )


def float64(context: Context) -> Iterator[Action]:
    """Doubles, which move twice the bytes and for which functions are calls of the C library."""
    about = [k for k in context.kernels if _has(context, k, DType.float64)]
    if not about:
        return
    yield context.action(
        "dtype:float32",
        "dtype",
        "Compute in float32",
        why=f"{_kernels(about)} {_verb(about, 'computes')} in float64"
        f"{context.place(about[0].step.nodes)}, which NumPy makes of numbers unless it is asked "
        "otherwise. float32 moves half the bytes and computes faster, with 7 digits instead of 16.",
        kernels=about,
        saving=_narrowed(context, about, "float32", DType.float64),
        how="TensorType(DType.float32, ...)          # in the graph\n"
        "x = x.astype(np.float32)                # before it is passed",
        recipe=Recipe(rewrite="float32"),
        changes="precision",
    )


def bfloat16(context: Context) -> Iterator[Action]:
    """Halves, where memory is all that counts. Products of them have no fast kernel on a CPU."""
    if any(k.step.kind in PRODUCTS for k in context.kernels):
        return
    last = context.machine.ceilings(context.profile.threads).levels[-1].name
    about = [
        k
        for k in context.kernels
        if _has(context, k, DType.float32)
        and k.estimate.level == last
        and k.estimate.memory_ns > k.estimate.expected_ns
        and k.ratio < 2
    ]
    if not about or sum(k.ns for k in about) < 0.5 * context.total_ns:
        return
    yield context.action(
        "dtype:bfloat16",
        "dtype",
        "Keep tensors in bfloat16",
        why=f"{_kernels(about)} mostly {_verb(about, 'waits')} for memory. bfloat16 moves half the "
        "bytes, with 2 to 3 digits; within a kernel arithmetic stays float32.",
        kernels=about,
        saving=_narrowed(context, about, "bfloat16", DType.float32),
        how="TensorType(DType.bfloat16, ...)         # in the graph\n"
        "x = driver.Tensor.from_numpy(x).astype('bfloat16')",
        recipe=Recipe(rewrite="bfloat16"),
        changes="precision",
    )


def _narrowed(context: Context, about: list[Kernel], dtype: str, old: DType) -> Saving:
    """The time saved if tensors of ``old`` had the narrower ``dtype``."""
    after = [(kernel, _narrow_ns(context, kernel, dtype, old)) for kernel in about]

    def saving(times: Times) -> Array:
        total = np.zeros(())
        for kernel, ns in after:
            total = total + np.maximum(times(kernel) - ns * kernel.ratio_of(times(kernel)), 0.0)
        return np.asarray(total)

    return saving


def _narrow_ns(context: Context, kernel: Kernel, dtype: str, old: DType) -> float:
    """The estimate of ``kernel`` if its tensors of ``old`` had the narrower ``dtype``."""
    profile, step = context.profile, kernel.step
    size = 2 if dtype == "bfloat16" else 4
    traffic = [
        type(item)(
            item.slot,
            item.read * size // old.size_in_bytes if narrow else item.read,
            item.written * size // old.size_in_bytes if narrow else item.written,
            item.distance * size // old.size_in_bytes,
        )
        for item in context.traffic[step.number]
        for narrow in [context.plan.slots[item.slot].dtype is old]
    ]
    shared = profile.threads > 1 and is_shared(
        step, context.dims, profile.threads, context.model.runtime
    )
    roof = context.machine.ceilings(profile.threads if shared else 1)
    computed = "float32" if dtype == "bfloat16" else dtype
    flops = step.flops.evaluate(context.dims)
    return estimate(step, traffic, flops, computed, shared, roof).of_turns(kernel.time.turns).ns


def accuracy(context: Context) -> Iterator[Action]:
    """Arithmetic that need not be exact to the last digit."""
    options = context.model.options
    if options.accuracy == "fast":
        return
    gains = context.machine.ceilings(1).fast
    wanted = _with(options, accuracy="fast")
    priced: list[tuple[Kernel, float]] = []
    for kernel in context.kernels:
        loops = {FAST[name] for name in kernel.step.ops if name in FAST}
        shorter = min((gains.get(loop, 1.0) for loop in loops), default=1.0)
        terms = kernel.estimate
        if shorter < 1 and terms.expected_ns > terms.memory_ns and kernel.step.kind not in PRODUCTS:
            priced.append((kernel, shorter))
    if not priced:
        return
    about = [kernel for kernel, _ in priced]

    def saving(times: Times) -> Array:
        total = np.zeros(())
        for kernel, shorter in priced:
            spent = np.minimum(kernel.estimate.expected_ns, times(kernel))
            total = total + spent * (1 - shorter)
        return np.asarray(total)

    shares = sorted({f"{shorter:.0%}" for _, shorter in priced}, key=lambda text: int(text[:-1]))
    taken = shares[0] if len(shares) == 1 else f"{shares[0]} to {shares[-1]}"
    yield context.action(
        "accuracy",
        "accuracy",
        'Compile with accuracy="fast"',
        why=f"{_kernels(about)} {_verb(about, 'spends')} more time on arithmetic than on memory. "
        f"Less accurate, such loops took {taken} of their time when this machine was measured.",
        kernels=about,
        saving=saving,
        how=reload_code(wanted),
        recipe=Recipe(options=wanted),
        changes="rounding",
    )


def batch(context: Context) -> Iterator[Action]:
    """Weights that are read for too few rows."""
    if any(op.regions for op in context.function.ops):
        return  # a flag may depend on all rows: of more of them, each would not be what it is alone
    names: dict[str, None] = {}
    for value in context.function.inputs:
        sizes = value.tensor_type.sizes
        if sizes and sizes[0].symbols() and str(sizes[0]) == sizes[0].symbols()[0]:
            names[str(sizes[0])] = None
    output = context.function.output
    results = [v.tensor_type.sizes for v in output.operands] if output is not None else []
    for name in names:
        now = context.dims.get(name, 0)
        # A result without the dim is of all of them together: it could not be told apart again.
        apart = all(any(str(size) == name for size in sizes) for sizes in results)
        if not now or now >= 64 or not apart:
            continue
        dims = {**context.dims, name: BATCH * now}
        after = context.estimates(context.plan, dims)
        about = [
            k
            for k, terms in zip(context.kernels, after, strict=True)
            if terms.ns * k.ratio < 0.75 * BATCH * k.ns
        ]
        if not about:
            continue
        yield context.action(
            f"batch:{name}",
            "batch",
            f"Pass {BATCH} inputs in one run: {name} = {BATCH * now} instead of {now}",
            why=f"With {name} = {now}, {_kernels(about)} mostly {_verb(about, 'reads')} weights or "
            f"{_verb(about, 'is')} being started, which takes as long for {name} = "
            f"{BATCH * now}. What is saved is for each of the {BATCH} inputs.",
            kernels=about,
            saving=_rescaled(context.kernels, [terms.ns / BATCH for terms in after]),
            how=f"y = model(np.concatenate([x0, x1, ...]))   # {name} = {BATCH * now}",
            recipe=Recipe(repeat=(name, BATCH)),
        )


def threads(context: Context) -> Iterator[Action]:
    """More threads where there is work for them, fewer where there is not."""
    for count, machine in context.other_threads():
        after = context.estimates(context.plan, machine=machine, threads=count)
        about = [
            k
            for k, later in zip(context.kernels, after, strict=True)
            if later.ns < 0.95 * max(k.estimate.ns, 1.0)
        ]
        if not about:
            continue
        more, one = count > context.profile.threads, len(about) == 1
        yield context.action(
            f"threads:{count}",
            "threads",
            f"Run with {plural(count, 'thread')} instead of {context.profile.threads}",
            why=f"{_kernels(about)} "
            + (
                f"{_verb(about, 'has')} enough to do for {plural(count, 'thread')}."
                if more
                else f"{_verb(about, 'is')} so small that sharing {'it' if one else 'them'} among "
                f"{context.profile.threads} threads costs more than it saves."
            ),
            kernels=about,
            saving=_scaled(
                context.kernels,
                [
                    later.ns / max(k.estimate.ns, 1.0)
                    for k, later in zip(context.kernels, after, strict=True)
                ],
            ),
            how=f"session = engine.InferenceSession(num_threads={count})\n"
            f"# or: model = model.reload(num_threads={count})",
            recipe=Recipe(threads=count),
        )


def _rescaled(kernels: list[Kernel], estimates: list[float]) -> Saving:
    """The time saved when the estimates change and kernels keep their ratio to them."""

    def saving(times: Times) -> Array:
        total = np.zeros(())
        for kernel, ns in zip(kernels, estimates, strict=True):
            total = total + times(kernel) - ns * kernel.ratio_of(times(kernel))
        return np.asarray(total)

    return saving


def _scaled(kernels: list[Kernel], factors: list[float]) -> Saving:
    """The time saved when each kernel takes its time times a factor."""

    def saving(times: Times) -> Array:
        total = np.zeros(())
        for kernel, factor in zip(kernels, factors, strict=True):
            total = total + times(kernel) * (1 - factor)
        return np.asarray(total)

    return saving


# ---------------------------------------------------------------- words
def replanned_text(context: Context, plan: Plan) -> str:
    """Describes the model under another ``plan``, and the difference from now."""
    moved, moves = (
        sum(step.nbytes.evaluate(context.dims) for step in one.steps)
        for one in (context.plan, plan)
    )
    return changed_text(len(context.plan.steps), len(plan.steps), moved, moves)


def changed_text(before: int, after: int, moved: int, moves: int) -> str:
    """So many kernels and bytes instead of so many.

    Example:
        >>> changed_text(8, 1, 64_000, 8_000)
        '1 kernel instead of 8, and move 8.00 kB instead of 64.0 kB'
        >>> changed_text(2, 2, 8_000, 16_000)
        'as many kernels as now, cut elsewhere, and move 16.0 kB instead of 8.00 kB'
    """
    kernels = (
        "as many kernels as now, cut elsewhere"
        if before == after
        else f"{plural(after, 'kernel')} instead of {before}"
    )
    old, new = size_text(moved), size_text(moves)
    return f"{kernels}, and move {f'{new} instead of {old}' if new != old else f'as much: {new}'}"


def _has(context: Context, kernel: Kernel, dtype: DType) -> bool:
    return any(context.plan.slots[slot].dtype is dtype for slot in kernel.step.pointers)


def _with(options: Options, *, accuracy: Accuracy) -> Options:
    return Options(
        fuse=options.fuse,
        accuracy=accuracy,
        apart=options.apart,
        replaced=options.replaced,
        keep=options.keep,
    )


def reload_code(options: Options) -> str:
    """The code that compiles a model again with ``options``."""
    parts = []
    if not options.fuse:
        parts.append("fuse=False")
    if options.accuracy != DEFAULT.accuracy:
        parts.append(f"accuracy={options.accuracy!r}")
    for name in ("apart", "keep"):
        ids = sorted(getattr(options, name))
        if ids:
            parts.append(f"{name}={ids}")
    if options.replaced:
        parts.append("replaced=model.options.replaced")
    return (
        "from maxlab.compiler import Options\n"
        f"model = model.reload(options=Options({', '.join(parts)}))"
    )


def _kernels(about: list[Kernel]) -> str:
    """Names of kernels, the most expensive first."""
    ordered = sorted(about, key=lambda k: -k.ns)
    named = [f"{k.id} ({k.time.name})" for k in ordered[:3]]
    if len(ordered) > 3:
        named.append(f"{len(ordered) - 3} more")
    return named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"


def _verb(about: list[Kernel], word: str) -> str:
    """``word``, a verb of one kernel, as it is of so many."""
    if len(about) == 1:
        return word
    return {"is": "are", "does": "do", "has": "have"}.get(word, word.removesuffix("s"))


def _shape(shape: Shape) -> str:
    return "[" + ", ".join(str(dim) for dim in shape) + "]"
