"""Functions of graphs that round tensors to floats of 8 bits, by scales that are given or found."""

from __future__ import annotations

import math
from typing import Any

from maxlab.driver import accelerator_api, accelerator_architecture_name, accelerator_count
from maxlab.dtype import DType
from maxlab.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError, shown
from maxlab.graph import TensorValue, ops
from maxlab.graph.build import staged, tensor
from maxlab.nn.float8_config import (
    Float8InputScaleSpec,
    Float8ScaleOrigin,
    Float8WeightScaleSpec,
)
from maxlab.nn.ranks import require_rank

CODES = (DType.float8_e4m3fn, DType.float8_e4m3fnuz)
FLOATS = (DType.float32, DType.bfloat16, DType.float16)


@staged
def quantize_static_scaled_float8(
    x: TensorValue,
    scale: TensorValue,
    scale_is_inverted: bool = True,
    out_type: DType = DType.float8_e4m3fn,
) -> TensorValue:
    """``x`` over ``scale``, rounded to floats of 8 bits, in its shape.

    What is past the largest number becomes the largest number; NaN stays NaN.

    Args:
        x: Floats of any shape.
        scale: One float.
        scale_is_inverted: Whether ``x`` is divided by the scale; False multiplies it.
        out_type: float8_e4m3fn or float8_e4m3fnuz.

    Raises:
        ShapeError: ML659, more than one scale (a ValueError).
        DTypeError: ML666, other dtypes (a ValueError).
        ArgumentTypeError: ML317, no tensors.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType
        >>> from maxlab.nn.kernels import quantize_static_scaled_float8
        >>> given = [TensorType(DType.bfloat16, ["rows", 64]), TensorType(DType.float32, [])]
        >>> Graph("g", quantize_static_scaled_float8, given).output_types[0].dtype
        DType.float8_e4m3fn
    """
    what = "quantize_static_scaled_float8"
    wide = _floats(what, "x", x)
    one = one_scale(what, "scale", scale)
    _require_kind(what, "out_type", out_type, CODES)
    return _rounded(wide / one if scale_is_inverted else wide * one, out_type)


@staged
def quantize_dynamic_scaled_float8(
    input: TensorValue,
    input_scale_spec: Float8InputScaleSpec,
    weight_scale_spec: Float8WeightScaleSpec,
    scale_ub: float = 1200.0,
    group_size_or_per_token: int = -1,
    out_type: DType = DType.float8_e4m3fn,
    scales_type: DType = DType.bfloat16,
) -> tuple[TensorValue, TensorValue]:
    """``input`` rounded to floats of 8 bits, and the scales that this needs.

    A scale is the largest size of the numbers that it is for, ``scale_ub`` at most, over the
    largest number of ``out_type``; it is rounded to ``scales_type``, and numbers are divided by
    what it then is. Numbers that are all 0 have the scale 0; a NaN makes NaN of all of them.

    Scales lie with tokens along the last axis: ``[1, rows]`` with one for each token, ``[1, 1]``
    with one for all. With blocks they are ``[ceil(hidden / group size), rows]``, where rows are
    padded by zeros to a multiple of 16 bytes.

    Args:
        input: Floats ``[rows, hidden]``.
        input_scale_spec: ``COLWISE``, a scale for each token; ``TENSOR``, one for all; or
            ``BLOCK``, for blocks of one token. Scales must be dynamic.
        weight_scale_spec: How the weights are scaled that the result is multiplied with; they are
            in blocks when the input is, and only then.
        scale_ub: The largest size that a scale is for; larger numbers become the largest number.
        group_size_or_per_token: The columns of a block; -1 without blocks.
        out_type: float8_e4m3fn or float8_e4m3fnuz.
        scales_type: float32, bfloat16 or float16.

    Returns:
        The numbers, ``[rows, hidden]``, and their scales.

    Raises:
        ShapeError: ML659, another rank (a ValueError).
        DTypeError: ML666, other dtypes (a ValueError).
        ArgumentError: ML698, scales that do not go together, or are not made so.
        ArgumentTypeError: ML698, specs of another class; ML317, no tensor.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType
        >>> from maxlab.nn.float8_config import (
        ...     Float8InputScaleSpec,
        ...     Float8ScaleGranularity,
        ...     Float8ScaleOrigin,
        ...     Float8WeightScaleSpec,
        ... )
        >>> from maxlab.nn.kernels import quantize_dynamic_scaled_float8
        >>> block, dynamic = Float8ScaleGranularity.BLOCK, Float8ScaleOrigin.DYNAMIC
        >>> specs = (
        ...     Float8InputScaleSpec(block, dynamic, DType.float32, block_size=(1, 128)),
        ...     Float8WeightScaleSpec(block, DType.float32, (128, 128)),
        ... )
        >>> with Graph("g", input_types=[TensorType(DType.float32, [3, 256])]) as graph:
        ...     codes, scales = quantize_dynamic_scaled_float8(
        ...         *graph.inputs, *specs, group_size_or_per_token=128, scales_type=DType.float32
        ...     )
        ...     codes.shape, scales.shape
        ([Dim(3), Dim(256)], [Dim(2), Dim(4)])
    """
    what = "quantize_dynamic_scaled_float8"
    given = require_rank(what, "input", input, 2)
    codes, scales = _dynamic(
        what,
        ops.unsqueeze(_floats(what, "input", given), 0),
        input_scale_spec,
        weight_scale_spec,
        scale_ub,
        group_size_or_per_token,
        out_type,
        scales_type,
    )
    return ops.squeeze(codes, 0), ops.squeeze(scales, 0)


