"""Parts of models that several devices compute together, each its heads of attention, its part of
perceptrons, and its part of the words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from maxlab import nn
from maxlab.driver import Device
from maxlab.errors import ArgumentError
from maxlab.graph import DeviceRef
from maxlab.nn.attention.on_devices import TensorParallel
from maxlab.nn.rotary_embedding import RotaryEmbedding
from maxlab.nn.transformer import DistributedTransformer, DistributedTransformerBlock
from maxlab.pipelines.architectures.decoder_parts import BiasedAttention, Given, MixedEncodings


def different_places(what: str, devices: Sequence[Device]) -> list[DeviceRef]:
    """The names in graphs of the devices that compute a model.

    Args:
        what: The model, as errors name it.
        devices: The devices.

    Raises:
        ArgumentError: ML469 (a ValueError), one of them is there twice.
    """
    places = [DeviceRef.from_device(device) for device in devices]
    if len(set(places)) < len(places):
        raise ArgumentError(
            "ML469",
            f"{what}: {len(places)} different devices expected ≠ {', '.join(map(str, places))} "
            "given",
            why=["every CPU is the host where no virtual ones were asked for"],
            fix=f"call driver.use_virtual_cpus({len(places)}) first, or name each device once",
        )
    return places


class ParallelAttention(TensorParallel, BiasedAttention):  # type: ignore[misc]
    """``BiasedAttention`` whose heads are divided among devices.

    Args:
        config: The configuration of the checkpoint.
        given: What its layers are made with.
        rope: The rotary embedding.
        **more: Further arguments of ``AttentionWithRope``.
    """


class CausalLMOnDevices(MixedEncodings, DistributedTransformer):
    """A model with its head on several devices: tokens, [tokens], to logits, [rows, vocab_size].

    Args:
        config: The configuration of the checkpoint.
        given: What its layers are made with.
        rope: The rotary embedding.
        layers: The layers.
        norm: The norm behind them.

    Raises:
        ShapeError: ML798, fewer words than devices, or blocks of packed weights that would be cut.
    """

    def __init__(
        self,
        config: Any,
        given: Given,
        rope: RotaryEmbedding,
        layers: Sequence[DistributedTransformerBlock],
        norm: nn.RMSNorm,
    ) -> None:
        devices = list(given.devices)
        encoding = given.quantization_encoding
        table = nn.VocabParallelEmbedding(
            config.vocab_size, config.hidden_size, given.dtype, devices, encoding
        )
        tied = table.weight if config.tie_word_embeddings else None
        super().__init__(
            dim=config.hidden_size,
            n_heads=config.num_attention_heads,
            layers=list(layers),
            norm=norm,
            output=nn.ColumnParallelLinear(
                config.hidden_size,
                config.vocab_size,
                given.dtype,
                devices,
                tied,
                quantization_encoding=encoding,
            ),
            embedding=table,
            kv_params=given.kv_params,
            devices=devices,
            rope=rope,
            return_logits=given.return_logits,
        )


__all__ = ["CausalLMOnDevices", "ParallelAttention", "different_places"]
