"""Calling one graph from another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from maxlab.errors import ArgumentError, ArgumentTypeError, GraphError
from maxlab.graph.build import require_graph, staged
from maxlab.ir import Call, DeviceRef, Op
from maxlab.ir import Value as IrValue
from maxlab.opset import lookup
from maxlab.opset.dynamic import BIND
from maxlab.opset.effects import CHAIN

if TYPE_CHECKING:
    from maxlab.graph.graph import Graph
    from maxlab.graph.value import Value


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
    from maxlab.graph.graph import Graph
    from maxlab.graph.value import wrap

    caller = require_graph("ops.call")
    if not isinstance(graph, Graph):
        raise ArgumentTypeError(
            "ML348",
            f"call: expected a Graph, got {type(graph).__name__}",
            fix="pass what graph.add_subgraph or module.build_subgraph returned",
        )
    if not _is_subgraph(caller, graph):
        raise GraphError(
            "ML346",
            f"call: {graph.name!r} is not a subgraph of {caller.name!r}",
            fix=f"make it with {caller.name}.add_subgraph(...)",
        )
    body = graph._body
    graph.output_types  # noqa: B018 - raises when there is no output
    values = [caller._own(arg) for arg in args]
    _match(graph, values)
    caller._adopt_scope_types(graph)
    env: dict[IrValue, IrValue] = dict(zip(body.inputs, values, strict=True))
    places: dict[IrValue, DeviceRef] = {}
    ids: dict[str, str] = {}
    weights: dict[str, str] = {}
    for op in body.ops:
        if op.name == "mo.output":
            results = [env[v] for v in op.operands]
            if not caller._regions and not any(map(_stands_alone, body.walk())):
                operands, made_ids = [v.id for v in values], [v.id for v in results]
                caller._function.calls.append(Call(body, ids, weights, operands, made_ids))
            return [wrap(value) for value in results]
        if op.name == CHAIN:  # the effects of the body come behind those of the caller
            place = op.attrs.get("device")
            chain = caller.device_chains[place] if place else caller.always_ready_chain
            env[op.result] = chain._ir()
            if place:
                places[env[op.result]] = place
            continue
        if op.name == "mo.constant.external":
            weight = caller._weight_of_call(graph, op, prefix)
            assert weight.op is not None
            weights[op.attrs["name"]] = weight.op.attrs["name"]
            made: Sequence[IrValue] = [weight]
        else:
            made = caller._inline(op, [env[v] for v in op.operands], graph.name, ids).results
        env.update(zip(op.results, made, strict=True))
        if made and made[-1].op is not None:
            caller.device_chains.follow(made[-1].op, places)
    raise AssertionError("a graph with output types ends with an output")


def _stands_alone(op: Op) -> bool:
    """Whether each call has ``op`` for itself: its effect has a place among others, or it names a
    dim of the whole graph."""
    return bool(lookup(op.name).effect) or op.name == BIND


def _is_subgraph(caller: Graph, graph: Graph) -> bool:
    at: Graph | None = caller
    while at is not None:
        if any(known is graph for known in at._subgraphs.values()):
            return graph is not caller
        if at._module is not None and at._module is graph._module:
            return not _is_within(caller, graph)  # no graph calls itself
        at = at._parent
    return False


def _is_within(caller: Graph, graph: Graph) -> bool:
    at: Graph | None = caller
    while at is not None and at is not graph:
        at = at._parent
    return at is graph


def _match(graph: Graph, values: Sequence[IrValue]) -> None:
    inputs = graph._function.inputs
    if len(values) != len(inputs):
        raise ArgumentError(
            "ML347",
            f"call: {graph.name!r} takes {len(inputs)} arguments, got {len(values)}",
            fix="pass one value for each input type of the subgraph",
        )
    for number, (value, wanted) in enumerate(zip(values, inputs, strict=True)):
        if value.type != wanted.type:
            raise ArgumentError(
                "ML347",
                f"call: argument {number} of {graph.name!r} must be {wanted.type}, "
                f"got {value.type}",
                fix="types must be equal, symbolic dims included; ops.rebind renames dims",
            )
