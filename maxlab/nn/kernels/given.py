"""Caches of keys and values as kernels take them, and tests of what is passed."""

from __future__ import annotations

from typing import Any, Protocol

from maxlab.dtype import DType
from maxlab.errors import DTypeError, ShapeError
from maxlab.graph import BufferValue, TensorValue
from maxlab.nn.ranks import moved, require_rank


class CacheParams(Protocol):
    """The parameters of a cache that kernels read; ``KVCacheParams`` has them."""

    @property
    def dtype(self) -> DType:
        """The dtype of keys and values."""
        ...

    @property
    def n_kv_heads_per_device(self) -> int:
        """The number of heads of keys."""
        ...

    @property
    def head_dim(self) -> int:
        """The size of a head."""
        ...

    @property
    def page_size(self) -> int | None:
        """The tokens of a page."""
        ...


class PagedCache(Protocol):
    """A paged cache inside of a graph; ``PagedCacheValues`` is one."""

    @property
    def kv_blocks(self) -> BufferValue:
        """The pages, [pages, 2, layers, tokens of a page, heads, head's size]."""
        ...

    @property
    def cache_lengths(self) -> TensorValue:
        """The tokens of each sequence that are cached, uint32 [batch]."""
        ...

    @property
    def lookup_table(self) -> TensorValue:
        """The pages of each sequence, uint32 [batch, pages of a sequence]."""
        ...

    @property
    def max_lengths(self) -> TensorValue:
        """The most new tokens and the most tokens in all, uint32 [steps, 2], on the host."""
        ...


def require_pages(what: str, params: CacheParams, cache: PagedCache) -> BufferValue:
    """The pages of ``cache``, which are those that ``params`` describe.

    Raises:
        ShapeError: ML659 (a ValueError), heads, sizes or pages that differ.
        DTypeError: ML666 (a ValueError), another dtype.
    """
    blocks = cache.kv_blocks
    if blocks.dtype is not params.dtype:
        raise DTypeError(
            "ML666",
            f"{what}: kv_params say {params.dtype.name}, the pages hold {blocks.dtype.name}",
            fix=f"make the cache with the dtype {params.dtype.name}",
        )
    wanted = (params.page_size, params.n_kv_heads_per_device, params.head_dim)
    if blocks.rank != 6 or any(a != b for a, b in zip(blocks.shape[3:], wanted, strict=True)):
        raise ShapeError(
            "ML659",
            f"{what}: kv_params say pages [pages, 2, layers, "
            f"{', '.join(map(str, wanted))}], the cache has {blocks.type}",
            fix="pass the parameters that the cache was made with",
        )
    return blocks


def numbers(
    what: str, cache: PagedCache, row_offsets: Any, layer_idx: Any
) -> tuple[TensorValue, TensorValue, TensorValue, TensorValue]:
    """Row offsets, cache lengths, the table and the layer, on the device of the pages.

    Raises:
        ArgumentTypeError: ML317, no tensors.
        ShapeError: ML659 (a ValueError), other ranks.
    """
    device = cache.kv_blocks.device
    offsets = require_rank(what, "input_row_offsets", row_offsets, 1)
    layer = require_rank(what, "layer_idx", layer_idx, 0)
    return offsets, cache.cache_lengths, cache.lookup_table, moved(layer, device)


__all__ = ["CacheParams", "PagedCache", "moved", "numbers", "require_pages", "require_rank"]
