"""The stages of compiling a graph: after every pass, and as groups and kernels.

Passes are run again on a copy of the graph, so a model keeps nothing for this.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from maxlab.analysis.target import model_behind
from maxlab.compiler.groups import Group
from maxlab.compiler.marking import Marker
from maxlab.compiler.passes import rewrites_of, whole_pipeline
from maxlab.compiler.reasons import TOGETHER
from maxlab.engine import Model
from maxlab.engine.profile import Profile
from maxlab.habits import fitting
from maxlab.ir import Function, Op, Rewrite
from maxlab.opset import OPSET, is_output, operations
from maxlab.opset.identities import IDENTITY_RULES

State = Literal["kept", "rewritten", "folded", "removed", "fused"]

_RULES: dict[str, str] = {
    "fold": "it does not depend on the inputs, so it was computed once, while compiling",
    "ahead": "it depends on weights alone, so it was computed once, when the model was loaded",
    "read at load": "only what was computed when the model was loaded reads it",
    "same": "another operation computes the same, and this one's readers read that",
    "dead": "nothing reads it",
    "make_there": "what is made of indices alone is made on the device that wants it",
    "transfer_data": "data is transferred when the model is loaded, and taken apart there",
    "parts": "few long rows are reduced in parts, side by side, and their results then",
    "channels_last": "a chain of convolutions has the channels of its images last",
    "split_k": "a long product is made in parts, each rounded, which are added then",
    "copy": "a kernel needs its operand in another order in memory",
    "program": "it says which of the kernels of its parts run next",
    "inside": "a branch or a loop runs it, or a call of a subgraph: that is compiled by itself",
    "pack": "the product reads its right operand in column panels",
    "output": "an output is written in row-major order to memory of its own",
    "alone": "nothing joined it: it is a kernel of its own",
    "first": "others joined it",
    **{str(rule): text for rule, text in IDENTITY_RULES.items()},
}
"""Sentences for the rules of passes; those of the schedule are in ``compiler.reasons``."""


@dataclass(frozen=True, slots=True)
class Fate:
    """The fate of one operation of the graph.

    Attributes:
        state: ``"kept"`` as it was; ``"rewritten"`` in other operations; ``"folded"`` into a
            constant, or a weight that is computed when the model is loaded; ``"removed"``;
            ``"fused"`` with others in a kernel.
        kernel: The kernel that computes it, in stages that have kernels; None if none does.
        rule: Why, in a sentence; empty for what no rule has touched.
        changed: Whether this stage did it, and not an earlier one.
    """

    state: State
    kernel: str | None = None
    rule: str = ""
    changed: bool = False


@dataclass(frozen=True, slots=True)
class StageRewrite:
    """One change of a stage: ``rule`` turned ``node`` into ``into``, or removed it.

    Attributes:
        rule: The name of the rule.
        node: The id of the operation of the graph that it is about.
        op: What kind of operation was changed, such as ``"softmax"``.
        into: Ids of the operations that took its place; of kernels in the last stages.
        text: The rule in a sentence.
    """

    rule: str
    node: str
    op: str
    into: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class StageOp:
    """An operation as it is after a stage; ``origins`` are those of the graph that it came from."""

    id: str
    name: str
    origins: tuple[str, ...]
    operands: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stage:
    """The graph after one stage of the compiler.

    Attributes:
        name: ``"graph"`` for what was written, the name of a pass, ``"schedule"`` or ``"plan"``.
        before: Operations before it; groups before ``"plan"``.
        after: Operations after it; groups after ``"schedule"``, kernels after ``"plan"``.
        ns: Nanoseconds that it took when the model was compiled; None for ``"graph"``.
        ops: The operations after it.
        rewrites: What it changed, in order.
        nodes: The fate of every operation of the graph, by its id.
        added: Operations, or kernels, that it put in and nobody wrote.
    """

    name: str
    before: int
    after: int
    ns: int | None
    ops: tuple[StageOp, ...]
    rewrites: tuple[StageRewrite, ...]
    nodes: dict[str, Fate]
    added: int = 0

    @property
    def counts(self) -> dict[str, int]:
        """How many operations of the graph the stage brought into each state."""
        found: dict[str, int] = {}
        for fate in self.nodes.values():
            if fate.changed:
                found[fate.state] = found.get(fate.state, 0) + 1
        return found

    def __str__(self) -> str:
        head = f"{self.name}: {self.before} → {self.after}"
        lines = [
            f"  {r.rule}: {r.op} {r.node}" + (f" → {', '.join(r.into)}" if r.into else " removed")
            for r in self.rewrites
        ]
        return "\n".join([head, *lines])


@dataclass(slots=True)
class _Fates:
    """The fates of all operations so far."""

    nodes: dict[str, Fate] = field(default_factory=dict)

    def set(self, id: str, state: State, rule: str, kernel: str | None = None) -> None:
        self.nodes[id] = Fate(state, kernel, rule, True)

    def next_stage(self) -> dict[str, Fate]:
        """The fates after a stage; what comes is of the next one."""
        now = dict(self.nodes)
        self.nodes = {id: Fate(f.state, f.kernel, f.rule) for id, f in now.items()}
        return now


@fitting("ML975", "maxlab.stages(model)")
def stages(target: Model | Profile) -> list[Stage]:
    """The stages of the compiler on the graph of ``target``, from what was written to its kernels.

    Raises:
        ArgumentTypeError: ML674, ``target`` is something else.

    Example:
        >>> from maxlab import engine
        >>> from maxlab.analysis.stages import stages
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> with Graph("f", input_types=[TensorType(DType.float32, ["n", 8])]) as graph:
        ...     graph.output(ops.softmax(graph.inputs[0].tensor * 1))
        >>> model = engine.InferenceSession().load(graph)
        >>> found = {stage.name: stage for stage in stages(model)}
        >>> found["canonicalise"].rewrites[0].text
        'x * 1 and x / 1 are x'
        >>> len(found["decompose"].ops) > len(found["graph"].ops)
        True
    """
    model = model_behind(target, "stages")
    compiled = model.compiled
    times = {record.name: record.elapsed_ns for record in compiled.passes}
    top = set(compiled.source.ops)
    source = {op.id: op for op in compiled.source.walk() if op in top or not is_output(op)}
    work = compiled.source.clone()
    marker = Marker(work, compiled.options.keep)
    fates = _Fates({id: Fate("kept") for id in source})
    count = operations(compiled.source)
    found = [Stage("graph", count, count, None, _ops(work), (), fates.next_stage())]
    for name, apply in whole_pipeline(compiled.options):
        before = {op.id: (op.name, op.origins) for op in work.ops}
        count = operations(work)
        rewrites = rewrites_of(work, apply)
        after = {op.id: op for op in work.ops}
        for rewrite in rewrites:
            _follow(fates, rewrite, before, after, source)
        found.append(
            Stage(
                name,
                count,
                operations(work),
                times.get(name),
                _ops(work),
                tuple(_said(r, before) for r in rewrites),
                fates.next_stage(),
            )
        )
    marker.taken_out()
    ops = found[-1].ops
    found.append(_scheduled(model, fates, ops, found[-1].after))
    found.append(_planned(model, fates, ops))
    return found


def _ops(function: Function) -> tuple[StageOp, ...]:
    return tuple(
        StageOp(op.id, op.name.removeprefix("mo."), op.origins, tuple(v.id for v in op.operands))
        for op in function.ops
    )


# ---------------------------------------------------------------- passes
def _follow(
    fates: _Fates,
    rewrite: Rewrite,
    before: dict[str, tuple[str, tuple[str, ...]]],
    after: dict[str, Op],
    source: dict[str, Op],
) -> None:
    """Note what ``rewrite`` did to the operations of the graph."""
    _, origins = before.get(rewrite.node, ("", ()))
    for id in origins:
        if id not in source:
            continue
        left = [op for op in after.values() if id in op.origins]
        text = _sentence(rewrite)
        if rewrite.rule == "ahead" and all(OPSET[op.name].kind == "external" for op in left):
            fates.set(id, "folded", text)
        elif not left:
            fates.set(id, "removed", text)
        elif rewrite.rule == "fold":
            if all(OPSET[op.name].kind == "constant" for op in left):
                fates.set(id, "folded", text)
            else:
                fates.set(id, "rewritten", text)
        elif rewrite.rule != "dead":  # a piece of it is gone, and it was rewritten before
            fates.set(id, "rewritten", text)


def _said(rewrite: Rewrite, before: dict[str, tuple[str, tuple[str, ...]]]) -> StageRewrite:
    name, origins = before.get(rewrite.node, (rewrite.rule, (rewrite.node,)))
    return StageRewrite(
        rewrite.rule.removeprefix("mo."),
        origins[0],
        name.removeprefix("mo."),
        rewrite.into,
        _sentence(rewrite),
    )


def _sentence(rewrite: Rewrite) -> str:
    if rewrite.rule in OPSET:  # a decomposition
        count = len(rewrite.into)
        name = rewrite.rule.removeprefix("mo.")
        return f"{name} is written out in {count} simpler operation{'s' if count != 1 else ''}"
    return _RULES.get(rewrite.rule, rewrite.rule)


# ---------------------------------------------------------------- groups and kernels
def _scheduled(model: Model, fates: _Fates, ops: tuple[StageOp, ...], count: int) -> Stage:
    compiled = model.compiled
    schedule = compiled.schedule
    rewrites: list[StageRewrite] = []
    kernels = _kernels(model)
    inside = [*schedule.groups, *schedule.inliner.into]
    for group in inside:
        home = group
        while home in schedule.inliner.into:
            home = schedule.inliner.into[home]
        kernel = kernels.get(home.number)
        joined = dict(group.why)
        shares = len(_nodes(schedule.inliner.ops_of(home))) > 1
        for op in group.ops if group.kind != "program" or group.ops[0].regions else ():
            inlined = home is not group
            rule = (
                "program"
                if op.regions
                else "inlined"
                if inlined
                else joined.get(op, "first" if shares else "alone")
            )
            text = TOGETHER.get(rule) or _RULES[rule]
            for id in op.origins:
                if id not in fates.nodes:
                    continue
                old = fates.nodes[id]
                if shares and (old.state != "fused" or rule not in ("first", "alone")):
                    fates.nodes[id] = Fate("fused", kernel, text, True)
                elif not shares:
                    said = f"{old.rule}; {text}" if old.rule else text
                    fates.nodes[id] = Fate(old.state, kernel, said)
            if rule in TOGETHER:
                into = (kernel,) if kernel is not None else ()
                name = op.name.removeprefix("mo.")
                rewrites.append(StageRewrite(rule, op.origins[0], name, into, text))
    for op in compiled.function.ops:
        if op.results and op.id in fates.nodes and schedule.group_of.get(op.results[0]) is None:
            small = schedule.inline_value(op.results[0])
            rule = "view" if schedule.is_view(op.results[0]) else "everywhere" if small else ""
            old = fates.nodes[op.id]
            if rule and old.kernel is None:
                fates.nodes[op.id] = Fate(old.state, None, old.rule or TOGETHER[rule])
    for id, (kernel, shares) in _inside(model).items():
        if id in fates.nodes:
            text = _RULES["inside"]
            old = fates.nodes[id]
            state: State = "fused" if shares else old.state
            fates.nodes[id] = Fate(state, kernel, text, shares)
    ns = compiled.debug.timings_ns.get("schedule")
    nodes = fates.next_stage()
    return Stage("schedule", count, len(schedule.groups), ns, ops, tuple(rewrites), nodes)


def _planned(model: Model, fates: _Fates, ops: tuple[StageOp, ...]) -> Stage:
    """The kernels; those that nobody wrote are its rewrites."""
    compiled = model.compiled
    groups = {group.number: group for group in compiled.schedule.groups}
    rewrites: list[StageRewrite] = []
    for step in compiled.plan.steps:
        group = groups.get(step.group)
        rule = _put_in(step.kind, group)
        if rule and step.nodes:
            rewrites.append(StageRewrite(rule, step.nodes[0], step.name, (step.id,), _RULES[rule]))
    return Stage(
        "plan",
        len(groups),
        len(compiled.plan.steps),
        compiled.debug.timings_ns.get("plan"),
        ops,
        tuple(rewrites),
        fates.next_stage(),
        len(rewrites),
    )


def _put_in(kind: str, group: Group | None) -> str:
    """The rule by which the compiler put a kernel in; empty for one that computes."""
    if kind == "pack":
        return "pack"
    if group is not None and group.kind == "copy":
        return "output" if group.output >= 0 else "copy"
    return ""


def _kernels(model: Model) -> dict[int, str]:
    """The kernel of each group, by the group's number."""
    found: dict[int, str] = {}
    mains = {
        group.number: set(group.main.origins)
        for group in model.compiled.schedule.groups
        if group.kind == "program" and group.main is not None
    }
    for step in model.compiled.plan.steps:
        main = mains.get(step.group)
        if step.kind != "pack" and (main is None or not main.isdisjoint(step.nodes)):
            found.setdefault(step.group, step.id)
    return found


def _inside(model: Model) -> dict[str, tuple[str, bool]]:
    """For the operations that branches, loops and calls run, the kernel, and whether it computes
    others too."""
    found: dict[str, tuple[str, bool]] = {}
    plan = model.compiled.plan
    owners = {op.id for op in model.compiled.source.walk() if op.regions}
    for steps in plan.programs:
        for step in (plan.steps[n] for n in steps):
            if step.kind != "pack":
                for id in step.nodes:
                    if id not in owners:
                        found.setdefault(id, (step.id, len(step.nodes) > 1))
    return found


def _nodes(ops: Iterable[Op]) -> set[str]:
    return {id for op in ops for id in op.origins}


__all__ = ["Fate", "Stage", "StageOp", "StageRewrite", "stages"]
