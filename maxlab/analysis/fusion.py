"""Why two neighbouring operations are in one kernel, or are not: the rules of the schedule, read
from a compiled model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from maxlab.analysis.target import model_behind
from maxlab.compiler import Compiled, Options
from maxlab.compiler.groups import Group
from maxlab.compiler.reasons import APART, MERGE, STORED, TOGETHER, Reason
from maxlab.compiler.schedule import Schedule
from maxlab.engine import Model
from maxlab.engine.profile import Profile
from maxlab.errors import ArgumentError
from maxlab.habits import fitting
from maxlab.ir import Call, Function, Op, Value
from maxlab.opset import OPSET, is_call, is_weight


@dataclass(frozen=True, slots=True)
class Why:
    """The decision of the schedule about two operations, and the rule that made it.

    Attributes:
        a, b: Their ids; ``b`` reads ``a``, where one reads the other.
        together: Whether one kernel computes both.
        kernels: The kernels of the one and of the other; None for what no kernel computes.
        rule: The name of the rule that decided, as in ``maxlab.compiler.reasons``.
        reason: The rule in a sentence.
        attempt: Python that would decide otherwise, on ``model``; empty if there is none.
    """

    a: str
    b: str
    together: bool
    kernels: tuple[str | None, str | None]
    rule: str
    reason: str
    attempt: str = ""

    def __str__(self) -> str:
        word = "one kernel" if self.together else "two kernels"
        places = " and ".join(k or "none" for k in dict.fromkeys(self.kernels))
        text = f"{self.a} and {self.b}: {word} ({places}): {self.reason}"
        return f"{text}\n  to change it: {self.attempt}" if self.attempt else text


@fitting("ML975", "maxlab.why(model, 'n0', 'n1')")
def why(model: Model | Profile, a: str, b: str) -> Why:
    """Why the operations ``a`` and ``b`` of a graph, of which one reads the other, are in one
    kernel or are not.

    Args:
        model: The compiled graph.
        a: The id of an operation, such as ``"n3"``.
        b: The id of another one.

    Raises:
        ArgumentError: ML628, there is no such operation, or neither reads the other.
        ArgumentTypeError: ML674, ``model`` is something else.

    Example:
        >>> from maxlab import engine
        >>> from maxlab.analysis.fusion import why
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> with Graph("f", input_types=[TensorType(DType.float32, ["m", "n"])]) as graph:
        ...     x = ops.tanh(graph.inputs[0].tensor)
        ...     graph.output(x + ops.sum(x, axis=0))
        >>> model = engine.InferenceSession().load(graph)
        >>> tanh, total, add = (op.id for op in model.compiled.source.ops[:3])
        >>> why(model, tanh, total).rule
        'two readers'
    """
    compiled = model_behind(model, "why").compiled
    places = list(_places(compiled))
    homes = [next((p for p in places if id in p.nodes), None) for id in (a, b)]
    first, second = homes
    if first is not None and second is not None and first is not second:
        kernels = _Question(compiled, first).kernel(a), _Question(compiled, second).kernel(b)
        own = [schedule for _, schedule in _own(compiled)]
        is_called = not (first.schedule in own and second.schedule in own)
        attempt = "model.reload(options=Options(outline=False))" if is_called else ""
        return Why(a, b, False, kernels, "inside", INSIDE, attempt)
    for id, other, place in ((a, b, second), (b, a, first)):
        op, reader = compiled.source.find(id), compiled.source.find(other)
        if op is None or reader is None or not is_weight(op) or place is None:
            continue
        if place is not places[0] or reader.regions:
            name = f"{reader.name.removeprefix('mo.')} {other}"
            text = f"the weight that {name} reads is data that is in memory from the start"
            kernel = _Question(compiled, place).kernel(other)
            return Why(id, other, False, (None, kernel), "data", text)
    return _Question(compiled, first or second or places[0]).answer(a, b)


INSIDE = (
    "what a branch or a loop runs, and a subgraph that is called more than once, is compiled by "
    "itself: no kernel begins outside of it and ends inside"
)


@dataclass(frozen=True)
class _Place:
    """A schedule, and the user's ids of the ops that it is of.

    Attributes:
        schedule: The schedule.
        names: The user's id for each of its own.
        nodes: The user's ids of what its kernels compute, and what runs other ops among them.
    """

    schedule: Schedule
    names: Mapping[str, str]
    nodes: frozenset[str]


def _own(compiled: Compiled) -> list[tuple[Function | None, Schedule]]:
    """The schedules of the graph itself."""
    inner = [(root, s) for root, s in compiled.schedules if root is None]
    return [(None, compiled.schedule), *inner]


def _places(
    compiled: Compiled, root: Function | None = None, names: Mapping[str, str] | None = None
) -> Iterator[_Place]:
    """Where ops of the user are computed: the graph, its bodies, and those of its calls."""
    if names is None:
        names = {op.id: op.id for op in compiled.source.walk()}
    found = _own(compiled) if root is None else compiled.schedules
    for owner, schedule in found:
        if owner is not root:
            continue
        nodes = {
            names[id]
            for op in schedule.function.ops
            if not is_call(op)
            for id in op.origins
            if id in names
        }
        yield _Place(schedule, names, frozenset(nodes))
        for op in schedule.function.ops:
            if is_call(op):
                call: Call = op.attrs["call"]
                inner = {own: names[id] for own, id in call.ids.items() if id in names}
                body = next((r for r, _ in compiled.schedules if r is call.body), None)
                if body is not None:
                    yield from _places(compiled, body, inner)


class _Question:
    def __init__(self, compiled: Compiled, place: _Place) -> None:
        self._compiled = compiled
        self._schedule = place.schedule
        self._names = place.names
        self._own = {name: id for id, name in place.names.items()}
        written = {op.id: op for op in compiled.source.walk()}
        self._source = {id: written[name] for id, name in place.names.items() if name in written}

    def answer(self, a: str, b: str) -> Why:
        """The answer for two ids of the user."""
        return self._answer(self._own.get(a, a), self._own.get(b, b))

    def _answer(self, a: str, b: str) -> Why:
        first, second = self._op(a), self._op(b)
        edges = list(self._edges(a, b))
        if not edges:
            back = list(self._edges(b, a))
            if back or _reads(first, second):
                a, b, first, second, edges = b, a, second, first, back
        for op in (first, second):
            plain = self._in_no_kernel(op)
            if plain:
                return self._why(a, b, True, plain, TOGETHER[plain])
        if edges:
            decided = [self._decided(op, base) for op, base in edges]
            # The edge that keeps them apart says more than one that does not.
            together = self._homes(a) & self._homes(b)
            chosen = next((d for d in decided if d[0] is bool(together)), decided[0])
            return self._why(a, b, *chosen)
        shared = self._homes(a) & self._homes(b)
        for group in shared:
            rules = [rule for op, rule in group.why if b in op.origins or a in op.origins]
            rule = rules[-1] if rules else "pieces"
            return self._why(a, b, True, rule, TOGETHER[rule])
        for op in (first, second):
            gone = self._gone(op)
            if gone:
                return self._why(a, b, False, "removed", gone)
        if _reads(second, first) and second.regions:  # what reads it is inside
            return self._why(a, b, False, "inside", INSIDE)
        raise ArgumentError(
            "ML628",
            f"neither of {first.id} and {second.id} reads the other, and they are in different "
            "kernels",
            fix=f"ask about neighbours: {second.id} reads "
            f"{_listed(_sources(second)) or 'inputs only'}",
        )

    # ------------------------------------------------------------ parts
    def _op(self, id: str) -> Op:
        op = self._source.get(id)
        if op is None:
            raise ArgumentError(
                "ML628",
                f"the graph {self._compiled.source.name!r} has no operation {id!r}",
                fix=f"its operations are {_listed([op.id for op in self._source.values()])}",
            )
        return op

    def _edges(self, a: str, b: str) -> Iterator[tuple[Op, Value]]:
        """The ops of ``b``, after all passes, and the values of ``a`` that they read through views
        of neither.
        """
        for op in self._schedule.function.ops:
            if b not in op.origins or a in op.origins or OPSET[op.name].kind == "output":
                continue
            for operand in op.operands:
                base = self._base(operand)
                if base.op is not None and a in base.op.origins:
                    yield op, base

    def _base(self, value: Value) -> Value:
        while value.op is not None and OPSET[value.op.name].kind == "view":
            if value in self._schedule.laid_out and value not in self._schedule.group_of:
                break
            value = value.op.operands[0]
        return value

    def _home(self, value: Value) -> Group | None:
        """The group that computes ``value``, the one that it was inlined into in the end."""
        group = self._schedule.group_of.get(value)
        into = self._schedule.inliner.into
        while group in into:
            group = into[group]
        return group

    def _homes(self, id: str) -> set[Group]:
        found = {
            self._home(op.results[0])
            for op in self._schedule.function.ops
            if id in op.origins and op.results
        }
        return {group for group in found if group is not None}

    def _in_no_kernel(self, op: Op) -> str:
        """The rule by which ``op`` is computed by whoever reads it; empty if a kernel has it."""
        kind = OPSET[op.name].kind
        if kind == "view":
            return "view"
        id = self._own[op.id]
        made = [o for o in self._schedule.function.ops if id in o.origins and o.results]
        small = [o for o in made if self._schedule.inline_value(o.results[0])]
        if kind in ("iota", "constant") or (made and len(small) == len(made)):
            return "everywhere" if small or kind == "iota" else ""
        return ""

    def _decided(self, op: Op, base: Value) -> tuple[bool, str, str, str]:
        """Whether ``op`` and ``base``, which it reads, are together, the rule, and its sentence."""
        schedule = self._schedule
        home, reader = self._home(base), self._home(op.results[0])
        if home is None:
            data = schedule.data_of(base) is not None
            word = "data that is in memory from the start" if data else "no kernel's"
            return False, "data", f"what {self._called(op)} reads is {word}", ""
        reason = schedule.reasons.get((op, base))
        rule = reason.rule if reason is not None else ""
        if home is reader:
            if schedule.group_of[base] is not schedule.group_of.get(op.results[0]):
                rule = "inlined"
            elif rule not in TOGETHER:
                rule = "merged"
            return True, rule, TOGETHER[rule], self._cut(op)
        parts = []
        stored = schedule.inliner.why.get(base)
        if reason is not None and rule in APART:
            parts.append(self._sentence(APART, reason, op, base))
            if stored is not None and stored.rule == "not a map" and rule not in _OPEN:
                stored = None
        if stored is not None and (not parts or stored.rule != rule):
            text = self._sentence(STORED, stored, op, base)
            parts.append(
                f"it is not computed inside of its reader either: {text}" if rule else text
            )
            rule = stored.rule
        if not parts and base in schedule.laid_out:
            rule = "laid out"
            parts.append(
                f"{self._called(op)} needs it in another order in memory, which a copy makes"
            )
        return False, rule, "; ".join(parts), self._join(op, base, rule)

    def _sentence(self, table: dict[str, str], reason: Reason, op: Op, base: Value) -> str:
        facts: dict[str, Any] = dict(reason.facts)
        for name in ("shape", "domain"):
            if name in facts:
                facts[name] = f"[{', '.join(map(str, facts[name]))}]"
        if "merge" in facts:
            facts["merge"] = MERGE[facts["merge"]]
        assert base.op is not None
        facts |= {"reader": self._called(op), "source": self._called(base.op)}
        return table[reason.rule].format(**facts)

    def _called(self, op: Op) -> str:
        """The op of the graph that ``op`` is, or is a piece of, in words."""
        source = self._source.get(op.origins[0])
        name = (source or op).name.removeprefix("mo.")
        piece = "" if source is None or source.name == op.name else f"{op.name[3:]} of "
        return f"{piece}{name} {self._names.get(op.origins[0], op.origins[0])}"

    def _cut(self, op: Op) -> str:
        options = self._compiled.options
        made = sorted({*options.apart, self._names.get(op.origins[0], op.origins[0])})
        return _reload(options, apart=made)

    def _join(self, op: Op, base: Value, rule: str) -> str:
        options = self._compiled.options
        if rule == "unfused":
            return _reload(options, fuse=True)
        if rule == "apart":
            return _reload(options, apart=sorted(options.apart.difference(op.origins)))
        if rule == "kept":
            names = {base.id, *(base.op.origins if base.op is not None else ())}
            return _reload(options, keep=sorted(options.keep.difference(names)))
        return ""

    def _gone(self, op: Op) -> str:
        """Says what the passes did to an op that has gone."""
        id = self._own[op.id]
        if any(id in made.origins for made in self._schedule.function.ops):
            return ""
        if self._schedule is not self._compiled.schedule:
            name = op.name.removeprefix("mo.")
            return f"no kernel computes {name} {op.id}: the passes on its body took it out"
        for record in self._compiled.passes:
            for rewrite in record.rewrites:
                if rewrite.node == op.id:
                    into = f" in favour of {', '.join(rewrite.into)}" if rewrite.into else ""
                    name = op.name.removeprefix("mo.")
                    return (
                        f"no kernel computes {name} {op.id}: the pass {record.name} took it out "
                        f"by the rule {rewrite.rule}{into}"
                    )
        return ""

    def _why(
        self, a: str, b: str, together: bool, rule: str, reason: str, attempt: str = ""
    ) -> Why:
        a, b = self._names.get(a, a), self._names.get(b, b)
        return Why(a, b, together, (self.kernel(a), self.kernel(b)), rule, reason, attempt)

    def kernel(self, id: str) -> str | None:
        """The kernel that computes ``id``, an op of the user; of one that runs others where that
        begins."""
        steps = [s for s in self._compiled.plan.steps if s.kind not in ("pack", "jump")]
        if self._schedule is self._compiled.schedule:  # the groups of steps are its own
            homes = {group.number for group in self._homes(id)}
            for step in steps:
                if step.group in homes and id in step.nodes:
                    return step.id
        return next((step.id for step in steps if id in step.nodes), None)


_OPEN = ("another index", "begins")
"""Rules that keep an op out of a kernel, but not what it reads from being computed in its own."""


def _reads(a: Op, b: Op) -> bool:
    """Whether ``a`` reads ``b`` directly."""
    return any(value.op is b for value in a.operands)


def _sources(op: Op) -> list[str]:
    return list(dict.fromkeys(v.op.id for v in op.operands if v.op is not None))


def _listed(ids: Sequence[str]) -> str:
    return ", ".join(ids[:6]) + (" …" if len(ids) > 6 else "")


def _reload(options: Options, **changes: Any) -> str:
    """The call that loads a model again with ``options`` but for ``changes``."""
    parts: list[str] = []
    fields = {
        "fuse": options.fuse,
        "accuracy": options.accuracy,
        "apart": sorted(options.apart),
        "keep": sorted(options.keep),
        **changes,
    }
    for name, value in fields.items():
        if name == "fuse" and value is False:
            parts.append("fuse=False")
        elif name == "accuracy" and value != "default":
            parts.append(f"accuracy={value!r}")
        elif isinstance(value, list) and value:
            parts.append(f"{name}={{{', '.join(repr(v) for v in value)}}}")
    if options.replaced:
        parts.append("replaced=model.options.replaced")
    return f"model.reload(options=Options({', '.join(parts)}))"


__all__ = ["Why", "why"]
