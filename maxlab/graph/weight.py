"""``Weight``: a tensor whose data comes later, from the weights registry."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, ArgumentTypeError, GraphError
from maxlab.graph.build import as_dtype, require_graph, staged
from maxlab.graph.quantization import QuantizationEncoding
from maxlab.graph.sharding import Cut, ShardingStrategy
from maxlab.graph.value import TensorValue
from maxlab.ir import DeviceRef, DimLike, Shape, TensorType
from maxlab.ir import Value as IrValue


class Weight(TensorValue):
    """A tensor whose data comes from the weights registry when the model is loaded.

    It is made outside of any graph, and is added to a graph when an op of that graph first uses it.

    Args:
        name: The name in the registry; one graph has one weight of a name.
        dtype: The element type.
        shape: The dims.
        device: The device where the weight lives; the CPU when it is left out.
        quantization_encoding: How the bytes of the data stand for numbers; None when they are
            numbers. ``ops.dequantize`` and ``ops.qmatmul`` are told it, other ops see the bytes.
        align: The alignment in bytes that the data must have, a power of two; None for that of the
            dtype.
        sharding_strategy: How ``shard`` cuts the weight for several devices; None when it is not
            cut.
        _placeholder: Whether the name is completed by the ``prefix`` of ``ops.call``.
        _has_alias: Whether another name stands for the same data.

    Raises:
        ArgumentTypeError: ML383, the name is not a string; ML399, the dtype is not a ``DType``.
        ArgumentError: ML380, an alignment that is not a power of two.
        GraphError: ML381, an encoding that is no ``QuantizationEncoding``, or a sharding strategy
            that is no ``ShardingStrategy``.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import DeviceRef, Graph, TensorType, Weight
        >>> w = Weight("w", DType.float32, [64, 10], DeviceRef.CPU())
        >>> with Graph("linear", input_types=[TensorType(DType.float32, ["n", 64])]) as graph:
        ...     graph.output(graph.inputs[0] @ w)
    """

    name: str
    align: int | None
    quantization_encoding: QuantizationEncoding | None
    shard_idx: int | None

    def __new__(cls, *args: Any, **kwargs: Any) -> Weight:
        """An empty weight, whatever arguments the ``__init__`` of a subclass takes."""
        return object.__new__(cls)

    @staged
    def __init__(
        self,
        name: str,
        dtype: DType,
        shape: Iterable[DimLike],
        device: Any = None,
        quantization_encoding: QuantizationEncoding | None = None,
        align: int | None = None,
        sharding_strategy: Any = None,
        _placeholder: bool = False,
        _has_alias: bool = False,
    ) -> None:
        if not isinstance(name, str):
            raise ArgumentTypeError(
                "ML383",
                f"the name of a weight is a string, got {name!r}",
                fix="write Weight(name, dtype, shape)",
            )
        if not isinstance(quantization_encoding, QuantizationEncoding | None):
            raise GraphError(
                "ML381",
                f"the weight {name!r} has the encoding {quantization_encoding!r}, which is no "
                "QuantizationEncoding",
                fix="pass QuantizationEncoding.Q4_0, for example",
            )
        if align is not None and (isinstance(align, bool) or align <= 0 or align & (align - 1)):
            raise ArgumentError(
                "ML380",
                f"the alignment of {name!r} must be a power of two, got {align}",
                fix="pass 1, 2, 4, 8 and so on, in bytes",
            )
        self.name = name
        self.align = align
        self.quantization_encoding = quantization_encoding
        self.shard_idx = None
        self._cut: Cut | None = None
        self._type = TensorType(as_dtype("Weight", dtype), shape, device)
        self._original: tuple[DType, Shape] | None = None
        self._placeholder = bool(_placeholder)
        self._has_alias = bool(_has_alias)
        self.sharding_strategy = sharding_strategy

    def _ir(self) -> IrValue:
        graph = require_graph(f"the weight {self.name!r}")
        return graph.add_weight(self)._ir()

    @property
    def type(self) -> TensorType:
        """The type: dtype, shape and device."""
        return self._type

    @property
    def dtype(self) -> DType:
        """The element type; it may be set before a graph uses the weight."""
        return self._type.dtype

    @dtype.setter
    def dtype(self, dtype: DType) -> None:
        self._type = TensorType(as_dtype("Weight", dtype), self.shape, self.device)

    @property
    def shape(self) -> Shape:
        """The dims; they may be set before a graph uses the weight."""
        return self._type.shape

    @shape.setter
    def shape(self, shape: Iterable[DimLike]) -> None:
        self._type = TensorType(self.dtype, shape, self.device)

    @property
    def device(self) -> DeviceRef:
        """The device where the weight lives; it may be set before a graph uses the weight."""
        return self._type.device

    @device.setter
    def device(self, device: Any) -> None:
        self._type = TensorType(self.dtype, self.shape, device)

    @property
    def original_dtype_and_shape(self) -> tuple[DType, Shape]:
        """The dtype and shape that the data has in its file, when the graph sees it as bytes."""
        return self._original or (self.dtype, self.shape)

    @original_dtype_and_shape.setter
    def original_dtype_and_shape(self, value: tuple[DType, Shape]) -> None:
        dtype, shape = value
        self._original = (dtype, Shape(shape))

    @property
    def sharding_strategy(self) -> ShardingStrategy | None:
        """How the weight is cut into shards; None when it is not. It may be set; a shard has none.

        Raises:
            GraphError: ML381, set to something that is no ``ShardingStrategy``; ML382, set for a
                shard.
        """
        return self._strategy

    @sharding_strategy.setter
    @staged
    def sharding_strategy(self, strategy: ShardingStrategy | None) -> None:
        if not isinstance(strategy, ShardingStrategy | None):
            raise GraphError(
                "ML381",
                f"the weight {self.name!r} has the sharding strategy {strategy!r}, which is no "
                "ShardingStrategy",
                fix="pass ShardingStrategy.rowwise(2), for example",
            )
        if strategy is not None and self.shard_idx is not None:
            raise self._is_shard()
        self._strategy = strategy

    @staged
    def shard(self, devices: Iterable[DeviceRef]) -> list[Weight]:
        """The shards of the weight, one for each device, in the order of the devices.

        A shard is a weight itself, which has its part of the data that the registry has under the
        name of the whole. It cannot be cut further. What a model loads of it is the part alone.

        Args:
            devices: Where the shards live; as many as the strategy says.

        Raises:
            GraphError: ML382 (a ValueError), the weight has no sharding strategy, or is a shard.
            ArgumentError: ML785, the strategy is for another number of devices, or the shape cannot
                be cut so.
            AxisError: ML303, the weight does not have the axis that is cut.
            ArgumentTypeError: ML397, something that is no device.

        Example:
            >>> from maxlab.dtype import DType
            >>> from maxlab.graph import DeviceRef, ShardingStrategy, Weight
            >>> w = Weight("w", DType.float32, [8, 4], DeviceRef.CPU())
            >>> w.sharding_strategy = ShardingStrategy.columnwise(2)
            >>> [s.shape for s in w.shard([DeviceRef.GPU(0), DeviceRef.GPU(1)])]
            [[Dim(8), Dim(2)], [Dim(8), Dim(2)]]
        """
        places = [DeviceRef.from_device(device) for device in devices]
        if self.shard_idx is not None:
            raise self._is_shard()
        if self._strategy is None:
            raise GraphError(
                "ML382",
                f"the weight {self.name!r} has no sharding strategy to cut it for {len(places)} "
                "devices",
                fix="set weight.sharding_strategy, such as ShardingStrategy.rowwise(2)",
            )
        if len(places) != self._strategy.num_devices:
            raise ArgumentError(
                "ML785",
                f"the weight {self.name!r} is cut for {self._strategy.num_devices} devices, got "
                f"{len(places)}",
                fix="give as many devices as the strategy names",
            )
        cuts = self._strategy.cuts(self.name, self.shape, self.quantization_encoding)
        pairs = zip(cuts, places, strict=True)
        return [self._shard(i, cut, place) for i, (cut, place) in enumerate(pairs)]

    def _shard(self, index: int, cut: Cut, device: DeviceRef) -> Weight:
        """The part ``cut`` of the weight, on ``device``."""
        name = f"{self.name}[{index}]"
        made = Weight(name, self.dtype, cut.shape, device, self.quantization_encoding, self.align)
        made._placeholder, made._has_alias = self._placeholder, self._has_alias
        made.shard_idx = index
        made._cut = cut
        return made

    def _is_shard(self) -> GraphError:
        return GraphError(
            "ML382",
            f"the weight {self.name!r} is a shard, which cannot be cut further",
            fix="cut the whole weight for all devices at once",
        )

    def _stands_for(self, other: Weight) -> bool:
        """Whether this and ``other`` are one weight of a graph: shards that are cut alike are."""
        if self is other:
            return True
        return self._cut is not None and (self._cut, self.type) == (other._cut, other.type)

    def __repr__(self) -> str:
        return (
            f"Weight({self.name!r}, dtype={self.dtype}, shape={list(self.shape)!r}, "
            f"device={self.device})"
        )


__all__ = ["ShardingStrategy", "Weight"]
