"""Elementwise ops of one operand: rounding, roots, transcendental functions, activations."""

from __future__ import annotations

from typing import Final

from maxlab.graph.build import add as add_op
from maxlab.graph.build import staged, tensor
from maxlab.graph.value import TensorValue, TensorValueLike
from maxlab.opset.facts import Family

FAMILY: Final[Family] = "elementwise"
"""Of the functions here that are no rows of the op table themselves."""


def _unary(name: str, x: TensorValueLike) -> TensorValue:
    return add_op(name, [tensor(x, f"{name}: the operand")])


@staged
def abs(x: TensorValueLike) -> TensorValue:
    """The absolute value of each element, in the shape and dtype of ``x``.

    Args:
        x: A tensor of numbers, of any shape.

    Raises:
        DTypeError: ML106, ``x`` is a bool tensor.
        ArgumentTypeError: ML317, ``x`` is not a tensor of the graph.
    """
    return _unary("abs", x)


@staged
def negate(x: TensorValueLike) -> TensorValue:
    """Each element with its sign changed, in the shape and dtype of ``x``; unsigned integers wrap.

    Args:
        x: A tensor of numbers, of any shape.

    Raises:
        DTypeError: ML106, ``x`` is a bool tensor.
        ArgumentTypeError: ML317, ``x`` is not a tensor of the graph.
    """
    return _unary("negate", x)


@staged
def floor(x: TensorValueLike) -> TensorValue:
    """Each element rounded towards minus infinity, in the shape and dtype of ``x``; integers stay
    as they are.

    Args:
        x: A tensor of numbers, of any shape.

    Raises:
        DTypeError: ML106, ``x`` is a bool tensor.
        ArgumentTypeError: ML317, ``x`` is not a tensor of the graph.
    """
    return _unary("floor", x)


@staged
def round(x: TensorValueLike) -> TensorValue:
    """Each element rounded to the nearest integer, halves to even, in the shape and dtype of ``x``.

    Args:
        x: A tensor of numbers, of any shape.

    Raises:
        DTypeError: ML106, ``x`` is a bool tensor.
        ArgumentTypeError: ML317, ``x`` is not a tensor of the graph.
    """
    return _unary("round", x)


@staged
def trunc(x: TensorValueLike) -> TensorValue:
    """Each element rounded towards zero, in the shape and dtype of ``x``; integers stay as they
    are.

    Args:
        x: A tensor of numbers, of any shape.

    Raises:
        DTypeError: ML106, ``x`` is a bool tensor.
        ArgumentTypeError: ML317, ``x`` is not a tensor of the graph.
    """
    return _unary("trunc", x)


@staged
def relu(x: TensorValueLike) -> TensorValue:
    """The larger of each element and 0, in the shape and dtype of ``x``; NaN stays NaN.

    Args:
        x: A tensor of numbers, of any shape.

    Raises:
        DTypeError: ML106, ``x`` is a bool tensor.
        ArgumentTypeError: ML317, ``x`` is not a tensor of the graph.
    """
    return _unary("relu", x)


@staged
def sqrt(x: TensorValueLike) -> TensorValue:
    """The square root of each element, in the shape and dtype of ``x``; NaN for negative elements.

    Args:
        x: A float tensor of any shape.

    Raises:
        DTypeError: ML107, ``x`` is not a float tensor.
        ArgumentTypeError: ML317, ``x`` is not a tensor of the graph.
    """
    return _unary("sqrt", x)


@staged
def rsqrt(x: TensorValueLike) -> TensorValue:
    """One over the square root of each element, in the shape and dtype of ``x``.

    Args:
        x: A float tensor of any shape.

    Raises:
        DTypeError: ML107, ``x`` is not a float tensor.
        ArgumentTypeError: ML317, ``x`` is not a tensor of the graph.
    """
    return _unary("rsqrt", x)


@staged
def exp(x: TensorValueLike) -> TensorValue:
    """e to the power of each element, in the shape and dtype of ``x``.

    Args:
        x: A float tensor of any shape.

    Raises:
        DTypeError: ML107, ``x`` is not a float tensor.
        ArgumentTypeError: ML317, ``x`` is not a tensor of the graph.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> with Graph("g", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        ...     graph.output(ops.exp(graph.inputs[0]))
        >>> graph.output_types[0].shape
        [Dim('n')]
    """
    return _unary("exp", x)


@staged
def log(x: TensorValueLike) -> TensorValue:
    """The natural logarithm of each element, in the shape and dtype of ``x``; -inf for 0, NaN
    below.

    Args:
        x: A float tensor of any shape.

    Raises:
        DTypeError: ML107, ``x`` is not a float tensor.
        ArgumentTypeError: ML317, ``x`` is not a tensor of the graph.
    """
    return _unary("log", x)


@staged
def log1p(x: TensorValueLike) -> TensorValue:
    """log(1 + x) of each element, exact near 0, in the shape and dtype of ``x``.

    Args:
        x: A float tensor of any shape.

    Raises:
        DTypeError: ML107, ``x`` is not a float tensor.
        ArgumentTypeError: ML317, ``x`` is not a tensor of the graph.
    """
    return _unary("log1p", x)


