"""Layers without weights that PyTorch users put between others: each is one op."""

from __future__ import annotations

from maxlab.graph import TensorValue, ops
from maxlab.nn.module import Module


class ReLU(Module):
    """``ops.relu`` as a layer.

    Args:
        inplace: Of no effect: a tensor of a graph never changes, and kernels choose their memory.
    """

    def __init__(self, inplace: bool = False) -> None:
        self.inplace = inplace

    def __call__(self, x: TensorValue) -> TensorValue:
        """``x`` where it is positive, 0 elsewhere."""
        return ops.relu(x)


class GELU(Module):
    """``ops.gelu`` as a layer.

    Args:
        approximate: ``"none"``, or ``"tanh"`` for the approximation by it.
    """

    def __init__(self, approximate: str = "none") -> None:
        self.approximate = approximate

    def __call__(self, x: TensorValue) -> TensorValue:
        """The Gaussian error linear units of ``x``."""
        return ops.gelu(x, self.approximate)


class SiLU(Module):
    """``ops.silu`` as a layer.

    Args:
        inplace: Of no effect: a tensor of a graph never changes, and kernels choose their memory.
    """

    def __init__(self, inplace: bool = False) -> None:
        self.inplace = inplace

    def __call__(self, x: TensorValue) -> TensorValue:
        """``x * sigmoid(x)``."""
        return ops.silu(x)


class Tanh(Module):
    """``ops.tanh`` as a layer."""

    def __call__(self, x: TensorValue) -> TensorValue:
        """The hyperbolic tangents of ``x``."""
        return ops.tanh(x)


class Sigmoid(Module):
    """``ops.sigmoid`` as a layer."""

    def __call__(self, x: TensorValue) -> TensorValue:
        """``1 / (1 + exp(-x))``."""
        return ops.sigmoid(x)


class Softmax(Module):
    """``ops.softmax`` as a layer.

    Args:
        dim: The dim along which the results sum to 1.
    """

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    def __call__(self, x: TensorValue) -> TensorValue:
        """The probabilities along ``dim``."""
        return ops.softmax(x, self.dim)


class Flatten(Module):
    """``ops.flatten`` as a layer.

    Args:
        start_dim: The first dim that is merged; the first of all is that of the batch.
        end_dim: The last dim that is merged.
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        self.start_dim, self.end_dim = start_dim, end_dim

    def __call__(self, x: TensorValue) -> TensorValue:
        """``x`` with its dims from ``start_dim`` to ``end_dim`` merged."""
        return ops.flatten(x, self.start_dim, self.end_dim)


class Identity(Module):
    """A layer that gives what it gets."""

    def __call__(self, x: TensorValue) -> TensorValue:
        """``x``."""
        return x


class Dropout(Module):
    """``ops.dropout`` as a layer: in inference, to which graphs are run, it gives what it gets.

    Args:
        p: The probability with which training would drop an element.
    """

    def __init__(self, p: float = 0.5) -> None:
        self.p = p

    def __call__(self, x: TensorValue) -> TensorValue:
        """``x``."""
        return ops.dropout(x, self.p)


__all__ = [
    "GELU",
    "Dropout",
    "Flatten",
    "Identity",
    "ReLU",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Tanh",
]
