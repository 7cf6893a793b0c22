"""Activations of ``torch.nn.functional``, with its names, arguments and defaults, by composition.

Each takes a float tensor and returns one of its shape and dtype.
"""

from __future__ import annotations

from typing import Final

from maxlab.errors import ArgumentError
from maxlab.graph.build import staged, tensor
from maxlab.graph.ops import elementwise, joining, naming, unary
from maxlab.graph.value import TensorValue, TensorValueLike
from maxlab.opset.facts import Family

FAMILY: Final[Family] = "activation"
"""Of the functions here that are no rows of the op table themselves."""


def _gated(x: TensorValue, otherwise: TensorValueLike) -> TensorValue:
    """``x`` where it is positive, ``otherwise`` elsewhere."""
    return elementwise.where(elementwise.greater(x, 0), x, otherwise)


@staged
def leaky_relu(x: TensorValueLike, negative_slope: float = 0.01) -> TensorValue:
    """``x`` where it is positive, ``negative_slope * x`` elsewhere."""
    value = tensor(x, "leaky_relu: the operand")
    return _gated(value, elementwise.mul(value, negative_slope))


@staged
def elu(x: TensorValueLike, alpha: float = 1.0) -> TensorValue:
    """``x`` where it is positive, ``alpha * (exp(x) - 1)`` elsewhere."""
    value = tensor(x, "elu: the operand")
    low = naming.expm1(elementwise.elementwise_min(value, 0))
    return _gated(value, elementwise.mul(low, alpha))


@staged
def celu(x: TensorValueLike, alpha: float = 1.0) -> TensorValue:
    """``x`` where it is positive, ``alpha * (exp(x / alpha) - 1)`` elsewhere."""
    value = tensor(x, "celu: the operand")
    low = elementwise.div(elementwise.elementwise_min(value, 0), alpha)
    return _gated(value, elementwise.mul(naming.expm1(low), alpha))


@staged
def selu(x: TensorValueLike) -> TensorValue:
    """``elu`` with the slope and scale that keep mean 0 and variance 1 through layers."""
    return elementwise.mul(elu(x, 1.6732632423543772), 1.0507009873554805)


@staged
def relu6(x: TensorValueLike) -> TensorValue:
    """``x`` cut to 0 to 6."""
    return naming.clip(x, 0, 6)


@staged
def hardtanh(x: TensorValueLike, min_val: float = -1.0, max_val: float = 1.0) -> TensorValue:
    """``x`` cut to ``min_val`` to ``max_val``."""
    return naming.clip(x, min_val, max_val)


@staged
def hardsigmoid(x: TensorValueLike) -> TensorValue:
    """``x / 6 + 1/2``, cut to 0 to 1."""
    value = tensor(x, "hardsigmoid: the operand")
    return elementwise.div(naming.clip(elementwise.add(value, 3.0), 0, 6), 6.0)


@staged
def hardswish(x: TensorValueLike) -> TensorValue:
    """``x * hardsigmoid(x)``."""
    value = tensor(x, "hardswish: the operand")
    return elementwise.mul(value, hardsigmoid(value))


@staged
def softplus(x: TensorValueLike, beta: float = 1.0) -> TensorValue:
    """``log(1 + exp(beta * x)) / beta``, which overflows nowhere."""
    scaled = elementwise.mul(tensor(x, "softplus: the operand"), beta)
    tail = unary.log1p(unary.exp(unary.negate(unary.abs(scaled))))
    return elementwise.div(elementwise.add(unary.relu(scaled), tail), beta)


@staged
def logsigmoid(x: TensorValueLike) -> TensorValue:
    """The logarithm of ``sigmoid``, computed without forming it."""
    return unary.negate(softplus(unary.negate(x)))


@staged
def softsign(x: TensorValueLike) -> TensorValue:
    """``x / (1 + abs(x))``."""
    value = tensor(x, "softsign: the operand")
    return elementwise.div(value, elementwise.add(unary.abs(value), 1.0))


@staged
def mish(x: TensorValueLike) -> TensorValue:
    """``x * tanh(softplus(x))``."""
    value = tensor(x, "mish: the operand")
    return elementwise.mul(value, unary.tanh(softplus(value)))


@staged
def tanhshrink(x: TensorValueLike) -> TensorValue:
    """``x - tanh(x)``."""
    value = tensor(x, "tanhshrink: the operand")
    return elementwise.sub(value, unary.tanh(value))


@staged
def glu(x: TensorValueLike, dim: int = -1) -> TensorValue:
    """The first half along ``dim`` times the ``sigmoid`` of the second."""
    first, second = joining.chunk(x, 2, dim)
    return elementwise.mul(first, unary.sigmoid(second))


@staged
def dropout(x: TensorValueLike, p: float = 0.5, training: bool = False) -> TensorValue:
    """``x`` itself: graphs are run for inference, where dropout drops nothing.

    Raises:
        ArgumentError: ML968, ``training`` is true.
    """
    if training:
        raise ArgumentError(
            "ML968",
            f"dropout: graphs do not train, so nothing is dropped with probability {p}",
            fix="write ops.dropout(x, training=False), or leave it out",
        )
    return tensor(x, "dropout: the operand")


__all__ = [
    "celu",
    "dropout",
    "elu",
    "glu",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "leaky_relu",
    "logsigmoid",
    "mish",
    "relu6",
    "selu",
    "softplus",
    "softsign",
    "tanhshrink",
]
