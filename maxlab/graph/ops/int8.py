"""Products with weights of signed bytes."""

from __future__ import annotations

from typing import Literal

import numpy as np

from maxlab.dtype import DType
from maxlab.graph.build import add as add_op
from maxlab.graph.build import cast, constant_array, staged, tensor
from maxlab.graph.ops.creation import constant
from maxlab.graph.ops.shaping import broadcast_to
from maxlab.graph.value import TensorValue, TensorValueLike

Activation = Literal[
    "none", "relu", "gelu", "gelu_tanh", "gelu_quick", "silu", "sigmoid", "tanh"
]  # fmt: skip


@staged
def matmul_int8(
    lhs: TensorValueLike,
    rhs: TensorValueLike,
    scales: TensorValueLike,
    bias: TensorValueLike | None = None,
    given: TensorValueLike | None = None,
    *,
    activation: Activation = "none",
) -> TensorValue:
    """The product of ``lhs`` and the transpose of a matrix of signed bytes times its scales, plus a
    bias, in float32.

    Both sides are multiplied as bytes, and their sums are integers, which are exact. Left rows of
    floats become bytes first: a byte ``q`` from 0 to 255 stands for ``(q - zero) * scale``.

    Args:
        lhs: A tensor ``[..., k]``: floats, which are cast to float32, or bytes, uint8 or int8.
        rhs: An int8 tensor ``[n, k]``. The result is ``[..., n]``.
        scales: Floats ``[n]``: a row ``r`` of ``rhs`` stands for ``rhs[r] * scales[r]``.
        bias: Floats ``[n]``, which are added to the products.
        given: ``[scale, zero]`` of all of ``lhs``, which bytes need. Numbers outside the range of a
            byte become its ends. Without it, each row of floats has the scale and the zero by
            which its least and its largest number, and 0, are bytes.
        activation: What is done to the results then. On a CPU ``"gelu"`` is off by up to 4e-7 of
            its input, about a thousandth of what bytes are off.

    A row with a NaN gives NaN. So do all rows where the scale that is given is not above 0, and
    without one a row with an infinity.

    Raises:
        ArgumentTypeError: ML738, wrong dtypes.
        ArgumentError: ML230, no such activation; ML304, operands on different devices.
        ShapeError: ML739, wrong ranks; ML741, sizes that do not fit; ML231, a ``k`` above 65536,
            whose sums would not be exact, or a ``given`` that is not a scale and a zero. Where
            sizes are known only when the model runs, the run raises an InputError.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> x = TensorType(DType.float32, ["batch", 256])
        >>> w = TensorType(DType.int8, [512, 256])
        >>> scales = TensorType(DType.float32, [512])
        >>> with Graph("linear", input_types=[x, w, scales]) as graph:
        ...     ops.matmul_int8(*graph.inputs, activation="relu").shape
        [Dim('batch'), Dim(512)]
    """
    what = "matmul_int8"
    x, w = tensor(lhs, f"{what}: lhs"), tensor(rhs, f"{what}: rhs")
    x = cast(x, DType.float32) if _is_wide(x) else x
    factors = _floats(scales, f"{what}: scales")
    if bias is None:
        zero = constant(0.0, DType.float32, device=x.device)
        added = broadcast_to(zero, [w.shape[0] if w.rank else 1])
    else:
        added = _floats(bias, f"{what}: bias")
    if given is None:
        numbers = constant_array(np.zeros(0, np.float32), x.device)
    else:
        numbers = _floats(given, f"{what}: given")
    return add_op(what, [x, w, factors, added, numbers], activation=activation)


def _is_wide(x: TensorValue) -> bool:
    """Whether the elements of ``x`` are floats of 16 bits or more."""
    return x.dtype.is_float() and not x.dtype.is_float8()


def _floats(x: TensorValueLike, what: str) -> TensorValue:
    made = tensor(x, what)
    return cast(made, DType.float32) if _is_wide(made) else made


__all__ = ["matmul_int8"]
