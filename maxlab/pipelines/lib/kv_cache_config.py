"""The configuration of the cache of keys and values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from maxlab.nn.kv_cache import KVCacheStrategy
from maxlab.pipelines.lib.max_config import MAXConfig, help_of
from maxlab.pipelines.lib.settings import member, number, setting, switch, whole


@dataclass(repr=False)
class KVCacheConfig(MAXConfig):
    """How a pipeline caches keys and values.

    Raises:
        InputError: ML125, a setting that there is not; ML981, a value out of its range.
        InputTypeError: ML980, a value of the wrong type.

    Example:
        >>> KVCacheConfig(kv_cache_page_size=256, device_memory_utilization=0.5)
        KVCacheConfig(kv_cache_page_size=256, device_memory_utilization=0.5)
    """

    section: ClassVar[str] = "kv_cache_config"

    cache_strategy: KVCacheStrategy = setting(
        member(KVCacheStrategy),
        KVCacheStrategy.MODEL_DEFAULT,
        "How the cache is laid out; model_default leaves it to the architecture.",
    )
    kv_cache_page_size: int = setting(
        whole(1),
        128,
        "Tokens of a page. The manager of a cache takes multiples of 128.",
    )
    enable_prefix_caching: bool = setting(
        switch(), False, "Whether requests that begin alike share pages.", is_read=False
    )
    enable_kvcache_swapping_to_host: bool = setting(
        switch(),
        False,
        "Whether pages move to the memory of the host when the device is full.",
        is_read=False,
    )
    device_memory_utilization: float = setting(
        number(0, 1, above=True),
        0.9,
        "The part of the free memory of the device that the pipeline may take. The cache gets what "
        "weights and activations leave of it.",
    )
    host_kvcache_swap_space_gb: float = setting(
        number(0),
        50.0,
        "Memory of the host, in GiB, for pages that leave the device. Used only with "
        "enable_kvcache_swapping_to_host.",
        is_read=False,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self._available_cache_memory: int | None = None

    @property
    def available_cache_memory(self) -> int | None:
        """Bytes that the cache may take, which ``resolve()`` finds; None before."""
        return self._available_cache_memory

    @staticmethod
    def help() -> dict[str, str]:
        """The settings with their descriptions.

        Example:
            >>> sorted(KVCacheConfig.help())[0]
            'cache_strategy'
        """
        return dict(help_of(KVCacheConfig))


__all__ = ["KVCacheConfig", "KVCacheStrategy"]
