"""``Embedding``: rows of a table by their indices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from maxlab.dtype import DType
from maxlab.graph import (
    BufferValue,
    DeviceRef,
    ShardingStrategy,
    TensorValue,
    TensorValueLike,
    Weight,
    ops,
)
from maxlab.graph.operands import as_dtype
from maxlab.graph.quantization import QuantizationEncoding
from maxlab.habits import fitting
from maxlab.nn.calls import Layer
from maxlab.nn.dense import check_size
from maxlab.nn.module import Module
from maxlab.nn.packed import floats_of, packed_shape, rows
from maxlab.nn.sharding import axes_cut, inputs_of, several, sums


class Embedding(Module):
    """A table of ``vocab_size`` vectors: indices ``[...]`` become vectors ``[..., hidden_dim]``.

    The table is declared on the CPU and moves to ``device`` where it is used.

    Args:
        vocab_size: The number of vectors; an index must be below it.
        hidden_dim: The size of each vector.
        dtype: The element type of the vectors; float32 where it is that of bytes.
        device: Where vectors are looked up.
        quantization_encoding: How the table is packed, as in GGUF files: it then is bytes, and
            only the vectors that are looked up become numbers. None for a table of numbers.
        name: The name of the weight, ``weight`` when left out.

    Attributes:
        weight: ``[vocab_size, hidden_dim]``; packed, ``[vocab_size, bytes of a row]`` of uint8.

    Raises:
        ArgumentError: ML716, a size that is not a positive int.
        ModuleError: ML717, an encoding that the layer does not have; ML782, ``hidden_dim`` is not
            of whole blocks.

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
        quantization_encoding: QuantizationEncoding | None = None,
        name: str | None = None,
    ) -> None:
        shape = (
            check_size("Embedding", "vocab_size", vocab_size),
            check_size("Embedding", "hidden_dim", hidden_dim),
        )
        self.device = DeviceRef.CPU() if device is None else DeviceRef.from_device(device)
        kind = as_dtype("Embedding", dtype)
        encoding = quantization_encoding
        self._made = None if encoding is None else floats_of(kind)
        if encoding is not None:
            shape, kind = packed_shape("Embedding", encoding, *shape), DType.uint8
        self.weight = Weight(name or "weight", kind, shape, DeviceRef.CPU(), encoding)

    def __call__(self, indices: TensorValueLike) -> TensorValue:
        """The vectors, ``[..., hidden_dim]``, of ``indices``, integers ``[...]``.

        Raises:
            DTypeError: The indices are not integers.
        """
        return self._vectors(self.weight.to(self.device), indices)

    def _vectors(self, table: TensorValue, indices: TensorValueLike) -> TensorValue:
        encoding = self.weight.quantization_encoding
        if encoding is not None and self._made is not None:
            return rows(table, indices, encoding, self._made)
        found = ops.gather(table, indices, axis=0)
        return found if self._made is None else ops.cast(found, self._made)

    def __repr__(self) -> str:
        vocab_size, hidden_dim = self.weight.shape
        encoding = self.weight.quantization_encoding
        if encoding is not None:
            hidden_dim = hidden_dim // encoding.block_size * encoding.elements_per_block
        return f"Embedding(vocab_size={vocab_size}, hidden_dim={hidden_dim})"


class VocabParallelEmbedding(Embedding):
    """A table of vectors whose rows lie in parts on several devices.

    Each device looks up the indices of its part and has zeros for others; the sum is the vectors,
    on all devices. No device holds the whole table.

    Args:
        vocab_size: The number of vectors, at least the number of devices.
        hidden_dim: The size of each vector.
        dtype: The element type of the vectors.
        devices: The devices, each once.
        quantization_encoding: How the table is packed, as ``Embedding`` has it, or None.
        name: The name of the weight, ``weight`` when left out.

    Attributes:
        weight: ``[vocab_size, hidden_dim]``.

    Raises:
        ArgumentError: ML716, a size that is not a positive int; ML721, no device.
        ModuleError: ML717 and ML782 as of ``Embedding``.
        ShapeError: ML798, there are fewer vectors than devices.

    Example:
        >>> from maxlab import nn
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import DeviceRef
        >>> devices = [DeviceRef.CPU(0), DeviceRef.CPU(1)]
        >>> table = nn.VocabParallelEmbedding(1000, 64, DType.float32, devices)
        >>> [part.shape for part in table.weight.shard(devices)]
        [[Dim(500), Dim(64)], [Dim(500), Dim(64)]]
    """

    devices: list[DeviceRef]

    def __init__(
        self,
        vocab_size: int,
        hidden_dim: int,
        dtype: DType,
        devices: Sequence[DeviceRef],
        quantization_encoding: QuantizationEncoding | None = None,
        name: str | None = None,
    ) -> None:
        places = several("VocabParallelEmbedding", devices)
        super().__init__(vocab_size, hidden_dim, dtype, places[0], quantization_encoding, name)
        self.devices = places
        strategy = ShardingStrategy.rowwise(len(places))
        axes_cut(self.weight, strategy)  # what cannot be cut is told here
        self.weight.sharding_strategy = strategy

    def __call__(  # type: ignore[override]  # an output for each device
        self,
        indices: TensorValueLike | Sequence[TensorValue],
        signal_buffers: Iterable[BufferValue] | None = None,
    ) -> list[TensorValue]:
        """The vectors, ``[..., hidden_dim]``, one tensor on each device, all alike.

        Args:
            indices: Integers ``[...]``, on one device or on each; negative ones count from the
                end, and one that is out of range is an error when the model runs.
            signal_buffers: A buffer on each device, such as ``nn.comm.Signals`` makes; without
                them the parts go to the other devices one by one.

        Raises:
            ArgumentError: ML437, another number of inputs than of devices; ML435, as
                ``ops.allreduce.sum`` says.
            DTypeError: The indices are not integers.
        """
        if not isinstance(indices, (list, tuple, TensorValue)):
            indices = TensorValue(indices)
        inputs = inputs_of("VocabParallelEmbedding", indices, self.devices)
        parts: list[TensorValue] = []
        start = 0
        for number, (ids, table) in enumerate(
            zip(inputs, self.weight.shard(self.devices), strict=True)
        ):
            stop = start + int(table.shape[0])
            parts.append(self._part(ids, table, start, stop, number == 0))
            start = stop
        return sums(parts, self.devices, signal_buffers)

    def _part(
        self, ids: TensorValue, table: Weight, start: int, stop: int, checks: bool
    ) -> TensorValue:
        """The vectors of the indices from ``start`` to ``stop``, zeros for others; with ``checks``,
        an index that no device has is looked up where there is none, which is an error."""
        if not ids.dtype.is_integral():
            return self._vectors(table, ids)  # which refuses them
        size = int(self.weight.shape[0])
        wide = ops.cast(ids, DType.int64)
        place = ops.where(wide < 0, wide + size, wide)
        inside = ops.logical_and(place >= start, place < stop)
        local = ops.where(inside, place - start, 0)
        if checks:
            known = ops.logical_and(place >= 0, place < size)
            local = ops.where(known, local, size)
        found = self._vectors(table, local)
        return ops.where(ops.unsqueeze(inside, -1), found, 0)


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


__all__ = ["Embedding", "EmbeddingV1", "EmbeddingV2", "VocabParallelEmbedding"]
