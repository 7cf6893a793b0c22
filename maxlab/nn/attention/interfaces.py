"""The interface of attention on several devices."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from maxlab.graph import BufferValue, TensorValue
from maxlab.nn.module import Module

if TYPE_CHECKING:
    from maxlab.nn.kv_cache import PagedCacheValues


class DistributedAttentionImpl(Module):
    """Attention of a ragged batch on several devices, each with its own cache. Extend it to bring
    one of your own."""

    @abstractmethod
    def __call__(
        self,
        layer_idx: TensorValue,
        x: Sequence[TensorValue],
        signal_buffers: Sequence[BufferValue],
        kv_collections: Sequence[PagedCacheValues],
        freqs_cis: Sequence[TensorValue],
        input_row_offsets: Sequence[TensorValue],
    ) -> list[TensorValue]:
        """The attention of each row, ``[tokens, hidden_size]``, on each device.

        Args:
            layer_idx: The layer of the cache, uint32 of rank 0.
            x: The rows of all sequences, ``[tokens, hidden_size]``, of each device.
            signal_buffers: The signal buffer of each device.
            kv_collections: The cache of each device.
            freqs_cis: The table of the rotary embedding on each device.
            input_row_offsets: Where the rows of each sequence begin, on each device.

        Raises:
            NotImplementedError: The class that extends this one does not define it.
        """
        raise NotImplementedError


__all__ = ["DistributedAttentionImpl"]
