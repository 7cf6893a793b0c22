"""The adapters of the rows of a batch, and the layers that are told them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from maxlab.errors import ModuleError
from maxlab.graph import TensorValue


@dataclass(frozen=True, eq=False)
class BatchInfo:
    """The adapters of the rows of a batch.

    Args:
        ids: The adapter of each group of rows, integers [groups]; -1 is the base.
        ranks: The rank of each group, integers [groups].
        offsets: Where the groups begin, and the end of the last one, integers [groups + 1].
    """

    ids: TensorValue
    ranks: TensorValue
    offsets: TensorValue


@runtime_checkable
class SupportsLoRA(Protocol):
    """A layer to whose output adapters add something, by the rows of a batch."""

    def set_lora_batch_info(
        self, lora_ids: TensorValue, lora_ranks: TensorValue, lora_grouped_offsets: TensorValue
    ) -> None:
        """Sets the adapters of the rows of the batch; call it before the layer, in each graph.

        Args:
            lora_ids: The adapter of each group of rows, integers [groups]; -1 is the base.
            lora_ranks: The rank of each group, integers [groups].
            lora_grouped_offsets: Where the groups begin, and the end of the last one, integers
                [groups + 1].
        """
        ...

    def apply_lora(self, x: TensorValue) -> TensorValue:
        """The sum that adapters add to the output for ``x``; 0 for rows of the base.

        Args:
            x: The rows, [tokens, inputs].

        Raises:
            ValueError: ``set_lora_batch_info`` has not been called.
        """
        ...


def require_batch(what: str, info: BatchInfo | None) -> BatchInfo:
    """``info``, which has been set.

    Args:
        what: The layer, for errors.
        info: What was set; None for nothing.

    Raises:
        ModuleError: ML535 (a ValueError), nothing was.
    """
    if info is None:
        raise ModuleError(
            "ML535",
            f"{what}: the adapters of the batch are not known",
            fix="call set_lora_batch_info(lora_ids, lora_ranks, offsets) before the layer",
        )
    return info


__all__ = ["BatchInfo", "SupportsLoRA", "require_batch"]
