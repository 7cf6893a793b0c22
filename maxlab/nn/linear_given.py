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
from maxlab.nn.groups import check_config, refuse, words_and_groups
from maxlab.nn.groups import product as group_product
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
            quantization_config: How GPTQ packed the weights; None with other encodings.

        Raises:
            ModuleError: ML717, no encoding, or a config that it does not need; ML782,
                ``in_features`` is not of whole blocks; ML799, as of ``GPTQLinearV1``, or a single
                ``Weight`` for ``GPTQ``, which has several.
            WeightError: ML631, the data has another dtype or shape; ML746, another encoding.
        """
        encoding, what = quantization_encoding, "LinearV1.create"
        shape = (
            check_size(what, "out_features", out_features),
            check_size(what, "in_features", in_features),
        )
        if encoding is QuantizationEncoding.GPTQ:
            return _of_groups(what, dtype, shape, weights, bias, quantization_config)
        refuse_quantization(what, quantization_config=quantization_config)
        if encoding is None:
            made = _allocated(weights, dtype, shape, None)
            return LinearV1(made, _allocated(bias, dtype, shape[:1], None))
        packed = packed_shape(what, encoding, *shape)
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


def _of_groups(
    what: str,
    dtype: DType,
    shape: tuple[int, int],
    weights: Any,
    bias: Any,
    config: QuantizationConfig | None,
) -> LinearV1:
    """The linear map of what ``weights`` has as ``qweight``, ``scales`` and ``perm_idx``."""
    config = check_config(what, None, config)
    out_dim, in_dim = shape
    words, groups = words_and_groups(what, config, in_dim)
    if isinstance(weights, Weight):
        refuse(what, "GPTQ has several weights, got one", "pass Weights with qweight and scales")
    qweight = weights.qweight.allocate(DType.int32, (words, out_dim))
    scales = weights.scales.allocate(DType.float16, (groups, out_dim))
    perm = weights.perm_idx.allocate(DType.int32, (in_dim,)) if config.desc_act else None
    made = _allocated(bias, floats_of(dtype), (out_dim,), None)
    pair: Any = (qweight, scales)
    return GPTQLinearV1(pair, made, QuantizationEncoding.GPTQ, config, perm)


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
class GPTQLinearV1(QLinearV1):
    """The linear map of a weight as GPTQ stores it, which is given.

    Deprecated: use ``GPTQLinear``.

    Args:
        weight: A pair of the words ``[in_dim * bits / 32, out_dim]`` of int32, and the scales
            ``[in_dim / group size, out_dim]``.
        bias: ``[out_dim]``, or None.
        quantization_encoding: ``GPTQ``, or None for it.
        quantization_config: How the weight was packed: 2, 4 or 8 bits, symmetric.
        perm_idx: ``[in_dim]`` of integers: which element of the input meets which row; None for
            their order.

    Raises:
        ModuleError: ML799, a config that is not supported, ``desc_act`` without ``perm_idx``, or a
            weight that is no pair.
    """

    quantization_config: QuantizationConfig | None = None
    perm_idx: TensorValueLike | None = None

    def __post_init__(self) -> None:
        what = "GPTQLinearV1"
        config = check_config(what, self.quantization_encoding, self.quantization_config)
        if not isinstance(self.weight, (tuple, list)) or len(self.weight) != 2:
            refuse(
                what,
                f"the weight is a {type(self.weight).__name__}, expected words and scales",
                "pass (qweight, scales)",
            )
        if config.desc_act and self.perm_idx is None:
            refuse(
                what,
                "the config has desc_act, but there is no perm_idx",
                "sort the words by their groups: maxlab.nn.gptq.sorted_by_group(qweight, g_idx)",
            )

    def __call__(self, x: TensorValue) -> TensorValue:
        """The product, ``[..., out_dim]`` of the dtype of ``x``, of ``x``, ``[..., in_dim]``."""
        config = check_config("GPTQLinearV1", self.quantization_encoding, self.quantization_config)
        given: Any = self.weight
        words, scales, perm, bias = (
            None if value is None else ops.transfer_to(TensorValue(value), x.device)
            for value in (*given, self.perm_idx, self.bias)
        )
        assert words is not None
        assert scales is not None
        y = group_product(x, words, scales, perm, config.bits)
        return y if bias is None else y + ops.cast(bias, y.dtype)


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


__all__ = ["GPTQLinearV1", "LinearV1", "MLPV1", "QLinearV1"]