@staged
def erf(x: TensorValueLike) -> TensorValue:
    """The error function of each element, in the shape and dtype of ``x``.

    Args:
        x: A float tensor of any shape.

    Raises:
        DTypeError: ML107, ``x`` is not a float tensor.
        ArgumentTypeError: ML317, ``x`` is not a tensor of the graph.
    """
    return _unary("erf", x)


@staged
def sin(x: TensorValueLike) -> TensorValue:
    """The sine of each element, in radians, in the shape and dtype of ``x``.

    Args:
        x: A float tensor of any shape.

    Raises:
        DTypeError: ML107, ``x`` is not a float tensor.
        ArgumentTypeError: ML317, ``x`` is not a tensor of the graph.
    """
    return _unary("sin", x)


@staged
def cos(x: TensorValueLike) -> TensorValue:
    """The cosine of each element, in radians, in the shape and dtype of ``x``.

    Args:
        x: A float tensor of any shape.

    Raises:
        DTypeError: ML107, ``x`` is not a float tensor.
        ArgumentTypeError: ML317, ``x`` is not a tensor of the graph.
    """
    return _unary("cos", x)


@staged
def tanh(x: TensorValueLike) -> TensorValue:
    """The hyperbolic tangent of each element, in the shape and dtype of ``x``.

    Args:
        x: A float tensor of any shape.

    Raises:
        DTypeError: ML107, ``x`` is not a float tensor.
        ArgumentTypeError: ML317, ``x`` is not a tensor of the graph.
    """
    return _unary("tanh", x)


@staged
def atanh(x: TensorValueLike) -> TensorValue:
    """The inverse hyperbolic tangent of each element, in the shape and dtype of ``x``.

    Args:
        x: A float tensor of any shape.

    Raises:
        DTypeError: ML107, ``x`` is not a float tensor.
        ArgumentTypeError: ML317, ``x`` is not a tensor of the graph.
    """
    return _unary("atanh", x)


@staged
def acos(x: TensorValueLike) -> TensorValue:
    """The arc cosine of each element, in [0, π] radians, in the shape and dtype of ``x``.

    Elements outside of [-1, 1] are clamped into it first; NaN stays NaN.

    Args:
        x: A float tensor of any shape.

    Raises:
        DTypeError: ML107, ``x`` is not a float tensor.
        ArgumentTypeError: ML317, ``x`` is not a tensor of the graph.
    """
    return _unary("acos", x)


@staged
def sigmoid(x: TensorValueLike) -> TensorValue:
    """1 / (1 + exp(-x)) of each element, in the shape and dtype of ``x``.

    Args:
        x: A float tensor of any shape.

    Raises:
        DTypeError: ML107, ``x`` is not a float tensor.
        ArgumentTypeError: ML317, ``x`` is not a tensor of the graph.
    """
    return _unary("sigmoid", x)


@staged
def silu(x: TensorValueLike) -> TensorValue:
    """x * sigmoid(x) of each element, in the shape and dtype of ``x``.

    Args:
        x: A float tensor of any shape.

    Raises:
        DTypeError: ML107, ``x`` is not a float tensor.
        ArgumentTypeError: ML317, ``x`` is not a tensor of the graph.
    """
    return _unary("silu", x)


@staged
def is_nan(x: TensorValueLike) -> TensorValue:
    """Whether each element is NaN: a bool tensor of the shape of ``x``.

    Args:
        x: A float tensor of any shape.

    Raises:
        DTypeError: ML107, ``x`` is not a float tensor.
        ArgumentTypeError: ML317, ``x`` is not a tensor of the graph.
    """
    return _unary("is_nan", x)


@staged
def is_inf(x: TensorValueLike) -> TensorValue:
    """Whether each element is plus or minus infinity: a bool tensor of the shape of ``x``.

    Args:
        x: A float tensor of any shape.

    Raises:
        DTypeError: ML107, ``x`` is not a float tensor.
        ArgumentTypeError: ML317, ``x`` is not a tensor of the graph.
    """
    return _unary("is_inf", x)


@staged
def logical_not(x: TensorValueLike) -> TensorValue:
    """The negation of each bool: a bool tensor of the shape of ``x``.

    Args:
        x: A bool tensor of any shape.

    Raises:
        DTypeError: ML108, ``x`` is not a bool tensor.
        ArgumentTypeError: ML317, ``x`` is not a tensor of the graph.
    """
    return _unary("logical_not", x)


@staged
def gelu(x: TensorValueLike, approximate: str = "none") -> TensorValue:
    """The Gaussian error linear unit of each element, in the shape and dtype of ``x``.

    Args:
        x: A float tensor of any shape.
        approximate: ``"none"`` for x * Φ(x), ``"tanh"`` for the approximation with tanh,
            ``"quick"`` for x * sigmoid(1.702 * x).

    Raises:
        ArgumentError: ML305, another approximation.
        DTypeError: ML107, ``x`` is not a float tensor.
        ArgumentTypeError: ML317, ``x`` is not a tensor of the graph.
    """
    return add_op("gelu", [tensor(x, "gelu: the operand")], approximate=approximate)
