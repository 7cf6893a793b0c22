"""Which operations of a function are still those of a subgraph that was called.

The operations of a subgraph are written into the function that calls it, and a `Call` says which
they are, so that the subgraph is compiled once. An edit may make them something else: then the call
does not hold until another edit, such as an undo, makes them what they were.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from maxlab.ir import Call, Function, Op, Value
from maxlab.ir.core import walk
from maxlab.ir.edit import AddOp, Edit, RemoveOp, ReplaceUses, SetOperands
from maxlab.ir.edit_log import touched
from maxlab.opset import is_chain, is_weight


def joined(*parts: str) -> str:
    """A scope made of ``parts``; empty ones are left out."""
    return ".".join(part for part in parts if part)


def holding(function: Function, known: Sequence[Call], edits: Iterable[Edit]) -> list[Call]:
    """Those of ``known``, calls that ``function`` made, that hold after ``edits``, in their order.

    Those that ``edits`` are not about are as they were: they hold if they are in
    ``function.calls``.
    """
    now = {call.key: call for call in function.calls}
    if not known:
        return []
    ops = {op.id: op for op in function.walk()}
    about = _about(function, ops, edits)
    places = {op: place for place, op in enumerate(function.ops)}
    weights = {op.attrs["name"]: op for op in function.ops if is_weight(op)}
    found: list[Call] = []
    for call in known:
        holds = now.get(call.key)
        if not about.isdisjoint(call.ids.values()):
            holds = _Match(holds or call, ops, places, weights).made()
        if holds is not None:
            found.append(holds)
    return apart(found)


def apart(calls: Sequence[Call]) -> list[Call]:
    """``calls`` without those that speak of operations of others, or of none, in their order. The
    one with more operations says what they are, of two with as many the newer one: whatever was
    called since, that is so again when steps are taken back."""
    taken: set[str] = set()
    kept: set[int] = set()
    newest = list(calls)[::-1]
    newest.sort(key=lambda call: -len(call.ids))
    for call in newest:
        if call.ids and taken.isdisjoint(call.ids.values()):
            taken.update(call.ids.values())
            kept.add(id(call))
    return [call for call in calls if id(call) in kept]


def holding_now(function: Function, known: Sequence[Call]) -> list[Call]:
    """Those of ``known``, calls that nobody vouches for, whose operations are in ``function``."""
    ops = {op.id: op for op in function.walk()}
    places = {op: place for place, op in enumerate(function.ops)}
    weights = {op.attrs["name"]: op for op in function.ops if is_weight(op)}
    held = (_Match(call, ops, places, weights).made() for call in known)
    return apart([call for call in held if call is not None])


def _about(function: Function, ops: Mapping[str, Op], edits: Iterable[Edit]) -> set[str]:
    """The ids of the operations that ``edits`` are about, and of those that make what these read or
    have read."""
    listed = list(edits)
    named = touched(listed)
    for edit in listed:
        if isinstance(edit, (AddOp, RemoveOp)):
            named.update(edit.op.operands)
        elif isinstance(edit, SetOperands):
            named.update(edit.old, edit.new)
        elif isinstance(edit, ReplaceUses):
            named.update((edit.old, edit.new))
    makers = {value.id: op.id for op in ops.values() for value in op.results}
    return {makers.get(name, name) for name in named}


class _Match:
    """Holds the operations that a call wrote against its body."""

    def __init__(
        self,
        call: Call,
        ops: Mapping[str, Op],
        places: Mapping[Op, int],
        weights: Mapping[str, Op],
    ) -> None:
        self._call = call
        self._ops = ops
        self._places = places
        self._weights = weights
        self._env: dict[Value, Value] = {}
        self._inside: set[Op] = set()

    def made(self) -> Call | None:
        """The call with what it reads and gives now; None where the body is not there any more."""
        call, body = self._call, self._call.body
        results: list[Value] = []
        for op in body.ops:
            if op.ends_block:
                if not all(value in self._env for value in op.operands):
                    return None
                results = [self._env[value] for value in op.operands]
            elif is_weight(op) and op.id not in call.ids:
                twin = self._weights.get(call.weights.get(op.attrs["name"], ""))
                if twin is None or twin.result.type != op.result.type:
                    return None
                self._env[op.result] = twin.result
            elif not is_chain(op) and not self._is(op):
                return None
        operands = self._operands(body.inputs)
        if operands is None or not self._is_closed(results):
            return None
        made = tuple(value.id for value in results)
        if operands == call.operands and made == call.results:
            return call
        return call.on(operands, made)

    def _is(self, op: Op) -> bool:
        """Whether the twin of ``op`` is what it is."""
        call, twin = self._call, self._ops.get(self._call.ids.get(op.id, ""))
        if (
            twin is None
            or twin.name != op.name
            or twin.scope != joined(call.scope, op.scope)
            or twin.attrs != op.attrs
            or [v.type for v in twin.results] != [v.type for v in op.results]
            or not self._reads(op.operands, twin.operands)
            or len(twin.regions) != len(op.regions)
        ):
            return False
        self._inside.add(twin)
        for region, other in zip(op.regions, twin.regions, strict=True):
            if [v.type for v in region.args] != [v.type for v in other.args]:
                return False
            self._env.update(zip(region.args, other.args, strict=True))
            if len(region.ops) != len(other.ops) or not all(map(self._is, region.ops)):
                return False
        self._env.update(zip(op.results, twin.results, strict=True))
        return True

    def _reads(self, wanted: Sequence[Value], given: Sequence[Value]) -> bool:
        if len(wanted) != len(given):
            return False
        inputs = self._call.body.block
        for value, other in zip(wanted, given, strict=True):
            if value.owner is inputs and value not in self._env and value.type == other.type:
                self._env[value] = other
            if self._env.get(value) is not other:
                return False
        return True

    def _operands(self, inputs: Sequence[Value]) -> tuple[str, ...] | None:
        """The ids of what the call reads; None where it is made behind the call's beginning."""
        start = min((self._places[op] for op in self._inside if op in self._places), default=0)
        found: list[str] = []
        for value, old in zip(inputs, self._call.operands, strict=True):
            other = self._env.get(value)
            if other is None:  # nothing of the body reads it
                found.append(old)
                continue
            if other.op is not None and self._places.get(other.op, -1) >= start:
                return None
            found.append(other.id)
        return tuple(found)

    def _is_closed(self, results: Sequence[Value]) -> bool:
        """Whether nothing outside reads what the call does not give."""
        inside = {inner for op in self._inside for inner in (op, *_inner(op))}
        return all(
            value in results or all(reader in inside for reader in value.uses)
            for op in self._inside
            for value in op.results
        )


def _inner(op: Op) -> Iterable[Op]:
    for region in op.regions:
        yield from walk(region)


__all__ = ["apart", "holding", "holding_now", "joined"]
