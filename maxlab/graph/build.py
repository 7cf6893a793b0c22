"""How ops get into a graph: operands bound, types inferred, and everything undone when something is
wrong."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np

from maxlab import opset
from maxlab.driver import Tensor
from maxlab.dtype import (
    DType,
    check_array,
    check_scalar,
    check_unmasked,
    promote,
    round_to,
)
from maxlab.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    MaxlabError,
    NoGraphError,
    ShapeError,
    shown,
)
from maxlab.graph.context import current_graph
from maxlab.graph.foreign import explained, is_foreign
from maxlab.ir import (
    Constant,
    DeviceRef,
    Dim,
    Shape,
    StaticDim,
    TensorType,
    user_location,
)
from maxlab.ir import Value as IrValue

if TYPE_CHECKING:
    from maxlab.graph.graph import Graph
    from maxlab.graph.value import TensorValue

P = ParamSpec("P")
R = TypeVar("R")


def staged(function: Callable[P, R]) -> Callable[P, R]:
    """``function`` made atomic: when it raises, the graph is as it was and the error names the
    user's line. What it raises is maxlab's error, or that of a function of the user."""

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        graph = current_graph()
        if graph is None:
            try:
                return function(*args, **kwargs)
            except MaxlabError as error:
                error.locate(user_location())
                raise
            except Exception as error:
                if not is_foreign(error):
                    raise
                raise explained(function, args, kwargs, error).locate(user_location()) from error
        mark = graph._mark()
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            graph._rollback(mark)
            if isinstance(error, MaxlabError):
                error.locate(user_location())
                graph._failed(error)
            elif is_foreign(error):
                told = explained(function, args, kwargs, error).locate(user_location())
                graph._failed(told)
                raise told from error
            raise

    return wrapped


def require_graph(what: str) -> Graph:
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


def add(name: str, operands: Sequence[Any], /, **attrs: Any) -> TensorValue:
    """The ``TensorValue`` of a new op ``mo.<name>`` on ``TensorValue`` operands, in the current
    graph.

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
        assert isinstance(value.type, TensorType), "operands come from tensor(), which asks"
        types.append(value.type)
    attrs = {key: _plain(value) for key, value in attrs.items()}
    try:
        result_types = list(row.infer(types, attrs))
    except (DTypeError, ShapeError) as error:
        explain(error, values)
        raise
    made: TensorValue = graph._append(row.name, values, result_types, attrs)
    return made


def _plain(value: Any) -> Any:
    """``value`` with NumPy's integers made Python's: attributes are printed, compared and read."""
    if isinstance(value, np.integer):
        return int(value)
    if type(value) is tuple and any(isinstance(item, np.integer) for item in value):
        return tuple(_plain(item) for item in value)
    return value


def explain(error: MaxlabError, values: Sequence[IrValue]) -> None:
    """Say in ``error`` where each of several operands came from, unless it says why already."""
    if error.why or len(values) < 2:
        return
    names = ("left", "right") if len(values) == 2 else tuple(map(str, range(len(values))))
    lines = []
    for name, value in zip(names, values, strict=True):
        word = f"the {name} operand" if len(values) == 2 else f"operand {name}"
        type = value.tensor_type
        shape = ", ".join(map(str, type.shape))
        lines.append(f"{word}, {type.dtype.name} [{shape}], is {origin(value)}")
    error.why = tuple(lines[:8])
    error.args = (str(error),)


def origin(value: IrValue) -> str:
    """What ``value`` is, and where the user made it, such as ``made by add at a.py:3``."""
    op = value.op
    if op is None:
        return f"the input {value.name!r}"
    if op.name == "mo.constant.external":
        return f"the weight {op.attrs['name']!r}"
    at = f" at {op.loc}" if op.loc is not None else ""
    return f"made by {op.name.removeprefix('mo.')}{at}"


# ---------------------------------------------------------------- operands


def is_number(x: object) -> bool:
    """Whether ``x`` is a Python or NumPy number."""
    return isinstance(x, (bool, int, float, np.generic))


def is_array(x: object) -> bool:
    """Whether ``x`` is a NumPy array or another object with data that DLPack can hand over."""
    return isinstance(x, np.ndarray) or (
        hasattr(x, "__dlpack__") and not hasattr(x, "__tensorvalue__")
    )


def is_weak(x: object) -> bool:
    """Whether ``x`` is a number, array or nested sequence, which takes the dtype of its partner."""
    if isinstance(x, Shape):  # a list by class, but the sizes are those of the graph
        return False
    return is_number(x) or isinstance(x, (list, tuple)) or is_array(x)


