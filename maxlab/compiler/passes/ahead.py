"""Takes out of a graph all that depends on weights and constants alone: it is computed when a model
is loaded, not in each run.

The pass takes whole kernels out of the function: those that the schedule would make of such
operations alone. Each of their results that others read becomes a weight, and the operations become
the outputs of a function of their own, which whoever loads the model runs once. Results are the
same bits: what a kernel of inputs would compute of weights in a register, where a product and a sum
may be rounded once, stays there, and the pass does nothing where any kernel would be another one.

Left where they are: what may fail, so that an error is one of the run; what has an effect; results
of more than ``MOST_GROWTH`` times the bytes of what they are made of; the insides of loops,
branches and called subgraphs; and graphs without inputs, of which a run is all there is to do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from maxlab.compiler.groups import Group
from maxlab.compiler.options import Options
from maxlab.compiler.schedule import Schedule
from maxlab.ir import Function, Op, Rewriting, Shape, TensorType, Value
from maxlab.opset import OPSET, is_transfer, is_weight, named

MOST_GROWTH = 4
"""How many times the bytes of its sources a result may have: a broadcast is no gain in memory."""
_KINDS = ("view", "map", "reduce", "contract", "concat", "pad")
_GROUPS = ("map", "row", "col", "contract", "concat", "copy")

Signature = tuple[str, frozenset[str], Any]
"""The computation of a group: its kind, the ids of its ops, its domain."""


@dataclass(slots=True)
class Ahead:
    """The part that is computed when a model is loaded.

    Attributes:
        function: Has no inputs, and an output for each weight that takes the place of a result.
        options: What it is compiled with.
        names: The names of these weights, in the order of the outputs.
        count: How many operations compute them.
        nbytes: The bytes of all of them.
    """

    function: Function
    options: Options
    names: tuple[str, ...]
    count: int
    nbytes: int

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of the weights of the graph that are read."""
        return tuple(op.attrs["name"] for op in self.function.ops if is_weight(op))


@dataclass(frozen=True, slots=True)
class _Result:
    """A result that becomes a weight: the id of its value, and the operands that read it, as ids of
    ops and positions; all for None."""

    id: str
    name: str
    readers: tuple[tuple[str, int], ...] | None = None


