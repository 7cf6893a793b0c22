"""Calling one graph from another."""

from __future__ import annotations

from typing import Any, TypeAlias

from maxlab.graph.build import builder, staged
from maxlab.graph.value import Value

Graph: TypeAlias = Any
"""The type of callees: for the builder of a graph, another graph."""


@staged
def call(graph: Graph, *args: Value, prefix: str = "") -> list[Value]:
    """The results of ``graph``, a subgraph of the graph that is being built or another graph of its
    module, on ``args``.

    The ops of the subgraph are written into the calling graph; a body that is called more than once
    is compiled once for all of its calls. A placeholder weight of the subgraph
    stands for the weight named ``prefix + name``, so that each call may use weights of its own.

    Args:
        graph: What ``Graph.add_subgraph`` returned, or a graph of the same ``Module``, with its
            outputs set.
        *args: One value for each input, of exactly the input's type, with the same symbolic dims.
        prefix: What precedes the names of placeholder weights, such as ``"layers.0."``.

    Raises:
        GraphError: ML346, ``graph`` is not a subgraph of this graph, and not in its module; ML322,
            it has no output; ML321, a weight of the prefixed name has another type.
        ArgumentError: ML347, another number of arguments, or one of another type.
        ArgumentTypeError: ML348, ``graph`` is not a graph.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> row = TensorType(DType.float32, ["n"])
        >>> with Graph("main", input_types=[row]) as main:
        ...     double = main.add_subgraph("double", lambda x: x * 2, [row])
        ...     (y,) = ops.call(double, main.inputs[0])
        ...     (z,) = ops.call(double, y)
        ...     main.output(z)
    """

    return list(builder(what="ops.call").call(graph, args, prefix))
