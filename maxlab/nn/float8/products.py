"""Products of 8-bit floats that have scales; sums are float32, and weights stay bytes in memory."""

from __future__ import annotations

from typing import Any

from maxlab.dtype import DType
from maxlab.errors import ArgumentError
from maxlab.graph import DeviceRef, Dim, TensorValue, ops
from maxlab.graph.build import staged
from maxlab.nn.float8.checks import (
    cast_to,
    require_codes,
    require_equal,
    require_numbers,
    require_rows,
    require_scales,
)
from maxlab.nn.float8.quantizing import one_scale, require_specs
from maxlab.nn.float8_config import Float8InputScaleSpec, Float8WeightScaleSpec
from maxlab.nn.ranks import moved

Blocks = tuple[int, int]
"""Rows and columns of a matrix that share a scale; 0 stands for all of them."""


@staged
def dynamic_scaled_matmul(
    a: TensorValue,
    b: TensorValue,
    a_scales: TensorValue,
    b_scales: TensorValue,
    input_scale_spec: Float8InputScaleSpec,
    weight_scale_spec: Float8WeightScaleSpec,
    out_type: DType = DType.bfloat16,
) -> TensorValue:
    """The product of ``a`` and the transpose of ``b``, ``[rows, n]``, both times their scales.

    Args:
        a: 8-bit floats ``[rows, k]``.
        b: 8-bit floats ``[n, k]``.
        a_scales: The scales of ``a`` as ``quantize_dynamic_scaled_float8`` makes them: ``[1,
            rows]``, ``[1, 1]``, or ``[ceil(k / columns of a block), rows or more]``.
        b_scales: The scales of ``b``: ``[n, 1]`` (``ROWWISE``), ``[1, 1]``, or one for each block.
        input_scale_spec: How ``a`` is scaled: ``COLWISE``, ``TENSOR`` or ``BLOCK``.
        weight_scale_spec: How ``b`` is scaled: ``ROWWISE``, ``TENSOR`` or ``BLOCK``.
        out_type: The dtype of the result: float32, bfloat16 or float16.

    Raises:
        ShapeError: ML659, other ranks or sizes (a ValueError).
        DTypeError: ML666, other dtypes (a ValueError).
        ArgumentError: ML698, scales that do not go together.
        ArgumentTypeError: ML698, specs of another class; ML317, no tensors.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType
        >>> from maxlab.nn.float8_config import (
        ...     Float8InputScaleSpec,
        ...     Float8ScaleGranularity,
        ...     Float8ScaleOrigin,
        ...     Float8WeightScaleSpec,
        ... )
        >>> from maxlab.nn.kernels import dynamic_scaled_matmul
        >>> rows, columns = Float8ScaleGranularity.ROWWISE, Float8ScaleGranularity.COLWISE
        >>> f32, f8 = DType.float32, DType.float8_e4m3fn
        >>> specs = (
        ...     Float8InputScaleSpec(columns, Float8ScaleOrigin.DYNAMIC, f32),
        ...     Float8WeightScaleSpec(rows, f32),
        ... )
        >>> shapes = (f8, ["m", 64]), (f8, [32, 64]), (f32, [1, "m"]), (f32, [32, 1])
        >>> with Graph("g", input_types=[TensorType(*shape) for shape in shapes]) as graph:
        ...     dynamic_scaled_matmul(*graph.inputs, *specs, out_type=f32).shape
        [Dim('m'), Dim(32)]
    """
    what = "dynamic_scaled_matmul"
    left = require_codes(what, "a", a, 2)
    right = require_codes(what, "b", b, 2)
    across, blocks = _of_specs(what, input_scale_spec, weight_scale_spec)
    scales = require_scales(what, "a_scales", a_scales, 2)
    wide = scaled_rows(what, left, scales, across)
    of_weights = weight_scales(what, right, b_scales, blocks)
    return cast_to(what, scaled_product(what, wide, right, of_weights, blocks), out_type)


