"""Long products of halves in parts, each rounded before all are added: ``split_k="output"``.

``x @ y`` over k becomes ``sum(x_p @ y_p)`` over the parts p of k. Parts are products of their own,
with results in memory, so they can run side by side where the result is small; what is kept of each
is as exact as the dtype of the result, and they are added in float32. Without the option a product
is one kernel, whose parts, if it has any, meet in float32.
"""

from __future__ import annotations

from maxlab.compiler.attention import find_attention
from maxlab.compiler.passes.decompose import Expansion
from maxlab.dtype import DType
from maxlab.ir import Dim, Op, Rewriting, StaticDim, Value
from maxlab.ir.dims import from_poly
from maxlab.ir.poly import ONE, Poly
from maxlab.opset import OPSET
from maxlab.opset.builder import one

PART = 1024
"""Products of two rows of this length are the shortest parts."""
MOST = 16


def parts_of(length: int) -> int:
    """In how many equal parts a sum of ``length`` products is made.

    Example:
        >>> [parts_of(n) for n in (1024, 2048, 4096, 3000, 2053, 65536)]
        [1, 2, 4, 2, 1, 16]
    """
    most = min(length // PART, MOST)
    return next((n for n in range(most, 1, -1) if length % n == 0), 1)


def split_products(rewriting: Rewriting) -> None:
    """Write the long products of halves in parts."""
    whole = set(find_attention(rewriting.function))  # which a kernel of its own makes
    for op in rewriting.function.ops:
        if OPSET[op.name].kind == "contract" and op not in whole and _is_long(op):
            rewriting.rule("split_k", op)
            rewriting.replace(op, [_split(Expansion(rewriting, op), op)])


def _is_long(op: Op) -> bool:
    x, y = (v.tensor_type for v in op.operands)
    depth = x.shape[-1]
    if x.dtype not in (DType.float16, DType.bfloat16) or not isinstance(depth, StaticDim):
        return False
    same = y.rank == 2 or list(x.shape[:-2]) == list(y.shape[:-2])
    return same and parts_of(depth.dim) > 1


def _split(b: Expansion, op: Op) -> Value:
    x, y = op.operands
    left, right = x.tensor_type, y.tensor_type
    depth, columns = left.shape[-1], right.shape[-1]
    assert isinstance(depth, StaticDim)
    parts = parts_of(depth.dim)
    each = depth.dim // parts
    # One matrix for all rows, or one for each place of the batch.
    lead = [_product(left.shape[:-2])] if right.rank > 2 else []
    rows = left.shape[-2] if lead else _product(left.shape[:-1])
    axes = list(range(len(lead)))
    first = len(lead) + 1
    x = one(b, "reshape", [x], shape=(*lead, rows, parts, each))
    x = one(b, "permute", [x], dims=(first, *axes, first - 1, first + 1))
    y = one(b, "reshape", [y], shape=(*lead, parts, each, columns))
    y = one(b, "permute", [y], dims=(first - 1, *axes, first, first + 1))
    partial = one(b, "matmul", [x, y])
    total = one(b, "reduce.sum", [partial], axis=0)
    return one(b, "reshape", [total], shape=tuple(op.result.tensor_type.shape))


def _product(dims: list[Dim]) -> Dim:
    total: Poly = ONE
    for dim in dims:
        total = total * dim.poly
    return from_poly(total)


__all__ = ["parts_of", "split_products"]
