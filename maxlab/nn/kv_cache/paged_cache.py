"""A paged cache on the devices of one replica: its memory, its tables, the inputs of its model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from maxlab.driver import Device, Tensor
from maxlab.interfaces import TextGenerationContext
from maxlab.nn.kv_cache.block_manager import BlockManager, too_few
from maxlab.nn.kv_cache.cache_params import KVCacheParams
from maxlab.nn.kv_cache.manager import RaggedKVCacheInputs
from maxlab.nn.kv_cache.page_memory import PageMemory

FEWEST = 4
"""The fewest pages that a row of a table has room for; the next widths are powers of two. So a
model is bound to few widths, not to another one whenever the longest sequence begins a page. Where
a sequence has no page, the table has the number of all pages, which no page has."""


class PagedCache:
    """The pages of one replica, and the tables by which kernels find them.

    Args:
        params: The parameters of the cache, of this replica alone; pages of any size.
        num_layers: The number of layers.
        devices: The devices of the replica; with several, each holds a part of the heads.
        count: The number of pages.
        host_count: The number of pages on the host for what leaves the devices.
        checks: Whether every change is followed by a check of all tables.
        poison: Whether pages that hold nothing are filled with NaN.

    Attributes:
        memory: The tensors.
        blocks: Who has which page.
        page_size: The number of tokens of a page.

    Raises:
        ArgumentError, DeviceError: As by `PageMemory`.

    Example:
        >>> from maxlab.driver import CPU
        >>> from maxlab.dtype import DType
        >>> from maxlab.pipelines.core import TextContext
        >>> params = KVCacheParams(DType.float32, n_kv_heads=1, head_dim=2, page_size=4)
        >>> cache = PagedCache(params, 1, [CPU()], count=3)
        >>> context = TextContext(max_length=9, tokens=np.arange(6))
        >>> cache.blocks.claim(context.request_id)
        >>> cache.blocks.reserve(context, num_steps=1)
        True
        >>> cache.inputs([context], num_steps=2)[0].lookup_table.to_numpy()
        array([[0, 1, 3, 3]], dtype=uint32)
    """

    def __init__(
        self,
        params: KVCacheParams,
        num_layers: int,
        devices: Sequence[Device],
        count: int,
        *,
        host_count: int = 0,
        checks: bool = False,
        poison: bool = False,
    ) -> None:
        assert params.page_size is not None  # a paged cache has one
        self.page_size = params.page_size
        self.devices = list(devices)
        self.memory = PageMemory(params, num_layers, devices, count, host_count, poison)
        self.blocks = BlockManager(
            self.memory,
            count,
            self.page_size,
            shares=params.enable_prefix_caching,
            host_count=host_count,
            checks=checks,
        )

    def inputs(
        self, batch: Sequence[TextGenerationContext], num_steps: int
    ) -> list[RaggedKVCacheInputs]:
        """The inputs of the model for a batch, on each device.

        Args:
            batch: The sequences, in the order of the model's other inputs; there may be none.
            num_steps: The number of steps that the model makes with them.

        Raises:
            InputError: ML621, a sequence was not claimed; ML645, its pages are too few for the
                steps (each a ValueError).
        """
        rows = []
        for context in batch:
            pages = self.blocks.of(context.request_id).pages
            tokens = context.active_idx + num_steps - 1
            wanted = self.blocks.wanted(context, num_steps)
            if len(pages) < wanted:
                raise too_few(context, len(pages), self.page_size, tokens)
            rows.append(pages[:wanted])
        longest = max((len(row) for row in rows), default=0)
        width = max(1 << max(longest - 1, 0).bit_length(), FEWEST)
        table = np.full((len(rows), width), self.blocks.pool.count, np.uint32)
        for number, row in enumerate(rows):
            table[number, : len(row)] = row
        lengths = np.array([context.start_idx for context in batch], np.uint32)
        most = max_lengths(batch, num_steps)
        return [
            RaggedKVCacheInputs(
                blocks=blocks,
                cache_lengths=Tensor.from_numpy(lengths.copy()).to(device),
                lookup_table=Tensor.from_numpy(table.copy()).to(device),
                max_lengths=most,
            )
            for blocks, device in zip(self.memory.blocks, self.devices, strict=True)
        ]


def max_lengths(batch: Sequence[TextGenerationContext], num_steps: int) -> Tensor:
    """The most new tokens and the most tokens in all of each step, uint32 [steps, 2], on the host.

    Each step after the first one adds a token.

    Args:
        batch: The sequences.
        num_steps: The number of steps.
    """
    rows = np.ones((num_steps, 2), np.uint32)
    rows[0, 0] = max((context.active_length for context in batch), default=0)
    longest = max((context.active_idx for context in batch), default=0)
    rows[:, 1] = longest + np.arange(num_steps)
    if not batch:
        rows[:] = 0
    return Tensor.from_numpy(rows)


__all__ = ["PagedCache", "max_lengths"]
