"""The steps of an editor that copy operations as a text and paste them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from maxlab.errors import GraphError
from maxlab.graph import clip
from maxlab.graph.clip import Clip
from maxlab.graph.excerpt import excerpt, with_inner
from maxlab.graph.finding import Finder, OpLike, ValueLike
from maxlab.graph.flowing import flow, substituted
from maxlab.graph.inlining import copy_of
from maxlab.graph.notes import Place
from maxlab.graph.noting import Noting
from maxlab.graph.rearranging import short_name
from maxlab.graph.staged import placed
from maxlab.graph.value import Value, wrap
from maxlab.ir import ChainType, Op, SymbolicDim, user_location
from maxlab.ir import Value as IrValue
from maxlab.ir.poly import Poly
from maxlab.ir.printer import pretty
from maxlab.ir.types import Typed
from maxlab.opset import is_chain, is_weight, lookup
from maxlab.opset.dynamic import definitions
from maxlab.opset.effects import devices_of

BESIDE: Final = 32
"""How far from the originals copies are drawn that would cover them."""


class Clips(Noting):
    """The steps of an editor that copy operations as a text and paste them."""

    @placed
    def copy(self, *ops: OpLike) -> str:
        """``ops`` as a text, which `paste` adds to this graph or another one.

        Args:
            *ops: Operations, or their ids.

        Raises:
            GraphError: ML300, there is no such operation, or none is given; ML315, the output of
                the graph is among them; ML355, one is of this process alone.

        Example:
            >>> from maxlab.dtype import DType
            >>> from maxlab.graph import Editor, Graph, TensorType, ops
            >>> with Graph("g", input_types=[TensorType(DType.float32, ["n"])]) as graph:
            ...     graph.output(ops.exp(graph.inputs[0].tensor))
            >>> other = Graph("other", input_types=[TensorType(DType.float32, [4])])
            >>> Editor(other).paste(Editor(graph).copy("n0"), onto="input0")
            [n0 = mo.exp(%a0)]
        """
        return clip.written(self.graph, self._copied(ops))

    def listing(self, *ops: OpLike) -> str:
        """``ops`` as ``print(graph)`` writes them, for people to read.

        Large constants are cut short in it, so it cannot be pasted.

        Args:
            *ops: Operations, or their ids.

        Raises:
            GraphError: ML300, there is no such operation, or none is given; ML315, the output of
                the graph is among them.

        Example:
            >>> from maxlab.dtype import DType
            >>> from maxlab.graph import Editor, Graph, TensorType, ops
            >>> with Graph("g", input_types=[TensorType(DType.float32, ["n"])]) as graph:
            ...     graph.output(ops.tanh(ops.exp(graph.inputs[0].tensor)))
            >>> print(Editor(graph).listing("n1"))
            mo.graph @g<n>(%a0: !mo.tensor<[n], f32>) -> (!mo.tensor<[n], f32>) {
              %v0 = mo.tanh(%a0) : !mo.tensor<[n], f32>
              mo.output(%v0)
            }
        """
        order = self._copied(ops)
        made = excerpt(order, self.graph.name).function
        for op in with_inner(made.ops):
            op.set_source(origins=(op.id,))
            op.loc = None
        return pretty(made)

    def _copied(self, ops: Sequence[OpLike]) -> list[Op]:
        """``ops`` in the order of the graph, all of which can be copied."""
        chosen = {self._op(op) for op in ops}
        if not chosen:
            raise GraphError(
                "ML300", "no operation is to be copied", fix="name one: editor.copy('n1')"
            )
        order = [op for op in self.graph.function.ops if op in chosen]
        if order[-1].ends_block:
            raise GraphError(
                "ML315",
                "the output of the graph cannot be copied",
                at=order[-1].loc,
                fix="copy what makes the values that it gives",
            )
        return order

    @placed
    def paste(self, text: str, onto: ValueLike | Sequence[ValueLike] | None = None) -> list[Op]:
        """The new operations that ``text`` has: what `copy` gave, or a graph as it is saved.

        What they read from outside is, first come first served: one of ``onto`` of the same type;
        the value itself, in the graph that they were copied from; a value of the same name and
        type; another one of ``onto``; a new input. A weight that the graph has is not added again.

        Custom kernels are pasted as text: they are compiled when a kernel library of the process
        declares them, as those of a document.

        Raises:
            ParseError: ML819, ``text`` is nothing that can be pasted.
            GraphError: ML300, one of ``onto`` is no value of the graph; ML321, a weight of the same
                name has another type; ML315, a dim is named twice.
            MaxlabError: An operation does not take what it would read.
        """
        found = clip.read(text)
        named = () if onto is None else (onto,) if isinstance(onto, (str, Value)) else onto
        with self.step():
            given = [self._value(value) for value in named]
            paste = _Paste(self, found, given)
            made = paste.run()
            flow(self.graph.function, paste.read, made)
            self.place_all(paste.places())
        return made


class _Paste:
    """Adds what a clip has to the graph of an editor."""

    def __init__(self, editor: Finder, found: Clip, onto: Sequence[IrValue]) -> None:
        self._editor = editor
        self._graph = editor.graph
        self._clip = found
        self._onto = list(onto)
        self._env: dict[IrValue, IrValue] = {}
        self._sizes: dict[str, Poly] = {}
        self._ids: dict[str, str] = {}
        self.read: list[IrValue] = []
        """Values whose type differs from that of the values that were read before."""

    def run(self) -> list[Op]:
        """The new operations."""
        self._bind()
        ids = self._ids
        made = [self._op(op, ids) for op in self._clip.function.ops if not op.ends_block]
        return [op for op in made if op is not None]

    def places(self) -> dict[str, Place]:
        """Where the new operations are drawn: beside where they were copied from."""
        taken = {(at.x, at.y) for at in self._graph.document.places.values()}
        known = {self._ids[id]: at for id, at in self._clip.places.items() if id in self._ids}
        off = 0
        while any((at.x + off, at.y + off) in taken for at in known.values()):
            off += BESIDE
        return {id: replace(at, x=at.x + off, y=at.y + off) for id, at in known.items()}

    # ------------------------------------------------------------ what is read
    def _bind(self) -> None:
        """Finds what the inputs of the clip are here."""
        function = self._graph.function
        self._require_new_dims()
        wanted = [v for v in self._clip.function.inputs if not isinstance(v.type, ChainType)]
        reads = self._origins()
        for value in wanted:
            same = next((v for v in self._onto if v.type == value.type), None)
            if same is not None:
                self._onto.remove(same)
                self._env[value] = same
        values = [*function.inputs, *(v for op in function.ops for v in op.results)]
        for value in wanted:
            if value in self._env:
                continue
            known = [v for v in values if v.id == reads.get(value) and v.type == value.type] or [
                v for v in values if value.name and v.name == value.name and v.type == value.type
            ]
            if len(known) == 1:
                self._env[value] = known[0]
        for value in wanted:
            if value not in self._env and self._onto:
                self._adapt(value, self._onto.pop(0))
        taken = {v.name for v in values}
        for value in wanted:
            if value not in self._env:
                name = _free(value.name, taken)
                taken.add(name)
                self._env[value] = function.add_input(value.type, name)

    def _origins(self) -> dict[IrValue, str]:
        """The ids here of the clip's inputs, where it was copied from this graph."""
        if self._clip.graph != clip.token_of(self._graph):
            return {}
        return dict(zip(self._clip.function.inputs, self._clip.reads, strict=False))

    def _adapt(self, value: IrValue, other: IrValue) -> None:
        """Lets ``other``, of another type, be what ``value`` is in the clip."""
        self._env[value] = other
        self.read.append(other)
        if isinstance(value.type, Typed) and isinstance(other.type, Typed):
            for old, new in zip(value.type.shape, other.type.shape, strict=False):
                if isinstance(old, SymbolicDim) and old != new:
                    self._sizes.setdefault(old.name, new.poly)

    def _require_new_dims(self) -> None:
        """Raises unless what the clip finds out of sizes has names of its own.

        Raises:
            GraphError: ML315, the graph has the dim already.
        """
        function = self._graph.function
        known = {*function.parameters, *definitions(function)}
        for name, (op, size) in definitions(self._clip.function).items():
            if size is None and name in known:
                raise GraphError(
                    "ML315",
                    f"{short_name(op)} names the dim {name!r}, which the graph has already",
                    fix="paste it into another graph, or give the dim another name there",
                )

    # ------------------------------------------------------------ what is added
    def _op(self, op: Op, ids: dict[str, str]) -> Op | None:
        """The copy of ``op``; None for one that the graph has for all."""
        function = self._graph.function
        if is_chain(op):
            return None
        if is_weight(op):
            known = self._weight(op)
            if known is not None:
                self._env[op.result] = known
                return None
        data = [v for v in op.operands if not isinstance(v.type, ChainType)]
        if op.regions and len(data) < len(op.operands):
            raise GraphError(
                "ML315",
                f"{short_name(op)} has effects inside of it, and cannot be pasted",
                fix="write it in the cell of the graph",
            )
        operands = [self._env[v] for v in data]
        devices = devices_of(lookup(op.name), [v.type for v in operands], op.attrs)
        chains = [self._graph.device_chains.of(device) for device in devices]
        place = user_location()
        copy = copy_of(op, function, [*operands, *chains], ids, lambda scope: scope, place)
        for inner in with_inner([copy]) if self._sizes else ():
            for key, value in list(inner.attrs.items()):
                inner.set_attr(key, substituted(value, self._sizes))
        function.block.insert(copy, function.output)
        self._env.update(zip(op.results, copy.results, strict=True))
        for device, chain in zip(devices, _chains(copy.results), strict=False):
            made: Any = wrap(chain)
            self._graph.device_chains[device] = made
        return copy

    def _weight(self, op: Op) -> IrValue | None:
        """The weight of the graph that ``op`` is; None where it has none of its name.

        Raises:
            GraphError: ML321, it is of another type.
        """
        name = op.attrs["name"]
        for known in self._graph.function.ops:
            if is_weight(known) and known.attrs["name"] == name:
                if known.result.type != op.result.type:
                    raise GraphError(
                        "ML321",
                        f"the weight {name!r} is {op.result.type} in what is pasted, and "
                        f"{known.result.type} here",
                        at=known.loc,
                        fix="give one of them another name before it is copied",
                    )
                return known.result
        return None


def _chains(values: Iterable[IrValue]) -> list[IrValue]:
    return [value for value in values if isinstance(value.type, ChainType)]


def _free(name: str, taken: set[str]) -> str:
    """``name``, or with a number where a value is called so."""
    if not name or name not in taken:
        return name
    number = 2
    while f"{name}_{number}" in taken:
        number += 1
    return f"{name}_{number}"


__all__ = ["Clips"]
