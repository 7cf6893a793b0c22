"""``Embedding`` of eager tensors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from maxlab.dtype import DType
from maxlab.errors import UnusableArgumentError
from maxlab.experimental import functional, random
from maxlab.experimental.nn import states
from maxlab.experimental.nn.module import Module
from maxlab.experimental.tensor import Tensor
from maxlab.graph import Dim, DimLike, TensorType


class Embedding(Module[[Tensor], Tensor]):
    """A table of vectors that are looked up by number: numbers of any shape to that shape and
    ``dims`` behind it.

    The table is drawn from a normal distribution by the seed of ``experimental.random``.

    Args:
        vocab_size: How many vectors there are: numbers are at least 0 and less than it.
        dim: The size of a vector; ``dims=[dim]``.
        dims: The shape of a vector.

    Attributes:
        weight: ``[vocab_size, *dims]``.

    Raises:
        UnusableArgumentError: ML794, neither or both of ``dim`` and ``dims`` are given; a
            ``TypeError``.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.experimental.nn import Embedding
        >>> from maxlab.experimental.tensor import Tensor
        >>> tokens = Tensor.ones([10], dtype=DType.uint64)
        >>> Embedding(vocab_size=1000, dims=[16, 128])(tokens).shape
        [Dim(10), Dim(16), Dim(128)]
        >>> Embedding(1000, dim=128)
        Embedding(vocab_size=Dim(1000), dim=Dim(128))
    """

    weight: Tensor

    def __init__(
        self,
        vocab_size: DimLike,
        *,
        dim: DimLike | None = None,
        dims: Iterable[DimLike] | None = None,
    ) -> None:
        if (dim is None) == (dims is None):
            given = "neither" if dim is None else "both"
            raise UnusableArgumentError(
                "ML794",
                f"Embedding: expected dim or dims, got {given}",
                fix="pass dim=128 for vectors, or dims=[16, 128] for a shape",
            )
        self.weight = random.normal([vocab_size, *([dim] if dims is None else dims)])

    @property
    def vocab_size(self) -> Dim:
        """How many vectors there are."""
        return self.weight.shape[0]

    @property
    def dim(self) -> Dim:
        """The size of a vector.

        Raises:
            UnusableArgumentError: ML794, what is looked up is no vector.
        """
        if len(self.dims) != 1:
            raise UnusableArgumentError(
                "ML794",
                f"Embedding.dim: what is looked up has {len(self.dims)} dims, expected one",
                fix="read dims, which has all of them",
            )
        return self.dims[0]

    @property
    def dims(self) -> Sequence[Dim]:
        """The shape of what is looked up."""
        return list(self.weight.shape)[1:]

    def forward(self, indices: Tensor) -> Tensor:
        """The vectors of ``indices``: its shape with `dims` behind it."""
        found: Tensor = functional.gather(self.weight, indices, axis=0)
        return found

    def input_types(self) -> Sequence[TensorType]:
        """The type of ``indices`` of rank 1."""
        return [states.type_on(self.device, DType.int64, "batch")]

    def __rich_repr__(self) -> Iterator[tuple[str, Any]]:
        yield "vocab_size", self.vocab_size
        if len(self.dims) == 1:
            yield "dim", self.dim
        else:
            yield "dims", self.dims


__all__ = ["Embedding"]