def literal(x: Any, dtype: DType, device: DeviceRef) -> TensorValue:
    """The constant ``x`` in ``dtype``, checked to fit.

    Raises:
        DTypeError: ML102, a value that ``dtype`` cannot hold.
    """
    if is_number(x):
        with np.errstate(over="ignore"):  # a float rounds to infinity, as in a computation
            number = check_scalar(x, dtype)
            wide = np.float64 if dtype.is_float() else dtype.ml_numpy
            array = round_to(np.asarray(number, wide), dtype)
    else:
        array = np.asarray(check_array(to_numpy(x), dtype), dtype.ml_numpy, order="C")
    return constant_array(own_copy(array, x), device)


def constant_array(array: np.ndarray[Any, Any], device: DeviceRef) -> TensorValue:
    """The constant ``array``, whose dtype is taken as it is; the array is not copied."""
    return add("constant", [], value=Constant(array), device=device)


def own_copy(array: np.ndarray[Any, Any], source: object) -> np.ndarray[Any, Any]:
    """``array``, copied when the caller could still change it through ``source``."""
    if isinstance(source, np.ndarray) and not _may_change(source):
        return array
    if is_array(source) and np.may_share_memory(array, to_numpy(source)):
        return array.copy()
    return array


def _may_change(array: np.ndarray[Any, Any]) -> bool:
    """Whether somebody may write to the memory of ``array``: it, or what it views, is writeable."""
    view: Any = array
    while isinstance(view, np.ndarray):
        if view.flags.writeable:
            return True
        view = view.base
    return False


def to_numpy(x: Any) -> np.ndarray[Any, Any]:
    """``x`` (an array, nested sequence, or DLPack object) as a NumPy array.

    Raises:
        ArgumentError: ML316, a ragged sequence.
        ArgumentTypeError: ML316, something that is no array.
        TensorError: ML413, a masked array.
    """
    check_unmasked(x)
    if isinstance(x, np.ndarray):
        return x
    if hasattr(x, "to_numpy") and hasattr(x, "__dlpack__"):
        return np.asarray(x.to_numpy())
    try:
        if hasattr(x, "__dlpack__") and not isinstance(x, np.generic):
            return np.asarray(Tensor.from_dlpack(x).to_ml_numpy())
        return np.asarray(x)
    except MaxlabError:
        raise
    except ValueError as error:
        raise ArgumentError(
            "ML316", f"the rows of {shown(x)} do not have one length", fix="make it rectangular"
        ) from error
    except (TypeError, RuntimeError, BufferError) as error:
        raise ArgumentTypeError(
            "ML316",
            f"{type(x).__name__} cannot be read as an array: {error}",
            fix="pass a NumPy array",
        ) from error


def tensor(x: Any, what: str = "the operand") -> TensorValue:
    """``x`` as a ``TensorValue``: one already, or a dim, shape, weight or array that stands for
    one.

    An array keeps its own dtype. A bare number has none, so it is refused.

    Raises:
        ArgumentTypeError: ML317, anything else.
    """
    from maxlab.graph.value import TensorValue

    if isinstance(x, TensorValue):
        if current_graph() is None:
            x._ir()  # a weight that has no graph says so, before an op that it meets does
        return x
    if isinstance(x, Dim):
        return add("dim", [], dim=x)
    if isinstance(x, Shape):
        return shape_tensor(x)
    convert = getattr(x, "__tensorvalue__", None)
    if convert is not None:
        return tensor(convert(), what)
    if is_array(x):
        array = to_numpy(x)
        DType.from_numpy(array.dtype)
        return constant_array(own_copy(np.asarray(array, order="C"), x), DeviceRef.CPU())
    raise ArgumentTypeError(
        "ML317",
        f"{what} must be a tensor of the graph, got {type(x).__name__}",
        fix="make one with ops.constant(x, DType.float32, DeviceRef.CPU())",
    )


def shape_tensor(shape: Shape) -> TensorValue:
    """The sizes of ``shape`` as an int64 tensor of rank 1."""
    if Shape.is_static(shape):
        return constant_array(np.array(shape.static_dims, np.int64), DeviceRef.CPU())
    parts = [add("unsqueeze", [add("dim", [], dim=dim)], axis=0) for dim in shape]
    return parts[0] if len(parts) == 1 else add("concat", parts, axis=0)


def known_dim(x: Any) -> Dim | None:
    """The dim whose size ``x``, a rank-0 integer tensor, always is; None when only a run can
    tell."""
    value: IrValue = x._ir()
    op = value.op
    if op is None or value.tensor_type.rank or not value.tensor_type.dtype.is_integral():
        return None
    if op.name == "mo.dim":
        found: Dim = op.attrs["dim"]
        return found
    if op.name == "mo.constant":
        return StaticDim(int(op.attrs["value"].array))
    return None


