"""From an exported torch program to a maxlab graph, in which torch runs what maxlab cannot."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    ConstantArgument,
    InputKind,
    OutputKind,
    SymIntArgument,
    TensorArgument,
)
from torch.fx import Node

from maxlab.errors import MaxlabError, UnsupportedError
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
    """Builds the graph of one exported program.

    Args:
        program: The program, functional and decomposed.
        names: The name of each symbolic size of its inputs.
        name: The name of the graph.

    Attributes:
        graph: The graph, when ``build`` has returned.
        weights: The data of its weights by name: the module's own memory.
        inputs: The names of its inputs.
        held: The names of the module's parameters and buffers that it reads.
    """

    def __init__(self, program: ExportedProgram, names: Mapping[str, str], name: str) -> None:
        self.program = program
        self.names = dict(names)
        self.name = name
        self.weights: dict[str, torch.Tensor] = {}
        self.inputs: list[str] = []
        self.held: set[str] = set()
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
        nodes = list(self.program.graph_module.graph.nodes)
        inputs, types = self._user_inputs(nodes)
        self.graph = Graph(self.name, input_types=types)
        with self.graph:
            self._bind_inputs(inputs)
            self._bind_data(nodes)
            called = [n for n in nodes if n.op == "call_function"]
            alone = {n: why for n in called if (why := self._unseen(n))}
            for unit in units_of(called, alone, _effects(called)):
                self._build_unit(unit, alone)
            self._place_data()
            self.graph.output(*self._outputs(alone))
        return self.graph

    # ------------------------------------------------------------ what goes in
    def _user_inputs(self, nodes: Sequence[Node]) -> tuple[list[Node], list[TensorType]]:
        by_name = {n.name: n for n in nodes if n.op == "placeholder"}
        found, types = [], []
        for spec in self.program.graph_signature.input_specs:
            if spec.kind is not InputKind.USER_INPUT or isinstance(spec.arg, ConstantArgument):
                continue
            node = by_name[spec.arg.name]
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
            found.append(node)
        return found, types

    def _bind_inputs(self, nodes: Sequence[Node]) -> None:
        for node, value in zip(nodes, self.graph.inputs, strict=True):
            value.to_mlir().rename(node.name)
            self.inputs.append(node.name)
            self._values[node] = value

    def _bind_data(self, nodes: Sequence[Node]) -> None:
        """Parameters, buffers and constants: the module's own memory, under its own names."""
        program = self.program
        by_name = {n.name: n for n in nodes if n.op == "placeholder"}
        for spec in program.graph_signature.input_specs:
            node = by_name.get(spec.arg.name)
            if spec.kind is InputKind.USER_INPUT or node is None or not node.users:
                continue
            if spec.kind is InputKind.TOKEN:  # keeps operations with effects in order
                self._constants[node] = torch.empty(0)
                continue
            target = str(spec.target)
            self.held.add(target)
            data = program.state_dict.get(target)
            if data is None:
                data = program.constants.get(target)
            if not isinstance(data, torch.Tensor):
                self._constants[node] = data
                continue
            data = data.detach()
            if data.dtype not in DTYPES or data.layout is not torch.strided:
                self._constants[node] = data
                continue
            self._values[node] = self._datum(target, data, spec.kind)
        for node in nodes:
            if node.op == "get_attr":
                self._constants[node] = operator.attrgetter(str(node.target))(program.graph_module)

    def _datum(self, name: str, data: torch.Tensor, kind: InputKind) -> TensorValue:
        dtype = DTYPES[data.dtype]
        if kind is InputKind.CONSTANT_TENSOR and data.numel() <= SMALL and not dtype.is_half():
            return ops.constant(np.array(data.numpy()), dtype, HOST)
        if not data.is_contiguous():
            data = data.contiguous()
        if name not in self.weights:
            self.weights[name] = data
        return self.graph.add_weight(Weight(name, dtype, list(data.shape), HOST))

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
        """What the graph reads of ``part``, and the types of that."""
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
        by_name = {n.name: n for n in self.program.graph_module.graph.nodes}
        found = []
        for spec in self.program.graph_signature.output_specs:
            if spec.kind is not OutputKind.USER_OUTPUT or not isinstance(
                spec.arg, (TensorArgument, SymIntArgument)
            ):
                continue
            node = by_name[spec.arg.name]
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


def handler_of(node: Node) -> Any:
    """The function that builds what ``node`` calls; None when there is none."""
    return TABLE.get(str(node.target).removeprefix("aten."))


def _effects(nodes: Sequence[Node]) -> list[tuple[Node, Node]]:
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
