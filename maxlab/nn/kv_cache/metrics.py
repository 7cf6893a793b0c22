"""Counters of a cache of keys and values."""

from __future__ import annotations

from dataclasses import astuple, dataclass


@dataclass
class KVCacheMetrics:
    """Counts of what a cache was asked for and did, since it was made or its metrics were reset.

    Two of them are added by ``+``.

    Attributes:
        input_tokens: Tokens of prompts that had to be computed.
        cache_tokens: Tokens of prompts whose keys and values were found in shared pages.
        evictions: Pages whose kept prefix gave way to other tokens.
        deduplicated: Pages given back because another one held the same prefix already.
        h2d_blocks_copied: Pages copied from the host to devices.
        d2h_blocks_copied: Pages copied from devices to the host.
        h2d_bytes_copied: Bytes of those that came from the host.
        d2h_bytes_copied: Bytes of those that went to the host.
        host_evictions: Pages on the host whose prefix gave way to others.

    Example:
        >>> both = KVCacheMetrics(input_tokens=96, cache_tokens=32) + KVCacheMetrics(evictions=1)
        >>> both.prompt_tokens, both.cache_hit_rate, both.evictions
        (128, 0.25, 1)
    """

    input_tokens: int = 0
    cache_tokens: int = 0
    evictions: int = 0
    deduplicated: int = 0
    h2d_blocks_copied: int = 0
    d2h_blocks_copied: int = 0
    h2d_bytes_copied: int = 0
    d2h_bytes_copied: int = 0
    host_evictions: int = 0

    @property
    def prompt_tokens(self) -> int:
        """Tokens of prompts, computed and found."""
        return self.input_tokens + self.cache_tokens

    @property
    def cache_hit_rate(self) -> float:
        """The part of the prompts' tokens that was found, in [0, 1]; 0 without a prompt."""
        return self.cache_tokens / self.prompt_tokens if self.prompt_tokens else 0.0

    def __add__(self, other: KVCacheMetrics) -> KVCacheMetrics:
        if not isinstance(other, KVCacheMetrics):
            return NotImplemented
        return KVCacheMetrics(*map(sum, zip(astuple(self), astuple(other), strict=True)))


__all__ = ["KVCacheMetrics"]