@staged
def batched_quantize_dynamic_scaled_float8(
    input: TensorValue,
    input_scale_spec: Float8InputScaleSpec,
    weight_scale_spec: Float8WeightScaleSpec,
    scale_ub: float = 1200.0,
    group_size_or_per_token: int = -1,
    out_type: DType = DType.float8_e4m3fn,
    scales_type: DType = DType.bfloat16,
) -> tuple[TensorValue, TensorValue]:
    """``quantize_dynamic_scaled_float8`` of each matrix of a batch, ``[batch, rows, hidden]``; the
    scales have the batch first too.

    Raises:
        ShapeError, DTypeError, ArgumentError, ArgumentTypeError: As there.
    """
    what = "batched_quantize_dynamic_scaled_float8"
    return _dynamic(
        what,
        _floats(what, "input", require_rank(what, "input", input, 3)),
        input_scale_spec,
        weight_scale_spec,
        scale_ub,
        group_size_or_per_token,
        out_type,
        scales_type,
    )


def _dynamic(
    what: str,
    x: TensorValue,
    input_scale_spec: Float8InputScaleSpec,
    weight_scale_spec: Float8WeightScaleSpec,
    scale_ub: float,
    size: int,
    out_type: DType,
    scales_type: DType,
) -> tuple[TensorValue, TensorValue]:
    """The numbers and the scales of float32 matrices ``x``, ``[batch, rows, hidden]``."""
    require_specs(what, input_scale_spec, weight_scale_spec)
    _require_kind(what, "out_type", out_type, CODES)
    _require_kind(what, "scales_type", scales_type, FLOATS)
    block = _group_of(what, input_scale_spec, size)
    if isinstance(scale_ub, bool) or not isinstance(scale_ub, (int, float)) or not scale_ub > 0:
        raise ArgumentError(
            "ML698",
            f"{what}: scale_ub must be a positive number, got {shown(scale_ub)}",
            fix="pass activation_scale_ub of the model, or leave scale_ub out",
        )
    batch, rows, hidden = x.shape
    if input_scale_spec.is_tensor:
        parts = x.reshape([batch, 1, 1, rows * hidden])
    elif block:
        groups = (hidden + (block - 1)) // block
        whole = ops.pad(x, [0, 0, 0, 0, 0, groups * block - hidden])
        parts = whole.reshape([batch, rows, groups, block])
    else:
        parts = ops.unsqueeze(x, 2)
    largest = ops.max(ops.abs(parts), axis=-1)  # of NaN it is NaN
    if math.isfinite(scale_ub):
        largest = ops.min(largest, float(scale_ub))
    scales = ops.cast(largest / out_type.largest, scales_type)
    wide = ops.cast(scales, DType.float32)
    codes = _rounded(parts / ops.where(wide == 0, 1.0, wide), out_type)
    if input_scale_spec.is_tensor:
        return codes.reshape(x.shape), scales.reshape([batch, 1, 1])
    scales = ops.transpose(ops.squeeze(scales, 3), 1, 2)
    if not block:
        return codes.reshape(x.shape), scales
    return codes.reshape([batch, rows, groups * block])[:, :, :hidden], _padded(scales)


