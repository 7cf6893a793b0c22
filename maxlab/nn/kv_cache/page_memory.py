"""The memory of a paged cache: a tensor of pages on each device, and on the host."""

from __future__ import annotations

import math
from collections.abc import Sequence

from maxlab.driver import CPU, Device, Tensor
from maxlab.errors import ArgumentError
from maxlab.nn.kv_cache.cache_params import KVCacheParams
from maxlab.nn.kv_cache.metrics import KVCacheMetrics


class PageMemory:
    """Pages on the devices of one replica, each with a part of the heads, and on the host.

    Args:
        params: The parameters of the cache; ``n_devices`` is that of the replica.
        num_layers: The number of layers.
        devices: The devices of the replica.
        count: The number of pages on the devices.
        host_count: The number of pages on the host.
        poison: Whether pages that hold nothing are filled with NaN, so that a kernel that reads
            what was never written gives NaN. Each page that changes hands is written once more.

    Attributes:
        blocks: The pages on each device, [count, 2 or 1, layers, tokens, heads, head's size].
        host: The pages on the host for each device.
        nbytes: Bytes of a page, of all devices together.

    Raises:
        ArgumentError: ML650 (a ValueError), ``poison`` with a dtype that has no NaN.
        DeviceError: ML403, not enough memory.
    """

    def __init__(
        self,
        params: KVCacheParams,
        num_layers: int,
        devices: Sequence[Device],
        count: int,
        host_count: int = 0,
        poison: bool = False,
    ) -> None:
        if poison and not params.dtype.is_float():
            raise ArgumentError(
                "ML650",
                f"poison: a cache of floating-point numbers expected ≠ {params.dtype.name} given",
                why=["other numbers have no NaN to fill pages with"],
                fix="leave poison at False",
            )
        shape = params.shape_per_block(num_layers)
        # Not filled: the host gives memory out when it is first written to, and a cache may be as
        # large as all that is free. No kernel reads a token that is not there.
        self.blocks = [Tensor(params.dtype, (count, *shape), one) for one in devices]
        self.host = [Tensor(params.dtype, (host_count, *shape), CPU()) for _ in devices]
        self.nbytes = math.prod(shape) * params.dtype.size_in_bytes * len(devices)
        self._poison = poison
        for page in range(count):
            self.empty(page)

    def empty(self, page: int) -> None:
        """Fills a page that holds nothing any more, where pages are poisoned."""
        if self._poison:
            for blocks in self.blocks:
                blocks[page] = math.nan

    def copy(self, source: int, target: int) -> None:
        """Copies a page to another one."""
        for blocks in self.blocks:
            blocks[target].inplace_copy_from(blocks[source])

    def to_host(self, page: int, host_page: int, metrics: KVCacheMetrics) -> None:
        """Copies a page of the devices to one of the host, and counts it."""
        for blocks, host in zip(self.blocks, self.host, strict=True):
            host[host_page].inplace_copy_from(blocks[page])
        metrics.d2h_blocks_copied += 1
        metrics.d2h_bytes_copied += self.nbytes

    def to_devices(self, host_page: int, page: int, metrics: KVCacheMetrics) -> None:
        """Copies a page of the host to one of the devices, and counts it."""
        for blocks, host in zip(self.blocks, self.host, strict=True):
            blocks[page].inplace_copy_from(host[host_page])
        metrics.h2d_blocks_copied += 1
        metrics.h2d_bytes_copied += self.nbytes


__all__ = ["PageMemory"]
