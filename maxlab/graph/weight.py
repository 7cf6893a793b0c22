"""``Weight``: a tensor whose data comes later, from the weights registry."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, ArgumentTypeError, GraphError, shown
from maxlab.graph.operands import as_dtype, as_name
from maxlab.graph.quantization import QuantizationEncoding
from maxlab.graph.sharding import Part, ShardingStrategy, part_of
from maxlab.graph.staged import placed
from maxlab.graph.value import TensorValue
from maxlab.ir import DeviceRef, DimLike, Op, Shape, TensorType, user_location
from maxlab.ir import Value as IrValue
from maxlab.opset.builder import builder


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
        sharding_strategy: How ``shard`` cuts the weight; None when it is not cut.
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

    @placed
    def __init__(
        self,
        name: str,
        dtype: DType,
        shape: Iterable[DimLike],
        device: Any = None,
        quantization_encoding: QuantizationEncoding | None = None,
        align: int | None = None,
        sharding_strategy: ShardingStrategy | None = None,
        _placeholder: bool = False,
        _has_alias: bool = False,
    ) -> None:
        if not isinstance(name, str):
            raise ArgumentTypeError(
                "ML383",
                f"the name of a weight is a string, got {shown(name)}",
                fix="write Weight(name, dtype, shape)",
            )
        as_name("the name of a weight", name)
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
        self._type = TensorType(as_dtype("Weight", dtype), shape, device)
        self._original: tuple[DType, Shape] | None = None
        self._placeholder = bool(_placeholder)
        self._has_alias = bool(_has_alias)
        self.sharding_strategy = sharding_strategy

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)  # unlike other values, it may be described anew

    def _ir(self) -> IrValue:
        value: TensorValue = builder(what=f"the weight {self.name!r}").weight(self)
        return value._ir()

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
        """How the weight is cut into shards; None when it is not. It may be set.

        Raises:
            GraphError: ML381, what is set is no ``ShardingStrategy``; ML797, the weight is a shard.
        """
        return self._strategy

    @sharding_strategy.setter
    def sharding_strategy(self, strategy: ShardingStrategy | None) -> None:
        if strategy is not None and not isinstance(strategy, ShardingStrategy):
            raise GraphError(
                "ML381",
                f"the weight {self.name!r} has the sharding strategy {strategy!r}, which is no "
                "ShardingStrategy",
                fix="pass ShardingStrategy.rowwise(2), for example",
            )
        self._strategy = strategy

    @placed
    def shard(self, devices: Iterable[DeviceRef]) -> list[Weight]:
        """The shards of the weight, one for each device, in their order.

        A shard is a part of the array that the weights registry has under the name of the whole
        weight. Only that part is brought to the shard's device, when a model is loaded.

        Args:
            devices: Where the shards live, as many as the strategy makes.

        Raises:
            GraphError: ML382 (a ValueError), the weight has no sharding strategy; ML796, the
                strategy makes another number of shards; ML797, the weight is a shard itself.
            ShapeError: ML798 (a ValueError), the weight cannot be cut so.
            ArgumentTypeError: ML397, something that is no device.

        Example:
            >>> from maxlab.dtype import DType
            >>> from maxlab.graph import DeviceRef, ShardingStrategy, Weight
            >>> w = Weight("w", DType.float32, [64, 10], DeviceRef.CPU())
            >>> w.sharding_strategy = ShardingStrategy.columnwise(2)
            >>> [s.shape for s in w.shard([DeviceRef.GPU(0), DeviceRef.GPU(1)])]
            [[Dim(64), Dim(5)], [Dim(64), Dim(5)]]
        """
        places = [DeviceRef.from_device(device) for device in devices]
        strategy = self._strategy
        if strategy is None:
            raise GraphError(
                "ML382",
                f"the weight {self.name!r} has no sharding strategy to cut it for {len(places)} "
                "devices",
                fix=f"set one first: weight.sharding_strategy = "
                f"ShardingStrategy.rowwise({len(places)})",
            )
        if len(places) != strategy.num_devices:
            raise GraphError(
                "ML796",
                f"the weight {self.name!r} is sharded {strategy.name} for {strategy.num_devices} "
                f"devices, got {len(places)}",
                fix="pass a device for each shard",
            )
        made: list[Weight] = []
        for number, place in enumerate(places):
            part_of(self, strategy, number)  # what is wrong is told here, not at the first use
            made.append(Shard(self, strategy, number, place))
        return made

    def _stands_for(self, other: Weight) -> bool:
        """Whether this and ``other`` are one weight of a graph: shards that are cut alike are."""
        return self is other

    def _more_attrs(self) -> dict[str, Any]:
        """Attributes of the graph's op for the weight, besides its name and type."""
        return {} if self.align is None else {"align": self.align}

    def __repr__(self) -> str:
        return (
            f"Weight({self.name!r}, dtype={self.dtype}, shape={list(self.shape)!r}, "
            f"device={self.device})"
        )


