"""Calls of subgraphs: their ops are written into the graph that calls them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from maxlab.errors import ArgumentError, Location
from maxlab.graph.chains import DeviceChains
from maxlab.graph.value import Value, wrap
from maxlab.graph.weight_table import WeightTable
from maxlab.graph.writer import Writer
from maxlab.ir import Block, Call, DeviceRef, Function, Op
from maxlab.ir import Value as IrValue
from maxlab.opset import is_chain, is_weight, lookup, role_of
from maxlab.opset.builder import SCOPE_TYPES


class Callee(Protocol):
    """What of a graph a call of it needs."""

    name: str

    @property
    def body(self) -> Function:
        """Its function, which nobody changes any more."""
        ...

    @property
    def scope_types(self) -> Any:
        """The class names of the modules at its scopes."""
        ...

    @property
    def weight_table(self) -> WeightTable:
        """Its weights."""
        ...


class Family(Protocol):
    """What of a graph says which graphs it may call."""

    @property
    def parent(self) -> Any:
        """The graph whose subgraph it is; None if it is none."""
        ...

    @property
    def module(self) -> Any:
        """The module that it is part of; None if it is part of none."""
        ...

    @property
    def subgraphs(self) -> Mapping[str, Any]:
        """Its subgraphs by name."""
        ...


def may_call(caller: Family, graph: Family) -> bool:
    """Whether ``graph`` is a subgraph of ``caller`` or of what that is in, or is in its module."""
    at: Any = caller
    while at is not None:
        if any(known is graph for known in at.subgraphs.values()):
            return graph is not caller
        if at.module is not None and at.module is graph.module:
            return not _is_within(caller, graph)  # no graph calls itself
        at = at.parent
    return False


def _is_within(caller: Family, graph: Family) -> bool:
    at: Any = caller
    while at is not None and at is not graph:
        at = at.parent
    return at is graph


class Calls:
    """The calls that a function makes."""

    def __init__(self, writer: Writer, chains: DeviceChains, weights: WeightTable) -> None:
        self._writer = writer
        self._chains = chains
        self._weights = weights
        self._called: tuple[tuple[Function, int], Function] | None = None

    @property
    def body(self) -> Function:
        """What graphs that call this one write down. Of a graph that may change later, a copy: its
        calls are told apart by what was called."""
        writer = self._writer
        known = writer.function, writer.log.revision
        if self._called is None or self._called[0] != known:
            self._called = known, writer.function.clone()
        return self._called[1]

    def write(self, graph: Callee, arguments: Sequence[Any], prefix: str) -> list[Value]:
        """The results of ``graph`` on ``arguments``: its ops, once more, in this function.

        Raises:
            ArgumentError: ML347, another number of arguments, or one of another type.
            GraphError: ML321, a weight of the prefixed name has another type.
        """
        writer = self._writer
        body = graph.body
        values = writer.owned(arguments)
        _match(graph.name, body, values)
        self._adopt_scope_types(graph)
        env: dict[IrValue, IrValue] = dict(zip(body.inputs, values, strict=True))
        places: dict[IrValue, DeviceRef] = {}
        ids: dict[str, str] = {}
        weights: dict[str, str] = {}
        for op in body.ops:
            if op.ends_block:
                results = [env[v] for v in op.operands]
                if not writer.regions and not any(map(_stands_alone, body.walk())):
                    operands, made_ids = [v.id for v in values], [v.id for v in results]
                    call = Call(body, ids, weights, operands, made_ids)
                    writer.journal.note(_uncall, writer.function, call)
                    writer.function.calls.append(call)
                return [wrap(value) for value in results]
            if is_chain(op):  # the effects of the body come behind those of the caller
                place = op.attrs.get("device")
                env[op.result] = self._chains.of(place) if place else self._chains.ready()._ir()
                if place:
                    places[env[op.result]] = place
                continue
            if is_weight(op):
                weight = self._weight(graph, op, prefix)
                assert weight.op is not None
                weights[op.attrs["name"]] = weight.op.attrs["name"]
                made: Sequence[IrValue] = [writer.reached(weight)]
            else:
                made = self._inline(op, [env[v] for v in op.operands], graph.name, ids).results
            env.update(zip(op.results, made, strict=True))
            if made and made[-1].op is not None:
                self._chains.follow(made[-1].op, places)
        raise AssertionError("a graph with output types ends with an output")

    def _weight(self, graph: Callee, op: Op, prefix: str) -> IrValue:
        """The value in this function of ``op``, a weight of ``graph``."""
        found = self._weights.of_call(graph.weight_table, graph.name, op, prefix)
        return self._inline(op, [], graph.name, {}).result if found is None else found

    def _inline(self, op: Op, operands: Sequence[IrValue], name: str, ids: dict[str, str]) -> Op:
        """A copy of ``op``, an op of the subgraph ``name``; ``ids`` gets the new ids of it, and of
        what stands in its regions.

        The copy keeps the place where the user wrote it; its scope is that of the call, then the
        subgraph's name, then its own.
        """
        location, scope = self._writer.place()
        copy = self._copied(op, operands, location, (scope, name), ids)
        self._writer.insert(copy)
        return copy

    def _copied(
        self,
        op: Op,
        operands: Sequence[IrValue],
        location: Location | None,
        scope: tuple[str, ...],
        ids: dict[str, str],
    ) -> Op:
        function = self._writer.function
        copy = function.create(
            op.name,
            operands,
            [r.type for r in op.results],
            op.attrs,
            loc=op.loc or location,
            scope=".".join(part for part in (*scope, op.scope) if part),
        )
        ids[op.id] = copy.id
        for made, old in zip(copy.results, op.results, strict=True):
            made.name = old.name
        for region in op.regions:
            inner = Block()
            env: dict[IrValue, IrValue] = {}
            for arg in region.args:
                env[arg] = inner.add_argument(f"b{function.fresh()}", arg.type, arg.name)
            for old_op in region.ops:
                given = [env[v] for v in old_op.operands]
                twin = self._copied(old_op, given, location, scope, ids)
                inner.append(twin)
                env.update(zip(old_op.results, twin.results, strict=True))
            copy.add_region(inner)
        return copy

    def _adopt_scope_types(self, graph: Callee) -> None:
        """Know what stands at the scopes that a call of ``graph`` is about to bring in."""
        if graph.scope_types:
            _, scope = self._writer.place()
            own = self._writer.state[SCOPE_TYPES]
            for path, name in graph.scope_types.items():
                full = ".".join(part for part in (scope, graph.name, path) if part)
                own.setdefault(full, name)


def _uncall(function: Function, call: Call) -> None:
    """Undo that ``call`` was written down, the newest of ``function``."""
    if function.calls and function.calls[-1] is call:
        function.calls.pop()


def _stands_alone(op: Op) -> bool:
    """Whether each call has ``op`` for itself: its effect has a place among others, or it names a
    dim of the whole graph."""
    return bool(lookup(op.name).effect) or role_of(op) == "bind"


def _match(name: str, body: Function, values: Sequence[IrValue]) -> None:
    inputs = body.inputs
    if len(values) != len(inputs):
        raise ArgumentError(
            "ML347",
            f"call: {name!r} takes {len(inputs)} arguments, got {len(values)}",
            fix="pass one value for each input type of the subgraph",
        )
    for number, (value, wanted) in enumerate(zip(values, inputs, strict=True)):
        if value.type != wanted.type:
            raise ArgumentError(
                "ML347",
                f"call: argument {number} of {name!r} must be {wanted.type}, got {value.type}",
                fix="types must be equal, symbolic dims included; ops.rebind renames dims",
            )


__all__ = ["Callee", "Calls", "may_call"]
