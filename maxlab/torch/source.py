"""The source of an importer: a graph of torch, and the meaning of each of its inputs and outputs.

A program of ``torch.export`` says it in its signature; a graph that ``torch.compile`` hands to a
backend says it by which of its inputs are parameters and buffers.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    ConstantArgument,
    InputKind,
    OutputKind,
    SymIntArgument,
    TensorArgument,
)
from torch.fx import GraphModule, Node


@dataclass(frozen=True, slots=True)
class Datum:
    """An input that is part of the module, and not of a call.

    Attributes:
        node: The placeholder.
        name: The name of the parameter, buffer or constant.
        value: The tensor itself, or an object of another type that torch alone can use; None for a
            tensor of which a model is told only when it is loaded.
        is_constant: Whether it is written into the module's code, and never changes.
    """

    node: Node
    name: str
    value: Any
    is_constant: bool = False


@dataclass(frozen=True, slots=True)
class Source:
    """A functional graph of ATen operations.

    Attributes:
        module: Owns the graph, and what its nodes ``get_attr`` read.
        names: The name of each symbolic size.
        inputs: The placeholders that a call gives tensors for.
        outputs: The nodes whose values a call gets.
        data: The placeholders of parameters, buffers and constants.
        tokens: The placeholders that keep operations with effects in order.
        sizes: The placeholders that a call gives sizes for.
    """

    module: GraphModule
    names: Mapping[str, str]
    inputs: Sequence[Node]
    outputs: Sequence[Node]
    data: Sequence[Datum] = ()
    tokens: Collection[Node] = field(default_factory=tuple)
    sizes: Sequence[Node] = ()

    @property
    def nodes(self) -> list[Node]:
        """All nodes in their order."""
        return list(self.module.graph.nodes)

    def attribute(self, node: Node) -> Any:
        """The value that the ``get_attr`` node ``node`` reads."""
        return operator.attrgetter(str(node.target))(self.module)


def of_export(program: ExportedProgram, names: Mapping[str, str]) -> Source:
    """The ``Source`` that an exported program is; ``names`` are those of its symbolic sizes."""
    nodes = {n.name: n for n in program.graph_module.graph.nodes}
    inputs: list[Node] = []
    tokens: list[Node] = []
    data: list[Datum] = []
    for spec in program.graph_signature.input_specs:
        node = nodes.get(spec.arg.name)
        if spec.kind is InputKind.USER_INPUT:
            if node is not None and not isinstance(spec.arg, ConstantArgument):
                inputs.append(node)
        elif node is None or not node.users:
            continue
        elif spec.kind is InputKind.TOKEN:
            tokens.append(node)
        else:
            name = str(spec.target)
            value = program.state_dict.get(name)
            if value is None:
                value = program.constants.get(name)
            data.append(Datum(node, name, value, spec.kind is InputKind.CONSTANT_TENSOR))
    outputs = [
        nodes[spec.arg.name]
        for spec in program.graph_signature.output_specs
        if spec.kind is OutputKind.USER_OUTPUT
        and isinstance(spec.arg, (TensorArgument, SymIntArgument))
    ]
    return Source(program.graph_module, names, inputs, outputs, data, tokens)


def of_graph(module: GraphModule, weights: Mapping[str, str], names: Mapping[str, str]) -> Source:
    """The ``Source`` that a graph of ``torch.compile`` is.

    Args:
        module: The functional graph, its nodes annotated with what they make.
        weights: The names of parameters and buffers by the names of their placeholders.
        names: The names of symbolic sizes.
    """
    inputs: list[Node] = []
    sizes: list[Node] = []
    data: list[Datum] = []
    for node in module.graph.nodes:
        if node.op != "placeholder":
            break
        if node.name in weights:
            data.append(Datum(node, weights[node.name], None))
        elif isinstance(node.meta.get("val"), torch.Tensor):
            inputs.append(node)
        else:
            sizes.append(node)
    (last,) = (n for n in module.graph.nodes if n.op == "output")
    outputs = [n for n in last.args[0] if isinstance(n, Node)]
    return Source(module, names, inputs, outputs, data, (), sizes)


__all__ = ["Datum", "Source", "of_export", "of_graph"]
