"""Linear maps with weights that are given; ``Linear`` has its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from maxlab.dtype import DType
from maxlab.graph import TensorValue, TensorValueLike, Weight, ops
from maxlab.graph.quantization import QuantizationConfig, QuantizationEncoding
from maxlab.graph.weights import Weights
from maxlab.nn.calls import Layer
from maxlab.nn.dense import check_size, refuse_quantization
from maxlab.nn.packed import check_encoding, floats_of, packed_shape, product


@dataclass(eq=False)
class LinearV1(Layer):
    """The linear map ``y = x @ weight.T + bias`` with a weight and bias that are given.

    Deprecated: use ``Linear``.

    Args:
        weight: ``[out_dim, in_dim]``.
        bias: ``[out_dim]``, or None.
    """

    weight: TensorValueLike
    bias: TensorValueLike | None = None

    def __call__(self, x: TensorValue) -> TensorValue:
        """The product, ``[..., out_dim]``, of ``x``, ``[..., in_dim]``."""
        y = x @ TensorValue(self.weight).T
        return y if self.bias is None else y + self.bias

    @classmethod
    def create(
        cls,
        dtype: DType,
        quantization_encoding: QuantizationEncoding | None,
        in_features: int,
        out_features: int,
        weights: Weights | Weight,
        bias: Weights | Weight | None = None,
        quantization_config: QuantizationConfig | None = None,
    ) -> LinearV1:
        """A linear map of the weight ``weights``, packed or not.

        Args:
            dtype: The element type of weight and bias; of the bias alone where the weight is
                packed, and then float32 where it is that of bytes.
            quantization_encoding: How the weight is packed; None for a weight of numbers.
            in_features: The size of the last dim of the input.
            out_features: The size of the last dim of the output.
            weights: The weight, or where its data is.
            bias: The bias, or where its data is; None for no bias.
            quantization_config: None; the encodings of GGUF files need no config.

        Raises:
            ModuleError: ML717, an encoding without blocks, or a config; ML782, ``in_features`` is
                not of whole blocks.
            WeightError: ML631, the data has another dtype or shape; ML746, another encoding.
        """
        if quantization_config is not None:
            refuse_quantization("LinearV1.create", quantization_config=quantization_config)
        encoding = quantization_encoding
        shape = (
            check_size("LinearV1.create", "out_features", out_features),
            check_size("LinearV1.create", "in_features", in_features),
        )
        if encoding is None:
            made = _allocated(weights, dtype, shape, None)
            return LinearV1(made, _allocated(bias, dtype, shape[:1], None))
        packed = packed_shape("LinearV1.create", encoding, *shape)
        made = _allocated(weights, DType.uint8, packed, encoding)
        given = _allocated(bias, floats_of(dtype), shape[:1], None)
        return QLinearV1(made, given, quantization_encoding=encoding)


def _allocated(
    source: Any, dtype: DType, shape: tuple[int, ...], encoding: QuantizationEncoding | None
) -> Any:
    """The weight that ``source`` is, or has the data of; None for None."""
    if source is None or isinstance(source, Weight):
        return source
    return source.allocate(dtype, shape, encoding)


@dataclass(eq=False)
class QLinearV1(LinearV1):
    """The linear map of a weight in blocks of few bits that is given.

    Deprecated: use ``Linear``.

    Args:
        weight: ``[out_dim, bytes of a row]`` of uint8.
        bias: ``[out_dim]``, or None.
        quantization_encoding: How the weight is packed.

    Raises:
        ModuleError: ML717, an encoding without blocks.
    """

    quantization_encoding: QuantizationEncoding | None = None

    def __post_init__(self) -> None:
        check_encoding("QLinearV1", self.quantization_encoding)

    def __call__(self, x: TensorValue) -> TensorValue:
        """The product, ``[..., out_dim]``, of ``x``, ``[..., in_dim]``."""
        encoding = check_encoding("QLinearV1", self.quantization_encoding)
        y = product(x, _on(self.weight, x), encoding)
        return y if self.bias is None else y + ops.cast(_on(self.bias, x), y.dtype)


def _on(value: TensorValueLike, x: TensorValue) -> TensorValue:
    """``value`` where ``x`` is."""
    return ops.transfer_to(TensorValue(value), x.device)


@dataclass(eq=False)
class MLPV1(Layer):
    """Three linear maps with SiLU: ``down(silu(gate(x)) * up(x))``.

    Deprecated: use ``MLP``.
    """

    gate_proj: LinearV1
    down_proj: LinearV1
    up_proj: LinearV1

    def __call__(self, x: TensorValue) -> TensorValue:
        """The output, of the shape of ``x``."""
        made: TensorValue = self.down_proj(ops.silu(self.gate_proj(x)) * self.up_proj(x))
        return made


__all__ = ["LinearV1", "MLPV1", "QLinearV1"]
