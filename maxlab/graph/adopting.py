"""What a graph takes over from elsewhere: weights, and the ops of the subgraphs that it calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from maxlab.errors import GraphError, Location
from maxlab.graph.build import add
from maxlab.graph.staging import Staging
from maxlab.graph.value import TensorValue, wrap
from maxlab.ir import Block, DeviceRef, Function, Op, TensorType
from maxlab.ir import Value as IrValue

if TYPE_CHECKING:
    from maxlab.graph.weight import Weight


class Adopting(Staging):
    """A function that calls others, and has weights."""

    def __init__(self, function: Function) -> None:
        super().__init__(function)
        # What stands at a scope path: the class names of the modules that were called.
        self._scope_types: dict[str, str] = {}
        self._called: tuple[int, Function] | None = None

    # ------------------------------------------------------------ calls of subgraphs
    @property
    def _body(self) -> Function:
        """What graphs that call this one write down. Of a graph that may change later, a copy: its
        calls are told apart by what was called."""
        if self._called is None or self._called[0] != self._revision:
            self._called = self._revision, self._function.clone()
        return self._called[1]

    def _inline(self, op: Op, operands: Sequence[IrValue], name: str, ids: dict[str, str]) -> Op:
        """A copy of ``op``, an op of the subgraph ``name``; ``ids`` gets the new ids of it, and of
        what stands in its regions.

        The copy keeps the place where the user wrote it; its scope is that of the call, then the
        subgraph's name, then its own.
        """
        location, scope = self._scopes.capture(3)
        copy = self._copied(op, operands, location, (scope, name), ids)
        self._insert(copy)
        return copy

    def _copied(
        self,
        op: Op,
        operands: Sequence[IrValue],
        location: Location | None,
        scope: tuple[str, ...],
        ids: dict[str, str],
    ) -> Op:
        copy = self._function.create(
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
            inner = Block(copy)
            env: dict[IrValue, IrValue] = {}
            for arg in region.args:
                env[arg] = IrValue(
                    f"b{self._function.fresh()}", arg.type, inner, arg.index, arg.name
                )
                inner.args.append(env[arg])
            for old_op in region.ops:
                given = [env[v] for v in old_op.operands]
                twin = self._copied(old_op, given, location, scope, ids)
                inner.append(twin)
                env.update(zip(old_op.results, twin.results, strict=True))
            copy.regions.append(inner)
        return copy

    def _adopt_scope_types(self, subgraph: Adopting) -> None:
        """Know what stands at the scopes that a call of ``subgraph`` is about to bring in."""
        if subgraph._scope_types:
            _, scope = self._scopes.capture(3)
            for path, name in subgraph._scope_types.items():
                full = ".".join(part for part in (scope, subgraph.name, path) if part)
                self._scope_types.setdefault(full, name)

    def _weight_of_call(self, subgraph: Adopting, op: Op, prefix: str) -> IrValue:
        """The value in this graph of ``op``, a weight of a subgraph that is called with
        ``prefix``."""
        from maxlab.graph.weight import Weight, shard_as

        name, type = op.attrs["name"], op.attrs["type"]
        weight = subgraph._weights.get(name)
        if op.attrs["placeholder"]:
            full = prefix + name
            known = self._weights.get(full)
            if known is None:
                align = op.attrs.get("align")
                if "part" in op.attrs:
                    weight = shard_as(op, prefix)
                else:
                    weight = Weight(full, type.dtype, type.shape, type.device, align=align)
                return self._add_weight(weight, on_host=False)._ir()
            value = self._weight_values[full]
            # on the host first: the constant, not its copy on the device, is what the subgraph has
            source = value._ir().op
            assert source is not None
            if source.name == "mo.transfer":
                value = wrap(source.operands[0])
            if value._ir().type != type:
                raise GraphError(
                    "ML321",
                    f"the weight {full!r} is {value._ir().type} here and {type} in "
                    f"{subgraph.name!r}",
                    fix="give the weights different names, or call with another prefix",
                )
            return value._ir()
        if weight is not None:
            known = self._weights.get(name)
            if known is not None and weight._stands_for(known):
                source = self._weight_values[name]._ir().op
                assert source is not None
                return source.operands[0] if source.name == "mo.transfer" else source.result
            if known is not None:
                raise self._name_taken(name)
            made = add("constant.external", [], **op.attrs)
            made._ir().name = name
            # the subgraph moves it to its device itself
            self._weights[name] = weight
            moved = weight.device != made.device
            with self._at_root():
                self._weight_values[name] = (
                    add("transfer", [made], device=weight.device) if moved else made
                )
            return made._ir()
        return self._inline(op, [], subgraph.name, {}).result

    def _name_taken(self, name: str) -> GraphError:
        return GraphError(
            "ML321",
            f"the graph {self.name!r} already has another weight named {name!r}",
            fix="give each weight a name of its own; modules do that for you",
        )

    def _add_weight(self, weight: Weight, on_host: bool) -> TensorValue:
        name = weight.name
        known = self._weights.get(name)
        if known is not None:
            if not weight._stands_for(known):
                raise self._name_taken(name)
            return self._weight_values[name]
        device: DeviceRef = weight.device
        host = on_host and not device.is_cpu()
        type = TensorType(weight.dtype, weight.shape, DeviceRef.CPU() if host else device)
        attrs = {"name": name, "type": type, "placeholder": weight._placeholder}
        attrs |= weight._more_attrs()
        with self._at_root():
            value = add("constant.external", [], **attrs)
            value._ir().name = name
            if host:
                value = add("transfer", [value], device=device)
        self._weights[name] = weight
        self._weight_values[name] = value
        return value
