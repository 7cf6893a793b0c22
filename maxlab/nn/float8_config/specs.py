"""How inputs and weights of float8 layers are scaled."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import Any

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, ArgumentTypeError, shown


class Float8ScaleGranularity(Enum):
    """Parts of a matrix that share a scale."""

    TENSOR = "tensor"
    """The whole matrix."""
    ROWWISE = "rowwise"
    """Each row: of a weight, an output channel."""
    COLWISE = "colwise"
    """Each column: of an input, which kernels take transposed, a token."""
    BLOCK = "block"
    """Each block of rows and columns."""


class Float8ScaleOrigin(Enum):
    """Where the scales of inputs come from."""

    STATIC = "static"
    """They are weights of the model."""
    DYNAMIC = "dynamic"
    """They are computed from each input."""


def _refuse(what: str, name: str, value: object, expected: str, fix: str) -> ArgumentError:
    return ArgumentError("ML698", f"{what}: {name} must be {expected}, got {shown(value)}", fix=fix)


def _of_kind(what: str, name: str, value: object, kind: type) -> None:
    """Raises unless ``value`` is of ``kind``."""
    if not isinstance(value, kind):
        raise ArgumentTypeError(
            "ML698",
            f"{what}: {name} must be of {kind.__name__}, got {shown(value)}",
            fix=f"pass a {kind.__name__}",
        )


def _check_scale(
    what: str, granularity: object, dtype: object, block_size: tuple[int, int] | None
) -> None:
    """Raises unless the granularity, the dtype and the blocks of scales fit together."""
    _of_kind(what, "granularity", granularity, Float8ScaleGranularity)
    _of_kind(what, "dtype", dtype, DType)
    if not isinstance(dtype, DType) or not dtype.is_float():
        raise _refuse(what, "dtype", dtype, "a float", "pass DType.float32 or DType.bfloat16")
    if (granularity is Float8ScaleGranularity.BLOCK) == (block_size is None):
        expected = "None" if block_size is not None else "given"
        fix = "pass block_size with Float8ScaleGranularity.BLOCK, and with that alone"
        raise _refuse(what, "block_size", block_size, expected, fix)
    if block_size is not None and not (
        isinstance(block_size, tuple)
        and len(block_size) == 2
        and all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in block_size)
    ):
        fix = "pass weight_block_size of the model's config.json as a tuple: (128, 128)"
        raise _refuse(what, "block_size", block_size, "two positive ints", fix)


class _Granular:
    """Questions about the granularity of a scale."""

    granularity: Float8ScaleGranularity

    @property
    def is_tensor(self) -> bool:
        """Whether there is one scale for the whole matrix."""
        return self.granularity is Float8ScaleGranularity.TENSOR

    @property
    def is_rowwise(self) -> bool:
        """Whether each row has a scale."""
        return self.granularity is Float8ScaleGranularity.ROWWISE

    @property
    def is_colwise(self) -> bool:
        """Whether each column has a scale; of inputs, each token."""
        return self.granularity is Float8ScaleGranularity.COLWISE

    @property
    def is_block(self) -> bool:
        """Whether each block has a scale."""
        return self.granularity is Float8ScaleGranularity.BLOCK


@dataclass(frozen=True)
class Float8WeightScaleSpec(_Granular):
    """How a weight ``[out, in]`` is scaled.

    Attributes:
        granularity: The parts that share a scale.
        dtype: The element type of the scales.
        block_size: Rows and columns of a block, with ``BLOCK`` alone.

    Raises:
        ArgumentError: ML698, values that do not fit together.
        ArgumentTypeError: ML698, a value of another class.

    Example:
        >>> from maxlab.dtype import DType
        >>> blocks = Float8WeightScaleSpec(
        ...     Float8ScaleGranularity.BLOCK, DType.float32, block_size=(128, 128)
        ... )
        >>> blocks.is_block, blocks.scale_shape(512, 200)
        (True, (4, 2))
    """

    granularity: Float8ScaleGranularity
    dtype: DType
    block_size: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        _check_scale("Float8WeightScaleSpec", self.granularity, self.dtype, self.block_size)

    def scale_shape(self, rows: int, columns: int) -> tuple[int, ...]:
        """The shape of the scales of a weight ``[rows, columns]``; blocks at the ends may be
        smaller."""
        if self.block_size is not None:
            return math.ceil(rows / self.block_size[0]), math.ceil(columns / self.block_size[1])
        if self.is_tensor:
            return ()
        return (rows, 1) if self.is_rowwise else (1, columns)


@dataclass(frozen=True)
class Float8InputScaleSpec(_Granular):
    """How an input is scaled before it is rounded to float8.

    Attributes:
        granularity: The parts that share a scale.
        origin: Whether scales are weights, or computed from each input.
        dtype: The element type of the scales.
        activation_scale_ub: The largest magnitude that a computed scale is for; larger elements
            are cut. None cuts none.
        block_size: Rows and columns of a block, with ``BLOCK`` alone.

    Raises:
        ArgumentError: ML698, values that do not fit together.
        ArgumentTypeError: ML698, a value of another class.

    Example:
        >>> from maxlab.dtype import DType
        >>> spec = Float8InputScaleSpec(
        ...     Float8ScaleGranularity.COLWISE, Float8ScaleOrigin.DYNAMIC, DType.float32
        ... )
        >>> spec.is_colwise, spec.activation_scale_ub
        (True, None)
    """

    granularity: Float8ScaleGranularity
    origin: Float8ScaleOrigin
    dtype: DType
    activation_scale_ub: float | None = None
    block_size: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        what = "Float8InputScaleSpec"
        _check_scale(what, self.granularity, self.dtype, self.block_size)
        _of_kind(what, "origin", self.origin, Float8ScaleOrigin)
        bound = self.activation_scale_ub
        if bound is None:
            return
        if (
            isinstance(bound, bool)
            or not isinstance(bound, (int, float))
            or not 0 < bound < math.inf
        ):
            fix = "pass activation_scale_ub of the model's config.json"
            raise _refuse(what, "activation_scale_ub", bound, "a positive number", fix)
        if self.origin is Float8ScaleOrigin.STATIC:
            fix = "leave the bound out: static scales are as they are"
            raise _refuse(what, "activation_scale_ub", bound, "None with static scales", fix)


@dataclass(frozen=True)
class Float8Config:
    """Which layers of a model are in float8, and how they are scaled.

    Attributes:
        input_scale: How inputs are scaled.
        weight_scale: How weights are scaled.
        mlp_in_float8: Numbers of the layers whose MLP is in float8, all of its projections.
        attn_qkv_in_float8: Numbers of the layers whose attention is in float8, all of its
            projections.
        embedding_output_dtype: The element type of embedded tokens; None when the file does not
            say it.
        quant_method: The name of the format, such as ``"fbgemm_fp8"``.
        bias_dtype: The element type of the biases of float8 projections; None without biases.

    Raises:
        ArgumentError: ML698, numbers of layers that are no ints of 0 or more.
        ArgumentTypeError: ML698, a value of another class.

    Example:
        >>> from maxlab.dtype import DType
        >>> rows, columns = Float8ScaleGranularity.ROWWISE, Float8ScaleGranularity.COLWISE
        >>> config = Float8Config(
        ...     Float8InputScaleSpec(columns, Float8ScaleOrigin.DYNAMIC, DType.float32),
        ...     Float8WeightScaleSpec(rows, DType.float32),
        ...     mlp_in_float8={1, 2},
        ...     attn_qkv_in_float8=set(),
        ... )
        >>> config.is_dynamic, config.is_static
        (True, False)
    """

    input_scale: Float8InputScaleSpec
    weight_scale: Float8WeightScaleSpec
    mlp_in_float8: set[int]
    attn_qkv_in_float8: set[int]
    embedding_output_dtype: DType | None = None
    quant_method: str | None = None
    bias_dtype: DType | None = None

    def __post_init__(self) -> None:
        what = "Float8Config"
        _of_kind(what, "input_scale", self.input_scale, Float8InputScaleSpec)
        _of_kind(what, "weight_scale", self.weight_scale, Float8WeightScaleSpec)
        for name in ("mlp_in_float8", "attn_qkv_in_float8"):
            value: Any = getattr(self, name)
            _of_kind(what, name, value, set)
            if not all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in value):
                fix = "number the layers from 0"
                raise _refuse(what, name, value, "a set of ints of 0 or more", fix)
        for name in ("embedding_output_dtype", "bias_dtype"):
            if getattr(self, name) is not None:
                _of_kind(what, name, getattr(self, name), DType)
        if self.quant_method is not None:
            _of_kind(what, "quant_method", self.quant_method, str)

    @property
    def is_static(self) -> bool:
        """Whether the scales of inputs are weights of the model."""
        return self.input_scale.origin is Float8ScaleOrigin.STATIC

    @property
    def is_dynamic(self) -> bool:
        """Whether the scales of inputs are computed from each input."""
        return self.input_scale.origin is Float8ScaleOrigin.DYNAMIC


__all__ = [
    "Float8Config",
    "Float8InputScaleSpec",
    "Float8ScaleGranularity",
    "Float8ScaleOrigin",
    "Float8WeightScaleSpec",
]
