"""Calls of one subgraph become ops of their own again, so that its body is compiled once.

The ops of a subgraph are written into the graph that calls it: that is what users see, and what
profiles and checks speak of. For the compiler the copies of a body that is called twice or more are
one op ``mo.call`` each. Their body is scheduled, printed and planned once, and its steps are put
into the plan once for each call (``programs``), under the ids of that call's ops.

A weight that all calls pass at the same place is data of the body, under a name of each call: so it
is packed when the model is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from maxlab.compiler.options import Options
from maxlab.ir import Call, Function, Op, Rewriting, Value
from maxlab.opset import OPSET, is_weight, named

LEAST = 2
"""Calls from which on a body is compiled by itself: one alone may as well be fused with what is
around it."""


def outline(function: Function, options: Options) -> None:
    """Let calls of the same subgraph be ops again, unless ``options`` speak of single ops."""
    if not options.outline or options.apart or options.keep or not options.fuse:
        return
    by_body: dict[Function, list[Call]] = {}
    for call in function.calls:
        by_body.setdefault(call.body, []).append(call)
    chosen = {c: b for b, calls in by_body.items() if len(calls) >= LEAST for c in calls}
    if not chosen:
        return
    values = {v.id: v for v in function.inputs}
    values |= {v.id: v for op in function.ops for v in op.results}
    bodies = {
        body: _body_of(body, [[values[v] for v in call.operands] for call in calls])
        for body, calls in by_body.items()
        if len(calls) >= LEAST
    }
    starts = {id: call for call in chosen for id in call.ids.values()}
    made: dict[Call, Op] = {}
    gone: list[Op] = []
    with Rewriting(function) as rewriting:
        for op in function.ops:
            found = starts.get(op.id)
            if found is None:
                continue
            gone.append(op)
            if found not in made:
                made[found] = _call_op(function, found, bodies[found.body], values)
                rewriting.insert(made[found], op)
        for call, op in made.items():
            for number, result in zip(bodies[call.body].outputs, op.results, strict=True):
                values[call.results[number]].replace_with(result)
        for op in reversed(gone):
            rewriting.remove(op)


@dataclass(frozen=True, slots=True)
class _Body:
    """A subgraph as all of its calls share it: what it computes, the names of the inputs that are
    weights by their numbers, and the numbers of the outputs that it computes, each value once."""

    function: Function
    weights: Mapping[int, str]
    outputs: Sequence[int]


def _call_op(function: Function, call: Call, body: _Body, values: Mapping[str, Value]) -> Op:
    """The op that stands for ``call``."""
    operands = [values[id] for id in call.operands]
    names = dict(call.weights)
    for number, name in body.weights.items():
        source = operands[number].op
        assert source is not None
        names[name] = source.attrs["name"]
    return function.create(
        named("call"),
        [v for n, v in enumerate(operands) if n not in body.weights],
        [values[call.results[n]].type for n in body.outputs],
        {"call": Call(body.function, call.ids, names, (), ())},
        origins=tuple(call.ids.values()),
    )


def _body_of(body: Function, operands: Sequence[Sequence[Value]]) -> _Body:
    """``body`` for calls on ``operands``: a copy in which the inputs that are weights in all calls
    are weights, and which gives only what it computes."""
    copy = body.clone()
    names: dict[int, str] = {}
    for number, arg in enumerate(copy.inputs):
        given = [values[number].op for values in operands]
        if all(map(is_weight, given)):
            names[number] = f"{arg.name} of {body.name}"
    outputs = _trim(copy)
    first = copy.ops[0]
    weight = named("weight")
    for number, arg in enumerate(list(copy.inputs)):
        if number not in names:
            continue
        attrs = {"name": names[number], "type": arg.type, "placeholder": True}
        op = copy.create(weight, [], OPSET[weight].infer([], attrs), attrs)
        copy.block.insert(op, first)
        arg.replace_with(op.result)
        copy.block.remove_argument(arg)
    return _Body(copy, names, outputs)


def _trim(function: Function) -> list[int]:
    """The numbers of the outputs that ``function`` computes, each value once; it has no others
    then."""
    output = function.output
    assert output is not None
    own: dict[Value, int] = {}
    for number, value in enumerate(output.operands):
        if value.op is not None and not is_weight(value.op):
            own.setdefault(value, number)
    function.block.remove(output)
    function.block.append(function.create(output.name, list(own), [], loc=output.loc))
    return list(own.values())


__all__ = ["outline"]
