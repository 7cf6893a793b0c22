"""``LayerNorm`` of eager tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from maxlab.experimental import functional
from maxlab.experimental.nn import states
from maxlab.experimental.nn.module import Module
from maxlab.experimental.tensor import Tensor
from maxlab.graph import Dim, DimLike, TensorType


class LayerNorm(Module[[Tensor], Tensor]):
    """The last dim with mean 0 and variance 1, times ``weight``, plus ``bias``.

    Args:
        dim: The size of the last dim.
        eps: Added to the variance before the root is taken.

    Attributes:
        weight: ``[dim]``, ones at first.
        bias: ``[dim]``, zeros at first.

    Example:
        >>> from maxlab.experimental.nn import LayerNorm
        >>> from maxlab.experimental.tensor import Tensor
        >>> LayerNorm(4)(Tensor.constant([[1.0, 1.0, 3.0, 3.0]])).shape
        [Dim(1), Dim(4)]
        >>> LayerNorm(4)
        LayerNorm(dim=Dim(4))

    References:
        Ba, Kiros, Hinton, "Layer Normalization", 2016, https://arxiv.org/abs/1607.06450
    """

    weight: Tensor
    bias: Tensor

    def __init__(self, dim: DimLike, eps: float = 1e-5) -> None:
        self.weight = Tensor.ones([dim])
        self.bias = Tensor.zeros([dim])
        self.eps = eps

    @property
    def dim(self) -> Dim:
        """The size of the last dim."""
        return self.weight.shape[0]

    def forward(self, x: Tensor) -> Tensor:
        """``x``, ``[..., dim]``, normalised along its last dim."""
        y: Tensor = functional.layer_norm(x, self.weight, self.bias, self.eps)
        return y

    def input_types(self) -> Sequence[TensorType]:
        """The type of ``x`` of rank 2."""
        return [states.type_on(self.device, self.weight.dtype, "batch", self.dim)]

    def __rich_repr__(self) -> Iterator[tuple[Any, ...]]:
        yield "dim", self.dim
        yield "eps", self.eps, 1e-5


__all__ = ["LayerNorm"]