def cast(x: TensorValue, dtype: DType) -> TensorValue:
    """``x`` in ``dtype``; ``x`` itself when it is."""
    return x if x.dtype is dtype else add("cast", [x], dtype=dtype)


def as_dtype(what: str, dtype: object) -> DType:
    """``dtype``, which must be a ``DType``.

    Raises:
        ArgumentTypeError: ML399.
    """
    if not isinstance(dtype, DType):
        raise ArgumentTypeError(
            "ML399",
            f"{what}: the dtype must be a DType, got {shown(dtype)}",
            fix="use DType.float32, or DType.from_numpy(array.dtype)",
        )
    return dtype


def as_name(what: str, name: object) -> str:
    """``name``, which must be text that a file can hold.

    Raises:
        ArgumentTypeError: ML326, it is no string.
        ArgumentError: ML326, it has half of a surrogate pair.
    """
    if not isinstance(name, str):
        raise ArgumentTypeError(
            "ML326",
            f"{what} must be a string, got {shown(name)}",
            fix='pass text: "double"',
        )
    try:
        name.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ArgumentError(
            "ML326",
            f"{what} must be text that UTF-8 can write, got {shown(name)}",
            why=[f"character {error.start} is half of a surrogate pair"],
            fix="decode it with the encoding that it was written in",
        ) from error
    return name


def as_int(what: str, value: object, name: str) -> int:
    """``value`` as an int.

    Raises:
        ArgumentTypeError: ML302, not an integer.
    """
    if isinstance(value, StaticDim):
        return value.dim
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise ArgumentTypeError(
            "ML302",
            f"{what}: {name} must be an int, got {shown(value)}",
            fix="pass an int; int(x) makes one of a number that is whole",
        )
    return int(value)


def pair(what: str, lhs: Any, rhs: Any) -> tuple[TensorValue, TensorValue]:
    """Both operands of a binary op as tensors of one dtype.

    A number or array takes the dtype of its partner; two tensors are promoted to the smallest dtype
    that holds both without loss.

    Raises:
        ArgumentTypeError: ML318, neither operand is a tensor.
        DTypeError: A value that does not fit, or two dtypes that no dtype holds.
    """
    left, right = sides(what, lhs, rhs)
    if left is None:
        assert right is not None
        return literal(lhs, right.dtype, right.device), right
    if right is None:
        return left, literal(rhs, left.dtype, left.device)
    if left.dtype is not right.dtype:
        dtype = _common(left, right)
        left, right = cast(left, dtype), cast(right, dtype)
    return left, right


def _common(left: TensorValue, right: TensorValue) -> DType:
    try:
        return promote(left.dtype, right.dtype)
    except DTypeError as error:
        explain(error, [left._ir(), right._ir()])
        raise


def float_pair(what: str, lhs: Any, rhs: Any) -> tuple[TensorValue, TensorValue]:
    """As ``pair``, with integers turned into float64 once they have a common dtype.

    Raises:
        ArgumentTypeError: ML318, neither operand is a tensor.
        DTypeError: As ``pair``, and ML106 for bools.
    """
    left, right = sides(what, lhs, rhs)
    if left is not None and right is not None:
        dtype = _common(left, right)
    else:
        dtype = (left if left is not None else right).dtype  # type: ignore[union-attr]
    if dtype is DType.bool:
        raise DTypeError(
            "ML106", f"{what} needs numbers, got bool", fix="cast it: ops.cast(x, DType.int32)"
        )
    if not dtype.is_float():
        dtype = DType.float64
    device = (left if left is not None else right).device  # type: ignore[union-attr]
    return (
        literal(lhs, dtype, device) if left is None else cast(left, dtype),
        literal(rhs, dtype, device) if right is None else cast(right, dtype),
    )


def sides(what: str, lhs: Any, rhs: Any) -> tuple[TensorValue | None, TensorValue | None]:
    """Both operands as tensors; None for the one that is only a number or an array.

    Raises:
        ArgumentTypeError: ML318, neither operand is a tensor; ML317, an operand is no such thing.
    """
    left_weak, right_weak = is_weak(lhs), is_weak(rhs)
    if left_weak and right_weak:
        raise ArgumentTypeError(
            "ML318",
            f"{what}: neither operand is a tensor of the graph "
            f"({type(lhs).__name__} and {type(rhs).__name__})",
            fix="make one with ops.constant, or compute it with Python or NumPy",
        )
    return (
        None if left_weak else tensor(lhs, f"{what}: the left operand"),
        None if right_weak else tensor(rhs, f"{what}: the right operand"),
    )
