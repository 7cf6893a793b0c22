"""Models with a cache of keys and values, and the manager of a pipeline's cache."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from maxlab.driver import Device
    from maxlab.dtype import DType
    from maxlab.engine import InferenceSession
    from maxlab.interfaces import Pipeline
    from maxlab.nn.kv_cache import KVCacheParams, PagedKVCacheManager
    from maxlab.pipelines.lib.config import PipelineConfig
    from maxlab.pipelines.lib.kv_cache_config import KVCacheConfig


@runtime_checkable
class KVCacheMixin(Protocol):
    """A model with a cache of keys and values says here how large the cache is and how it is made.

    Put it before `PipelineModel` among the bases of a model.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # Without it the protocol's own would end the chain to the __init__ of PipelineModel.
        super().__init__(*args, **kwargs)

    def load_kv_manager(
        self, session: InferenceSession, available_cache_memory: int | None
    ) -> PagedKVCacheManager:
        """The manager of the model's cache, for batches and texts as large as are configured.

        Args:
            session: The session that compiles and runs the model.
            available_cache_memory: The bytes that the cache may take; enough for a whole batch of
                the longest texts where it is None.

        Raises:
            ArgumentError: ML644, ML646, ML648 (each a ValueError), parameters that no paged cache
                can have, or memory for less than a page.
        """
        from maxlab.nn.kv_cache import PagedKVCacheManager

        model: Any = self  # a `PipelineModel` as well
        params = self.get_kv_params(
            model.huggingface_config,
            len(model.devices),
            model.kv_cache_config,
            model.encoding.cache_dtype,
        )
        return PagedKVCacheManager(
            params,
            max_batch_size=model.pipeline_config.max_batch_size or 1,
            max_seq_len=model.max_seq_len,
            num_layers=self.get_num_layers(model.huggingface_config),
            devices=model.devices,
            session=session,
            available_cache_memory=available_cache_memory,
        )

    @classmethod
    @abstractmethod
    def get_kv_params(
        cls,
        huggingface_config: Any,
        n_devices: int,
        kv_cache_config: KVCacheConfig,
        cache_dtype: DType,
    ) -> KVCacheParams:
        """The parameters of the model's cache.

        Args:
            huggingface_config: The configuration of the checkpoint, a ``PretrainedConfig``.
            n_devices: The number of devices.
            kv_cache_config: How the cache is to be laid out.
            cache_dtype: The dtype of keys and values.

        Raises:
            NotImplementedError: The class that extends this one calls it.
        """
        raise NotImplementedError

    @classmethod
    @abstractmethod
    def get_num_layers(cls, huggingface_config: Any) -> int:
        """The number of layers that have a cache.

        Args:
            huggingface_config: The configuration of the checkpoint, a ``PretrainedConfig``.

        Raises:
            NotImplementedError: The class that extends this one calls it.
        """
        raise NotImplementedError

    @classmethod
    @abstractmethod
    def estimate_kv_cache_size(
        cls,
        pipeline_config: PipelineConfig,
        available_cache_memory: int,
        devices: list[Device],
        huggingface_config: Any,
        kv_cache_config: KVCacheConfig,
        cache_dtype: DType,
    ) -> int:
        """The bytes that the cache takes on all devices, estimated before it is made.

        Args:
            pipeline_config: The configuration of the pipeline.
            available_cache_memory: The bytes that the cache may take.
            devices: The devices.
            huggingface_config: The configuration of the checkpoint, a ``PretrainedConfig``.
            kv_cache_config: How the cache is to be laid out.
            cache_dtype: The dtype of keys and values.

        Raises:
            NotImplementedError: The class that extends this one calls it.
        """
        raise NotImplementedError


def get_paged_manager(pipeline: Pipeline[Any, Any]) -> Any | None:
    """The manager of a pipeline's cache of keys and values; None where it has none.

    It is the first of the pipeline's ``kv_managers``, or else the ``kv_manager`` of its model. A
    pipeline of audio is asked for the pipeline that makes its speech tokens.

    Args:
        pipeline: The pipeline.

    Example:
        >>> from maxlab.interfaces import Pipeline
        >>> class Silent(Pipeline):
        ...     def execute(self, inputs):
        ...         return {}
        ...     def release(self, request_id):
        ...         pass
        >>> get_paged_manager(Silent()) is None
        True
    """
    managers = getattr(pipeline, "kv_managers", None)
    if managers:
        return managers[0]
    model = getattr(pipeline, "_pipeline_model", None)
    manager = getattr(model, "kv_manager", None)
    if manager is not None:
        return manager
    inner = getattr(pipeline, "speech_lm_pipeline", None)
    return None if inner is None else get_paged_manager(inner)


__all__ = ["KVCacheMixin", "get_paged_manager"]
