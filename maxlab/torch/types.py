"""Sizes and types of an exported graph in terms of maxlab."""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from maxlab.graph import TensorType
from maxlab.ir import Dim
from maxlab.torch.aten import DTYPES, HOST, NotImported


def dim_of(size: Any, names: Mapping[str, str]) -> Dim:
    """The dim for ``size``, an int or a symbolic int of torch, whose symbols have ``names``.

    Raises:
        NotImported: A size that depends on data, or that maxlab's dims cannot express.
    """
    if isinstance(size, int):
        return Dim(size)
    if free_unbacked_symbols(size):
        raise NotImported("a size depends on data")
    return _dim(size.node.expr, names)


def _dim(expression: Any, names: Mapping[str, str]) -> Dim:
    if expression.is_Integer:
        return Dim(int(expression))
    if expression.is_Symbol:
        name = str(expression)
        if name not in names:
            raise NotImported(f"no input has the size {name}")
        return Dim(names[name])
    kind = type(expression).__name__
    args = [_dim(a, names) for a in expression.args] if kind != "Pow" else []
    if kind == "Add":
        return functools.reduce(operator.add, args)
    if kind == "Mul":
        return functools.reduce(operator.mul, args)
    if kind == "Pow":
        base, exponent = expression.args
        if exponent.is_Integer and int(exponent) > 0:
            return functools.reduce(operator.mul, [_dim(base, names)] * int(exponent))
    if kind in ("FloorDiv", "CleanDiv"):
        return args[0] // args[1]
    if kind in ("Mod", "PythonMod"):
        return args[0] - args[1] * (args[0] // args[1])
    raise NotImported(f"the size {expression} is none that a dim can have")


def symbols_of(value: Any) -> set[Any]:
    """The symbols in ``value``, a size, a tensor, or a tuple or list of these."""
    if isinstance(value, torch.SymInt):
        return set(value.node.expr.free_symbols)
    if isinstance(value, torch.Tensor):
        value = tuple(value.shape)
    if isinstance(value, (tuple, list)):
        return set().union(*map(symbols_of, value))
    return set()


def type_of(value: torch.Tensor, names: Mapping[str, str]) -> TensorType:
    """The type of a tensor, or of the stand-in for one in an exported graph.

    Raises:
        NotImported: maxlab has no such dtype, layout or size.
    """
    if value.layout is not torch.strided:
        raise NotImported(f"the layout {value.layout} is not that of dense tensors")
    if value.device.type != "cpu":
        raise NotImported(f"it lives on {value.device}")
    dtype = DTYPES.get(value.dtype)
    if dtype is None:
        raise NotImported(f"maxlab has no dtype like {value.dtype}")
    return TensorType(dtype, [dim_of(size, names) for size in value.shape], HOST)


def types_of(value: Any, names: Mapping[str, str]) -> list[TensorType | None]:
    """The types of the results of a node that has ``value``: one for a tensor, one for each element
    of a tuple or list of them; None for what is no tensor.

    Raises:
        NotImported: One of them cannot be a value of a maxlab graph.
    """
    if isinstance(value, torch.Tensor):
        return [type_of(value, names)]
    if isinstance(value, (tuple, list)):
        return [type_of(v, names) if isinstance(v, torch.Tensor) else None for v in value]
    if isinstance(value, torch.SymInt):
        dim_of(value, names)
    elif isinstance(value, (torch.SymFloat, torch.SymBool)):
        raise NotImported("it is computed from sizes and is no size")
    return [None]
