"""Sizes of caches of keys and values: one formula for the manager and for estimates."""

from __future__ import annotations

from maxlab.errors import ArgumentError
from maxlab.interfaces import fields
from maxlab.nn.kv_cache.cache_params import KVCacheParams, KVCacheStrategy

PAGE_MULTIPLE = 128
"""A page has a multiple of this number of tokens."""
GIB = 2**30
"""Bytes of the unit that the swap space is given in."""


def pages_of(tokens: int, page_size: int) -> int:
    """The pages that ``tokens`` tokens of one sequence take.

    Example:
        >>> pages_of(0, 128), pages_of(128, 128), pages_of(129, 128)
        (0, 1, 2)
    """
    return -(-tokens // page_size)


def pages_within(nbytes: int, page_nbytes: int, most: int | None = None) -> int:
    """The whole pages that fit into ``nbytes`` bytes, up to ``most``; 0 or more.

    Args:
        nbytes: The bytes that there are.
        page_nbytes: The bytes of a page.
        most: The most pages that are of use; None without a limit.

    Example:
        >>> pages_within(1000, 300), pages_within(1000, 300, most=2)
        (3, 2)
    """
    count = max(nbytes, 0) // page_nbytes
    return count if most is None else min(count, most)


def check_paged(params: KVCacheParams) -> None:
    """Raises unless a manager takes the parameters.

    Raises:
        ArgumentError: ML644 (a ValueError), another strategy or size of a page.
        InputTypeError: ML980, no parameters.
    """
    fields.instance(KVCacheParams)("params", params)
    paged = params.cache_strategy is KVCacheStrategy.PAGED
    size = params.page_size
    if not paged or size is None or size % PAGE_MULTIPLE:
        raise ArgumentError(
            "ML644",
            f"a paged cache with pages of a multiple of {PAGE_MULTIPLE} tokens expected ≠ "
            f"page_size={size}, cache_strategy={params.cache_strategy.value!r} given",
            fix=f"pass page_size={PAGE_MULTIPLE}, cache_strategy='paged'",
        )


def pages_of_replica(
    params: KVCacheParams,
    max_batch_size: int,
    max_seq_len: int,
    num_layers: int,
    available: int | None,
) -> int:
    """The number of pages of each replica.

    Args:
        params: The parameters of the cache.
        max_batch_size: The most sequences of a batch of one replica.
        max_seq_len: The most tokens of a sequence.
        num_layers: The number of layers.
        available: The bytes that the pages of all devices may take; None without a limit.

    Example:
        >>> from maxlab.dtype import DType
        >>> params = KVCacheParams(DType.float32, 8, 64, page_size=128)
        >>> pages_of_replica(params, 2, 1000, 2, None), pages_of_replica(params, 2, 1000, 2, 10**7)
        (16, 9)
    """
    assert params.page_size is not None
    most = max_batch_size * pages_of(max_seq_len, params.page_size)
    if available is None:
        return most
    page = params.bytes_per_block(num_layers) * params.n_devices
    # More pages than all sequences take are of use only if they keep prefixes.
    return pages_within(available, page, None if params.enable_prefix_caching else most)


def host_pages_of_replica(params: KVCacheParams, num_layers: int) -> int:
    """The number of pages on the host of each replica."""
    space = params.host_kvcache_swap_space_gb
    if not params.enable_kvcache_swapping_to_host or space is None:
        return 0
    return pages_within(int(space * GIB), params.bytes_per_block(num_layers) * params.n_devices)


__all__ = ["check_paged", "host_pages_of_replica", "pages_of", "pages_of_replica", "pages_within"]
