"""The sizes of models that write text: of their texts, and of their caches."""

from __future__ import annotations

from typing import Any

from maxlab.driver import Device
from maxlab.dtype import DType
from maxlab.nn.kv_cache import KVCacheParams, KVCacheStrategy, PagedKVCacheManager
from maxlab.pipelines.core import TextContext
from maxlab.pipelines.lib.interfaces import KVCacheMixin, PipelineModel
from maxlab.pipelines.lib.utils import upper_bounded_default


class DecoderSizes(KVCacheMixin, PipelineModel[TextContext]):
    """A model that writes text, with the sizes that its checkpoint's configuration tells."""

    @staticmethod
    def text_config(huggingface_config: Any) -> Any:
        """The part of the configuration of a checkpoint that is about text: all of it.

        Args:
            huggingface_config: The configuration of the checkpoint.
        """
        return huggingface_config

    @classmethod
    def calculate_max_seq_len(cls, pipeline_config: Any, huggingface_config: Any) -> int:
        """The places that the checkpoint was trained for, or ``max_length`` of the pipeline.

        Args:
            pipeline_config: The configuration of the pipeline.
            huggingface_config: The configuration of the checkpoint.

        Raises:
            InputError: ML180 (a ValueError), ``max_length`` is larger than that.
        """
        return upper_bounded_default(
            cls.text_config(huggingface_config).max_position_embeddings, pipeline_config.max_length
        )

    @classmethod
    def get_num_layers(cls, huggingface_config: Any) -> int:
        """The number of layers.

        Args:
            huggingface_config: The configuration of the checkpoint.
        """
        return int(cls.text_config(huggingface_config).num_hidden_layers)

    @classmethod
    def get_kv_params(
        cls, huggingface_config: Any, n_devices: int, kv_cache_config: Any, cache_dtype: DType
    ) -> KVCacheParams:
        """The parameters of the cache.

        Args:
            huggingface_config: The configuration of the checkpoint.
            n_devices: The number of devices.
            kv_cache_config: How the cache is to be laid out.
            cache_dtype: The dtype of keys and values.

        Raises:
            ArgumentError: ML165, ML166 (each a ValueError), parameters that exclude one another.
        """
        config = cls.text_config(huggingface_config)
        heads = config.num_attention_heads
        swaps = kv_cache_config.enable_kvcache_swapping_to_host
        return KVCacheParams(
            dtype=cache_dtype,
            n_kv_heads=getattr(config, "num_key_value_heads", None) or heads,
            head_dim=getattr(config, "head_dim", None) or config.hidden_size // heads,
            page_size=kv_cache_config.kv_cache_page_size,
            cache_strategy=KVCacheStrategy.PAGED,
            enable_prefix_caching=kv_cache_config.enable_prefix_caching,
            enable_kvcache_swapping_to_host=swaps,
            host_kvcache_swap_space_gb=kv_cache_config.host_kvcache_swap_space_gb
            if swaps
            else None,
            n_devices=n_devices,
        )

    @classmethod
    def estimate_kv_cache_size(
        cls,
        pipeline_config: Any,
        available_cache_memory: int,
        devices: list[Device],
        huggingface_config: Any,
        kv_cache_config: Any,
        cache_dtype: DType,
    ) -> int:
        """The bytes that the pages of the cache take.

        Args:
            pipeline_config: The configuration of the pipeline.
            available_cache_memory: The bytes that the cache may take.
            devices: The devices.
            huggingface_config: The configuration of the checkpoint.
            kv_cache_config: How the cache is to be laid out.
            cache_dtype: The dtype of keys and values.

        Raises:
            ArgumentError: ML644 (a ValueError), a size of pages that the manager does not take.
        """
        return PagedKVCacheManager.estimated_memory_size(
            cls.get_kv_params(huggingface_config, len(devices), kv_cache_config, cache_dtype),
            pipeline_config.max_batch_size or 1,
            cls.calculate_max_seq_len(pipeline_config, huggingface_config),
            cls.get_num_layers(huggingface_config),
            available_cache_memory,
            devices,
        )


__all__ = ["DecoderSizes"]
