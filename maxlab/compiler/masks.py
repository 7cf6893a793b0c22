"""Recognises masks that hide the keys behind a place, so that attention need not read them.

A causal mask is a comparison of two ranges and a choice between the score and minus infinity.
When scores are lowered, ranges are polynomials of the axes, so what is left to find is a choice
whose condition bounds the key from above.
"""

from __future__ import annotations

import math

from maxlab.compiler.loops import Expr
from maxlab.compiler.lower import INNER
from maxlab.dtype import DType
from maxlab.ir.poly import ONE, Poly

_KEY = Poly.symbol(INNER)
MAX_OFFSET = 1 << 24
"""Constants up to this size are added to places without thought of overflow."""


def visible_keys(score: Expr, query: str) -> Poly | None:
    """How many keys, counted from the first, can have a score that is not minus infinity; None
    when nothing bounds them. A polynomial of the axes of the rows that never falls along ``query``:
    what the last of several queries sees, the others see no more of.
    """
    found = _keys_of(score)
    if found is None:
        return None
    slope = found.coefficient(query)
    return found if slope is not None and slope.is_constant and slope.value >= 0 else None


def _keys_of(score: Expr) -> Poly | None:
    while score.kind == "cast":
        score = score.args[0]
    if score.kind != "op" or score.data != "where":
        return None
    condition, chosen, other = score.args
    if is_minus_infinity(other):
        return _bound(condition, True)
    if is_minus_infinity(chosen):
        return _bound(condition, False)
    return None


def is_minus_infinity(node: Expr) -> bool:
    """Whether ``node`` is the constant."""
    while node.kind == "cast":
        node = node.args[0]
    return node.kind == "const" and node.data == -math.inf


def shown(condition: Expr, holds: bool) -> bool:
    """Whether ``condition`` is ``holds`` for all keys below the bound that it is."""
    while condition.kind == "op" and condition.data == "logical_not":
        condition, holds = condition.args[0], not holds
    is_comparison = condition.kind == "op" and condition.data in ("greater", "greater_equal")
    return is_comparison and _bound(condition, holds) is not None


def _bound(condition: Expr, holds: bool) -> Poly | None:
    """The exclusive bound of the keys for which ``condition`` is ``holds``."""
    if condition.kind != "op":
        return None
    name = condition.data
    if name == "logical_not":
        return _bound(condition.args[0], not holds)
    if name == "logical_and" and holds:
        found = [_bound(a, True) for a in condition.args]
        return next((b for b in found if b is not None), None)
    if name not in ("greater", "greater_equal"):
        return None
    left, right = (_place(a) for a in condition.args)
    if left is None or right is None:
        return None
    if not holds:  # not (a > b) is b >= a
        left, right = right, left
        name = "greater_equal" if name == "greater" else "greater"
    # left - right >= 0, or > 0, with the key's factor -1: key <= rest, or key < rest
    gap = left - right
    rest = gap + _KEY
    if INNER in rest.symbols():
        return None
    return rest + ONE if name == "greater_equal" else rest


def _place(node: Expr) -> Poly | None:
    """The polynomial that an integer expression is. Casts to signed integers of 32 bits and more
    keep it, as no tensor has an axis that long; unsigned ones wrap below 0 and have none.
    """
    while node.kind == "cast" and _keeps_places(node.dtype):
        node = node.args[0]
    if not _keeps_places(node.dtype):
        return None
    if node.kind == "index":
        found = node.data
        assert isinstance(found, Poly)
        return found
    if node.kind == "const" and isinstance(node.data, int) and abs(node.data) <= MAX_OFFSET:
        return Poly.constant(node.data)
    if node.kind == "op" and node.data in ("add", "sub"):
        left, right = (_place(a) for a in node.args)
        if left is not None and right is not None:
            return left + right if node.data == "add" else left - right
    return None


def _keeps_places(dtype: DType) -> bool:
    return dtype.is_signed_integral() and dtype.size_in_bits >= 32
