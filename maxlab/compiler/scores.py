"""Scores of attention on tensor cores: in float32, without what the kernel gets for nothing.

The lowered scores of halves are rounded after every op. Between two products that are made in
float32 nothing asks for that, and it costs more than the softmax itself. A factor of the scores is
free, for the exponent has one anyway, and a mask that bounds the keys need not be asked where all
keys of a tile are within the bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from maxlab.compiler.loops import Expr, Exprs, Kernel, walk
from maxlab.compiler.lower import INNER
from maxlab.compiler.masks import is_minus_infinity, shown
from maxlab.dtype import DType

HALVES = (DType.bfloat16, DType.float16)


@dataclass(frozen=True, slots=True)
class Scores:
    """A score in parts: it is ``scale * score``.

    Attributes:
        score: What depends on the raw score.
        open: The same for keys that the mask shows; None where no mask is a bound of the keys, or
            where it is not all that hides keys.
        scale: Above 0.
    """

    score: Expr
    open: Expr | None
    scale: float


def wide(kernel: Kernel) -> Kernel:
    """``kernel``, without the roundings between the raw score and what it becomes."""
    ((store,),) = (kernel.passes[0].stores,)
    value = _wide(store.value, Exprs(INNER))
    finish = replace(kernel.passes[0], stores=[replace(store, value=value)])
    return replace(kernel, passes=[finish])


def _wide(root: Expr, exprs: Exprs) -> Expr:
    made: dict[int, Expr] = {}
    raw: set[int] = set()  # the new nodes that depend on the raw score
    for node in walk([root]):
        args = tuple(made[a.number] for a in node.args)
        depends = node.kind == "tile" or any(a.number in raw for a in args)
        is_float = node.dtype in HALVES or node.dtype is DType.float32
        if depends and node.kind == "cast" and is_float and args[0].dtype is DType.float32:
            made[node.number] = args[0]
            continue
        dtype = DType.float32 if depends and node.dtype in HALVES else node.dtype
        found = exprs.make(node.kind, dtype, node.data, args)
        found.node = found.node or node.node
        made[node.number] = found
        if depends:
            raw.add(found.number)
    return made[root.number]


def split(root: Expr, *, bounded: bool) -> Scores:
    """The parts of the score ``root``, which is `wide`; ``bounded``: the kernel is told how many
    keys its mask shows to a query, as `maxlab.compiler.masks.visible_keys` has it.
    """
    exprs = Exprs(INNER)
    root = _wide(root, exprs)
    if root.kind == "op" and root.data == "where":
        condition, *arms = root.args
        hidden = [is_minus_infinity(arm) for arm in arms]
        if hidden in ([False, True], [True, False]):
            at = hidden.index(False)
            score, scale = _peeled(arms[at])
            arms[at] = score
            whole = exprs.make("op", root.dtype, "where", (condition, *arms))
            whole.node = root.node
            return Scores(whole, score if bounded and shown(condition, at == 0) else None, scale)
    score, scale = _peeled(root)
    return Scores(score, score if score.kind == "tile" else None, scale)


def _peeled(node: Expr) -> tuple[Expr, float]:
    """``node`` without constant factors above 0, and these."""
    scale = 1.0
    while node.kind == "op" and node.data == "mul" and node.dtype is DType.float32:
        left, right = node.args
        if left.kind == "const":
            left, right = right, left
        if right.kind != "const" or left.kind == "const":
            break
        factor = scale * float(right.data)
        if not 1e-30 < factor < 1e30:  # zero, NaN, or too much for a float32
            break
        node, scale = left, factor
    return (node, scale) if math.isfinite(scale) else (node, 1.0)


__all__ = ["Scores", "split", "wide"]
