"""Caches of keys and values: their parameters."""

from __future__ import annotations

from maxlab.nn.kv_cache.cache_params import KVCacheParams, KVCacheStrategy

__all__ = ["KVCacheParams", "KVCacheStrategy"]
