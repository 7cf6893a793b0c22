"""NumPy's functions and ufuncs applied to tensors of a graph: what ``np.exp(x)`` and
``np.mean(x)`` add.

They do what NumPy does: without an axis all elements are folded, and a folded axis is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import ArgumentTypeError, GraphError, shown
from maxlab.graph.build import cast, staged, tensor
from maxlab.graph.ops import (
    arranging,
    composed,
    contracting,
    elementwise,
    folds,
    joining,
    linalg,
    making,
    naming,
    reduction,
    scanning,
    shaping,
    unary,
)
from maxlab.graph.value import TensorValue

_NAMES = [
    "add",
    "subtract",
    "multiply",
    "divide",
    "true_divide",
    "floor_divide",
    "power",
    "remainder",
    "mod",
    "maximum",
    "minimum",
    "matmul",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sqrt",
    "square",
    "reciprocal",
    "sign",
    "negative",
    "absolute",
    "sin",
    "cos",
    "tan",
    "sinh",
    "cosh",
    "tanh",
    "rint",
    "floor",
    "ceil",
    "trunc",
    "isnan",
    "isinf",
    "isfinite",
    "equal",
    "not_equal",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "logical_and",
    "logical_or",
    "logical_xor",
    "logical_not",
]
_RENAMED: dict[str, Callable[..., Any]] = {
    "arccos": unary.acos,
    "arctanh": unary.atanh,
    "fabs": unary.abs,
    "divmod": elementwise.divmod,
    "positive": tensor,
    "bitwise_and": elementwise.logical_and,
    "bitwise_or": elementwise.logical_or,
    "bitwise_xor": elementwise.logical_xor,
    "bitwise_not": unary.logical_not,
    "invert": unary.logical_not,
    "fmax": naming.maximum,
    "fmin": naming.minimum,
}
_MODULES = (elementwise, unary, naming, linalg)
UFUNCS: dict[str, Callable[..., Any]] = {
    **_RENAMED,
    **composed.UFUNCS,
    **{name: getattr(next(m for m in _MODULES if hasattr(m, name)), name) for name in _NAMES},
}
"""The op of each ufunc, by its name."""


@staged
def apply_ufunc(ufunc: np.ufunc, method: str, inputs: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The result of ``ufunc`` of NumPy on ``inputs``, of which one is a tensor of the graph.

    Raises:
        ArgumentTypeError: ML965, no op does it; ML961, the result is to go into an array.
    """
    name = ufunc.__name__
    if method == "at":
        raise GraphError(
            "ML961",
            f"np.{name}.at: a tensor of a graph never changes",
            fix="make another: ops.scatter(x, updates, indices, axis)",
        )
    if method != "__call__":
        fix = "ops.outer(v, v) multiplies" if method == "outer" else ""
        raise _without_op(
            f"np.{name}.{method}", fix or "use ops.sum(x), ops.max(x) or ops.cumsum(x)"
        )
    out = kwargs.pop("out", None)
    # `array += x` asks for it, and takes what is returned.
    if out is not None and out[0] is not inputs[0]:
        raise GraphError(
            "ML961",
            f"np.{name}: the elements of a tensor of the graph cannot be written into an array "
            "while the graph is built",
            fix="leave out= away; of a result: np.copyto(array, result)",
        )
    made = UFUNCS.get(name)
    if (dtype := kwargs.pop("dtype", None)) is not None:
        inputs = [elementwise.cast(x, dtype) if isinstance(x, TensorValue) else x for x in inputs]
    if made is None or any(value is not True for value in kwargs.values()):
        raise _without_op(f"np.{name}", f"compute it of results: {_of_results(name, inputs, {})}")
    return made(*inputs)