@staged
def batched_dynamic_scaled_fp8_matmul(
    a: TensorValue,
    b: TensorValue,
    a_scales: TensorValue,
    b_scales: TensorValue,
    input_scale_spec: Float8InputScaleSpec,
    weight_scale_spec: Float8WeightScaleSpec,
    out_type: DType = DType.bfloat16,
) -> TensorValue:
    """``dynamic_scaled_matmul`` of each pair of matrices of a batch.

    Args:
        a: 8-bit floats ``[batch, rows, k]``.
        b: 8-bit floats ``[batch, n, k]``.
        a_scales: The scales of ``a``, ``[batch, ...]``, as
            ``batched_quantize_dynamic_scaled_float8`` makes them.
        b_scales: The scales of ``b``, ``[batch, ...]``.
        input_scale_spec: How ``a`` is scaled.
        weight_scale_spec: How ``b`` is scaled.
        out_type: The dtype of the result: float32, bfloat16 or float16.

    Raises:
        ShapeError, DTypeError, ArgumentError, ArgumentTypeError: As of ``dynamic_scaled_matmul``.
    """
    what = "batched_dynamic_scaled_fp8_matmul"
    left = require_codes(what, "a", a, 3)
    right = require_codes(what, "b", b, 3)
    across, blocks = _of_specs(what, input_scale_spec, weight_scale_spec)
    wide = scaled_left(what, left, require_scales(what, "a_scales", a_scales, 3), across)
    of_weights = weight_scales(what, right, b_scales, blocks)
    batch, rows, k = wide.shape
    require_equal(what, "batches", (batch, k), (right.shape[0], right.shape[2]))
    cpu, device = DeviceRef.CPU(), wide.device
    count = moved(ops.cast(ops.shape_to_tensor([batch]), DType.uint32), device)
    ids = ops.range(0, batch, 1, batch, dtype=DType.int32, device=device)
    turns = ops.range(0, batch + 1, 1, batch + 1, dtype=DType.int64, device=cpu)
    starts = moved(ops.cast(turns * ops.shape_to_tensor([rows]), DType.uint32), device)
    made = ops.matmul_float8_ragged(
        wide.reshape([batch * rows, k]),
        right,
        of_weights,
        starts,
        ids,
        count.reshape([]),
        *blocks,
    )
    return cast_to(what, made.reshape([batch, rows, right.shape[1]]), out_type)


@staged
def grouped_dynamic_scaled_fp8_matmul(
    hidden_states: TensorValue,
    weight: TensorValue,
    a_scales: TensorValue,
    b_scales: TensorValue,
    expert_start_indices: TensorValue,
    expert_ids: TensorValue,
    expert_usage_stats_host: TensorValue,
    input_scale_spec: Float8InputScaleSpec,
    weight_scale_spec: Float8WeightScaleSpec,
    out_type: DType = DType.bfloat16,
) -> TensorValue:
    """The products of groups of tokens with the weights of their experts, ``[tokens, n]``.

    Args:
        hidden_states: 8-bit floats ``[tokens, k]``, those of a group side by side.
        weight: The weights of the experts, 8-bit floats ``[experts, n, k]``.
        a_scales: The scales of ``hidden_states``, as ``quantize_dynamic_scaled_float8`` makes them.
        b_scales: The scales of the weights, ``[experts, ...]``.
        expert_start_indices: Where the tokens of each group begin and where the last ones end,
            uint32 ``[groups + 1]``.
        expert_ids: The expert of each group, int32 ``[groups]``; the tokens of a negative one
            give 0.
        expert_usage_stats_host: The most tokens of a group, and how many groups there are: uint32
            ``[2]``. Groups behind these are not looked at.
        input_scale_spec: How ``hidden_states`` are scaled.
        weight_scale_spec: How the weights are scaled.
        out_type: The dtype of the result: float32, bfloat16 or float16.

    Raises:
        ShapeError, DTypeError, ArgumentError, ArgumentTypeError: As of ``dynamic_scaled_matmul``.
    """
    what = "grouped_dynamic_scaled_fp8_matmul"
    left = require_codes(what, "hidden_states", hidden_states, 2)
    right = require_codes(what, "weight", weight, 3)
    across, blocks = _of_specs(what, input_scale_spec, weight_scale_spec)
    scales = require_scales(what, "a_scales", a_scales, 2)
    wide = scaled_rows(what, left, scales, across)
    of_weights = weight_scales(what, right, b_scales, blocks)
    require_equal(what, "columns", wide.shape[1:], right.shape[2:])
    starts, ids, stats = (
        require_numbers(what, name, x, dtype)
        for name, x, dtype in (
            ("expert_start_indices", expert_start_indices, DType.uint32),
            ("expert_ids", expert_ids, DType.int32),
            ("expert_usage_stats_host", expert_usage_stats_host, DType.uint32),
        )
    )
    require_equal(what, "numbers of groups", starts.shape, [ids.shape[0] + 1])
    require_equal(what, "expert_usage_stats_host", stats.shape, [Dim(2)])
    count = moved(stats[1], wide.device)
    made = ops.matmul_float8_ragged(wide, right, of_weights, starts, ids, count, *blocks)
    return cast_to(what, made, out_type)


