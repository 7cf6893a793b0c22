"""Products with weights in a graph: which there are, and what they are called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, GraphError
from maxlab.ir import Function, Op, Shape, Value
from maxlab.opset import evaluate, is_cast, is_constant, is_weight, lookup

Array = np.ndarray[Any, Any]
FLOATS = (DType.float32, DType.bfloat16, DType.float16)
DEEPEST = 65536
"""The most numbers in a sum of products of bytes that 32 bits hold."""


@dataclass(frozen=True, slots=True)
class Product:
    """A product of an activation with a matrix of weights.

    Attributes:
        name: The name of its weight without ``.weight``; where that says nothing or another product
            has it, its scope, or else the id of its op.
        node: The id of its ``matmul`` in the graph.
        scope: The layer that it stands in.
        activation: The id of the value that it multiplies with its weight.
        depth: How many numbers each sum adds up.
        columns: Columns of the result.
        nbytes: Bytes of the weight.
    """

    name: str
    node: str
    scope: str
    activation: str
    depth: int
    columns: int
    nbytes: int

    @property
    def work(self) -> int:
        """Multiplications for each row of the activation."""
        return self.depth * self.columns


def matrix_source(value: Value) -> list[Op] | None:
    """The ops between a weight or constant and ``value``, which is the same numbers seen otherwise
    or in another dtype, from the data on; None where ``value`` is computed."""
    found: list[Op] = []
    op = value.op
    while op is not None:
        found.append(op)
        if is_weight(op) or is_constant(op):
            return found[::-1]
        if len(op.operands) != 1 or not (is_cast(op) or lookup(op.name).kind == "view"):
            return None
        op = op.operands[0].op
    return None


def products(function: Function) -> list[Product]:
    """The products of ``function`` with weights, in its order. Those in branches and loops are not
    among them.

    Raises:
        GraphError: ML239, there is none.
    """
    found: list[Product] = []
    names: set[str] = set()
    for op in function.ops:
        chain = matrix_source(op.operands[1]) if _may_be_bytes(op) else None
        if chain is None:
            continue
        typed = op.operands[1].tensor_type
        depth, columns = (int(n) for n in typed.shape)
        called = str(chain[0].attrs["name"]) if is_weight(chain[0]) else chain[0].result.id
        name = called.removesuffix(".weight") if is_weight(chain[0]) else op.scope or op.id
        if name in names or name == "weight":
            name = op.scope or op.id
        name = op.id if name in names else name
        names.add(name)
        nbytes = depth * columns * typed.dtype.size_in_bytes
        source = op.operands[0].id
        found.append(Product(name, op.id, op.scope, source, depth, columns, nbytes))
    if not found:
        raise GraphError(
            "ML239",
            f"the graph {function.name!r} has no product with a matrix of weights",
            why=[
                "matmuls of floats with a weight or constant of two dims are quantised",
                "those in branches and loops are not",
            ],
            fix="quantise the graph whose layers have the weights; print(graph) lists its ops",
        )
    return found


def _may_be_bytes(op: Op) -> bool:
    """Whether ``op`` is a product of floats with a matrix of fixed sizes."""
    if lookup(op.name).kind != "contract" or len(op.operands) != 2:
        return False
    typed = op.operands[1].tensor_type
    if typed.dtype not in FLOATS or typed.rank != 2 or not Shape.is_static(typed.shape):
        return False
    depth, columns = (int(n) for n in typed.shape)
    return 0 < depth <= DEEPEST and columns > 0


def kept_names(found: Sequence[Product], keep: Iterable[str]) -> frozenset[str]:
    """The names of the products of ``found`` that ``keep`` names: by name, by the id of the op, or
    by a scope that they stand in.

    Raises:
        ArgumentError: ML242, a name is that of none.
    """
    chosen: set[str] = set()
    for name in [keep] if isinstance(keep, str) else keep:
        here = {p.name for p in found if name in (p.name, p.node) or _is_within(p, str(name))}
        if not here:
            known = ", ".join(repr(p.name) for p in found[:6])
            more = f", and {len(found) - 6} more" if len(found) > 6 else ""
            raise ArgumentError(
                "ML242",
                f"keep names {name!r}, and no product with weights is called so",
                fix=f"name a product, its op, or a scope around it; there are {known}{more}",
            )
        chosen |= here
    return frozenset(chosen)


def _is_within(product: Product, scope: str) -> bool:
    return any(f"{inner}.".startswith(f"{scope}.") for inner in (product.scope, product.name))


def rows_of(weights: Mapping[str, Any], right: Value) -> Array:
    """The columns of ``right``, the right operand of a product, as rows of float32.

    Args:
        weights: Tensors by the names of weights.
        right: A value that ``matrix_source`` knows.
    """
    chain = matrix_source(right)
    assert chain is not None
    array: Array = np.zeros(0)
    for op in chain:
        if is_weight(op):
            shape = [int(n) for n in op.result.tensor_type.shape]
            array = weights[op.attrs["name"]].on_host().to_ml_numpy().reshape(shape)
        else:
            (array,) = evaluate(op, [array] if op.operands else [], {})
    return np.ascontiguousarray(array.T.astype(np.float32))


__all__ = ["Array", "Product", "kept_names", "matrix_source", "products", "rows_of"]