class ComputeAhead:
    """The pass for ``options``; ``found`` is what it took out."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self.found: Ahead | None = None

    def __call__(self, rewriting: Rewriting) -> None:
        """Replace what kernels compute of data alone by weights."""
        self.found = None
        function = rewriting.function
        if not self.applies or not function.inputs or not _worth_a_look(function):
            return
        cut = _Cut(function, self._options)
        if not cut.results:
            return
        part = cut.part()
        other = function.clone()
        with Rewriting(other) as trial:
            cut.take_out(trial)
        if not cut.is_alike(part, other):
            return
        count = sum(OPSET[op.name].kind in _KINDS[1:] for op in part.ops)
        cut.take_out(rewriting)
        assert part.output is not None
        nbytes = sum(_bytes(v) for v in part.output.operands)
        names = tuple(result.name for result in cut.results)
        self.found = Ahead(part, cut.part_options(part), names, count, nbytes)

    @property
    def applies(self) -> bool:
        """Whether the options let anything be computed ahead: kernels that write messages, or test
        what they compute, do so in each run, and what is kept to be looked at is computed there."""
        options = self._options
        quiet = options.log_level == "notset" and options.assert_level in ("none", "safe")
        return options.at_load and quiet and not options.keep


class _Cut:
    """The part that can be taken out of ``function``."""

    def __init__(self, function: Function, options: Options) -> None:
        self._function = function
        self._options = options
        work = function.clone()
        self._known = {op.id for op in work.ops}
        self._schedule = schedule = Schedule(work, options)
        self._fixed = _fixed(schedule)
        self._before = _signatures(schedule)
        self._taken = {g for g in schedule.groups if self._is_fixed(g)}
        direct = {value for value, same in schedule.outputs if same}
        self._leave({g for g in self._taken if direct & set(self._written(g))})
        frontier = self._frontier()
        while bad := {g for g, value in frontier if not self._is_small(value)}:
            self._leave(bad)
            frontier = self._frontier()
        self.results = [self._result(group, value) for group, value in frontier]

    # ------------------------------------------------------------ what is computed of data
    def _is_fixed(self, group: Group) -> bool:
        if group.kind not in _GROUPS or group.output >= 0 or group.stage:
            return False
        if group.source is not None:
            if group.source in self._schedule.layouts or group.source not in self._fixed:
                return False
        return all(v in self._fixed for op in self._ops(group) for v in op.results)

    def _ops(self, group: Group) -> list[Op]:
        return self._schedule.inliner.ops_of(group)

    def _written(self, group: Group) -> list[Value]:
        """The values that ``group`` writes to memory."""
        if group.source is not None:
            return [group.source]
        return [v for op in group.ops for v in op.results if v in self._schedule.stored]

    def _leave(self, groups: Iterable[Group]) -> None:
        self._taken.difference_update(groups)

    def _frontier(self) -> list[tuple[Group, Value]]:
        """The values that groups that are taken out write for others."""
        schedule = self._schedule
        read: set[Value] = set()
        for group in schedule.groups:
            if group in self._taken:
                continue
            for op in self._ops(group):
                for operand in op.operands:
                    read.update(schedule.bases(operand))
            if group.source is not None:
                made = group.source.op
                inner = group.source if group.output >= 0 or made is None else made.operands[0]
                read.update(schedule.bases(inner))
        order = [group for group in schedule.groups if group in self._taken]
        return [(g, v) for g in order for v in self._written(g) if v in read]

    def _is_small(self, value: Value) -> bool:
        """Whether ``value`` is made of a weight, and is not much larger than all it is made of."""
        sources: set[Value] = set()
        seen: set[Value] = set()
        waiting = [value]
        while waiting:
            one = waiting.pop()
            if one in seen or one.op is None:
                continue
            seen.add(one)
            if OPSET[one.op.name].kind in ("constant", "external"):
                sources.add(one)
            waiting.extend(one.op.operands)
        held = sum(_bytes(v) for v in sources)
        made = _bytes(value)
        return any(is_weight(v.op) for v in sources) and made <= MOST_GROWTH * held

    def _result(self, group: Group, value: Value) -> _Result:
        if group.source is None:
            return _Result(value.id, self._name(f"{value.id} at load"))
        assert value.op is not None
        inner = value.op.operands[0]
        readers = tuple(
            (user.id, n) for user in value.uses for n, v in enumerate(user.operands) if v is value
        )
        return _Result(inner.id, self._name(f"{inner.id} laid out at load"), readers)

    def _name(self, name: str) -> str:
        taken = {op.attrs["name"] for op in self._function.walk() if is_weight(op)}
        while name in taken:
            name += "'"
        return name

    # ------------------------------------------------------------ the two functions
    def part(self) -> Function:
        """The function that computes the results."""
        part = self._function.clone()
        part.name = f"{part.name} at load"
        part.calls, part.subgraphs = [], {}
        values = {v.id: v for op in part.ops for v in op.results}
        output = part.output
        assert output is not None
        part.block.remove(output)
        wanted = [values[result.id] for result in self.results]
        part.block.append(part.create(named("output"), wanted, [], loc=output.loc))
        part.block.keep(_needed(part))
        for value in list(part.inputs):
            part.block.remove_argument(value)
        part.set_parameters(())
        return part

    def part_options(self, part: Function) -> Options:
        """The options for ``part``."""
        apart = self._options.apart & {op.id for op in part.ops}
        return self._options.with_options(at_load=False, apart=apart, replaced=())

    def take_out(self, rewriting: Rewriting) -> None:
        """Let the results be weights in the function of ``rewriting``, which is equal to ours."""
        ops = rewriting.function.ops
        by_id = {op.id: op for op in ops}
        values = {v.id: v for op in ops for v in op.results}
        for result in self.results:
            value = values[result.id]
            op = value.op
            assert op is not None
            rewriting.rule("ahead", op)
            weight = _weight(rewriting.function, value, result.name)
            rewriting.insert(weight, op)
            if result.readers is None:
                value.replace_with(weight.result)
                continue
            for id, position in result.readers:
                operands = list(by_id[id].operands)
                operands[position] = weight.result
                by_id[id].set_operands(operands)
        fixed = {v.id for v in self._fixed}
        for op in reversed(ops):
            if op.results and all(v.id in fixed and not v.uses for v in op.results):
                rewriting.rule("read at load" if _is_data(op) else "ahead", op)
                rewriting.remove(op)

    def is_alike(self, part: Function, rest: Function) -> bool:
        """Whether ``part`` and ``rest`` become the kernels that the whole function would become."""
        there = _signatures(Schedule(part.clone(), self.part_options(part)))
        if any(count > self._before[one] for one, count in there.items() if one[1]):
            return False
        gone = Counter(self._signature(group) for group in self._taken)
        return _signatures(Schedule(rest, self._options)) == self._before - gone

    def _signature(self, group: Group) -> Signature:
        return _signature(self._schedule, group)


def _signature(schedule: Schedule, group: Group) -> Signature:
    ids = frozenset(op.id for op in schedule.inliner.ops_of(group))
    return group.kind, ids, tuple(group.domain)


def _signatures(schedule: Schedule) -> Counter[Signature]:
    return Counter(_signature(schedule, group) for group in schedule.groups)


def _worth_a_look(function: Function) -> bool:
    """Whether an operation computes something of data alone. A schedule is not made for views
    alone, of which most graphs have some."""
    data: set[Value] = set()
    found = False
    for op in function.ops:
        kind = OPSET[op.name].kind
        computed = kind in _KINDS or kind == "transfer"
        if _is_data(op) or (computed and op.operands and data.issuperset(op.operands)):
            data.update(op.results)
            found = found or (bool(op.operands) and kind not in ("transfer", "view"))
        elif kind == "kernel":  # data that it reads in another order is laid out for it
            views = (v.op for v in op.operands if v in data and v.op is not None)
            found = found or any(OPSET[view.name].axes is not None for view in views)
    return found


def _is_data(op: Op) -> bool:
    kind = OPSET[op.name].kind
    return kind == "constant" or (kind in ("iota", "external") and not op.operands)


def _fixed(schedule: Schedule) -> set[Value]:
    """The values of the function of ``schedule`` that are data, or computed of data alone."""
    found: set[Value] = set()
    for op in schedule.function.ops:
        row = OPSET[op.name]
        if not all(_is_static(v) for v in op.results):
            continue
        fixed = bool(op.operands) and all(v in found for v in op.operands)
        computed = row.kind in _KINDS and fixed and not (row.asserts or row.effect)
        there = is_transfer(op) and fixed and schedule.data_of(op.operands[0]) is not None
        if _is_data(op) or computed or there:
            found.update(op.results)
    return found


def _is_static(value: Value) -> bool:
    return isinstance(value.type, TensorType) and Shape.is_static(value.type.shape)


def _bytes(value: Value) -> int:
    assert isinstance(value.type, TensorType)
    return value.type.num_elements() * value.type.dtype.size_in_bytes


def _weight(function: Function, value: Value, name: str) -> Op:
    """An op that declares the weight ``name``, which has what ``value`` had."""
    op, typed = value.op, value.tensor_type
    assert op is not None
    plain = TensorType(typed.dtype, typed.shape, typed.device)
    return function.create(
        named("weight"),
        [],
        [plain],
        {"name": name, "type": plain, "placeholder": False},
        loc=op.loc,
        scope=op.scope,
        origins=op.origins,
    )


def _needed(function: Function) -> list[Op]:
    """The ops of ``function`` that its output needs."""
    needed: set[Op] = set()
    waiting: list[Op | None] = [function.output]
    while waiting:
        op = waiting.pop()
        if op is not None and op not in needed:
            needed.add(op)
            waiting.extend(v.op for v in op.operands)
    return [op for op in function.ops if op in needed]


def passes_with(passes: tuple[tuple[str, Any], ...], options: Options) -> Iterator[tuple[str, Any]]:
    """``passes`` with this one behind the sweep, where what is left is what is computed."""
    for name, apply in passes:
        yield name, apply
        if name == "sweep":
            yield "ahead", ComputeAhead(options)


__all__ = ["Ahead", "ComputeAhead", "passes_with"]