class Shard(Weight):
    """The part of a weight that one device gets. ``Weight.shard`` makes it.

    Name, dtype and shape follow from the whole weight, also when a module renames that later.
    """

    def __init__(
        self, whole: Weight, strategy: ShardingStrategy, index: int, device: DeviceRef
    ) -> None:
        self.whole = whole
        self.shard_idx = index
        self.align = None  # it begins somewhere within the data
        self.quantization_encoding = whole.quantization_encoding
        self._strategy = strategy
        self._place = device
        self._original = None
        self._has_alias = whole._has_alias

    @property
    def name(self) -> str:  # type: ignore[override]  # a weight's own is a plain attribute
        """The name of the whole weight and the number of the shard: ``w[1]``."""
        return f"{self.whole.name}[{self.shard_idx}]"

    @property
    def _placeholder(self) -> bool:  # type: ignore[override]  # a weight's own is an attribute
        return self.whole._placeholder

    @property
    def part(self) -> Part:
        """For each axis of the whole weight, the (start, stop) of each run of indices."""
        assert self._strategy is not None
        assert self.shard_idx is not None
        return part_of(self.whole, self._strategy, self.shard_idx)

    @property
    def _type(self) -> TensorType:
        sizes = [sum(stop - start for start, stop in ranges) for ranges in self.part]
        return TensorType(self.whole.dtype, sizes, self._place)

    @_type.setter
    def _type(self, type: TensorType) -> None:
        if (type.dtype, type.shape) != (self.dtype, self.shape):
            self._refuse("its dtype and shape are those of its part of the whole weight")
        self._place = type.device

    @property
    def sharding_strategy(self) -> ShardingStrategy | None:
        """How the whole weight is cut."""
        return self._strategy

    @sharding_strategy.setter
    def sharding_strategy(self, strategy: ShardingStrategy | None) -> None:
        self._refuse("it cannot be cut further")

    def shard(self, devices: Iterable[DeviceRef]) -> list[Weight]:
        """Raises: a shard cannot be cut further.

        Raises:
            GraphError: ML797 (a ValueError), always.
        """
        self._refuse("it cannot be cut further")

    def _refuse(self, why: str) -> NoReturn:
        raise GraphError(
            "ML797",
            f"the weight {self.name!r} is a shard: {why}",
            at=user_location(),
            fix="change the whole weight, and cut that",
        )

    def _stands_for(self, other: Weight) -> bool:
        if self is other:
            return True
        same = isinstance(other, Shard) and other.whole is self.whole and other.part == self.part
        return same and other.type == self.type

    def _more_attrs(self) -> dict[str, Any]:
        whole = tuple(int(dim) for dim in self.whole.shape)
        return {"of": self.whole.name, "whole": whole, "part": self.part}


def shard_as(op: Op, prefix: str) -> Shard:
    """The shard that ``op`` of a subgraph stands for where that is called with ``prefix``."""
    attrs = op.attrs
    part: Part = attrs["part"]
    whole = Weight(prefix + attrs["of"], attrs["type"].dtype, attrs["whole"])
    index = int(attrs["name"].rpartition("[")[2].rstrip("]"))
    strategy = ShardingStrategy(index + 1, "as the subgraph has it", lambda shape, number: part)
    return Shard(whole, strategy, index, attrs["type"].device)


__all__ = ["Shard", "ShardingStrategy", "Weight"]
