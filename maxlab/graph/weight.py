"""``Weight``: a tensor whose data comes later, from the weights registry."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, ArgumentTypeError, GraphError
from maxlab.graph.build import as_dtype, require_graph, staged
from maxlab.graph.quantization import QuantizationEncoding
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
        sharding_strategy: None; weights cannot be sharded in this version.
        _placeholder: Whether the name is completed by the ``prefix`` of ``ops.call``.
        _has_alias: Whether another name stands for the same data.

    Raises:
        ArgumentTypeError: ML383, the name is not a string; ML399, the dtype is not a ``DType``.
        ArgumentError: ML380, an alignment that is not a power of two.
        GraphError: ML381, an encoding that is no ``QuantizationEncoding``, or a sharding strategy.

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
    def sharding_strategy(self) -> Any:
        """How the weight is cut into shards; None, as weights cannot be sharded in this version."""
        return None

    @sharding_strategy.setter
    def sharding_strategy(self, strategy: Any) -> None:
        if strategy is not None:
            raise GraphError(
                "ML381",
                f"the weight {self.name!r} has a sharding strategy: weights cannot be sharded in "
                "this version",
                fix="leave sharding_strategy out",
            )

    @staged
    def shard(self, devices: Iterable[DeviceRef]) -> list[Weight]:
        """The shards of the weight, one for each device.

        Args:
            devices: Where the shards live.

        Raises:
            GraphError: ML382 (a ValueError), the weight has no sharding strategy.
            ArgumentTypeError: ML397, something that is no device.
        """
        places = [DeviceRef.from_device(device) for device in devices]
        raise GraphError(
            "ML382",
            f"the weight {self.name!r} has no sharding strategy to cut it for {len(places)} "
            "devices",
            fix="use the weight as a whole",
        )

    def __repr__(self) -> str:
        return (
            f"Weight({self.name!r}, dtype={self.dtype}, shape={list(self.shape)!r}, "
            f"device={self.device})"
        )
