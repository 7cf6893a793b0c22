"""From a graph of torch to a maxlab graph, in which torch runs what maxlab cannot."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from maxlab.errors import Location, MaxlabError, UnsupportedError
from maxlab.graph import Graph, TensorType, TensorValue, Weight, ops
from maxlab.ir import Dim, Shape
from maxlab.opset import is_constant, is_weight

# The tables fill themselves when they are imported.
from maxlab.torch import (  # noqa: F401
    aten_elementwise,
    aten_products,
    aten_reduction,
    aten_shaping,
    aten_spatial,
)
from maxlab.torch.aten import DTYPES, HOST, TABLE, NotImported, Site
from maxlab.torch.calls import Operand, Part, flops_of, host_call, is_operation, name_of
from maxlab.torch.parts import units_of
from maxlab.torch.places import location_of, scope_of
from maxlab.torch.source import Datum, Source
from maxlab.torch.types import dim_of, type_of, types_of

SMALL = 16
"""Constant tensors of up to this many elements are written into the graph, where they fold."""

NO_SUCH = "maxlab has no such operation yet"
TOGETHER = "it works on what another operation here makes"

PROVED = frozenset(
    {
        "aten._assert_scalar",
        "aten._assert_tensor_metadata",
        "aten.sym_constrain_range",
        "aten.sym_constrain_range_for_size",
    }
)
"""Assertions about sizes and dtypes, which an export has proved or turned into ranges of sizes."""


@dataclass(frozen=True, slots=True)
class Fallback:
    """One operation that torch runs, and where it is written.

    Attributes:
        name: The operation, ``"aten.cumsum"``.
        reason: Why torch runs it.
        at: Where the user wrote it; None where no line of a user did.
        scope: The path of the module that it is in; empty for the outermost.
    """

    name: str
    reason: str
    at: Location | None
    scope: str

    def __str__(self) -> str:
        place = f"{self.at.file}:{self.at.line}: " if self.at is not None else ""
        return f"{place}{self.name}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Ran:
    """How often an operation of the module stands in the graph, and who runs it.

    Attributes:
        name: The operation, ``"aten.linear"``.
        count: How often.
        by: ``"maxlab"`` or ``"torch"``.
        reason: Why torch runs it; empty otherwise.
    """

    name: str
    count: int
    by: str
    reason: str = ""


class Importer:
    """Builds the graph of one program of torch.

    Args:
        source: The program, functional and decomposed.
        name: The name of the graph.

    Attributes:
        graph: The graph, when ``build`` has returned.
        weights: The data of its weights by name: the module's own memory. None stands for data
            that ``source`` does not have.
        inputs: The names of its inputs.
        held: The names of the module's parameters and buffers that it reads.
        fallbacks: The operations that torch runs.
    """

    def __init__(self, source: Source, name: str) -> None:
        self.source = source
        self.names = dict(source.names)
        self.name = name
        self.weights: dict[str, torch.Tensor | None] = {}
        self.inputs: list[str] = []
        self.held: set[str] = set()
        self.fallbacks: list[Fallback] = []
        self._values: dict[Node, Any] = {}
        self._constants: dict[Node, Any] = {}  # what maxlab has no value for
        self._reasons: dict[Node, str] = {}
        self._ran: dict[tuple[str, str, str], int] = {}

    @property
    def coverage(self) -> list[Ran]:
        """Every operation, those that torch runs first."""
        rows = [Ran(name, n, by, why) for (name, by, why), n in self._ran.items()]
        return sorted(rows, key=lambda r: (r.by == "maxlab", -r.count, r.name))

    def build(self) -> Graph:
        """The graph.

        Raises:
            UnsupportedError: ML681, an input or output that no graph of maxlab can have.
        """
        nodes = self.source.nodes
        self.graph = Graph(self.name, input_types=self._input_types())
        with self.graph:
            self._bind_inputs(self.source.inputs)
            self._bind_data(nodes)
            called = [n for n in nodes if n.op == "call_function"]
            alone = {n: why for n in called if (why := self._unseen(n))}
            for unit in units_of(called, alone, effects_of(called)):
                self._build_unit(unit, alone)
            self._place_data()
            with self.graph.at(None, ""):  # no line of a user wrote it
                self.graph.output(*self._outputs(alone))
        return self.graph

    # ------------------------------------------------------------ what goes in
    def _input_types(self) -> list[TensorType]:
        types = []
        for node in self.source.inputs:
            value = node.meta["val"]
            try:
                if not isinstance(value, torch.Tensor):
                    raise NotImported("it is a size, not a tensor")
                types.append(type_of(value, self.names))
            except NotImported as why:
                raise UnsupportedError(
                    "ML681",
                    f"the input {node.name!r} of {self.name} cannot be one of a maxlab graph: "
                    f"{why}",
                    fix="profile a part of the module that gets dense tensors of real numbers",
                ) from None
        return types

    def _bind_inputs(self, nodes: Sequence[Node]) -> None:
        for node, value in zip(nodes, self.graph.inputs, strict=True):
            value.to_mlir().rename(node.name)
            self.inputs.append(node.name)
            self._values[node] = value

    def _bind_data(self, nodes: Sequence[Node]) -> None:
        """Parameters, buffers and constants: the module's own memory, under its own names."""
        for node in self.source.tokens:
            self._constants[node] = torch.empty(0)
        for node in self.source.sizes:
            with suppress(NotImported):  # no input has it: only what torch runs may read it
                self._values[node] = dim_of(node.meta["val"], self.names)
        for datum in self.source.data:
            self.held.add(datum.name)
            like = datum.node.meta["val"] if datum.value is None else datum.value
            strided = isinstance(like, torch.Tensor) and like.layout is torch.strided
            if strided and like.dtype in DTYPES:
                self._values[datum.node] = self._datum(datum, like.detach())
            else:
                self._constants[datum.node] = datum.value
        for node in nodes:
            if node.op == "get_attr":
                self._bind_attribute(node, self.source.attribute(node))

    def _bind_attribute(self, node: Node, value: Any) -> None:
        """Binds an attribute in the code of the graph: a tensor that was made while it was traced,
        or the body of a branch.
        """
        strided = isinstance(value, torch.Tensor) and value.layout is torch.strided
        if strided and value.dtype in DTYPES and value.device.type == "cpu":
            self._values[node] = self._datum(
                Datum(node, str(node.target), value, True), value.detach()
            )
        else:
            self._constants[node] = value

    def _datum(self, datum: Datum, like: torch.Tensor) -> TensorValue:
        dtype, name = DTYPES[like.dtype], datum.name
        if datum.is_constant and like.numel() <= SMALL and not dtype.is_half():
            return ops.constant(np.array(like.numpy()), dtype, HOST)
        if name not in self.weights:
            self.weights[name] = None if datum.value is None else like.contiguous()
        return self.graph.add_weight(Weight(name, dtype, list(like.shape), HOST))

    def _place_data(self) -> None:
        """Let weights stand where they are first read: that is what the user wrote about them."""
        for op in self.graph.function.ops:
            if is_weight(op) or (is_constant(op) and op.loc is None):
                reader = next(iter(op.result.uses), None)
                if reader is not None:
                    op.set_whole_source((reader.loc, reader.scope, op.origins))

    # ------------------------------------------------------------ nodes
    def _unseen(self, node: Node) -> str:
        """Why maxlab's graph can have no value for ``node``; empty when it can."""
        value = node.meta.get("val")
        try:
            if isinstance(node.target, torch._ops.HigherOrderOperator) and value is None:
                raise NotImported("what it makes is not known")
            types_of(value, self.names)
        except NotImported as why:
            return str(why)
        return ""

    def _build_unit(self, unit: Sequence[Node], alone: Mapping[Node, str]) -> None:
        if len(unit) == 1 and unit[0] not in alone:
            self._build_node(unit[0])
            return
        reasons = {
            node: alone.get(node) or (NO_SUCH if handler_of(node) is None else TOGETHER)
            for node in unit
            if is_operation(node)
        }
        self._build_part(Part(list(unit), reasons))

    def _count(self, node: Node, by: str, reason: str = "") -> None:
        key = (name_of(node), by, reason)
        self._ran[key] = self._ran.get(key, 0) + 1
        if by == "torch":
            self.fallbacks.append(fallback(node, reason))

    def _build_node(self, node: Node) -> None:
        value = node.meta.get("val")
        if node.target is operator.getitem:
            source, index = node.args
            found = self._values[source] if isinstance(source, Node) else None
            self._values[node] = found[index] if found is not None else None
            return
        if isinstance(value, (int, torch.SymInt)) and not isinstance(value, bool):
            self._values[node] = dim_of(value, self.names)  # of the inputs' sizes: no op of its own
            return
        if value is None or isinstance(value, (bool, float)):
            self._values[node] = None  # an assertion about sizes, which the export has proved
            return
        types = types_of(value, self.names)
        handler = handler_of(node)
        try:
            with self.graph.transaction(), self._at(node):
                if handler is None:
                    raise NotImported(NO_SUCH)
                site = Site(node, types)
                args, kwargs = torch.fx.map_arg((node.args, node.kwargs), self._argument)
                made = handler(site, *args, **kwargs)
                many = isinstance(value, (tuple, list))
                found = tuple(
                    _conform(m, t) for m, t in zip(made if many else [made], types, strict=True)
                )
                self._values[node] = found if many else found[0]
        except (NotImported, MaxlabError, TypeError) as error:
            reason = error.what if isinstance(error, MaxlabError) else str(error)
            self._build_part(Part([node], {node: reason}))
            return
        self._count(node, "maxlab")

    def _argument(self, node: Node) -> Any:
        if node in self._values:
            return self._values[node]
        raise NotImported("it reads what no value of maxlab holds")

    @contextmanager
    def _at(self, node: Node) -> Iterator[None]:
        """Lets ops stand where the user wrote what ``node`` computes."""
        scope, modules = scope_of(node)
        self.graph.scope_types.update(modules)
        with self.graph.at(location_of(node), scope):
            yield

    # ------------------------------------------------------------ what torch runs
    def _build_part(self, part: Part) -> None:
        inside = set(part.nodes)
        results, types = self._results(part, inside)
        if not results:
            return  # an assertion, or something that nobody reads
        part.results = results
        for node, why in part.reasons.items():
            self._count(node, "torch", why)
        main = next((n for n in part.nodes if is_operation(n)), part.nodes[0])
        with self._at(main):
            self._add_part(part, inside, types)

    def _add_part(self, part: Part, inside: set[Node], types: Sequence[TensorType]) -> None:
        read = dict.fromkeys(
            n for node in part.nodes for n in node.all_input_nodes if n not in inside
        )
        operands: list[Operand] = []
        values: list[TensorValue] = []
        for node in read:
            if node in self._constants:
                part.constants[node] = self._constants[node]
                continue
            part.inputs.append(node)
            self._add_operands(node, operands, values)
        call = host_call(part, operands, [t.dtype for t in types])
        try:
            flops = dim_of(flops_of(part), self.names)
        except (NotImported, RuntimeError, TypeError):  # a count is a courtesy
            flops = Dim(0)
        found = self.graph.op("host", values, call=call, types=tuple(types), flops=flops)
        for (node, index), value in zip(part.results, found, strict=True):
            value.to_mlir().rename(part.name)
            if index is None:
                self._values[node] = value
            else:
                self._values[node][index] = value

    def _add_operands(self, node: Node, operands: list[Operand], values: list[TensorValue]) -> None:
        value = self._values[node]
        items = list(enumerate(value)) if isinstance(value, (tuple, list)) else [(None, value)]
        for index, item in items:
            if isinstance(item, Dim):
                item = ops.reshape(ops.shape_to_tensor([item]), [])
                operands.append(Operand(node, index, True, item.dtype))
                values.append(item)
            elif isinstance(item, TensorValue):
                operands.append(Operand(node, index, False, item.dtype))
                values.append(item)

    def _results(
        self, part: Part, inside: set[Node]
    ) -> tuple[list[tuple[Node, int | None]], list[TensorType]]:
        """The results of ``part`` that the graph reads, and their types."""
        results: list[tuple[Node, int | None]] = []
        types: list[TensorType] = []
        for node in part.nodes:
            outside = [u for u in node.users if u not in inside]
            if not outside:
                continue
            try:
                known = types_of(node.meta.get("val"), self.names)
            except NotImported:
                continue  # an output of the graph, which will say so
            if not isinstance(node.meta.get("val"), (tuple, list)):
                wanted: list[tuple[int | None, TensorType | None]] = [(None, known[0])]
            else:
                self._values[node] = [None] * len(known)
                picked = {u.args[1] for u in outside if u.target is operator.getitem}
                whole = any(u.target is not operator.getitem for u in outside)
                wanted = [(n, t) for n, t in enumerate(known) if whole or n in picked]
            for index, type in wanted:
                if type is not None:
                    results.append((node, index))
                    types.append(type)
        return results, types

    # ------------------------------------------------------------ what comes out
    def _outputs(self, alone: Mapping[Node, str]) -> list[TensorValue]:
        found = []
        for node in self.source.outputs:
            why = alone.get(node) or self._reasons.get(node, "")
            value = self._values.get(node)
            if isinstance(value, Dim):
                value = ops.reshape(ops.shape_to_tensor([value]), [])
            if not isinstance(value, TensorValue):
                raise UnsupportedError(
                    "ML681",
                    f"the output {node.name!r} of {self.name} cannot be one of a maxlab graph: "
                    f"{why or 'it is no tensor'}",
                    at=location_of(node),
                    fix="return dense tensors of real numbers whose sizes follow from the inputs",
                )
            found.append(value)
        return found


