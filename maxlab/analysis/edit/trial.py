"""``edit_kernel``: what a kernel computes and costs with another text, beside its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from maxlab import progress
from maxlab.analysis.check.alone import Alone
from maxlab.analysis.check.compare import known_inputs
from maxlab.analysis.check.difference import Difference, difference, of_tolerance
from maxlab.analysis.check.reference import Reference
from maxlab.analysis.check.rounding import Rounded, exact
from maxlab.analysis.check.steps import StepFacts, Written, facts_of
from maxlab.analysis.edit.first_run import Diagnostic, FirstRun, first_run
from maxlab.compiler import Options
from maxlab.compiler.plan import Step
from maxlab.engine import Model
from maxlab.engine.stepping import Walk
from maxlab.engine.times import plural, time_text
from maxlab.errors import ArgumentError
from maxlab.ir import Value
from maxlab.opset import is_call
from maxlab.opset.custom import has_reference

Array = np.ndarray[Any, Any]

TIMEOUT_S = 60.0
"""Seconds after which the first run of an edited kernel is stopped."""


_WHY_NOT = {
    "compile_error": "it does not compile",
    "crashed": "it crashed",
    "wrong": "it is wrong",
    "measured": "it was discarded",
}


EditState = Literal["compile_error", "crashed", "wrong", "measured"]


@dataclass(frozen=True, slots=True)
class Check:
    """How an edited kernel compares with the references.

    Attributes:
        ok: Whether nothing differs by more than rounding may do.
        max_ulp: Most representable numbers between an element and its reference.
        max_abs: Largest absolute difference.
        excess: Largest ratio of a difference and what rounding may do; above 1 is wrong.
        message: The result in a sentence.
    """

    ok: bool
    max_ulp: int
    max_abs: float
    excess: float
    message: str

    @property
    def tolerance(self) -> str:
        """The excess in words."""
        return of_tolerance(self.excess)


@dataclass(slots=True, eq=False)
class Edit:
    """An edited kernel: what became of it, and whether it is kept. ``edit_kernel`` makes it.

    Attributes:
        model: The model.
        kernel: The kernel that was edited.
        kernels: All kernels that have its text, which are edited with it.
        source: The edited text.
        state: ``"compile_error"``, ``"crashed"``, ``"wrong"`` or ``"measured"``.
        errors: What the compiler found wrong, with lines of ``source``.
        log: What the compiler, or the process of the first run, said.
        check: How it compares with the references; None if it did not run to its end.
        before_ns: Nanoseconds of the kernel as it was, the median of ``runs``; None if the edited
            one was not measured.
        after_ns: Nanoseconds of the edited kernel.
        before_iqr: Nanoseconds between the quartiles of ``before_ns``.
        after_iqr: Nanoseconds between the quartiles of ``after_ns``.
        runs: Timed runs of each, one after the other in turn.
        device: Where it ran.
        kept: Whether the model runs it now.
    """

    model: Model
    kernel: str
    kernels: tuple[str, ...]
    source: str
    state: EditState
    errors: tuple[Diagnostic, ...] = ()
    log: str = ""
    check: Check | None = None
    before_ns: float | None = None
    after_ns: float | None = None
    before_iqr: float | None = None
    after_iqr: float | None = None
    runs: int = 0
    device: str = ""
    kept: bool = False
    _other: Model | None = field(default=None, repr=False)

    @property
    def can_keep(self) -> bool:
        """Whether it is right, ran to its end, and was not kept or discarded before."""
        return self.state == "measured" and not self.kept and self._other is not None

    @property
    def speedup(self) -> float | None:
        """How many times as fast as before it is; None if it was not measured."""
        if self.before_ns is None or not self.after_ns:
            return None
        return self.before_ns / self.after_ns

    def keep(self) -> None:
        """Let the model run the edited kernel from now on, and models reloaded from it too.

        Raises:
            ArgumentError: ML640, it is wrong, crashed or did not compile, or is kept already.
        """
        if not self.can_keep or self._other is None:
            why = "it is kept already" if self.kept else _WHY_NOT[self.state]
            raise ArgumentError(
                "ML640",
                f"the edited kernel {self.kernel} cannot be kept: {why}",
                fix="" if self.kept else "mend the text and edit the kernel again",
            )
        _install(self.model, self._other)
        self.kept = True

    def discard(self) -> None:
        """Forget the edit: if it was kept, the model runs its own kernel again."""
        if self.kept:
            restore_kernel(self.model, self.kernel)
        self.kept = False
        self._other = None

    def __str__(self) -> str:
        head = f"{self.kernel} edited"
        if self.state == "compile_error":
            lines = [f"  line {e.line or '?'}: {e.text}" for e in self.errors]
            return "\n".join([f"{head}: it does not compile", *lines])
        if self.state == "crashed":
            return f"{head}: it crashed: {self.log.splitlines()[0] if self.log else ''}"
        assert self.check is not None
        if self.state == "wrong":
            return f"{head}: it is wrong: {self.check.message}"
        assert self.before_ns is not None
        assert self.after_ns is not None
        change = self.after_ns / self.before_ns - 1 if self.before_ns else 0.0
        spread = max(self.before_iqr or 0.0, self.after_iqr or 0.0)
        shown = abs(self.after_ns - self.before_ns) > spread
        word = f"{change:+.1%}" if shown else "no difference can be shown"
        return (
            f"{head}: right ({self.check.message}); {time_text(self.before_ns)} → "
            f"{time_text(self.after_ns)}, {word} (medians of {plural(self.runs, 'run')}, "
            f"spread {time_text(spread)})"
        )

    def __repr__(self) -> str:
        return f"Edit({self.kernel}, {self.state}{', kept' if self.kept else ''})"


def edit_kernel(
    model: Model,
    kernel: str,
    source: str,
    *inputs: Any,
    runs: int = 20,
    timeout_s: float = TIMEOUT_S,
) -> Edit:
    """The outcome of giving a kernel of ``model`` the text ``source``; the model stays as it is.

    The text is compiled and runs first in a process of its own, on the memory that the kernel has
    when the model runs on ``inputs``: what it does there harms nobody. On a simulated GPU that run
    is checked for races and strays. What it writes is compared with what the op table's references
    make of the same memory. If it is right, it is timed in turn with the kernel as it was.

    Kernels of several layers may be one text. All of them are edited and checked.

    Args:
        model: The model.
        kernel: The id of the kernel, such as ``"k3"``.
        source: The text: a function with the name and the arguments of the generated one.
        *inputs: As for ``Model.execute``; those of the newest profile when left out.
        runs: Timed runs of each.
        timeout_s: Seconds after which the first run is stopped.

    Raises:
        ArgumentError: ML638, there is no such kernel, or it is no generated text; ML653, less than
            one run.
        InputError: ML662, no inputs are given and none are known.

    Example:
        >>> import numpy as np
        >>> from maxlab import engine
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> with Graph("f", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        ...     graph.output(graph.inputs[0].tensor * 3)
        >>> model = engine.InferenceSession().load(graph)
        >>> text = model.kernels["k0"].source.replace("3.0f", "4.0f").replace("3.f", "4.f")
        >>> tried = edit_kernel(model, "k0", text, np.ones(10, np.float32))
        >>> tried.state, tried.check.message
        ('wrong', '10 of 10 elements are wrong; at [0] it is 4 instead of 3')
    """
    if runs < 1:
        raise ArgumentError("ML653", f"runs must be 1 or more, got {runs}", fix="leave it out")
    step = _step(model, kernel)
    printed = model.printed(step)
    if printed is None:
        raise ArgumentError(
            "ML638",
            f"the kernel {kernel} ({step.name}) of {model.name} is no generated text",
            why=["it is a routine of the runtime library, a copy, or a function of Python"],
            fix=f"edit one of {', '.join(_editable(model)) or 'another model'}",
        )
    _require_own_step(model, step)
    given = known_inputs(model, inputs)
    with progress.working(f"edit {kernel}"):
        return _tried(model, kernel, source, given, runs, timeout_s)


def _tried(
    model: Model, kernel: str, source: str, given: Sequence[Any], runs: int, timeout_s: float
) -> Edit:
    """The edit of a kernel that has a text, on the inputs ``given``."""
    step = _step(model, kernel)
    printed = model.printed(step)
    assert printed is not None
    captured = _captured(model, printed.symbol, given)
    made = Edit(model, kernel, tuple(c.facts.step.id for c in captured), source, "crashed")
    made.device = model.device_name
    kernels = [c.alone for c in captured]
    if not kernels:
        raise ArgumentError(
            "ML638",
            f"the kernel {kernel} ({step.name}) is not run: for these sizes the vendor's library "
            "makes the product",
            fix="edit another kernel, or pass smaller inputs",
        )
    progress.step("first run")
    ran = first_run(kernels, source, timeout_s)
    made.errors, made.log = ran.errors, ran.log
    if ran.state != "ran":
        made.state = ran.state
        return made
    made.check = _checked(captured, ran)
    if not made.check.ok:
        made.state = "wrong"
        return made
    made._other = model.reload(options=_with(model.options, printed.symbol, source))
    made.state, made.runs = "measured", runs
    _measure(made, step.number, model.inputs_of(given))
    return made


def restore_kernel(model: Model, kernel: str) -> bool:
    """Whether ``kernel`` had an edited text that was kept; ``model`` runs its own again.

    Raises:
        ArgumentError: ML638, there is no such kernel.
    """
    step = _step(model, kernel)
    if step.gpu is not None:
        symbols = {step.gpu.printed(variant).symbol for variant in range(len(step.gpu))}
    else:
        symbols = {step.printed.symbol} if step.printed is not None else set()
    left = tuple(pair for pair in model.options.replaced if pair[0] not in symbols)
    if len(left) == len(model.options.replaced):
        return False
    options = model.options
    _install(model, model.reload(options=_replaced(options, left)))
    return True


def _require_own_step(model: Model, step: Step) -> None:
    """
    Raises:
        ArgumentError: ML759, the kernel is of the body of a branch, a loop or a call.
    """
    compiled = model.compiled
    if not any(step.number in steps for steps in compiled.plan.programs):
        return
    group = next(g for g in compiled.schedule.groups if g.number == step.group)
    assert group.main is not None
    what = f"the kernel {step.id} ({step.name}) cannot be tried alone: it is of the body of "
    if is_call(group.main):
        raise ArgumentError(
            "ML759",
            what + "a subgraph that is called more than once",
            why=["the body is compiled once, and a new text would be that of all calls"],
            fix="model = model.reload(options=Options(outline=False)), which compiles each call "
            "by itself, and edit the kernel of one",
        )
    owner = f"{group.main.name.removeprefix('mo.')} {group.main.origins[0]}"
    raise ArgumentError(
        "ML759",
        what + owner,
        at=group.main.loc,
        why=[
            "each turn writes over what the turn before has read, so there is nothing to try it on"
        ],
        fix="make the body a graph of its own and edit the kernel there; its text is put into this "
        "one, untried, by model.reload(options=Options(replaced=((kernel.symbol, text),)))",
    )


# ---------------------------------------------------------------- parts
@dataclass(slots=True)
class _Captured:
    """A kernel as it was called, and what it should have written."""

    facts: StepFacts
    alone: Alone
    wanted: dict[Value, Rounded]
    env: Mapping[str, int]
    layouts: Mapping[Value, tuple[int, ...]]
    outputs: frozenset[int]


def _captured(model: Model, symbol: str, inputs: Sequence[Any]) -> list[_Captured]:
    """Every kernel with this symbol, in one run of the model."""
    walk = Walk(model, inputs)
    compiled = model.compiled
    reference = Reference(compiled.function, walk.env, walk.memory.weights())
    packed: dict[int, Array] = {}
    found = []
    outputs = frozenset(s.number for s in compiled.plan.slots if s.kind == "output")
    for facts, step in zip(facts_of(compiled), walk, strict=True):
        if step.kind == "pack":
            source = step.pointers[1]
            packed[step.pointers[0]] = np.array(walk.memory.value(source, facts.reads[source]))
            continue
        printed = model.printed(step)
        if printed is None or printed.symbol != symbol:
            continue
        alone = Alone.of(walk, step, {w.slot for w in facts.writes})
        if alone is None:
            continue
        # Copies: an operation that only moves data is wanted as a view of what it reads, and later
        # kernels write over that.
        known = {
            value: exact(
                packed[slot] if slot in packed else np.array(walk.memory.value(slot, value))
            )
            for slot, value in facts.reads.items()
        }
        if all(has_reference(op) for op in facts.group.ops):
            wanted = reference.evaluate([w.made for w in facts.writes], known)
        else:  # what the kernel writes as it is
            wanted = {
                w.made: exact(np.array(walk.memory.value(w.slot, w.value))) for w in facts.writes
            }
        found.append(_Captured(facts, alone, wanted, walk.env, compiled.schedule.layouts, outputs))
    return found


def _checked(captured: Sequence[_Captured], ran: FirstRun) -> Check:
    """The worst of what the kernels wrote."""
    worst: Difference | None = None
    place = ""
    for one, made in zip(captured, ran.made, strict=True):
        for write in one.facts.writes:
            if write.slot not in one.facts.step.pointers:
                continue  # an earlier kernel of the op has written it
            data = made[one.facts.step.pointers.index(write.slot)]
            assert data is not None, "a kernel's pointers that it writes are read back"
            found = difference(_value(one, write, data), one.wanted[write.made], _dtype(write))
            if worst is None or (found.excess, found.max_ulp) > (worst.excess, worst.max_ulp):
                worst = found
                place = f"{one.facts.step.id}: " if len(captured) > 1 and not found.ok else ""
    if worst is None:
        return Check(True, 0, 0.0, 0.0, "it writes nothing")
    return Check(worst.ok, worst.max_ulp, worst.max_abs, worst.excess, f"{place}{worst.sentence()}")


def _dtype(write: Written) -> Any:
    return write.value.tensor_type.dtype


def _value(one: _Captured, write: Written, data: Array) -> Array:
    """The part of ``data`` that holds the value of ``write``, with its dims in their order."""
    shape = [d.evaluate(one.env) for d in write.value.tensor_type.shape]
    order = None if write.slot in one.outputs else one.layouts.get(write.value)
    array: Array
    flat = data.view(_dtype(write).ml_numpy)
    if order is not None:
        array = flat.reshape([shape[n] for n in order]).transpose(np.argsort(order))
    else:
        array = flat.reshape(shape)
    if write.source is not None:
        first = write.first.evaluate(one.env)
        part = [slice(None)] * array.ndim
        size = write.source.tensor_type.shape[write.axis].evaluate(one.env)
        part[write.axis] = slice(first, first + size)
        array = array[tuple(part)]
    return array


def _measure(made: Edit, number: int, tensors: Sequence[Any]) -> None:
    """Time the kernel ``number`` of both models in turn, so that both see the same noise."""
    assert made._other is not None
    timers = [made.model.timer(), made._other.timer()]
    spent: list[list[float]] = [[], []]
    for run in range(made.runs + 2):
        progress.step("running in turns", run, made.runs + 2)
        order = (0, 1) if run % 2 == 0 else (1, 0)
        for which in order:
            timers[which].run(tensors)
            if run >= 2:  # the first runs find cold caches
                begin, end = timers[which].taken().steps[number]
                spent[which].append(float(end - begin))
    (b1, b2, b3), (a1, a2, a3) = (np.percentile(times, [25, 50, 75]) for times in spent)
    made.before_ns, made.before_iqr = float(b2), float(b3 - b1)
    made.after_ns, made.after_iqr = float(a2), float(a3 - a1)


def _install(model: Model, other: Model) -> None:
    """Let ``model`` be what ``other`` is, and its newest profile one of what it runs now."""
    inputs = list(model.last_profile.inputs) if model.last_profile is not None else None
    runs = model.last_profile.runs if model.last_profile is not None else 0
    model.adopt(other)
    if inputs is not None:
        model.profile(*inputs, runs=min(runs, 20), warmup=1)


def _with(options: Options, symbol: str, text: str) -> Options:
    left = tuple(pair for pair in options.replaced if pair[0] != symbol)
    return _replaced(options, (*left, (symbol, text)))


def _replaced(options: Options, pairs: tuple[tuple[str, str], ...]) -> Options:
    return replace(options, replaced=pairs)


def _step(model: Model, kernel: str) -> Step:
    for step in model.compiled.plan.steps:
        if step.id == kernel:
            return step
    raise ArgumentError(
        "ML638",
        f"{model.name} has no kernel {kernel!r}",
        fix=f"its kernels are {', '.join(_editable(model)) or 'none'}",
    )


def _editable(model: Model) -> list[str]:
    plan = model.compiled.plan
    inside = {n for steps in plan.programs for n in steps}
    found = [s.id for s in plan.steps if model.printed(s) is not None and s.number not in inside]
    return [*found[:6], *(["…"] if len(found) > 6 else [])]


__all__ = ["Check", "Edit", "edit_kernel", "restore_kernel"]
