"""Recognises attention, ``softmax(f(q @ k)) @ v``, in the expanded graph."""

from __future__ import annotations

from dataclasses import dataclass

from maxlab.compiler.axes import MAX_OPS, shape_of
from maxlab.compiler.gpu_templates import ELEMENTS, MAX_HEAD
from maxlab.dtype import DType
from maxlab.ir import Function, Op, Value
from maxlab.opset import OPSET, is_cast


@dataclass(slots=True)
class Attention:
    """The parts of an attention group."""

    scores: Op
    maps: list[Op]
    softmax: list[Op]
    logits: Value
    product: Op


def find_attention(function: Function) -> dict[Op, Attention]:
    """The attention patterns of ``function``, by the product that ends each."""
    found: dict[Op, Attention] = {}
    for op in function.ops:
        if OPSET[op.name].kind == "contract":
            parts = _match_attention(op)
            if (
                parts is not None and parts.scores not in found
            ):  # no group ends one and begins another
                found[op] = parts
    return found


def has_kernel(parts: Attention) -> bool:
    """Whether the device has a kernel of attention for these heads: a GPU's are made for a size."""
    result = parts.product.result.tensor_type
    if not result.device.is_gpu():
        return result.dtype is DType.float32
    if result.dtype not in ELEMENTS:
        return False
    heads = shape_of(parts.scores.operands[0])[-1], shape_of(parts.product.result)[-1]
    return all(size.is_constant and 0 < size.evaluate({}) <= MAX_HEAD for size in heads)


def _only(value: Value, *users: Op) -> bool:
    return set(value.uses) == set(users)


def _match_attention(product: Op) -> Attention | None:
    weights = product.operands[0].op
    casts: list[Op] = []
    if is_cast(weights) and _only(weights.result, product):
        # The softmax of halves is made in float32; a kernel of a GPU takes halves and stays there.
        casts.append(weights)
        weights = weights.operands[0].op
        if not product.result.tensor_type.device.is_gpu():
            return None
    reader = casts[0] if casts else product
    if weights is None or weights.name != "mo.mul" or not _only(weights.result, reader):
        return None
    if weights.result.tensor_type.dtype is not DType.float32:
        return None
    if len(shape_of(weights.result)) not in (3, 4) or len(shape_of(product.result)) != len(
        shape_of(weights.result)
    ):
        return None
    e, inverse = (v.op for v in weights.operands)
    if e is None or inverse is None or e.name != "mo.exp" or inverse.name != "mo.recip":
        return None
    total = inverse.operands[0].op
    shifted = e.operands[0].op
    if (
        total is None
        or shifted is None
        or OPSET[total.name].reduce != "sum"
        or shifted.name != "mo.sub"
    ):
        return None
    logits, largest = shifted.operands[0], shifted.operands[1].op
    last = len(shape_of(weights.result)) - 1
    if (
        total.operands[0] is not e.result
        or largest is None
        or OPSET[largest.name].reduce != "max"
        or largest.operands[0] is not logits
        or total.attrs["axis"] != last
        or largest.attrs["axis"] != last
        or not _only(e.result, total, weights)
        or not _only(logits, shifted, largest)
        or not (_only(total.result, inverse) and _only(inverse.result, weights))
        or not (_only(shifted.result, e) and _only(largest.result, shifted))
    ):
        return None
    maps: list[Op] = []
    scores = _find_scores(logits, maps)
    dtypes = {
        v.tensor_type.dtype for v in (*product.operands, *(scores.operands if scores else ()))
    }
    if scores is None or len(dtypes) != 1:
        return None
    if any(len(shape_of(v)) != last + 1 for v in (*scores.operands, product.operands[1])):
        return None
    batch = shape_of(scores.result)[:-2]
    if any(shape_of(v)[:-2] != batch for v in (*scores.operands, product.operands[1])):
        return None  # broadcast batches take the general path
    maps.reverse()
    softmax = [largest, shifted, e, total, inverse, weights, *casts]
    return Attention(scores, maps, softmax, logits, product)


def _find_scores(value: Value, maps: list[Op]) -> Op | None:
    """The product behind a chain of maps of its shape; the maps are added, last first."""
    op = value.op
    if op is None or len(maps) >= MAX_OPS:
        return None
    kind = OPSET[op.name].kind
    if kind == "contract":
        return op
    if kind != "map" or op.result.type != value.type:
        return None
    for operand in op.operands:
        if shape_of(operand) != shape_of(value) or set(operand.uses) != {op}:
            continue
        mark = len(maps)
        maps.append(op)
        found = _find_scores(operand, maps)
        if found is not None:
            return found
        del maps[mark:]
    return None