def _padded(scales: TensorValue) -> TensorValue:
    """``scales`` with zeros behind the last axis, up to a multiple of 16 bytes."""
    batch, groups, rows = scales.shape
    many = 16 // scales.dtype.size_in_bytes
    more = (rows + (many - 1)) // many * many - rows
    if more == 0:
        return scales
    none = ops.constant(0, scales.dtype, scales.device)
    return ops.concat([scales, ops.broadcast_to(none, [batch, groups, more])], axis=-1)


def _group_of(what: str, spec: Float8InputScaleSpec, size: int) -> int:
    """The columns of a block; 0 without blocks.

    Raises:
        ArgumentError: ML698, ``size`` and ``spec`` differ, or the spec says what is not made here.
    """
    if spec.origin is Float8ScaleOrigin.STATIC or spec.is_rowwise:
        given = "static scales" if not spec.is_rowwise else "a scale for each row"
        raise ArgumentError(
            "ML698",
            f"{what}: input_scale_spec says {given}; scales are made for each token (COLWISE), "
            "tensor or block, and are dynamic",
            fix="use quantize_static_scaled_float8 where a model has the scales, or COLWISE",
        )
    block = spec.block_size[1] if spec.block_size is not None else -1
    if size != block or (spec.block_size is not None and spec.block_size[0] != 1):
        raise ArgumentError(
            "ML698",
            f"{what}: group_size_or_per_token={shown(size)} with blocks of {spec.block_size}; the "
            "size of a group is the columns of a block of one row, and -1 without blocks",
            fix=f"pass group_size_or_per_token={block}, and blocks (1, {max(block, 1)})",
        )
    return max(block, 0)


def require_specs(what: str, input_spec: object, weight_spec: object) -> None:
    """Raises unless both are specs, and both or neither are in blocks.

    Raises:
        ArgumentTypeError: ML698, other classes.
        ArgumentError: ML698, one of them is in blocks.
    """
    for name, spec, kind in (
        ("input_scale_spec", input_spec, Float8InputScaleSpec),
        ("weight_scale_spec", weight_spec, Float8WeightScaleSpec),
    ):
        if not isinstance(spec, kind):
            raise ArgumentTypeError(
                "ML698",
                f"{what}: {name} must be a {kind.__name__}, got {shown(spec)}",
                fix="pass input_scale and weight_scale of a Float8Config",
            )
    assert isinstance(input_spec, Float8InputScaleSpec)
    assert isinstance(weight_spec, Float8WeightScaleSpec)
    if input_spec.is_block != weight_spec.is_block:
        one, other = ("input", "weight") if input_spec.is_block else ("weight", "input")
        raise ArgumentError(
            "ML698",
            f"{what}: the {one} is scaled in blocks and the {other} is not",
            fix="pass input_scale and weight_scale of one Float8Config",
        )


def one_scale(what: str, name: str, x: Any) -> TensorValue:
    """``x``, a tensor of one float, as float32 of rank 0.

    Raises:
        ShapeError: ML659, more than one element.
        DTypeError: ML666, no floats.
        ArgumentTypeError: ML317, no tensor.
    """
    scale = _floats(what, name, x)
    if any(dim != 1 for dim in scale.shape):
        raise ShapeError(
            "ML659",
            f"{what}: {name} must be one number, got {scale.type}",
            fix="pass the one scale of a tensor, of shape [] or [1]",
        )
    return scale.reshape([])


