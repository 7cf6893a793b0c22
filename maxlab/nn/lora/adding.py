"""Adapters for a model that was made without: its linear layers are replaced."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from maxlab.dtype import DType
from maxlab.graph import TensorValue
from maxlab.nn.dense import Linear
from maxlab.nn.lora.batches import SupportsLoRA
from maxlab.nn.lora.linear import LinearLoRA
from maxlab.nn.module import Module

TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
"""The names of the linear layers of a decoder that adapters change."""


def add_lora(
    module: Module,
    max_num_loras: int,
    max_lora_rank: int,
    dtype: DType,
    targets: Collection[str] = TARGETS,
) -> dict[str, LinearLoRA]:
    """The layers with adapters, by their paths, that take the place of linear layers of ``module``.
    They have the weights of these, whose names stay.

    Args:
        module: The model.
        max_num_loras: The number of adapters.
        max_lora_rank: The largest rank.
        dtype: The element type of the rows, and so of the matrices of adapters.
        targets: The names of the layers, the last part of their paths.

    Raises:
        ArgumentError: ML716, a size that is not a positive int.

    Example:
        >>> from maxlab import nn
        >>> from maxlab.dtype import DType
        >>> mlp = nn.MLP(DType.float32, None, 8, 16, ["cpu"])
        >>> sorted(add_lora(mlp, 2, 4, DType.float32))
        ['down_proj', 'gate_proj', 'up_proj']
    """
    found: dict[str, LinearLoRA] = {}
    for path, parent in list(module.named_modules()):
        for name, layer in list(parent.sublayers.items()):
            if name in targets and type(layer) is Linear:
                made = LinearLoRA.around(layer, max_num_loras, max_lora_rank, dtype)
                setattr(parent, name, made)
                found[f"{path}.{name}" if path else name] = made
    return found


def lora_layers(module: Module) -> Iterator[tuple[str, LinearLoRA]]:
    """The linear layers with adapters below ``module``, by their paths.

    Args:
        module: The model.
    """
    for path, layer in module.named_modules():
        if isinstance(layer, LinearLoRA):
            yield path, layer


def set_lora_batch_info(
    module: Module,
    lora_ids: TensorValue,
    lora_ranks: TensorValue,
    lora_grouped_offsets: TensorValue,
) -> None:
    """Sets the adapters of the rows of the batch in all layers below ``module`` that have adapters;
    call it before the model, in each graph.

    Args:
        module: The model.
        lora_ids: The adapter of each group of rows, integers [groups]; -1 is the base.
        lora_ranks: The rank of each group, integers [groups].
        lora_grouped_offsets: Where the groups begin, and the end of the last one, integers
            [groups + 1].
    """
    for layer in module.modules():
        if isinstance(layer, SupportsLoRA):
            layer.set_lora_batch_info(lora_ids, lora_ranks, lora_grouped_offsets)


__all__ = ["TARGETS", "add_lora", "lora_layers", "set_lora_batch_info"]