@staged
def matmul_static_scaled_float8(
    input: TensorValue, weight: TensorValue, input_scale: TensorValue, weight_scale: TensorValue
) -> TensorValue:
    """The product of ``input`` and the transpose of ``weight``, both times their one scale, in
    bfloat16.

    Args:
        input: 8-bit floats ``[rows, k]``.
        weight: 8-bit floats ``[n, k]``.
        input_scale: One float, of shape ``[]`` or ``[1]``.
        weight_scale: One float, of shape ``[]`` or ``[1]``.

    Raises:
        ShapeError: ML659, other ranks or sizes (a ValueError).
        DTypeError: ML666, other dtypes (a ValueError).
        ArgumentTypeError: ML317, no tensors.
    """
    what = "matmul_static_scaled_float8"
    one = one_scale(what, "weight_scale", weight_scale)
    return static_product(what, input, weight, input_scale, one, (0, 0), DType.bfloat16)


# ---------------------------------------------------------------- parts
def static_product(
    what: str,
    x: TensorValue,
    weight: TensorValue,
    input_scale: TensorValue,
    scales: TensorValue,
    blocks: Blocks,
    dtype: DType,
) -> TensorValue:
    """The product of 8-bit floats ``x`` with one scale and of ``weight`` with one for each of its
    blocks, as ``dtype``.

    Raises:
        ShapeError: ML659, sizes that do not fit.
        DTypeError: ML666, other dtypes.
    """
    left, right = require_codes(what, "input", x, 2), require_codes(what, "weight", weight, 2)
    factor = one_scale(what, "input_scale", input_scale)
    of_weights = weight_scales(what, right, scales, blocks)
    wide = ops.cast(left, DType.float32) * factor
    return cast_to(what, scaled_product(what, wide, right, of_weights, blocks), dtype)


def _of_specs(
    what: str, input_spec: Float8InputScaleSpec, weight_spec: Float8WeightScaleSpec
) -> tuple[int, Blocks]:
    """The columns of an input that share a scale, 0 for all, and the blocks of weights.

    Raises:
        ArgumentTypeError: ML698, no specs.
        ArgumentError: ML698, scales of rows of inputs, or of columns of weights, or of blocks and
            of something else.
    """
    require_specs(what, input_spec, weight_spec)
    if input_spec.is_rowwise or weight_spec.is_colwise:
        raise ArgumentError(
            "ML698",
            f"{what}: there are no products of inputs with a scale for each "
            f"{'row' if input_spec.is_rowwise else 'token'} and of weights with one for each "
            f"{weight_spec.granularity.value}",
            fix="inputs have COLWISE scales, one for a token, and weights ROWWISE ones, or both "
            "have BLOCK; TENSOR goes with either of the first two",
        )
    across = input_spec.block_size[1] if input_spec.block_size is not None else 0
    return across, blocks_of(weight_spec)


