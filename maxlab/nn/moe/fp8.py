"""``MoEFp8``: a mixture of experts whose weights are 8-bit floats."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from maxlab.dtype import DType
from maxlab.errors import ModuleError, shown
from maxlab.graph import TensorValue, ops
from maxlab.nn.float8_config import Float8Config, Float8ScaleGranularity
from maxlab.nn.kernels import grouped_dynamic_scaled_fp8_matmul, quantize_dynamic_scaled_float8
from maxlab.nn.mlp import MLP
from maxlab.nn.moe.moe import MoE
from maxlab.nn.moe.routing import Routing


class MoEFp8(MoE):
    """A mixture of experts whose weights are 8-bit floats with scales. They stay of 8 bits in
    memory, and the rows of each product are rounded to 8 bits too, by scales found in them.

    It takes the arguments of ``MoE``. The gate is not in 8 bits; shared experts are. With
    ``ep_size`` vectors are rounded where their experts are: a scale of a whole tensor is that of
    what a device got, other scales are as on one device.

    Args:
        dtype: The element type of the gate, which is not float8.
        float8_config: How the weights of the experts and the inputs of products are scaled; scales
            of inputs must be dynamic.

    Attributes:
        experts: The experts, whose weights are named as those of ``MoE``, with a ``weight_scale``
            beside each ``weight``.

    Raises:
        ModuleError: ML717, no config, one that products of experts do not take, or a gate of
            float8; others as of ``MoE``.

    Example:
        >>> from maxlab import nn
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import DeviceRef
        >>> from maxlab.nn.float8_config import (
        ...     Float8Config,
        ...     Float8InputScaleSpec,
        ...     Float8ScaleGranularity,
        ...     Float8ScaleOrigin,
        ...     Float8WeightScaleSpec,
        ... )
        >>> block, f32 = Float8ScaleGranularity.BLOCK, DType.float32
        >>> config = Float8Config(
        ...     Float8InputScaleSpec(block, Float8ScaleOrigin.DYNAMIC, f32, block_size=(1, 128)),
        ...     Float8WeightScaleSpec(block, f32, (128, 128)),
        ...     mlp_in_float8={0},
        ...     attn_qkv_in_float8=set(),
        ... )
        >>> layer = nn.moe.MoEFp8(
        ...     [DeviceRef.CPU()], 256, 8, 2, 128, dtype=f32, float8_config=config
        ... )
        >>> list(layer.experts[0].gate_proj.weight_scale.shape)
        [Dim(1), Dim(2)]
    """

    def _take_float8(self, float8_config: Any, dtype: Any, moe_dim: Any) -> None:
        what, config = type(self).__name__, float8_config
        if not isinstance(config, Float8Config):
            raise _unfit(what, f"float8_config={shown(config)}", "pass a Float8Config, or use MoE")
        if isinstance(dtype, DType) and dtype.is_float8():
            raise _unfit(
                what,
                f"dtype={dtype.name}, which would be that of the gate",
                "pass the dtype of activations, such as DType.bfloat16",
            )
        if config.is_static:
            raise _unfit(
                what, "static scales of inputs", "pass Float8ScaleOrigin.DYNAMIC for input_scale"
            )
        size = config.weight_scale.block_size
        if size is not None and isinstance(moe_dim, int) and moe_dim % size[0]:
            raise _unfit(
                what,
                f"moe_dim={moe_dim}, with a scale for each {size[0]} rows",
                f"pass a multiple of {size[0]}: gate and up lie one above the other",
            )
        self.float8_config = config

    def _expert(self, size: int) -> MLP:
        return MLP(
            DType.float8_e4m3fn,
            None,
            self.hidden_dim,
            size,
            self.devices,
            float8_config=self.float8_config,
        )

    @property
    def gate_up_proj_scales(self) -> TensorValue:
        """The scales of ``gate_up_proj``: one for each row, ``[experts, 2 * moe_dim, 1]``, or for
        each block, ``[experts, rows of blocks, columns of blocks]``."""
        layers = [layer for e in self.experts for layer in (e.gate_proj, e.up_proj)]
        stacked = ops.stack([self._scales(layer) for layer in layers], 0)
        _, down, across = stacked.shape
        return ops.reshape(stacked, [len(self.experts), 2 * int(down), across])

    @property
    def down_proj_scales(self) -> TensorValue:
        """The scales of ``down_proj``: one for each row, ``[experts, hidden_dim, 1]``, or for each
        block."""
        return ops.stack([self._scales(expert.down_proj) for expert in self.experts], 0)

    def _scales(self, layer: Any) -> TensorValue:
        """The scales of a projection, of rank 2. A scale of a whole matrix becomes one of each row,
        since gate and up have one each."""
        scales: TensorValue = layer.weight_scale.to(self.devices[0])
        if not self.float8_config.weight_scale.is_tensor:
            return scales
        return ops.broadcast_to(ops.reshape(scales, [1, 1]), [layer.weight.shape[0], 1])

    def computed(self, rows: TensorValue, routing: Routing) -> TensorValue:
        """The outputs of the experts for their rows, ``[rows, hidden_dim]``.

        Args:
            rows: The inputs of the experts, ``[rows, hidden_dim]``, in the order of ``routing``.
            routing: Which rows are of which expert.
        """
        inner = self._product(rows, routing, self.gate_up_proj, self.gate_up_proj_scales)
        half = int(inner.shape[1]) // 2
        inner = ops.silu(inner[:, :half]) * inner[:, half:]
        return self._product(inner, routing, self.down_proj, self.down_proj_scales)

    def _product(
        self, rows: TensorValue, routing: Routing, weight: TensorValue, scales: TensorValue
    ) -> TensorValue:
        """The products of rows, rounded to 8 bits, with the matrices of their experts."""
        of_input, of_weight = self.float8_config.input_scale, self.float8_config.weight_scale
        if of_weight.is_tensor:
            of_weight = replace(of_weight, granularity=Float8ScaleGranularity.ROWWISE)
        bound, block = of_input.activation_scale_ub, of_input.block_size
        codes, found = quantize_dynamic_scaled_float8(
            rows,
            of_input,
            of_weight,
            math.inf if bound is None else bound,
            -1 if block is None else block[1],
            weight.dtype,
            of_input.dtype,
        )
        return grouped_dynamic_scaled_fp8_matmul(
            codes,
            weight,
            found,
            scales,
            routing.starts,
            routing.ids,
            routing.usage,
            of_input,
            of_weight,
            rows.dtype,
        )


def _unfit(what: str, said: str, fix: str) -> ModuleError:
    return ModuleError("ML717", f"{what}: {said}: the layer cannot be built so", fix=fix)


__all__ = ["MoEFp8"]
