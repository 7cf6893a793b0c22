"""Ops that bring data into a graph: constants, weights and ranges."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from maxlab.dtype import DType, check_scalar, round_to
from maxlab.errors import ArgumentError, ArgumentTypeError, DTypeError
from maxlab.graph.build import (
    add as add_op,
)
from maxlab.graph.build import (
    as_dtype,
    as_name,
    builder,
    cast,
    constant_array,
    is_array,
    known_dim,
    literal,
    own_copy,
    shape_tensor,
    staged,
    tensor,
    to_numpy,
)
from maxlab.graph.ops.dynamic import bind_dim, to_device
from maxlab.graph.value import DLPackArray, TensorValue, TensorValueLike, Value
from maxlab.ir import DeviceRef, Dim, DimLike, Shape, StaticDim, TensorType
from maxlab.opset.data import range_size
from maxlab.opset.dynamic import out_dim_of
from maxlab.opset.facts import Family

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

FAMILY: Final[Family] = "source"
"""Of the functions here that are no rows of the op table themselves."""


@staged
def constant(
    value: DLPackArray | np.ndarray[Any, Any] | Sequence[Any] | float | np.number[Any],
    dtype: DType | None = None,
    device: Any = None,
) -> TensorValue:
    """A tensor with the data of ``value``, kept in the graph.

    The data is converted to ``dtype``. Floats are rounded to a float dtype (16777217 becomes
    16777216 in float32), but a value that is out of the range of ``dtype``, or that is no integer
    for an integer dtype, is an error. An array that somebody could change later is copied.

    Args:
        value: A number, a nested sequence of numbers, or an array.
        dtype: The dtype of the tensor; an array's own one when it is left out.
        device: The device of the tensor; the CPU for an array when it is left out.

    Raises:
        ArgumentTypeError: ML332, a number or sequence without ``dtype`` and ``device``; ML316, not
            an array.
        ArgumentError: ML316, a ragged sequence.
        DTypeError: ML102, a value that ``dtype`` cannot hold; ML103, not numbers.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import DeviceRef, Graph, ops
        >>> with Graph("g"):
        ...     ops.constant([[1, 2], [3, 4]], DType.float32, DeviceRef.CPU())
        TensorValue(dtype=DType.float32, shape=[Dim(2), Dim(2)], device=cpu:0)
    """
    if not (is_array(value) or isinstance(value, np.generic)) and (dtype is None or device is None):
        raise ArgumentTypeError(
            "ML332",
            "constant: a number or sequence has neither a dtype nor a device",
            fix="ops.constant(value, DType.float32, DeviceRef.CPU())",
        )
    array = to_numpy(value)
    if array.dtype.kind in "OSU":
        raise ArgumentTypeError(
            "ML316",
            f"constant: {type(value).__name__} {value!r} is not made of numbers",
            fix="pass numbers, nested sequences of numbers, or an array",
        )
    target = DType.from_numpy(array.dtype) if dtype is None else as_dtype("constant", dtype)
    converted = np.asarray(_converted(array, target), order="C")
    place = DeviceRef.CPU() if device is None else DeviceRef.from_device(device)
    return constant_array(own_copy(converted, value), place)


def _converted(array: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    source = DType.from_numpy(array.dtype)
    if source is dtype:
        return array
    target = dtype.ml_numpy
    with np.errstate(all="ignore"):
        if dtype.is_float():
            made = round_to(array, dtype)
            exact = made.astype(np.float64)
            was = array.astype(np.float64)
            bad = np.isfinite(was) & ~np.isfinite(exact)
            if dtype is DType.float8_e8m0fnu:
                bad |= was <= 0
        elif source.is_float():
            wide = array.astype(np.float64)
            # float(highest) rounds up to a power of two for 64 bits: strictly below is then exact
            bad = ~((wide == np.trunc(wide)) & (wide >= dtype.lowest) & (wide < dtype.largest + 1))
            made = array.astype(target)
        else:
            # NumPy compares integers of different signs by value
            bad = (array < dtype.lowest) | (array > dtype.largest)
            made = array.astype(target)
    if np.any(bad):
        value = array[bad].ravel()[0]
        raise DTypeError(
            "ML102",
            f"constant: the value {value} cannot become {dtype.name}, "
            f"which holds {dtype.lowest} to {dtype.largest}",
            fix="use a wider dtype, or round and clip the value first",
        )
    return made


@staged
def constant_external(name: str, type: TensorType) -> TensorValue:
    """The tensor that the weights registry has under ``name`` when the model is loaded.

    Args:
        name: The full name of the weight. The same name with the same type is the same weight; with
            another type it is refused when the model is loaded (ML745).
        type: Its dtype, shape and device.

    Raises:
        ArgumentTypeError: ML333, ``name`` is not a string or ``type`` is not a ``TensorType``.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> with Graph("g"):
        ...     w = ops.constant_external("w", TensorType(DType.float32, [4, 4]))
    """
    if not isinstance(name, str) or not isinstance(type, TensorType):
        raise ArgumentTypeError(
            "ML333",
            f"constant_external: expected a name and a TensorType, got {name!r} and {type!r}",
            fix='ops.constant_external("w", TensorType(DType.float32, [4], DeviceRef.CPU()))',
        )
    as_name("the name of a weight", name)
    return add_op("constant.external", [], name=name, type=type, placeholder=False)


@staged
def shape_to_tensor(shape: Iterable[DimLike]) -> TensorValue:
    """The sizes of ``shape`` as an int64 tensor ``[rank]`` on the CPU.

    Args:
        shape: Ints, names and dims.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> with Graph("g", input_types=[TensorType(DType.float32, ["n", 3])]) as graph:
        ...     ops.shape_to_tensor(graph.inputs[0].tensor.shape).shape
        [Dim(2)]
    """
    return shape_tensor(Shape(shape))


# ---------------------------------------------------------------- range
@staged
def range(
    start: TensorValueLike,
    stop: TensorValueLike,
    step: TensorValueLike = 1,
    out_dim: DimLike | None = None,
    *,
    dtype: DType | None = None,
    device: Any,
) -> TensorValue:
    """``start``, ``start + step``, … up to but not including ``stop``, of rank 1.

    The size is ``ceil((stop - start) / step)``, computed from the bounds: ``range(0, n * 2, 2)``
    has the size ``n``. When a bound is a tensor that is computed, the size is computed too, and
    ``out_dim`` names it.

    Args:
        start: The first element: a number, a dim, or a tensor of rank 0.
        stop: The bound, which is not reached; as ``start``.
        step: The distance of two elements, a number other than 0 with the sign of ``stop - start``,
            or a tensor of rank 0 that is one.
        out_dim: The dim of the result; needed when a bound is a tensor. A new name is defined by
            the size of a range with a computed bound, everything else is asserted to be its size.
        dtype: The dtype of the result, and of every bound that is computed. When it is left out,
            that of the first tensor or dim (int64) among the bounds, or float32 for numbers alone.
        device: The device of the result.

    Raises:
        ArgumentError: ML334, ``step`` is 0 or has the wrong sign; ML335, a tensor bound without
            ``out_dim``; ML728, ``out_dim`` is negative.
        ArgumentTypeError: ML335, a bound that is no number; ML317, no tensor of the graph.
        ShapeError: ML209, a bound that is not of rank 0.
        DTypeError: ML102, ``dtype`` cannot hold the elements; ML110, a computed bound has another
            dtype.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import DeviceRef, Graph, TensorType, ops
        >>> with Graph("g", input_types=[TensorType(DType.float32, ["n", 3])]) as graph:
        ...     n = graph.inputs[0].tensor.shape[0]
        ...     ops.range(0, n * 2, 2, dtype=DType.int64, device=DeviceRef.CPU()).shape
        [Dim('n')]
    """
    builder(what="ops.range")
    dtype = _range_dtype((start, stop, step)) if dtype is None else as_dtype("range", dtype)
    place = DeviceRef.from_device(device)
    if out_dim is None and any(_is_tensor(x) for x in (start, stop, step)):
        raise ArgumentError(
            "ML335",
            "range: the size of a range with a tensor bound needs a name",
            fix="pass out_dim, or use ints and dims such as x.shape[0] as bounds",
        )
    if any(_is_tensor(x) and _known(x) is None for x in (start, stop, step)):
        assert out_dim is not None
        return _computed_range([start, stop, step], out_dim_of(out_dim), dtype, place)
    bounds = [_bound(x) for x in (start, stop, step)]
    if any(isinstance(x, float) for x in bounds):
        made = _float_range(bounds, dtype, place)
    else:
        first, last, by = (x for x in bounds if isinstance(x, Dim))
        made = _int_range(first, last, by, dtype, place)
    if out_dim is not None and made.shape[0] != Dim(out_dim):
        made = add_op(
            "rebind", [made], shape=Shape([out_dim]), message="range: out_dim", layout=None
        )
    return made


def _range_dtype(bounds: Sequence[Any]) -> DType:
    """The dtype of a range that was given none."""
    for x in bounds:
        if _is_tensor(x):
            return tensor(x).dtype
        if isinstance(x, Dim):
            return DType.int64
    return DType.float32


def _is_tensor(x: Any) -> bool:
    return isinstance(x, Value) or hasattr(x, "__tensorvalue__")


def _known(x: Any) -> Dim | None:
    """The dim that the tensor ``x`` always is; None when only a run can tell."""
    convert = getattr(x, "__tensorvalue__", None)
    return known_dim(x if convert is None else convert())


def _computed_range(bounds: list[Any], dim: Dim, dtype: DType, device: DeviceRef) -> TensorValue:
    """The range whose size is computed where its first tensor bound lives."""
    place = next(tensor(x).device for x in bounds if _is_tensor(x))
    values = []
    for x in bounds:
        if isinstance(x, Dim) or (_is_tensor(x) and _known(x) is not None):
            values.append(to_device(cast(tensor(x), dtype), place))
        elif _is_tensor(x):
            bound = tensor(x)
            if bound.dtype is not dtype:
                raise DTypeError(
                    "ML110",
                    f"range: a bound is {bound.dtype.name}, the range {dtype.name}",
                    fix="cast the bound with ops.cast, or give its dtype",
                )
            values.append(to_device(bound, place))
        else:
            number = _bound(x)
            values.append(literal(int(number) if isinstance(number, Dim) else number, dtype, place))
    size = add_op("range.size", values)
    sign = "the step is 0, or does not lead from start to stop"
    size = bind_dim(size, dim, "range", sign)
    values = [to_device(x, device) for x in values]
    return add_op("range", values, start=Dim(0), step=Dim(1), size=dim, dtype=dtype, device=device)


def _bound(x: Any) -> Dim | float:
    if _is_tensor(x):
        found = _known(x)
        assert found is not None, "other tensors make a range whose size is computed"
        return found
    if isinstance(x, np.ndarray) and x.ndim == 0:
        x = x[()]
    if isinstance(x, (float, np.floating)):
        return float(x)
    if isinstance(x, bool) or not isinstance(x, (int, Dim, np.integer)):
        raise ArgumentTypeError(
            "ML335",
            f"range: a bound is a number or a dim, got {type(x).__name__}",
            fix="use ints and dims such as x.shape[0] as bounds",
        )
    return Dim(x)


def _bad_step(what: str) -> ArgumentError:
    return ArgumentError(
        "ML334",
        f"range: {what}",
        fix="the step must not be 0, and stop - start must be 0 or have its sign",
    )


def _int_range(start: Dim, stop: Dim, step: Dim, dtype: DType, device: DeviceRef) -> TensorValue:
    if not isinstance(step, StaticDim):
        raise ArgumentTypeError(
            "ML335", f"range: the step {step} is not a number", fix="multiply the range instead"
        )
    if step.dim == 0:
        raise _bad_step("the step is 0")
    distance = stop - start
    if isinstance(distance, StaticDim) and distance.dim * step.dim < 0:
        raise _bad_step(f"the step {step} does not lead from {start} to {stop}")
    size = range_size(start, stop, step.dim)
    if isinstance(start, StaticDim) and isinstance(size, StaticDim) and size.dim:
        check_scalar(start.dim, dtype)
        check_scalar(start.dim + (size.dim - 1) * step.dim, dtype)
    return add_op("range", [], start=start, step=step, size=size, dtype=dtype, device=device)


def _float_range(bounds: list[Dim | float], dtype: DType, device: DeviceRef) -> TensorValue:
    """``start + index * step`` in ``dtype``; the size follows from the Python floats."""
    numbers = [x if isinstance(x, float) else float(int(x)) for x in bounds]
    start, stop, step = numbers
    if not all(map(math.isfinite, numbers)):
        raise _bad_step("the bounds and the step must be finite")
    if not dtype.is_float():
        check_scalar(next(x for x in bounds if isinstance(x, float)), dtype)  # raises
    if step == 0:
        raise _bad_step("the step is 0")
    if (stop - start) * step < 0:
        raise _bad_step(f"the step {step} does not lead from {start} to {stop}")
    size = Dim(math.ceil((stop - start) / step))
    index = add_op("range", [], start=Dim(0), step=Dim(1), size=size, dtype=dtype, device=device)
    scaled = add_op("mul", [index, literal(step, dtype, device)])
    return add_op("add", [scaled, literal(start, dtype, device)])
