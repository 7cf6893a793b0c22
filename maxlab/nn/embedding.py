"""``Embedding``: rows of a table by their indices."""

from __future__ import annotations

from typing import Any

from maxlab.dtype import DType
from maxlab.graph import DeviceRef, TensorValue, TensorValueLike, Weight, ops
from maxlab.graph.operands import as_dtype
from maxlab.habits import fitting
from maxlab.nn.calls import Layer
from maxlab.nn.linear import check_size, refuse_quantization
from maxlab.nn.module import Module
from maxlab.records import dataclass


class Embedding(Module):
    """A table of ``vocab_size`` vectors: indices ``[...]`` become vectors ``[..., hidden_dim]``.

    The table is declared on the CPU and moves to ``device`` where it is used.

    Args:
        vocab_size: The number of vectors; an index must be below it.
        hidden_dim: The size of each vector.
        dtype: The element type of the vectors.
        device: Where vectors are looked up.
        quantization_encoding: None; quantised layers cannot be built in this version.
        name: The name of the weight, ``weight`` when left out.

    Attributes:
        weight: ``[vocab_size, hidden_dim]``.

    Raises:
        ArgumentError: ML716, a size that is not a positive int.
        ModuleError: ML717, a quantised layer is asked for.

    Example:
        >>> from maxlab import nn
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import DeviceRef, Graph, TensorType
        >>> embedding = nn.Embedding(1000, 64, DType.float32, DeviceRef.CPU())
        >>> graph = Graph("embed", embedding, [TensorType(DType.int32, ["batch", "seq"])])
        >>> graph.output_types[0].shape
        [Dim('batch'), Dim('seq'), Dim(64)]
    """

    weight: Weight
    device: DeviceRef

    @fitting("ML975", "nn.Embedding(5, 2)")
    def __init__(
        self,
        vocab_size: int,
        hidden_dim: int,
        dtype: DType | str = DType.float32,
        device: DeviceRef | str | None = None,
        quantization_encoding: Any = None,
        name: str | None = None,
    ) -> None:
        refuse_quantization("Embedding", quantization_encoding=quantization_encoding)
        check_size("Embedding", "vocab_size", vocab_size)
        check_size("Embedding", "hidden_dim", hidden_dim)
        self.device = DeviceRef.CPU() if device is None else DeviceRef.from_device(device)
        kind = as_dtype("Embedding", dtype)
        self.weight = Weight(name or "weight", kind, (vocab_size, hidden_dim), DeviceRef.CPU())

    def __call__(self, indices: TensorValueLike) -> TensorValue:
        """The vectors, ``[..., hidden_dim]``, of ``indices``, integers ``[...]``.

        Raises:
            DTypeError: The indices are not integers.
        """
        return ops.gather(self.weight.to(self.device), indices, axis=0)

    def __repr__(self) -> str:
        vocab_size, hidden_dim = self.weight.shape
        return f"Embedding(vocab_size={vocab_size}, hidden_dim={hidden_dim})"


EmbeddingV2 = Embedding
"""The name of ``Embedding`` in earlier versions."""


@dataclass(eq=False)
class EmbeddingV1(Layer):
    """A table of vectors that is given.

    Deprecated: use ``Embedding``.

    Args:
        weights: ``[vocab_size, hidden_dim]``.
        device: Where vectors are looked up.
    """

    weights: TensorValueLike
    device: DeviceRef

    def __call__(self, indices: TensorValueLike) -> TensorValue:
        """The vectors, ``[..., hidden_dim]``, of ``indices``, integers ``[...]``."""
        return ops.gather(ops.transfer_to(TensorValue(self.weights), self.device), indices, axis=0)