def _of_results(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> str:
    """The call of NumPy's ``name`` with a result in the place of each tensor of the graph."""

    def text(x: Any) -> str:
        if isinstance(x, TensorValue):
            return "np.asarray(result)"
        if isinstance(x, (list, tuple)) and any(isinstance(one, TensorValue) for one in x):
            return f"[{', '.join(map(text, x))}]"
        return shown(x)

    given = [text(x) for x in args]
    given += [f"{key}={text(x)}" for key, x in kwargs.items()]
    return f"np.{name}({', '.join(given)})"


def _without_op(what: str, fix: str) -> ArgumentTypeError:
    return ArgumentTypeError(
        "ML965", f"{what} has no counterpart among the operations of a graph", fix=fix
    )


def apply_function(function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The result of ``function`` of NumPy on its arguments, among which are tensors of the graph.

    Raises:
        ArgumentTypeError: ML965, no op does it, or not with these arguments.
    """
    where = getattr(function, "__module__", "numpy").replace("numpy", "np", 1)
    return _applied(f"{where}.{function.__name__}", function, args, kwargs)


@staged
def _applied(what: str, function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    made = FUNCTIONS.get(function)
    of_result = _of_results(what.removeprefix("np."), args, kwargs)
    if made is None:
        if function in _BETTER:
            of_result = f"{of_result}; {_BETTER[function]}"
        raise _without_op(what, f"compute it of a result: {of_result}")
    try:
        return made(*args, **{key: x for key, x in kwargs.items() if x is not np._NoValue})
    except TypeError as error:
        if isinstance(error, ArgumentTypeError) or error.__traceback__ is None:
            raise
        if error.__traceback__.tb_next is not None:
            raise
        raise _without_op(
            f"{what} with these arguments",
            f"{_BETTER.get(function, 'compute it of a result')}: {of_result}; {error}",
        ) from error


# ---------------------------------------------------------------- folds
def _fold(op: Callable[..., TensorValue]) -> Callable[..., TensorValue]:
    def fold(x: Any, axis: Any = None, *, keepdims: bool = False, **kwargs: Any) -> TensorValue:
        value = tensor(x)
        every = tuple(range(value.rank))
        return op(value, axis=every if axis is None else axis, keepdims=keepdims, **kwargs)

    return fold


def _sum(x: Any, axis: Any = None, *, keepdims: bool = False, dtype: Any = None) -> TensorValue:
    value = tensor(x)
    if dtype is not None:
        value = elementwise.cast(value, dtype)
    elif value.dtype is DType.bool or value.dtype.is_signed_integral():
        value = cast(value, DType.int64)
    elif value.dtype.is_unsigned_integral():
        value = cast(value, DType.uint64)
    fold: Any = reduction.sum
    made: TensorValue = fold(value, axis=axis, keepdims=keepdims)
    return made


def _mean(x: Any, axis: Any = None, *, keepdims: bool = False) -> TensorValue:
    value = tensor(x)
    if not value.dtype.is_float():
        value = cast(value, DType.float64)
    fold: Any = reduction.mean
    made: TensorValue = fold(value, axis=axis, keepdims=keepdims)
    return made


def _where_most(op: Callable[..., TensorValue]) -> Callable[..., TensorValue]:
    def found(x: Any, axis: int | None = None, *, keepdims: bool = False) -> TensorValue:
        return op(x, axis=axis, keepdims=keepdims)

    return found


def _cumsum(x: Any, axis: int | None = None) -> TensorValue:
    return scanning.cumsum(arranging.ravel(x) if axis is None else x, 0 if axis is None else axis)


# ---------------------------------------------------------------- places
def _transpose(x: Any, axes: Sequence[int] | None = None) -> TensorValue:
    value = tensor(x)
    return shaping.permute(value, list(reversed(range(value.rank))) if axes is None else axes)


def _reshape(x: Any, shape: Any) -> TensorValue:
    return shaping.reshape(x, [shape] if isinstance(shape, int) else shape)


def _concatenate(arrays: Sequence[Any], axis: int | None = 0) -> TensorValue:
    if axis is None:
        return joining.concat([arranging.ravel(one) for one in arrays], 0)
    return joining.concat(arrays, axis)


def _stack(arrays: Sequence[Any], axis: int = 0) -> TensorValue:
    return joining.stack(arrays, axis)


def _repeat(x: Any, repeats: int, axis: int | None = None) -> TensorValue:
    return shaping.repeat_interleave(x, repeats, axis)


def _tile(x: Any, reps: Any) -> TensorValue:
    value = tensor(x)
    counts = [reps] if isinstance(reps, int) else list(reps)
    counts = [1] * (value.rank - len(counts)) + counts
    while value.rank < len(counts):
        value = shaping.unsqueeze(value, 0)
    return shaping.tile(value, counts)


def _pad(x: Any, pad_width: Any, mode: str = "constant", constant_values: Any = 0) -> TensorValue:
    value = tensor(x)
    pairs = np.broadcast_to(pad_width, (value.rank, 2))
    amounts = [int(size) for pair in pairs for size in pair]
    return joining.pad(value, amounts, mode, constant_values)


def _where(condition: Any, x: Any, y: Any) -> TensorValue:
    return elementwise.where(condition, x, y)


def _round(x: Any, decimals: int = 0) -> TensorValue:
    value = tensor(x)
    return unary.round(value) if not decimals else value.__round__(decimals)


def _shape(x: Any) -> Any:
    return x.shape


def _ndim(x: Any) -> int:
    return tensor(x).rank


def _size(x: Any, axis: int | None = None) -> Any:
    return x.size if axis is None else x.shape[axis]


FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.sum: _sum,
    np.mean: _mean,
    np.max: _fold(reduction.max),
    np.min: _fold(reduction.min),
    np.amax: _fold(reduction.max),
    np.amin: _fold(reduction.min),
    np.var: _fold(folds.var),
    np.std: _fold(folds.std),
    np.any: _fold(folds.any),
    np.all: _fold(folds.all),
    np.count_nonzero: _fold(folds.count_nonzero),
    np.argmax: _where_most(reduction.argmax),
    np.argmin: _where_most(reduction.argmin),
    np.cumsum: _cumsum,
    np.concatenate: _concatenate,
    np.stack: _stack,
    np.hstack: arranging.hstack,
    np.vstack: arranging.vstack,
    np.split: arranging.cut_evenly,
    np.reshape: _reshape,
    np.ravel: arranging.ravel,
    np.transpose: _transpose,
    np.swapaxes: arranging.swapaxes,
    np.moveaxis: arranging.moveaxis,
    np.squeeze: arranging.dropped,
    np.broadcast_to: shaping.broadcast_to,
    np.tile: _tile,
    np.repeat: _repeat,
    np.where: _where,
    np.round: _round,
    np.around: _round,
    np.dot: contracting.dot,
    np.inner: contracting.inner,
    np.outer: linalg.outer,
    np.tensordot: contracting.tensordot,
    np.einsum: contracting.einsum,
    np.zeros_like: making.zeros_like,
    np.ones_like: making.ones_like,
    np.full_like: making.full_like,
    np.take: folds.take,
    np.tril: arranging.tril,
    np.triu: arranging.triu,
    np.flip: folds.flip,
    np.pad: _pad,
    np.shape: _shape,
    np.ndim: _ndim,
    np.size: _size,
    **composed.FUNCTIONS,
}
"""The operation for each function of NumPy."""
_NONZERO = "in the graph the number of places is a dim: ops.nonzero(b, 'count')"
_BETTER: dict[Any, str] = {
    np.nonzero: _NONZERO.replace("(b", "(x"),
    np.argwhere: _NONZERO.replace("(b", "(x"),
    np.flatnonzero: _NONZERO.replace("(b", "(x"),
    np.where: _NONZERO,
    np.sum: "write np.sum(x) + 1, or np.sum(ops.where(b, x, 0)); of a result",
}
"""The operation to use instead, where NumPy's function has no counterpart."""


__all__ = ["FUNCTIONS", "UFUNCS", "apply_function", "apply_ufunc"]
