"""``Linear`` of eager tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from maxlab.experimental import random
from maxlab.experimental.nn import states
from maxlab.experimental.nn.module import Module
from maxlab.experimental.tensor import Tensor
from maxlab.graph import Dim, DimLike, TensorType


class Linear(Module[[Tensor], Tensor]):
    """The linear map ``x @ weight.T + bias``: ``[..., in_dim]`` to ``[..., out_dim]``.

    The parameters are drawn from a normal distribution by the seed of ``experimental.random``.

    Args:
        in_dim: The size of the last dim of the input.
        out_dim: The size of the last dim of the output.
        bias: Whether a bias is added.

    Attributes:
        weight: ``[out_dim, in_dim]``.
        bias: ``[out_dim]``; the number 0 where there is none.

    Example:
        >>> from maxlab.experimental.nn import Linear
        >>> from maxlab.experimental.tensor import Tensor
        >>> model = Linear(5, 10)
        >>> model(Tensor.ones([5])).shape
        [Dim(10)]
        >>> Linear(3, 2, bias=False)
        Linear(in_dim=Dim(3), out_dim=Dim(2), bias=False)
    """

    weight: Tensor
    bias: Tensor | Literal[0]

    def __init__(self, in_dim: DimLike, out_dim: DimLike, *, bias: bool = True) -> None:
        self.weight = random.normal([out_dim, in_dim])
        self.bias = random.normal([out_dim]) if bias else 0

    @property
    def in_dim(self) -> Dim:
        """The size of the last dim of the input."""
        return self.weight.shape[1]

    @property
    def out_dim(self) -> Dim:
        """The size of the last dim of the output."""
        return self.weight.shape[0]

    def forward(self, x: Tensor) -> Tensor:
        """``x @ weight.T + bias``, ``[..., out_dim]``, of ``x``, ``[..., in_dim]``.

        Raises:
            ShapeError: ML203, the last dim of ``x`` is not ``in_dim``.
        """
        y: Tensor = x @ self.weight.T
        if isinstance(self.bias, Tensor):
            y = y + self.bias
        return y

    def input_types(self) -> Sequence[TensorType]:
        """The type of ``x`` of rank 2."""
        return [states.type_on(self.device, self.weight.dtype, "batch", self.in_dim)]

    def __rich_repr__(self) -> Iterator[tuple[Any, ...]]:
        yield "in_dim", self.in_dim
        yield "out_dim", self.out_dim
        yield "bias", isinstance(self.bias, Tensor), True


__all__ = ["Linear"]
