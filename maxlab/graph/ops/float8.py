"""Products with weights of 8-bit floats."""

from __future__ import annotations

from maxlab.dtype import DType
from maxlab.graph.build import add as add_op
from maxlab.graph.build import cast, staged, tensor
from maxlab.graph.value import TensorValue, TensorValueLike


@staged
def matmul_float8(
    lhs: TensorValueLike,
    rhs: TensorValueLike,
    scales: TensorValueLike,
    rows: int = 0,
    columns: int = 0,
) -> TensorValue:
    """The product of ``lhs`` and the transpose of a matrix of 8-bit floats times its scales, in
    float32.

    The matrix stays bytes in memory: its numbers are made as they are needed, and sums are float32.

    Args:
        lhs: A float32 tensor ``[..., k]``.
        rhs: A float8_e4m3fn or float8_e4m3fnuz tensor ``[n, k]``. The result is ``[..., n]``.
        scales: Floats, one for each block: ``[ceil(n / rows), ceil(k / columns)]``.
        rows: The rows of a block; 0 when all rows are in one.
        columns: The columns of a block; 0 when all columns are in one.

    Raises:
        ArgumentTypeError: ML738, wrong dtypes.
        ArgumentError: ML737, a negative size of a block; ML304, operands on different devices.
        ShapeError: ML739, wrong ranks; ML741, sizes that do not fit. Where that is known only when
            the model runs, the run raises an InputError.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> x = TensorType(DType.float32, ["batch", 256])
        >>> w = TensorType(DType.float8_e4m3fn, [512, 256])
        >>> scales = TensorType(DType.float32, [4, 2])
        >>> with Graph("linear", input_types=[x, w, scales]) as graph:
        ...     ops.matmul_float8(*graph.inputs, rows=128, columns=128).shape
        [Dim('batch'), Dim(512)]
    """
    operands = _operands("matmul_float8", lhs=lhs, rhs=rhs, scales=scales)
    return add_op("matmul_float8", operands, rows=rows, columns=columns)


@staged
def matmul_float8_ragged(
    lhs: TensorValueLike,
    rhs: TensorValueLike,
    scales: TensorValueLike,
    starts: TensorValueLike,
    ids: TensorValueLike,
    count: TensorValueLike,
    rows: int = 0,
    columns: int = 0,
) -> TensorValue:
    """Products of groups of rows, each with a matrix of its own, as ``matmul_float8`` makes them.

    Args:
        lhs: A float32 tensor ``[tokens, k]``.
        rhs: The matrices, ``[matrices, n, k]``. The result is ``[tokens, n]``.
        scales: Floats ``[matrices, ceil(n / rows), ceil(k / columns)]``.
        starts: Where the rows of each group begin and where the last one ends, uint32
            ``[groups + 1]``. Rows of no group give 0.
        ids: The matrix of each group, int32 ``[groups]``; the rows of a negative one give 0.
        count: How many of the groups count, uint32 of rank 0.
        rows: The rows of a block; 0 when all rows of a matrix are in one.
        columns: The columns of a block; 0 when all columns are in one.

    Raises:
        ArgumentTypeError: ML738, wrong dtypes.
        ArgumentError: ML737, a negative size of a block; ML304, operands on different devices.
        ShapeError: ML739, wrong ranks; ML741, sizes that do not fit. Where that is known only when
            the model runs, the run raises an InputError.

    Groups that overlap or do not ascend, and matrices that are not there, end the run: an
    ExecutionError, ML652.

    Example:
        >>> import numpy as np
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> x = TensorType(DType.float32, ["tokens", 256])
        >>> w = TensorType(DType.float8_e4m3fn, [8, 512, 256])
        >>> scales = TensorType(DType.float32, [8, 4, 2])
        >>> starts, ids = np.array([0, 3, 5], np.uint32), np.array([6, 1], np.int32)
        >>> with Graph("experts", input_types=[x, w, scales]) as graph:
        ...     given = (*graph.inputs, starts, ids, np.array(2, np.uint32))
        ...     ops.matmul_float8_ragged(*given, rows=128, columns=128).shape
        [Dim('tokens'), Dim(512)]
    """
    what = "matmul_float8_ragged"
    operands = _operands(what, lhs=lhs, rhs=rhs, scales=scales, starts=starts, ids=ids, count=count)
    return add_op(what, operands, rows=rows, columns=columns)


def _operands(what: str, **given: TensorValueLike) -> list[TensorValue]:
    """``given`` as tensors, scales as float32."""
    made = [tensor(x, f"{what}: {name}") for name, x in given.items()]
    if made[2].dtype.is_float() and not made[2].dtype.is_float8():
        made[2] = cast(made[2], DType.float32)
    return made


__all__ = ["matmul_float8", "matmul_float8_ragged"]
