"""Quantities of a document as numbers: ``2*batch*384`` under the sizes of a run."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping

from maxlab.lab import protocol

_LONGEST = 10_000


def evaluated(quantity: protocol.Quantity, dims: Mapping[str, int]) -> float | None:
    """The number that ``quantity`` stands for; None where a dim is not known.

    Example:
        >>> evaluated("2 * rows // 3", {"rows": 8}), evaluated("rows", {})
        (5.0, None)
    """
    if quantity is None or isinstance(quantity, (int, float)):
        return None if quantity is None else float(quantity)
    if len(quantity) > _LONGEST:
        return None
    try:
        made = _number(ast.parse(quantity.strip(), mode="eval").body, dims)
    except (SyntaxError, ValueError, KeyError, ArithmeticError, RecursionError, MemoryError):
        return None
    return made if math.isfinite(made) else None


def _number(node: ast.expr, dims: Mapping[str, int]) -> float:
    match node:
        case ast.Constant(value=int(value) | float(value)):
            return float(value)
        case ast.Name() | ast.Attribute():
            return float(dims[ast.unparse(node)])
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_number(operand, dims)
        case ast.BinOp(left=left, op=op, right=right):
            return _combined(_number(left, dims), op, _number(right, dims))
        case ast.Call(func=ast.Name(id="min" | "max" as name), args=args):
            values = [_number(one, dims) for one in args]
            return min(values) if name == "min" else max(values)
        case _:
            raise ValueError(ast.unparse(node))


def _combined(left: float, op: ast.operator, right: float) -> float:
    match op:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.Div():
            return left / right
        case ast.FloorDiv():
            return float(math.floor(left / right))
        case ast.Mod():
            return left - right * math.floor(left / right)
        case ast.Pow():
            return math.pow(left, right)
        case _:
            raise ValueError(type(op).__name__)
