"""The part of Qwen2.5-VL that sees: patches of images become vectors of tokens."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxlab import nn
from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Dim, TensorType, TensorValue, ops
from maxlab.nn.attention import MHAMaskVariant
from maxlab.nn.kernels import flash_attention_ragged_gpu
from maxlab.pipelines.architectures.decoder_parts import not_computed
from maxlab.pipelines.architectures.encoder import require_activation

_EPSILON = 1e-6
"""The number that norms add to the mean square; config.json does not have it."""


def _norm(config: Any, dtype: DType) -> nn.RMSNorm:
    return nn.RMSNorm(config.hidden_size, dtype, _EPSILON, multiply_before_cast=False)


class Attention(nn.Module):
    """Attention among the patches of a window or of a frame, [patches, hidden_size] to the same.

    Queries and keys are turned by the row and the column of their patch.

    Args:
        config: The configuration of the part that sees.
        dtype: The dtype of weights and activations.
        device: The device.
    """

    def __init__(self, config: Any, dtype: DType, device: DeviceRef) -> None:
        size = config.hidden_size
        self.heads = config.num_heads
        self.head_dim = size // self.heads
        self.qkv = nn.Linear(size, 3 * size, dtype, device, has_bias=True)
        self.proj = nn.Linear(size, size, dtype, device, has_bias=True)

    def __call__(
        self,
        x: TensorValue,
        cos: TensorValue,
        sin: TensorValue,
        offsets: TensorValue,
        longest: TensorValue,
    ) -> TensorValue:
        """The attention of each patch.

        Args:
            x: The vectors of the patches, [patches, hidden_size].
            cos: The cosine of each pair of a head, float32 [patches, 1, head_dim / 2].
            sin: The sine of each pair.
            offsets: Where the patches of each window or frame begin, uint32 [windows + 1].
            longest: The most patches of one, uint32 [1].
        """
        rows, heads, size = x.shape[0], self.heads, self.head_dim
        all_three = ops.reshape(self.qkv(x), [rows, 3, heads, size])
        q, k, v = (all_three[:, n] for n in range(3))

        def turned(part: TensorValue) -> TensorValue:
            wide = ops.cast(part, DType.float32)
            a, b = wide[:, :, : size // 2], wide[:, :, size // 2 :]
            made = ops.concat([a * cos - b * sin, b * cos + a * sin], axis=2)
            return ops.cast(made, part.dtype)

        mask = MHAMaskVariant.NULL_MASK
        found = flash_attention_ragged_gpu(
            turned(q), turned(k), v, offsets, longest, mask, size**-0.5
        )
        return self.proj(ops.reshape(found, [rows, heads * size]))


class Block(nn.Module):
    """A layer: attention and a gated perceptron, each of the normalised input and added to it."""

    def __init__(self, config: Any, dtype: DType, device: DeviceRef) -> None:
        self.norm1, self.norm2 = _norm(config, dtype), _norm(config, dtype)
        self.attn = Attention(config, dtype, device)
        self.mlp = nn.MLP(
            dtype,
            None,
            config.hidden_size,
            config.intermediate_size,
            [device],
            has_bias=True,
            activation_function=config.hidden_act,
        )

    def __call__(self, x: TensorValue, *seen: TensorValue) -> TensorValue:
        x = x + self.attn(self.norm1(x), *seen)  # [patches, hidden_size]
        return x + self.mlp(self.norm2(x))


class Merger(nn.Module):
    """Makes one vector of the neighbouring patches of a token, [patches, hidden_size] to [tokens,
    out_hidden_size]."""

    def __init__(self, config: Any, dtype: DType, device: DeviceRef) -> None:
        self.size = config.hidden_size * config.spatial_merge_size**2
        self.ln_q = _norm(config, dtype)
        self.up = nn.Linear(self.size, self.size, dtype, device, has_bias=True)
        self.down = nn.Linear(self.size, config.out_hidden_size, dtype, device, has_bias=True)

    def __call__(self, x: TensorValue, tokens: Dim) -> TensorValue:
        """The vectors of tokens.

        Args:
            x: The vectors of patches, those of a token side by side.
            tokens: The number of tokens.
        """
        merged = ops.reshape(self.ln_q(x), [tokens, self.size])
        return self.down(ops.gelu(self.up(merged)))


class VisionTower(nn.Module):
    """Vectors of tokens of the patches of images. Most layers see windows, some whole images.

    Args:
        config: The ``vision_config`` of the checkpoint.
        dtype: The dtype of weights and activations.
        device: The device.

    Raises:
        UnsupportedError: ML169 (a NotImplementedError), a variant that is not computed.
    """

    def __init__(self, config: Any, dtype: DType, device: DeviceRef) -> None:
        require_activation(config.hidden_act, config.model_type)
        rope = getattr(config, "rope_parameters", None) or {}
        if (kind := rope.get("rope_type", "axial")) != "axial":
            raise not_computed(config, "rope_type", kind, "patches are turned by axial angles")
        head_dim = config.hidden_size // config.num_heads
        if head_dim % 4:
            raise not_computed(
                config, "num_heads", config.num_heads, "heads are of a multiple of 4 numbers"
            )
        half = head_dim // 2
        steps = np.arange(0, half, 2, dtype=np.float32) / np.float32(half)
        theta = np.float32(rope.get("rope_theta", 10000.0))
        self.frequencies = (1.0 / theta**steps).astype(np.float32)  # [head_dim / 4]
        self.dtype, self.device = dtype, device
        pixels = config.in_channels * config.temporal_patch_size * config.patch_size**2
        self.pixels = pixels
        self.unit = config.spatial_merge_size**2
        self.whole = frozenset(config.fullatt_block_indexes)
        self.patch_embed = nn.Linear(pixels, config.hidden_size, dtype, device)
        self.blocks = nn.LayerList([Block(config, dtype, device) for _ in range(config.depth)])
        self.merger = Merger(config, dtype, device)

    def input_types(self) -> list[TensorType]:
        """The types of the inputs: see ``__call__``."""
        return [
            TensorType(DType.float32, ["image_tokens", self.unit, self.pixels], self.device),
            TensorType(DType.float32, ["image_tokens", self.unit, 2], self.device),
            TensorType(DType.int64, ["image_tokens"], self.device),
            TensorType(DType.uint32, ["windows"], self.device),
            TensorType(DType.uint32, ["frames"], self.device),
            TensorType(DType.uint32, [1], DeviceRef.CPU()),
        ]

    def __call__(
        self,
        pixels: TensorValue,
        places: TensorValue,
        back: TensorValue,
        windows: TensorValue,
        frames: TensorValue,
        longest: TensorValue,
    ) -> TensorValue:
        """The vectors of the tokens of images, [image_tokens, out_hidden_size].

        Args:
            pixels: The pixels of the patches of each token, float32 [image_tokens, unit, pixels],
                in the order of windows.
            places: The row and the column of each patch, float32 [image_tokens, unit, 2].
            back: The place of each token among those in the order of windows, int64
                [image_tokens].
            windows: Where the patches of each window begin, uint32 [windows + 1].
            frames: Where the patches of each frame begin, uint32 [frames + 1].
            longest: The most patches of a window or frame, uint32 [1].
        """
        tokens = pixels.shape[0]
        patches = tokens * self.unit
        frequencies = ops.constant(self.frequencies, DType.float32, self.device)
        angles = ops.unsqueeze(places, 3) * frequencies  # [tokens, unit, 2, head_dim / 4]
        angles = ops.reshape(angles, [patches, 1, 2 * len(self.frequencies)])
        cos, sin = ops.cos(angles), ops.sin(angles)
        x = ops.reshape(ops.cast(pixels, self.dtype), [patches, self.pixels])
        x = self.patch_embed(x)
        for number, block in enumerate(self.blocks):
            x = block(x, cos, sin, frames if number in self.whole else windows, longest)
        return ops.gather(self.merger(x, tokens), back, 0)


__all__ = ["VisionTower"]
