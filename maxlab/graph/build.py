"""How ops get into a graph: operands bound, types inferred, and everything undone when something is wrong."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

from maxlab import opset
from maxlab.dtype import DType, check_array, check_scalar, promote
from maxlab.errors import ArgumentTypeError, GraphError, MaxlabError, NoGraphError
from maxlab.graph.context import current_graph
from maxlab.ir import (
    ChainType,
    Constant,
    DeviceRef,
    Dim,
    Shape,
    TensorType,
    Value as IrValue,
    user_location,
)

P = ParamSpec("P")
R = TypeVar("R")


def staged(function: Callable[P, R]) -> Callable[P, R]:
    """``function`` made atomic: when it raises, the graph is as it was and the error names the user's line."""

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        graph = current_graph()
        if graph is None:
            try:
                return function(*args, **kwargs)
            except MaxlabError as error:
                error.locate(user_location())
                raise
        mark = graph._mark()
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            graph._rollback(mark)
            if isinstance(error, MaxlabError):
                error.locate(user_location())
                graph._failed(error)
            raise

    return wrapped


def require_graph(what: str) -> Any:
    """The graph that is being built.

    Raises:
        NoGraphError: ML313, there is none.
    """
    graph = current_graph()
    if graph is None:
        raise NoGraphError(
            "ML313",
            f"{what} needs a graph, and none is being built",
            fix="write it inside of `with Graph(...):`",
        )
    return graph


def add(name: str, operands: Sequence[Any], /, **attrs: Any) -> Any:
    """The ``TensorValue`` of a new op ``mo.<name>`` on ``TensorValue`` operands, in the current graph.

    Raises:
        NoGraphError: No graph is being built.
        GraphError: ML314, an operand belongs to another graph.
        MaxlabError: What the op's type rule says.
    """
    graph = require_graph(f"ops.{name}")
    row = opset.lookup(f"mo.{name}")
    values: list[IrValue] = [graph._own(operand) for operand in operands]
    types: list[TensorType] = []
    for value in values:
        if not isinstance(value.type, TensorType):
            raise ArgumentTypeError(
                "ML315",
                f"{name}: an operand is {value.type}, expected a tensor",
                fix="load a buffer with ops.buffer_load" if not isinstance(value.type, ChainType) else None,
            )
        types.append(value.type)
    result_types = list(row.infer(types, attrs))
    return graph._append(row.name, values, result_types, attrs)


# ---------------------------------------------------------------- operands


def is_weak(x: object) -> bool:
    """Whether ``x`` is a Python or NumPy number or array, which takes the dtype of its partner."""
    return isinstance(x, (bool, int, float, np.generic, np.ndarray)) or (
        isinstance(x, (list, tuple)) or (hasattr(x, "__dlpack__") and not hasattr(x, "__tensorvalue__"))
    )


def literal(x: Any, dtype: DType, device: DeviceRef) -> Any:
    """The constant ``x`` in ``dtype``, checked to fit.

    Raises:
        DTypeError: A value that ``dtype`` cannot hold.
    """
    if isinstance(x, (bool, int, float, np.generic)):
        array = np.asarray(check_scalar(x, dtype), dtype.ml_numpy)
    else:
        array = np.ascontiguousarray(check_array(to_numpy(x), dtype), dtype.ml_numpy)
    return constant_array(array, device)


def constant_array(array: np.ndarray[Any, Any], device: DeviceRef) -> Any:
    """The constant ``array``, whose dtype is taken as it is; the array is not copied."""
    return add("constant", [], value=Constant(array), device=device)


def to_numpy(x: Any) -> np.ndarray[Any, Any]:
    """``x`` (an array, nested sequence, or DLPack object) as a NumPy array.

    Raises:
        ArgumentTypeError: ML316, a ragged sequence or something that is no array.
    """
    if isinstance(x, np.ndarray):
        return x
    if hasattr(x, "to_numpy") and hasattr(x, "__dlpack__"):
        return np.asarray(x.to_numpy())
    try:
        if hasattr(x, "__dlpack__") and not isinstance(x, np.generic):
            return np.from_dlpack(x)
        return np.asarray(x)
    except ValueError as error:
        raise GraphError(
            "ML316", f"the rows of {x!r} do not have one length", fix="make it rectangular"
        ) from error
    except (TypeError, RuntimeError, BufferError) as error:
        raise ArgumentTypeError("ML316", f"{type(x).__name__} is not an array: {error}") from error


def tensor(x: Any, what: str = "an operand") -> Any:
    """``x`` as a ``TensorValue`` when it is one already, or a dim, shape or weight that stands for one.

    Raises:
        ArgumentTypeError: ML317, anything else.
    """
    from maxlab.graph.value import TensorValue

    if isinstance(x, TensorValue):
        return x
    if isinstance(x, Dim):
        return add("dim", [], dim=x)
    if isinstance(x, Shape):
        return shape_tensor(x)
    convert = getattr(x, "__tensorvalue__", None)
    if convert is not None:
        return convert()
    raw = getattr(x, "_value", None)
    if isinstance(raw, IrValue) and isinstance(raw.type, TensorType):
        return TensorValue(x)
    raise ArgumentTypeError(
        "ML317",
        f"{what} must be a tensor of the graph, got {type(x).__name__}",
        fix="make one with ops.constant(x, DType.float32, DeviceRef.CPU())",
    )


def shape_tensor(shape: Shape) -> Any:
    """The sizes of ``shape`` as an int64 tensor of rank 1."""
    if not shape:
        return constant_array(np.zeros((0,), np.int64), DeviceRef.CPU())
    parts = [add("unsqueeze", [add("dim", [], dim=dim)], axis=0) for dim in shape]
    return parts[0] if len(parts) == 1 else add("concat", parts, axis=0)


def cast(x: Any, dtype: DType) -> Any:
    """``x`` in ``dtype``; ``x`` itself when it is."""
    return x if x.dtype is dtype else add("cast", [x], dtype=dtype)


def pair(what: str, lhs: Any, rhs: Any, floats: bool = False) -> tuple[Any, Any]:
    """Both operands of a binary op as tensors of one dtype.

    A number or array takes the dtype of its partner; two tensors are promoted to the smallest dtype that holds both
    without loss. With ``floats``, integers become float64.

    Raises:
        ArgumentTypeError: ML318, neither operand is a tensor.
        DTypeError: A value that does not fit, or two dtypes that no dtype holds.
    """
    left_weak, right_weak = is_weak(lhs), is_weak(rhs)
    if left_weak and right_weak:
        raise ArgumentTypeError(
            "ML318",
            f"{what}: neither operand is a tensor of the graph "
            f"({type(lhs).__name__} and {type(rhs).__name__})",
            fix="make one with ops.constant, or compute it with Python or NumPy",
        )
    if not left_weak:
        lhs = tensor(lhs, f"{what}: the left operand")
    if not right_weak:
        rhs = tensor(rhs, f"{what}: the right operand")
    if floats:
        lhs, rhs = (x if is_weak(x) or x.dtype.is_float() else cast(x, DType.float64) for x in (lhs, rhs))
    if left_weak:
        return literal(lhs, rhs.dtype, rhs.device), rhs
    if right_weak:
        return lhs, literal(rhs, lhs.dtype, lhs.device)
    if lhs.dtype is not rhs.dtype:
        dtype = promote(lhs.dtype, rhs.dtype)
        lhs, rhs = cast(lhs, dtype), cast(rhs, dtype)
    return lhs, rhs
