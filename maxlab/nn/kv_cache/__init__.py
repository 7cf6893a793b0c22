"""Caches of keys and values: their parameters, their pages, and who has which."""

from __future__ import annotations

from maxlab.nn.kv_cache.cache_params import KVCacheParams, KVCacheStrategy
from maxlab.nn.kv_cache.manager import KVCacheInputs, KVCacheInputsSequence, RaggedKVCacheInputs
from maxlab.nn.kv_cache.metrics import KVCacheMetrics
from maxlab.nn.kv_cache.paged_manager import PagedKVCacheManager
from maxlab.nn.kv_cache.values import PagedCacheInputSymbols, PagedCacheValues

__all__ = [
    "KVCacheInputs",
    "KVCacheInputsSequence",
    "KVCacheMetrics",
    "KVCacheParams",
    "KVCacheStrategy",
    "PagedCacheInputSymbols",
    "PagedCacheValues",
    "PagedKVCacheManager",
    "RaggedKVCacheInputs",
]