def _floats(what: str, name: str, x: Any) -> TensorValue:
    """``x`` as float32.

    Raises:
        DTypeError: ML666, of another dtype than float32, bfloat16 and float16.
        ArgumentTypeError: ML317, no tensor.
    """
    value: TensorValue = tensor(x, f"{what}: {name}")
    _require_kind(what, name, value.dtype, FLOATS)
    return ops.cast(value, DType.float32)


def _require_kind(what: str, name: str, dtype: object, known: tuple[DType, ...]) -> None:
    if dtype not in known:
        said = dtype.name if isinstance(dtype, DType) else shown(dtype)
        raise DTypeError(
            "ML666",
            f"{what}: {name} must be {' or '.join(d.name for d in known)}, got {said}",
            fix=f"use DType.{known[0].name}",
        )


def _rounded(x: TensorValue, dtype: DType) -> TensorValue:
    """float32 ``x``, cut to the numbers that ``dtype`` has, as ``dtype``."""
    limit = float(dtype.largest)
    return ops.cast(ops.max(ops.min(x, limit), -limit), dtype)


# ---------------------------------------------------------------- e4m3fnuz
def needs_fp8_fnuz_conversion() -> bool:
    """Whether the accelerator is of AMD's CDNA3, whose 8-bit floats are float8_e4m3fnuz.

    Example:
        >>> from maxlab.nn.kernels import needs_fp8_fnuz_conversion
        >>> needs_fp8_fnuz_conversion()
        False
    """
    if not accelerator_count() or accelerator_api() != "hip":
        return False
    return accelerator_architecture_name().startswith("gfx94")


@staged
def normalize_e4m3fn_to_e4m3fnuz(
    weight: TensorValue, weight_scale: TensorValue
) -> tuple[TensorValue, TensorValue]:
    """The weight as float8_e4m3fnuz with the same bits, and a scale twice as large.

    The bits of a number stand for half of it in float8_e4m3fnuz. Those of -0 would be NaN there:
    it becomes 0. NaN, whose bits would be a number, stays NaN.

    Raises:
        DTypeError: ML666, the weight is not float8_e4m3fn, or the scale no float (a ValueError).
        ArgumentTypeError: ML317, no tensors.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType
        >>> from maxlab.nn.kernels import normalize_e4m3fn_to_e4m3fnuz
        >>> given = [TensorType(DType.float8_e4m3fn, [8, 8]), TensorType(DType.float32, [8, 1])]
        >>> Graph("g", normalize_e4m3fn_to_e4m3fnuz, given).output_types[0].dtype
        DType.float8_e4m3fnuz
    """
    what = "normalize_e4m3fn_to_e4m3fnuz"
    value: TensorValue = tensor(weight, f"{what}: weight")
    scale: TensorValue = tensor(weight_scale, f"{what}: weight_scale")
    _require_kind(what, "weight", value.dtype, CODES[:1])
    _require_kind(what, "weight_scale", scale.dtype, FLOATS)
    half = ops.cast(value, DType.float32) * 0.5
    return ops.cast(half, DType.float8_e4m3fnuz), scale * 2.0


@staged
def convert_weights_to_fp8_fnuz_if_needed(
    weight: TensorValue, weight_scale: TensorValue
) -> tuple[TensorValue, TensorValue]:
    """``normalize_e4m3fn_to_e4m3fnuz`` where ``needs_fp8_fnuz_conversion`` says so; else the weight
    and the scale as they are.

    Raises:
        DTypeError: ML666, as of ``normalize_e4m3fn_to_e4m3fnuz``.
    """
    if needs_fp8_fnuz_conversion():
        return normalize_e4m3fn_to_e4m3fnuz(weight, weight_scale)
    return weight, weight_scale


__all__ = [
    "CODES",
    "FLOATS",
    "batched_quantize_dynamic_scaled_float8",
    "convert_weights_to_fp8_fnuz_if_needed",
    "needs_fp8_fnuz_conversion",
    "normalize_e4m3fn_to_e4m3fnuz",
    "one_scale",
    "quantize_dynamic_scaled_float8",
    "quantize_static_scaled_float8",
    "require_specs",
]