def blocks_of(spec: Float8WeightScaleSpec) -> Blocks:
    """The rows and columns of a weight that share a scale."""
    if spec.block_size is not None:
        return spec.block_size
    return (1, 0) if spec.is_rowwise else (0, 0)


def scaled_left(what: str, x: TensorValue, scales: TensorValue, across: int) -> TensorValue:
    """The float32 numbers of the 8-bit floats ``x``, ``[batch, rows, k]``, times their scales.

    Args:
        what: Who asks.
        x: The floats.
        scales: ``[batch, groups, rows or more]``, or ``[batch, 1, 1]`` for all rows.
        across: The columns of a group; 0 when all are in one.

    Raises:
        ShapeError: ML659, sizes that do not fit.
    """
    batch, rows, k = x.shape
    groups = (k + (across - 1)) // across if across else Dim(1)
    require_equal(what, "groups of scales of the input", scales.shape[:2], (batch, groups))
    wide = ops.cast(x, DType.float32)
    if scales.shape[2] == 1 and not across:
        return wide * scales
    if across and scales.shape[2] != rows:
        require_rows(what, scales.shape[2], rows)
        scales = scales[:, :, :rows]
    require_equal(what, "rows of the input and their scales", scales.shape[2:], (rows,))
    scales = ops.rebind(scales, [batch, groups, rows])
    each = ops.transpose(scales, 1, 2)
    if across:
        each = ops.broadcast_to(ops.unsqueeze(each, 3), [batch, rows, groups, across])
        each = each.reshape([batch, rows, groups * across])[:, :, :k]
    return wide * each


def scaled_rows(what: str, x: TensorValue, scales: TensorValue, across: int) -> TensorValue:
    """The same of ``[rows, k]`` and ``[groups, rows or more]``."""
    batch = scaled_left(what, ops.unsqueeze(x, 0), ops.unsqueeze(scales, 0), across)
    return ops.squeeze(batch, 0)


def weight_scales(what: str, weight: TensorValue, scales: Any, blocks: Blocks) -> TensorValue:
    """The float32 scales of ``weight``, one for each of its ``blocks``.

    Raises:
        ShapeError: ML659, another number of them.
        DTypeError: ML666, no floats.
    """
    value = require_scales(what, "the scales of weights", scales)
    down, across = blocks
    *lead, n, k = weight.shape
    wanted = [
        *lead,
        (n + (down - 1)) // down if down else Dim(1),
        (k + (across - 1)) // across if across else Dim(1),
    ]
    if value.rank < weight.rank and not across:  # [n], or [] of all
        value = value.reshape(wanted) if _elements(value.shape) == _elements(wanted) else value
    require_equal(what, "scales of weights", value.shape, wanted)
    return ops.cast(value, DType.float32)


def _elements(shape: Any) -> Dim:
    made = Dim(1)
    for dim in shape:
        made = made * dim
    return made


def scaled_product(
    what: str, wide: TensorValue, weight: TensorValue, scales: TensorValue, blocks: Blocks
) -> TensorValue:
    """The float32 product of ``wide``, ``[rows, k]``, and ``weight``, transposed, times scales."""
    require_equal(what, "inner sizes", wide.shape[-1:], weight.shape[-1:])
    return ops.matmul_float8(wide, weight, scales, *blocks)


__all__ = [
    "Blocks",
    "batched_dynamic_scaled_fp8_matmul",
    "blocks_of",
    "dynamic_scaled_matmul",
    "grouped_dynamic_scaled_fp8_matmul",
    "matmul_static_scaled_float8",
    "scaled_left",
    "scaled_product",
    "scaled_rows",
    "static_product",
    "weight_scales",
]
