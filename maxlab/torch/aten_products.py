"""Products of matrices and attention of ATen."""

from __future__ import annotations

import math
from typing import Any

from maxlab.dtype import DType
from maxlab.graph import TensorValue, ops
from maxlab.ir import Dim, StaticDim
from maxlab.torch.aten import NotImported, Site, aten, tensor
from maxlab.torch.aten_reduction import fold


def _swapped(x: TensorValue) -> TensorValue:
    return ops.transpose(x, -1, -2)


def _product(x: TensorValue, y: TensorValue) -> TensorValue:
    """``x @ y``, also where only torch knows that the inner sizes are equal: ``4 * (n - 2) ** 2``
    and 144, say, of which every run is asked."""
    inner, rows = x.shape[-1], y.shape[-1 if y.rank == 1 else -2]
    if inner == rows or (isinstance(inner, StaticDim) and isinstance(rows, StaticDim)):
        return ops.matmul(x, y)
    known = ops.rebind(x, [*x.shape[:-1], rows], "torch found the inner sizes equal")
    return ops.matmul(known, y)


@aten("linear.default")
def _linear(at: Site, x: Any, weight: Any, bias: Any = None) -> TensorValue:
    made = _product(tensor(x), _swapped(tensor(weight)))
    return made if bias is None else ops.add(made, at.value(bias))


@aten("mm.default", "bmm.default", "matmul.default", "mv.default")
def _matmul(at: Site, x: Any, y: Any) -> TensorValue:
    made = _product(tensor(x), tensor(y))
    return made if made.rank == at.type.rank else ops.reshape(made, at.shape)


@aten("dot.default")
def _dot(at: Site, x: Any, y: Any) -> TensorValue:
    return ops.reshape(ops.sum(ops.mul(tensor(x), tensor(y)), -1), [])


@aten("addmm.default", "baddbmm.default", "addmv.default")
def _addmm(at: Site, added: Any, x: Any, y: Any, beta: Any = 1, alpha: Any = 1) -> TensorValue:
    product = _product(tensor(x), tensor(y))
    if alpha != 1:
        product = ops.mul(product, alpha)
    if beta == 0:
        return product
    return ops.add(product, at.value(added) if beta == 1 else ops.mul(at.value(added), beta))


@aten("scaled_dot_product_attention.default")
def _attention(
    at: Site,
    query: Any,
    key: Any,
    value: Any,
    mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> TensorValue:
    """``softmax(q @ k.T * scale + mask) @ v``. A query that may see no key gets zeros, as it does
    from torch; the softmax alone would make it NaN."""
    if dropout_p:
        raise NotImported("it draws random numbers")
    q, k, v = tensor(query), tensor(key), tensor(value)
    if enable_gqa:
        k, v = (_repeated(x, q.shape[-3]) for x in (k, v))
    depth = q.shape[-1]
    if scale is None:
        if not isinstance(depth, StaticDim):
            raise NotImported("the size of a head is not known")
        scale = 1 / math.sqrt(depth.dim)
    scores = ops.mul(ops.matmul(q, _swapped(k)), scale)
    if is_causal:
        rows = ops.range(0, q.shape[-2], 1, dtype=DType.int64, device=q.device)
        columns = ops.range(0, k.shape[-2], 1, dtype=DType.int64, device=q.device)
        seen = ops.greater_equal(ops.unsqueeze(rows, 1), ops.unsqueeze(columns, 0))
        scores = ops.where(seen, scores, -math.inf)
    visible = None
    if mask is not None:
        given = tensor(mask)
        if given.dtype is DType.bool:
            scores, visible = ops.where(given, scores, -math.inf), given
        else:
            scores = ops.add(scores, at.value(given))
            visible = ops.greater(given, -math.inf)
    made = ops.matmul(ops.softmax(scores), v)
    if visible is None:
        return made
    # bools are no numbers: the largest of 0 and 1 says whether any key is visible
    any_seen = fold(ops.cast(visible, DType.int32), [visible.rank - 1], _largest)
    return ops.where(ops.cast(any_seen, DType.bool), made, 0)


def _largest(x: TensorValue, axis: int) -> TensorValue:
    return ops.max(x, axis=axis)


def _repeated(x: TensorValue, heads: Dim) -> TensorValue:
    """``x`` with each of its heads repeated until there are ``heads``."""
    *lead, own, rows, depth = x.shape
    if not (isinstance(own, StaticDim) and isinstance(heads, StaticDim)):
        raise NotImported("the number of heads is not known")
    times = heads.dim // own.dim
    if times == 1:
        return x
    wide = ops.broadcast_to(ops.unsqueeze(x, -3), [*lead, own, times, rows, depth])
    return ops.reshape(wide, [*lead, heads, rows, depth])
