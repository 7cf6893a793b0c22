"""Weights of 8-bit floats in layers: their scales, products with them, and shards of the scales."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from maxlab.dtype import DType
from maxlab.errors import ModuleError, shown
from maxlab.graph import DeviceRef, ShardingStrategy, TensorValue, Weight, ops
from maxlab.graph.sharding import Part, part_of
from maxlab.nn.float8.products import blocks_of, dynamic_scaled_matmul, static_product
from maxlab.nn.float8.quantizing import (
    convert_weights_to_fp8_fnuz_if_needed,
    quantize_dynamic_scaled_float8,
    quantize_static_scaled_float8,
)
from maxlab.nn.float8_config import Float8Config
from maxlab.nn.sharding import unfit


def check_float8(what: str, config: Any, dtype: DType, **others: Any) -> Float8Config:
    """``config``, when it fits ``dtype`` and there is nothing beside it.

    Raises:
        ModuleError: ML717, no ``Float8Config``, scales that no product takes, a weight of another
            dtype, or one of ``others`` that is not None.
    """
    if not isinstance(config, Float8Config):
        raise _not_so(what, f"float8_config={shown(config)}", "pass a Float8Config, or None")
    if dtype is not DType.float8_e4m3fn:
        raise _not_so(
            what,
            f"float8_config is given, and the dtype is {dtype.name}",
            "pass DType.float8_e4m3fn, or leave float8_config out for a layer that is not in it",
        )
    for name, value in others.items():
        if value is not None:
            raise _not_so(what, f"{name}={shown(value)} beside float8_config", f"leave {name} out")
    of_input, of_weight = config.input_scale, config.weight_scale
    if (
        of_input.is_rowwise
        or of_weight.is_colwise
        or of_input.is_block != of_weight.is_block
        or (config.is_static and not of_input.is_tensor)
        or (of_input.block_size is not None and of_input.block_size[0] != 1)
    ):
        raise _not_so(
            what,
            f"{'static' if config.is_static else 'dynamic'} input scales for each "
            f"{of_input.granularity.value} and weight scales for each "
            f"{of_weight.granularity.value}",
            "inputs have one scale, or dynamic ones for each token (COLWISE); weights one, or one "
            "for each row; or both have dynamic blocks",
        )
    return config


def _not_so(what: str, said: str, fix: str) -> ModuleError:
    return ModuleError("ML717", f"{what}: {said}: the layer cannot be built so", fix=fix)


def bias_dtype(config: Float8Config) -> DType:
    """The dtype of a bias beside a weight of 8-bit floats."""
    return config.bias_dtype or config.embedding_output_dtype or DType.float32


def scales_of(
    stem: str, config: Float8Config, rows: int, columns: int
) -> tuple[Weight | None, Weight]:
    """The scale of the input, where it is static, and those of a weight ``[rows, columns]``."""
    cpu, of_input, of_weight = DeviceRef.CPU(), config.input_scale, config.weight_scale
    shape = of_weight.scale_shape(rows, columns)
    given = Weight(f"{stem}input_scale", of_input.dtype, (), cpu) if config.is_static else None
    return given, Weight(f"{stem}weight_scale", of_weight.dtype, shape, cpu)


def scaled_product(
    x: TensorValue,
    weight: TensorValue,
    weight_scale: TensorValue,
    input_scale: TensorValue | None,
    config: Float8Config,
) -> TensorValue:
    """``x @ weight.T`` in the dtype of ``x``, where the rows of ``x`` are rounded to 8-bit floats
    first: by ``input_scale``, or by scales that are found in them."""
    *lead, columns = x.shape
    rows = ops.reshape(x, [-1, columns]) if len(lead) != 1 else x
    weight, weight_scale = convert_weights_to_fp8_fnuz_if_needed(weight, weight_scale)
    of_input, of_weight = config.input_scale, config.weight_scale
    if input_scale is not None:
        if weight.dtype is DType.float8_e4m3fnuz:
            input_scale = input_scale * 2.0
        codes = quantize_static_scaled_float8(rows, input_scale, True, weight.dtype)
        y = static_product(
            "Linear", codes, weight, input_scale, weight_scale, blocks_of(of_weight), x.dtype
        )
    else:
        if of_weight.is_tensor:
            weight_scale = weight_scale.reshape([1, 1])
        bound = of_input.activation_scale_ub
        codes, scales = quantize_dynamic_scaled_float8(
            rows,
            of_input,
            of_weight,
            math.inf if bound is None else bound,
            of_input.block_size[1] if of_input.block_size is not None else -1,
            weight.dtype,
            of_input.dtype,
        )
        y = dynamic_scaled_matmul(codes, weight, scales, weight_scale, of_input, of_weight, x.dtype)
    return y if len(lead) == 1 else ops.reshape(y, [*lead, weight.shape[0]])


# ---------------------------------------------------------------- several weights as one
def largest_scale(scales: Sequence[Weight | None], device: DeviceRef) -> TensorValue:
    """The largest of ``scales``, each of one number, of rank 0."""
    parts = [scale.to(device).reshape([1]) for scale in scales if scale is not None]
    return ops.max(ops.concat(parts), axis=0).reshape([])


def joined_scale(
    what: str, config: Float8Config, layers: Sequence[Any], device: DeviceRef
) -> TensorValue:
    """The scales of rows or blocks of the weights of ``layers``, one below the other.

    Raises:
        ModuleError: ML717, the rows of a weight are not of whole blocks.
    """
    rows = (config.weight_scale.block_size or (1, 1))[0]
    for layer in layers[:-1]:
        if int(layer.weight.shape[0]) % rows:
            raise _not_so(
                what,
                f"one scale for queries, keys and values with blocks of {rows} rows, of a "
                f"weight of {layer.weight.shape[0]} rows",
                "read the weight and the scale of each projection",
            )
    return ops.concat([layer.weight_scale.to(device) for layer in layers], axis=0)


def rescaled(weight: TensorValue, scale: TensorValue, other: TensorValue) -> TensorValue:
    """The weight with the scale ``scale``, rounded so that its scale is ``other``."""
    wide = ops.cast(weight, DType.float32) * ops.cast(scale, DType.float32)
    return quantize_static_scaled_float8(wide, other, True, weight.dtype)


# ---------------------------------------------------------------- shards
def scale_strategy(
    what: str, weight: Weight, config: Float8Config, strategy: ShardingStrategy | None
) -> ShardingStrategy | None:
    """How the scales of ``weight`` are cut, so that each shard has those of its part.

    Raises:
        ModuleError: ML719, a shard would end inside of a block.
    """
    if strategy is None:
        return None
    sizes = [int(dim) for dim in weight.shape]
    scales = config.weight_scale.scale_shape(*sizes)
    blocks = config.weight_scale.block_size or (1, 1)

    def cut(shape: Sequence[int], index: int) -> Part:
        part = part_of(weight, strategy, index)
        if not scales:
            return ()
        return tuple(
            ((0, 1),) if count == 1 else tuple(_blocks(runs, size, block))
            for count, size, block, runs in zip(scales, sizes, blocks, part, strict=True)
        )

    def _blocks(runs: Sequence[tuple[int, int]], size: int, block: int) -> list[tuple[int, int]]:
        found = []
        for number, (start, end) in enumerate(runs):
            last = end == size and number + 1 == len(runs)
            if start % block or (end % block and not last):
                raise unfit(
                    f"{what}, whose weight has a scale for each {block} of {size},",
                    strategy,
                    f"let each shard have a multiple of {block}, or replicate it",
                )
            found.append((start // block, -(-end // block)))
        return found

    made = ShardingStrategy(strategy.num_devices, strategy.name, cut)
    for index in range(strategy.num_devices):
        cut(scales, index)
    return made


__all__ = [
    "bias_dtype",
    "check_float8",
    "joined_scale",
    "largest_scale",
    "rescaled",
    "scale_strategy",
    "scaled_product",
    "scales_of",
]
