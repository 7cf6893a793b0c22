"""Calls of subgraphs: their ops are written into the graph that calls them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from types import MappingProxyType
from typing import Any, Protocol

from maxlab.errors import ArgumentError, Location
from maxlab.graph.calling import holding, joined
from maxlab.graph.chains import DeviceChains
from maxlab.graph.flowing import substituted
from maxlab.graph.value import Value, wrap
from maxlab.graph.weight_table import WeightTable
from maxlab.graph.writer import Writer
from maxlab.ir import Block, Call, DeviceRef, Function, Op
from maxlab.ir import Value as IrValue
from maxlab.ir.edit import Edit
from maxlab.ir.poly import Poly
from maxlab.ir.types import Typed
from maxlab.opset import is_chain, is_weight, lookup, role_of
from maxlab.opset.builder import SCOPE_TYPES
from maxlab.opset.dynamic import late_dims, named_dims

_NO_DIMS: Mapping[str, Poly] = MappingProxyType({})


class Callee(Protocol):
    """The part of a graph that a call of it needs."""

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
    """The part of a graph that says which graphs it may call."""

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
        self._known: list[Call] = []
        self._after: dict[int, list[Call]] = {}
        self.made: dict[Function, Any] = {}
        """Subgraphs that were made of operations of the function, by what their calls call."""

    @property
    def body(self) -> Function:
        """The function that graphs that call this one write down. Of a graph that may change later,
        a copy: its calls are told apart by their callees.
        """
        writer = self._writer
        known = writer.function, writer.log.revision
        if self._called is None or self._called[0] != known:
            self._called = known, writer.function.clone()
        return self._called[1]

    def note(self, call: Call) -> None:
        """Knows that the operations of ``call`` are those of its body."""
        function, journal = self._writer.function, self._writer.journal
        journal.note(self._forget, function, call)
        self._known.append(call)
        function.calls.append(call)

    def _forget(self, function: Function, call: Call) -> None:
        """Undo that ``call`` was noted, the newest."""
        for calls in (self._known, function.calls):
            if calls and calls[-1] is call:
                calls.pop()

    def reread(self, edits: Iterable[Edit]) -> None:
        """Knows which calls hold after ``edits``."""
        function = self._writer.function
        by_key = {call.key: call for call in (*self._known, *function.calls)}
        if by_key:
            self._known = list(by_key.values())
            function.calls = holding(function, self._known, edits)

    def leave(self) -> None:
        """Remembers what is called after the steps that were made, which are about to be others."""
        self._after_steps()[self._writer.log.steps] = list(self._writer.function.calls)

    def arrive(self) -> None:
        """Calls what was called when the same steps were made, and nothing else: an operation could
        be part of what was called later as well, and what was lost meanwhile could be found
        again."""
        before = self._after_steps().get(self._writer.log.steps)
        if before is not None:
            self._writer.function.calls = list(before)

    def _after_steps(self) -> dict[int, list[Call]]:
        """The calls after so many steps, without those that can never be done again."""
        log = self._writer.log
        if log.forked_at is not None:
            self._after = {n: calls for n, calls in self._after.items() if n <= log.forked_at}
            log.forked_at = None
        return self._after

    def subgraphs(self) -> dict[str, Any]:
        """The subgraphs that were made of operations and are called, by name."""
        if not self.made:
            return {}
        bodies: dict[Function, None] = {}
        waiting = [call.body for call in self._writer.function.calls]
        while waiting:
            body = waiting.pop()
            if body not in bodies:
                bodies[body] = None
                waiting += [call.body for call in body.calls]
        return {graph.name: graph for body, graph in self.made.items() if body in bodies}

    def write(
        self, graph: Callee, arguments: Sequence[Any], prefix: str, label: str = ""
    ) -> list[Value]:
        """The results of ``graph`` on ``arguments``: its ops, once more, in this function.

        Args:
            graph: What is called.
            arguments: What it is called with.
            prefix: Of the names of placeholder weights.
            label: What the scope of its ops is called; by default as the graph is.

        Raises:
            ArgumentError: ML347, another number of arguments, or one of another type.
            GraphError: ML321, a weight of the prefixed name has another type.
        """
        writer = self._writer
        body = graph.body
        label = label or graph.name
        values = writer.owned(arguments)
        _match(graph.name, body, values)
        dims = self._own_dims(body)
        self._adopt_scope_types(graph, label)
        env: dict[IrValue, IrValue] = dict(zip(body.inputs, values, strict=True))
        places: dict[IrValue, DeviceRef] = {}
        ids: dict[str, str] = {}
        weights: dict[str, str] = {}
        for op in body.ops:
            if op.ends_block:
                results = [env[v] for v in op.operands]
                if not writer.regions and not any(map(stands_alone, body.walk())):
                    operands, made_ids = [v.id for v in values], [v.id for v in results]
                    scope = joined(writer.place()[1], label)
                    self.note(Call(body, ids, weights, operands, made_ids, scope))
                return [wrap(value) for value in results]
            if is_chain(op):  # the effects of the body come behind those of the caller
                place = op.attrs.get("device")
                env[op.result] = self._chains.of(place) if place else self._chains.ready()._ir()
                if place:
                    places[env[op.result]] = place
                continue
            if is_weight(op):
                weight = self._weight(graph, op, prefix, label)
                assert weight.op is not None
                weights[op.attrs["name"]] = weight.op.attrs["name"]
                made: Sequence[IrValue] = [writer.reached(weight)]
            else:
                made = self._inline(op, [env[v] for v in op.operands], label, ids, dims).results
            env.update(zip(op.results, made, strict=True))
            if made and made[-1].op is not None:
                self._chains.follow(made[-1].op, places)
        raise AssertionError("a graph with output types ends with an output")

    def _weight(self, graph: Callee, op: Op, prefix: str, label: str) -> IrValue:
        """The value in this function of ``op``, a weight of ``graph``."""
        found = self._weights.of_call(graph.weight_table, graph.name, op, prefix)
        if found is None:  # of a graph that was read: what has its name and type is it
            known = self._writer.function.ops
            found = next((o.result for o in known if is_weight(o) and o.attrs == op.attrs), None)
        return self._inline(op, [], label, {}).result if found is None else found

    def _own_dims(self, body: Function) -> dict[str, Poly]:
        """New names for dims of ``body`` that only a run tells, where this function has such names
        already: each call has sizes of its own. What goes in or out keeps its names.
        """
        names = late_dims(body)
        for value in (*body.inputs, *body.ops[-1].operands):
            if names and isinstance(value.type, Typed):
                told = {name for size in value.type.sizes for name in size.symbols()}
                names = {name: ops for name, ops in names.items() if name not in told}
        if not names:
            return {}
        known = set(self._writer.function.parameters)
        for op in self._writer.function.ops:
            known |= named_dims(op)
        found: dict[str, Poly] = {}
        for name in names:
            if name in known:
                new = next(made for n in count(2) if (made := f"{name}_{n}") not in known)
                known.add(new)
                found[name] = Poly.symbol(new)
        return found

    def _inline(
        self,
        op: Op,
        operands: Sequence[IrValue],
        label: str,
        ids: dict[str, str],
        dims: Mapping[str, Poly] = _NO_DIMS,
    ) -> Op:
        """A copy of ``op``, an op of a subgraph; ``ids`` gets the new ids of it, and of what stands
        in its regions. It has ``dims`` for those of these names.

        The copy keeps the place where the user wrote it; its scope is that of the call, then
        ``label``, then its own.
        """
        location, scope = self._writer.place()
        copy = copy_of(
            op,
            self._writer.function,
            operands,
            ids,
            lambda own: joined(scope, label, own),
            location,
            dims,
        )
        self._writer.insert(copy)
        return copy

    def _adopt_scope_types(self, graph: Callee, label: str) -> None:
        """Know what stands at the scopes that a call of ``graph`` is about to bring in."""
        if graph.scope_types:
            _, scope = self._writer.place()
            own = self._writer.state[SCOPE_TYPES]
            for path, name in graph.scope_types.items():
                own.setdefault(joined(scope, label, path), name)


def copy_of(
    op: Op,
    function: Function,
    operands: Sequence[IrValue],
    ids: dict[str, str],
    scope: Callable[[str], str],
    location: Location | None = None,
    dims: Mapping[str, Poly] = _NO_DIMS,
) -> Op:
    """A copy of ``op`` for ``function``, that stands in no block yet, with all of its regions.

    Args:
        op: An operation, of any function.
        function: Gives the ids.
        operands: What the copy reads.
        ids: Gets the id of the copy, and of those inside of it, by the ids of the originals.
        scope: The scope of a copy, by that of its original.
        location: The place of what has none.
        dims: The dims that the copy has for those of these names.
    """
    types, attrs = [r.type for r in op.results], op.attrs
    if dims:
        types = [substituted(type, dims) for type in types]
        attrs = {name: substituted(value, dims) for name, value in attrs.items()}
    copy = function.create(
        op.name,
        operands,
        types,
        attrs,
        loc=op.loc or location,
        scope=scope(op.scope),
    )
    ids[op.id] = copy.id
    for made, old in zip(copy.results, op.results, strict=True):
        made.name = old.name
    for region in op.regions:
        inner = Block()
        env: dict[IrValue, IrValue] = {}
        for arg in region.args:
            type = substituted(arg.type, dims) if dims else arg.type
            env[arg] = inner.add_argument(f"b{function.fresh()}", type, arg.name)
        for old_op in region.ops:
            given = [env[v] for v in old_op.operands]
            twin = copy_of(old_op, function, given, ids, scope, location, dims)
            inner.append(twin)
            env.update(zip(old_op.results, twin.results, strict=True))
        copy.add_region(inner)
    return copy


def stands_alone(op: Op) -> bool:
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


__all__ = ["Callee", "Calls", "copy_of", "may_call", "stands_alone"]
