"""Ops that run other ops, as steps of the plan: ``cond``, ``while`` and ``call``.

The body of such an op is compiled like a graph, into a plan of its own, and its steps are put among
those of the plan around it, with slots of this plan. Steps of the kinds ``branch`` and ``jump`` say
where the executor goes on::

    cond            branch flag ─┐          while      ┌→ predicate
                    then         │                     │  branch flag ─┐
                  ┌ jump         │                     │  body         │
                  │ else       ←─┘                     │  exchange     │
                  └→                                   └─ jump         │
                                                                     ←─┘

So a loop costs no Python, its steps are seen by whoever looks at a plan, and memory is laid out for
all of them together. What a loop carries is in the slots of its results. The body writes the next
values there where it can (``reuse``), and otherwise beside them; then a step ``exchange`` gives the
slots each other's memory, for the steps of the loop alone. Behind the loop a step ``settle`` brings
the values home that are elsewhere. A few bytes beside their slots are copied instead.

Conditions on sizes that a body states count only when it runs: a step ``refuse`` stands before it,
which does nothing when they hold.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from maxlab.compiler.axes import extents_of, own_index, shape_of
from maxlab.compiler.groups import Group
from maxlab.compiler.guards import Guard, may_fail
from maxlab.compiler.launches import Items, Once
from maxlab.compiler.naming import facts_of
from maxlab.compiler.passes import pipeline, run
from maxlab.compiler.plan import Exchange, Packing, Slot, Step
from maxlab.compiler.plan_sink import Body, PlanSink, data_key
from maxlab.compiler.reuse import Reuse
from maxlab.compiler.schedule import Schedule
from maxlab.compiler.traffic import Counted, Touch
from maxlab.compiler.turns import add_settling, next_turn
from maxlab.ir import Block, Call, DeviceRef, Dim, Function, Op, Shape, Value, copied
from maxlab.ir.dims import from_poly
from maxlab.ir.poly import ONE, Poly
from maxlab.ir.types import Typed
from maxlab.opset import checks_of, role_of
from maxlab.opset.dynamic import definitions, region_definitions


def compile_body(sink: PlanSink, op: Op, number: int) -> Body:
    """The region ``number`` of ``op``, compiled."""
    outside = sink.schedule.function
    function = Function(f"{outside.name}.{op.id}.{number}")
    copied(op.regions[number], function.block, {})
    function.number_after(outside)
    function.written = outside.written
    names = {**outside.parameters, **dict.fromkeys(definitions(outside))}
    function.set_parameters(names)
    own = region_definitions(function.block, names)
    if own:
        _rename(function.block, own)
    outputs = _changed(function) if role_of(op) == "loop" and number else None
    guard = guard_of(function)
    options = sink.schedule.options
    run(function, pipeline(options.split_k))
    schedule = Schedule(function, options)
    inner = sink.inner(schedule, sink.root)
    plan = inner.plan
    outside.number_after(function)
    sink.functions += [function, *inner.functions]
    if outputs is None:
        return Body(function, schedule, plan, guard, list(range(len(plan.outputs))))
    homes = Reuse(plan, function.inputs, outputs, inner.in_place).homes
    return Body(function, schedule, plan, guard, outputs, homes=homes)


def _changed(function: Function) -> list[int]:
    """The numbers of the outputs that are not the input of that number; the others are outputs no
    more."""
    output = function.output
    assert output is not None
    given = list(output.operands)
    numbers = [n for n, value in enumerate(given) if value is not function.inputs[n]]
    function.block.remove(output)
    left = function.create(output.name, [given[n] for n in numbers], [], loc=output.loc)
    function.block.append(left)
    return numbers


def compile_subgraph(sink: PlanSink, function: Function) -> Body:
    """The subgraph ``function``, compiled once for all of its calls."""
    from maxlab.compiler.outlining import outline

    found = sink.subgraphs.get(function)
    if found is not None:
        return found
    outside, options = sink.schedule.function, sink.schedule.options
    work = function.clone()
    work.set_parameters([*work.parameters, *outside.parameters, *definitions(outside)])
    outline(work, options)
    run(work, pipeline(options.split_k))
    schedule = Schedule(work, options)
    inner = sink.inner(schedule, function)
    plan = inner.plan
    origins = {op.id: op.origins for one in (work, *inner.functions) for op in one.walk()}
    made = Body(work, schedule, plan, Guard(), list(range(len(plan.outputs))), origins)
    sink.subgraphs[function] = made
    return made


def guard_of(function: Function) -> Guard:
    """The conditions on sizes that ``function`` states."""
    checks = [(facts_of(op), c) for op, c in checks_of(function) if not _holds(c)]
    guard = Guard(checks)
    for op in function.ops:
        for result in op.results:
            if isinstance(result.type, Typed):
                for poly in result.type.sizes:
                    if may_fail(poly):
                        guard.differences.setdefault(poly, facts_of(op))
    return guard


def _holds(check: Any) -> bool:
    return bool(check.relation == "==" and check.left == check.right)


def _rename(block: Block, sizes: Mapping[str, Poly]) -> None:
    """Write the sizes of dims instead of their names, which are of this block alone."""

    def renamed(attr: Any) -> Any:
        if isinstance(attr, Dim):
            return from_poly(attr.poly.substitute(sizes))
        if isinstance(attr, Shape):
            return Shape([renamed(d) for d in attr])
        if isinstance(attr, Typed):
            return type(attr)(attr.dtype, [renamed(d) for d in attr.shape], attr.device)
        if isinstance(attr, tuple):
            return tuple(renamed(one) for one in attr)
        return attr

    for op in block.ops:
        op.set_attrs({name: renamed(attr) for name, attr in op.attrs.items()})
        for result in op.results:
            result.retype(renamed(result.type))
        for region in op.regions:
            for arg in region.args:
                arg.retype(renamed(arg.type))
            _rename(region, sizes)


# ---------------------------------------------------------------- steps
class _Programs:
    """Adds the steps of one op to the plan of ``sink``."""

    def __init__(self, sink: PlanSink, group: Group) -> None:
        assert group.main is not None
        self.sink = sink
        self.plan = sink.plan
        self.group = group
        self.op = group.main

    def base(self, value: Value) -> int:
        """The slot that holds ``value``."""
        shape = shape_of(value)
        base, _ = self.sink.schedule.resolve(value, own_index(shape), extents_of(shape))
        return self.sink.slot(base)

    def control(self, kind: str, pointers: Sequence[int] = ()) -> Step:
        """A new step that says where to go on; its ``jump`` is not known yet."""

        step = self.sink.add(
            self.group, kind, None, pointers, Once(), ONE, touching=Counted(), computed=()
        )
        step.device = DeviceRef.CPU()
        return step

    def land(self, step: Step) -> None:
        """Let ``step`` go on behind the newest step."""
        step.jump = len(self.plan.steps) - step.number

    def copy(self, target: int, source: int) -> None:
        """A step that copies a slot."""
        nbytes = self.plan.slots[target].nbytes
        device = self.plan.slots[target].device
        size = Poly.constant(self.plan.slots[target].dtype.size_in_bytes)

        elements = nbytes.floordiv(size)
        gpu = device.is_gpu()
        step = self.sink.add(
            self.group,
            "transfer" if gpu else "copy",
            None,
            [target, source],
            Once() if gpu else Items(nbytes, Poly.constant(8), unit=64),
            nbytes,
            sizes=[],
            builtin="" if gpu else "mx_k_copy",
            touching=Counted({0: Touch(written=elements), 1: Touch(elements)}),
            computed=(),
        )
        step.device = device

    def insert(
        self,
        body: Body,
        operands: Sequence[Value],
        outputs: Sequence[int],
        call: Call | None = None,
    ) -> None:
        """The steps of ``body``, which reads ``operands`` and writes the slots ``outputs``; of a
        subgraph for ``call``."""
        guard = None
        if body.guard.stated:
            guard = self.control("refuse")
            guard.builtin, guard.guard = "mx_k_refuse", body.guard
        place = self._placed(body, operands, outputs, call.weights if call else {})
        rename = _Renaming(body, call) if call else None
        first = len(self.plan.steps)
        for inner in body.plan.steps:
            number = first + inner.number
            host = inner.call is not None
            self.plan.steps.append(
                dataclasses.replace(
                    inner,
                    number=number,
                    pointers=[place[n] for n in inner.pointers],
                    keeps=tuple(place[n] for n in inner.keeps),
                    exchange=_placed_exchange(inner.exchange, place),
                    held={place[n]: held for n, held in inner.held.items()},
                    builtin=f"host_k{number}" if host else inner.builtin,
                    group=self.group.number,
                    nodes=inner.nodes if rename is None else rename.ids(inner.nodes),
                    renamed=inner.renamed if rename is None else rename.texts(inner),
                )
            )
        self.plan.loops += [
            range(first + loop.start, first + loop.stop) for loop in body.plan.loops
        ]
        if guard is not None:
            self.land(guard)

    def _placed(
        self,
        body: Body,
        operands: Sequence[Value],
        outputs: Sequence[int],
        weights: Mapping[str, str],
    ) -> dict[int, int]:
        """The slot of this plan for each one of the body's, whose ``weights`` have these names."""
        slots = self.plan.slots
        known = self.sink.known_data()
        place: dict[int, int] = {}
        for slot in body.plan.slots:
            if slot.kind == "input":
                place[slot.number] = self.base(operands[slot.index])
                continue
            if slot.kind == "output":
                place[slot.number] = outputs[slot.index]
                continue
            packing: Packing | None = slot.packing
            if packing is not None:
                packing = dataclasses.replace(packing, source=place[packing.source])
            name = weights.get(slot.name, slot.name)
            made = dataclasses.replace(
                slot, number=len(slots), packing=packing, value="", name=name
            )
            key = data_key(made)
            found = known.get(key) if key else None
            if found is None:
                slots.append(made)
                found = made.number
                if key:
                    known[key] = found
            place[slot.number] = found
        return place

    # ------------------------------------------------------------ ops
    def cond(self) -> None:
        """The steps of ``mo.cond``."""
        flag, *captured = self.op.operands
        results = [self.sink.slot(value) for value in self.op.results]
        bodies = [compile_body(self.sink, self.op, n) for n in range(2)]
        branch = self.control("branch", [self.base(flag)])
        self.insert(bodies[0], captured, results)
        if bodies[1].plan.steps or bodies[1].guard.stated:
            jump = self.control("jump")
            self.land(branch)
            self.insert(bodies[1], captured, results)
            self.land(jump)
        else:
            self.land(branch)

    def loop(self) -> None:
        """The steps of ``mo.while``."""
        sink, plan = self.sink, self.plan
        states = [sink.slot(value) for value in self.op.results]
        carried = self.op.results
        operands = [*carried, *self.op.operands[len(carried) :]]
        predicate, body = (compile_body(sink, self.op, n) for n in range(2))
        turn = next_turn(plan, body.outputs, body.homes, states)
        exchanges = [self._exchange(turn.homes)] if turn.homes else []
        first = len(plan.steps)
        flag = self._memory(predicate, 0)
        self.insert(predicate, operands, [flag])
        branch = self.control("branch", [flag])
        self.insert(body, operands, turn.following)
        for state, source in turn.copies:
            self.copy(state, source)
        if turn.moves:
            exchanges.append(self._exchange(turn.moves))
        jump = self.control("jump")
        jump.jump = first - jump.number
        self.land(branch)
        end = len(plan.steps)
        plan.loops.append(range(first, end))
        add_settling(sink, self.group, turn.rings, states)
        for step in exchanges:
            assert step.exchange is not None
            at = step.number
            step.exchange = dataclasses.replace(
                step.exchange,
                steps=range(first - at, end - at),
                settling=range(end - at, len(plan.steps) - at),
            )

    def _exchange(self, moves: Sequence[tuple[int, int]]) -> Step:
        """A new step that gives slots each other's memory; in which steps is not known yet."""
        step = self.control("exchange", [slot for slot, _ in moves])
        step.exchange = Exchange(tuple(moves))
        return step

    def call(self) -> None:
        """The steps of ``mo.call``."""
        call: Call = self.op.attrs["call"]
        body = compile_subgraph(self.sink, call.body)
        results = [self.sink.slot(value) for value in self.op.results]
        self.insert(body, self.op.operands, results, call)

    def _memory(self, body: Body, number: int) -> int:
        """A new slot for an output of ``body``."""
        output = body.function.output
        assert output is not None
        value = output.operands[number]
        typed = value.tensor_type
        made = next(s for s in body.plan.slots if s.kind == "output" and s.index == number)
        slots = self.plan.slots
        slot = Slot(len(slots), "arena", typed.dtype, made.nbytes, made.shape, device=typed.device)
        slots.append(slot)
        return slot.number

    def build(self) -> None:
        """All steps of the op, and one behind them that knows what the op reads and makes."""
        first = len(self.plan.steps)
        match role_of(self.op):
            case "loop":
                self.loop()
            case "branch":
                self.cond()
            case _:
                self.call()
        end = self.control("jump")
        end.jump = 1
        states = self.sink.schedule.states
        begun = [self.sink.schedule.group_of[v].number for v in self.op.operands if v in states]
        # what a loop began with is written over: the steps that copied it say where it came from
        sources = [n for s in self.plan.steps[:first] if s.group in begun for n in s.pointers]
        operands = [self.base(v) for v in self.op.operands if v not in states]
        results = [self.sink.slot(v) for v in self.op.results]
        end.keeps = tuple(dict.fromkeys((*results, *operands, *sources)))
        self.plan.programs.append(range(first, len(self.plan.steps)))


def _placed_exchange(exchange: Exchange | None, place: Mapping[int, int]) -> Exchange | None:
    if exchange is None:
        return None
    moves = tuple((place[a], place[b]) for a, b in exchange.moves)
    return dataclasses.replace(exchange, moves=moves)


class _Renaming:
    """The ids of one call for those of its body."""

    def __init__(self, body: Body, call: Call) -> None:
        self._body = body
        self._ids = call.ids
        self._plain = {id: self.ids(origins) for id, origins in body.origins.items()}

    def ids(self, ids: Sequence[str]) -> tuple[str, ...]:
        """The ids of the call's ops for those of the body's."""
        return tuple(self._ids[id] for id in ids if id in self._ids)

    def texts(self, step: Step) -> Mapping[str, tuple[str, ...]]:
        """The ids of the call's ops by those that the text of ``step`` names."""
        if step.renamed is None:
            return self._plain
        return {id: self.ids(origins) for id, origins in step.renamed.items()}


def add_program(sink: PlanSink, group: Group) -> None:
    """Add the steps of the op of ``group``, which has regions."""
    _Programs(sink, group).build()


__all__ = ["Body", "add_program", "compile_body", "guard_of"]