def fallback(node: Node, reason: str) -> Fallback:
    """That torch runs ``node``, for ``reason``."""
    return Fallback(name_of(node), reason, location_of(node), scope_of(node)[0])


def handler_of(node: Node) -> Any:
    """The function that builds what ``node`` calls; None when there is none."""
    return TABLE.get(str(node.target).removeprefix("aten."))


def effects_of(nodes: Sequence[Node]) -> list[tuple[Node, Node]]:
    """Each node that makes nothing but may raise, such as the check of a factorisation, with the
    node that makes what it looks at: torch runs them together."""
    found = []
    for node in nodes:
        if not is_operation(node) or name_of(node) in PROVED:
            continue
        if node.meta.get("val") is not None and name_of(node) != "with_effects":
            continue
        for read in node.all_input_nodes:
            if read.op == "call_function" and isinstance(read.meta.get("val"), torch.Tensor):
                found.append((node, read))
                if read.target is operator.getitem and isinstance(read.args[0], Node):
                    found.append((node, read.args[0]))
    return found


def _conform(made: Any, type: TensorType | None) -> Any:
    """``made`` as a value of exactly ``type``.

    Raises:
        NotImported: It is something else.
    """
    if type is None or made is None:
        return None
    if made.dtype is not type.dtype:
        raise NotImported(f"maxlab computes it in {made.dtype.name}, torch in {type.dtype.name}")
    if Shape(made.shape) == Shape(type.shape):
        return made
    if made.rank != type.rank:
        raise NotImported(f"maxlab makes rank {made.rank} of it, torch rank {type.rank}")
    return ops.rebind(made, type.shape, "torch's export found it equal")
