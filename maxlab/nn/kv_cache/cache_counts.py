"""Counts of the pages of a cache: how many there are, are free, and were found."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from maxlab.driver import Tensor
from maxlab.nn.kv_cache.metrics import KVCacheMetrics
from maxlab.nn.kv_cache.page_table import PageTable
from maxlab.nn.kv_cache.paged_cache import PagedCache


class CacheCounts:
    """The base of a manager with the pages of several replicas: what can be asked of all of them.

    Args:
        replicas: The pages of each replica; each has as many.
    """

    def __init__(self, replicas: Sequence[PagedCache]) -> None:
        self._replicas = list(replicas)
        # A notebook may draw the pages while a thread of the scheduler changes them.
        self._lock = threading.RLock()

    @property
    def num_replicas(self) -> int:
        """The number of replicas."""
        return len(self._replicas)

    @property
    def page_size(self) -> int:
        """The number of tokens of a page."""
        return self._replicas[0].page_size

    @property
    def total_num_pages(self) -> int:
        """The number of pages, of all replicas."""
        return sum(one.blocks.pool.count for one in self._replicas)

    @property
    def total_num_host_pages(self) -> int:
        """The number of pages on the host, of all replicas."""
        return sum(one.blocks.host.count for one in self._replicas)

    @property
    def num_free_blocks(self) -> int:
        """The number of pages without a user, those that keep a prefix included."""
        with self._lock:
            return sum(one.blocks.pool.free_count for one in self._replicas)

    @property
    def num_shared_blocks(self) -> int:
        """The number of pages with several users."""
        with self._lock:
            return sum(one.blocks.pool.shared_count for one in self._replicas)

    @property
    def free_blocks_pct(self) -> float:
        """The part of the pages without a user, in [0, 1]."""
        return self.num_free_blocks / self.total_num_pages

    @property
    def used_blocks_pct(self) -> float:
        """The part of the pages with a user, in [0, 1]."""
        return 1 - self.free_blocks_pct

    @property
    def host_committed_block_pct(self) -> float:
        """The part of the pages on the host that hold a prefix, in [0, 1]; 0 without such pages."""
        with self._lock:
            used = sum(one.blocks.host.used_count for one in self._replicas)
        return used / self.total_num_host_pages if self.total_num_host_pages else 0.0

    def page_table(self) -> PageTable:
        """The pages as they are now: a table, which is a picture in a cell and a text in print."""
        with self._lock:
            return PageTable([one.blocks for one in self._replicas], self.page_size)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.page_table().title()}>"

    def __str__(self) -> str:
        return str(self.page_table())

    def _repr_html_(self) -> str:
        """The picture of `page_table`."""
        return self.page_table()._repr_html_()

    @property
    def metrics(self) -> KVCacheMetrics:
        """The counters of all replicas, added up."""
        with self._lock:
            return sum((one.blocks.metrics for one in self._replicas), KVCacheMetrics())

    def reset_metrics(self) -> None:
        """Sets all counters to 0."""
        with self._lock:
            for cache in self._replicas:
                cache.blocks.metrics = KVCacheMetrics()

    @property
    def device_tensors(self) -> list[list[Tensor]]:
        """The pages on each device of each replica."""
        return [list(one.memory.blocks) for one in self._replicas]

    @property
    def host_tensors(self) -> list[list[Tensor]]:
        """The pages on the host for each device of each replica."""
        return [list(one.memory.host) for one in self._replicas]


__all__ = ["CacheCounts"]
